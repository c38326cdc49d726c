import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { asEvent, asRecord, type RunEvent, type RunRecord } from "../../src/engine/records";
import { take } from "../../src/engine/sse";
import { RunStore } from "../../src/store/run.svelte";
import { decider } from "../../src/text/decider";

const RECORDED = new URL("../../../examples/recorded/", import.meta.url);

function recorded(name: string): RunEvent[] {
  const lines = readFileSync(new URL(`${name}/journal.jsonl`, RECORDED), "utf8").trim().split("\n");
  return lines.map((line) => {
    const record = asRecord(JSON.parse(line));
    if (record === undefined) throw new Error(`no record: ${line}`);
    return { event: "record", record };
  });
}

function store(events: RunEvent[]): RunStore {
  const run = new RunStore();
  run.take(events);
  run.flush();
  return run;
}

/** Records of a chat, from what matters of each. */
function records(...given: Partial<RunRecord & Record<string, unknown>>[]): RunEvent[] {
  return given.map((fields, seq) => ({
    event: "record",
    record: { seq, at_ms: 1000 + seq, path: "0", step: "x", kind: "note", ...fields } as unknown as RunRecord,
  }));
}

const said = (turn: number, id: number, text: string): Record<string, unknown> => ({
  kind: "model_answered",
  step: `model.${turn}.0`,
  message: { id, role: "assistant", parts: [{ part: "text", text }] },
  finish: "stop",
  usage: { input_tokens: 100, output_tokens: 10, cost_usd: 0.25 },
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
  { kind: "model_requested", step: "model.0.0", turn: 0, attempt: 0 },
];

describe("the records of the examples", () => {
  const names = readdirSync(RECORDED).flatMap((name) =>
    name === "mail-assistant" ? ["mail-assistant/after", "mail-assistant/before"] : [name],
  );
  test.each(names)("%s is folded whole", (name) => {
    const run = store(recorded(name));
    expect(run.unknown).toBe(0);
    expect(run.isOver).toBe(true);
    expect(run.root?.state).toMatch(/done|failed/);
    for (const call of run.calls.values()) expect(call.state).not.toMatch(/running|waiting|suspended/);
    expect(run.open.size).toBe(0);
  });

  test("an interview that was suspended twice has its turns in order", () => {
    const run = store(recorded("interview"));
    const items = run.calls.get("0/0.0")?.conversation?.items ?? [];
    expect(items.filter((item) => item.kind === "user").map((item) => item.number)).toEqual([0, 1, 2]);
  });
});

describe("folding", () => {
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

  test("tokens and costs add up the tree", () => {
    const child = { path: "0/0.0" };
    const run = store(
      records(
        ...CHAT,
        said(0, 1, "a"),
        { ...CHAT[1], ...child, function: "child" },
        { ...CHAT[2], ...child, worker: "child" },
        { ...said(0, 1, "b"), ...child },
        { ...said(1, 3, "c"), ...child, usage: {} },
      ),
    );
    expect(run.root?.spent).toMatchObject({ requests: 3, input: 200, output: 20, cost: 0.5, unpriced: 1 });
    expect(run.calls.get("0/0.0")?.spent).toMatchObject({ requests: 2, input: 100 });
    expect([...run.costs.values()].map((line) => line.worker)).toEqual(["main", "child"]);
  });

  test("a question waits until it is answered", () => {
    const asked = { kind: "asked", path: "0/0.0", step: "ask", question: "approval", risk: "write", input: {} };
    const run = store(records(...CHAT, { ...CHAT[1], path: "0/0.0", function: "write_file" }, asked));
    expect([run.open.size, run.root?.waiting, run.calls.get("0/0.0")?.state]).toEqual([1, 1, "waiting"]);
    run.take(
      records(...CHAT, CHAT[1] ?? {}, asked, {
        kind: "answered",
        path: "0/0.0",
        step: "ask",
        answer: "deny",
        reason: "no",
        by: "ada",
        via: "http",
      }),
    );
    expect([run.open.size, run.root?.waiting]).toEqual([0, 0]);
    expect(run.calls.get("0/0.0")?.questions.get("ask")?.answer).toMatchObject({ answer: "deny", by: "ada" });
  });

  test("a call that was edited has the arguments that were used, and those that were given", () => {
    const asked = { kind: "asked", path: "0/0.0", step: "ask", question: "approval", risk: "write", input: { a: 1 } };
    const edit = { kind: "answered", path: "0/0.0", step: "ask", answer: "edit", input: { a: 2 }, by: "ada", via: "http" };
    const begun = { ...CHAT[1], path: "0/0.0", function: "write_file", input: { a: 1 } };
    const call = store(records(...CHAT, begun, asked, edit)).calls.get("0/0.0");
    expect([call?.input, call?.given]).toEqual([{ a: 2 }, { a: 1 }]);
    const again = { ...edit, step: "ask.1", input: { a: 3 } };
    const twice = store(records(...CHAT, begun, asked, edit, again)).calls.get("0/0.0");
    expect([twice?.input, twice?.given]).toEqual([{ a: 3 }, { a: 1 }]);
  });

  test("notes belong to their call", () => {
    const run = store(recorded("orchestrator"));
    expect(run.calls.get("0/code")?.notes.map((note) => note.text)).toEqual([
      "2 of 3 experts have answered\nan answer of 15 words at attempt 2\n",
    ]);
  });

  test("undone messages are marked, with all that followed", () => {
    const turn = (number: number): Record<string, unknown> => ({
      kind: "asked",
      step: `message.${number}`,
      question: "input",
      chain: ["main"],
      prompt: "",
      conversation: { number, context: { tokens: 40 } },
    });
    const did = (number: number, answer: object): Record<string, unknown> => ({
      kind: "answered",
      step: `message.${number}`,
      by: "ada",
      via: "http",
      ...answer,
    });
    const run = store(
      records(
        ...CHAT,
        said(0, 1, "one"),
        turn(1),
        did(1, { answer: "give", value: "second" }),
        said(1, 3, "two"),
        turn(2),
        did(2, { answer: "undo", message: 1 }),
        turn(3),
        did(3, { answer: "rule", rule: "blocked", calls: "shell" }),
        turn(4),
        did(4, { answer: "forget", of: { call: "0", step: "message.3" } }),
        turn(5),
      ),
    );
    const items = run.root?.conversation?.items ?? [];
    expect(items.map((item) => [item.kind, item.undone === true])).toEqual([
      ["user", false],
      ["assistant", false],
      ["user", true],
      ["assistant", true],
      ["rule", false],
    ]);
    expect(items.at(-1)).toMatchObject({ forgotten: true });
    expect(run.turnOf("0")?.step).toBe("message.5");
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

  test("a run of 20,000 calls is folded in time that grows with it", () => {
    const call = { kind: "call_started", function: "t", source: { toolset: "x" }, principal: "operator", input: {} };
    const many: Record<string, unknown>[] = [...CHAT];
    for (let i = 0; i < 20_000; i++) {
      many.push({ ...call, path: `0/${i}.0` }, { kind: "tool_ended", path: `0/${i}.0`, ending: { output: i } });
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
