import { expect, test } from "vitest";
import { median } from "../e2e/figures";

test("a repetition without a figure is not in the median, and is counted", () => {
  expect(median([30, 10.4, 20])).toEqual({ median: 20, text: "median 20 ms of 10, 20, 30" });
  expect(median([null, 30, Number.NaN, 10, 20])).toEqual({ median: 20, text: "median 20 ms of 10, 20, 30; 2 of 5 gave no figure" });
  expect(median([null])).toEqual({ median: Number.NaN, text: "no figure; 1 of 1 gave no figure" });
});
