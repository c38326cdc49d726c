// Zod 3: its types as JSON Schemas. Zod 4 makes its own.

const TEXT_CHECKS = {
  min: (check) => ({ minLength: check.value }),
  max: (check) => ({ maxLength: check.value }),
  length: (check) => ({ minLength: check.value, maxLength: check.value }),
  email: () => ({ format: "email" }),
  url: () => ({ format: "uri" }),
  uuid: () => ({ format: "uuid" }),
  datetime: () => ({ format: "date-time" }),
  date: () => ({ format: "date" }),
  time: () => ({ format: "time" }),
  regex: (check) => ({ pattern: check.regex.source }),
};

const NUMBER_CHECKS = {
  int: () => ({ type: "integer" }),
  min: (check) => (check.inclusive ? { minimum: check.value } : { exclusiveMinimum: check.value }),
  max: (check) => (check.inclusive ? { maximum: check.value } : { exclusiveMaximum: check.value }),
  multipleOf: (check) => ({ multipleOf: check.value }),
};

/** The keywords of the checks that JSON Schema has. Zod itself makes all checks before the function is called. */
const checked = (type, checks, table) => Object.assign({ type }, ...(checks ?? []).map((check) => table[check.kind]?.(check)));

/** A type of Zod 3 as a JSON Schema of its input. `defs` collects recursive types. */
function schemaOfZod3(type, defs, above = new Map()) {
  const def = type._def;
  const inner = (one) => schemaOfZod3(one, defs, above);
  const kinds = {
    ZodString: () => checked("string", def.checks, TEXT_CHECKS),
    ZodNumber: () => checked("number", def.checks, NUMBER_CHECKS),
    ZodBoolean: () => ({ type: "boolean" }),
    ZodNull: () => ({ type: "null" }),
    ZodAny: () => ({}),
    ZodUnknown: () => ({}),
    ZodLiteral: () => ({ const: def.value }),
    ZodEnum: () => ({ enum: [...def.values] }),
    ZodNativeEnum: () => ({ enum: Object.keys(def.values).filter((key) => isNaN(Number(key))).map((key) => def.values[key]) }),
    ZodArray: () => {
      const [least, most] = [def.exactLength ?? def.minLength, def.exactLength ?? def.maxLength];
      return {
        type: "array",
        items: inner(def.type),
        ...(least ? { minItems: least.value } : {}),
        ...(most ? { maxItems: most.value } : {}),
      };
    },
    ZodTuple: () => ({
      type: "array",
      prefixItems: def.items.map(inner),
      minItems: def.items.length,
      items: def.rest ? inner(def.rest) : false,
    }),
    ZodObject: () => {
      const fields = Object.entries(def.shape());
      const required = fields.filter(([, field]) => !field.isOptional()).map(([name]) => name);
      const rest = def.catchall._def.typeName === "ZodNever" ? undefined : inner(def.catchall);
      return {
        type: "object",
        properties: Object.fromEntries(fields.map(([name, field]) => [name, inner(field)])),
        ...(required.length ? { required } : {}),
        ...(rest ? { additionalProperties: rest } : def.unknownKeys === "strict" ? { additionalProperties: false } : {}),
      };
    },
    ZodRecord: () => ({ type: "object", additionalProperties: inner(def.valueType), ...keysOfRecord(def.keyType, inner) }),
    ZodUnion: () => either(def.options.map(inner)),
    ZodDiscriminatedUnion: () => ({ anyOf: [...def.options.values()].map(inner) }),
    ZodIntersection: () => both(inner(def.left), inner(def.right)),
    ZodOptional: () => inner(def.innerType),
    ZodNullable: () => either([inner(def.innerType), { type: "null" }]),
    ZodDefault: () => ({ ...inner(def.innerType), default: def.defaultValue() }),
    ZodCatch: () => inner(def.innerType),
    ZodReadonly: () => inner(def.innerType),
    ZodBranded: () => inner(def.type),
    ZodEffects: () => inner(def.schema),
    ZodPipeline: () => inner(def.in),
    ZodLazy: () => {
      const target = def.getter();
      if (!above.has(target)) {
        const name = `recursive${above.size + 1}`;
        above.set(target, name);
        defs[name] = inner(target);
      }
      return { $ref: `#/$defs/${above.get(target)}` };
    },
  };
  const make = kinds[def.typeName];
  if (!make) {
    throw new Told("refused", `its schema holds a ${def.typeName}, which JSON can't hold: use another type, or write the JSON Schema`);
  }
  const schema = make();
  return type.description && schema.description === undefined ? { ...schema, description: type.description } : schema;
}

/** Any of these schemas. Bare types need no list of schemas. */
function either(schemas) {
  const isBare = (schema) => Object.keys(schema).length === 1 && typeof schema.type === "string";
  return schemas.every(isBare) ? { type: schemas.map(({ type }) => type) } : { anyOf: schemas };
}

/** Both of two schemas. Two objects without further keywords are one object with the fields of both. */
function both(left, right) {
  const isOpen = (schema) => schema.type === "object" && Object.keys(schema).every((key) => ["type", "properties", "required"].includes(key));
  if (!isOpen(left) || !isOpen(right)) return { allOf: [left, right] };
  const required = [...new Set([...(left.required ?? []), ...(right.required ?? [])])];
  const shared = Object.keys(left.properties).some((name) => name in right.properties);
  if (shared) return { allOf: [left, right] };
  return { type: "object", properties: { ...left.properties, ...right.properties }, ...(required.length ? { required } : {}) };
}

function keysOfRecord(type, inner) {
  if (type._def.typeName === "ZodString" && !type._def.checks?.length) return {};
  return { propertyNames: inner(type) };
}
