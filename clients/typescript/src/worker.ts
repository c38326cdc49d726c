/** Workers as functions. */

import { resolve } from "node:path";

import { Chat } from "./chat.js";
import type { Connection, Hear, Params, Request } from "./connection.js";
import { Disconnected, Failed, InvalidInput, LlmDoError, errorOfRun } from "./errors.js";
import { type Operator, Question } from "./question.js";
import { type Result, type Run, usageOf } from "./result.js";
import { Stream } from "./stream.js";

/** Options of a worker. Rules, mode and budget can only be stricter than those of the program. */
export interface WorkerOptions {
  /** Answers the questions of runs. */
  readonly operator?: Operator | undefined;
  readonly approval?: "interactive" | "auto_deny" | "defer" | undefined;
  readonly ask?: readonly string[] | undefined;
  readonly deny?: readonly string[] | undefined;
  readonly budget?: readonly string[] | undefined;
  /** Paths of files for the worker's model. */
  readonly attachments?: readonly string[] | undefined;
}

/** Options of a call. */
export interface CallOptions extends WorkerOptions {
  /** Cancels the run when it is aborted. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `map`. */
export interface MapOptions extends CallOptions {
  /** How many runs are under way at a time; default 16. */
  readonly concurrency?: number | undefined;
}

/** A worker for another framework. */
export interface Tool<I, O> {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of the input. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** JSON Schema of the output; `undefined` for text. */
  readonly outputSchema: Readonly<Record<string, unknown>> | undefined;
  readonly execute: (input: I, options?: CallOptions) => Promise<O>;
}

/** What `hello` says of a worker. */
export interface WorkerView {
  readonly worker: string;
  readonly description?: string;
  readonly input?: Readonly<Record<string, unknown>>;
  readonly output?: Readonly<Record<string, unknown>>;
  readonly signature?: string;
}

/** A worker of a program. A text is the message, an object the whole input. */
export class Worker<I = Readonly<Record<string, unknown>>, O = unknown> {
  /** The worker's ID. */
  readonly name: string;
  /** What it does. */
  readonly description: string | undefined;
  /** JSON Schema of its input. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  /** JSON Schema of its output; `undefined` for text. */
  readonly outputSchema: Readonly<Record<string, unknown>> | undefined;
  readonly #connection: Connection;
  readonly #view: WorkerView;
  readonly #options: WorkerOptions;

  /** @internal */
  constructor(connection: Connection, view: WorkerView, options: WorkerOptions) {
    this.#connection = connection;
    this.#view = view;
    this.#options = options;
    this.name = view.worker;
    this.description = view.description;
    this.inputSchema = view.input ?? {};
    this.outputSchema = view.output;
  }

  /** The same worker with further options. */
  using(options: WorkerOptions): Worker<I, O> {
    return new Worker<I, O>(this.#connection, this.#view, merged(this.#options, options));
  }

  /** Calls the worker and returns its output. */
  async call(input: I | string, options: CallOptions = {}): Promise<O> {
    return (await this.result(input, options)).output;
  }

  /** Calls the worker and returns its output with the run, its tokens and their cost. */
  async result(input: I | string, options: CallOptions = {}): Promise<Result<O>> {
    return this.#decoded(await this.#start(input, options).result);
  }

  /** Starts the worker. The stream gives its events, then its result. */
  stream(input: I | string, options: CallOptions = {}): Stream<O> {
    return new Stream<O>(
      (hear) => this.#start(input, options, hear),
      (view) => this.#decoded(view),
    );
  }

  /** Calls the worker for each row. The outputs come in the order of the rows. A failed row throws and cancels the others. */
  async *map(
    rows: Iterable<I | string> | AsyncIterable<I | string>,
    options: MapOptions = {},
  ): AsyncGenerator<O, void, undefined> {
    const most = Math.max(1, options.concurrency ?? 16);
    const waiting: Request[] = [];
    const first = async (): Promise<O> => {
      const request = waiting.shift() as Request;
      return this.#decoded(await request.result).output;
    };
    try {
      for await (const row of rows) {
        const request = this.#start(row, options);
        request.result.catch(() => {}); // It is thrown when its turn comes.
        waiting.push(request);
        if (waiting.length >= most) yield await first();
      }
      while (waiting.length > 0) yield await first();
    } finally {
      for (const request of waiting) request.cancel();
    }
  }

  /** This worker as a tool: name, description, JSON Schema and function, which agent frameworks take. */
  asTool(): Tool<I, O> {
    return {
      name: this.name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
      description: this.description ?? `Calls the worker ${this.name}.`,
      inputSchema: this.inputSchema,
      outputSchema: this.outputSchema,
      execute: (input, options) => this.call(input, options),
    };
  }

  /** A conversation with the worker. With an input it begins at once, and else with the first message. */
  chat(input?: I): Chat<I, O> {
    const refuse: Operator = (question) => question.refuse();
    const worker = this.using({ operator: this.#options.operator ?? refuse });
    return new Chat<I, O>(
      this.#connection,
      (first, attachments, hear, heard) => worker.#start(first, { attachments }, hear, heard),
      (view) => this.#decoded(view),
      input,
    );
  }

  #start(
    input: I | string,
    call: CallOptions,
    events?: (params: Params) => void,
    chat?: (method: string, params: Params) => boolean,
  ): Request {
    const { signal } = call;
    signal?.throwIfAborted();
    const { operator, approval, ask, deny, budget, attachments } = merged(this.#options, call);
    const params: Record<string, unknown> = {
      worker: this.name,
      ...(typeof input === "string" ? { message: input } : { input: given(this.name, input) }),
      ...(approval === undefined ? {} : { approval }),
      ...Object.fromEntries(Object.entries({ ask, deny, budget }).filter(([, lines]) => lines !== undefined)),
      ...(attachments === undefined ? {} : { attachments: attachments.map((path) => resolve(path)) }),
      ...(operator === undefined ? {} : { questions: true }),
      ...(events === undefined ? {} : { events: true }),
      ...(chat === undefined ? {} : { chat: true }),
    };
    const hear: Hear = (method, heard) => {
      if (chat?.(method, heard) === true) return;
      if (method === "event") events?.(heard);
      if (method === "question" && operator !== undefined) {
        answer(this.#connection, operator, heard).catch((error: unknown) => request.fail(error));
      }
    };
    const request: Request = this.#connection.request("call", params, hear);
    if (signal !== undefined) {
      const abort = (): void => request.fail(signal.reason);
      signal.addEventListener("abort", abort, { once: true });
      const over = (): void => signal.removeEventListener("abort", abort);
      request.result.then(over, over);
    }
    return request;
  }

  #decoded(result: unknown): Result<O> {
    const view = result as Run;
    if (view.state !== "done") throw errorOfRun(view);
    const usage = usageOf(view.usage);
    return { output: view.output as O, run: view.run, usage, cost: usage.costUsd, tookMs: view.took_ms };
  }
}

/** What JSON would leave out or change is an error, and not another input. */
function given(worker: string, input: unknown): unknown {
  if (typeof input !== "object" || input === null || Array.isArray(input)) {
    throw new InvalidInput(`${worker}: the input is a text or an object, not ${JSON.stringify(input) ?? typeof input}`);
  }
  const wrong = lost(input, "", new Set());
  if (wrong !== undefined) throw new InvalidInput(`${worker}: the input is no JSON: ${wrong}`, { kind: "invalid_input" });
  return input;
}

function lost(value: unknown, at: string, above: Set<object>): string | undefined {
  const place = at === "" ? "it" : `\`${at}\``;
  switch (typeof value) {
    case "number":
      return Number.isFinite(value) ? undefined : `${place} is ${value}`;
    case "bigint":
    case "function":
    case "symbol":
      return `${place} is a ${typeof value}`;
    case "object": {
      if (value === null || typeof (value as { toJSON?: unknown }).toJSON === "function") return undefined;
      if (above.has(value)) return `${place} contains itself`;
      above.add(value);
      for (const [name, item] of Object.entries(value)) {
        const wrong = lost(item, at === "" ? name : `${at}.${name}`, above);
        if (wrong !== undefined) return wrong;
      }
      above.delete(value);
      return undefined;
    }
    default:
      return undefined;
  }
}

/** Asks the operator. Its error ends the call. */
async function answer(connection: Connection, operator: Operator, params: Params): Promise<void> {
  const question = new Question(params);
  const chosen = (await operator(question)) ?? question.refuse();
  if (typeof chosen !== "object" || typeof chosen.answer !== "string") {
    throw new TypeError("an operator returns an answer of the question, or undefined");
  }
  const { run, call, step, digest } = params;
  try {
    await connection.request("answer", { run, call, step, digest, ...chosen }).result;
  } catch (error) {
    if (error instanceof Disconnected) return; // The call itself reports it.
    // The question is over: the run has ended, or somebody else has answered.
    const over = ["already_decided", "not_found", "conflict"];
    if (error instanceof LlmDoError && error instanceof Failed && over.includes(error.kind ?? "")) return;
    throw error;
  }
}

function merged(one: WorkerOptions, other: WorkerOptions): WorkerOptions {
  const both = (a: readonly string[] | undefined, b: readonly string[] | undefined): readonly string[] | undefined =>
    a === undefined && b === undefined ? undefined : [...(a ?? []), ...(b ?? [])];
  return {
    operator: other.operator ?? one.operator,
    approval: other.approval ?? one.approval,
    ask: both(one.ask, other.ask),
    deny: both(one.deny, other.deny),
    budget: both(one.budget, other.budget),
    attachments: both(one.attachments, other.attachments),
  };
}
