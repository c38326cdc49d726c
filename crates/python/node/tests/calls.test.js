// Calls: the context, values, errors, what is printed, and ends that nobody wants.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withHost } from "./harness.js";

const listed = (code, check) => withHost({ "tools.ts": code }, check);
const names = (...names) => ({ names });

test("the context calls workers and tools, keeps state, makes steps and reads files", () =>
  listed(
    `export async function main(input, ctx) {
  const [a, b] = await Promise.all([ctx.call("worker", { x: 1 }), ctx.callTool("tool")]);
  const state = await ctx.state.get("seen", 7);
  await ctx.state.set("seen", state + 1);
  const made = await ctx.step("effect", () => ({ done: true }));
  const again = await ctx.step("effect", () => "not run");
  const text = await ctx.sandbox.read("a.txt");
  ctx.log("logged");
  try { await ctx.call("missing"); } catch (error) { return [a, b, state, made, again, text, error.name, error.kind, ctx.worker]; }
}
`,
    async (host) => {
      host.begin("main", { input: 1 }, { ...names("main"), ctx: { worker: "w" } });
      const reply = (frame, answer) => host.send({ t: "reply", id: frame.id, cb: frame.cb, ...answer });
      const asked = async (op, name) => {
        const frame = await host.read("callback", "error");
        assert.deepEqual([frame.op, frame.name], [op, name], JSON.stringify(frame));
        return frame;
      };
      const first = await asked("call", "worker");
      assert.deepEqual(first.input, { x: 1 });
      const second = await asked("call_tool", "tool");
      reply(second, { value: "B" });
      reply(first, { value: "A" });
      reply(await asked("state_get", "seen"), { value: null });
      const set = await asked("state_set", "seen");
      assert.equal(set.value, 8);
      reply(set, { value: null });
      reply(await asked("step", "effect"), { go: true });
      const ended = await host.read("step_end");
      assert.deepEqual(ended.value, { done: true });
      reply(ended, { value: { done: true } });
      reply(await asked("step", "effect"), { value: "recorded" });
      const read = await asked("call_tool", "read_file");
      assert.equal(read.input.path, "a.txt");
      reply(read, { value: "text" });
      assert.equal((await host.read("log")).text, "logged\n");
      reply(await asked("call", "missing"), { error: { kind: "definition", message: "there is no such worker" } });
      const { value } = await host.read("result", "error");
      assert.deepEqual(value, ["A", "B", 7, { done: true }, "recorded", "text", "CallError", "definition", "w"]);
    },
  ));

test("an error has the user's own frames, with the lines of the source", () =>
  listed(
    `type T = { a: number };

function deeper(value: T): never {
  throw new RangeError("too " + value.a);
}
export async function main(input: unknown): Promise<void> {
  await null;
  deeper({ a: 3 } satisfies T);
}
`,
    async (host) => {
      const error = await host.call("main", { input: 1 }, names("main"));
      assert.deepEqual([error.t, error.type, error.message], ["error", "RangeError", "too 3"]);
      assert.deepEqual(error.frames.map(({ line, function: name, text }) => [line, name, text.trim()]), [
        [8, "main", "deeper({ a: 3 } satisfies T);"],
        [4, "deeper", 'throw new RangeError("too " + value.a);'],
      ]);
    },
  ));

test("a value that JSON can't hold is an error that says what to return", () =>
  listed(
    `const values = {
  nan: () => NaN, big: () => 2n ** 80n, fn: () => ({ f() {} }), bytes: () => new Uint8Array(2), self: () => { const a = {}; a.a = a; return a; },
  deep: () => { let a = {}; for (let i = 0; i < 200; i++) a = { a }; return a; }, promise: () => [Promise.resolve(1)],
  huge: () => "x".repeat(17 << 20),
  good: () => ({ map: new Map([["a", 1]]), set: new Set([1]), date: new Date(0), none: undefined, big: 3n, }),
};
export const main = (input) => values[input]();
`,
    async (host) => {
      const of = (input) => host.call("main", { input }, names("main"));
      const words = { nan: "NaN", big: "return a text", fn: "a function", bytes: "bytes", self: "itself", deep: "100 levels", promise: "await it", huge: "at most" };
      for (const [kind, word] of Object.entries(words)) {
        const error = await of(kind);
        assert.equal(error.kind, "result", JSON.stringify(error));
        assert.ok(error.message.includes(word), error.message);
      }
      const { value } = await of("good");
      assert.deepEqual(value, { map: { a: 1 }, set: [1], date: "1970-01-01T00:00:00.000Z", big: 3 });
    },
  ));

test("what is printed belongs to its call, at most 256 KiB of it", () =>
  listed(
    `console.log("at import");
export async function main(input) {
  console.log("out", input);
  await new Promise((resolve) => setTimeout(resolve, 5));
  process.stderr.write("err");
  if (input === "flood") for (let i = 0; i < 1e5; i++) console.error("x".repeat(100));
  return input;
}
`,
    async (host) => {
      const ids = ["a", "b"].map((input) => host.begin("main", { input }, names("main")));
      const ends = [await host.read("result"), await host.read("result")];
      assert.deepEqual(ends.map(({ value }) => value), ["a", "b"]);
      const logs = host.frames.splice(0).filter(({ t }) => t === "log");
      const of = (id) => logs.filter((log) => log.id === id).map(({ text }) => text).join("");
      assert.deepEqual([of(ids[0]), of(ids[1])], ["at import\nout a\nerr", "out b\nerr"]);
      await host.call("main", { input: "flood" }, names("main"));
      const flood = host.frames.filter(({ t }) => t === "log").reduce((sum, { text }) => sum + text.length, 0);
      assert.ok(flood > 200_000 && flood <= 256 << 10, String(flood));
      assert.equal(host.printed, "");
    },
  ));

test("a generator's values are progress, and its last is the result", () =>
  listed(
    `export async function* main(input, ctx) { yield "half"; yield { n: 2 }; if (input) return "end"; }\n`,
    async (host) => {
      assert.equal((await host.call("main", { input: true }, names("main"))).value, "end");
      assert.deepEqual(host.frames.splice(0).map(({ text }) => text), ["half\n", '{"n":2}\n']);
      assert.deepEqual((await host.call("main", { input: false }, names("main"))).value, { n: 2 });
    },
  ));

test("a cancelled call ends when its code looks at the signal or waits for a call", () =>
  listed(
    `export const main = (input, ctx) =>
  input === "waits" ? ctx.call("worker") : new Promise((_, reject) => ctx.signal.addEventListener("abort", () => reject(ctx.signal.reason)));
`,
    async (host) => {
      for (const input of ["waits", "listens"]) {
        const id = host.begin("main", { input }, names("main"));
        if (input === "waits") await host.read("callback");
        else await host.call("main", { input: "waits" }, { ...names("gone") });
        host.send({ t: "cancel", id });
        const error = await host.read("error");
        assert.deepEqual([error.id, error.kind], [id, "cancelled"]);
      }
    },
  ));

test("what nothing catches ends its call, and the exit of the process is told by its end", () =>
  listed(
    `export function main(input) {
  if (input === "late") { setTimeout(() => { throw new Error("late"); }, 1); return new Promise(() => {}); }
  if (input === "lost") { Promise.reject(new TypeError("lost")); return new Promise(() => {}); }
  if (input === "text") throw "a text";
  if (input === "leak") { setInterval(() => {}, 1); return "left"; }
  console.log("before");
  process.exit(3);
}
`,
    async (host) => {
      const of = (input) => host.call("main", { input }, names("main"));
      assert.equal((await of("late")).message, "late");
      assert.equal((await of("lost")).type, "TypeError");
      assert.match((await of("text")).message, /threw a text/);
      assert.equal((await of("leak")).value, "left");
      assert.deepEqual(await of("exit"), { t: "exit", code: 3 });
      assert.ok(host.frames.some(({ text }) => text === "before\n"));
    },
  ));

test("a retry of the author's is its message alone", () =>
  listed(`import { Retry } from "llm-do";\nexport function main() { throw new Retry("give a date"); }\n`, async (host) => {
    const error = await host.call("main", {}, names("main"));
    assert.deepEqual([error.kind, error.message], ["retry", "give a date"]);
  }));
