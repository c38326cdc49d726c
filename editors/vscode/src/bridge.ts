/** Carries requests of the app in the panel to the server of its program. The page itself reaches no network. */

import type { ClientRequest, IncomingMessage } from "node:http";
import type { Call } from "./serve.ts";

/** What the page sends. */
export type FromPage =
  | { type: "request"; id: number; call: Call }
  | { type: "abort"; id: number };
/** What the page gets for a request. */
export type ToPage =
  | { type: "response"; id: number; status: number; headers: Record<string, string> }
  | { type: "piece"; id: number; base64: string }
  | { type: "end"; id: number }
  | { type: "failed"; id: number };

export interface Server {
  send(call: Call, answered: (response: IncomingMessage) => void, failed: (error: Error) => void): ClientRequest;
}

/** Methods and paths of the interface that the app uses. Everything else is refused, whatever the page sends. */
const METHODS = new Set(["GET", "POST", "PUT", "DELETE"]);
const PATH = /^\/v1\/[\w\-.~%/?=&+:,@]*$/;
const HEADERS = new Set(["accept", "content-type", "idempotency-key", "last-event-id"]);

export class Bridge {
  readonly #server: () => Promise<Server>;
  readonly #post: (message: ToPage) => void;
  /** Runs before a request is sent on. */
  readonly #before: (call: Call) => Promise<void>;
  readonly #open = new Map<number, ClientRequest | undefined>();

  constructor(server: () => Promise<Server>, post: (message: ToPage) => void, before: (call: Call) => Promise<void> = () => Promise.resolve()) {
    this.#server = server;
    this.#post = post;
    this.#before = before;
  }

  async take(message: FromPage): Promise<void> {
    const { id } = message;
    if (message.type === "abort") {
      this.#open.get(id)?.destroy();
      this.#open.delete(id);
      return;
    }
    const fail = (): void => {
      if (this.#open.delete(id)) this.#post({ type: "failed", id });
    };
    this.#open.set(id, undefined);
    try {
      const call = allowed(message.call);
      await this.#before(call);
      const server = await this.#server();
      // The page may have lost interest while the server started.
      if (!this.#open.has(id)) return;
      this.#open.set(id, server.send(call, (response) => this.#answer(id, response, fail), fail));
    } catch {
      fail();
    }
  }

  /** Ends all requests. */
  close(): void {
    for (const request of this.#open.values()) request?.destroy();
    this.#open.clear();
  }

  #answer(id: number, response: IncomingMessage, fail: () => void): void {
    if (!this.#open.has(id)) return;
    const headers: Record<string, string> = {};
    for (const name of ["content-type", "content-length"]) {
      const value = response.headers[name];
      if (typeof value === "string") headers[name] = value;
    }
    this.#post({ type: "response", id, status: response.statusCode ?? 502, headers });
    response.on("data", (piece: Buffer) => this.#post({ type: "piece", id, base64: piece.toString("base64") }));
    response.once("end", () => this.#open.delete(id) && this.#post({ type: "end", id }));
    response.once("error", fail);
  }
}

function allowed({ method, path, headers, body }: Call): Call {
  if (!METHODS.has(method) || !PATH.test(path) || path.includes("..")) throw new Error(`the panel asked for ${method} ${path}`);
  const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => HEADERS.has(name.toLowerCase())));
  return { method, path, headers: kept, ...(body === undefined ? {} : { body }) };
}
