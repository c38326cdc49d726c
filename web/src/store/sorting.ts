/** The order of runs in a list. */

import type { Run } from "../engine/engine";

export const COLUMNS = ["state", "worker", "program", "usage", "time", "began"] as const;
export type Column = (typeof COLUMNS)[number];

/** A column, and whether its largest values come first. */
export interface Sorting {
  by: Column;
  down: boolean;
}

export const NEWEST: Sorting = { by: "began", down: true };

const tokens = (run: Run): number => (run.usage?.input_tokens ?? 0) + (run.usage?.output_tokens ?? 0);

/** Runs in that order. Those that are equal stay as they were. `now`: the end of runs that have none. */
export function sorted(runs: readonly Run[], { by, down }: Sorting, now: number): Run[] {
  const key: Record<Column, (run: Run) => string | number> = {
    state: (run) => run.state,
    worker: (run) => run.worker,
    program: (run) => run.program,
    // Costs first; tokens tell runs without known costs apart.
    usage: (run) => (run.usage?.cost_usd ?? 0) + tokens(run) * 1e-12,
    time: (run) => run.took_ms ?? (run.started_ms === undefined ? 0 : now - run.started_ms),
    began: (run) => run.run,
  };
  const of = key[by];
  return runs.toSorted((a, b) => {
    const [left, right] = [of(a), of(b)];
    const order = left < right ? -1 : left > right ? 1 : 0;
    return down ? -order : order;
  });
}

/** The order after a click on a heading: words from A, figures from the largest, and the other way the second time. */
export const clicked = (sorting: Sorting, by: Column): Sorting =>
  sorting.by === by ? { by, down: !sorting.down } : { by, down: by === "usage" || by === "time" || by === "began" };
