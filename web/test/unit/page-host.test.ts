import { expect, test } from "vitest";
import { decoded, encoded, fromBase64, toBase64 } from "../../src/page/bytes";
import { Host, type Reply } from "../../src/page/host";
import type { Effect, Input } from "../../src/page/protocol";
import { MemoryStore, StoreError } from "../../src/page/store";

/** An engine that answers each list of inputs as the test says. */
class Scripted {
  readonly seen: Input[][] = [];
  constructor(readonly answer: (inputs: Input[], step: number) => Effect[]) {}
  step(inputs: Input[]): Effect[] {
    this.seen.push(inputs);
    return this.answer(inputs, this.seen.length);
  }
}

const none = (): Promise<Response> => Promise.reject(new Error("no model"));
const asked = { method: "GET", path: "/v1/runs", headers: {} };
const hasRequest = (inputs: Input[]): boolean => inputs.some(({ input }) => input === "request");
const settle = async (ready: () => boolean): Promise<void> => {
  await expect.poll(ready, { timeout: 5000, interval: 1 }).toBe(true);
};

function host(engine: Scripted, store = new MemoryStore()): { host: Host; replies: Reply[]; store: MemoryStore } {
  const replies: Reply[] = [];
  return { host: new Host(() => Promise.resolve(engine), store, new Uint8Array(32), none), replies, store };
}

test("a record is on disk before the answer that follows it", async () => {
  const store = new MemoryStore();
  const at: string[] = [];
  const append = store.append.bind(store);
  store.append = async (path, bytes) => {
    await Promise.resolve();
    await append(path, bytes);
    at.push("append");
  };
  const engine = new Scripted((inputs) =>
    hasRequest(inputs)
      ? [
          { effect: "append", id: 1, run: "r", path: "p/.llm-do/runs/r/journal.jsonl", text: "{}\n" },
          { effect: "respond", request: 1, run: "r", status: 202, headers: [], text: "", stream: false },
        ]
      : [],
  );
  const { host: one } = host(engine, store);
  one.ask(asked, () => at.push("reply"));
  await settle(() => at.length === 2);
  expect(at).toEqual(["append", "reply"]);
  expect(engine.seen[0]?.map(({ input }) => input)).toEqual(["start", "options"]);
});

test("after a record that can't be written, nothing of that run follows, and other runs do", async () => {
  const store = new MemoryStore();
  store.append = (path) => Promise.reject(path.includes("full") ? new StoreError("quota", "no space is left") : new Error("other"));
  const engine = new Scripted((inputs) =>
    hasRequest(inputs)
      ? [
          { effect: "append", id: 1, run: "full", path: "p/full.jsonl", text: "x\n" },
          { effect: "write", id: 2, run: "full", path: "p/out.txt", base64: toBase64(encoded("no")) },
          { effect: "send", id: 3, run: "full", method: "POST", url: "https://models.example/", headers: [] },
          { effect: "write", id: 4, run: "other", path: "p/other.txt", base64: toBase64(encoded("yes")) },
          { effect: "respond", request: 1, run: "full", status: 200, headers: [], text: "no", stream: false },
        ]
      : [],
  );
  const { host: one, replies } = host(engine, store);
  one.ask(asked, (reply) => replies.push(reply));
  await settle(() => engine.seen.length === 3);
  const results = engine.seen[2] ?? [];
  expect(results.map((input) => ["id" in input ? input.id : 0, input.input, "error" in input ? input.error.kind : ""])).toEqual([
    [1, "failed", "quota"],
    [2, "failed", "quota"],
    [3, "failed", "quota"],
    [4, "done", ""],
  ]);
  expect(await store.stat("p/out.txt")).toBeUndefined();
  expect(replies).toEqual([]);
});

test("an engine that fails is made again, and what was asked hears of it", async () => {
  let fails = true;
  const engine = new Scripted((inputs) => {
    if (!hasRequest(inputs)) return [];
    if (fails) throw new WebAssembly.RuntimeError("unreachable");
    const [request] = inputs;
    return [{ effect: "respond", request: request?.input === "request" ? request.id : 0, status: 200, headers: [], text: "ok", stream: false }];
  });
  const { host: one, replies } = host(engine);
  one.ask(asked, (reply) => replies.push(reply));
  await settle(() => replies.length === 1);
  expect(replies[0]?.reply).toBe("lost");
  fails = false;
  one.ask(asked, (reply) => replies.push(reply));
  await settle(() => replies.length === 2);
  expect(replies[1]).toMatchObject({ reply: "head", status: 200, body: "ok" });
});

test("an engine that never starts is not tried for ever", async () => {
  let made = 0;
  const broken = new Host(
    () => {
      made++;
      return Promise.reject(new Error("no memory"));
    },
    new MemoryStore(),
    new Uint8Array(32),
    none,
  );
  const replies: Reply[] = [];
  for (let count = 0; count < 10; count++) {
    const before = replies.length;
    broken.ask(asked, (reply) => replies.push(reply));
    await settle(() => replies.length > before);
  }
  expect(made).toBe(3);
  expect(replies.at(-1)).toMatchObject({ reply: "lost" });
});

test("a stream arrives in pieces, and its end is told to the engine once", async () => {
  const engine = new Scripted((inputs) =>
    hasRequest(inputs)
      ? [
          { effect: "respond", request: 1, status: 200, stream: true, headers: [["content-type", "text/event-stream"]] },
          { effect: "piece", request: 1, text: "data: 1\n\n" },
        ]
      : [],
  );
  const { host: one, replies } = host(engine);
  const close = one.ask(asked, (reply) => replies.push(reply));
  await settle(() => replies.length === 2);
  expect(replies[1]).toEqual({ reply: "piece", text: "data: 1\n\n" });
  close();
  close();
  await settle(() => engine.seen.flat().some(({ input }) => input === "close"));
  expect(engine.seen.flat().filter(({ input }) => input === "close")).toHaveLength(1);
});

test("a timer is told once, and an aborted one never", async () => {
  const engine = new Scripted((inputs) =>
    hasRequest(inputs)
      ? [
          { effect: "wait", id: 1, ms: 1 },
          { effect: "wait", id: 2, ms: 1 },
          { effect: "abort", id: 2 },
        ]
      : [],
  );
  const { host: one } = host(engine);
  one.ask(asked, () => undefined);
  const told = (): Input[] => engine.seen.flat().filter(({ input }) => input === "done");
  await settle(() => told().length === 1);
  await new Promise((resolve) => setTimeout(resolve));
  expect(told()).toEqual([{ input: "done", id: 1 }]);
});

test("files are read in parts, listed deeply, moved, and never outside of their program", async () => {
  const store = new MemoryStore();
  await store.write("p/a.txt", encoded("0123456789"));
  await store.write("p/.git/config", encoded("x"));
  await store.write("p/in/b.txt", encoded("b"));
  const results = new Map<number, Input>();
  const effects: Effect[] = [
    { effect: "read", id: 1, path: "p/a.txt", from: 2, most: 3 },
    { effect: "list", id: 2, path: "p", deep: true },
    { effect: "move", id: 3, path: "p/in", to: "p/out" },
    { effect: "read", id: 4, path: "p/out/b.txt" },
    { effect: "read", id: 5, path: "p/../secret" },
    { effect: "remove", id: 6, path: "p/out" },
    { effect: "remove", id: 7, path: "p/out", deep: true },
    { effect: "read", id: 8, path: "p/none" },
    { effect: "write", id: 9, path: "p/a.txt", base64: "", new: true },
    { effect: "read", id: 10, path: "p" },
    { effect: "stat", id: 11, path: "p/a.txt" },
    { effect: "stat", id: 12, path: "p/none" },
  ];
  const engine = new Scripted((inputs) => {
    for (const input of inputs) if (input.input === "done" || input.input === "failed") results.set(input.id, input);
    return hasRequest(inputs) ? effects : [];
  });
  const { host: one } = host(engine, store);
  one.ask(asked, () => undefined);
  await settle(() => results.size === effects.length);
  const read = results.get(1);
  expect(read?.input === "done" && decoded(fromBase64(read.base64 ?? ""))).toBe("234");
  expect(read).toMatchObject({ bytes: 10 });
  const listed = results.get(2);
  expect(listed?.input === "done" && listed.entries?.map(({ path }) => path)).toEqual([".git", "a.txt", "in", "in/b.txt"]);
  const kinds = [3, 4, 5, 6, 7, 8, 9, 10, 12].map((id) => {
    const result = results.get(id);
    return result?.input === "failed" ? result.error.kind : result?.input;
  });
  expect(kinds).toEqual(["done", "done", "denied", "not_empty", "done", "missing", "exists", "wrong_kind", "missing"]);
  expect(results.get(11)).toMatchObject({ input: "done", kind: "file", bytes: 10 });
});
