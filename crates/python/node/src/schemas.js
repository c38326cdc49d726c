// Schemas: companions and `inputSchema`, as JSON Schemas and as validators.

const isZod3 = (schema) => typeof schema?._def?.typeName === "string";
const isZod4 = (schema) => isObject(schema?._zod);
const KEYWORDS = ["type", "properties", "$ref", "anyOf", "allOf", "oneOf", "enum", "const", "$schema", "additionalProperties", "items"];

/** True if a value is an object of Zod types: `{name: z.string()}`. */
function isShape(schema) {
  const fields = isObject(schema) && !Array.isArray(schema) ? Object.values(schema) : [];
  return fields.length > 0 && fields.every((field) => isZod3(field) || isZod4(field) || isStandard(field));
}

const isStandard = (schema) => isObject(schema?.["~standard"]) && typeof schema["~standard"].validate === "function";

/** A schema as a JSON Schema of its input (or its output), for a module that may have its own Zod. */
function jsonOf(schema, io, file) {
  const made = jsonOrFunction(schema, io, file);
  const json = parse(stringify(made));
  delete json.$schema;
  delete json["~standard"];
  return json;
}

function jsonOrFunction(schema, io, file) {
  const standard = schema?.["~standard"]?.jsonSchema?.[io];
  if (isFunction(standard)) return standard({ target: "draft-2020-12" });
  if (isZod4(schema)) {
    const options = { io, target: "draft-2020-12" };
    if (isFunction(schema.toJSONSchema)) return schema.toJSONSchema(options);
    const zod = createRequire(file)("zod");
    return (zod.toJSONSchema ?? zod.z.toJSONSchema)(schema, options);
  }
  if (isZod3(schema)) {
    const defs = {};
    const json = schemaOfZod3(schema, defs);
    return Object.keys(defs).length ? { ...json, $defs: defs } : json;
  }
  if (isFunction(schema?.toJsonSchema)) return schema.toJsonSchema();
  if (isStandard(schema)) {
    throw new Told("refused", `its schema (of ${schema["~standard"].vendor}) has no JSON Schema: write the JSON Schema itself, or use Zod`);
  }
  if (isObject(schema?.jsonSchema)) return schema.jsonSchema; // `jsonSchema()` of the AI SDK.
  if (isShape(schema)) {
    const fields = Object.entries(schema).map(([name, field]) => [name, jsonOf(field, io, file)]);
    const required = fields.filter(([name, json]) => !("default" in json) && !accepts(schema[name])).map(([name]) => name);
    return { type: "object", properties: Object.fromEntries(fields), ...(required.length ? { required } : {}) };
  }
  if (isObject(schema) && !Array.isArray(schema) && KEYWORDS.some((keyword) => keyword in schema)) return schema;
  if (isObject(schema) && Object.keys(schema).length === 0) return { type: "object", properties: {} };
  throw new Told("refused", "its schema is no Zod type, no Standard Schema and no JSON Schema");
}

/** True if a field may be missing. */
function accepts(field) {
  if (isFunction(field.isOptional)) return field.isOptional();
  const told = field["~standard"]?.validate(undefined);
  return Boolean(told) && !(told instanceof Promise) && !told.issues;
}

/** Validates arguments with a schema, which may add defaults and transform them. */
async function validated(schema, args) {
  if (schema === undefined || schema === null) return args;
  if (isStandard(schema)) {
    const told = await schema["~standard"].validate(args);
    if (!told.issues) return told.value;
    throw invalid(told.issues);
  }
  if (isZod3(schema)) {
    const told = await schema.safeParseAsync(args);
    if (told.success) return told.data;
    throw invalid(told.error.issues);
  }
  if (isFunction(schema.validate) && isObject(schema.jsonSchema)) {
    const told = await schema.validate(args);
    if (told.success) return told.value;
    throw new Told("arguments", `the arguments are not valid: ${told.error?.message ?? told.error}`);
  }
  if (isShape(schema)) {
    const fields = await Promise.all(
      Object.entries(schema).map(async ([name, field]) => [name, await validated(field, args[name])]),
    );
    return Object.fromEntries(fields.filter(([, value]) => value !== undefined));
  }
  return args;
}

function invalid(issues) {
  const list = issues.map(({ path = [], message }) => {
    const at = path.map((step) => (isObject(step) ? step.key : step)).join(".");
    return `\n- ${at ? `${at}: ` : ""}${message}`;
  });
  return new Told("arguments", `the arguments are not valid:${list.join("")}`);
}
