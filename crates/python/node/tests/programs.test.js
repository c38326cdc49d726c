// Programs that models write: their trees, their context, and the answer to the question whether they wait.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withHost } from "./harness.js";

const ARGUMENTS = ["--expose-internals", "--disallow-code-generation-from-strings"];
const listed = (check) => withHost({}, check, ARGUMENTS);

/** Begins a program. */
function begin(host, text, input) {
  const module = { key: "p", path: "/program/program.ts", root: "/program", text };
  host.send({ t: "call", id: 1, module, function: "main", args: { input }, plain: true, ctx: {} });
}

const reply = (host, { id, cb }, answer) => host.send({ t: "reply", id, cb, ...answer });

async function parsed(host, text) {
  host.send({ t: "parse", text });
  return host.read("parsed", "error");
}

test("a program has the nodes of Python, with the places of its source", () =>
  listed(async (host) => {
    const { nodes } = await parsed(host, "type T = { a: number };\nexport const f = (x: T) => x.a + 1;\n");
    const kinds = nodes.map(([kind, line, column]) => `${kind} ${line}:${column}`);
    assert.deepEqual(kinds.slice(0, 5), ["Module 1:1", "FunctionDef 2:14", "arguments 2:18", "arg 2:19", "Return 2:28"]);
    assert.ok(nodes.every(([, , , children], at) => Object.values(children).flat().every((child) => child === -1 || child > at)));
    const { problem } = await parsed(host, "export function main(input, ctx) {\n  const x = ;\n}\n");
    assert.deepEqual([problem.line, problem.column], [2, 13], problem.message);
  }));

test("a loop that counts has its bounds, and any other loop has none", () =>
  listed(async (host) => {
    const of = async (loop) => {
      const { nodes } = await parsed(host, `async function main(input, ctx) { ${loop} }`);
      return nodes.find(([kind]) => kind === "Counted" || kind === "While")?.[0];
    };
    for (const loop of ["for (let i = 0; i < 3; i++) {}", "for (let i = 2; i <= n && input[i]; i += 2) {}", "for (let i = 0, n = 3; i < n; i++) {}"]) {
      assert.equal(await of(loop), "Counted", loop);
    }
    const others = [
      "for (let i = 0; i < 3; i++) { i--; }", "for (let i = 0; i < 3; i++) { [i] = [0]; }", "for (let i = 0; i < 3; i++) { ({ i } = input); }",
      "for (let i = 0; i < 3; i++) { const f = () => { i = 0; }; f(); }", "for (let i = 0; i < 3; i += 0) {}", "for (let i = 0; i < 3; i *= 2) {}",
      "for (let i = 0; i < 3 || input; i++) {}", "for (let i = 0; 3 > i; i--) {}", "for (var i = 0; i < 3; i++) {}", "for (let i = 0; i++ < 3; ) {}",
      "for (let i = 0; i < 3; j++) {}", "for (let i = 0; i < 3 && (i = 1); i++) {}",
    ];
    for (const loop of others) assert.equal(await of(loop), "While", loop);
  }));

test("a program makes calls, and says when it waits", () =>
  listed(async (host) => {
    begin(
      host,
      `export async function main(input: string[], ctx) {
  const all = await ctx.map(input, "each", { limit: 2 });
  const one = await ctx.call("one");
  ctx.log("said", one);
  try { await ctx.map(input, "each", { limit: 1 }); } catch (error) { return [all, one, error.message, eval.name]; }
}`,
      ["a", "b"],
    );
    const first = await host.read("callback", "error");
    host.send({ t: "idle", id: 1, number: 7 });
    const second = await host.read("callback");
    assert.deepEqual([first.name, first.input, second.input], ["each", "a", "b"]);
    assert.equal((await host.read("idle")).number, 7);
    reply(host, second, { value: 2 });
    reply(host, first, { value: 1 });
    // The answers lead to another call, which comes first.
    host.send({ t: "idle", id: 1, number: 8 });
    const third = await host.read("callback", "idle");
    assert.equal(third.name, "one");
    assert.equal((await host.read("idle")).number, 8);
    reply(host, third, { value: 3 });
    assert.equal((await host.read("log")).text, "said 3\n");
    const { value } = await host.read("result", "error");
    assert.deepEqual(value.slice(0, 2), [[1, 2], 3]);
    assert.match(value[2], /more than 1 items for "each"/);
  }));

test("no text becomes code, and errors have the lines of the source", () =>
  listed(async (host) => {
    begin(host, "export function main(input) {\n  return (() => 1)['con' + 'structor']('return 1')();\n}\n");
    const { type, frames } = await host.read("error", "result");
    assert.deepEqual([type, frames[0].file, frames[0].line], ["EvalError", "/program/program.ts", 2]);
  }));
