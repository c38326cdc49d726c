/** Changing a prompt: the prompt as one types, a run beside the editor, a new file, and a call's definition. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import { Clicks } from "./clicks";
import { Stage } from "./stage";

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open(["--edit"], ({ dir }) => {
    // A finding in another file, which stands before the open one in the order of the files.
    writeFileSync(join(dir, "workers/alone.worker"), "---\nmodel: script:scripts/plain.yaml\n---\nNobody calls this.\n");
  });
}, 60_000);
afterAll(() => stage.close());

const playground = (page: Page) => page.getByRole("region", { name: "Playground" });
const prompt = (page: Page) => playground(page).getByRole("region", { name: "Prompt" });

// Before: save, go to Programs, Run, fill in, start, open the call, look at its instructions: 6 clicks for each look.
test("a prompt is rendered as one types, also unsaved, with no click, and a change is saved and run in 1", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fgreeter.worker");
  await playground(page).getByRole("textbox", { name: "name" }).fill("Ada");
  await prompt(page).getByText("Greet Ada.").waitFor();
  await page.locator(".cm-content").click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type("Be brief, {{ name }}.");
  await prompt(page).getByText("Be brief, Ada.").waitFor();
  expect(await stage.read(page, "workers/greeter.worker")).not.toContain("Be brief");
  await page.keyboard.type(" {{ nonsense");
  await playground(page).locator("p.error").first().waitFor();
  // The last prompt that could be rendered stays.
  await prompt(page).getByText("Be brief, Ada.").waitFor();
  for (let typed = 0; typed < " {{ nonsense".length; typed++) await page.keyboard.press("Backspace");
  await playground(page).locator("p.error").waitFor({ state: "detached" });
  const clicks = new Clicks();
  await clicks.on(playground(page).getByRole("button", { name: "Save 1 file and run" }));
  await playground(page).locator("[data-state=done]").waitFor({ timeout: 20_000 });
  expect(clicks.count).toBe(1);
  expect(await stage.read(page, "workers/greeter.worker")).toContain("Be brief");
  // Another input: the answers stand beside each other.
  await playground(page).getByRole("textbox", { name: "name" }).fill("Bob");
  await playground(page).getByRole("button", { name: "Run", exact: true }).click();
  await playground(page).getByRole("heading", { name: "Answer" }).waitFor({ timeout: 20_000 });
  expect(await axe(page)).toEqual([]);
  for (const [width, colorScheme] of [[390, "light"], [1280, "dark"], [1920, "light"]] as const) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), String(width)).toBe(0);
    await page.screenshot({ path: join(OUTPUT, `playground-${colorScheme}-${width}.png`), fullPage: true });
  }
  await page.context().close();
}, 90_000);

// Before: not possible in the app.
test("a new file is added in 3 clicks, and findings of the open file come first", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fwriter.worker");
  const clicks = new Clicks();
  await clicks.on(page.getByRole("button", { name: "New file" }));
  await page.getByLabel("Path of the new file").fill("../x.worker");
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Path of the new file").fill("workers/teller.worker");
  await clicks.on(page.getByRole("button", { name: "Add" }));
  await page.locator(".cm-content").getByText("description:").waitFor();
  const findings = page.getByRole("list", { name: "Findings" }).getByRole("listitem");
  await findings.filter({ hasText: "alone.worker" }).waitFor();
  await expect.poll(() => findings.first().textContent()).toContain("teller.worker");
  expect(await axe(page)).toEqual([]);
  await clicks.on(page.getByRole("button", { name: "Save", exact: true }));
  await page.getByText("Saved workers/teller.worker.").waitFor();
  expect(clicks.count).toBe(3);
  expect(await stage.read(page, "workers/teller.worker")).toContain("description:");
  await page.context().close();
}, 60_000);

// Before: find the program, then the file in its list: 3 clicks.
test("from a call to its definition in 1 click", async () => {
  const page = await stage.page();
  const started = await page.request.post(`${stage.server.address}/v1/runs?wait=50`, {
    headers: { Authorization: `Bearer ${stage.server.token}` },
    data: { program: "desk", worker: "greeter", input: { name: "Ada" } },
  });
  const { run } = (await started.json()) as { run: string };
  await page.goto(`${stage.address}/#/runs/${run}`);
  const clicks = new Clicks();
  await clicks.on(page.getByRole("region", { name: "The selected call" }).getByRole("link", { name: "Definition" }));
  await page.locator(".cm-content").getByText("Greet {{ name }}.").waitFor();
  expect(page.url()).toContain("#/programs/desk/workers%2Fgreeter.worker");
  expect(clicks.count).toBe(1);
  await page.context().close();
});
