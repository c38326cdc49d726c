/** Requests that the program around the page sends: a page in an editor reaches no network. `editors/vscode/src/bridge.ts` is the other end. */

export type ToEditor =
  | { type: "request"; id: number; call: { method: string; path: string; headers: Record<string, string>; body?: string } }
  | { type: "abort"; id: number };
export type FromEditor =
  | { type: "response"; id: number; status: number; headers: Record<string, string> }
  | { type: "piece"; id: number; base64: string }
  | { type: "end"; id: number }
  | { type: "failed"; id: number };

interface Open {
  answer: (response: Response) => void;
  refuse: (error: unknown) => void;
  body: ReadableStreamDefaultController<Uint8Array> | undefined;
}

/** Statuses whose responses have no body. */
const EMPTY = new Set([204, 205, 304]);

export class Through {
  readonly #post: (message: ToEditor) => void;
  readonly #open = new Map<number, Open>();
  #last = 0;

  constructor(post: (message: ToEditor) => void) {
    this.#post = post;
  }

  /** Stands for the browser's `fetch`. Texts are the only bodies. */
  readonly fetch: typeof fetch = (asked, init = {}) => {
    const id = ++this.#last;
    const { method = "GET", body, signal } = init;
    if (body !== undefined && body !== null && typeof body !== "string") {
      return Promise.reject(new TypeError("files can't be sent from the panel: open the app of llm-do serve"));
    }
    if (signal?.aborted) return Promise.reject(signal.reason as Error);
    return new Promise((answer, refuse) => {
      this.#open.set(id, { answer, refuse, body: undefined });
      signal?.addEventListener("abort", () => {
        if (this.#end(id, signal.reason)) this.#post({ type: "abort", id });
      });
      const path = asked instanceof Request ? asked.url : String(asked);
      const headers = Object.fromEntries(new Headers(init.headers));
      this.#post({ type: "request", id, call: { method, path, headers, ...(typeof body === "string" ? { body } : {}) } });
    });
  };

  /** Takes a message of the editor. */
  take(message: FromEditor): void {
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
      open.body?.enqueue(Uint8Array.from(atob(message.base64), (char) => char.charCodeAt(0)));
    } else if (message.type === "end") {
      open.body?.close();
      this.#open.delete(message.id);
    } else this.#end(message.id, new TypeError("the server can't be reached"));
  }

  /** Fails what waits for the request. Returns whether something did. */
  #end(id: number, why: unknown): boolean {
    const open = this.#open.get(id);
    open?.refuse(why);
    open?.body?.error(why);
    return this.#open.delete(id);
  }
}
