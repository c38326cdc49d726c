/** How calls end without an output. Each error names the run, if there is one: `llm-do runs show RUN` shows it. */

import { type Run, type Usage, usageOf } from "./result.js";

/** What an error knows beside its message. */
export interface ErrorDetails {
  run?: string | undefined;
  kind?: string | undefined;
  partial?: unknown;
  usage?: Usage | undefined;
  questions?: readonly Readonly<Record<string, unknown>>[] | undefined;
  cause?: unknown;
}

/** Base class of all errors of this client. */
export class LlmDoError extends Error {
  override readonly name: string;
  /** The ID of the run. */
  readonly run: string | undefined;
  /** The kind of failure. */
  readonly kind: string | undefined;
  /** The last invalid output, or the text before a limit. */
  readonly partial: unknown;
  /** What the run has used. */
  readonly usage: Usage;
  /** The questions that the run waits for. */
  readonly questions: readonly Readonly<Record<string, unknown>>[];

  constructor(message: string, details: ErrorDetails = {}) {
    super(details.run === undefined ? message : `${message} (run ${details.run})`, { cause: details.cause });
    this.name = new.target.name;
    this.run = details.run;
    this.kind = details.kind;
    this.partial = details.partial;
    this.usage = details.usage ?? {};
    this.questions = details.questions ?? [];
  }
}

/** The program can't be used: llm-do is not installed or of another version, or the program has errors. */
export class NotLoaded extends LlmDoError {}

/** The signatures of the workers have changed since `llm-do stubs` wrote the types. */
export class StubsOutOfDate extends NotLoaded {}

/** The input does not fit the worker's parameters. Nothing was sent to a model. */
export class InvalidInput extends LlmDoError {}

/** The process has ended, or was closed, in the middle of the call. */
export class Disconnected extends LlmDoError {}

/** The run failed, or was cancelled by something else than this call. */
export class Failed extends LlmDoError {}

/** The worker gave no valid output after all attempts. */
export class InvalidOutput extends Failed {}

/** The call was refused: by a rule, by the operator, or for want of a grant. */
export class Refused extends LlmDoError {}

/** A limit ended the run. */
export class LimitReached extends LlmDoError {}

/** The run waits for answers. `llm-do runs resume` continues it. */
export class Suspended extends LlmDoError {}

/** The error for a run that is over without an output. */
export function errorOfRun(view: Run): LlmDoError {
  const { failure, state } = view;
  const details: ErrorDetails = {
    run: view.run,
    kind: failure?.kind ?? (state === "cancelled" ? "cancelled" : undefined),
    partial: failure?.partial,
    usage: usageOf(view.usage),
    questions: view.questions,
  };
  const message = failure?.message ?? `the run ended as ${state}`;
  switch (state) {
    case "limit":
      return new LimitReached(message, details);
    case "refused":
      return new Refused(message, details);
    case "cut_off":
      if (view.reason !== undefined) return new Failed(view.reason, { ...details, kind: "cut_off" });
      return new Suspended("the run was cut off: `llm-do runs resume` continues it", details);
    case "waiting":
    case "running":
      return new Suspended("the run waits for answers: `llm-do runs resume` continues it", details);
    default: {
      const invalid = failure?.kind === "invalid_output" || failure?.kind === "postcondition";
      return invalid ? new InvalidOutput(message, details) : new Failed(message, details);
    }
  }
}

/** The error for a request that had no effect. */
export function errorOfResponse(error: { message?: unknown; data?: { code?: unknown } | null }): LlmDoError {
  const message = String(error.message ?? "llm-do refused the request");
  const code = error.data?.code;
  const kind = typeof code === "string" ? code : "request";
  switch (kind) {
    case "bad_input":
      return new InvalidInput(message, { kind: "invalid_input" });
    case "forbidden":
      return new Refused(message, { kind });
    case "shutting_down":
      return new Disconnected(message, { kind });
    default:
      return new Failed(message, { kind });
  }
}
