/**
 * Times that matter to a reader. Printed, kept for `bench/web` (`web/test-output/measured.json`), and checked against their
 * limits where the machine is quiet.
 */

import { writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { exported } from "./export-page";
import { open, OUTPUT } from "./browser";
import { median } from "./figures";
import { writeJournal } from "./journals";
import { Stage } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
/** Milliseconds, by what they measure. */
const measured: Record<string, number | number[]> = {};
afterAll(async () => {
  writeFileSync(join(OUTPUT, "measured.json"), `${JSON.stringify(measured, null, 1)}\n`);
  await stage.close();
});

/** Other work on the machine makes times longer. Limits are for a quiet one. */
const slack = (): number => Math.max(1, (loadavg()[0] ?? 0) / 2) * 2;
const say = (text: string): void => void process.stdout.write(`measured: ${text} (load ${(loadavg()[0] ?? 0).toFixed(1)})\n`);

test("the first page is there soon", async () => {
  const times: (number | null)[] = [];
  for (let i = 0; i < 7; i++) {
    const page = await stage.page();
    await page.goto("about:blank");
    await page.goto(stage.address);
    await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
    // The browser reports a paint some frames after it.
    const painted = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
    times.push((await painted.jsonValue()) ?? null);
    await page.context().close();
  }
  const navigation = median(times);
  measured["navigation"] = times.filter((time) => time !== null);
  say(`navigation to first contentful paint: ${navigation.text}`);
  expect(navigation.median).toBeLessThan(200 * slack());
});

test("candidates are there soon after a key", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fwriter.worker");
  const editor = page.getByRole("textbox", { name: "workers/writer.worker" });
  await editor.getByText("Writes a note to a file.").waitFor();
  await page.getByText("No findings", { exact: true }).waitFor();
  await editor.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.keyboard.press("ArrowUp");
  const times: number[] = [];
  for (let i = 0; i < 9; i++) {
    const began = performance.now();
    await page.keyboard.press("Control+Space");
    await page.getByRole("listbox", { name: "Completions" }).waitFor();
    times.push(performance.now() - began);
    await page.keyboard.press("Escape");
    await page.getByRole("listbox", { name: "Completions" }).waitFor({ state: "detached" });
  }
  const completion = median(times);
  measured["completion"] = times;
  say(`key to list of candidates: ${completion.text}`);
  expect(completion.median).toBeLessThan(100 * slack());
  await page.context().close();
});

/** Records of a run with that many calls in a tree of three levels. */
function manyCalls(calls: number): string[] {
  const lines: string[] = [];
  let at = 1_800_000_000_000;
  const push = (path: string, step: string, kind: string, fields: object): void => {
    lines.push(JSON.stringify({ seq: lines.length, at_ms: (at += 3), path, step, kind, ...fields }));
  };
  const begin = (path: string, name: string, source: unknown, input: object): void => {
    push(path, "call", "call_started", { function: name, source, principal: { worker: "main" }, input });
    push(path, "verdict", "verdict", { rule: "preApproved", by: { default: "read" } });
  };
  push("0", "run", "run_started", { format: 2, run: "20260101-000000-0000", version: "0", target: "large", entry: "main", approval: "auto_deny", date: "2026-01-01", definitions: [] });
  begin("0", "main", "program", { input: "Go." });
  const each = 99;
  let made = 1;
  for (let turn = 0; made < calls; turn++) {
    const worker = `0/${turn}.0`;
    begin(worker, `reader_${turn}`, "program", { folder: `folder ${turn}` });
    made++;
    for (let i = 0; i < each && made < calls; i++, made++) {
      const path = `${worker}/0.${i}`;
      begin(path, "read_file", { toolset: "filesystem" }, { path: `folder ${turn}/file ${i}.txt` });
      push(path, "tool", "tool_started", { function: "read_file", risk: "read", idempotency_key: path });
      push(path, "tool", "tool_ended", { ending: { output: `The content of file ${i}, which says that all is well.` } });
    }
    push(worker, "model.0.0", "model_answered", { message: { id: 1, role: "assistant", parts: [] }, finish: "stop", usage: { input_tokens: 1200, output_tokens: 40, cost_usd: 0.001 } });
    push(worker, "end", "call_ended", { ending: { output: "read" }, usage: {} });
  }
  push("0", "end", "call_ended", { ending: { output: "all read" }, usage: {} });
  push("0", "run", "run_ended", { status: "done", ending: { output: "all read" }, usage: {} });
  return lines;
}

/** Scrolls through the tree, and returns the long tasks of that time and the slowest frame. */
async function scroll(page: Page): Promise<{ long: number; slowest: number }> {
  return page.evaluate(async () => {
    let long = 0;
    const observer = new PerformanceObserver((list) => (long += list.getEntries().length));
    observer.observe({ entryTypes: ["longtask"] });
    const tree = document.querySelector<HTMLElement>("[role=tree]");
    if (tree === null) throw new Error("no tree");
    let slowest = 0;
    let before = performance.now();
    const most = tree.scrollHeight - tree.clientHeight;
    for (let step = 1; step <= 120; step++) {
      tree.scrollTop = (most * step) / 120;
      await new Promise((resolve) => requestAnimationFrame(resolve));
      const now = performance.now();
      slowest = Math.max(slowest, now - before);
      before = now;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
    observer.disconnect();
    return { long, slowest };
  });
}

test("a run of 20,000 calls can be used from a file", async () => {
  const context = await stage.browser.newContext({ viewport: { width: 1280, height: 800 } });
  const { page, faults } = await open(context, "file:");
  const url = exported(manyCalls(20_000), "export-20000.html");
  const began = performance.now();
  await page.goto(url);
  await page.getByText("20000 of 20000").waitFor({ timeout: 60_000 });
  const shown = performance.now() - began;
  const { long, slowest } = await scroll(page);
  await page.getByRole("searchbox").fill("reader_150");
  await page.getByRole("treeitem", { name: /reader_150/ }).first().click();
  await page.getByRole("heading", { name: "reader_150" }).waitFor();
  Object.assign(measured, { file_shown: shown, file_frame: slowest });
  say(`20,000 calls from a file: shown after ${Math.round(shown)} ms; scrolling through all: ${long} long tasks, slowest frame ${Math.round(slowest)} ms`);
  expect(shown).toBeLessThan(4000 * slack());
  expect(slowest).toBeLessThan(150 * slack());
  expect(faults).toEqual([]);
  await context.close();
}, 180_000);

test("a run of 20,000 calls can be used from the server", async () => {
  // A run that the server has never seen, but that a client of it has started, as its first record says.
  const id = "20260101-000000-0000";
  const lines = manyCalls(20_000);
  const [first = {}, ...rest] = lines.map((line) => JSON.parse(line) as object);
  const start = { ...first, invocation: { client: { name: "operator", program: "desk" } } };
  writeJournal(stage.place.home, join(stage.place.dir, ".llm-do/runs"), id, [start, ...rest]);
  const page = await stage.page();
  const began = performance.now();
  await page.goto(`${stage.address}/#/runs/${id}`);
  await page.getByText("20000 of 20000").waitFor({ timeout: 60_000 });
  const shown = performance.now() - began;
  const { long, slowest } = await scroll(page);
  await page.getByRole("searchbox").fill("reader_150");
  await page.getByRole("treeitem", { name: /reader_150/ }).first().click();
  await page.getByRole("heading", { name: "reader_150" }).waitFor();
  Object.assign(measured, { server_shown: shown, server_frame: slowest });
  say(`20,000 calls from the server: shown after ${Math.round(shown)} ms; scrolling through all: ${long} long tasks, slowest frame ${Math.round(slowest)} ms`);
  expect(shown).toBeLessThan(8000 * slack());
  expect(slowest).toBeLessThan(150 * slack());
  await page.context().close();
}, 180_000);

test("a run of 5,000 calls is shown and answers clicks", async () => {
  const id = "20260101-000001-0000";
  const [first = {}, ...rest] = manyCalls(5000).map((line) => JSON.parse(line) as object);
  const start = { ...first, run: id, invocation: { client: { name: "operator", program: "desk" } } };
  writeJournal(stage.place.home, join(stage.place.dir, ".llm-do/runs"), id, [start, ...rest]);
  const page = await stage.page();
  const began = performance.now();
  await page.goto(`${stage.address}/#/runs/${id}`);
  await page.getByRole("treeitem").nth(5).waitFor({ timeout: 60_000 });
  const shown = performance.now() - began;
  await page.getByText("5000 of 5000").waitFor({ timeout: 60_000 });
  const whole = performance.now() - began;
  const clicked: number[] = [];
  for (const at of [3, 6, 9, 12, 15]) {
    const row = page.getByRole("treeitem").nth(at);
    clicked.push(
      await row.evaluate(async (element) => {
        const began = performance.now();
        const before = document.querySelector("[aria-label='The selected call'] header")?.textContent;
        (element as HTMLElement).click();
        while (document.querySelector("[aria-label='The selected call'] header")?.textContent === before) {
          if (performance.now() - began > 5000) return Number.NaN;
          await new Promise((resolve) => requestAnimationFrame(resolve));
        }
        return performance.now() - began;
      }),
    );
  }
  expect(clicked.every(Number.isFinite), String(clicked)).toBe(true);
  Object.assign(measured, { view_5000: shown, whole_5000: whole, clicks_5000: clicked });
  say(`5,000 calls from the server: first view after ${Math.round(shown)} ms, all calls after ${Math.round(whole)} ms; a click shows its call after ${clicked.map(Math.round).join(", ")} ms`);
  expect(shown).toBeLessThan(1000 * slack());
  expect(Math.max(...clicked)).toBeLessThan(100 * slack());
  await page.context().close();
}, 120_000);

/** Writes that many runs that are over, which clients of the server have started. The newest is the last. */
function manyRuns(home: string, dir: string, count: number): void {
  for (let number = 0; number < count; number++) {
    const clock = [Math.floor(number / 3600) % 24, Math.floor(number / 60) % 60, number % 60];
    const id = `202601${String(2 + Math.floor(number / 86_400)).padStart(2, "0")}-${clock.map((part) => String(part).padStart(2, "0")).join("")}-${number.toString(16).padStart(4, "0")}`;
    const at_ms = 1_767_000_000_000 + number * 1000;
    const start = { seq: 0, at_ms, path: "0", step: "run", kind: "run_started", format: 2, run: id, version: "0", target: ".", entry: "greeter", approval: "auto_deny", date: "2026-01-02", definitions: [], invocation: { client: { name: "operator", program: "desk" }, input: { json: { name: `visitor ${number}` } } } };
    const end = { seq: 1, at_ms: at_ms + 40, path: "0", step: "run", kind: "run_ended", status: number % 10 === 0 ? "failed" : "done", ending: number % 10 === 0 ? { failure: { kind: "tool", message: "it broke" } } : { output: `Hello, visitor ${number}!` }, usage: { input_tokens: 12, output_tokens: 4 } };
    writeJournal(home, dir, id, [start, end]);
  }
}

test("a list of 10,000 runs is there soon, goes on, and is searched", async () => {
  manyRuns(stage.place.home, join(stage.place.dir, ".llm-do/runs"), 10_000);
  const page = await stage.page();
  const list = page.getByRole("list", { name: "Runs", exact: true });
  const took = async (act: () => Promise<unknown>): Promise<number> => {
    const began = performance.now();
    await act();
    return Math.round(performance.now() - began);
  };
  const first = await took(async () => {
    await page.goto(`${stage.address}/#/runs`);
    await list.getByText("visitor 9999", { exact: true }).waitFor();
  });
  const shown = await list.getByRole("link").count();
  const more = await took(async () => {
    await page.getByRole("button", { name: "Earlier runs" }).click();
    await expect.poll(() => list.getByRole("link").count()).toBeGreaterThan(shown);
  });
  const failed = await took(async () => {
    await page.getByRole("combobox", { name: "State" }).selectOption("failed,limit,refused,changed");
    await expect.poll(() => list.getByText("visitor 9999", { exact: true }).count()).toBe(0);
    await list.getByText("visitor 9990", { exact: true }).waitFor();
  });
  await page.getByRole("combobox", { name: "State" }).selectOption("");
  const found = await took(async () => {
    await page.getByRole("searchbox").fill("visitor 4321");
    await list.getByText("visitor 4321", { exact: true }).waitFor({ timeout: 60_000 });
  });
  await stage.kill();
  const restarted = await took(() => stage.again());
  Object.assign(measured, { list_first: first, list_next: more, list_state: failed, list_search: found, list_restart: restarted });
  say(`a list of 10,000 runs: first page ${first} ms, next page ${more} ms, a state ${failed} ms, a search of all ${found} ms; the server starts in ${restarted} ms`);
  expect(first).toBeLessThan(1000 * slack());
  expect(more).toBeLessThan(1000 * slack());
  expect(failed).toBeLessThan(2000 * slack());
  expect(restarted).toBeLessThan(5000 * slack());
  await page.context().close();
}, 180_000);
