/** The newer pages without a mouse, with a finger, and for readers of assistive technology. */

import { mkdirSync, writeFileSync } from "node:fs";
import { createServer, type Server as HttpServer } from "node:http";
import type { AddressInfo } from "node:net";
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, open, OUTPUT } from "./browser";
import { writeJournal } from "./journals";
import type { Place } from "./program";
import { BINARY } from "./server";
import { Stage } from "./stage";

const CASES = "cases:\n- name: greets\n  input: {name: Ada}\n  expect: {output: {matches: Ada}}\n- name: fails\n  input: {name: Bob}\n  expect: {output: {matches: Dear}}\n";

/** The links of messages that the server has sent. */
const links: string[] = [];
let hook: HttpServer;
let stage: Stage;
const runs: string[] = [];

function prepare({ dir, home }: Place): void {
  mkdirSync(home, { recursive: true });
  writeFileSync(join(dir, "workers/greeter.cases.yaml"), CASES);
  mkdirSync(join(dir, "tables"), { recursive: true });
  writeFileSync(join(dir, "tables/names.csv"), "name\nAda\nBob\nCleo\n");
  writeFileSync(join(home, "hook"), `http://127.0.0.1:${(hook.address() as AddressInfo).port}/`);
  writeFileSync(join(home, "secret"), "a secret of this test");
  const at = (name: string): string => `{file: ${JSON.stringify(join(home, name))}}`;
  const settings = [
    "notify:",
    `  to: [{name: hook, when: [waiting], webhook: {url: ${at("hook")}, secret: ${at("secret")}}}]`,
    'triggers: [{name: nightly, cron: {at: "0 3 * * *"}, worker: greeter, input: {name: Ada}}]',
    "",
  ];
  writeFileSync(join(home, "serve.yaml"), settings.join("\n"));
}

function command(...words: string[]): void {
  const { dir, home } = stage.place;
  spawnSync(BINARY, words, { cwd: dir, env: { PATH: process.env["PATH"], HOME: home, LLM_DO_HOME: home } });
}

async function start(page: Page, worker: string, input: object): Promise<string> {
  const started = await page.request.post(`${stage.server.address}/v1/runs?wait=50`, {
    headers: { Authorization: `Bearer ${stage.server.token}` },
    data: { program: "desk", worker, ...input },
  });
  return ((await started.json()) as { run: string }).run;
}

beforeAll(async () => {
  hook = createServer((request, response) => {
    let body = "";
    request.on("data", (piece: Buffer) => (body += piece.toString()));
    request.on("end", () => {
      for (const [link] of body.matchAll(/http:\/\/[^"\s]*\/answer\/[^"\s]*/g)) links.push(link);
      response.end();
    });
  });
  await new Promise<void>((resolve) => hook.listen(0, "127.0.0.1", resolve));
  stage = await Stage.open(["--edit"], prepare);
  command("test");
  command("map", "greeter", "tables/names.csv", "-o", "tables/greeted.jsonl", "--max-cost", "unlimited");
  const page = await stage.page();
  for (const name of ["Ada", "Bob"]) runs.push(await start(page, "greeter", { input: { name } }));
  await page.context().close();
}, 120_000);
afterAll(async () => {
  await stage.close();
  hook.close();
});

/** Moves the focus forward until it is there, as a person without a mouse does, and checks that it can be seen. */
async function tabTo(page: Page, to: Locator, most = 120): Promise<void> {
  await to.waitFor();
  for (let pressed = 0; pressed < most; pressed++) {
    await page.keyboard.press("Tab");
    // A focus in the editor of code is left as the help says.
    if (await page.evaluate(() => document.activeElement?.closest(".cm-editor") !== null)) await page.keyboard.press("Escape");
    if (await to.evaluate((element) => element === document.activeElement)) {
      expect(await to.evaluate((element) => element.matches(":focus-visible"))).toBe(true);
      return;
    }
  }
  throw new Error(`the focus does not reach ${String(to)}`);
}

async function go(page: Page, keys: string): Promise<void> {
  await page.locator("main").focus();
  for (const key of keys) await page.keyboard.press(key);
}

test("triggers, costs, a run and its comparison are reached and used without a mouse", async () => {
  const page = await stage.page();
  await go(page, "gt");
  await page.getByRole("heading", { name: "nightly", exact: true }).waitFor();
  await tabTo(page, page.getByRole("link", { name: "trigger:nightly", exact: true }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Runs", exact: true }).waitFor();

  await go(page, "gc");
  await page.getByRole("region", { name: "By worker", exact: true }).waitFor();
  await tabTo(page, page.getByRole("combobox", { name: "Time", exact: true }));
  await page.keyboard.press("ArrowUp");
  await page.waitForURL(/days=7/);
  await tabTo(page, page.getByRole("region", { name: "By worker, lines", exact: true }));
  expect(await axe(page)).toEqual([]);

  await page.goto(`${stage.address}/#/runs/${runs[1]}`);
  await tabTo(page, page.getByRole("link", { name: "Compare", exact: true }).first());
  await page.keyboard.press("Enter");
  const input = page.getByRole("region", { name: "Input by field", exact: true });
  await input.getByText("Ada").waitFor();
  await tabTo(page, page.locator("label", { hasText: "Run B" }).locator("select, input").first());
  expect(await axe(page)).toEqual([]);
  await page.context().close();
}, 90_000);

test("the playground is used without a mouse", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fgreeter.worker");
  const playground = page.getByRole("region", { name: "Playground", exact: true });
  await tabTo(page, playground.getByRole("textbox", { name: "name", exact: true }));
  await page.keyboard.type("Eve");
  await playground.getByText("Greet Eve.").waitFor();
  await tabTo(page, playground.getByRole("button", { name: "Run", exact: true }));
  await page.keyboard.press("Enter");
  await playground.locator("[data-state=done]").waitFor({ timeout: 20_000 });
  expect(await axe(page)).toEqual([]);
  await page.context().close();
}, 60_000);

test("tests and maps are reached and used without a mouse", async () => {
  const page = await stage.page();
  await tabTo(page, page.getByRole("link", { name: "Tests", exact: true }));
  await page.keyboard.press("Enter");
  const cases = page.locator("details.case");
  await cases.first().waitFor();
  await tabTo(page, page.getByRole("button", { name: "Only failed", exact: true }));
  await page.keyboard.press("Enter");
  await expect.poll(() => cases.count()).toBe(1);
  const summary = cases.locator("summary").first();
  const isOpen = (): Promise<boolean> => cases.first().evaluate((element) => (element as HTMLDetailsElement).open);
  const before = await isOpen();
  await tabTo(page, summary);
  await page.keyboard.press("Enter");
  expect(await isOpen()).toBe(!before);
  expect(await axe(page)).toEqual([]);

  await go(page, "gp");
  await tabTo(page, page.getByRole("link", { name: "Maps", exact: true }));
  await page.keyboard.press("Enter");
  const rows = page.getByRole("list", { name: "Rows", exact: true });
  await tabTo(page, rows.getByRole("link").first());
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "greeter", level: 1 }).waitFor();
  expect(await axe(page)).toEqual([]);
  await page.context().close();
}, 90_000);

test("a link of a message is answered without a mouse, and its page fits a phone", async () => {
  const page = await stage.page();
  const run = await start(page, "writer", { message: "Write it down." });
  await page.context().close();
  await expect.poll(() => links.length, { timeout: 20_000 }).toBeGreaterThan(0);
  const context = await stage.browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true });
  const { page: answer, faults } = await open(context, stage.server.address);
  await answer.goto(links.at(-1) ?? "");
  await answer.getByRole("heading", { name: "A run asks", exact: true }).waitFor();
  expect(await axe(answer)).toEqual([]);
  expect(await small(answer)).toEqual([]);
  expect(await answer.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
  await answer.screenshot({ path: join(OUTPUT, "answer-phone.png"), fullPage: true });
  await tabTo(answer, answer.getByRole("button", { name: "Approve", exact: true }));
  await answer.keyboard.press("Enter");
  await answer.getByText(/answer/i).first().waitFor();
  const done = await answer.request.get(`${stage.server.address}/v1/runs/${run}?wait=30`, { headers: { Authorization: `Bearer ${stage.server.token}` } });
  expect(((await done.json()) as { state: string }).state).toBe("done");
  expect(faults).toEqual([]);
  await context.close();
}, 90_000);

/** The targets of a finger that are lower than 44 px. Links within a text are none. */
async function small(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const targets = document.querySelectorAll<HTMLElement>("button, a.button, select, summary, textarea, input:not([type=checkbox], [type=radio], [type=file], [type=hidden]), nav a, li > a");
    const low = [...targets].filter((target) => {
      const box = target.getBoundingClientRect();
      const style = getComputedStyle(target);
      const isShown = box.width > 1 && box.height > 1 && style.visibility !== "hidden" && target.closest("[inert], .hidden-visually, .cm-editor") === null;
      return isShown && box.height < 43.5;
    });
    return low.map((target) => `${target.tagName} ${(target.getAttribute("aria-label") ?? target.textContent ?? "").trim().slice(0, 40)}: ${Math.round(target.getBoundingClientRect().height)} px`);
  });
}

test("targets have 44 px on a phone", async () => {
  const page = await stage.page("#/", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  const found: string[] = [];
  for (const [name, to, until] of [
    ["home", "#/", "Last runs"],
    ["runs", "#/runs", "Began"],
    ["run", `#/runs/${runs[0]}`, "greeter"],
    ["compare", `#/compare?${new URLSearchParams({ a: runs[1] ?? "", b: runs[0] ?? "" })}`, "Prompt"],
    ["costs", "#/costs", "By worker"],
    ["triggers", "#/triggers", "nightly"],
    ["tests", "#/tests/desk", "greets"],
    ["maps", "#/maps/desk", "Ada"],
    ["program", "#/programs/desk/workers%2Fgreeter.worker", "Playground"],
    ["inbox", "#/inbox", "Inbox"],
  ] as const) {
    await page.goto("about:blank");
    await page.goto(`${stage.address}/${to}`);
    await page.getByText(until).first().waitFor();
    found.push(...(await small(page)).map((one) => `${name}: ${one}`));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (wide > 0) found.push(`${name}: ${wide} px wider than the page`);
    const cut = await page.locator("th, td").evaluateAll((cells) => cells.filter((cell) => cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.textContent));
    found.push(...cut.map((text) => `${name}: a cell is narrower than its text: ${text.trim().slice(0, 40)}`));
    // A screenshot of the whole page would be one of a page for a mouse.
    await page.screenshot({ path: join(OUTPUT, `phone-${name}.png`) });
    for (const finding of await axe(page)) found.push(`${name}: ${finding}`);
  }
  expect(found).toEqual([]);
  await page.context().close();
}, 120_000);

test("runs stand below the days on which they began, in the order of time alone", async () => {
  const of = (id: string, at_ms: number, name: string): void => {
    const start = { seq: 0, at_ms, path: "0", step: "run", kind: "run_started", format: 2, run: id, version: "0", target: ".", entry: "greeter", approval: "auto_deny", date: "2026-01-02", definitions: [], invocation: { client: { name: "operator", program: "desk" }, input: { json: { name } } } };
    const end = { seq: 1, at_ms: at_ms + 40, path: "0", step: "run", kind: "run_ended", status: "done", ending: { output: "Hello!" }, usage: {} };
    writeJournal(stage.place.home, join(stage.place.dir, ".llm-do/runs"), id, [start, end]);
  };
  of("20240314-120000-0001", Date.UTC(2024, 2, 14, 12), "old-one");
  of("20240314-130000-0002", Date.UTC(2024, 2, 14, 13), "old-two");
  of("20240315-120000-0003", Date.UTC(2024, 2, 15, 12), "old-three");
  const page = await stage.page("#/runs");
  const list = page.getByRole("list", { name: "Runs", exact: true });
  await list.getByText("old-one").waitFor();
  const days = (): Promise<string[]> => list.locator(".day").allTextContents();
  const shown = await days();
  expect(shown[0]).toBe("Today");
  expect(shown.slice(1)).toEqual([expect.stringMatching(/March 15, 2024|15 March 2024/), expect.stringMatching(/March 14, 2024|14 March 2024/)]);
  // One heading for the runs of a day.
  expect(await list.getByRole("listitem").filter({ hasText: "old-two" }).locator(".day").count()).toBe(1);
  expect(await list.getByRole("listitem").filter({ hasText: "old-one" }).locator(".day").count()).toBe(0);
  await tabTo(page, page.getByRole("button", { name: "Worker" }));
  await page.keyboard.press("Enter");
  await expect.poll(days).toEqual([]);
  await page.context().close();
}, 60_000);
