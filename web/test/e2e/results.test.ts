/** What commands in the project's terminal do, live: tests, maps and runs. */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import { Clicks } from "./clicks";
import type { Place } from "./program";
import { BINARY } from "./server";
import { Stage } from "./stage";

const CASES = `repeat: 3
cases:
- name: greets
  input: {name: Ada}
  expect: {output: {matches: Ada}}
- name: greets-politely
  input: {name: Bob}
  expect: {output: {matches: "Dear Bob"}}
`;
const ORDERS = `cases:
- name: three-pears
  input: pears
  expect: {output: {total: 1.5, items: [{name: pear, count: 3}]}}
`;
const FOREVER = `cases:
- name: thinks
  input: {message: Go on.}
  expect: {output: {matches: late}}
`;

/** Cases that pass and fail, a case that never ends, and a table with a row that never ends. */
function results({ dir }: Place): void {
  writeFileSync(join(dir, "workers/greeter.cases.yaml"), CASES);
  writeFileSync(join(dir, "workers/biller.cases.yaml"), ORDERS);
  writeFileSync(join(dir, "workers/slow.cases.yaml"), FOREVER);
  writeFileSync(
    join(dir, "workers/biller.worker"),
    "---\ndescription: Bills an order.\nmodel: script:scripts/biller.yaml\nreturns: {type: object}\n---\nBill it.\n",
  );
  writeFileSync(
    join(dir, "scripts/biller.yaml"),
    "answers:\n  - json: {total: 2, items: [{name: pear, count: 4}], note: by air}\n    usage: {input_tokens: 40, output_tokens: 9}\n",
  );
  writeFileSync(
    join(dir, "workers/teller.worker"),
    "---\ndescription: Tells of a word.\nmodel: script:scripts/teller.yaml\nparameters: {word: string}\n---\nTell of {{ word }}.\n",
  );
  writeFileSync(
    join(dir, "scripts/teller.yaml"),
    `answers:
  - when: {last_regex: slowly}
    text: late
    delay_ms: 600000
  - when: {last_regex: broken}
    error: {kind: bad_request, message: no such word}
  - text: It is a word.
    usage: {input_tokens: 12, output_tokens: 4}
`,
  );
  const words = Array.from({ length: 120 }, (_, at) => (at === 5 ? "broken" : at === 60 ? "slowly" : `word-${at}`));
  mkdirSync(join(dir, "tables"), { recursive: true });
  writeFileSync(join(dir, "tables/words.csv"), `word\n${words.join("\n")}\n`);
}

let stage: Stage;
const children: ChildProcess[] = [];

function command(...words: string[]): ChildProcess {
  const { dir, home } = stage.place;
  const child = spawn(BINARY, words, {
    cwd: dir,
    env: { PATH: process.env["PATH"], HOME: home, LLM_DO_HOME: home },
    stdio: "ignore",
  });
  children.push(child);
  return child;
}
const isOver = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;
const ended = (child: ChildProcess): Promise<unknown> =>
  new Promise((resolve) => (isOver(child) ? resolve(undefined) : child.on("exit", resolve)));

beforeAll(async () => {
  stage = await Stage.open(["--edit"], results);
}, 60_000);
afterAll(async () => {
  for (const child of children) child.kill("SIGKILL");
  await stage.close();
});

// Before: not possible in the app. The terminal's output, and a file of JSON.
test("the cases of a running test are shown as they end, with what was expected and what came, in 1 click", async () => {
  const page = await stage.page();
  const testing = command("test");
  const clicks = new Clicks();
  await clicks.on(page.getByRole("link", { name: "Tests" }));
  await page.getByText("greets-politely").waitFor({ timeout: 30_000 });
  const of = (name: string) => page.locator("details.case", { hasText: name });
  await of("greets-politely").getByText("0 of 3").waitFor({ timeout: 30_000 });
  await of("three-pears").getByRole("row", { name: /total 1\.5 2/ }).waitFor({ timeout: 30_000 });
  expect(await of("three-pears").getByRole("row", { name: /note/ }).count()).toBe(0);
  await page.getByRole("region", { name: "Result" }).locator("[data-state=running]").waitFor();
  expect(clicks.count).toBe(1);
  testing.kill("SIGINT");
  await page.getByText("Not all cases ran, because it was interrupted").waitFor({ timeout: 30_000 });
  await page.getByRole("button", { name: "Only failed" }).click();
  await expect.poll(() => page.locator("details.case").count()).toBe(2);
  expect(await axe(page)).toEqual([]);
  await ended(testing);
  await page.context().close();
}, 90_000);

// Before: not possible in the app. `llm-do runs show ROW OUTPUTS` in a terminal.
test("the rows of a running map are shown as they end, a failed one in 2 clicks and its run in 3", async () => {
  const page = await stage.page();
  const mapping = command("map", "teller", "tables/words.csv", "-o", "tables/told.jsonl", "--max-cost", "unlimited");
  const clicks = new Clicks();
  await clicks.on(page.getByRole("link", { name: "Maps" }));
  const rows = page.getByRole("list", { name: "Rows" });
  await page.getByRole("progressbar", { name: "Rows that have ended" }).and(page.locator("[aria-valuenow='119']")).waitFor({ timeout: 30_000 });
  expect(await rows.getByRole("listitem").count()).toBe(50);
  await clicks.on(page.getByRole("link", { name: "1 failed" }));
  await expect.poll(() => rows.getByRole("listitem").count()).toBe(1);
  await clicks.on(rows.getByRole("link"));
  await page.getByRole("heading", { name: "teller", level: 1 }).waitFor();
  await page.locator("header [data-state=failed]").first().waitFor();
  await page.getByText("no such word").first().waitFor();
  expect(clicks.count).toBe(3);
  expect(await axe(page)).toEqual([]);
  await page.getByRole("link", { name: "All rows" }).click();
  await page.getByRole("link", { name: "1 running" }).click();
  await expect.poll(() => rows.getByRole("listitem").count()).toBe(1);
  await rows.getByRole("link").click();
  await page.locator("header [data-state=running]").first().waitFor();
  mapping.kill("SIGKILL");
  await ended(mapping);
  await page.getByRole("link", { name: "All rows" }).click();
  await page.getByText("The same command again runs them").waitFor({ timeout: 30_000 });
  expect(await axe(page)).toEqual([]);
  await page.context().close();
}, 90_000);

test("a run of the terminal is in the history while it runs, and can't be cancelled there", async () => {
  const page = await stage.page("#/runs");
  const running = command("--project", ".", "--entry", "slow", "-m", "Think of the terminal.");
  const row = page.getByRole("list", { name: "Runs" }).getByRole("link", { name: /Think of the terminal/ });
  await row.waitFor({ timeout: 30_000 });
  await row.click();
  await page.getByText("from a terminal").waitFor();
  await page.locator("header [data-state=running]").first().waitFor();
  expect(await page.getByRole("button", { name: "Cancel the run" }).count()).toBe(0);
  running.kill("SIGKILL");
  await ended(running);
  await page.context().close();
}, 60_000);

test.each(["light", "dark"] as const)("tests and maps in %s fit every width", async (colorScheme) => {
  const page = await stage.page("#/", { colorScheme });
  for (const [name, to, until] of [
    ["tests", "#/tests/desk", "three-pears"],
    ["maps", "#/maps/desk", "word"],
  ] as const) {
    await page.goto(`${stage.address}/${to}`);
    await page.getByText(until).first().waitFor();
    for (const width of [390, 1280, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), `${name} ${width}`).toBe(0);
      await page.screenshot({ path: join(OUTPUT, `${name}-${colorScheme}-${width}.png`), fullPage: true });
    }
    expect(await axe(page), name).toEqual([]);
  }
  await page.context().close();
});
