// Modules: imports, and the tools among the exports of a module.

/** What `import … from "llm-do"` gives in a tool. Programs are started from outside of a run. */
const OWN = `
const own = globalThis[Symbol.for("llm-do.own")];
export const { tool, CallError, Retry } = own;
const refuse = (name) => () => { throw new Error(\`llm-do's \${name} is for programs outside of a run: a tool calls workers with ctx.call\`); };
export const load = refuse("load");
`;

const OPTIONS = [
  "name", "description", "inputSchema", "outputSchema", "execute", "needsApproval", "risk", "parallel", "untrusted",
];

/** Marks a tool: `export const greet = tool({description, inputSchema, execute})`. */
function tool(options) {
  if (options === null || typeof options !== "object") throw new TypeError("tool({…}) takes an object");
  for (const key of Object.keys(options)) {
    if (!OPTIONS.includes(key)) throw new TypeError(`tool({…}) has no option \`${key}\`; there are: ${OPTIONS.join(", ")}`);
  }
  if (typeof options.execute !== "function") throw new TypeError("tool({…}) needs a function `execute`");
  return { ...options };
}

globalThis[Symbol.for("llm-do.own")] = { tool, CallError, Retry };

/** The texts of modules that are in no file, by their addresses. */
const texts = new Map();

registerHooks({
  resolve(specifier, context, next) {
    if (texts.has(specifier)) return { url: specifier, format: "module", shortCircuit: true };
    return specifier === "llm-do" ? { url: "llm-do:own", format: "module", shortCircuit: true } : next(specifier, context);
  },
  load(url, context, next) {
    if (texts.has(url)) return { format: "module", source: texts.get(url), shortCircuit: true };
    return url === "llm-do:own" ? { format: "module", source: OWN, shortCircuit: true } : next(url, context);
  },
});

const imported = new Map();

/** The exports of a module, by name. Those of a CommonJS module are the properties of what it exports. */
function exportsOf(file) {
  if (!imported.has(file)) {
    const loading = import(pathToFileURL(file).href).then((namespace) => {
      const names = Object.keys(namespace).filter((name) => name !== "module.exports");
      const only = namespace.default;
      if (names.length === 1 && names[0] === "default" && only !== null && typeof only === "object" && !isTool(only)) {
        return new Map(Object.entries(only));
      }
      return new Map(names.map((name) => [name, namespace[name]]));
    });
    loading.catch(() => imported.delete(file));
    imported.set(file, loading);
  }
  return imported.get(file);
}

const isObject = (value) => value !== null && typeof value === "object";
const isFunction = (value) => typeof value === "function" && !/^class\b/.test(Function.prototype.toString.call(value));
const schemaOf = (value) => value.inputSchema ?? value.parameters ?? value.input_schema;

/** True if a value is a tool as an object: of ours, of the AI SDK, or written by hand. */
function isTool(value) {
  return isObject(value) && (isFunction(value.execute) || (schemaOf(value) !== undefined && "description" in value));
}

/** The tools among the exports of a module: `{name, key, function, schema, options}`. */
function toolsOf(exports, names) {
  const of = (key, value) => {
    if (isTool(value)) {
      const name = typeof value.name === "string" ? value.name : key;
      return { name, key, function: value.execute, schema: schemaOf(value), options: value, receiver: value };
    }
    if (!isFunction(value)) return undefined;
    const schema = exports.get(`${key}Schema`);
    return { name: key === "default" && value.name ? value.name : key, key, function: value, schema, options: {} };
  };
  const all = [...exports].map(([key, value]) => of(key, value)).filter(Boolean);
  if (names.length) {
    return names.map((name) => {
      const found = all.find((tool) => tool.name === name) ?? all.find((tool) => tool.key === name);
      return found ?? { name, key: name, absent: true };
    });
  }
  return all.filter((tool) => !tool.key.startsWith("_"));
}
