/** The typed answer so far of a call, as its events make it grow. */

import type { Growth, Json } from "../engine/records";

/**
 * The value with a growth, from that depth of its place on. Containers on the way are copied, so that components see the change;
 * `fresh` has those that were copied since they were last shown. Growth of another value changes nothing.
 */
export function grown(value: Json | undefined, growth: Growth, fresh: Set<unknown>, depth = 0): Json | undefined {
  const key = growth.at[depth];
  if (key === undefined) {
    if ("set" in growth) return growth.set;
    return typeof value === "string" ? value + growth.append : value;
  }
  const isNew = depth === growth.at.length - 1 && "set" in growth;
  if (Array.isArray(value)) {
    if (typeof key !== "number" || !(key < value.length || (isNew && key === value.length))) return value;
    const copy = fresh.has(value) ? value : [...value];
    fresh.add(copy);
    copy[key] = grown(value[key], growth, fresh, depth + 1) as Json;
    return copy;
  }
  if (typeof value !== "object" || value === null || typeof key !== "string") return value;
  const before = Object.hasOwn(value, key) ? value[key] : undefined;
  if (before === undefined && !isNew) return value;
  const copy = fresh.has(value) ? value : { ...value };
  fresh.add(copy);
  // A member `__proto__` is one like any other.
  const member = { value: grown(before, growth, fresh, depth + 1), writable: true, enumerable: true, configurable: true };
  Object.defineProperty(copy, key, member);
  return copy;
}
