/** The value so far of an output that is being made. */

import type { Growth, Json } from "./result.js";

/** A value of which parts have not arrived. Strings and arrays may be shorter than in the end. */
export type DeepPartial<T> = T extends (infer E)[]
  ? DeepPartial<E>[]
  : T extends readonly (infer E)[]
    ? readonly DeepPartial<E>[]
    : T extends object
      ? { [K in keyof T]?: DeepPartial<T[K]> }
      : T;

/** A value that grows. */
export class Partial {
  #value: Json | undefined;
  #turn: number | undefined;
  /** The number of values that were discarded. */
  discarded = 0;
  /** The containers that were copied since the value was last read. Only these are changed. */
  #fresh = new Set<unknown>();

  /** The value so far; `undefined`: there is none. A value that was given does not change. */
  get value(): Json | undefined {
    this.#fresh = new Set();
    return this.#value;
  }

  /** Takes growth. That of another turn begins another value. */
  grow(turn: number, growth: readonly Growth[]): void {
    if (turn !== this.#turn) this.discard();
    this.#turn = turn;
    for (const one of growth) this.#value = grown(this.#value, one, 0, this.#fresh);
  }

  /** Drops the value. */
  discard(): void {
    if (this.#value !== undefined) this.discarded += 1;
    this.#value = undefined;
    this.#turn = undefined;
  }
}

/**
 * The value with a growth at that depth. Containers on the way are copied, so that an earlier value stays as it was, unless they are
 * `fresh`. Growth of a value that was not heard from its beginning changes nothing.
 */
function grown(value: Json | undefined, growth: Growth, depth: number, fresh: Set<unknown>): Json | undefined {
  const key = growth.at[depth];
  if (key === undefined) {
    if ("set" in growth) return growth.set;
    return typeof value === "string" ? value + growth.append : value;
  }
  if (Array.isArray(value)) {
    const isNew = key === value.length && depth === growth.at.length - 1 && "set" in growth;
    if (typeof key !== "number" || !(isNew || key < value.length)) return value;
    const copy = fresh.has(value) ? value : [...value];
    fresh.add(copy);
    copy[key] = grown(value[key], growth, depth + 1, fresh) as Json;
    return copy;
  }
  if (typeof value !== "object" || value === null || typeof key !== "string") return value;
  if (!Object.hasOwn(value, key) && !("set" in growth && depth === growth.at.length - 1)) return value;
  const copy = fresh.has(value) ? value : { ...value };
  fresh.add(copy);
  const member = grown(Object.hasOwn(value, key) ? value[key] : undefined, growth, depth + 1, fresh) as Json;
  // A member `__proto__` is one like any other.
  Object.defineProperty(copy, key, { value: member, writable: true, enumerable: true, configurable: true });
  return copy;
}
