/** Two calls side by side. */

import type { Json } from "../engine/records";
import { pointer, same } from "../schema/form";
import type { Call } from "./call";
import { shownChildren } from "./call-words";

/** A field of two values. Absent on one side: `undefined`. */
export interface FieldRow {
  /** A JSON pointer; empty for the whole value. */
  at: string;
  a: Json | undefined;
  b: Json | undefined;
  isSame: boolean;
}

const isNested = (value: Json | undefined): value is Json[] | { [name: string]: Json } => typeof value === "object" && value !== null;
const isFilled = (value: Json | undefined): boolean => isNested(value) && Object.keys(value).length > 0;

/** Most fields that are compared one by one. */
const MOST = 2000;

/** The fields of two values, in the order of the first, and then those that only the second has. */
export function fieldsOf(a: Json | undefined, b: Json | undefined): FieldRow[] {
  const rows: FieldRow[] = [];
  const add = (left: Json | undefined, right: Json | undefined, at: string): void => {
    const both = isNested(left) && isNested(right) && Array.isArray(left) === Array.isArray(right);
    const one = left === undefined || right === undefined;
    if ((!both && !one) || (!isFilled(left) && !isFilled(right)) || rows.length >= MOST) {
      const isSame = left !== undefined && right !== undefined ? same(left, right) : left === right;
      rows.push({ at, a: left, b: right, isSame });
      return;
    }
    const member = (value: Json | undefined, name: string): Json | undefined =>
      isNested(value) && Object.hasOwn(value, name) ? (value as { [name: string]: Json })[name] : undefined;
    const names = new Set([...Object.keys(isNested(left) ? left : {}), ...Object.keys(isNested(right) ? right : {})]);
    for (const name of names) add(member(left, name), member(right, name), pointer(at, name));
  };
  add(a, b, "");
  return rows;
}

/** The two texts of a field that are compared by line. */
export function textsOf(row: FieldRow): { before: string; after: string } | undefined {
  if (typeof row.a !== "string" || typeof row.b !== "string") return undefined;
  const isLong = [row.a, row.b].some((text) => text.length > 60 || text.includes("\n"));
  return isLong ? { before: row.a, after: row.b } : undefined;
}

/** The calls of one function below a call. */
export interface CallGroup {
  name: string;
  count: number;
  failed: number;
  ms: number;
  cost: number;
}

/** The calls below a call by function, in the order of the first of each. `now`: the end of calls that have none. */
export function groupsOf(call: Call | undefined, now: number): Map<string, CallGroup> {
  const groups = new Map<string, CallGroup>();
  const add = (below: Call): void => {
    for (const child of shownChildren(below)) {
      const group = groups.get(child.name) ?? { name: child.name, count: 0, failed: 0, ms: 0, cost: 0 };
      group.count++;
      if (child.state === "failed" || child.state === "refused") group.failed++;
      group.ms += (child.ended_ms ?? now) - child.started_ms;
      group.cost += child.spent.cost;
      groups.set(child.name, group);
      add(child);
    }
  };
  if (call !== undefined) add(call);
  return groups;
}
