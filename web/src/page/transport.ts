/** The engine in the page for the app: requests like those to a server, over the worker of this tab. */

import { Through } from "../engine/through";
import { encoded, type Bytes } from "./bytes";
import type { Reply } from "./host";
import type { Options } from "./protocol";
import type { FromWorker, ToWorker } from "./worker";
import EngineWorker from "./worker?worker&inline";

/** What the transport needs of the page. */
export interface Source {
  /** What the tabs of one page have in common. */
  site: string;
  /** The bytes of the engine, which may be compressed. */
  engine(): Promise<Bytes>;
  /** The options of this tab, for the time when it begins to run the engine. */
  options(): Options;
}

export class Transport {
  readonly #worker: Worker;
  readonly #through: Through;
  /** Resolves when the engine runs, here or in another tab. Rejects if it can't run. */
  readonly ready: Promise<void>;

  constructor(source: Source) {
    // The worker comes from a blob, and not from an address: only such a worker is under the policy of this page.
    const worker = (this.#worker = new EngineWorker());
    this.#through = new Through((sent) => {
      if (sent.type === "request") this.#tell({ kind: "ask", id: sent.id, asked: sent.call });
      else this.#tell({ kind: "close", id: sent.id });
    }, true);
    this.ready = new Promise((resolve, reject) => {
      worker.addEventListener("error", (event) => reject(new Error(event.message)));
      worker.addEventListener("message", (event: MessageEvent<FromWorker>) => {
        const said = event.data;
        if (said.kind === "reply") return this.#take(said.id, said.reply);
        if (said.kind === "became") return resolve();
        if (said.kind === "failed") return reject(new Error(said.message));
        source.engine().then((bytes) => this.#tell({ kind: "engine", bytes, options: source.options() }), reject);
      });
    });
    this.#tell({ kind: "begin", site: source.site });
  }

  /** Sends a request as the browser's `fetch` does. */
  get fetch(): typeof fetch {
    return this.#through.fetch;
  }

  #tell(said: ToWorker): void {
    this.#worker.postMessage(said);
  }

  #take(id: number, reply: Reply): void {
    const through = this.#through;
    switch (reply.reply) {
      case "head": {
        const { status, headers, body, isStream } = reply;
        through.take({ type: "response", id, status, headers });
        if (body !== undefined) through.take({ type: "piece", id, bytes: typeof body === "string" ? encoded(body) : body });
        if (!isStream) through.take({ type: "end", id });
        break;
      }
      case "piece":
        through.take({ type: "piece", id, bytes: encoded(reply.text) });
        break;
      case "end":
        through.take({ type: "end", id });
        break;
      case "lost":
        // As `fetch` says it where a server is away: the app asks again.
        through.take({ type: "failed", id, message: reply.message });
    }
  }
}
