import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  Disconnected,
  Failed,
  InvalidInput,
  InvalidOutput,
  LimitReached,
  LlmDoError,
  NotLoaded,
  Refused,
  Stream,
  StubsOutOfDate,
  Suspended,
  load,
} from "llm-do";
import { desk, until } from "./harness.js";

test("ways to call", async (t) => {
  const { open } = desk(t);
  const p = await open();
  assert.equal(await p.greeter.call({ name: "Ada" }), "Hello, Ada!");
  assert.equal(await p.worker().call({ name: "Ada" }), "Hello, Ada!");
  assert.equal(await p["a/b"].call("Ada"), "Hello, Ada!");
  assert.deepEqual(await p.sorter.call({ mail: "x" }), { urgent: true });
  const result = await p.greeter.result({ name: "Ada" });
  assert.deepEqual([result.usage.inputTokens, result.usage.outputTokens, result.cost], [12, 4, undefined]);
  assert.equal((await p.run(result.run)).output, result.output);
  assert.equal((await p.runs({ limit: 1 }))[0].run, result.run);
  assert.equal((await p.big.call("x")).length, 5_000_000);
  assert.equal(await p["a/b"].call("a\ud800b\u2028\0\\ud800"), "Hello, a\ufffdb\u2028\0\\ud800!");
});

test("names of workers that mean something to JavaScript", async (t) => {
  const { open } = desk(t);
  const p = await open();
  for (const name of ["then", "close", "constructor", "__proto__"]) {
    assert.equal(await p.worker(name).call("x"), "Hello, x!", name);
  }
  assert.equal(typeof p.close, "function");
  assert.equal(p.nobody, undefined);
  assert.equal("greeter" in p, true);
  assert.throws(() => p.worker("nobody"), NotLoaded);
});

test("errors mirror ends", async (t) => {
  const { open } = desk(t);
  const p = await open();
  for (const [worker, error, kind] of [
    ["fails", Failed, "model"],
    ["limited", LimitReached, "limit"],
    ["wrong", InvalidOutput, "invalid_output"],
  ]) {
    const caught = await p.worker(worker).call("x").catch((caught) => caught);
    assert.ok(caught instanceof error && caught instanceof LlmDoError, `${worker}: ${caught}`);
    assert.deepEqual([caught.kind, caught.name], [kind, error.name]);
    assert.ok(caught.message.includes(caught.run));
  }
  const circular = {};
  circular.name = circular;
  for (const input of [{ nam: "x" }, { name: NaN }, { name: () => 1 }, { name: 1n }, circular, [], 7, null]) {
    await assert.rejects(p.greeter.call(input), InvalidInput);
  }
  await assert.rejects(p.greeter.call({ name: "x".repeat(16 << 20) }), /16 MiB/);
  await assert.rejects(p.worker("greeter", { approval: "approve_all" }).call({ name: "x" }), Refused);
  const waits = await p.writer.call("x", { approval: "defer" }).catch((caught) => caught);
  assert.ok(waits instanceof Suspended);
  assert.equal(waits.questions[0].function, "write_file");
});

test("two hundred calls at once", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const numbers = Array.from({ length: 200 }, (_, n) => String(n));
  const outputs = await Promise.all(numbers.map((n) => p["a/b"].call(n)));
  assert.deepEqual(outputs, numbers.map((n) => `Hello, ${n}!`));
});

test("map keeps the order, and stops at a failure", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const numbers = Array.from({ length: 40 }, (_, n) => String(n));
  const outputs = [];
  for await (const output of p.greeter.map(numbers.map((name) => ({ name })), { concurrency: 7 })) outputs.push(output);
  assert.deepEqual(outputs, numbers.map((n) => `Hello, ${n}!`));
  await assert.rejects(async () => {
    for await (const _ of p.worker("greeter").map([{ nam: "a" }, { name: "b" }]));
  }, InvalidInput);
  await assert.rejects(async () => {
    for await (const _ of p.slow.map(["x", "y"], { signal: AbortSignal.timeout(300) })) assert.fail();
  }, DOMException);
  await until(async () => (await p.runs({ limit: 2 })).every((run) => run.state === "cancelled"));
});

test("deltas and records, then the result", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const stream = p["a/b"].stream("Ada");
  let text = "";
  const numbers = [];
  for await (const event of stream) {
    if (event.kind === "text") text += event.text;
    if (event.kind === "record") numbers.push(event.record.seq);
  }
  assert.deepEqual([text, (await stream.result()).output], ["Hello, Ada!", "Hello, Ada!"]);
  assert.deepEqual(numbers, numbers.map((_, n) => n));
  const pieces = [];
  for await (const piece of p["a/b"].stream("Bo").text()) pieces.push(piece);
  assert.equal(pieces.join(""), "Hello, Bo!");
  const seen = [];
  await assert.rejects(async () => {
    for await (const event of p.fails.stream("x")) seen.push(event);
  }, Failed);
  assert.notEqual(seen.length, 0);
  for await (const _ of p.slow.stream("x")) break;
  await until(async () => (await p.runs({ limit: 1 }))[0].state === "cancelled");
});

test("a typed output grows, and an invalid one does not count", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const stream = p.drafter.stream("x");
  const drafts = [];
  for await (const draft of stream.partials()) drafts.push(draft);
  const { output } = await stream.result();
  assert.deepEqual(output, { title: "A walk", tags: ["one", "two"], n: 12 });
  // A slow machine may show nothing of the answer that does not count.
  const first = drafts.indexOf(undefined);
  assert.deepEqual([drafts.lastIndexOf(undefined), drafts.at(-1)], [first, output]);
  const grows = (before, after) =>
    typeof before === "string"
      ? after.startsWith(before)
      : typeof before === "object"
        ? Object.keys(before).every((key) => Object.hasOwn(after, key) && grows(before[key], after[key]))
        : before === after;
  // A value that was given does not change with what comes later.
  for (let at = first + 1; at + 1 < drafts.length; at++) assert.ok(grows(drafts[at], drafts[at + 1]));
  assert.ok(first === -1 || grows(drafts[first - 1], { title: "wrong" }));
  const late = p.drafter.stream("x");
  await late.result();
  const newest = [];
  for await (const draft of late.partials()) newest.push(draft);
  assert.deepEqual(newest, [output]);
  for await (const _ of p["a/b"].stream("Ada").partials()) assert.fail();
});

test("growth is applied, and a value that does not count is followed by undefined", async () => {
  let hear;
  let end;
  const result = new Promise((resolve) => (end = resolve));
  const stream = new Stream((listener) => ((hear = listener), { result, cancel() {} }), (view) => view);
  const states = stream.partials();
  const grow = (turn, ...growth) => hear({ event: "partial", path: "0", turn, growth });
  grow(0, { at: [], set: { a: ["x"] } });
  grow(0, { at: ["a", 0], append: "y" }, { at: ["a", 1], set: 2 }, { at: ["__proto__"], set: 3 });
  const first = (await states.next()).value;
  const shown = '{"a":["xy",2],"__proto__":3}';
  assert.equal(JSON.stringify(first), shown);
  grow(0, { at: ["a", 0], append: "z" }, { at: ["a", 9], set: 0 }, { at: ["b", "c"], append: "" });
  assert.deepEqual((await states.next()).value.a, ["xyz", 2]);
  hear({ event: "discard_partial", path: "0", turn: 0 });
  grow(1, { at: [], set: { b: 1 } });
  assert.deepEqual([(await states.next()).value, (await states.next()).value], [undefined, { b: 1 }]);
  hear({ event: "discard", path: "0", turn: 1 });
  assert.deepEqual(await states.next(), { value: undefined, done: false });
  hear({ event: "partial", path: "0/0.0", turn: 0, growth: [{ at: [], set: 1 }] });
  end(null);
  assert.equal((await states.next()).done, true);
  assert.equal(JSON.stringify(first), shown);
});

test("operator approves, denies, edits, and fails", async (t) => {
  const { open, read } = desk(t);
  const asked = [];
  const p = await open({
    operator: async (question) => {
      asked.push(question);
      return question.approve();
    },
  });
  await p.writer.call("go");
  assert.equal(read("out/note.txt"), "noted");
  assert.deepEqual([asked[0].kind, asked[0].function, asked[0].risk], ["approval", "write_file", "write"]);
  assert.equal(asked[0].preview.after, "noted");
  const denied = await p.writer.call("go", { operator: (question) => question.deny("not before Monday") });
  assert.match(denied, /not before Monday/);
  await p.writer.call("go", { operator: (question) => question.edit({ ...question.input, content: "edited" }) });
  assert.equal(read("out/note.txt"), "edited");
  const broken = () => {
    throw new RangeError("no judgement");
  };
  await assert.rejects(p.writer.call("go", { operator: broken }), RangeError);
  await until(async () => (await p.runs({ limit: 1 }))[0].state === "cancelled");
  await assert.rejects(p.writer.call("go", { operator: () => true }), TypeError);
  await p.writer.call("go", { operator: () => undefined });
  assert.equal(read("out/note.txt"), "edited");
});

test("without an operator it is said once that calls are denied", async (t) => {
  const { open, read } = desk(t);
  const said = [];
  const p = await open({ log: (line) => said.push(line) });
  await p.writer.call("go");
  await p.writer.call("go");
  await p.close();
  assert.equal(said.filter((line) => line.includes("takes no questions")).length, 1);
  assert.throws(() => read("out/note.txt"));
  await (await open({ allow: ["write_file"] })).writer.call("go");
  assert.equal(read("out/note.txt"), "noted");
});

test("an aborted call cancels its run", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const controller = new AbortController();
  const call = p.slow.call("x", { signal: controller.signal });
  await until(async () => (await p.runs()).length === 1);
  controller.abort(new RangeError("enough"));
  await assert.rejects(call, RangeError);
  await until(async () => (await p.runs())[0].state === "cancelled");
  await assert.rejects(p.slow.call("x", { signal: controller.signal }), RangeError);
  assert.equal((await p.runs()).length, 1);
});

test("a worker as a tool", async (t) => {
  const { open } = desk(t);
  const tool = (await open())["greeter"].asTool();
  assert.deepEqual([tool.name, tool.description, tool.inputSchema.required], ["greeter", "Greets somebody.", ["name"]]);
  assert.equal(await tool.execute({ name: "Ada" }), "Hello, Ada!");
});

test("stubs that are out of date are told before any request", async (t) => {
  const { open, write } = desk(t);
  const p = await open();
  const stale = write("stale.d.ts", "// llm-do-stubs: typescript 0123456789abcdef0123456789abcdef\n");
  await assert.rejects(open({ stubs: stale }), StubsOutOfDate);
  await assert.rejects(open({ stubs: write("none.d.ts", "export {};\n") }), NotLoaded);
  assert.deepEqual(await p.runs(), []);
});

test("programs and binaries that are something else", async (t) => {
  const { open, write } = desk(t);
  const refused = async (reason, options) => assert.rejects(open(options), (error) => {
    assert.ok(error instanceof NotLoaded, String(error));
    assert.match(error.message, reason);
    return true;
  });
  const fake = (script) => write("fake", `#!${process.execPath}\n${script}\n`, 0o755);
  await refused(/there is no program/, { binary: "/nothing/here" });
  await refused(/exit code 3[^]*said this/, { binary: fake("process.stderr.write('said this\\n'); process.exitCode = 3") });
  await refused(/no message/, { binary: fake("console.log('Hello!'); setInterval(() => {}, 1000)") });
  const answer = (rest) =>
    `process.stdin.once("data", (line) => console.log(JSON.stringify({ jsonrpc: "2.0", id: JSON.parse(line).id, ...${rest} })))`;
  await refused(/9\.9\.9 speaks another protocol/, { binary: fake(answer(`{ result: { protocol: 2, version: "9.9.9" } }`)) });
  await refused(/speaks version 1/, { binary: fake(answer(`{ error: { code: 1, message: "the client speaks version 1" } }`)) });
  await refused(/another protocol/, { binary: fake(answer(`{ result: null }`)) });
  write("project.yaml", "nam: desk\n");
  await refused(/nam/, {});
});

test("a process that dies in the middle of a call", async (t) => {
  const { open } = desk(t);
  const p = await open();
  const stream = p.slow.stream("x");
  const run = await until(async () => (await p.runs({ limit: 1 }))[0]);
  assert.equal(run.worker, "slow");
  const children = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "utf8").trim().split(" ");
  const pid = children.map(Number).find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("--stdio"));
  process.kill(pid, "SIGKILL");
  await assert.rejects(stream.result(), (error) => error instanceof Disconnected && /SIGKILL/.test(error.message));
  await assert.rejects(p.slow.call("x"), Disconnected);
});

test("a program that ends or is killed leaves no process, and waits for none", async (t) => {
  const { env, project } = desk(t);
  const script = (rest) => `
    import { load } from "llm-do";
    const p = await load(${JSON.stringify(project)}, { cwd: ${JSON.stringify(project)} });
    ${rest}`;
  const run = (rest) => spawn(process.execPath, ["--input-type=module", "-e", script(rest)], { env, cwd: import.meta.dirname, stdio: ["ignore", "pipe", "inherit"] });
  const idle = run(`console.log(await p.greeter.call({ name: "Ada" }));`);
  assert.equal(await new Promise((resolve) => idle.once("exit", resolve)), 0);

  const killed = run(`
    import { readFileSync } from "node:fs";
    for await (const event of p.slow.stream("x")) {
      console.log(readFileSync(\`/proc/\${process.pid}/task/\${process.pid}/children\`, "utf8"));
      break;
    }
    setInterval(() => {}, 1000);`);
  const children = String(await new Promise((resolve) => killed.stdout.once("data", resolve))).trim().split(" ").map(Number);
  killed.kill("SIGKILL");
  const alive = (pid) => {
    try {
      return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
    } catch {
      return false;
    }
  };
  await until(() => children.every((pid) => !alive(pid)));
});

test("load settles however its process ends", async (t) => {
  const { open, write } = desk(t);
  const fake = (script) =>
    write("fake", `#!${process.execPath}\nconst { spawn } = require("child_process");\nconst { closeSync, readSync, writeSync } = require("fs");\nconst hears = () => readSync(0, Buffer.alloc(1000));\n${script}\n`, 0o755);
  const refused = (reason, script) =>
    assert.rejects(open({ binary: fake(script) }), (error) => {
      assert.ok(error instanceof NotLoaded || error instanceof Disconnected, String(error));
      assert.match(error.message, reason);
      return true;
    });
  const stays = "setInterval(() => {}, 1000);";
  // Another process holds the pipes.
  const held = `spawn("sleep", ["20"], { stdio: "inherit", detached: true }).unref();`;
  await refused(/exit code 5/, `${held} process.exitCode = 5; setTimeout(() => process.exit(5), 50);`);
  await refused(/exit code 5/, `${held} hears(); setTimeout(() => process.exit(5), 50);`);
  // A pipe is closed, and the process lives.
  await refused(/closed its pipes/, `closeSync(1); ${stays}`);
  await refused(/closed its pipes/, `hears(); closeSync(1); ${stays}`);
  // Half a message, and messages that are none.
  await refused(/exit code 0/, `hears(); writeSync(1, '{"jsonrpc');`);
  for (const message of [`{ id: 0, error: null }`, `[]`, `7`]) {
    await refused(/has written what is no message|another protocol/, `hears(); console.log(JSON.stringify(${message})); ${stays}`);
  }
  // Killed after each number of milliseconds until it is loaded.
  const names = (ms) => fake(`${stays}`) && write("killed", `#!/bin/sh\n"$LLM_DO_BIN" "$@" & child=$!\n(sleep ${ms / 1000}; kill -9 $child) &\nwait $child\nkill -9 $$\n`, 0o755);
  for (let ms = 0; ms < 100; ms += 10) {
    const program = await open({ binary: names(ms) }).catch((error) => error);
    if (!(program instanceof LlmDoError)) await assert.rejects(program.slow.call("x"), Disconnected);
  }
});
