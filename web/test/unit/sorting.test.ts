import { expect, test } from "vitest";
import type { Run } from "../../src/engine/engine";
import { clicked, NEWEST, sorted } from "../../src/store/sorting";

const run = (id: string, fields: Partial<Run>): Run => ({ run: id, program: "p", worker: "w", chat: false, client: "c", state: "done", started_ms: 0, ...fields });
const RUNS = [
  run("3", { worker: "b", usage: { input_tokens: 900 }, took_ms: 5 }),
  run("2", { worker: "a", usage: { cost_usd: 0.5 }, took_ms: 50 }),
  run("1", { worker: "b", usage: {} }),
];
const ids = (by: Parameters<typeof sorted>[1]): string => sorted(RUNS, by, 20).map((one) => one.run).join("");

test("runs are sorted by a column, and those that are equal stay in their order", () => {
  expect(ids(NEWEST)).toBe("321");
  expect(ids({ by: "worker", down: false })).toBe("231");
  expect(ids({ by: "usage", down: true })).toBe("231");
  // A run under way has taken the time since it began.
  expect(ids({ by: "time", down: true })).toBe("213");
});

test("a heading sorts figures from the largest first, and turns the order with the next click", () => {
  expect(clicked(NEWEST, "usage")).toEqual({ by: "usage", down: true });
  expect(clicked(NEWEST, "worker")).toEqual({ by: "worker", down: false });
  expect(clicked(NEWEST, "began")).toEqual({ by: "began", down: false });
});
