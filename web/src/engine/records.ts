/** Records and events of a run, as `docs/reference/journal.md` describes them. Their texts are hostile. */

import { asNumber } from "./json";

/** An integer that a number can't hold is a `bigint` (`json.ts`). */
export type Json = null | boolean | number | bigint | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type Origin = "trusted" | "typed" | "untrusted";
export type Risk = "read" | "write" | "network" | "exec" | "destructive" | "delegate";

/** A part of a value that is not trusted. */
export interface Mark {
  at: string;
  lines?: number[];
  origin: Origin;
}

export interface Usage {
  input_tokens?: number;
  cached_tokens?: number;
  cache_write_tokens?: number;
  output_tokens?: number;
  server_uses?: number;
  cost_usd?: number;
}

export interface Failure {
  kind: string;
  message: string;
  partial?: Json;
}

export type Ending = "suspended" | { output: Json } | { failure: Failure };

export type Source = "program" | "generated" | { toolset: string } | { library: string };
export type Principal = "operator" | { worker: string } | { tool: { tool: string; worker: string } };

/** Who or what decided. Data: `text/decider.ts` makes words of it. */
export type Decider = string | { [key: string]: Json };

export type Part =
  | { part: "text"; text: string }
  | { part: "attachment"; name: string; text: string }
  | { part: "blob"; name?: string; media_type: string; data: string }
  | { part: "call"; id: string; name: string; arguments: { json: Json } | { invalid: { text: string; reason: string } } }
  | { part: "result"; call_id: string; name: string; content: Json }
  | { part: "reasoning"; text: string }
  | { part: "opaque"; provider: string; value: Json }
  | { part: "server_use"; tool: string; input?: Json; sources?: { url: string; title?: string }[] }
  | { part: "cited"; sources: { url: string; title?: string }[] };

export interface Message {
  id: number;
  parent?: number;
  role: "user" | "assistant" | "tool";
  parts: Part[];
}

export interface Blob64 {
  name?: string;
  media_type: string;
  data: string;
}

export interface Change {
  preview: "change";
  path: string;
  before: string | null;
  after: string | null;
}

/** Where the words of a call came from. */
export interface Steering {
  read: { call: string; function: string; origin: Origin; excerpt: string }[];
  more?: number;
  held?: { argument: string; call: string; function: string; excerpt: string }[];
}

export interface ContextUse {
  tokens: number;
  limit?: number;
}

export interface Turn {
  number: number;
  cut_off?: boolean;
  failure?: Failure;
  context?: ContextUse;
}

/** The calls that a program of a model can make. */
export interface CallBounds {
  callees: { name: string; most: number }[];
  cost?: number;
}

export interface Approval {
  question: "approval";
  chain: string[];
  function: string;
  risk: Risk;
  input: Json;
  preview?: Change;
  calls?: CallBounds;
  rule: Decider;
  steering?: Steering;
  expires_ms?: number;
}

export interface Input {
  question: "input";
  chain: string[];
  prompt: string;
  schema?: Json;
  changes?: Change[];
  conversation?: Turn;
  expires_ms?: number;
}

export interface Settlement {
  question: "settlement";
  chain: string[];
  function: string;
  risk: Risk;
  input: Json;
}

export type Question = Approval | Input | Settlement;

/** The identity of a question. */
export interface QuestionId {
  call: string;
  step: string;
}

export type Answer =
  | { answer: "approve"; remember?: boolean }
  | { answer: "allow"; calls: string }
  | { answer: "deny"; reason?: string; remember?: boolean }
  | { answer: "edit"; input: Json }
  | { answer: "give"; value: Json }
  | { answer: "decline"; reason?: string }
  | { answer: "stop" }
  | { answer: "end" }
  | { answer: "attach"; file: string; content?: { name: string; media_type: string; data: string } }
  | { answer: "detach"; message: number }
  | { answer: "keep"; message: number }
  | { answer: "model"; model: string }
  | { answer: "rule"; rule: "preApproved" | "ask" | "blocked"; calls: string }
  | { answer: "forget"; of: QuestionId }
  | { answer: "run"; worker: string; input: Json }
  | { answer: "undo"; message: number }
  | { answer: "compact"; keep?: string }
  | { answer: "undo_compaction" }
  | { answer: "again" }
  | { answer: "done"; result: Json }
  | { answer: "abort" };

/** Who started a run, and through which channel. */
export interface Requester {
  by: string;
  via: string;
}

/** Who gave an answer, for whose run, and to what was shown. */
export interface Given {
  by: string;
  via: string;
  requester?: Requester;
  digest?: string;
  expires_ms?: number;
}

interface Common {
  seq: number;
  at_ms: number;
  path: string;
  step: string;
}

type Kind<K extends string, Fields = object> = Common & { kind: K } & Fields;

export interface FileState {
  path: string;
  place?: string;
  state: string;
  reason?: string;
  preview?: Change;
}

/** The records that the page reads. Others are kept, and shown as they are. */
export type KnownRecord =
  | Kind<
      "run_started",
      {
        run: string;
        version: string;
        target: string;
        entry: string;
        chat?: boolean;
        approval: string;
        date: string;
        requester?: Requester;
        definitions: { worker: string; file: string; sha256: string; text: string }[];
      }
    >
  | Kind<"run_resumed", { version: string; idle_ms: number }>
  | Kind<"definition", { worker: string; file: string; sha256: string; text: string }>
  | Kind<
      "call_started",
      { function: string; source: Source; principal: Principal; input: Json; origins?: Mark[] }
    >
  | Kind<"verdict", { rule: "preApproved" | "ask" | "blocked"; by: Decider; reason?: string }>
  | (Kind<"asked"> & Question)
  | (Kind<"answered"> & Answer & Given)
  | Kind<"rechecked", { changed?: string }>
  | Kind<"tool_started", { function: string; risk: Risk; idempotency_key: string }>
  | Kind<"tool_ended", { ending: Ending; blobs?: Blob64[]; log?: string; origins?: Mark[] }>
  | Kind<"call_ended", { ending: Ending; usage: Usage; blobs?: Blob64[]; origins?: Mark[]; said?: Json[] }>
  | Kind<
      "conversation_started",
      {
        worker: string;
        model: string;
        system: string;
        tools: { name: string; description?: string; input: Json }[];
        withheld?: { name: string; why: string }[];
        with_user?: Json;
        listens?: boolean;
        max_context_tokens?: number;
        message: Message;
        origin?: Origin;
      }
    >
  | Kind<"attached", { part: Part; bytes: number; origin?: Origin }>
  | Kind<"not_attached", { reason: string }>
  | Kind<"model_chosen", { model: string }>
  | Kind<"model_not_chosen", { reason: string }>
  | Kind<"message_added", { message: Message }>
  | Kind<"model_requested", { turn: number; attempt: number }>
  | Kind<"model_answered", { message: Message; finish: string; usage: Usage; unoffered?: string[] }>
  | Kind<"model_failed", { error: { kind: string; message: string; retry_after_ms?: number } }>
  | Kind<"slept", { ms: number }>
  | Kind<"timed_out", { after_ms: number }>
  | Kind<"cancelled">
  | Kind<"limit", { what: string }>
  | Kind<"not_reserved", { what: string }>
  | Kind<"note", { text: string }>
  | Kind<
      "compacted",
      {
        before: number;
        after: number;
        results?: { message: number; call_id: string; number?: number }[];
        summary?: { id: number; to: number; user?: number[]; text: string };
        failure?: string;
        origin?: Origin;
      }
    >
  | Kind<"undone", { files: FileState[]; others?: string[] }>
  | Kind<"restored", { files: FileState[] }>
  | Kind<"run_ended", { status: string; ending: Ending; usage: Usage }>;

/** A record of a kind that the page does not know. */
export type OtherRecord = Common & { kind: string };
export type RunRecord = KnownRecord | OtherRecord;

/** Tokens and costs that are known, and whether all are. */
export interface Spent {
  requests: number;
  input: number;
  cached: number;
  output: number;
  cost: number;
  /** Requests whose cost is not known. */
  unpriced: number;
  /** Requests whose tokens are not known. */
  uncounted: number;
}

export type CallState = "running" | "waiting" | "done" | "failed" | "refused" | "suspended" | "cancelled";

/** The next attempt at a request to a model that has failed. */
export interface Retry {
  /** The number of the attempt, from 1. */
  attempt: number;
  /** The greatest number of further attempts. */
  of: number;
  /** When it begins, once that is known. */
  at_ms?: number;
  /** Why the last attempt failed. */
  why: string;
}

/** A call as the view of the run has it. */
export interface CallChange {
  state: CallState;
  started_ms: number;
  ended_ms?: number;
  /** Questions of this call and below it that have no answer. */
  waiting?: number;
  /** When the newest request to the model was sent. */
  requested_ms?: number;
  /** Further attempts at requests to the model. */
  retries?: number;
  /** The attempt that the call waits for. */
  retry?: Retry;
  /** Of this call and all below it. */
  spent?: Spent;
}

/** A part of a conversation as the view of the run has it. Long texts are in its record alone. */
export type ItemChange = { seq: number; at_ms: number; undone?: boolean } & (
  | { kind: "user"; number: number }
  | { kind: "assistant"; turn: number; finish: string }
  | { kind: "interjection"; turn: number }
  | { kind: "repair" }
  | { kind: "run"; number: number; worker: string; path: string; kept: boolean; kept_by?: number[] }
  | { kind: "attached"; number: number; file: string; bytes?: number; origin?: Origin; reason?: string; detached?: boolean }
  | { kind: "compacted"; taken_back?: boolean }
  | { kind: "undo"; files: FileState[]; others: string[]; restored?: FileState[] }
  | { kind: "rule"; id: QuestionId; rule: string; calls: string; forgotten?: boolean }
  | { kind: "model"; model: string }
  | { kind: "failure"; failure: Failure; cut_off: boolean }
  | { kind: "note"; text: string; tone: "info" | "warn" }
  | { kind: "end"; by: string }
);

/** The parts of the view of a run that a record changes, each as it is from then on. The engine makes it (`RunChanges`). */
export interface RunChanges {
  /** How the run ended; `null`: it has been resumed. */
  end?: string | null;
  calls?: { [path: string]: CallChange };
  items?: { call: string; index: number; item: ItemChange }[];
  costs?: { worker: string; model: string; spent: Spent }[];
}

/** What a typed answer has got: a new member, element or text at a place, which counts from the outermost container. */
export type Growth = { at: (string | number)[]; set: Json } | { at: (string | number)[]; append: string };

/** What a stream brings. */
export type RunEvent =
  | { event: "record"; record: RunRecord; view: RunChanges }
  | { event: "delta"; path: string; turn: number; delta: "text" | "reasoning"; text: string }
  | { event: "delta"; path: string; turn: number; delta: "call"; name: string }
  | { event: "partial"; path: string; turn: number; growth: Growth[] }
  | { event: "discard_partial"; path: string; turn: number }
  | { event: "discard"; path: string; turn: number }
  /** Pieces of answers were not brought until here. */
  | { event: "joined" };

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isGrowth = (value: unknown): boolean =>
  isObject(value) &&
  Array.isArray(value["at"]) &&
  value["at"].every((key) => typeof key === "string" || Number.isSafeInteger(key)) &&
  (typeof value["append"] === "string" || "set" in value);

/** A record, if the value has what all records have. The kinds are the server's to get right. */
export function asRecord(value: unknown): RunRecord | undefined {
  if (!isObject(value)) return undefined;
  const { seq, at_ms, path, step, kind } = value;
  const whole =
    Number.isSafeInteger(seq) &&
    typeof at_ms === "number" &&
    typeof path === "string" &&
    typeof step === "string" &&
    typeof kind === "string";
  return whole ? (withCounts(value) as unknown as RunRecord) : undefined;
}

/** Fields of records that hold values of programs. */
const VALUES = new Set(["input", "value", "result"]);

/** The record with counts that are numbers: a provider may report any. Values of programs keep their digits. */
function withCounts(record: Record<string, unknown>): Record<string, unknown> {
  const { usage, conversation } = record;
  for (const [key, value] of Object.entries(record)) {
    if (typeof value === "bigint" && !VALUES.has(key)) record[key] = Number(value);
  }
  const counts = [usage, isObject(conversation) ? conversation["context"] : undefined];
  for (const given of counts) {
    if (!isObject(given)) continue;
    for (const [key, value] of Object.entries(given)) given[key] = asNumber(value);
  }
  return record;
}

/** The changes with numbers that are numbers: a provider may report any count. */
function asChanges(value: unknown): RunChanges {
  if (!isObject(value)) return {};
  const { end, calls, items, costs } = value;
  const list = (given: unknown): Record<string, unknown>[] => (Array.isArray(given) ? given.filter(isObject) : []);
  const ofCalls = Object.entries(isObject(calls) ? calls : {}).filter(([, call]) => isObject(call)) as [string, Record<string, unknown>][];
  const places = list(items).filter(({ call, index, item }) => typeof call === "string" && Number.isSafeInteger(index) && isObject(item));
  return {
    ...(end === null || typeof end === "string" ? { end } : {}),
    calls: Object.fromEntries(ofCalls.map(([path, call]) => [path, { ...withNumbers(call), ...spentOf(call["spent"]), ...retryOf(call["retry"]) }])),
    items: places.map((change) => ({ ...change, item: withNumbers(change["item"] as Record<string, unknown>) })),
    costs: list(costs).map((line) => ({ ...line, ...spentOf(line["spent"]) })),
  } as unknown as RunChanges;
}

function spentOf(value: unknown): { spent?: Record<string, unknown> } {
  return isObject(value) ? { spent: withNumbers(value) } : {};
}

function retryOf(value: unknown): { retry?: Record<string, unknown> } {
  return isObject(value) ? { retry: withNumbers(value) } : {};
}

function withNumbers(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, typeof field === "bigint" ? Number(field) : field]));
}

/** A record with the changes that it makes, if the value is one. */
export function asRecorded(value: unknown): Extract<RunEvent, { event: "record" }> | undefined {
  if (!isObject(value)) return undefined;
  const record = asRecord(value["record"]);
  return record === undefined ? undefined : { event: "record", record, view: asChanges(value["view"]) };
}

/** An event, if the value is one. */
export function asEvent(value: unknown): RunEvent | undefined {
  if (!isObject(value)) return undefined;
  if (value["event"] === "record") return asRecorded(value);
  const placed = typeof value["path"] === "string" && Number.isSafeInteger(value["turn"]);
  if (!placed) return undefined;
  if (value["event"] === "discard" || value["event"] === "discard_partial") return value as unknown as RunEvent;
  const { delta, growth } = value;
  if (value["event"] === "partial") return Array.isArray(growth) && growth.every(isGrowth) ? (value as unknown as RunEvent) : undefined;
  const fits = delta === "call" ? typeof value["name"] === "string" : typeof value["text"] === "string";
  return value["event"] === "delta" && fits ? (value as unknown as RunEvent) : undefined;
}
