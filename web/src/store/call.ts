/** One call of a run, as its records have it so far. */

import type {
  Answer,
  Blob64,
  CallState,
  ContextUse,
  Decider,
  Ending,
  Failure,
  Given,
  ItemChange,
  Json,
  KnownRecord,
  Mark,
  Message,
  Origin,
  Part,
  Principal,
  Question,
  Retry,
  Risk,
  RunRecord,
  Source,
  Spent,
  Usage,
} from "../engine/records";
import { writeJson } from "../engine/json";

export const NOTHING: Spent = { requests: 0, input: 0, cached: 0, output: 0, cost: 0, unpriced: 0, uncounted: 0 };

export interface AskedQuestion {
  call: string;
  step: string;
  seq: number;
  at_ms: number;
  question: Question;
  answer?: Answer & Given;
}

/** What the model of a call is saying now. Provisional: a record confirms or replaces it. */
export interface Streaming {
  turn: number;
  text: string;
  reasoning: string;
  calls: string[];
  /** The typed answer so far. */
  value?: Json | undefined;
  /** Whether the beginning was said before this page listened. */
  partial: boolean;
}

/** What an item has from its record. */
interface OfRecord {
  user: { parts: Part[]; by?: string };
  /** `unoffered`: tools that the model called and that it was not offered. */
  assistant: { message: Message; usage: Usage; unoffered: string[] };
  interjection: { text: string };
  repair: { message: Message };
  run: { input: Json };
  compacted: { before: number; after: number; text?: string; failure?: string; results: number };
}

type Whole<C extends ItemChange> = C["kind"] extends keyof OfRecord ? C & OfRecord[C["kind"]] : C;
type Each<C> = C extends ItemChange ? Whole<C> : never;

/** One thing in a conversation, in the order in which it happened. */
export type Item = Each<ItemChange>;

/** The conversation of a worker. */
export class Conversation {
  model: string;
  readonly worker: string;
  readonly system: string;
  readonly tools: { name: string; description?: string; input: Json }[];
  readonly withheld: { name: string; why: string }[];
  readonly withUser: boolean;
  readonly first: Message;
  readonly origin: Origin;
  /** An item that changes is replaced: what draws it compares identities. */
  readonly items: Item[] = [];
  context: ContextUse | undefined;
  limit: number | undefined;

  constructor(record: Extract<RunRecord, { kind: "conversation_started"; worker: string }>) {
    this.worker = record.worker;
    this.model = record.model;
    this.system = record.system;
    this.tools = record.tools;
    this.withheld = record.withheld ?? [];
    this.withUser = record.with_user !== undefined;
    this.first = record.message;
    this.origin = record.origin ?? "trusted";
    this.limit = record.max_context_tokens;
  }

  /** Takes an item of the view. The record makes it, if it is new. */
  take(index: number, change: ItemChange, record: KnownRecord): void {
    const before = this.items[index];
    this.items[index] = before === undefined ? whole(change, record) : ({ ...before, ...change } as Item);
  }
}

/** A new item with what its record has. */
function whole(change: ItemChange, record: KnownRecord): Item {
  switch (change.kind) {
    case "user":
      if (record.kind === "conversation_started") return { ...change, parts: record.message.parts };
      return { ...change, parts: [{ part: "text", text: given(record) }], ...(record.kind === "answered" ? { by: record.by } : {}) };
    case "interjection":
      return { ...change, text: given(record) };
    case "assistant":
      if (record.kind !== "model_answered") break;
      return { ...change, message: record.message, usage: record.usage ?? {}, unoffered: record.unoffered ?? [] };
    case "repair":
      if (record.kind !== "message_added") break;
      return { ...change, message: record.message };
    case "run":
      return { ...change, input: record.kind === "answered" && record.answer === "run" ? record.input : null };
    case "compacted": {
      if (record.kind !== "compacted") break;
      const { before, after, results, summary, failure } = record;
      return {
        ...change,
        before,
        after,
        results: results?.length ?? 0,
        ...(summary === undefined ? {} : { text: summary.text }),
        ...(failure === undefined ? {} : { failure }),
      };
    }
    default:
      return change;
  }
  const { seq, at_ms } = change;
  return { seq, at_ms, kind: "note", tone: "warn", text: `This page can't read record ${seq}.` };
}

/** The words of the user in an answer. */
function given(record: KnownRecord): string {
  if (record.kind !== "answered" || record.answer !== "give") return "";
  return typeof record.value === "string" ? record.value : writeJson(record.value);
}

export class Call {
  readonly path: string;
  readonly parent: Call | undefined;
  readonly depth: number;
  readonly children: Call[] = [];
  name = "";
  source: Source = "program";
  principal: Principal = "operator";
  /** The arguments that are used. */
  input: Json = null;
  /** The arguments that the caller gave, where an approval has changed them. */
  given: Json | undefined;
  inputMarks: Mark[] = [];
  risk: Risk | undefined;
  started_ms: number;
  ended_ms: number | undefined;
  state: CallState = "running";
  verdict: { rule: string; by: Decider; reason?: string } | undefined;
  ending: Ending | undefined;
  resultMarks: Mark[] = [];
  /** The output that its code printed. */
  log: string | undefined;
  readonly notes: { seq: number; at_ms: number; text: string }[] = [];
  blobs: Blob64[] = [];
  conversation: Conversation | undefined;
  streaming: Streaming | undefined;
  /** Of this call and all below it. */
  spent = NOTHING;
  /** Questions of this call, by step. */
  readonly questions = new Map<string, AskedQuestion>();
  /** Questions of this call and below it that have no answer. */
  waiting = 0;
  readonly records: RunRecord[] = [];
  /** When the newest request to the model was sent. */
  requested_ms = 0;
  /** Further attempts at requests to the model. */
  retries = 0;
  /** The attempt that it waits for, after a request has failed. */
  retry: Retry | undefined;
  definition: { file: string; text: string } | undefined;

  constructor(path: string, parent: Call | undefined, at_ms: number) {
    this.path = path;
    this.parent = parent;
    this.depth = parent === undefined ? 0 : parent.depth + 1;
    this.started_ms = at_ms;
  }

  get isWorker(): boolean {
    return this.conversation !== undefined || this.source === "program" || this.source === "generated";
  }

  get isUntrusted(): boolean {
    const marks = [...this.resultMarks, ...this.inputMarks];
    return marks.some((mark) => mark.origin === "untrusted") || this.conversation?.origin === "untrusted";
  }

  get failure(): Failure | undefined {
    const { ending } = this;
    return typeof ending === "object" && "failure" in ending ? ending.failure : undefined;
  }

  get output(): Json | undefined {
    const { ending } = this;
    return typeof ending === "object" && "output" in ending ? ending.output : undefined;
  }
}

/** The worst origin among marks. */
export function originOf(marks: readonly Mark[]): Origin {
  if (marks.some((mark) => mark.origin === "untrusted")) return "untrusted";
  return marks.length > 0 ? "typed" : "trusted";
}
