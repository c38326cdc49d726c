/** Performs the requests and the timers of the engine. */

import { toBase64 } from "./bytes";
import type { Input, SendEffect } from "./protocol";

/** The longest time of a timer of the browser. */
const LONGEST_MS = 2 ** 31 - 1;
/** Bytes of one piece of a response. */
const PIECE = 64 * 1024;

/** Answers the requests to models inside the page (`page:`). */
export type InnerFetch = (effect: SendEffect, signal: AbortSignal) => Promise<Response>;

export class Network {
  readonly #tell: (input: Input) => Promise<void>;
  readonly #inner: InnerFetch;
  readonly #under_way = new Map<number, AbortController>();

  /** `tell`: gives the engine an input, and resolves when the engine has taken it. */
  constructor(tell: (input: Input) => Promise<void>, inner: InnerFetch) {
    this.#tell = tell;
    this.#inner = inner;
  }

  send(effect: SendEffect): void {
    const controller = this.#begin(effect.id);
    void this.#send(effect, controller.signal).finally(() => this.#end(effect.id, controller));
  }

  async #send(effect: SendEffect, signal: AbortSignal): Promise<void> {
    const { id } = effect;
    const tell = (input: Input): Promise<void> => (signal.aborted ? Promise.resolve() : this.#tell(input));
    try {
      const response = effect.url.startsWith("page:") ? await this.#inner(effect, signal) : await outer(effect, signal);
      await tell({ input: "head", id, status: response.status, headers: [...response.headers] });
      const reader = response.body?.getReader();
      // The next piece is read when the engine has the last one, so that a fast sender fills no memory.
      for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
        for (let at = 0; at < read.value.length; at += PIECE) {
          await tell({ input: "piece", id, base64: toBase64(read.value.subarray(at, at + PIECE)) });
        }
      }
      await tell({ input: "end", id });
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error);
      await tell({ input: "failed", id, error: { kind: "network", message: wordsOf(effect.url, message) } });
    }
  }

  wait(id: number, ms: number): void {
    const { signal } = this.#begin(id);
    let left = ms;
    const next = (): void => {
      if (signal.aborted) return;
      if (left <= 0) {
        this.#under_way.delete(id);
        void this.#tell({ input: "done", id });
        return;
      }
      const now = Math.min(left, LONGEST_MS);
      left -= now;
      setTimeout(next, now);
    };
    setTimeout(next);
  }

  abort(id: number): void {
    this.#under_way.get(id)?.abort();
    this.#under_way.delete(id);
  }

  /** Ends everything: the engine that asked for it is gone. */
  abortAll(): void {
    for (const id of [...this.#under_way.keys()]) this.abort(id);
  }

  #begin(id: number): AbortController {
    const controller = new AbortController();
    this.#under_way.set(id, controller);
    return controller;
  }

  #end(id: number, controller: AbortController): void {
    if (this.#under_way.get(id) === controller) this.#under_way.delete(id);
  }
}

function outer(effect: SendEffect, signal: AbortSignal): Promise<Response> {
  const { protocol } = new URL(effect.url);
  if (protocol !== "https:" && protocol !== "http:") throw new Error(`the scheme ${protocol} is not allowed`);
  return fetch(effect.url, {
    method: effect.method,
    headers: effect.headers,
    signal,
    // Nothing of the visitor goes along, and a key goes to the named host only.
    credentials: "omit",
    redirect: "error",
    referrerPolicy: "no-referrer",
    cache: "no-store",
    ...(effect.body === undefined ? {} : { body: effect.body }),
  });
}

/** Names the causes, of which the browser says nothing. */
function wordsOf(url: string, said: string): string {
  let host: string;
  try {
    host = new URL(url).origin;
  } catch {
    return said;
  }
  if (host === "null") return said;
  return (
    `${host} can't be reached from this page (${said}). It may be offline, may refuse browsers (CORS), or this page's policy ` +
    "may not name it."
  );
}
