/**
 * What the page needs of an engine, wherever that runs: behind HTTP, in a file, or in the page itself. Nothing
 * outside an implementation may assume how it is reached.
 */

import type { Answer, Failure, Json, Question, QuestionId, RunEvent, Usage } from "./records";

export type Scope = "start" | "read" | "answer" | "edit";

/** Who the page is for the engine. */
export interface Session {
  name: string;
  scopes: Scope[];
  read: "own" | "all";
  programs?: string[];
  version: string;
  /** The models that a chat may choose from. */
  models?: string[];
}

export interface Program {
  program: string;
  description?: string;
  edit: boolean;
  findings?: { errors: number; warnings: number };
}

export interface Worker {
  program: string;
  worker: string;
  default: boolean;
  description?: string;
  input: Json;
  output?: Json;
  changes: boolean;
  network: boolean;
  chat?: boolean;
  model?: string;
}

export type RunState =
  | "queued"
  | "running"
  | "waiting"
  | "done"
  | "failed"
  | "limit"
  | "refused"
  | "cancelled"
  | "cut_off"
  | "changed";

export const STATES: readonly RunState[] = [
  "queued",
  "running",
  "waiting",
  "done",
  "failed",
  "limit",
  "refused",
  "cancelled",
  "cut_off",
  "changed",
];

/** Whether more of the run may follow. */
export const isUnderWay = (state: RunState): boolean =>
  state === "queued" || state === "running" || state === "waiting" || state === "cut_off";

/** A question that waits, with the digest that its answer must name. */
export type WaitingQuestion = QuestionId & { digest: string } & Question;

export type QuestionOfRun = WaitingQuestion & { run: string; program: string; client: string };

export interface Run {
  run: string;
  program: string;
  worker: string;
  chat: boolean;
  client: string;
  /** Whether it was started outside of the server, so that it can be looked at only. */
  outside?: boolean;
  state: RunState;
  reason?: string;
  title?: string;
  started_ms?: number;
  took_ms?: number;
  output?: Json;
  failure?: Failure;
  usage?: Usage;
  questions?: WaitingQuestion[];
}

export interface RunFilter {
  program?: string;
  worker?: string;
  state?: RunState[];
  chat?: boolean;
  q?: string;
  before?: string;
  limit?: number;
  /** Whether questions have the effects of their calls. */
  previews?: boolean;
}

export interface Page {
  runs: Run[];
  next?: string;
}

/** Requests to models and their costs. */
export interface CostLine {
  name: string;
  runs: number;
  requests: number;
  /** Requests whose cost is not known. */
  unpriced: number;
  usage: Usage;
}

/** The costs of runs, by what the names of the fields say. */
export interface CostsOfRuns {
  total: CostLine;
  workers: CostLine[];
  models: CostLine[];
  days: CostLine[];
  clients: CostLine[];
  dearest: Run[];
  /** Whether the server has still journals to read. */
  more: boolean;
}

/** What starts runs by itself. */
export interface Trigger {
  name: string;
  kind: "cron" | "webhook" | "folder";
  program: string;
  worker: string;
  /** The client that its runs are of. */
  client: string;
  concurrency: "skip" | "queue" | "replace";
  /** Runs under way, those that wait included. */
  under_way: number;
  /** The next slot. */
  next_ms?: number;
  last?: { run: string; state: RunState; started_ms: number };
  /** Why the last event started no run, if it started none. */
  problem?: string;
}

/** A command `llm-do test` of a project. */
export interface TestSummary {
  test: string;
  began_ms: number;
  state: "running" | "ended" | "cut_off";
  /** What ended it before all cases had run. */
  cut?: string;
  cases: number;
  passed: number;
  failed: number;
  worse?: number;
  baseline?: string;
  cost_usd?: number;
}

/** How a case compares with the baseline. */
export interface TestCompared {
  file: string;
  case: string;
  change: "worse" | "better" | "same" | "undecided" | "new" | "gone";
  passed_before?: number;
  of_before?: number;
  p?: number;
}

/** A repeat of a case. */
export interface TestRun {
  pass: boolean;
  failures: string[];
  /** The output with what the case expects in the place of what does not match. */
  expected?: Json;
  output?: Json;
  /** Where a request is not the recorded one. */
  place?: string;
  diffs: string[];
  usage: Usage;
  took_ms?: number;
}

/** A case with the repeats that have ended. */
export interface TestCase {
  file: string;
  worker: string;
  case: string;
  model?: string;
  recorded: boolean;
  recordings?: string;
  passed: number;
  of: number;
  repeats: number;
  low: number;
  high: number;
  runs: TestRun[];
  compared?: TestCompared;
}

export interface TestResults {
  test: TestSummary;
  cases: TestCase[];
  /** Cases that only the baseline has. */
  gone?: TestCompared[];
}

/** One worker over the rows of a table. */
export interface MapOfRows {
  map: string;
  began_ms: number;
  running: boolean;
  worker: string;
  inputs: string;
  outputs: string;
  rows: number;
  done: number;
  failed: number;
  /** Rows that run. */
  at_work: number;
  usage: Usage;
  worked_ms: number;
  /** The provider that takes no requests for now. */
  waiting?: string;
}

export const ROW_STATES = ["done", "failed", "running", "missing"] as const;
export type RowState = (typeof ROW_STATES)[number];

export interface MapRow {
  row: number;
  run: string;
  state: RowState;
  kind?: string;
  /** The beginning of its output, or of the message of its failure. */
  text?: string;
  input?: string;
  usage: Usage;
}

export interface RowPage {
  rows: MapRow[];
  next?: number;
}

/** A run to start: `message` or `input`. */
export interface StartRequest {
  program: string;
  worker: string;
  message?: string;
  input?: Json;
  chat?: boolean;
  approval?: string;
  ask?: string[];
  deny?: string[];
  budget?: string[];
  attachments?: string[];
}

export interface FileEntry {
  name: string;
  kind: "file" | "folder";
  bytes?: number;
  untrusted?: boolean;
}

export interface Folder {
  path: string;
  entries: FileEntry[];
}

/** A file that defines a program. */
export interface DefinitionFile {
  path: string;
  sha256: string;
  bytes: number;
}

export interface Definition {
  path: string;
  text: string;
  sha256: string;
}

/** A position in a text: line and column from 0, the column in units of UTF-16. */
export interface TextPosition {
  line: number;
  character: number;
}

export interface TextRange {
  start: TextPosition;
  end: TextPosition;
}

/** A position in a definition file, with the texts that are not saved, by path. */
export interface CursorIn {
  path: string;
  position: TextPosition;
  files: Record<string, string>;
}

export const CANDIDATE_KINDS = [
  "key",
  "choice",
  "worker",
  "tool",
  "toolset",
  "library",
  "model",
  "variable",
  "function",
  "file",
  "type",
] as const;
export type CandidateKind = (typeof CANDIDATE_KINDS)[number];

/** A text that may stand at a position. */
export interface Candidate {
  label: string;
  insert: string;
  /** The part of the text that it replaces. */
  replace: TextRange;
  kind: CandidateKind;
  /** Markdown. */
  about: string;
}

/** What a word means. */
export interface Explanation {
  markdown: string;
  range: TextRange;
}

/** Where something is defined. The path is absolute in a library elsewhere. */
export interface DefinitionPlace {
  path: string;
  range: TextRange;
}

export interface Diagnostic {
  code: string;
  severity: "error" | "warning" | "note";
  message: string;
  file: string | null;
  line: number | null;
  column: number | null;
  /** Absent for a file as a whole. */
  range?: TextRange | null;
  label?: string | null;
  notes?: string[];
  help?: string[];
  related?: { message: string; file: string | null; line: number | null; column: number | null }[];
  fix?: {
    title: string;
    edits: { file: string | null; range: TextRange; text: string }[];
  } | null;
}

/** The first request of a worker, before it is sent. */
export interface Prompt {
  model: string;
  system: string;
  message: string;
  tools: string[];
}

/** What happens over all runs. */
export type Notice =
  | { notice: "run"; run: string; program: string; worker: string; state: RunState; chat: boolean }
  | { notice: "questions"; count: number }
  /** Something may have been missed. */
  | { notice: "missed" };

/** Whether the engine can be reached. */
export type Connection =
  | { state: "connected" }
  /** `retry_ms`: when the next attempt follows. */
  | { state: "lost"; retry_ms: number };

/** Why a request was not done, in words for people. */
export class EngineError extends Error {
  constructor(
    /** `offline` where the engine can't be reached, else the engine's own code, for example `already_decided`. */
    readonly code: string,
    detail: string,
    /** Who decided, of a question that has an answer. */
    readonly by?: string,
    /** What is wrong with a program that can't be started. */
    readonly diagnostics?: Diagnostic[],
  ) {
    super(detail);
  }
}

export interface Engine {
  /** Trades a token for a session that later requests have. */
  signIn(token: string): Promise<void>;
  signOut(): Promise<void>;
  session(): Promise<Session>;
  /** Calls back when another tab of this page signs in or out. Returns what ends that. */
  onSession(listener: () => void): () => void;

  programs(): Promise<Program[]>;
  workers(): Promise<Worker[]>;

  /** `key` makes it safe to repeat. */
  start(request: StartRequest, key: string): Promise<Run>;
  /** Keeps a file for a run that is about to start. Returns its name in `attachments` and path parameters. */
  upload(file: File): Promise<string>;
  runs(filter: RunFilter): Promise<Page>;
  run(run: string): Promise<Run>;
  /** The events of a run after the record with that number, over lost connections, until the run is over. */
  follow(run: string, after: number | undefined, signal: AbortSignal): AsyncIterable<RunEvent[]>;
  answer(run: string, question: QuestionId & { digest: string }, answer: Answer): Promise<void>;
  /** Returns whether the conversation has the message, or gets it later. */
  message(run: string, text: string, now: boolean): Promise<boolean>;
  /** Stops the answer under way. */
  stop(run: string): Promise<void>;
  cancel(run: string): Promise<void>;
  /** Continues a run that was cut off, where the engine does not do that by itself. */
  continueRun(run: string): Promise<void>;
  /** `progress` hears how many of how many bytes have arrived. */
  exportRun(run: string, progress: (bytes: number, of: number | undefined) => void): Promise<Blob>;

  /** The costs of the runs that began at that time or later. */
  costs(program: string | undefined, since_ms: number): Promise<CostsOfRuns>;
  /** What starts runs by itself, as far as the token may see those runs. */
  triggers(): Promise<Trigger[]>;
  questions(): Promise<QuestionOfRun[]>;
  notices(signal: AbortSignal): AsyncIterable<Notice>;

  /** The commands `llm-do test` of a project, newest first. */
  tests(program: string): Promise<TestSummary[]>;
  test(program: string, test: string): Promise<TestResults>;
  /** The maps of a project, newest first. */
  maps(program: string): Promise<MapOfRows[]>;
  map(program: string, map: string): Promise<MapOfRows>;
  /** Rows after that one, in that state or in any. */
  rows(program: string, map: string, state: RowState | undefined, after: number): Promise<RowPage>;
  /** The events of the run of a row after the record with that number, until the map is over. */
  followRow(program: string, map: string, row: string, after: number | undefined, signal: AbortSignal): AsyncIterable<RunEvent[]>;

  files(run: string, path: string): Promise<Folder>;
  file(run: string, path: string): Promise<Blob>;

  definitions(program: string): Promise<DefinitionFile[]>;
  definition(program: string, path: string): Promise<Definition>;
  /** `sha256`: of the text that was changed; `null` for a new file. An `EngineError` `file_changed` if it is another. */
  save(
    program: string,
    path: string,
    text: string,
    sha256: string | null,
  ): Promise<{ sha256: string; diagnostics: Diagnostic[] }>;
  /** Findings with these texts in the place of what is saved. */
  check(program: string, files: Record<string, string>): Promise<Diagnostic[]>;
  /** The texts that may stand at a position, the best first. */
  complete(program: string, cursor: CursorIn, signal: AbortSignal): Promise<Candidate[]>;
  hover(program: string, cursor: CursorIn): Promise<Explanation | undefined>;
  /** The places that define what the word at a position names. */
  definitionAt(program: string, cursor: CursorIn): Promise<DefinitionPlace[]>;

  /** The first request of a worker for that input, with these texts in the place of what is saved. Nothing is sent. */
  prompt(program: string, worker: string, input: Json, files: Record<string, string>): Promise<Prompt>;

  /** Calls back with each change of the connection. Returns what ends that. */
  onConnection(listener: (connection: Connection) => void): () => void;
}
