import { describe, expect, test } from "vitest";
import { Call } from "../../src/store/call";
import { codeOf, hasWords, hintOf, rowOf, shownChildren } from "../../src/store/call-words";
import { fieldsOf, groupsOf, textsOf } from "../../src/store/compare";
import { compared, routeOf } from "../../src/store/route.svelte";

function call(path: string, parent?: Call, fields: Partial<Call> = {}): Call {
  const made = Object.assign(new Call(path, parent, 100), fields);
  parent?.children.push(made);
  return made;
}

describe("values by field", () => {
  test("rows have the fields of both, in the order of the first", () => {
    const rows = fieldsOf({ a: 1, b: { c: [1, 2] }, d: "x" }, { b: { c: [1, 3, 4] }, d: "x", e: null });
    expect(rows.map((row) => [row.at, row.a, row.b, row.isSame])).toEqual([
      ["/a", 1, undefined, false],
      ["/b/c/0", 1, 1, true],
      ["/b/c/1", 2, 3, false],
      ["/b/c/2", undefined, 4, false],
      ["/d", "x", "x", true],
      ["/e", undefined, null, false],
    ]);
  });

  test("a value of another type is one row, and a name of a prototype is a name", () => {
    expect(fieldsOf({ a: [1] }, { a: { x: 1 } })).toHaveLength(1);
    expect(fieldsOf("text", undefined)).toEqual([{ at: "", a: "text", b: undefined, isSame: false }]);
    expect(fieldsOf({ constructor: 1 }, {}).map((row) => row.at)).toEqual(["/constructor"]);
  });

  test("only two texts of which one is long are compared by line", () => {
    expect(textsOf({ at: "", a: "one\ntwo", b: "one", isSame: false })).toEqual({ before: "one\ntwo", after: "one" });
    expect(textsOf({ at: "", a: "one", b: "two", isSame: false })).toBeUndefined();
    expect(textsOf({ at: "", a: "x".repeat(80), b: 7, isSame: false })).toBeUndefined();
  });
});

describe("words of calls", () => {
  test("a hint is the first text of the input, on one line", () => {
    expect(hintOf(call("0", undefined, { input: { n: 3, mail: { body: "  Dear\n all " } } }))).toBe("Dear all");
    expect(hintOf(call("0", undefined, { input: { n: 3 } }))).toBe('{"n":3}');
    expect(hintOf(call("0", undefined, { input: {} }))).toBe("");
    expect(hintOf(call("0", undefined, { input: "x".repeat(200) }), 10)).toBe("xxxxxxxxxx…");
  });

  test("a call is found by its input, output and failure, and again when it has changed", () => {
    const one = call("0/1.0", undefined, { name: "read", input: { path: "in/Mail.txt" }, ending: { output: [{ subject: "Spring\nhoney" }] } });
    for (const word of ["read", "0/1", "mail.txt", "spring honey", "subject"]) expect(hasWords(one, word), word).toBe(true);
    expect(hasWords(one, "autumn")).toBe(false);
    one.ending = { failure: { kind: "failed", message: "No autumn" } } as never;
    one.records.push({} as never);
    expect(hasWords(one, "autumn")).toBe(true);
    expect(hasWords(one, "spring")).toBe(false);
  });

  test("a worker of code and its function are one row", () => {
    const worker = call("0");
    const code = call("0/code", worker, { name: "run" });
    const tool = call("0/code/0.0", code, { name: "fetch" });
    expect(codeOf(worker)).toBe(code);
    expect(shownChildren(worker)).toEqual([tool]);
    expect(rowOf(code)).toBe(worker);
    expect(rowOf(tool)).toBe(tool);
    expect([...groupsOf(worker, 350).values()]).toEqual([{ name: "fetch", count: 1, failed: 0, ms: 250, cost: 0 }]);
  });
});

test("an address names both calls, or leaves the second to the page", () => {
  expect(routeOf(compared({ run: "r1", call: "0/1.0" }, { run: "r2", call: "0" }))).toEqual({
    page: "compare",
    a: { run: "r1", call: "0/1.0" },
    b: { run: "r2", call: "0" },
  });
  expect(routeOf(compared({ run: "r1", call: "0" }))).toMatchObject({ b: { run: "" } });
});
