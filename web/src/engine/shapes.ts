/** Checks of what a server sends. A value of another shape is an error that names the place, before any page reads it. */

import {
  CANDIDATE_KINDS,
  EngineError,
  ROW_STATES,
  STATES,
  type Candidate,
  type CostLine,
  type CostsOfRuns,
  type Definition,
  type DefinitionFile,
  type DefinitionPlace,
  type Diagnostic,
  type Explanation,
  type FileEntry,
  type Folder,
  type MapOfRows,
  type MapRow,
  type Notice,
  type Page,
  type Program,
  type Prompt,
  type QuestionOfRun,
  type RowPage,
  type Run,
  type Session,
  type TestCase,
  type TestCompared,
  type TestResults,
  type TestRun,
  type TestSummary,
  type TextPosition,
  type TextRange,
  type Trigger,
  type WaitingQuestion,
  type Worker,
} from "./engine";
import { asNumber, parseJson } from "./json";
import type { Change, Failure, Json, Question, Steering, Turn, Usage } from "./records";

/** Returns the value if it has the shape. `at`: its place, for the error. */
export type Shape<T> = (value: unknown, at: string) => T;

type Fields<T> = { [K in keyof T]-?: Shape<T[K]> };

export function unreadable(at = ""): EngineError {
  const where = at === "" ? "" : ` (at ${at.slice(0, 100)})`;
  return new EngineError("unreadable", `The server sent something that this page can't read${where}. It may be another version of llm-do.`);
}

/** The JSON of a response, in that shape. */
export async function read<T>(response: Response, shape: Shape<T>): Promise<T> {
  return parsed(await response.text(), shape);
}

export function parsed<T>(text: string, shape: Shape<T>): T {
  let value: unknown;
  try {
    value = parseJson(text);
  } catch {
    throw unreadable();
  }
  return shape(value, "");
}

export const text: Shape<string> = (value, at) => {
  if (typeof value !== "string") throw unreadable(at);
  return value;
};
const flag: Shape<boolean> = (value, at) => {
  if (typeof value !== "boolean") throw unreadable(at);
  return value;
};
/** `1e999` is read as infinity, which is no number of the server. */
const number: Shape<number> = (given, at) => {
  const value = asNumber(given);
  if (typeof value !== "number" || !Number.isFinite(value)) throw unreadable(at);
  return value;
};
const json: Shape<Json> = (value, at) => {
  if (value === undefined) throw unreadable(at);
  return value as Json;
};

/** Absent or `null`: `undefined`. */
const maybe =
  <T>(shape: Shape<T>): Shape<T | undefined> =>
  (value, at) =>
    value === undefined || value === null ? undefined : shape(value, at);
const nullable =
  <T>(shape: Shape<T>): Shape<T | null> =>
  (value, at) =>
    value === undefined || value === null ? null : shape(value, at);
const oneOf =
  <T extends string>(...names: readonly T[]): Shape<T> =>
  (value, at) => {
    if (!names.includes(value as T)) throw unreadable(at);
    return value as T;
  };
const list =
  <T>(shape: Shape<T>): Shape<T[]> =>
  (value, at) => {
    if (!Array.isArray(value)) throw unreadable(at);
    return value.map((item, index) => shape(item, `${at}[${index}]`));
  };
/** An object with these fields and no others, so that no name of a server reaches the page. */
const object =
  <T>(fields: Fields<T>): Shape<T> =>
  (value, at) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) throw unreadable(at);
    const given: Partial<T> = {};
    for (const name of Object.keys(fields) as (keyof T & string)[]) {
      const own = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
      const found = fields[name](own, at === "" ? name : `${at}.${name}`);
      if (found !== undefined) given[name] = found;
    }
    return given as T;
  };
/** Two names that are the same would be two rows with one key. */
const unique =
  <T>(shape: Shape<T[]>, key: (item: T) => string): Shape<T[]> =>
  (value, at) => {
    const items = shape(value, at);
    if (new Set(items.map(key)).size !== items.length) throw unreadable(at);
    return items;
  };

const count: Shape<number | undefined> = maybe(number);
const usage = object<Usage>({
  input_tokens: count,
  cached_tokens: count,
  cache_write_tokens: count,
  output_tokens: count,
  server_uses: count,
  cost_usd: count,
} as Fields<Usage>);
const failure = object<Failure>({ kind: text, message: text, partial: maybe(json) } as Fields<Failure>);
const change = object<Change>({ preview: oneOf("change"), path: text, before: nullable(text), after: nullable(text) });
const origin = oneOf("trusted", "typed", "untrusted");
const risk = oneOf("read", "write", "network", "exec", "destructive", "delegate");
const steering = object<Steering>({
  read: list(object({ call: text, function: text, origin, excerpt: text })),
  more: count,
  held: maybe(list(object({ argument: text, call: text, function: text, excerpt: text }))),
} as Fields<Steering>);
const turn = object<Turn>({
  number,
  cut_off: maybe(flag),
  failure: maybe(failure),
  context: maybe(object({ tokens: number, limit: count })),
} as Fields<Turn>);

const id = { call: text, step: text, digest: text };
const decider: Shape<string | { [key: string]: Json }> = (value, at) => {
  if (typeof value === "string") return value;
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw unreadable(at);
  return value as { [key: string]: Json };
};
type Named<Q extends Question["question"]> = Extract<WaitingQuestion, { question: Q }>;
const questions: { [Q in Question["question"]]: Shape<WaitingQuestion> } = {
  approval: object<Named<"approval">>({
    ...id,
    question: oneOf("approval"),
    chain: list(text),
    function: text,
    risk,
    input: json,
    preview: maybe(change),
    calls: maybe(object({ callees: list(object({ name: text, most: number })), cost: count })),
    rule: decider,
    steering: maybe(steering),
    expires_ms: count,
  } as Fields<Named<"approval">>),
  input: object<Named<"input">>({
    ...id,
    question: oneOf("input"),
    chain: list(text),
    prompt: text,
    schema: maybe(json),
    changes: maybe(list(change)),
    conversation: maybe(turn),
    expires_ms: count,
  } as Fields<Named<"input">>),
  settlement: object<Named<"settlement">>({
    ...id,
    question: oneOf("settlement"),
    chain: list(text),
    function: text,
    risk,
    input: json,
  } as Fields<Named<"settlement">>),
};
const question: Shape<WaitingQuestion> = (value, at) => {
  const { question: kind } = object({ question: oneOf("approval", "input", "settlement") })(value, at);
  return questions[kind](value, at);
};
const keyOf = (asked: WaitingQuestion): string => `${asked.call} ${asked.step}`;

export const session: Shape<Session> = object<Session>({
  name: text,
  scopes: list(oneOf("start", "read", "answer", "edit")),
  read: oneOf("own", "all"),
  programs: maybe(list(text)),
  version: text,
  models: maybe(list(text)),
} as Fields<Session>);

const program = object<Program>({
  program: text,
  description: maybe(text),
  edit: flag,
  findings: maybe(object({ errors: number, warnings: number })),
} as Fields<Program>);
export const programs = object<{ programs: Program[] }>({ programs: unique(list(program), (one) => one.program) });

const worker = object<Worker>({
  program: text,
  worker: text,
  default: flag,
  description: maybe(text),
  input: json,
  output: maybe(json),
  changes: flag,
  network: flag,
  chat: maybe(flag),
  model: maybe(text),
} as Fields<Worker>);
export const workers = object<{ workers: Worker[] }>({
  workers: unique(list(worker), (one) => `${one.program} ${one.worker}`),
});

export const run: Shape<Run> = object<Run>({
  run: text,
  program: text,
  worker: text,
  chat: flag,
  client: text,
  outside: maybe(flag),
  state: oneOf(...STATES),
  reason: maybe(text),
  title: maybe(text),
  started_ms: count,
  took_ms: count,
  output: maybe(json),
  failure: maybe(failure),
  usage: maybe(usage),
  questions: maybe(unique(list(question), keyOf)),
} as Fields<Run>);
export const runs: Shape<Page> = object<Page>({
  runs: unique(list(run), (one) => one.run),
  next: maybe(text),
} as Fields<Page>);

const costLine = object<CostLine>({ name: text, runs: number, requests: number, unpriced: number, usage });
const costLines = unique(list(costLine), (line) => line.name);
export const costs: Shape<CostsOfRuns> = object<CostsOfRuns>({
  total: costLine,
  workers: costLines,
  models: costLines,
  days: costLines,
  clients: costLines,
  dearest: unique(list(run), (one) => one.run),
  more: flag,
});

const trigger = object<Trigger>({
  name: text,
  kind: oneOf("cron", "webhook", "folder"),
  program: text,
  worker: text,
  client: text,
  concurrency: oneOf("skip", "queue", "replace"),
  under_way: number,
  next_ms: maybe(number),
  last: maybe(object<NonNullable<Trigger["last"]>>({ run: text, state: oneOf(...STATES), started_ms: number })),
  problem: maybe(text),
} as Fields<Trigger>);
export const triggers: Shape<{ triggers: Trigger[] }> = object<{ triggers: Trigger[] }>({
  triggers: unique(list(trigger), (one) => one.name),
});

const testSummary = object<TestSummary>({
  test: text,
  began_ms: number,
  state: oneOf("running", "ended", "cut_off"),
  cut: maybe(text),
  cases: number,
  passed: number,
  failed: number,
  worse: count,
  baseline: maybe(text),
  cost_usd: count,
} as Fields<TestSummary>);
const testCompared = object<TestCompared>({
  file: text,
  case: text,
  change: oneOf("worse", "better", "same", "undecided", "new", "gone"),
  passed_before: count,
  of_before: count,
  p: count,
} as Fields<TestCompared>);
const testRun = object<TestRun>({
  pass: flag,
  failures: list(text),
  expected: maybe(json),
  output: maybe(json),
  place: maybe(text),
  diffs: list(text),
  usage,
  took_ms: count,
} as Fields<TestRun>);
const testCase = object<TestCase>({
  file: text,
  worker: text,
  case: text,
  model: maybe(text),
  recorded: flag,
  recordings: maybe(text),
  passed: number,
  of: number,
  repeats: number,
  low: number,
  high: number,
  runs: list(testRun),
  compared: maybe(testCompared),
} as Fields<TestCase>);
export const tests = object<{ tests: TestSummary[] }>({ tests: unique(list(testSummary), (one) => one.test) });
export const test: Shape<TestResults> = object<TestResults>({
  test: testSummary,
  cases: list(testCase),
  gone: maybe(list(testCompared)),
} as Fields<TestResults>);

export const map: Shape<MapOfRows> = object<MapOfRows>({
  map: text,
  began_ms: number,
  running: flag,
  worker: text,
  inputs: text,
  outputs: text,
  rows: number,
  done: number,
  failed: number,
  at_work: number,
  usage,
  worked_ms: number,
  waiting: maybe(text),
} as Fields<MapOfRows>);
export const maps = object<{ maps: MapOfRows[] }>({ maps: unique(list(map), (one) => one.map) });
const mapRow = object<MapRow>({
  row: number,
  run: text,
  state: oneOf(...ROW_STATES),
  kind: maybe(text),
  text: maybe(text),
  input: maybe(text),
  usage,
} as Fields<MapRow>);
export const rows: Shape<RowPage> = object<RowPage>({
  rows: unique(list(mapRow), (one) => String(one.row)),
  next: count,
} as Fields<RowPage>);

const place = object({ run: text, program: text, client: text });
const questionOfRun: Shape<QuestionOfRun> = (value, at) => ({ ...question(value, at), ...place(value, at) });
export const waiting = object<{ questions: QuestionOfRun[] }>({
  questions: unique(list(questionOfRun), (one) => `${one.run} ${keyOf(one)}`),
});

const entry = object<FileEntry>({
  name: text,
  kind: oneOf("file", "folder"),
  bytes: count,
  untrusted: maybe(flag),
} as Fields<FileEntry>);
export const folder = object<Folder>({ path: text, entries: unique(list(entry), (one) => one.name) });

const definitionFile = object<DefinitionFile>({ path: text, sha256: text, bytes: number });
export const definitions = object<{ files: DefinitionFile[] }>({
  files: unique(list(definitionFile), (one) => one.path),
});
export const definition = object<Definition>({ path: text, text, sha256: text });

const textPosition = object<TextPosition>({ line: number, character: number });
const textRange = object<TextRange>({ start: textPosition, end: textPosition });
const spot = { file: nullable(text), line: nullable(number), column: nullable(number) };
const diagnostic = object<Diagnostic>({
  code: text,
  severity: oneOf("error", "warning", "note"),
  message: text,
  ...spot,
  range: maybe(textRange),
  label: maybe(text),
  notes: maybe(list(text)),
  help: maybe(list(text)),
  related: maybe(list(object({ message: text, ...spot }))),
  fix: maybe(
    object({ title: text, edits: list(object({ file: nullable(text), range: textRange, text })) }),
  ),
} as Fields<Diagnostic>);
export const diagnostics = object<{ diagnostics: Diagnostic[] }>({ diagnostics: list(diagnostic) });
export const saved = object<{ sha256: string; diagnostics: Diagnostic[] }>({ sha256: text, diagnostics: list(diagnostic) });

const candidate = object<Candidate>({
  label: text,
  insert: text,
  replace: textRange,
  kind: oneOf(...CANDIDATE_KINDS),
  about: text,
});
export const completion = object<{ candidates: Candidate[] }>({ candidates: list(candidate) });
const explanation = object<Explanation>({ markdown: text, range: textRange });
export const explained: Shape<{ hover: Explanation | undefined }> = object({ hover: maybe(explanation) });
const definitionPlace = object<DefinitionPlace>({ path: text, range: textRange });
export const definitionPlaces = object<{ places: DefinitionPlace[] }>({ places: list(definitionPlace) });

export const prompt = object<Prompt>({ model: text, system: text, message: text, tools: list(text) });

export const signedIn = object<{ secret: string }>({ secret: text });
export const uploaded = object<{ upload: string }>({ upload: text });
export const sent = object<{ delivered: boolean }>({ delivered: flag });
/** Nothing of the answer is read. */
export const anything: Shape<void> = () => undefined;

const changed = object({ run: text, program: text, worker: text, state: oneOf(...STATES), chat: flag });
const counted = object({ count: number });
export function notice(kind: "run" | "questions", data: string): Notice {
  return kind === "run" ? { notice: "run", ...parsed(data, changed) } : { notice: "questions", ...parsed(data, counted) };
}
