/** One call of a run, as its records have it so far. */

import type {
  Answer,
  Blob64,
  ContextUse,
  Decider,
  Ending,
  Failure,
  FileState,
  Given,
  Json,
  Mark,
  Message,
  Origin,
  Part,
  Principal,
  Question,
  Risk,
  RunRecord,
  Source,
  Usage,
} from "../engine/records";

export type CallState = "running" | "waiting" | "done" | "failed" | "refused" | "suspended" | "cancelled";

/** Tokens and costs that are known, and whether all are. */
export class Spent {
  requests = 0;
  input = 0;
  cached = 0;
  output = 0;
  cost = 0;
  /** Requests whose cost is not known. */
  unpriced = 0;
  /** Requests whose tokens are not known. */
  uncounted = 0;

  add(usage: Usage): void {
    this.requests++;
    this.input += usage.input_tokens ?? 0;
    this.cached += usage.cached_tokens ?? 0;
    this.output += usage.output_tokens ?? 0;
    this.cost += usage.cost_usd ?? 0;
    if (usage.cost_usd === undefined) this.unpriced++;
    if (usage.input_tokens === undefined && usage.output_tokens === undefined) this.uncounted++;
  }
}

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
  /** Whether the beginning was said before this page listened. */
  partial: boolean;
}

/** One thing in a conversation, in the order in which it happened. */
export type Item = { seq: number; at_ms: number; undone?: boolean } & (
  | { kind: "user"; number: number; parts: Part[]; by?: string }
  | { kind: "assistant"; turn: number; message: Message; finish: string; usage: Usage }
  | { kind: "interjection"; turn: number; text: string }
  | { kind: "repair"; message: Message }
  | { kind: "run"; number: number; worker: string; input: Json; path: string; kept?: boolean; keptBy?: number }
  | { kind: "attached"; number: number; file: string; bytes?: number; origin?: Origin; reason?: string; detached?: boolean }
  | { kind: "compacted"; before: number; after: number; text?: string; failure?: string; results: number; takenBack?: boolean }
  | { kind: "undo"; number: number; files: FileState[]; others: string[]; restored?: FileState[] }
  | { kind: "rule"; id: { call: string; step: string }; rule: string; calls: string; forgotten?: boolean }
  | { kind: "model"; model: string; reason?: string }
  | { kind: "failure"; failure: Failure; cutOff: boolean }
  | { kind: "note"; text: string; tone: "info" | "warn" }
  | { kind: "end"; by: string }
);

export type ItemOf<K extends Item["kind"]> = Extract<Item, { kind: K }>;

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

  /** Replaces the newest item that fits. */
  change<K extends Item["kind"]>(kind: K, fits: (item: ItemOf<K>) => boolean, fields: Partial<ItemOf<K>>): void {
    const index = this.items.findLastIndex((item) => item.kind === kind && fits(item as ItemOf<K>));
    const item = this.items[index];
    if (item !== undefined) this.items[index] = { ...item, ...fields };
  }
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
  readonly spent = new Spent();
  /** Questions of this call, by step. */
  readonly questions = new Map<string, AskedQuestion>();
  /** Questions of this call and below it that have no answer. */
  waiting = 0;
  readonly records: RunRecord[] = [];
  /** When the newest request to the model was sent. */
  requested_ms = 0;
  /** Further attempts at requests to the model. */
  retries = 0;
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
