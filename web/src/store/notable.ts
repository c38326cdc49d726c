/** The calls of a run that a reader looks for first. */

import type { Call } from "./call";

export const isFailed = (call: Call): boolean => call.state === "failed" || call.state === "refused";
export const isWaiting = (call: Call): boolean => [...call.questions.values()].some((asked) => asked.answer === undefined);

/** The call in which the failure of a run began: the deepest one whose failure its callers pass on. */
export function failingOf(root: Call): Call {
  let at = root;
  for (;;) {
    const message = at.failure?.message ?? "";
    const failed = at.children.filter(isFailed);
    const passed = failed.findLast((call) => (call.failure?.message ?? "") !== "" && message.includes(call.failure?.message ?? ""));
    // Nothing followed the last call, so it is the reason, too.
    const next = passed ?? (at.children.at(-1) === failed.at(-1) ? failed.at(-1) : undefined);
    if (next === undefined) return at;
    at = next;
  }
}

export interface Notable {
  failed: number;
  waiting: number;
  /** By the time and cost of a call itself, without the calls below it. */
  slowest: { call: Call; ms: number } | undefined;
  dearest: { call: Call; usd: number } | undefined;
}

/** `now`: the end of calls that have none. */
export function notableOf(calls: Iterable<Call>, now: number): Notable {
  const found: Notable = { failed: 0, waiting: 0, slowest: undefined, dearest: undefined };
  for (const call of calls) {
    if (isFailed(call)) found.failed++;
    if (isWaiting(call)) found.waiting++;
    const took = (one: Call): number => (one.ended_ms ?? now) - one.started_ms;
    let [ms, usd] = [took(call), call.spent.cost];
    for (const child of call.children) {
      ms -= took(child);
      usd -= child.spent.cost;
    }
    if (ms > (found.slowest?.ms ?? 0)) found.slowest = { call, ms };
    // Sums of fractions are not exact.
    if (usd > (found.dearest?.usd ?? 1e-12)) found.dearest = { call, usd };
  }
  return found;
}
