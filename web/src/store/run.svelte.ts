/**
 * A run as its events make it. The engine folds the records and sends what each of them changes; this store applies the
 * changes and keeps the values that the records hold. Nothing here is a proxy: `version` alone says that something changed, at most once a
 * frame, and less often where it takes long to show.
 */

import { flushSync } from "svelte";
import { SvelteMap } from "svelte/reactivity";
import type { Ending, KnownRecord, RunChanges, RunEvent, RunRecord, Spent, Usage } from "../engine/records";
import { grown } from "./growth";
import { Call, Conversation, NOTHING, type AskedQuestion } from "./call";

/** A line of the costs: one worker with one model. */
export interface CostLine {
  worker: string;
  model: string;
  spent: Spent;
}

/** How many times longer the page rests than components took to show the last changes, so that a long run leaves it free. */
const RESTS = 3;
const LONGEST_REST_MS = 1000;
const FRAME_MS = 16;

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
  /** Calls that wait for a further attempt at a request to their models. */
  readonly retrying = new Map<string, Call>();
  readonly costs = new Map<string, CostLine>();
  /** How many records are of a kind that this page does not know. */
  unknown = 0;
  /** Of a call's detail: which steps are open. Kept with the run, so that it survives a change of view. */
  readonly opened = new SvelteMap<string, boolean>();

  #changed = false;
  #grown = false;
  #scheduled = false;
  /** When components may see changes again. Before, the page is free for its reader. */
  #rests_until = 0;
  #joined_ms = 0;
  /** The containers of typed answers that components have not seen yet. */
  #fresh = new Set<unknown>();
  /** Turns of calls whose pieces follow from the first on. */
  readonly #whole = new Map<string, number>();

  /** Says that a stream begins. Pieces of answers that were sent before are lost; the records of the answers are not. */
  join(now: number): void {
    this.#joined_ms = now;
    this.#whole.clear();
    for (const call of this.calls.values()) {
      if (call.streaming !== undefined) call.streaming = { ...call.streaming, text: "", reasoning: "", value: undefined, partial: true };
    }
  }

  /** Takes what a stream brought. */
  take(events: readonly RunEvent[]): void {
    for (const event of events) {
      if (event.event === "record") this.#record(event.record, event.view);
      else if (event.event === "joined") this.join(Date.now());
      else if (event.event === "discard") this.#discard(event.path, event.turn);
      else if (event.event === "discard_partial") {
        const streaming = this.calls.get(event.path)?.streaming;
        if (streaming?.turn === event.turn) streaming.value = undefined;
      } else {
        const call = this.calls.get(event.path);
        // A delta of a turn that a record has confirmed comes too late.
        if (call === undefined) continue;
        let { streaming } = call;
        if (streaming === undefined || streaming.turn < event.turn) {
          const partial = call.requested_ms < this.#joined_ms && this.#whole.get(event.path) !== event.turn;
          streaming = { turn: event.turn, text: "", reasoning: "", calls: [], partial };
          call.streaming = streaming;
        }
        if (streaming.turn !== event.turn) continue;
        if (event.event === "partial") {
          for (const growth of event.growth) streaming.value = grown(streaming.value, growth, this.#fresh);
        } else if (event.delta === "call") streaming.calls.push(event.name);
        else streaming[event.delta] += event.text;
      }
      this.#changed = true;
    }
    this.#schedule();
  }

  /** Lets components see at once what `take` has brought. */
  flush(): void {
    this.#scheduled = false;
    const began = performance.now();
    flushSync(() => {
      if (this.#grown) this.calls_version++;
      if (this.#changed) this.version++;
    });
    this.#grown = this.#changed = false;
    this.#fresh.clear();
    const ended = performance.now();
    this.#rests_until = ended + Math.min(LONGEST_REST_MS, (ended - began) * RESTS);
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
    const rest = this.#rests_until - performance.now();
    // A hidden page has no frames, and a timer is enough for it.
    if (typeof requestAnimationFrame !== "function" || document.hidden) setTimeout(() => this.flush(), Math.max(rest, 50));
    else if (rest > FRAME_MS) setTimeout(() => requestAnimationFrame(() => this.flush()), rest);
    else requestAnimationFrame(() => this.flush());
  }

  #discard(path: string, turn: number): void {
    this.#whole.set(path, turn);
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

  #record(read: RunRecord, view: RunChanges): void {
    if (this.lastSeq !== undefined && read.seq <= this.lastSeq) return;
    this.lastSeq = read.seq;
    this.records++;
    this.last_ms = Math.max(this.last_ms, read.at_ms);
    const record = read as KnownRecord;
    const call = this.#call(record.path, record.at_ms);
    call.records.push(read);
    this.#read(call, record);
    this.#apply(view, record);
    if (record.kind === "timed_out" && call.state === "failed") {
      call.ending = { failure: { kind: "timeout", message: `no end within ${record.after_ms} ms` } };
    }
  }

  /** Takes the state of the run, its calls and conversations, as the engine has it after the record. */
  #apply(view: RunChanges, record: KnownRecord): void {
    for (const [path, change] of Object.entries(view.calls ?? {})) {
      const call = this.#call(path, record.at_ms);
      const resumes = call.state === "cancelled" || call.state === "suspended";
      call.state = change.state;
      call.started_ms = change.started_ms;
      call.ended_ms = change.ended_ms;
      call.waiting = change.waiting ?? 0;
      call.requested_ms = change.requested_ms ?? 0;
      call.retries = change.retries ?? 0;
      call.retry = change.retry;
      if (change.retry === undefined) this.retrying.delete(path);
      else this.retrying.set(path, call);
      call.spent = change.spent ?? NOTHING;
      if (change.state === "running" || change.state === "waiting") call.ending = undefined;
      else call.streaming = undefined;
      // The questions of a run that was interrupted wait again.
      if (resumes && call.waiting > 0) {
        for (const asked of call.questions.values()) if (asked.answer === undefined) this.open.set(`${path}:${asked.step}`, asked);
      }
      // Withdrawn, or over with the run.
      if (call.waiting === 0) for (const [key, asked] of this.open) if (asked.call === path) this.open.delete(key);
    }
    for (const { call: path, index, item } of view.items ?? []) {
      const call = this.#call(path, record.at_ms);
      call.conversation?.take(index, item, record);
      if (item.kind === "assistant") call.streaming = undefined;
    }
    for (const line of view.costs ?? []) this.costs.set(`${line.worker}\n${line.model}`, line);
    if (view.end === null) this.ended = undefined;
    else if (view.end !== undefined && record.kind === "run_ended") {
      const { status, ending, usage, at_ms } = record;
      this.ended = { status, ending, usage, at_ms };
    }
  }

  /** Keeps the values that a record holds. */
  #read(call: Call, record: KnownRecord): void {
    switch (record.kind) {
      case "run_started":
        this.start = record;
        for (const { worker, file, text } of record.definitions ?? []) this.definitions.set(worker, { file, text });
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
        call.definition = this.definitions.get(record.function);
        return;
      case "verdict": {
        const { rule, by, reason } = record;
        call.verdict = reason === undefined ? { rule, by } : { rule, by, reason };
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
      case "call_ended":
        call.ending = record.ending;
        call.resultMarks = record.origins ?? [];
        call.blobs = record.blobs ?? [];
        if (record.kind === "tool_ended" && record.log !== undefined) call.log = record.log;
        return;
      case "conversation_started":
        call.conversation = new Conversation(record);
        return;
      case "model_failed":
        call.streaming = undefined;
        return;
      case "model_chosen":
        if (call.conversation !== undefined) call.conversation.model = record.model;
        return;
      case "note":
        call.notes.push({ seq: record.seq, at_ms: record.at_ms, text: record.text });
        return;
      default:
        if (!UNREAD.has(record.kind)) this.unknown++;
    }
  }

  #asked(call: Call, record: Of<"asked">): void {
    const { seq, at_ms, path, step } = record;
    const asked: AskedQuestion = { call: path, step, seq, at_ms, question: record };
    call.questions.set(step, asked);
    this.open.set(`${path}:${step}`, asked);
    if (record.question !== "input") call.risk = record.risk;
    else if (record.conversation?.context !== undefined && call.conversation !== undefined) {
      call.conversation.context = record.conversation.context;
    }
  }

  #answered(call: Call, record: Of<"answered">): void {
    const { path, step } = record;
    const asked = call.questions.get(step);
    if (asked !== undefined) asked.answer = record;
    this.open.delete(`${path}:${step}`);
    if (record.answer === "edit") {
      call.given ??= call.input;
      call.input = record.input;
      // Pointers into the arguments that were given.
      call.inputMarks = [];
    } else if (record.answer === "forget") {
      const of = this.calls.get(record.of.call)?.questions.get(record.of.step);
      if (of?.answer && "remember" in of.answer) of.answer = { ...of.answer, remember: false };
    }
  }
}

/** Kinds whose values are in the view or in no place of their own. */
const UNREAD = new Set<string>([
  "run_resumed",
  "run_ended",
  "cancelled",
  "timed_out",
  "model_requested",
  "model_answered",
  "message_added",
  "attached",
  "not_attached",
  "model_not_chosen",
  "compacted",
  "undone",
  "restored",
  "limit",
  "not_reserved",
  "links_followed",
  "rechecked",
  "rule_stated",
  "checked",
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
