/**
 * Tools that llm-do runs: `export const greet = tool({description, inputSchema, execute})` in a project's `tools.ts`.
 *
 * The guide is `docs/guides/typescript-tools.md`. In a run, llm-do provides this part of the package itself, so a project
 * needs the package only for its types.
 */

import type { Worker } from "./worker.js";

/** The failure of a call that a tool has made. */
export class CallError extends Error {
  /** `refused`, `tool`, `timeout`, … as in the journal. */
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.name = "CallError";
    this.kind = kind;
  }
}

/** An error for the model: it gets the message alone. */
export class Retry extends Error {
  constructor(message: string) {
    super(message);
    this.name = "Retry";
  }
}

/** A call of any worker or tool. */
type AnyCall = <T = unknown>(name: string, input?: unknown) => Promise<T>;

/** A call of a worker of a program, whose types `llm-do stubs --typescript` writes. */
type CallOf<P> = <K extends keyof P & string>(
  name: K,
  input: P[K] extends Worker<infer Input, any> ? Input : never,
) => Promise<P[K] extends Worker<any, infer Output> ? Output : never>;

/** The second parameter of a tool. `ToolContext<MyProject>` knows the workers of a stub. */
export interface ToolContext<P = Record<never, never>> {
  /** ID of the run. */
  readonly run: string;
  /** The worker that the tool works for. */
  readonly worker: string;
  /** A key that is the same when the call is repeated after a crash. */
  readonly key: string;
  /** The same key, by the AI SDK's name. */
  readonly toolCallId: string;
  /** The mode of approvals. */
  readonly approvals: { readonly mode: string };
  /** Fires when the call is cancelled. */
  readonly signal: AbortSignal;
  /** The same signal, by the AI SDK's name. */
  readonly abortSignal: AbortSignal;
  /** Files, by the worker's own file tools and through its rules. */
  readonly sandbox: Sandbox;
  /** JSON values that the functions of one package share in a run. They survive a resume. */
  readonly state: {
    get<T = unknown>(name: string, fallback?: T): Promise<T>;
    set(name: string, value: unknown): Promise<void>;
  };
  /** Calls a worker, or a tool of the worker. */
  readonly call: [keyof P] extends [never] ? AnyCall : CallOf<P>;
  /** Calls a worker or a tool for each of the items, at once. More items than `limit` are an error, and no call is made. */
  map<T = unknown>(items: Iterable<unknown>, name: string, options: { limit: number }): Promise<T[]>;
  /** Calls a tool of the worker. */
  callTool<T = unknown>(name: string, input?: unknown): Promise<T>;
  /** Runs an effect once: a resumed run gets the recorded value. */
  step<T>(name: string, effect: () => T | Promise<T>): Promise<T>;
  /** Writes text to the journal. */
  log(text: unknown): void;
}

/** The operations on files. The worker needs the toolset `filesystem` with the tool of each operation. */
export interface Sandbox {
  readonly mounts: readonly { readonly at: string; readonly path: string; readonly mode: "ro" | "rw" }[];
  read(path: string): Promise<string>;
  write(path: string, content: string): Promise<unknown>;
  append(path: string, content: string): Promise<unknown>;
  list(path?: string, pattern?: string): Promise<unknown>;
  search(pattern: string, path?: string): Promise<unknown>;
  delete(path: string): Promise<unknown>;
  move(source: string, destination: string): Promise<unknown>;
  copy(source: string, destination: string): Promise<unknown>;
  stat(path: string): Promise<unknown>;
  exists(path: string): Promise<unknown>;
}

/** A call that an approval function decides about. */
export interface ApprovalContext {
  /** The input of the run. */
  readonly input: unknown;
  /** The worker that calls. */
  readonly caller?: string;
  /** The origin of each argument. */
  readonly origins: Readonly<Record<string, unknown>>;
}

/** The options of a tool. */
export interface ToolOptions<Input = any, Output = unknown> {
  /** The name that the model sees; by default the name of the export. */
  name?: string;
  /** What the tool does, for the model. */
  description: string;
  /** A Zod type, a Standard Schema with JSON Schema, or a JSON Schema. */
  inputSchema: unknown;
  /** The same for the result. */
  outputSchema?: unknown;
  execute(input: Input, context: ToolContext): Output | Promise<Output> | AsyncGenerator<unknown, Output>;
  /** True if each call needs an approval, false if none does, or a function that decides. */
  needsApproval?: boolean | ((input: Input, context: ApprovalContext) => boolean | Promise<boolean>);
  risk?: "read" | "write" | "network" | "exec" | "destructive";
  /** True if calls may run beside others; `"process"` gives each a process of its own. */
  parallel?: boolean | "process";
  /** True if others write the result; or the fields that they write. */
  untrusted?: boolean | string[];
}

/** A tool with its name. */
export type NamedTool<Input = any, Output = unknown> = ToolOptions<Input, Output> & { name: string };

/** Marks a tool. */
export function tool<Input = any, Output = unknown>(options: ToolOptions<Input, Output>): ToolOptions<Input, Output> {
  return { ...options };
}
