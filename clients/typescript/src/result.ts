/** What calls and streams give. */

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

/** The tokens of a run. `undefined` means unknown. */
export interface Usage {
  readonly inputTokens?: number | undefined;
  readonly outputTokens?: number | undefined;
  readonly cachedTokens?: number | undefined;
  readonly costUsd?: number | undefined;
}

/** An output with its run. */
export interface Result<O> {
  readonly output: O;
  /** The run's ID: `llm-do runs show RUN` shows it. */
  readonly run: string;
  readonly usage: Usage;
  /** The cost in US dollars, if the model's price is known. */
  readonly cost: number | undefined;
  readonly tookMs: number | undefined;
}

/** What an output has got: a new member, element or text at a place, which counts from the outermost container. */
export type Growth =
  | { readonly at: readonly (string | number)[]; readonly set: Json }
  | { readonly at: readonly (string | number)[]; readonly append: string };

/**
 * Something that happens in a run: a piece of an answer that is being made (`text`, `reasoning`, `call`), growth of its typed
 * output (`partial`), the end of an output that does not count (`discard_partial`), the end of pieces and output that don't count
 * (`discard`), or a record of the journal.
 */
export type Event =
  | { readonly kind: "text" | "reasoning" | "call"; readonly path: string; readonly turn: number; readonly text: string }
  | { readonly kind: "partial"; readonly path: string; readonly turn: number; readonly growth: readonly Growth[] }
  | { readonly kind: "discard" | "discard_partial"; readonly path: string; readonly turn: number }
  | { readonly kind: "record"; readonly path: string; readonly record: Readonly<Record<string, unknown>> };

/** A run as llm-do describes it (`docs/reference/http.md`). */
export interface Run {
  readonly run: string;
  readonly worker: string;
  readonly state: string;
  /** Why it was cut off, or can't be continued. */
  readonly reason?: string;
  readonly output?: unknown;
  readonly failure?: { readonly kind: string; readonly message: string; readonly partial?: unknown };
  readonly questions?: readonly Readonly<Record<string, unknown>>[];
  readonly took_ms?: number;
  readonly usage?: Readonly<Record<string, unknown>>;
}

/** Tokens out of their JSON. */
export function usageOf(given: Readonly<Record<string, unknown>> | undefined): Usage {
  const number = (name: string): number | undefined => {
    const value = given?.[name];
    return value === undefined || value === null ? undefined : Number(value);
  };
  return {
    inputTokens: number("input_tokens"),
    outputTokens: number("output_tokens"),
    cachedTokens: number("cached_tokens"),
    costUsd: number("cost_usd"),
  };
}

/** An event out of its JSON. */
export function eventOf(params: Readonly<Record<string, unknown>>): Event {
  const { event, path, turn, delta, text, name, record } = params;
  if (event === "record") {
    const content = (record ?? {}) as Readonly<Record<string, unknown>>;
    return { kind: "record", path: String(content["path"] ?? ""), record: content };
  }
  const at = { path: String(path), turn: Number(turn) };
  if (event === "discard" || event === "discard_partial") return { kind: event, ...at };
  if (event === "partial") return { kind: event, ...at, growth: (params["growth"] ?? []) as readonly Growth[] };
  const kind = delta === "reasoning" || delta === "call" ? delta : "text";
  return { kind, ...at, text: String(text ?? name ?? "") };
}
