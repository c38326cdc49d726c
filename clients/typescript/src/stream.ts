/** A call whose events are followed. */

import type { Params, Request } from "./connection.js";
import { type DeepPartial, Partial } from "./partial.js";
import { type Event, type Json, type Result, eventOf } from "./result.js";

/** Deltas that wait for a slow reader. Further ones are lost; records never are. */
const MOST_DELTAS = 10_000;

/** What is under way and will have a result. */
export type Waited = Pick<Request, "result" | "cancel">;

/**
 * The events of a run or of an answer, for `for await`, and its result. A failure is thrown after the last event. A loop that is
 * left early ends it, as `close` does.
 */
export class Events<R> implements AsyncIterable<Event>, AsyncDisposable {
  readonly #events: Event[] = [];
  readonly #request: Waited;
  readonly #result: Promise<R>;
  readonly #partial = new Partial();
  #deltas = 0;
  #over = false;
  #wake: () => void = () => {};

  constructor(start: (hear: (params: Params) => void) => Waited, decode: (view: unknown) => R) {
    this.#request = start((params) => this.#hear(params));
    this.#result = this.#request.result.then(decode);
    const end = (): void => {
      this.#over = true;
      this.#wake();
    };
    this.#result.then(end, end);
  }

  /** Waits for the end, and returns the result. */
  result(): Promise<R> {
    return this.#result;
  }

  /** The pieces of the worker's own answer. Pieces of a request that failed and is repeated are among them. */
  async *text(): AsyncGenerator<string, void, undefined> {
    const answer = new Answer();
    for await (const event of this) {
      const piece = answer.piece(event);
      if (piece !== "") yield piece;
    }
  }

  /**
   * The typed output so far, each time it has grown, and `undefined` when it does not count: the answer was invalid, or its
   * request failed. A slow reader gets the newest.
   * @internal
   */
  protected async *values(): AsyncGenerator<Json | undefined, void, undefined> {
    let last: Json | undefined;
    let discarded = 0;
    for await (const event of this) {
      if (event.path !== "0" || !/^(partial|discard|discard_partial)$/.test(event.kind)) continue;
      const value = this.#partial.value;
      if (last !== undefined && this.#partial.discarded !== discarded) yield (last = undefined);
      discarded = this.#partial.discarded;
      if (value !== last) yield (last = value);
    }
  }

  /** Ends it if it is not over. */
  close(): void {
    if (!this.#over) this.#request.cancel();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    let whole = false;
    try {
      for (;;) {
        const event = this.#events.shift();
        if (event !== undefined) {
          if (isDelta(event)) this.#deltas -= 1;
          yield event;
        } else if (this.#over) {
          break;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
      whole = true;
    } finally {
      if (!whole) this.close();
    }
    await this.#result;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }

  #hear(params: Params): void {
    const event = eventOf(params);
    // The value so far loses nothing.
    if (event.path === "0") {
      if (event.kind === "partial") this.#partial.grow(event.turn, event.growth);
      else if (event.kind === "discard" || event.kind === "discard_partial") this.#partial.discard();
    }
    if (isDelta(event)) {
      if (this.#deltas >= MOST_DELTAS) return;
      this.#deltas += 1;
    }
    this.#events.push(event);
    this.#wake();
  }
}

/** The events of a run, and its result. `close` cancels the run. */
export class Stream<O> extends Events<Result<O>> {
  /**
   * The typed output so far, each time it has grown. Members that have not arrived are absent; strings grow at their end, arrays
   * and objects by further items. `undefined` is given when the value so far does not count: the answer was invalid, or its
   * request failed. A slow reader gets the newest.
   */
  partials(): AsyncGenerator<DeepPartial<O> | undefined, void, undefined> {
    return this.values() as AsyncGenerator<DeepPartial<O> | undefined, void, undefined>;
  }
}

/**
 * What has been heard of an answer that is being made. Deltas can be missing: they begin with the subscription, and a slow reader
 * loses some. The record of the answer is never lost, and has the rest.
 */
class Answer {
  #heard = "";

  /** What the event adds to the text. */
  piece(event: Event): string {
    if (event.path !== "0") return "";
    if (event.kind === "text") {
      this.#heard += event.text;
      return event.text;
    }
    if (event.kind === "discard") this.#heard = "";
    if (event.kind !== "record") return "";
    const { kind, step, message } = event.record;
    if (kind !== "model_answered" || !String(step).startsWith("model.")) return "";
    const heard = this.#heard;
    this.#heard = "";
    const whole = textOf(message);
    return whole.startsWith(heard) ? whole.slice(heard.length) : "";
  }
}

/** The text of a recorded message. A long one lies beside the journal. */
function textOf(message: unknown): string {
  const { parts = [] } = (message ?? {}) as { parts?: readonly { part?: unknown; text?: unknown }[] };
  return parts.map(({ part, text }) => (part === "text" && typeof text === "string" ? text : "")).join("");
}

function isDelta(event: Event): boolean {
  return ["text", "reasoning", "call", "partial"].includes(event.kind);
}
