/** The process of llm-do, and the requests to it: JSON-RPC 2.0 over its stdin and stdout (`docs/reference/stdio.md`). */

import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

import { packagedBinary } from "./binary.js";
import { Disconnected, InvalidInput, type LlmDoError, NotLoaded, errorOfResponse } from "./errors.js";

/** The version of the interface. */
export const PROTOCOL = 1;
/** How long the process may take to end its runs, in milliseconds, before it is killed. */
const ENDS_WITHIN = 15_000;
/**
 * How long, in milliseconds, the pipes of a process that has ended are still read, and how long a process that has closed one of
 * them may take to end. Another process may hold the other end for ever.
 */
const LAST_WORDS = 1_000;
/** Longest request, in bytes. */
const LONGEST_LINE = 16 << 20;
/** Lines of its log that an error shows. */
const SAID = 40;
const NAME = process.platform === "win32" ? "llm-do.exe" : "llm-do";

/** A JSON object. */
export type Params = Readonly<Record<string, unknown>>;
/** Takes the notifications of a request. */
export type Hear = (method: string, params: Params) => void;

interface Pending {
  readonly hear: Hear | undefined;
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** A request that is under way. */
export interface Request {
  readonly result: Promise<unknown>;
  /** Takes the request back; a run that it has started is cancelled. */
  cancel(): void;
  /** Ends it with this error, and takes it back. */
  fail(error: unknown): void;
}

/** The program: as given, as `LLM_DO_BIN` says, beside this module, of its package for this platform, or on the `PATH`. */
export function findBinary(given: string | undefined): string {
  const named = given ?? process.env["LLM_DO_BIN"];
  const folders = (process.env["PATH"] ?? "").split(delimiter).filter((folder) => folder !== "");
  if (named !== undefined && named !== "") {
    const isName = !named.includes("/") && !named.includes("\\");
    const found = (isName ? folders.map((folder) => join(folder, named)) : [named]).find(isProgram);
    if (found !== undefined) return found;
    throw new NotLoaded(`${given === undefined ? "LLM_DO_BIN" : "binary"}: there is no program ${JSON.stringify(named)}`);
  }
  const beside = fileURLToPath(new URL(`../bin/${NAME}`, import.meta.url));
  const packaged = packagedBinary();
  const found = [beside, ...(packaged === undefined ? [] : [packaged]), ...folders.map((folder) => join(folder, NAME))].find(isProgram);
  if (found !== undefined) return found;
  throw new NotLoaded("llm-do is not installed: put it on the PATH, or name the program in LLM_DO_BIN");
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** A process of llm-do. All calls share it. */
export class Connection {
  readonly child: ChildProcessWithoutNullStreams;
  /** Gets the lines of its log once the program is loaded. */
  log: ((line: string) => void) | undefined;
  readonly #pending = new Map<number, Pending>();
  readonly #ended: Promise<void>;
  readonly #said: string[] = [];
  #nextId = 0;
  #closed = false;
  /** Why there is no process any more. */
  #dead: string | undefined;

  constructor(binary: string, args: readonly string[], env: NodeJS.ProcessEnv | undefined, cwd: string | undefined) {
    this.child = spawn(binary, args, {
      stdio: ["pipe", "pipe", "pipe"],
      // Ctrl-C is for this program, which then cancels its calls.
      detached: true,
      ...(env === undefined ? {} : { env }),
      ...(cwd === undefined ? {} : { cwd }),
    });
    const { child } = this;
    this.#ended = new Promise((resolve) => {
      child.on("error", (error) => {
        this.#fail(`cannot start ${binary}: ${error.message}`);
        resolve();
      });
      child.once("exit", (code, signal) => {
        const ended = (): void => {
          clearTimeout(timer);
          const status = signal === null ? `exit code ${code}` : `signal ${signal}`;
          const said = this.#said.length === 0 ? "" : `: ${this.#said.join("\n")}`;
          this.#fail(this.#closed ? "the program was closed" : `llm-do has ended (${status})${said}`);
          for (const pipe of [child.stdin, child.stdout, child.stderr]) pipe.destroy();
          resolve();
        };
        const timer = setTimeout(ended, LAST_WORDS);
        child.once("close", ended);
      });
    });
    // Without descriptors for them there are no pipes. The event `error` follows.
    if ((child.stdin as unknown) == null) throw new NotLoaded(`cannot start ${binary}: too many files are open`);
    child.stdin.on("error", () => this.#end()); // It reads no more requests.
    child.stdout.once("close", () => this.#end()); // It answers no more requests.
    for (const pipe of [child.stdout, child.stderr]) pipe.on("error", () => this.#end());
    inLines(child.stdout, (line) => this.#take(line));
    inLines(child.stderr, (line) => this.#logged(line.toString("utf8")));
    this.#hold();
  }

  /** Sends a request. `hear` gets its notifications. */
  request(method: string, params: Params, hear?: Hear): Request {
    if (this.#dead !== undefined) throw new Disconnected(this.#dead);
    const id = this.#nextId++;
    this.#send({ jsonrpc: "2.0", id, method, params });
    let fail: (error: unknown) => void = () => {};
    const result = new Promise<unknown>((resolve, reject) => {
      this.#pending.set(id, { hear, resolve, reject });
      fail = reject;
    });
    this.#hold();
    const cancel = (): void => this.notify("cancel", { request: id });
    return {
      result,
      cancel,
      fail: (error) => {
        cancel();
        fail(error);
      },
    };
  }

  /** Sends a notification. Without a process it has no effect. */
  notify(method: string, params: Params): void {
    if (this.#dead === undefined && !this.#closed) this.#send({ jsonrpc: "2.0", method, params });
  }

  /** Ends the process: its runs are cancelled, and those that wait are suspended. */
  async close(): Promise<void> {
    this.#closed = true;
    this.child.ref();
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill("SIGKILL"), ENDS_WITHIN);
    await this.#ended;
    clearTimeout(timer);
  }

  #send(message: unknown): void {
    // A lone surrogate, which strings of JavaScript can hold, is no Unicode text.
    const line = JSON.stringify(message).replace(/\\\\|\\ud[89a-f][0-9a-f]{2}/g, (found) =>
      found === "\\\\" ? found : "\\ufffd",
    );
    if (Buffer.byteLength(line) > LONGEST_LINE) {
      throw new InvalidInput("the input is longer than 16 MiB", { kind: "invalid_input" });
    }
    this.child.stdin.write(`${line}\n`);
  }

  /** The process keeps this one alive as long as a request is under way. */
  #hold(): void {
    const { child } = this;
    const held = this.#pending.size > 0;
    for (const each of [child, child.stdin, child.stdout, child.stderr] as { ref?(): void; unref?(): void }[]) {
      if (held) each.ref?.();
      else each.unref?.();
    }
  }

  /** Kills the process unless it ends by itself. */
  #end(): void {
    const { child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    // Closed by `close`, it may still end its runs.
    const timer = setTimeout(
      () => {
        this.#fail("llm-do has closed its pipes");
        child.kill("SIGKILL");
      },
      this.#closed ? ENDS_WITHIN : LAST_WORDS,
    );
    child.once("exit", () => clearTimeout(timer));
  }

  #take(line: Buffer): void {
    try {
      this.#understand(line);
    } catch {
      this.#fail(`llm-do has written what is no message: ${JSON.stringify(line.toString("utf8").slice(0, 200))}`);
      this.child.kill("SIGKILL");
    }
  }

  #understand(line: Buffer): void {
    const message = JSON.parse(line.toString("utf8")) as {
      id?: unknown;
      method?: unknown;
      params?: Params;
      result?: unknown;
      error?: object;
    };
    if (typeof message !== "object" || message === null || Array.isArray(message)) throw new TypeError("no object");
    const { id, method, params, result, error } = message;
    if (typeof method === "string") {
      const pending = this.#pending.get(Number(params?.["request"] ?? -1));
      try {
        if (params !== undefined) pending?.hear?.(method, params);
      } catch (error) {
        // The fault of a listener is no fault of the others.
        pending?.reject(error);
      }
      return;
    }
    if (id === null && error !== undefined) {
      // Which request it was is not known, and so no call could be sure of its answer.
      this.#fail(`llm-do has not understood a request: ${errorOfResponse(error).message}`);
      this.child.kill("SIGKILL");
      return;
    }
    const pending = this.#pending.get(Number(id ?? -1));
    if (pending === undefined) return;
    // Read first: what can't be read leaves the request waiting for the end of the process.
    const refused = error === undefined ? undefined : errorOfResponse(error);
    this.#pending.delete(Number(id));
    this.#hold();
    if (refused === undefined) pending.resolve(result);
    else pending.reject(refused);
  }

  #logged(line: string): void {
    this.#said.push(line);
    if (this.#said.length > SAID) this.#said.shift();
    this.log?.(line);
  }

  #fail(why: string): void {
    this.#dead ??= why;
    const error: LlmDoError = new Disconnected(this.#dead);
    const left = [...this.#pending.values()];
    this.#pending.clear();
    this.#hold();
    for (const pending of left) pending.reject(error);
  }
}

function inLines(stream: NodeJS.ReadableStream, take: (line: Buffer) => void): void {
  let parts: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => {
    let from = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, from)) {
      parts.push(chunk.subarray(from, end));
      const line = parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts);
      parts = [];
      from = end + 1;
      take(line);
    }
    if (from < chunk.length) parts.push(chunk.subarray(from));
  });
}
