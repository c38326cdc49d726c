/** Triggers in the app, and further attempts at requests. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import type { Place } from "./program";
import { Stage, startChat } from "./stage";

const SECRET = "a secret that no page may show";

/** A trigger of each kind. One of them starts a run that never ends, and skips its further slots. */
function triggers({ dir, home }: Place): void {
  mkdirSync(join(home, "letters"), { recursive: true });
  writeFileSync(join(home, "secret"), SECRET);
  const settings = [
    "triggers:",
    '  - {name: nightly, cron: {at: "0 3 * * *", time_zone: Europe/Berlin}, worker: greeter, input: {name: Ada}}',
    '  - {name: busy, cron: {at: "* * * * * *"}, worker: slow, message: Think., concurrency: skip}',
    `  - {name: issues, webhook: {signature: github, secret: {file: ${JSON.stringify(join(home, "secret"))}}}, worker: greeter, from: {name: /body/name}}`,
    `  - {name: letters, folder: {path: ${JSON.stringify(join(home, "letters"))}, settle_s: 0}, worker: greeter, from: {name: /name}}`,
    "",
  ];
  writeFileSync(join(home, "serve.yaml"), settings.join("\n"));
  const failing = "answers:\n  - {times: 2, error: {status: 429, message: too many requests, retry_after_ms: 4000}}\n  - text: At last.\n";
  writeFileSync(join(dir, "scripts/patient.yaml"), failing);
  writeFileSync(join(dir, "workers/patient.worker"), "---\ndescription: Waits.\nmodel: script:scripts/patient.yaml\n---\nWait.\n");
  writeFileSync(join(dir, "scripts/chat.yaml"), failing.replace("4000", "2500"));
  const project = join(dir, "project.yaml");
  writeFileSync(project, readFileSync(project, "utf8").replace("exports: [", "exports: [patient, "));
}

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open(["--edit"], triggers)), 60_000);
afterAll(() => stage.close());

test("triggers are shown with their next slot, last run and problem, and without their secrets", async () => {
  const page = await stage.page();
  await page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: "Triggers", exact: true }).click();
  const list = page.getByRole("list", { name: "Triggers", exact: true });
  const of = (name: string) => list.getByRole("listitem").filter({ has: page.getByRole("heading", { name, exact: true }) });
  await of("nightly").locator("time").waitFor();
  await of("busy").getByText("1 under way", { exact: true }).waitFor({ timeout: 40_000 });
  await of("busy").getByText("skipped: an earlier run is under way", { exact: true }).waitFor({ timeout: 40_000 });
  await of("letters").getByText("none", { exact: true }).waitFor();
  writeFileSync(join(stage.place.home, "letters/Bob"), "A letter.");
  await of("letters").locator("[data-state=done]").waitFor({ timeout: 40_000 });
  expect(await page.content()).not.toContain(SECRET);
  expect(await page.content()).not.toContain(join(stage.place.home, "secret"));
  for (const [width, colorScheme] of [[390, "light"], [1280, "dark"], [1920, "light"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), String(width)).toBe(0);
    await page.screenshot({ path: join(OUTPUT, `triggers-${colorScheme}-${width}.png`), fullPage: true });
    expect(await axe(page)).toEqual([]);
  }
  await of("letters").getByRole("link", { name: "of letters" }).click();
  await page.getByText(/Hello, .*Bob/).first().waitFor();
  await page.context().close();
}, 150_000);

const line = /retry 1 of 4 in (\d+) s: .*too many requests/;

test("a run counts the seconds until a request is repeated, and the answer replaces the line", async () => {
  const page = await stage.page("#/start/desk/patient");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  const retry = page.getByText(line);
  await retry.waitFor();
  const left = async (): Promise<number> => Number(line.exec((await retry.textContent()) ?? "")?.[1] ?? Number.NaN);
  const first = await left();
  expect(first).toBeGreaterThan(0);
  await expect.poll(left, { timeout: 4000 }).toBeLessThan(first);
  await page.screenshot({ path: join(OUTPUT, "retry-1280.png") });
  expect(await axe(page)).toEqual([]);
  await page.getByText(/retry 2 of 4/).waitFor({ timeout: 15_000 });
  expect(await page.getByText(/retry \d of/).count()).toBe(1);
  // A reader who comes in the middle sees it too.
  await page.reload();
  await page.getByText(/retry 2 of 4/).waitFor();
  await page.getByText("At last.").first().waitFor({ timeout: 20_000 });
  expect(await page.getByText(/retry \d of/).count()).toBe(0);
  await page.context().close();
}, 90_000);

test("a chat has one line for all attempts", async () => {
  const page = await stage.page();
  await startChat(page, "Hello.");
  await page.getByText(/retry 1 of 4/).waitFor();
  await page.getByText(/retry 2 of 4/).waitFor({ timeout: 15_000 });
  await page.screenshot({ path: join(OUTPUT, "retry-chat-1280.png") });
  await page.getByText("At last.").first().waitFor({ timeout: 20_000 });
  expect(await page.getByText(/retry \d of|Request failed/).count()).toBe(0);
  await page.context().close();
}, 60_000);
