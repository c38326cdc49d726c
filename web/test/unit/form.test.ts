import { describe, expect, test } from "vitest";
import { fieldOf, initial, member, same, validate, withMember, type Field } from "../../src/schema/form";
import type { Json } from "../../src/engine/records";

const object = (properties: Json, required: string[] = []): Json => ({
  type: "object",
  properties,
  required,
  additionalProperties: false,
});

const fields = (schema: Json): Record<string, Field> => {
  const { type } = fieldOf(schema);
  return Object.fromEntries(type.kind === "object" ? type.fields.map((field) => [field.name, field]) : []);
};

describe("fields", () => {
  test("all types of the shorthand", () => {
    const found = fields(
      object(
        {
          text: { type: "string", description: "Words." },
          day: { type: "string", format: "date" },
          n: { type: ["integer", "null"], minimum: 1 },
          x: { type: "number" },
          ok: { type: "boolean" },
          kind: { type: "string", enum: ["a", "b"] },
          maybe: { anyOf: [{ enum: ["a", "b"] }, { type: "null" }] },
          none: { type: ["string", "null"], enum: ["a", null] },
          tags: { type: "array", items: { type: "string" } },
          inner: object({ deep: { type: "array", items: object({ x: { type: "number" } }) } }),
          dir: { type: "string", format: "path" },
          any: {},
          open: { type: "object" },
        },
        ["text"],
      ),
    );
    expect(Object.fromEntries(Object.entries(found).map(([name, field]) => [name, field.type.kind]))).toEqual({
      text: "string",
      day: "string",
      n: "integer",
      x: "number",
      ok: "boolean",
      kind: "choice",
      maybe: "choice",
      none: "choice",
      tags: "list",
      inner: "object",
      dir: "path",
      any: "json",
      open: "json",
    });
    expect(Object.values(found).filter((field) => field.nullable).map((field) => field.name)).toEqual(["n", "maybe", "none"]);
    expect([found["text"]?.required, found["n"]?.required, found["text"]?.description]).toEqual([true, false, "Words."]);
    expect(found["none"]?.type).toEqual({ kind: "choice", options: ["a"] });
  });

  test("references, and those that go round in a circle", () => {
    const schema: Json = {
      $ref: "#/$defs/Tree",
      $defs: { Tree: object({ value: { $ref: "#/$defs/Value" }, left: { $ref: "#/$defs/Tree" } }), Value: { type: "integer" } },
    };
    const { type } = fieldOf(schema);
    expect(type.kind === "object" && type.fields[0]?.type.kind).toBe("integer");
    expect(fieldOf({ $ref: "#/$defs/A", $defs: { A: { $ref: "#/$defs/A" } } }).type.kind).toBe("json");
    expect(fieldOf({ $ref: "https://elsewhere.example/x" }).type.kind).toBe("json");
  });

  test("begin with defaults, and with what can be filled", () => {
    const field = fieldOf(object({ a: { type: "string", default: "x" }, b: { type: "array", items: {} }, c: { type: "string" } }, ["b"]));
    expect(initial(field)).toEqual({ a: "x", b: [] });
    expect(initial(fieldOf({ type: "array", items: { type: "string" } }))).toEqual([]);
  });
});

describe("checking", () => {
  const problems = (schema: Json, value: Json | undefined, patterns = true): Record<string, string> =>
    Object.fromEntries(validate(fieldOf(schema), value, patterns));

  test("says what is wrong, and where", () => {
    const schema = object(
      {
        n: { type: "integer", minimum: 1, maximum: 5 },
        name: { type: "string", minLength: 2, maxLength: 3 },
        day: { type: "string", format: "date" },
        kind: { enum: ["a"] },
        tags: { type: "array", items: { type: "string" }, maxItems: 1 },
      },
      ["n"],
    );
    expect(problems(schema, {})).toEqual({ "/n": "This is needed." });
    expect(problems(schema, { n: 9, name: "🙂", day: "2026-13-30", kind: "b", tags: [1] })).toEqual({
      "/n": "At most 5.",
      "/name": "At least 2 characters.",
      "/day": "Enter a date as 2026-01-31.",
      "/kind": "Choose one of the options.",
      "/tags/0": "Enter a text.",
    });
    expect(problems(schema, { n: 1.5 })).toEqual({ "/n": "Enter a whole number." });
    expect(problems(schema, { n: 1, more: 2 })).toEqual({ "": "There is no more here." });
    expect(problems(schema, { n: 3, name: "abc", day: "2026-02-28", kind: "a", tags: ["x"] })).toEqual({});
  });

  test("formats take what the engine takes", () => {
    const wrong = (format: string, value: string): boolean => Object.keys(problems({ type: "string", format }, value)).length > 0;
    for (const [format, good, bad] of [
      ["date-time", ["2026-01-31 14:30", "2026-01-31", "2026-01-31t14:30:00.5+0200", "2026-01-31T14:30:00Z"], ["2026-01-31  14:30", "14:30", "2026-01-31T24:00", "2026-01-31T14:30\n"]],
      ["time", ["14:30", "14:30:60", "14:30:00,25z"], ["1:30", "24:00", "14:30 "]],
      ["date", ["2026-02-28"], ["2026-2-8", "2026-01-32"]],
      ["uuid", ["6f1c1c1e-8f0b-4c39-9d43-0a3c7c1a2b4d", "6F1C1C1E8F0B4C399D430A3C7C1A2B4D"], ["6f1c1c1e"]],
    ] as const) {
      for (const value of good) expect(wrong(format, value), `${format} ${value}`).toBe(false);
      for (const value of bad) expect(wrong(format, value), `${format} ${value}`).toBe(true);
    }
  });

  test("patterns run only where their author is trusted", () => {
    const slow = { type: "string", pattern: "^(a+)+$" };
    const began = performance.now();
    expect(problems(slow, `${"a".repeat(40)}!`, false)).toEqual({});
    expect(performance.now() - began).toBeLessThan(200);
    expect(problems({ type: "string", pattern: "^a$" }, "b")).toEqual({ "": "This must match ^a$" });
    expect(problems({ type: "string", pattern: "(" }, "b")).toEqual({});
  });
});

test("no name of a member reaches a prototype", () => {
  const schema = JSON.parse('{"type":"object","properties":{"__proto__":{"type":"object","properties":{"x":{"type":"string"}}},"constructor":{"type":"string"}},"required":["constructor"]}') as Json;
  let value: Json = withMember({}, "__proto__", { polluted: true });
  value = withMember(value, "constructor", "mine");
  expect(JSON.stringify(value)).toBe('{"__proto__":{"polluted":true},"constructor":"mine"}');
  expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  expect(member({}, "constructor")).toBeUndefined();
  expect(member({}, "__proto__")).toBeUndefined();
  expect([...validate(fieldOf(schema), {}, true).keys()]).toEqual(["/constructor"]);
  expect(withMember(value, "constructor", undefined)).toEqual(JSON.parse('{"__proto__":{"polluted":true}}'));
});

test("equal JSON is equal", () => {
  expect(same({ a: 1, b: [null] }, { b: [null], a: 1 })).toBe(true);
  expect(same({ a: 1 }, { a: 1, b: 2 })).toBe(false);
  expect(same([1], [1, 2])).toBe(false);
});
