// Docs: the comment above a function (JSDoc), and the types in it as JSON Schemas.

const DECLARATION =
  /\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?(?:function\s*\*?\s*[\w$]*|(?:const|let|var)\s+[\w$]+[^;{}]*=\s*(?:async\s+)?(?:function\s*\*?\s*[\w$]*)?)?\s*$/;

/** The comment above a function, as `{description, params: [{name, type, optional, fallback, description}], returns}`. */
function docOf(before) {
  const found = DECLARATION.exec(before);
  if (!found) return undefined;
  const text = found[1].replace(/^[ \t]*\*[ \t]?/gm, "").replace(/\r/g, "");
  const [description, ...tags] = text.split(/^[ \t]*@(?=[a-zA-Z])/m);
  const doc = { description: description.trim(), params: [], returns: undefined };
  for (const tag of tags) {
    const [, word, rest] = /^([a-zA-Z]+)\s*([\s\S]*)$/.exec(tag);
    if (["param", "arg", "argument"].includes(word)) doc.params.push(paramOf(rest));
    if (["returns", "return"].includes(word)) doc.returns = typeText(rest)[0];
  }
  return doc;
}

/** The type in braces at the start of a tag, and the text after it. */
function typeText(text) {
  if (!text.startsWith("{")) return [undefined, text];
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "{") depth++;
    if (text[at] === "}" && --depth === 0) return [text.slice(1, at).trim(), text.slice(at + 1).trimStart()];
  }
  throw new Told("refused", `its comment has a type that is not closed: \`{${short(text.slice(1, 60))}\``);
}

function paramOf(text) {
  const [type, rest] = typeText(text);
  const found = /^(\[)?\s*([\w$.]+)\s*(?:=\s*([^\]]*))?\]?\s*(?:-\s*)?([\s\S]*)$/.exec(rest);
  if (!found) throw new Told("refused", `its comment has an \`@param\` without a name: \`@param ${short(text.slice(0, 60))}\``);
  const optional = Boolean(found[1]) || Boolean(type?.endsWith("="));
  return { name: found[2], type: type?.replace(/=$/, ""), optional, fallback: found[3], description: found[4].trim() };
}

const WORDS = {
  string: { type: "string" },
  number: { type: "number" },
  integer: { type: "integer" },
  int: { type: "integer" },
  boolean: { type: "boolean" },
  bool: { type: "boolean" },
  null: { type: "null" },
  any: {},
  unknown: {},
  "*": {},
  object: { type: "object" },
  Object: { type: "object" },
  String: { type: "string" },
  Number: { type: "number" },
  Boolean: { type: "boolean" },
};

/** A type of a comment as a JSON Schema. */
function schemaOfType(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|-?\d+(?:\.\d+)?|[\w$.]+|\S/g) ?? [];
  let at = 0;
  const refuse = () => {
    throw new Told(
      "refused",
      `the type \`${text}\` of its comment is not understood: write it with string, number, integer, boolean, null, literals, ` +
        "T[], Record<string, T>, {a: T, b?: T} and |, or write a companion schema",
    );
  };
  const is = (token) => tokens[at] === token && (at++, true);
  const must = (token) => is(token) || refuse();
  const union = () => {
    is("|");
    const parts = [suffixed()];
    while (is("|")) parts.push(suffixed());
    if (parts.length === 1) return parts[0];
    if (parts.every((part) => "const" in part)) return { enum: parts.map((part) => part.const) };
    return { anyOf: parts };
  };
  const suffixed = () => {
    const nullable = is("?");
    is("!");
    let schema = single();
    while (is("[")) {
      must("]");
      schema = { type: "array", items: schema };
    }
    return nullable ? { anyOf: [schema, { type: "null" }] } : schema;
  };
  const single = () => {
    const token = tokens[at++] ?? refuse();
    if (token === "(") {
      const inner = union();
      must(")");
      return inner;
    }
    if (token === "{") return fields();
    if (/^["']/.test(token)) return { const: token.slice(1, -1).replace(/\\(.)/g, "$1") };
    if (/^-?\d/.test(token)) return { const: Number(token) };
    if (token === "true" || token === "false") return { const: token === "true" };
    const name = token.replace(/\.$/, "");
    if (["Array", "Record", "Object", "object", "Promise"].includes(name) && is("<")) {
      const of = [union()];
      while (is(",")) of.push(union());
      must(">");
      if (name === "Array" && of.length === 1) return { type: "array", items: of[0] };
      if (name === "Promise" && of.length === 1) return of[0];
      if (of.length === 2 && of[0].type === "string") return { type: "object", additionalProperties: of[1] };
      return refuse();
    }
    return Object.hasOwn(WORDS, token) ? { ...WORDS[token] } : refuse();
  };
  const fields = () => {
    const schema = { type: "object", properties: {}, required: [], additionalProperties: false };
    while (!is("}")) {
      const name = (tokens[at++] ?? refuse()).replace(/^["']|["']$/g, "");
      const optional = is("?");
      must(":");
      schema.properties[name] = union();
      if (!optional) schema.required.push(name);
      if (!is(",")) is(";");
    }
    return schema;
  };
  const schema = union();
  return at === tokens.length ? schema : refuse();
}

/** True if a type is that of the context, which no model gives. */
const isContext = (param) => /(^|\.)(Async)?ToolContext$/.test(param.type ?? "");

/** The texts of a function's parameters. */
function parametersOf(target) {
  const text = Function.prototype.toString.call(target);
  const arrow = /^(?:async\s+)?([\w$]+)\s*=>/.exec(text);
  if (arrow) return [arrow[1]];
  const found = [];
  let depth = 0, quote = "", item = "";
  for (let at = text.indexOf("(") + 1; at > 0 && at < text.length; at++) {
    const c = text[at];
    if (quote) {
      if (c === "\\") item += text[at++];
      else if (c === quote) quote = "";
    } else if ("\"'`".includes(c)) quote = c;
    else if (c === "/" && "/*".includes(text[at + 1])) {
      const end = text[at + 1] === "/" ? text.indexOf("\n", at) : text.indexOf("*/", at) + 1;
      at = end < at ? text.length : end;
      continue;
    } else if ("([{".includes(c)) depth++;
    else if (")]}".includes(c) && depth-- === 0) break;
    else if (c === "," && depth === 0) {
      found.push(item.trim());
      item = "";
      continue;
    }
    item += text[at];
  }
  return [...found, item.trim()].filter(Boolean);
}

/** The signature that a comment declares: `{input, positions, description, output}`; `positions` says how to call it. */
function signatureOf(target, doc) {
  const parameters = parametersOf(target).map((text) => /^[\w$]+/.exec(text)?.[0]);
  const tags = doc.params.filter((param) => !param.name.includes("."));
  const order = parameters.map((name, at) => tags.find((tag) => tag.name === name) ?? (name ? undefined : tags[at]));
  const input = { type: "object", properties: {}, required: [], additionalProperties: false };
  const positions = [];
  order.forEach((tag, at) => {
    const name = parameters[at] ?? tag?.name ?? `#${at + 1}`;
    if (tag ? isContext(tag) : at > 0 && ["ctx", "context"].includes(name)) return positions.push({ context: true });
    if (!tag?.type) {
      throw new Told("refused", `its parameter \`${name}\` has no type: write \`@param {string} ${name}\` in the comment above it, or a companion schema`);
    }
    const schema = tag.fields ?? withFields(schemaOfType(tag.type), tag.name, doc.params);
    if (tag.description) schema.description = tag.description;
    const fallback = tag.fallback?.trim();
    if (fallback) {
      try {
        schema.default = parse(fallback.replace(/^'(.*)'$/, '"$1"'));
      } catch {
        // The function's own default holds.
      }
    }
    input.properties[name] = schema;
    if (!tag.optional) input.required.push(name);
    return positions.push({ name });
  });
  const given = positions.filter((position) => position.name);
  const only = given.length === 1 ? input.properties[given[0].name] : undefined;
  const isWhole = only?.properties !== undefined && positions[0].name !== undefined;
  if (isWhole) positions[0] = { whole: true };
  let output;
  try {
    if (doc.returns && !["void", "undefined", "Promise<void>"].includes(doc.returns)) output = schemaOfType(doc.returns);
  } catch {
    // A type of a result only describes it.
  }
  if (output && !Object.keys(output).length) output = undefined;
  return { input: isWhole ? only : input, positions, description: doc.description, output };
}

/** Adds the fields that a comment describes as `@param {string} options.name`. */
function withFields(schema, name, params) {
  const fields = params.filter((param) => param.name.startsWith(`${name}.`));
  if (!fields.length || schema.type !== "object") return schema;
  const made = { type: "object", properties: {}, required: [], additionalProperties: false };
  for (const field of fields) {
    const own = field.name.slice(name.length + 1);
    if (own.includes(".")) continue;
    if (!field.type) throw new Told("refused", `\`@param ${field.name}\` has no type: write \`@param {string} ${field.name}\``);
    const inner = withFields(schemaOfType(field.type), field.name, params);
    made.properties[own] = field.description ? { ...inner, description: field.description } : inner;
    if (!field.optional) made.required.push(own);
  }
  return made;
}
