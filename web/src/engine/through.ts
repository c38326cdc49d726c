/**
 * Requests as messages, where the browser's `fetch` does not lead to the engine: in a panel of an editor, which reaches no
 * network (`editors/vscode/src/bridge.ts` is the other end), and in a page that runs the engine itself (`src/page`).
 */

/** A request of the app. An editor takes texts only. */
export interface Call {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string | Uint8Array<ArrayBuffer>;
}

export type Sent = { type: "request"; id: number; call: Call } | { type: "abort"; id: number };
export type Received =
  | { type: "response"; id: number; status: number; headers: Record<string, string> }
  | { type: "piece"; id: number; base64: string }
  | { type: "piece"; id: number; bytes: Uint8Array<ArrayBuffer> }
  | { type: "end"; id: number }
  | { type: "failed"; id: number; message?: string };

interface Open {
  answer: (response: Response) => void;
  refuse: (error: unknown) => void;
  body: ReadableStreamDefaultController<Uint8Array> | undefined;
}

/** Statuses whose responses have no body. */
const EMPTY = new Set([204, 205, 304]);

export class Through {
  readonly #post: (message: Sent) => void;
  readonly #takesFiles: boolean;
  readonly #open = new Map<number, Open>();
  #last = 0;

  /** `takesFiles`: whether the other end takes bodies that are no text. */
  constructor(post: (message: Sent) => void, takesFiles = false) {
    this.#post = post;
    this.#takesFiles = takesFiles;
  }

  /** Stands for the browser's `fetch`. */
  readonly fetch: typeof fetch = async (asked, init = {}) => {
    const id = ++this.#last;
    const { method = "GET", signal } = init;
    const { body } = init;
    let sent: Call["body"];
    if (typeof body === "string") sent = body;
    else if (body !== undefined && body !== null) {
      if (!this.#takesFiles) throw new TypeError("files can't be sent from the panel: open the app of llm-do serve");
      sent = new Uint8Array(await new Response(body).arrayBuffer());
    }
    signal?.throwIfAborted();
    return new Promise((answer, refuse) => {
      this.#open.set(id, { answer, refuse, body: undefined });
      signal?.addEventListener("abort", () => {
        if (this.#end(id, signal.reason)) this.#post({ type: "abort", id });
      });
      const path = asked instanceof Request ? asked.url : String(asked);
      const headers = Object.fromEntries(new Headers(init.headers));
      this.#post({ type: "request", id, call: { method, path, headers, ...(sent === undefined ? {} : { body: sent }) } });
    });
  };

  /** Takes a message of the other end. */
  take(message: Received): void {
    const open = this.#open.get(message.id);
    if (open === undefined) return;
    if (message.type === "response") {
      const { status, headers } = message;
      const stream = new ReadableStream<Uint8Array>({
        start: (body) => void (open.body = body),
        cancel: () => {
          if (this.#open.delete(message.id)) this.#post({ type: "abort", id: message.id });
        },
      });
      open.answer(new Response(EMPTY.has(status) ? null : stream, { status, headers }));
    } else if (message.type === "piece") {
      open.body?.enqueue("bytes" in message ? message.bytes : Uint8Array.from(atob(message.base64), (char) => char.charCodeAt(0)));
    } else if (message.type === "end") {
      open.body?.close();
      this.#open.delete(message.id);
    } else this.#end(message.id, new TypeError(message.message ?? "the server can't be reached"));
  }

  /** Fails what waits for the request. Returns whether something did. */
  #end(id: number, why: unknown): boolean {
    const open = this.#open.get(id);
    open?.refuse(why);
    open?.body?.error(why);
    return this.#open.delete(id);
  }
}
