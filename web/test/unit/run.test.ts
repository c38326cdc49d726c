import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { asEvent, asRecorded, type Growth, type RunEvent, type RunRecord } from "../../src/engine/records";
import { take } from "../../src/engine/sse";
import type { Call } from "../../src/store/call";
import { failingOf, notableOf } from "../../src/store/notable";
import { RunStore } from "../../src/store/run.svelte";
import { decider } from "../../src/text/decider";

/** Records with the changes that the engine makes of them, which `crates/records/src/view/tests.rs` writes. */
function recorded(name: string): RunEvent[] {
  const lines = readFileSync(new URL(`views/${name}.jsonl`, import.meta.url), "utf8").trim().split("\n");
  return lines.map((line) => {
    const event = asRecorded(JSON.parse(line));
    if (event === undefined) throw new Error(`no record: ${line}`);
    return event;
  });
}

function store(events: RunEvent[]): RunStore {
  const run = new RunStore();
  run.take(events);
  run.flush();
  return run;
}

/** Records of a chat, from what matters of each, with the changes that a test gives. */
function records(...given: Record<string, unknown>[]): RunEvent[] {
  return given.map(({ view = {}, ...fields }, seq) => ({
    event: "record",
    record: { seq, at_ms: 1000 + seq, path: "0", step: "x", kind: "note", ...fields } as unknown as RunRecord,
    view: view as object,
  }));
}

/** A call as the engine has it. */
const state = (path: string, state: string, started_ms: number, ended_ms?: number): object => ({
  calls: { [path]: { state, started_ms, ...(ended_ms === undefined ? {} : { ended_ms }) } },
});

const said = (turn: number, id: number, text: string): Record<string, unknown> => ({
  kind: "model_answered",
  step: `model.${turn}.0`,
  message: { id, role: "assistant", parts: [{ part: "text", text }] },
  finish: "stop",
  usage: {},
  view: { items: [{ call: "0", index: 1, item: { seq: 4, at_ms: 1004, kind: "assistant", turn, finish: "stop" } }] },
});

const CHAT = [
  { kind: "run_started", run: "r", chat: true, entry: "main", definitions: [] },
  { kind: "call_started", function: "main", source: "program", principal: "operator", input: "hi" },
  {
    kind: "conversation_started",
    worker: "main",
    model: "script:x",
    system: "",
    tools: [],
    with_user: {},
    message: { id: 0, role: "user", parts: [{ part: "text", text: "hi" }] },
  },
  {
    kind: "model_requested", step: "model.0.0", turn: 0, attempt: 0,
    view: { calls: { "0": { state: "running", started_ms: 1001, requested_ms: 1003 } } },
  },
];

describe("the changes of the examples", () => {
  test.each(["digest", "interview", "orchestrator"])("%s is whole", (name) => {
    const run = store(recorded(name));
    expect(run.unknown).toBe(0);
    expect(run.isOver).toBe(true);
    expect(run.root?.state).toMatch(/done|failed/);
    for (const call of run.calls.values()) expect(call.state).not.toMatch(/running|waiting|suspended/);
    expect(run.open.size).toBe(0);
    const costs = [...run.costs.values()].reduce((sum, line) => sum + line.spent.requests, 0);
    expect(run.spent.requests).toBe(costs);
  });

  test("an interview that was suspended twice has its turns in order", () => {
    const run = store(recorded("interview"));
    const items = run.calls.get("0/0.0")?.conversation?.items ?? [];
    expect(items.filter((item) => item.kind === "user").map((item) => item.number)).toEqual([0, 1, 2]);
  });
});

describe("applying", () => {
  test("a record is taken once, however often it comes", () => {
    const run = new RunStore();
    const events = recorded("digest");
    for (const event of events) run.take([event, event]);
    run.take(events.slice(3));
    expect(run.records).toBe(events.length);
    expect(run.calls.size).toBe(store(events).calls.size);
  });

  test("deltas are provisional: a discard takes them back, and a record confirms them", () => {
    const run = store(records(...CHAT));
    const delta = (turn: number, text: string): RunEvent => ({ event: "delta", path: "0", turn, delta: "text", text });
    run.take([delta(0, "He"), delta(0, "llo")]);
    expect(run.root?.streaming?.text).toBe("Hello");
    run.take([{ event: "discard", path: "0", turn: 0 }]);
    expect(run.root?.streaming).toBeUndefined();
    run.take([delta(0, "Hi")]);
    run.take(records(...CHAT, said(0, 1, "Hi there")));
    expect(run.root?.streaming).toBeUndefined();
    expect(run.root?.conversation?.items.at(-1)).toMatchObject({ kind: "assistant", turn: 0 });
  });

  test("a typed answer fills while it streams, until it is discarded or a record confirms it", () => {
    const run = store(records(...CHAT));
    const partial = (turn: number, ...growth: Growth[]): RunEvent => ({ event: "partial", path: "0", turn, growth });
    run.take([partial(0, { at: [], set: { title: "A w", tags: [] } })]);
    run.flush();
    const first = run.root?.streaming?.value;
    run.take([partial(0, { at: ["title"], append: "alk" }, { at: ["tags", 0], set: "x" }, { at: ["__proto__"], set: 1 })]);
    expect(first).toEqual({ title: "A w", tags: [] });
    expect(JSON.stringify(run.root?.streaming?.value)).toBe('{"title":"A walk","tags":["x"],"__proto__":1}');
    // Growth of another value changes nothing.
    const shown = run.root?.streaming?.value;
    run.take([partial(0, { at: ["tags", 7], set: 1 }, { at: ["none", "x"], append: "y" }, { at: ["title", "x"], set: 1 })]);
    expect(run.root?.streaming?.value).toEqual(shown);
    run.take([{ event: "discard_partial", path: "0", turn: 0 }]);
    expect(run.root?.streaming?.value).toBeUndefined();
    run.take([partial(0, { at: [], set: [1] })]);
    run.take(records(...CHAT, said(0, 1, "[1]")));
    expect(run.root?.streaming).toBeUndefined();
  });

  test("pieces after a discard are whole, also for who joins in the middle of an answer", () => {
    const run = store(records(...CHAT));
    const delta = (text: string): RunEvent => ({ event: "delta", path: "0", turn: 0, delta: "text", text });
    run.join(2000);
    run.take([{ event: "discard", path: "0", turn: 0 }, delta("One thing"), delta(" after the other")]);
    expect(run.root?.streaming).toMatchObject({ partial: false, text: "One thing after the other" });
    // The connection was lost for a while: the service tells the beginning again.
    run.join(3000);
    run.take([{ event: "discard", path: "0", turn: 0 }, delta("One thing after the other, and")]);
    expect(run.root?.streaming).toMatchObject({ partial: false, text: "One thing after the other, and" });
  });

  test("an answer names the tools that were not offered", () => {
    const answer = said(0, 1, "Hi");
    const run = store(records(...CHAT, { ...answer, unoffered: ["functions.ping"] }));
    expect(run.root?.conversation?.items.at(-1)).toMatchObject({ kind: "assistant", unoffered: ["functions.ping"] });
  });

  test("who joins in the middle of an answer is told that its beginning is missing", () => {
    const run = store(records(...CHAT));
    const delta: RunEvent = { event: "delta", path: "0", turn: 0, delta: "text", text: "x" };
    run.join(900);
    run.take([delta]);
    expect(run.root?.streaming?.partial).toBe(false);
    // The connection was lost for a while, and with it pieces.
    run.join(2000);
    run.take([delta]);
    expect(run.root?.streaming).toMatchObject({ partial: true, text: "x" });
    run.take(records(...CHAT, said(0, 1, "xyx")));
    expect(run.root?.streaming).toBeUndefined();
  });

  test("a question waits until it is answered", () => {
    const events = recorded("asking");
    const run = store(events.slice(0, 6));
    expect([run.open.size, run.root?.waiting, run.calls.get("0/0.0")?.state]).toEqual([1, 1, "waiting"]);
    run.take(events);
    expect([run.open.size, run.root?.waiting]).toEqual([0, 0]);
    const call = run.calls.get("0/0.0");
    expect(call?.questions.get("ask")?.answer).toMatchObject({ answer: "edit", by: "ada" });
    // The arguments that were used, and those that were given.
    expect([call?.input, call?.given, call?.state]).toEqual([{ a: 3 }, { a: 1 }, "done"]);
  });

  test("notes belong to their call", () => {
    const run = store(recorded("orchestrator"));
    expect(run.calls.get("0/code")?.notes.map((note) => note.text)).toEqual([
      "2 of 3 experts have answered\nan answer of 15 words at attempt 2\n",
    ]);
  });

  test("the failing call, and the slowest and the dearest by themselves, are found", () => {
    const began: Record<string, number> = {};
    const begun = (path: string, name: string, at_ms: number): Record<string, unknown> => {
      began[path] = at_ms;
      return { ...CHAT[1], path, function: name, at_ms, view: state(path, "running", at_ms) };
    };
    const ended = (path: string, at_ms: number, message?: string): Record<string, unknown> => ({
      kind: "call_ended", path, at_ms, usage: {},
      ending: message === undefined ? { output: 1 } : { failure: { kind: "tool", message } },
      view: state(path, message === undefined ? "done" : "failed", began[path] ?? 0, at_ms),
    });
    const run = store(
      records(
        { ...CHAT[0], at_ms: 0 },
        begun("0", "main", 0),
        begun("0/0.0", "reader", 10),
        ended("0/0.0", 20, "no such file"),
        begun("0/0.1", "child", 20),
        begun("0/0.1/0.0", "fetch", 30),
        ended("0/0.1/0.0", 900, "host is away"),
        ended("0/0.1", 910, "fetch failed: host is away"),
        begun("0/0.2", "later", 910),
        ended("0/0.2", 920),
        ended("0", 930, "child failed: fetch failed: host is away"),
      ),
    );
    expect(failingOf(run.root as Call).path).toBe("0/0.1/0.0");
    const { failed, waiting, slowest, dearest } = notableOf(run.calls.values(), 930);
    expect([failed, waiting, slowest?.call.path, slowest?.ms, dearest]).toEqual([4, 0, "0/0.1/0.0", 870, undefined]);
  });

  test("undone messages are marked, and later changes replace an item", () => {
    const run = store(recorded("chat"));
    const items = run.root?.conversation?.items ?? [];
    expect(items.map((item) => [item.kind, item.undone === true])).toEqual([
      ["user", false],
      ["assistant", false],
      ["attached", false],
      ["run", false],
      ["user", true],
      ["compacted", false],
      ["interjection", true],
      ["assistant", true],
      ["compacted", true],
      ["rule", false],
      ["undo", false],
    ]);
    expect(items[2]).toMatchObject({ file: "a.txt", bytes: 3, detached: true });
    expect(items[3]).toMatchObject({ kept: true, kept_by: [3], input: {} });
    expect(items[4]).toMatchObject({ number: 4, by: "ada", parts: [{ part: "text", text: "second" }] });
    expect(items[5]).toMatchObject({ taken_back: true, before: 9, after: 3, text: "older" });
    expect(items[6]).toMatchObject({ text: "quick" });
    expect(items[9]).toMatchObject({ forgotten: true });
    expect(run.calls.get("0/run.2")?.output).toBe("found");
    expect(run.turnOf("0")?.step).toBe("message.10");
    expect(run.root?.conversation?.context?.tokens).toBe(40);
  });

  test("names that objects have by nature are ordinary names", () => {
    const run = store(
      records(
        ...CHAT,
        { ...CHAT[1], path: "0/__proto__", function: "constructor", input: JSON.parse('{"__proto__":{"x":1}}') as never },
      ),
    );
    expect(run.calls.get("0/__proto__")?.name).toBe("constructor");
    expect(({} as Record<string, unknown>)["x"]).toBeUndefined();
  });

  test("the changes of a run of 20,000 calls are applied in time that grows with it", () => {
    const call = { kind: "call_started", function: "t", source: { toolset: "x" }, principal: "operator", input: {} };
    const many: Record<string, unknown>[] = [...CHAT];
    for (let i = 0; i < 20_000; i++) {
      const path = `0/${i}.0`;
      many.push(
        { ...call, path, view: state(path, "running", i) },
        { kind: "tool_ended", path, ending: { output: i }, view: state(path, "done", i, i + 1) },
      );
    }
    const events = records(...many);
    const began = performance.now();
    const run = store(events);
    expect(run.calls.size).toBe(20_001);
    expect(performance.now() - began).toBeLessThan(2000);
  });
});

test("values that are no events are refused", () => {
  for (const bad of [null, 1, [], {}, { event: "record" }, { event: "record", record: { seq: "1" } }, { event: "delta", path: "0" }]) {
    expect(asEvent(bad)).toBeUndefined();
  }
  expect(asEvent({ event: "delta", path: "0", turn: 0, delta: "text", text: "x" })).toBeDefined();
});

describe("server-sent events", () => {
  test("come whole, however the bytes are cut", () => {
    const text = 'event: record\nid: 0\ndata: {"a":1}\n\n: alive\n\nevent: delta\r\ndata: x\r\ndata: y\r\n\r\ndata';
    for (let cut = 0; cut <= text.length; cut++) {
      const first = take(text.slice(0, cut));
      const second = take(first.left + text.slice(cut));
      expect([...first.events, ...second.events], `cut at ${cut}`).toEqual([
        { event: "record", data: '{"a":1}' },
        { event: "delta", data: "x\ny" },
      ]);
    }
  });
});

test("deciders in words", () => {
  expect(decider({ rule: { origin: "project.yaml:4", of_caller: true } })).toBe("the rule at project.yaml:4 of a caller");
  expect(decider({ untrusted: { rule: { rule: { origin: "main.worker:11" } } } })).toContain("main.worker:11");
  expect(decider({ operator: { by: "ada", via: "http", edited: true } })).toBe("ada through http, with edited arguments");
  expect(decider("start")).toContain("operator");
  expect(decider({ later_kind: { x: 1 } })).toBe('{"later_kind":{"x":1}}');
});
