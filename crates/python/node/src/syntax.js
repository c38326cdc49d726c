// Syntax: the tree of a program that a model wrote. Nothing of the program is run.
//
// Node takes the types out, and its own parser (acorn, behind `--expose-internals`) reads the rest. The tree has the kinds of
// nodes of Python's module `ast`, so that one check serves both languages; what Python has not gets a kind of its own.

/** Deepest nesting of a program. */
const MAX_SYNTAX_DEPTH = 100;

/** A program as JavaScript, with each word at its place in the source. */
const withoutTypes = (text) => stripTypeScriptTypes(text, { mode: "strip" });

/** The answer to `parse`: the nodes of a program as lists: kind, line, column, children by field, constants by field. */
function syntaxOf(text) {
  const problem = (message, line = 1, column = 1) => ({ problem: { message, line, column } });
  try {
    const { parse: read } = require("internal/deps/acorn/acorn/dist/acorn");
    const program = read(withoutTypes(text), { ecmaVersion: "latest", sourceType: "module", locations: true });
    const tree = new Tree(text);
    tree.statements("Module", program, { body: program.body });
    return { nodes: tree.nodes };
  } catch (error) {
    if (error instanceof RangeError || error?.code === "ERR_INTERNAL_ASSERTION") return problem("it is nested too deeply");
    if (error instanceof TooDeep) return problem(error.message);
    if (!(error instanceof SyntaxError) && !/_TYPESCRIPT_SYNTAX$/.test(String(error?.code))) throw error;
    const message = short(String(error.message).split("\n")[0].replace(/ \(\d+:\d+\)$/, ""));
    if (error.loc) return problem(`syntax error: ${message}`, error.loc.line, error.loc.column + 1);
    const at = /^[^\n]*:(\d+)\n(?:.*\n)*?( *)\^/.exec(String(error.stack ?? ""));
    return problem(`syntax error: ${message}`, at ? Number(at[1]) : 1, at ? at[2].length + 1 : 1);
  }
}

/** A program with deeper nesting than llm-do reads. */
class TooDeep extends Error {}

/** The names that a pattern sets. */
function namesIn(pattern, found = []) {
  if (pattern === null) return found;
  if (pattern.type === "Identifier") found.push(pattern);
  else if (pattern.type === "AssignmentPattern") namesIn(pattern.left, found);
  else if (pattern.type === "RestElement") namesIn(pattern.argument, found);
  else if (pattern.type === "ArrayPattern") for (const one of pattern.elements) namesIn(one, found);
  else if (pattern.type === "ObjectPattern") for (const one of pattern.properties) namesIn(one.value ?? one, found);
  return found;
}

/** The inner nodes of a node of acorn. */
function* inside(node) {
  for (const value of Object.values(node)) {
    for (const one of Array.isArray(value) ? value : [value]) if (typeof one?.type === "string") yield one;
  }
}

/** True if anything in a node sets a name. */
function sets(node, name) {
  const isIt = (target) => namesIn(target).some((one) => one.name === name);
  if (node.type === "AssignmentExpression" && isIt(node.left)) return true;
  if (node.type === "UpdateExpression" && isIt(node.argument)) return true;
  if (node.type === "VariableDeclarator" && isIt(node.id)) return true;
  if (["ForOfStatement", "ForInStatement"].includes(node.type) && isIt(node.left)) return true;
  for (const inner of inside(node)) if (sets(inner, name)) return true;
  return false;
}

/** The parts of `for (let i = 0; i < N && i < items.length; i++)`, or undefined for another loop. */
function countedLoop({ init, test, update, body }) {
  if (init?.type !== "VariableDeclaration" || !init.declarations.length || init.kind !== "let" || !test || !update) return undefined;
  const [{ id, init: start }] = init.declarations;
  if (id.type !== "Identifier" || start?.type !== "Literal" || !Number.isInteger(start.value)) return undefined;
  const isIndex = (node) => node?.type === "Identifier" && node.name === id.name;
  const isOne = update.type === "UpdateExpression" && update.operator === "++" && isIndex(update.argument);
  const isStep = update.type === "AssignmentExpression" && update.operator === "+=" && isIndex(update.left);
  const step = isOne ? 1 : isStep && update.right.type === "Literal" ? update.right.value : 0;
  if (!Number.isInteger(step) || step < 1 || sets(body, id.name) || sets(test, id.name)) return undefined;
  const ends = [];
  const conditions = [test];
  while (conditions.length) {
    const one = conditions.pop();
    if (one.type === "LogicalExpression" && one.operator === "&&") conditions.push(one.right, one.left);
    else if (one.type === "BinaryExpression" && ["<", "<="].includes(one.operator) && isIndex(one.left)) {
      ends.push({ end: one.right, inclusive: one.operator === "<=" });
    }
  }
  return ends.length ? { id, init, test, start: start.value, step, ends } : undefined;
}

const FUNCTIONS = ["FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"];

/** The nodes of a program, in the order in which they are added: a child comes after its parent. */
class Tree {
  constructor(text) {
    this.nodes = [];
    this.lines = text.split("\n");
    this.depth = 0;
  }

  /** Adds a node. Its fields are nodes of acorn, lists of them, or functions that add nodes. */
  add(kind, at, fields = {}, constants = {}) {
    if (++this.depth > MAX_SYNTAX_DEPTH) throw new TooDeep(`it is nested more than ${MAX_SYNTAX_DEPTH} levels deep`);
    const number = this.nodes.length;
    const { line, column } = at.loc.start;
    // Columns count characters, and acorn counts halves of some.
    const before = (this.lines[line - 1] ?? "").slice(0, column);
    const wide = /[\ud800-\udfff]/.test(before) ? [...before].length : column;
    const children = {};
    this.nodes.push([kind, line, wide + 1, children, constants]);
    for (const [field, value] of Object.entries(fields)) {
      children[field] = (Array.isArray(value) ? value : [value])
        .filter((one) => one !== undefined)
        .flatMap((one) => (one === null ? -1 : typeof one === "function" ? one() : this.node(one)));
    }
    this.depth--;
    return number;
  }

  /** Adds a node with statements. Functions that are constants at the top level are functions with that name. */
  statements(kind, at, { body, ...fields }, constants) {
    const list = body.flatMap((one) => this.declared(one, kind === "Module"));
    return this.add(kind, at, { ...fields, body: list }, constants);
  }

  /** The nodes of one statement. */
  declared(node, isTop) {
    const inner = (node.type === "ExportNamedDeclaration" || node.type === "ExportDefaultDeclaration") && node.declaration;
    if (inner) return this.declared(inner, isTop);
    if (node.type !== "VariableDeclaration") return [node];
    return node.declarations.map((one) => {
      const { id, init } = one;
      const isFunction = isTop && node.kind === "const" && id.type === "Identifier" && FUNCTIONS.includes(init?.type);
      return () => (isFunction ? this.function(init, id.name, one) : this.assign(id, init, one));
    });
  }

  assign(target, value, at) {
    // A pattern sets parts of the value, which are not known.
    const kind = target.type === "Identifier" || target.type === "MemberExpression" ? "Assign" : "AugAssign";
    const targets = kind === "Assign" ? { targets: target } : { target };
    return this.add(kind, at, { ...targets, value: value ?? undefined });
  }

  function(node, name, at = node) {
    const own = node.params.map((param) => (param.type === "AssignmentPattern" ? param.left : param));
    const parameter = (one) => () => this.add("arg", one, {}, { arg: one.type === "Identifier" ? one.name : "" });
    const patterns = own.filter((one) => one.type !== "Identifier").flatMap((one) => namesIn(one));
    const defaults = node.params.filter((one) => own.indexOf(one) < 0 || one.type !== "Identifier");
    const args = () =>
      this.add("arguments", node, {
        args: own.map(parameter),
        kwonlyargs: patterns.map((one) => parameter(one)),
        defaults: defaults.map((one) => (one.type === "AssignmentPattern" ? one.right : one)),
      });
    const kind = name === undefined ? "Lambda" : "FunctionDef";
    const constants = name === undefined ? {} : { name };
    if (node.body.type === "BlockStatement") return this.statements(kind, at, { args, body: node.body.body }, constants);
    const result = kind === "Lambda" ? { result: node.body } : { body: () => this.add("Return", node.body, { value: node.body }) };
    return this.add(kind, at, { args, ...result }, constants);
  }

  /** A property's name as a node. */
  key(property) {
    if (property.type === "SpreadElement") return null;
    const { key, computed } = property;
    if (computed || key.type !== "Identifier") return key;
    return () => this.add("Constant", key, {}, { value: key.name });
  }

  /** Adds a node of acorn, and returns its number. */
  node(node) {
    const add = (kind, fields, constants) => this.add(kind, node, fields, constants);
    switch (node.type) {
      case "FunctionDeclaration":
        return this.function(node, node.id?.name ?? "");
      case "FunctionExpression":
      case "ArrowFunctionExpression":
        return this.function(node);
      case "ClassDeclaration":
      case "ClassExpression":
        return add("ClassDef", { bases: node.superClass ?? undefined, body: node.body.body });
      case "ImportDeclaration":
        return add("ImportFrom", {}, { module: String(node.source.value), names: node.specifiers.map((one) => one.imported?.name ?? "*") });
      case "ExportAllDeclaration":
        return add("ImportFrom", {}, { module: String(node.source.value), names: ["*"] });
      case "ExportNamedDeclaration":
        return node.source ? add("ImportFrom", {}, { module: String(node.source.value), names: ["*"] }) : add("Pass");
      case "ImportExpression":
        return add("Call", { func: () => add("Name", {}, { id: "import" }), args: [node.source] });
      case "MetaProperty":
        return add("Name", {}, { id: `${node.meta.name}.${node.property.name}` });
      case "VariableDeclaration":
        return add("Block", { body: this.declared(node, false) });
      case "AssignmentExpression":
        if (node.operator === "=") return this.assign(node.left, node.right, node);
        return add("AugAssign", { target: node.left, value: node.right });
      case "UpdateExpression":
        return add("AugAssign", { target: node.argument });
      case "ExpressionStatement":
        return add("Expr", { value: node.expression });
      case "ReturnStatement":
        return add("Return", { value: node.argument ?? undefined });
      case "IfStatement":
        return add("If", { test: node.test, body: node.consequent, orelse: node.alternate ?? undefined });
      case "ConditionalExpression":
        return add("IfExp", { test: node.test, body: node.consequent, orelse: node.alternate });
      case "ForOfStatement":
      case "ForInStatement": {
        const target = node.left.type === "VariableDeclaration" ? node.left.declarations[0].id : node.left;
        // The names of an object's fields: also inherited ones.
        const iter = node.type === "ForOfStatement" ? node.right : () => add("Keys", { value: node.right });
        return add("For", { target, iter, body: node.body });
      }
      case "ForStatement": {
        const counted = countedLoop(node);
        if (!counted) {
          return add("While", { test: [node.init ?? undefined, node.test ?? undefined, node.update ?? undefined], body: node.body });
        }
        const { id, init, test, start, step, ends } = counted;
        const inclusive = ends.map((one) => one.inclusive);
        const iter = () => add("Counted", { ends: ends.map((one) => one.end) }, { start, step, inclusive });
        return add("For", { target: id, iter, orelse: [init, test], body: node.body });
      }
      case "WhileStatement":
      case "DoWhileStatement":
        return add("While", { test: node.test, body: node.body });
      case "BlockStatement":
      case "StaticBlock":
        return this.statements("Block", node, { body: node.body });
      case "TryStatement": {
        const caught = node.handler?.param ? namesIn(node.handler.param) : [];
        const handler = () =>
          this.statements("Catch", node.handler, { target: caught, body: node.handler.body.body });
        return add("Try", { body: node.block, handlers: node.handler ? handler : undefined, finalbody: node.finalizer ?? undefined });
      }
      case "CallExpression":
      case "NewExpression":
        return add(node.type === "NewExpression" ? "New" : "Call", { func: node.callee, args: node.arguments });
      case "TaggedTemplateExpression":
        return add("Call", { func: node.tag, args: [() => add("List", { elts: [] }), ...node.quasi.expressions] });
      case "MemberExpression": {
        const { object, property, computed } = node;
        const name = computed ? (typeof property.value === "string" ? property.value : undefined) : property.name;
        if (name !== undefined) return add("Attribute", { value: object }, { attr: name, computed });
        return add("Subscript", { value: object, slice: property });
      }
      case "ChainExpression":
      case "ParenthesizedExpression":
        return this.node(node.expression);
      case "AwaitExpression":
        return add("Await", { value: node.argument });
      case "LabeledStatement":
        return this.node(node.body);
      case "BreakStatement":
      case "ContinueStatement":
        return add("Pass");
      case "Property":
      case "PropertyDefinition":
      case "MethodDefinition":
        return add(node.type, { parts: [node.computed ? node.key : undefined, node.value ?? undefined] });
      case "SpreadElement":
      case "RestElement":
        return add("Starred", { value: node.argument });
      case "ArrayExpression":
        return add("List", { elts: node.elements.map((one) => one ?? (() => add("Constant", {}, { value: null }))) });
      case "ObjectExpression": {
        const { properties } = node;
        return add("Dict", {
          keys: properties.map((one) => this.key(one)),
          values: properties.map((one) => (one.type === "SpreadElement" ? one.argument : one.value)),
        });
      }
      case "Literal": {
        const isPlain = node.value === null || ["string", "boolean", "number"].includes(typeof node.value);
        const value = node.regex ? { type: "RegExp" } : isPlain ? node.value : { type: typeof node.value };
        return add("Constant", {}, { value });
      }
      case "TemplateLiteral":
        if (!node.expressions.length) return add("Constant", {}, { value: node.quasis[0].value.cooked ?? "" });
        return add("JoinedStr", { values: node.expressions });
      case "Identifier":
        return node.name === "undefined" ? add("Constant", {}, { value: { type: "undefined" } }) : add("Name", {}, { id: node.name });
      case "ThisExpression":
        return add("Name", {}, { id: "this" });
      case "LogicalExpression":
        return add("BoolOp", { values: [node.left, node.right] });
      case "UnaryExpression": {
        const op = () => add(node.operator === "-" ? "USub" : "Op");
        return add("UnaryOp", { op, operand: node.argument });
      }
    }
    // Every other node is its parts: nothing of them is left out.
    return add(node.type, { parts: [...inside(node)] });
  }
}
