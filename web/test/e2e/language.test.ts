import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe } from "./browser";
import { Stage } from "./stage";

const BOSS = "workers/boss.worker";
let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open(["--edit"], (at) =>
    writeFileSync(
      join(at.dir, BOSS),
      "---\ndescription: \u{1F600} Delegates.\nallow_workers: [greeter]\nparameters: {mood: string}\nsandbox: {readonly: yes}\n---\nBe {{ mood }}.\n",
    ),
  );
});
afterAll(() => stage.close());

/** The editor of a worker, with its text. */
async function edited(page: Page, path: string): Promise<() => Promise<string>> {
  const editor = page.getByRole("textbox", { name: path });
  await editor.waitFor();
  return async () => (await editor.locator(".cm-line").allInnerTexts()).join("\n");
}
/** Puts the cursor behind a text. */
async function behind(page: Page, path: string, line: number, column: number): Promise<void> {
  await page.getByRole("textbox", { name: path }).click();
  await page.keyboard.press("Control+Home");
  for (let n = 1; n < line; n++) await page.keyboard.press("ArrowDown");
  for (let n = 0; n < column; n++) await page.keyboard.press("ArrowRight");
}
const open = (path = BOSS): Promise<Page> => stage.page(`#/programs/desk/${encodeURIComponent(path)}`);

test("keys, workers and variables are completed as one types", async () => {
  const page = await open();
  const text = await edited(page, BOSS);
  await page.getByText("1 error", { exact: false }).first().waitFor();
  await behind(page, BOSS, 1, 3);
  await page.keyboard.press("Enter");
  await page.keyboard.type("max_co");
  const list = page.getByRole("listbox", { name: "Completions" });
  await list.getByRole("option").first().waitFor();
  const first = (await list.getByRole("option").first().innerText()).trim();
  // The description of the key stands beside it.
  await page.locator(".cm-completionInfo .markdown").waitFor();
  expect(await axe(page)).toEqual([]);
  await page.keyboard.press("Enter");
  expect(await text()).toContain(`\n${first}: \n`);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Control+Shift+k");

  await behind(page, BOSS, 3, "allow_workers: [greeter".length);
  await page.keyboard.type(", wri");
  await list.getByRole("option", { name: "writer" }).click();
  expect(await text()).toContain("allow_workers: [greeter, writer]");

  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("Stay {{ mo }}.");
  for (let n = 0; n < " }}.".length; n++) await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Control+Space");
  await list.getByRole("option", { name: "mood" }).click();
  expect(await text()).toContain("Stay {{ mood }}.");
  expect(await stage.read(page, BOSS)).not.toContain("writer");
  await page.context().close();
});

test("a word is explained, and its definition is shown in its file", async () => {
  const page = await open();
  await edited(page, BOSS);
  const worker = page.locator(".cm-line", { hasText: "allow_workers" });
  const place = await worker.evaluate((line) => {
    const range = document.createRange();
    range.selectNodeContents(line);
    const { left, top, width, height } = range.getBoundingClientRect();
    return { left, top, width, height };
  });
  // In the middle of `greeter`.
  const x = place.left + place.width * (19.5 / "allow_workers: [greeter]".length);
  const y = place.top + place.height / 2;
  await page.mouse.move(x, y);
  await page.mouse.move(x + 1, y);
  await page.locator(".cm-tooltip-hover").getByText("greeter(name: string)").waitFor();
  await page.locator(".cm-tooltip-hover").getByText("Greets somebody by name.").waitFor();
  expect(await axe(page)).toEqual([]);

  await page.keyboard.down("Control");
  await page.mouse.click(x, y);
  await page.keyboard.up("Control");
  await page.getByRole("textbox", { name: "workers/greeter.worker" }).waitFor();
  await page.goBack();

  // By keyboard, to a place further down.
  await edited(page, BOSS);
  await behind(page, BOSS, 7, "Be {{ mo".length);
  await page.keyboard.press("F12");
  await page.locator(".cm-activeLine", { hasText: "parameters" }).waitFor();
  await page.keyboard.insertText("_");
  await page.getByText("parameters: {_mood: string}").waitFor();
  await behind(page, BOSS, 7, 1);
  await page.keyboard.press("F12");
  await page.getByText("This word has no definition.").waitFor();
  await page.context().close();
});

test("a fix is made in the editor, beside the finding and at its place", async () => {
  const page = await open();
  const text = await edited(page, BOSS);
  const findings = page.getByRole("list", { name: "Findings" });
  const fix = findings.getByRole("button", { name: /^Fix:/ });
  await fix.waitFor();
  const title = (await fix.innerText()).replace(/^Fix:\s*/, "");
  await fix.click();
  expect(await text()).toContain("\nsandbox: {readonly: true}\n");
  await fix.waitFor({ state: "detached" });
    await page.keyboard.press("Control+z");
  expect(await text()).toContain("\nsandbox: {readonly: yes}\n");
  await fix.waitFor();
  await page.locator(".cm-lintRange-error").hover();
  await page.locator(".cm-tooltip-lint").getByRole("button", { name: title }).click();
  expect(await text()).toContain("\nsandbox: {readonly: true}\n");
  expect(await stage.read(page, BOSS)).toContain("readonly: yes");
  await page.context().close();
});
