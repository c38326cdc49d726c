/** Programs: `const p = await load("my-project")`. */

import { readFile } from "node:fs/promises";

import { Connection, PROTOCOL, findBinary } from "./connection.js";
import { LlmDoError, NotLoaded, StubsOutOfDate } from "./errors.js";
import type { Operator } from "./question.js";
import type { Run } from "./result.js";
import { Worker, type WorkerOptions, type WorkerView } from "./worker.js";

/** The workers of a program by their IDs, as `llm-do stubs --typescript` writes them. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- Any worker fits.
export type Workers = { readonly [name: string]: Worker<any, any> };

/** Options of `load`. `model` to `budget` are those of `llm-do run`: you are the operator, so that you may grant and allow. */
export interface LoadOptions {
  /** The types that `llm-do stubs --typescript` has written: they are compared with the workers at once. */
  readonly stubs?: string | URL;
  /** The worker that `program.worker()` is, if the program names none or another. */
  readonly entry?: string;
  /** Answers the questions of runs. Without it, calls that need an approval are denied. */
  readonly operator?: Operator;
  readonly model?: string;
  readonly settings?: Readonly<Record<string, string | number | boolean>>;
  readonly approval?: "interactive" | "approve_all" | "auto_deny" | "defer";
  readonly allow?: readonly string[];
  readonly ask?: readonly string[];
  readonly deny?: readonly string[];
  readonly grant?: readonly string[];
  readonly budget?: readonly string[];
  /** Most runs at once; further calls wait. */
  readonly maxRuns?: number;
  /** The environment of the process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The folder of the process. */
  readonly cwd?: string;
  /** The path of llm-do. */
  readonly binary?: string;
  /** Takes the lines of its log; default: stderr. */
  readonly log?: (line: string) => void;
}

/** A program in a process of its own. Its workers are its properties. */
export type Program<W extends object = Workers> = Base<W> & Omit<W, keyof Base<W>>;

interface Hello {
  readonly protocol: number;
  readonly version: string;
  readonly program: string;
  readonly entry: string;
  readonly workers: readonly WorkerView[];
  readonly broken: readonly { readonly worker: string; readonly reason: string }[];
  readonly signatures: string;
  readonly stale_stubs?: readonly { readonly file: string; readonly language: string }[];
}

/** What every program has beside its workers. */
class Base<W extends object = Workers> implements AsyncDisposable {
  /** Its name. */
  readonly name: string;
  /** Version of llm-do. */
  readonly version: string;
  readonly #connection: Connection;
  readonly #hello: Hello;
  readonly #views: ReadonlyMap<string, WorkerView>;
  readonly #operator: Operator | undefined;

  constructor(connection: Connection, hello: Hello, operator: Operator | undefined) {
    this.#connection = connection;
    this.#hello = hello;
    this.#operator = operator;
    this.#views = new Map(hello.workers.map((view) => [view.worker, view]));
    this.name = hello.program;
    this.version = hello.version;
  }

  /** A worker by its ID, with options. Without an ID: the entry. */
  worker<K extends keyof W & string>(name: K, options?: WorkerOptions): W[K] & {};
  worker<I = Readonly<Record<string, unknown>>, O = unknown>(name?: string, options?: WorkerOptions): Worker<I, O>;
  worker(name: string = this.#hello.entry, options: WorkerOptions = {}): unknown {
    const broken = this.#hello.broken.find(({ worker }) => worker === name);
    if (broken !== undefined) throw new NotLoaded(`the worker ${name} can't be loaded: ${broken.reason}`);
    const view = this.#views.get(name);
    // Workers of libraries are not listed.
    if (view === undefined && !name.includes(":")) {
      const known = [...this.#views.keys()].join(", ");
      throw new NotLoaded(`${this.name} has no worker ${JSON.stringify(name)}; it has ${known || "none"}`);
    }
    const worker = new Worker(this.#connection, view ?? { worker: name }, { operator: this.#operator });
    return worker.using(options);
  }

  /** The IDs of the workers. */
  workers(): string[] {
    return [...this.#views.keys()];
  }

  /** A run of this program. */
  async run(run: string): Promise<Run> {
    return (await this.#connection.request("run", { run }).result) as Run;
  }

  /** The newest runs of this program. */
  async runs(options: { limit?: number; before?: string } = {}): Promise<Run[]> {
    return ((await this.#connection.request("runs", { ...options }).result) as { runs: Run[] }).runs;
  }

  /** Ends the process. Its runs are cancelled; those that wait for answers are suspended. */
  close(): Promise<void> {
    return this.#connection.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Loads a program: a project's directory or a worker file. It starts one process, which waits for calls and ends with `close`,
 * with `await using`, and with this process.
 */
export async function load<W extends object = Workers>(target = ".", options: LoadOptions = {}): Promise<Program<W>> {
  const { operator, log, stubs } = options;
  const args = [...flags(options), "--", target];
  const connection = new Connection(findBinary(options.binary), args, options.env, options.cwd);
  try {
    const hello = await greeted(connection);
    if (stubs !== undefined) await compare(stubs, hello);
    for (const { file, language } of hello.stale_stubs ?? []) {
      if (language === "typescript") process.emitWarning(`${file} is out of date: \`llm-do check\` says more`);
    }
    connection.log = log ?? ((line) => process.stderr.write(`${line}\n`));
    return proxied(new Base<W>(connection, hello, operator));
  } catch (error) {
    await connection.close();
    throw error;
  }
}

function flags(options: LoadOptions): string[] {
  const { entry, model, approval, allow, ask, deny, grant, budget, maxRuns, settings } = options;
  const set = Object.entries(settings ?? {}).map(([name, value]) => `${name}=${value}`);
  const one = (value: string | number | undefined): string[] => (value === undefined ? [] : [String(value)]);
  const all: Record<string, readonly string[]> = {
    entry: one(entry),
    model: one(model),
    approval: one(approval),
    "max-runs": one(maxRuns),
    set,
    allow: allow ?? [],
    ask: ask ?? [],
    deny: deny ?? [],
    grant: grant ?? [],
    budget: budget ?? [],
  };
  const given = Object.entries(all).flatMap(([name, values]) => values.map((value) => `--${name}=${value}`));
  return ["serve", "--stdio", ...given];
}

async function greeted(connection: Connection): Promise<Hello> {
  let hello: Partial<Hello> | null;
  try {
    hello = (await connection.request("hello", { protocol: PROTOCOL }).result) as Partial<Hello> | null;
  } catch (error) {
    throw error instanceof LlmDoError ? new NotLoaded(error.message, { cause: error }) : error;
  }
  if (hello?.protocol !== PROTOCOL || !Array.isArray(hello.workers)) {
    throw new NotLoaded(
      `llm-do ${hello?.version ?? "of an unknown version"} speaks another protocol than this package: install both in the same version`,
    );
  }
  return hello as Hello;
}

/** Compares the header of a file of types with the workers. */
async function compare(stubs: string | URL, hello: Hello): Promise<void> {
  const text = await readFile(stubs, "utf8").catch((cause: unknown) => {
    throw new NotLoaded(`stubs: cannot read ${String(stubs)}`, { cause });
  });
  const found = /^\/\/ llm-do-stubs: typescript ([0-9a-f]+)$/m.exec(text.slice(0, 4096));
  if (found === null) throw new NotLoaded(`stubs: ${String(stubs)} was not written by \`llm-do stubs --typescript\``);
  if (found[1] !== hello.signatures) {
    throw new StubsOutOfDate(
      `the workers of ${hello.program} have other signatures than ${String(stubs)}: write it again with \`llm-do stubs --typescript\``,
    );
  }
}

/** The program with its workers as properties. A worker with the name of a method is reached by `worker`. */
function proxied<W extends object>(base: Base<W>): Program<W> {
  const names = new Set(base.workers());
  const isWorker = (name: string | symbol): name is string =>
    // A promise would take a property `then` for its own.
    typeof name === "string" && name !== "then" && !(name in base) && names.has(name);
  return new Proxy(base, {
    get: (target, name) => {
      if (isWorker(name)) return target.worker(name);
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
    has: (target, name) => isWorker(name) || name in target,
  }) as Program<W>;
}
