/**
 * A run as its events make it. Each event is folded in constant time (but for the depth of the call tree), so that a run of
 * any length can be followed. Nothing here is a proxy: `version` alone says that something changed, at most once a frame.
 */

import { SvelteMap } from "svelte/reactivity";
import { writeJson } from "../engine/json";
import type { Ending, KnownRecord, RunEvent, RunRecord, Usage } from "../engine/records";
import { Call, Conversation, Spent, type AskedQuestion, type Item } from "./call";

/** A line of the costs: one worker with one model. */
export interface CostLine {
  worker: string;
  model: string;
  spent: Spent;
}

type Of<K extends KnownRecord["kind"]> = Extract<KnownRecord, { kind: K }>;

export class RunStore {
  /** Changes when the run has changed. Components read it before the plain data. */
  version = $state(0);
  /** The same for the tree alone: calls that began. */
  calls_version = $state(0);

  readonly calls = new Map<string, Call>();
  root: Call | undefined;
  records = 0;
  lastSeq: number | undefined;
  start: Of<"run_started"> | undefined;
  ended: { status: string; ending: Ending; usage: Usage; at_ms: number } | undefined;
  /** Time of the newest record. */
  last_ms = 0;
  readonly definitions = new Map<string, { file: string; text: string }>();
  /** Questions without an answer, in the order in which they were asked. */
  readonly open = new Map<string, AskedQuestion>();
  readonly costs = new Map<string, CostLine>();
  /** How many records are of a kind that this page does not know. */
  unknown = 0;
  /** Of a call's detail: which steps are open. Kept with the run, so that it survives a change of view. */
  readonly opened = new SvelteMap<string, boolean>();

  #changed = false;
  #grown = false;
  #scheduled = false;
  #joined_ms = 0;

  /** Says that a stream begins. Pieces of answers that were sent before are lost; the records of the answers are not. */
  join(now: number): void {
    this.#joined_ms = now;
    for (const call of this.calls.values()) {
      if (call.streaming !== undefined) call.streaming = { ...call.streaming, text: "", reasoning: "", partial: true };
    }
  }

  /** Takes what a stream brought. */
  take(events: readonly RunEvent[]): void {
    for (const event of events) {
      if (event.event === "record") this.#record(event.record);
      else if (event.event === "discard") this.#discard(event.path, event.turn);
      else {
        const call = this.calls.get(event.path);
        // A delta of a turn that a record has confirmed comes too late.
        if (call === undefined) continue;
        let { streaming } = call;
        if (streaming === undefined || streaming.turn < event.turn) {
          const partial = call.requested_ms < this.#joined_ms;
          streaming = { turn: event.turn, text: "", reasoning: "", calls: [], partial };
          call.streaming = streaming;
        }
        if (streaming.turn !== event.turn) continue;
        if (event.delta === "call") streaming.calls.push(event.name);
        else streaming[event.delta] += event.text;
      }
      this.#changed = true;
    }
    this.#schedule();
  }

  /** Lets components see at once what `take` has brought. */
  flush(): void {
    this.#scheduled = false;
    if (this.#grown) this.calls_version++;
    if (this.#changed) this.version++;
    this.#grown = this.#changed = false;
  }

  /** The spent tokens of the whole run. */
  get spent(): Spent {
    return this.root?.spent ?? NOTHING;
  }

  get isOver(): boolean {
    return this.ended !== undefined && this.ended.status !== "suspended";
  }

  /** The question that waits for the user's next message of that call's conversation. */
  turnOf(path: string): AskedQuestion | undefined {
    for (const asked of this.open.values()) {
      if (asked.call === path && asked.question.question === "input" && asked.question.conversation) return asked;
    }
    return undefined;
  }

  #schedule(): void {
    if (this.#scheduled || !this.#changed) return;
    this.#scheduled = true;
    // A hidden page has no frames, and a timer is enough for it.
    if (typeof requestAnimationFrame === "function" && !document.hidden) requestAnimationFrame(() => this.flush());
    else setTimeout(() => this.flush(), 50);
  }

  #discard(path: string, turn: number): void {
    const call = this.calls.get(path);
    if (call?.streaming?.turn === turn) call.streaming = undefined;
  }

  #call(path: string, at_ms: number): Call {
    const known = this.calls.get(path);
    if (known !== undefined) return known;
    const slash = path.lastIndexOf("/");
    // Records come parent first. A journal that does not is shown as far as possible.
    const parent = slash === -1 ? undefined : this.#call(path.slice(0, slash), at_ms);
    const call = new Call(path, parent, at_ms);
    this.calls.set(path, call);
    if (parent === undefined) this.root ??= call;
    else parent.children.push(call);
    this.#grown = true;
    return call;
  }

  #record(read: RunRecord): void {
    if (this.lastSeq !== undefined && read.seq <= this.lastSeq) return;
    this.lastSeq = read.seq;
    this.records++;
    this.last_ms = Math.max(this.last_ms, read.at_ms);
    const record = read as KnownRecord;
    const call = this.#call(record.path, record.at_ms);
    call.records.push(read);
    switch (record.kind) {
      case "run_started":
        this.start = record;
        for (const { worker, file, text } of record.definitions ?? []) this.definitions.set(worker, { file, text });
        return;
      case "run_resumed":
        this.ended = undefined;
        for (const other of this.calls.values()) if (other.state === "suspended") resume(other);
        return;
      case "definition":
        this.definitions.set(record.worker, { file: record.file, text: record.text });
        return;
      case "call_started":
        call.name = record.function;
        call.source = record.source;
        call.principal = record.principal;
        call.input = record.input;
        call.inputMarks = record.origins ?? [];
        call.started_ms = record.at_ms;
        call.definition = this.definitions.get(record.function);
        return;
      case "verdict": {
        const { rule, by, reason } = record;
        call.verdict = reason === undefined ? { rule, by } : { rule, by, reason };
        if (rule === "blocked") this.#end(call, "refused", record.at_ms);
        return;
      }
      case "asked":
        this.#asked(call, record);
        return;
      case "answered":
        this.#answered(call, record);
        return;
      case "tool_started":
        call.risk = record.risk;
        return;
      case "tool_ended":
        call.ending = record.ending;
        call.resultMarks = record.origins ?? [];
        call.blobs = record.blobs ?? [];
        if (record.log !== undefined) call.log = record.log;
        this.#end(call, stateOf(record.ending), record.at_ms);
        return;
      case "call_ended":
        call.ending = record.ending;
        call.resultMarks = record.origins ?? [];
        call.blobs = record.blobs ?? [];
        call.streaming = undefined;
        this.#end(call, stateOf(record.ending), record.at_ms);
        return;
      case "timed_out":
        if (record.step.startsWith("tool")) {
          const message = `no end within ${record.after_ms} ms`;
          call.ending = { failure: { kind: "timeout", message } };
          this.#end(call, "failed", record.at_ms);
        }
        return;
      case "cancelled":
        if (record.step.startsWith("tool") || call.children.length === 0) this.#end(call, "cancelled", record.at_ms);
        return;
      case "run_ended": {
        const { status, ending, usage, at_ms } = record;
        this.ended = { status, ending, usage, at_ms };
        if (status === "suspended") return;
        for (const other of this.calls.values()) {
          if (other.ended_ms === undefined) this.#end(other, "cancelled", at_ms);
          other.streaming = undefined;
        }
        this.open.clear();
        for (const other of this.calls.values()) other.waiting = 0;
        return;
      }
      default:
        this.#ofConversation(call, record);
    }
  }

  #ofConversation(call: Call, record: KnownRecord): void {
    const { conversation } = call;
    const at = { seq: record.seq, at_ms: record.at_ms };
    switch (record.kind) {
      case "conversation_started":
        call.conversation = new Conversation(record);
        if (record.message.parts.length > 0) {
          call.conversation.items.push({ ...at, kind: "user", number: 0, parts: record.message.parts });
        }
        return;
      case "model_requested":
        call.requested_ms = record.at_ms;
        if (record.attempt > 0) call.retries++;
        return;
      case "model_answered": {
        this.#spend(call, record.usage ?? {});
        if (record.step.startsWith("summary.")) return;
        const turn = Number(record.step.split(".")[1]);
        const { message, finish, usage } = record;
        conversation?.items.push({ ...at, kind: "assistant", turn, message, finish, usage: usage ?? {} });
        call.streaming = undefined;
        return;
      }
      case "model_failed":
        call.streaming = undefined;
        conversation?.items.push({ ...at, kind: "note", tone: "warn", text: `Request failed: ${record.error.message}` });
        return;
      case "message_added":
        conversation?.items.push({ ...at, kind: "repair", message: record.message });
        return;
      case "attached": {
        const { bytes, origin = "trusted" } = record;
        conversation?.change("attached", (item) => item.number === numberOf(record.step), { bytes, origin });
        return;
      }
      case "not_attached": {
        const { reason } = record;
        conversation?.change("attached", (item) => item.number === numberOf(record.step), { reason });
        return;
      }
      case "model_chosen":
        if (conversation !== undefined) {
          conversation.model = record.model;
          conversation.items.push({ ...at, kind: "model", model: record.model });
        }
        return;
      case "model_not_chosen":
        conversation?.items.push({ ...at, kind: "note", tone: "warn", text: `The model stays: ${record.reason}` });
        return;
      case "compacted": {
        const item: Item = {
          ...at,
          kind: "compacted",
          before: record.before,
          after: record.after,
          results: record.results?.length ?? 0,
          ...(record.summary === undefined ? {} : { text: record.summary.text }),
          ...(record.failure === undefined ? {} : { failure: record.failure }),
        };
        conversation?.items.push(item);
        return;
      }
      case "undone": {
        const number = numberOf(record.step);
        conversation?.items.push({ ...at, kind: "undo", number, files: record.files, others: record.others ?? [] });
        return;
      }
      case "restored":
        conversation?.change("undo", () => true, { restored: record.files });
        return;
      case "limit":
      case "not_reserved":
        conversation?.items.push({ ...at, kind: "note", tone: "warn", text: `Limit: ${record.what}` });
        return;
      case "note":
        call.notes.push({ ...at, text: record.text });
        conversation?.items.push({ ...at, kind: "note", tone: "info", text: record.text });
        return;
      default:
        if (!UNSHOWN.has(record.kind)) this.unknown++;
    }
  }

  #spend(call: Call, usage: Usage): void {
    for (let at: Call | undefined = call; at !== undefined; at = at.parent) at.spent.add(usage);
    const worker = call.conversation?.worker ?? call.name;
    const model = call.conversation?.model ?? "";
    const key = `${worker}\n${model}`;
    let line = this.costs.get(key);
    if (line === undefined) {
      line = { worker, model, spent: new Spent() };
      this.costs.set(key, line);
    }
    line.spent.add(usage);
  }

  #end(call: Call, state: Call["state"], at_ms: number): void {
    call.state = state;
    if (state !== "suspended") call.ended_ms = at_ms;
  }

  #asked(call: Call, record: Of<"asked">): void {
    const { seq, at_ms, path, step } = record;
    const asked: AskedQuestion = { call: path, step, seq, at_ms, question: record };
    call.questions.set(step, asked);
    const key = `${path}:${step}`;
    if (!this.open.has(key)) for (let at: Call | undefined = call; at !== undefined; at = at.parent) at.waiting++;
    this.open.set(key, asked);
    if (record.question !== "input") call.risk = record.risk;
    call.state = "waiting";
    if (record.question !== "input" || record.conversation === undefined) return;
    const { context, failure, cut_off } = record.conversation;
    const { conversation } = call;
    if (conversation === undefined) return;
    if (context !== undefined) conversation.context = context;
    if (failure !== undefined) {
      conversation.items.push({ seq, at_ms, kind: "failure", failure, cutOff: cut_off === true });
    }
  }

  #answered(call: Call, record: Of<"answered">): void {
    const { path, step, by } = record;
    const asked = call.questions.get(step);
    if (asked !== undefined) asked.answer = record;
    if (record.answer === "edit") {
      call.given ??= call.input;
      call.input = record.input;
      // Pointers into the arguments that were given.
      call.inputMarks = [];
    }
    if (this.open.delete(`${path}:${step}`)) {
      for (let at: Call | undefined = call; at !== undefined; at = at.parent) at.waiting--;
    }
    if (call.state === "waiting" || call.state === "suspended") call.state = "running";
    if (call.conversation === undefined || !/^(message|now)\./.test(step)) return;
    this.#userDid(call, call.conversation, record, by);
  }

  #userDid(call: Call, conversation: Conversation, record: Of<"answered">, by: string): void {
    const at = { seq: record.seq, at_ms: record.at_ms };
    const number = numberOf(record.step);
    const { items } = conversation;
    switch (record.answer) {
      case "give": {
        const text = typeof record.value === "string" ? record.value : writeJson(record.value);
        if (record.step.startsWith("now.")) items.push({ ...at, kind: "interjection", turn: number, text });
        else items.push({ ...at, kind: "user", number, parts: [{ part: "text", text }], by });
        return;
      }
      case "undo": {
        // Everything from that message on. Costs stay.
        let from = items.findIndex((item) => item.kind === "user" && item.number === record.message && !item.undone);
        if (from === -1) return;
        for (; from < items.length; from++) {
          const item = items[from];
          if (item !== undefined && item.kind !== "rule") items[from] = { ...item, undone: true };
        }
        return;
      }
      case "run": {
        const path = `${call.path}/run.${number}`;
        items.push({ ...at, kind: "run", number, worker: record.worker, input: record.input, path });
        return;
      }
      case "keep":
      case "detach": {
        const { message } = record;
        conversation.change("run", (item) => item.number === message || item.keptBy === message, {
          kept: record.answer === "keep",
          keptBy: number,
        });
        conversation.change("attached", (item) => item.number === message, { detached: true });
        return;
      }
      case "attach":
        items.push({ ...at, kind: "attached", number, file: record.file });
        return;
      case "rule": {
        const id = { call: record.path, step: record.step };
        items.push({ ...at, kind: "rule", id, rule: record.rule, calls: record.calls });
        return;
      }
      case "forget": {
        const { of } = record;
        conversation.change("rule", (item) => item.id.call === of.call && item.id.step === of.step, { forgotten: true });
        const asked = this.calls.get(of.call)?.questions.get(of.step);
        if (asked?.answer && "remember" in asked.answer) asked.answer = { ...asked.answer, remember: false };
        return;
      }
      case "undo_compaction":
        conversation.change("compacted", (item) => !item.takenBack, { takenBack: true });
        return;
      case "end":
        items.push({ ...at, kind: "end", by });
        return;
      default:
    }
  }
}

const NOTHING = new Spent();

/** Kinds that need no place of their own. */
const UNSHOWN = new Set<string>([
  "links_followed",
  "rechecked",
  "rule_stated",
  "foreseen",
  "tool_asked",
  "leased",
  "reserved",
  "slept",
  "random",
  "worked",
  "tools_listed",
  "text_inserted",
  "queued",
]);

const numberOf = (step: string): number => Number(step.slice(step.indexOf(".") + 1)) || 0;

function stateOf(ending: Ending): Call["state"] {
  if (ending === "suspended") return "suspended";
  if ("output" in ending) return "done";
  const { kind } = ending.failure;
  return kind === "denied" || kind === "blocked" || kind === "authority" ? "refused" : "failed";
}

function resume(call: Call): void {
  call.ending = undefined;
  call.ended_ms = undefined;
  call.state = [...call.questions.values()].some((asked) => asked.answer === undefined) ? "waiting" : "running";
}
