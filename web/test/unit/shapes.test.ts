import { expect, test } from "vitest";
import { EngineError } from "../../src/engine/engine";
import { notice, parsed, run, runs, session, waiting, type Shape } from "../../src/engine/shapes";

const RUN = { run: "r", program: "p", worker: "w", chat: false, client: "c", state: "done" };
const QUESTION = {
  run: "r", program: "p", client: "c", call: "0", step: "ask", digest: "d", question: "approval", chain: [], function: "f", risk: "write", input: 1, rule: "r",
};

function refused(shape: Shape<unknown>, value: unknown): void {
  expect(() => parsed(JSON.stringify(value), shape), JSON.stringify(value)).toThrow(EngineError);
}

test("a value of another shape is an error that names the place", () => {
  expect(parsed(JSON.stringify({ runs: [RUN] }), runs).runs).toEqual([RUN]);
  expect(() => parsed(JSON.stringify({ runs: [RUN, { ...RUN, state: 5 }] }), runs)).toThrow("runs[1].state");
  for (const name of Object.keys(RUN)) {
    for (const wrong of [null, 5, [], {}, undefined]) refused(run, { ...RUN, [name]: wrong });
  }
  for (const wrong of [null, 5, "text", [], [RUN], true]) refused(run, wrong);
});

test("numbers are finite and states are known", () => {
  expect(() => parsed('{"count":1e999}', (value) => notice("questions", JSON.stringify(value)))).toThrow(EngineError);
  expect(() => notice("questions", '{"count":1e999}')).toThrow(EngineError);
  expect(notice("questions", '{"count":3}')).toEqual({ notice: "questions", count: 3 });
  refused(run, { ...RUN, state: "toString" });
  refused(session, { name: "a", scopes: ["start", "root"], read: "own", version: "1" });
});

test("names that the page does not know do not reach it", () => {
  const read = parsed(`{"__proto__":{"scopes":["edit"]},"toString":1,"name":"a","scopes":[],"read":"own","version":"1"}`, session);
  expect(Object.keys(read).sort()).toEqual(["name", "read", "scopes", "version"]);
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  // A prototype is no place for a field.
  expect(() => parsed(`{"__proto__":${JSON.stringify(RUN)}}`, run)).toThrow(EngineError);
});

test("two things of one name are an error, and a question has the fields of its kind", () => {
  refused(runs, { runs: [RUN, RUN] });
  expect(parsed(JSON.stringify({ questions: [QUESTION] }), waiting).questions).toEqual([QUESTION]);
  for (const kind of ["input", "settlement", "other", "constructor"]) {
    const { function: _function, ...less } = { ...QUESTION, question: kind };
    refused(waiting, { questions: [less] });
  }
});
