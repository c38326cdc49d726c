import { describe, expect, test } from "vitest";
import type { Change, Json } from "../../src/engine/records";
import { changeOf, schemaFor } from "../../src/schema/arguments";
import { alternativeOf, fieldOf, initial, validate, type Field } from "../../src/schema/form";
import { placeOf, placesOf } from "../../src/schema/json-places";

const change = (before: string | null, after: string): Change => ({ preview: "change", path: "/out/a.txt", before, after });

describe("the change that edited arguments make", () => {
  test("a whole content takes the place of the content", () => {
    const given = { path: "out/a.txt", content: "new\n" };
    expect(changeOf(change(null, "new\n"), given, { ...given, content: "newer\n" })).toEqual(change(null, "newer\n"));
  });
  test("a text takes the place of another", () => {
    const given = { path: "/out/a.txt", old_text: "b", new_text: "$& B" };
    const of = change("a b c", "a $& B c");
    expect(changeOf(of, given, { ...given, new_text: "x" })?.after).toBe("a x c");
    expect(changeOf(of, given, { ...given, old_text: "a" })?.after).toBe("$& B b c");
    expect(changeOf(of, given, { ...given, old_text: "nowhere" })).toBeUndefined();
  });
  test("of another file, or by a tool that computes it, it is not known", () => {
    const given = { path: "out/a.txt", content: "new\n" };
    expect(changeOf(change(null, "new\n"), given, { ...given, path: "out/b.txt" })).toBeUndefined();
    expect(changeOf(change("a", "b"), { path: "out/a.txt", by: 3 }, { path: "out/a.txt", by: 4 })).toBeUndefined();
    expect(changeOf(change("a", "b"), "text", "other")).toBeUndefined();
  });
  test("arguments without a schema get the fields that they have", () => {
    const value: Json = { path: "a", n: 2, ok: true, tags: ["x"], mixed: [1, "a"], rows: [{ a: 1 }], none: null };
    const field = fieldOf(schemaFor(value));
    expect(validate(field, value, false).size).toBe(0);
    const kinds = field.type.kind === "object" ? field.type.fields.map((inner) => inner.type.kind) : [];
    expect(kinds).toEqual(["string", "integer", "boolean", "list", "json", "json", "json"]);
  });
});

describe("alternatives and maps", () => {
  const contact = fieldOf({
    oneOf: [
      { type: "object", title: "Mail", required: ["mail"], properties: { mail: { type: "string", minLength: 3 } } },
      { type: "object", required: ["phone"], properties: { kind: { const: "phone" }, phone: { type: "integer" } } },
      { type: "string", maxLength: 5 },
    ],
  });
  const options = contact.type.kind === "alternatives" ? contact.type.options : [];

  test("each has a name and its own fields", () => {
    expect(options.map((option) => option.title)).toEqual(["Mail", "phone", "text"]);
    expect(initial(contact)).toEqual({});
  });
  test("a value is of the alternative that it fits, and is checked as that", () => {
    expect([{ mail: "a@b" }, { phone: 3 }, "hi", 7].map((value) => alternativeOf(options, value as Json))).toEqual([0, 1, 2, 0]);
    expect(validate(contact, { phone: 3 }, false).size).toBe(0);
    expect([...validate(contact, { mail: "a" }, false)]).toEqual([["/mail", "At least 3 characters."]]);
    expect([...validate(contact, "too long", false)]).toEqual([["", "At most 5 characters; this has 8."]]);
  });
  test("null beside alternatives, single values, and schemas that contain themselves", () => {
    const maybe = fieldOf({ anyOf: [{ type: "string" }, { type: "integer" }, { type: "null" }] }, "x");
    expect([maybe.nullable, maybe.type.kind]).toEqual([true, "alternatives"]);
    expect(fieldOf({ oneOf: [{ const: "a" }, { const: 2 }] }).type).toEqual({ kind: "choice", options: ["a", 2] });
    const round: Json = { $ref: "#/$defs/x", $defs: { x: { anyOf: Array.from({ length: 9 }, () => ({ type: "array", items: { $ref: "#/$defs/x" } })) } } };
    const began = performance.now();
    fieldOf(round);
    expect(performance.now() - began).toBeLessThan(2000);
  });
  test("a map has rows, each of which is checked", () => {
    const map: Field = fieldOf({ type: "object", additionalProperties: { type: "integer", minimum: 1 }, maxProperties: 2 });
    expect(map.type.kind).toBe("map");
    expect([...validate(map, { a: 1, "b/c": 0 }, false)]).toEqual([["/b~1c", "At least 1."]]);
    expect(validate(map, { a: 1, b: 1, c: 1 }, false).get("")).toBe("At most 2 entries.");
    expect(fieldOf({ type: "object" }).type.kind).toBe("json");
  });
});

describe("places in a JSON text", () => {
  test("each value has its line and column, by pointer", () => {
    const text = '{\n  "a": [1, "x\\"]",\n    {"b/c": null}],\n  "d": ""\n}';
    const places = placesOf(text);
    expect(Object.fromEntries(places)).toEqual({
      "": { line: 1, column: 1 },
      "/a": { line: 2, column: 8 },
      "/a/0": { line: 2, column: 9 },
      "/a/1": { line: 2, column: 12 },
      "/a/2": { line: 3, column: 5 },
      "/a/2/b~1c": { line: 3, column: 13 },
      "/d": { line: 4, column: 8 },
    });
    expect(placeOf(places, "/d/missing/more")).toEqual({ line: 4, column: 8 });
  });
  test("a text that is no JSON ends the search", () => {
    for (const text of ["", "{", '{"a": [1,, 2', '{"a" 1}', "[".repeat(500), '{"a": "\\u00zz"}', "[1 2]"]) expect(placesOf(text).size).toBeGreaterThanOrEqual(0);
    expect(placeOf(placesOf(""), "/a")).toEqual({ line: 1, column: 1 });
  });
});
