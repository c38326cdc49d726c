/**
 * JSON Schemas as fields of a form, and values checked against them. A form covers what `parameters` and `returns` of
 * workers can say (`docs/reference/worker-files.md`); a schema that says more gets a field for JSON. The engine checks
 * every value again.
 */

import { isWide } from "../engine/json";
import type { Json, JsonObject } from "../engine/records";

export type FieldKind =
  | { kind: "string"; long: boolean; format: string | undefined }
  | { kind: "path" }
  | { kind: "integer" | "number"; minimum: Numeric | undefined; maximum: Numeric | undefined }
  | { kind: "boolean" }
  | { kind: "choice"; options: Json[] }
  | { kind: "list"; item: Field }
  /** Any number of names, each with a value. */
  | { kind: "map"; item: Field }
  | { kind: "alternatives"; options: Field[] }
  | { kind: "object"; fields: Field[] }
  | { kind: "json" };

export interface Field {
  /** The key in its object. Empty for the whole value and for the items of a list. */
  name: string;
  title: string;
  description: string;
  required: boolean;
  /** Whether `null` is a value. */
  nullable: boolean;
  untrusted: boolean;
  schema: JsonObject;
  type: FieldKind;
}

/** What is wrong with a value, by JSON pointer. */
export type Problems = ReadonlyMap<string, string>;

const DEEPEST = 8;
/** Most fields of a form. Schemas that refer to themselves in several places would have too many. */
const MOST_FIELDS = 3000;
const MOST_ALTERNATIVES = 20;

/** How many more fields a form may have. */
interface Left {
  fields: number;
}

export const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A member that the object itself has: never one of its prototype. */
export function member(value: Json | undefined, name: string): Json | undefined {
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** The object with another member. A name such as `__proto__` is a name like others. */
export function withMember(value: Json | undefined, name: string, to: Json | undefined): JsonObject {
  const entries = isObject(value) ? Object.entries(value).filter(([key]) => key !== name || to !== undefined) : [];
  if (to === undefined) return Object.fromEntries(entries);
  const at = entries.findIndex(([key]) => key === name);
  if (at === -1) entries.push([name, to]);
  else entries[at] = [name, to];
  return Object.fromEntries(entries);
}

const text = (value: Json | undefined): string => (typeof value === "string" ? value : "");
type Numeric = number | bigint;
const isNumeric = (value: Json | undefined): value is Numeric =>
  typeof value === "bigint" || (typeof value === "number" && Number.isFinite(value));
const number = (value: Json | undefined): Numeric | undefined => (isNumeric(value) ? value : undefined);

/** The field for a schema. */
export function fieldOf(schema: Json, name = "", required = true, root: Json = schema, depth = 0, left: Left = { fields: MOST_FIELDS }): Field {
  left.fields--;
  const resolved = resolve(schema, root);
  const { inner, nullable } = withoutNull(resolved, root);
  const annotation = (key: string): string => text(member(resolved, key)) || text(member(inner, key));
  return {
    name,
    title: annotation("title") || name,
    description: annotation("description"),
    required,
    nullable,
    untrusted: member(resolved, "untrusted") === true || member(inner, "untrusted") === true,
    schema: isObject(inner) ? inner : {},
    type: depth > DEEPEST || left.fields <= 0 ? { kind: "json" } : typeOf(inner, root, depth, left),
  };
}

/** Follows `$ref`s into the schema's own definitions. One that leads elsewhere, or round in a circle, is left. */
function resolve(schema: Json, root: Json): Json {
  let at = schema;
  for (let steps = 0; steps < 16; steps++) {
    const reference = member(at, "$ref");
    if (typeof reference !== "string" || !reference.startsWith("#/")) return at;
    let target: Json | undefined = root;
    for (const part of reference.slice(2).split("/")) {
      target = member(target, decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~"));
    }
    if (target === undefined) return at;
    const { $ref: _, ...beside } = at as JsonObject;
    at = isObject(target) ? { ...target, ...beside } : target;
  }
  return {};
}

function withoutNull(schema: Json, root: Json): { inner: Json; nullable: boolean } {
  const type = member(schema, "type");
  if (Array.isArray(type) && type.includes("null")) {
    const rest = type.filter((name) => name !== "null");
    const options = member(schema, "enum");
    let inner = withMember(schema, "type", rest.length === 1 ? rest[0] : rest);
    if (Array.isArray(options)) inner = withMember(inner, "enum", options.filter((option) => option !== null));
    return { inner, nullable: true };
  }
  const options = member(schema, "enum");
  if (Array.isArray(options) && options.includes(null)) {
    return { inner: withMember(schema, "enum", options.filter((option) => option !== null)), nullable: true };
  }
  const choices = member(schema, "anyOf") ?? member(schema, "oneOf");
  if (Array.isArray(choices)) {
    const rest = choices.map((choice) => resolve(choice, root)).filter((choice) => member(choice, "type") !== "null");
    if (rest.length === 1 && choices.length === 2) return { inner: rest[0] ?? {}, nullable: true };
    if (rest.length < choices.length) return { inner: schema, nullable: true };
  }
  return { inner: schema, nullable: false };
}

/** The alternatives of a schema as fields, or as a choice if each is one value. */
function alternativesOf(schema: Json, choices: Json[], root: Json, depth: number, left: Left): FieldKind {
  const resolved = choices.map((choice) => resolve(choice, root));
  const constants = resolved.map((choice) => (isObject(choice) && Object.hasOwn(choice, "const") ? (choice["const"] ?? null) : undefined));
  if (constants.every((constant) => constant !== undefined)) return { kind: "choice", options: constants };
  if (choices.length > MOST_ALTERNATIVES) return { kind: "json" };
  // Keywords beside the alternatives hold for each.
  const { anyOf: _, oneOf: _others, $defs: _defs, title: _title, description: _about, default: _default, ...beside } = isObject(schema) ? schema : {};
  const options = resolved.map((choice, index) => {
    const whole = isObject(choice) ? { ...beside, ...choice } : choice;
    const field = fieldOf(whole, "", true, root, depth + 1, left);
    return { ...field, title: field.title || alternativeTitle(field, index) };
  });
  return { kind: "alternatives", options };
}

/** A name for an alternative without a title: the value of its tag, its only property, or its type. */
function alternativeTitle({ type }: Field, index: number): string {
  if (type.kind === "object") {
    const tag = type.fields.find(({ type }) => type.kind === "choice" && type.options.length === 1);
    if (tag?.type.kind === "choice" && typeof tag.type.options[0] === "string") return tag.type.options[0];
    const needed = type.fields.filter((inner) => inner.required);
    const names = (needed.length > 0 ? needed : type.fields).map((inner) => inner.title);
    return names.slice(0, 3).join(", ");
  }
  const words: Partial<Record<FieldKind["kind"], string>> = { string: "text", choice: "one of a list", boolean: "yes or no", json: `alternative ${index + 1}` };
  return words[type.kind] ?? type.kind;
}

/** The alternative that a value is of: the first that it fits, else the nearest of its type. */
export function alternativeOf(options: readonly Field[], value: Json | undefined): number {
  if (value === undefined) return 0;
  const wrong = options.map((option) => validate(option, value, false));
  const fits = wrong.findIndex((problems) => problems.size === 0);
  if (fits !== -1) return fits;
  // The fewest problems tell apart alternatives of one type.
  const ofType = wrong.map((problems, index) => ({ index, count: problems.size })).filter(({ index }) => isOfType(options[index], value));
  return ofType.toSorted((a, b) => a.count - b.count)[0]?.index ?? 0;
}

function isOfType(field: Field | undefined, value: Json): boolean {
  switch (field?.type.kind) {
    case "object":
    case "map":
      return isObject(value);
    case "list":
      return Array.isArray(value);
    case "integer":
    case "number":
      return isNumeric(value);
    case "boolean":
      return typeof value === "boolean";
    case "string":
    case "path":
      return typeof value === "string";
    default:
      return false;
  }
}

function typeOf(schema: Json, root: Json, depth: number, left: Left): FieldKind {
  const choices = member(schema, "oneOf") ?? member(schema, "anyOf");
  if (Array.isArray(choices) && choices.length > 0) {
    const some = choices.filter((choice) => member(resolve(choice, root), "type") !== "null");
    if (some.length > 0) return alternativesOf(schema, some, root, depth, left);
  }
  const options = member(schema, "enum");
  if (Array.isArray(options) && options.length > 0 && options.length <= 500) return { kind: "choice", options };
  if (isObject(schema) && Object.hasOwn(schema, "const")) return { kind: "choice", options: [schema["const"] ?? null] };
  switch (member(schema, "type")) {
    case "string": {
      const format = text(member(schema, "format")) || undefined;
      if (format === "path") return { kind: "path" };
      const most = number(member(schema, "maxLength"));
      const short = format !== undefined || (most !== undefined && most <= 200);
      return { kind: "string", long: !short, format };
    }
    case "integer":
    case "number":
      return {
        kind: member(schema, "type") === "integer" ? "integer" : "number",
        minimum: number(member(schema, "minimum")),
        maximum: number(member(schema, "maximum")),
      };
    case "boolean":
      return { kind: "boolean" };
    case "array": {
      const items = member(schema, "items");
      return isObject(items) ? { kind: "list", item: fieldOf(items, "", true, root, depth + 1, left) } : { kind: "json" };
    }
    case "object": {
      const properties = member(schema, "properties");
      if (!isObject(properties) || Object.keys(properties).length === 0) {
        const values = member(schema, "additionalProperties");
        return isObject(values) && Object.keys(values).length > 0
          ? { kind: "map", item: fieldOf(values, "", true, root, depth + 1, left) }
          : { kind: "json" };
      }
      const required = member(schema, "required");
      const needed = new Set(Array.isArray(required) ? required : []);
      return {
        kind: "object",
        fields: Object.entries(properties).map(([name, property]) =>
          fieldOf(property, name, needed.has(name), root, depth + 1, left),
        ),
      };
    }
    default:
      return { kind: "json" };
  }
}

/** What a field begins with: its default, or nothing. Required objects and lists begin empty, so that they can be filled. */
export function initial(field: Field): Json | undefined {
  const given = member(field.schema, "default");
  if (given !== undefined) return given;
  const { type } = field;
  if (type.kind === "object" && field.required && !field.nullable) {
    let value: JsonObject = {};
    for (const inner of type.fields) value = withMember(value, inner.name, initial(inner));
    return value;
  }
  if (type.kind === "list" && field.required && !field.nullable) return [];
  if (type.kind === "map" && field.required && !field.nullable) return {};
  if (type.kind === "alternatives" && field.required && !field.nullable) return type.options[0] && initial(type.options[0]);
  if (type.kind === "boolean" && field.required && !field.nullable) return false;
  if (type.kind === "choice" && type.options.length === 1 && field.required) return type.options[0];
  return undefined;
}

export const pointer = (at: string, key: string | number): string =>
  `${at}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;

/** What is wrong with a value. `patterns`: whether the schema's author may run regular expressions in this page. */
export function validate(field: Field, value: Json | undefined, patterns: boolean): Problems {
  const problems = new Map<string, string>();
  look(field, value, "", patterns, problems);
  return problems;
}

function look(field: Field, value: Json | undefined, at: string, patterns: boolean, problems: Map<string, string>): void {
  const wrong = (message: string): void => void problems.set(at, message);
  if (value === undefined) {
    if (field.required) wrong("This is needed.");
    return;
  }
  if (value === null) {
    if (!field.nullable && field.type.kind !== "json") wrong("This is needed.");
    return;
  }
  const { type, schema } = field;
  switch (type.kind) {
    case "json":
      return;
    case "choice":
      if (!type.options.some((option) => same(option, value))) wrong("Choose one of the options.");
      return;
    case "boolean":
      if (typeof value !== "boolean") wrong("Choose yes or no.");
      return;
    case "integer":
    case "number": {
      if (!isNumeric(value)) return wrong("Enter a number.");
      if (type.kind === "integer" && typeof value === "number" && !Number.isInteger(value)) return wrong("Enter a whole number.");
      if (type.kind === "integer" && !Number.isSafeInteger(value) && !isWide(value)) return wrong("This number is too large.");
      const limits = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"].map((name) =>
        number(member(schema, name)),
      );
      const [least, most, above, below, step] = limits;
      if (least !== undefined && value < least) wrong(`At least ${least}.`);
      else if (most !== undefined && value > most) wrong(`At most ${most}.`);
      else if (above !== undefined && value <= above) wrong(`More than ${above}.`);
      else if (below !== undefined && value >= below) wrong(`Less than ${below}.`);
      else if (step !== undefined && !isMultiple(value, step)) wrong(`A multiple of ${step}.`);
      return;
    }
    case "path":
    case "string": {
      if (typeof value !== "string") return wrong("Enter a text.");
      const length = Array.from(value).length;
      const [least, most] = [number(member(schema, "minLength")), number(member(schema, "maxLength"))];
      if (least !== undefined && length < least) return wrong(least === 1 ? "This is needed." : `At least ${least} characters.`);
      if (most !== undefined && length > most) return wrong(`At most ${most} characters; this has ${length}.`);
      const format = type.kind === "string" && type.format !== undefined ? FORMATS.get(type.format) : undefined;
      if (format !== undefined && !format.pattern.test(value)) return wrong(format.message);
      const pattern = text(member(schema, "pattern"));
      if (patterns && pattern !== "" && !matches(pattern, value)) wrong(`This must match ${pattern}`);
      return;
    }
    case "alternatives": {
      const [first] = type.options;
      if (first === undefined) return;
      const option = type.options[alternativeOf(type.options, value)] ?? first;
      look({ ...option, required: true }, value, at, patterns, problems);
      return;
    }
    case "map": {
      if (!isObject(value)) return wrong("Enter an object.");
      const names = Object.keys(value);
      const [least, most] = [number(member(schema, "minProperties")), number(member(schema, "maxProperties"))];
      if (least !== undefined && names.length < least) wrong(`At least ${least} entries.`);
      else if (most !== undefined && names.length > most) wrong(`At most ${most} entries.`);
      for (const name of names) look(type.item, value[name], pointer(at, name), patterns, problems);
      return;
    }
    case "list": {
      if (!Array.isArray(value)) return wrong("Enter a list.");
      const [least, most] = [number(member(schema, "minItems")), number(member(schema, "maxItems"))];
      if (least !== undefined && value.length < least) wrong(`At least ${least} entries.`);
      else if (most !== undefined && value.length > most) wrong(`At most ${most} entries.`);
      value.forEach((item, index) => look(type.item, item, pointer(at, index), patterns, problems));
      return;
    }
    case "object": {
      if (!isObject(value)) return wrong("Enter an object.");
      for (const inner of type.fields) {
        look(inner, member(value, inner.name), pointer(at, inner.name), patterns, problems);
      }
      if (member(schema, "additionalProperties") !== false) return;
      const known = new Set(type.fields.map((inner) => inner.name));
      const unknown = Object.keys(value).find((name) => !known.has(name));
      if (unknown !== undefined) wrong(`There is no ${unknown} here.`);
    }
  }
}

function isMultiple(value: Numeric, step: Numeric): boolean {
  if (typeof value === "bigint" && Number.isInteger(Number(step)) && Number(step) !== 0) return value % BigInt(step) === 0n;
  const times = Number(value) / Number(step);
  return Math.abs(times - Math.round(times)) <= 1e-9;
}

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    // Not a pattern of this language. The engine knows.
    return true;
  }
}

// The engine's own patterns (`core/src/schema/keywords.rs`), so that the form refuses nothing that the engine takes.
const DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])";
const TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:([0-5][0-9]|60)([.,][0-9]{1,9})?)?([Zz]|[+-][0-9]{2}:?[0-9]{2})?";
const whole = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`);
const FORMATS = new Map([
  ["date", { pattern: whole(DATE), message: "Enter a date as 2026-01-31." }],
  ["time", { pattern: whole(TIME), message: "Enter a time as 14:30 or 14:30:00Z." }],
  ["date-time", { pattern: whole(`${DATE}([Tt ]${TIME})?`), message: "Enter a date and time as 2026-01-31 14:30 or 2026-01-31T14:30:00Z." }],
  ["uuid", { pattern: whole("[0-9A-Fa-f]{8}(-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}"), message: "Enter a UUID." }],
]);

/** Whether two values are the same JSON. The order of keys does not count. */
export function same(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, index) => same(item, b[index] ?? null));
  }
  if (!isObject(a) || !isObject(b)) return false;
  const [keys, others] = [Object.keys(a), Object.keys(b)];
  return keys.length === others.length && keys.every((key) => Object.hasOwn(b, key) && same(a[key] ?? null, b[key] ?? null));
}

/** A short form of the input of a worker: the only required text, which a plain message fills. */
export function messageField(field: Field): Field | undefined {
  if (field.type.kind !== "object") return undefined;
  const required = field.type.fields.filter((inner) => inner.required);
  const [only] = required.length > 0 ? required : field.type.fields.filter((inner) => inner.name === "input");
  const count = required.length > 0 ? required.length : 1;
  return count === 1 && (only?.type.kind === "string" || only?.type.kind === "json") ? only : undefined;
}
