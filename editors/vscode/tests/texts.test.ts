import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { casesOf } from "../src/cases.ts";
import { placed } from "../src/findings.ts";
import { asked, options } from "../src/input.ts";
import { projectOf, targetOf } from "../src/projects.ts";
import { outcomes } from "../src/report.ts";

test("cases have the places of their names", () => {
  const text = "repeat: 3\ncases:\n- name: pear\n  input: {item: pear}\n- {name: \"two words\", input: 1}\n";
  assert.deepEqual(casesOf("/a.cases.yaml", text), [
    { name: "pear", line: 2, column: 8 },
    { name: "two words", line: 4, column: 9 },
  ]);
  assert.deepEqual(casesOf("/a.cases.jsonl", '{"name": "one"}\n\n{"name": "two"}\nbroken'), [
    { name: "one", line: 0, column: 0 },
    { name: "two", line: 2, column: 0 },
  ]);
});

test("every prefix of a file of cases is read without an exception", () => {
  const text = "cases:\n- name: a\n  input: {x: [1, \"2\"]}\n  expect:\n    output: {matches: '^a'}\n- name: &b b\n  <<: *b\n";
  for (let end = 0; end <= text.length; end++) assert.ok(Array.isArray(casesOf("/a.cases.yaml", text.slice(0, end))));
  for (const odd of ["cases: 1", "cases: [1, null, []]", "- a", "cases:\n- name:\n- name: {a: 1}"]) assert.deepEqual(casesOf("/a.cases.yaml", odd), []);
});

test("a report gives the outcome of each case, with the outputs where they differ", () => {
  const report = {
    format: 1,
    cases: [
      { file: "a.cases.yaml", worker: "a", case: "good", passed: 2, of: 2, runs: [{ pass: true, took_ms: 3 }, { pass: true, took_ms: 4 }] },
      {
        file: "a.cases.yaml", worker: "a", case: "bad", passed: 1, of: 2,
        runs: [
          { pass: true },
          { pass: false, failures: ["output: expected 2", "calls: no `x`"], differs: { expected: { n: 2 }, output: { n: 3 } } },
        ],
      },
      { file: "a.cases.yaml", worker: "a", case: "missed", passed: 0, of: 1, runs: [{ pass: false, missed: { place: "0 model.0", diffs: ["- a\n+ b"] } }] },
      { file: "a.cases.yaml", worker: "a", case: "cut", passed: 1, of: 1, not_run: 1, runs: [{ pass: true }] },
    ],
  };
  const read = outcomes(JSON.stringify(report));
  assert.ok("outcomes" in read);
  const [good, bad, missed, cut] = read.outcomes;
  assert.deepEqual([good?.state, good?.took_ms], ["passed", 7]);
  assert.deepEqual(bad?.failures, [
    { text: "repeat 2: output: expected 2", expected: '{\n  "n": 2\n}', actual: '{\n  "n": 3\n}' },
    { text: "repeat 2: calls: no `x`" },
  ]);
  assert.deepEqual(missed?.failures, [{ text: "0 model.0:\n- a\n+ b" }]);
  assert.equal(cut?.state, "skipped");
});

test("an error in place of a report is said", () => {
  assert.deepEqual(outcomes('{"error": {"message": "there is no worker `x`"}, "status": "not_started"}'), { problem: "there is no worker `x`" });
  assert.deepEqual(outcomes(""), { problem: "llm-do printed no report." });
  assert.deepEqual(outcomes("[1]"), { problem: "llm-do printed no report." });
});

test("places of findings become relative to the workspace, with and without colours", () => {
  assert.equal(placed(" --> workers/a.worker:2:14", "/w/one", "/w"), " --> one/workers/a.worker:2:14");
  const coloured = " \u001b[1m\u001b[94m--> \u001b[0mmain.worker:2:14";
  assert.equal(placed(coloured, "/w/one", "/w"), " \u001b[1m\u001b[94m--> \u001b[0mone/main.worker:2:14");
  assert.equal(placed(" --> /lib/a.worker:1:1", "/w/one", "/w"), " --> /lib/a.worker:1:1");
  assert.equal(placed("error[E0202]: --> a:1:1 is text", "/w/one", "/w"), "error[E0202]: --> a:1:1 is text");
});

test("the box for an input begins with the parameters that a worker needs", () => {
  const shown = (parameters: unknown): string => JSON.stringify({ signature: "a()", settings: [{ key: "parameters", value: parameters }] });
  assert.equal(asked(shown({ species: "string", size: "string?" })).value, "");
  assert.equal(asked(shown({ n: "integer", tags: "array<string>", kind: ["a", "b"], more: { type: "boolean" } })).value, '{"n":0,"tags":[],"kind":"a","more":false}');
  assert.deepEqual(asked("no JSON"), { signature: "", value: "" });
});

test("an object is the input, and any other text the message", () => {
  assert.deepEqual(options(' {"a": 1} '), ['--input={"a": 1}']);
  assert.deepEqual(options("{% if %}"), ["--message={% if %}"]);
  assert.deepEqual(options("--help"), ["--message=--help"]);
  assert.deepEqual(options("  "), []);
});

test("a file belongs to the nearest project, not above the workspace", () => {
  const root = mkdtempSync(join(tmpdir(), "llm-do-projects-"));
  try {
    const workspace = join(root, "workspace");
    mkdirSync(join(workspace, "one/workers/deep"), { recursive: true });
    mkdirSync(join(workspace, "lone"));
    writeFileSync(join(root, "project.yaml"), "");
    writeFileSync(join(workspace, "one/main.worker"), "");
    const file = join(workspace, "one/workers/deep/a.worker");
    assert.equal(projectOf(file, workspace), join(workspace, "one"));
    assert.equal(projectOf(join(workspace, "lone/a.worker"), workspace), undefined);
    assert.equal(projectOf("/elsewhere/a.worker", workspace), undefined);
    assert.deepEqual(targetOf(join(workspace, "lone/a.cases.yaml"), workspace), { target: join(workspace, "lone/a.worker"), root: join(workspace, "lone") });
  } finally {
    rmSync(root, { recursive: true });
  }
});
