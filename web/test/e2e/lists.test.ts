/** The list of runs, the files that a run has changed, its output, and the chat on a phone. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import { Clicks } from "./clicks";
import type { Place } from "./program";
import { runOf, Stage, startChat, startWriter } from "./stage";

/** A worker whose model fails. */
function broken({ dir }: Place): void {
  writeFileSync(join(dir, "workers/broken.worker"), "---\ndescription: Fails.\nmodel: script:scripts/broken.yaml\n---\nFail.\n");
  writeFileSync(join(dir, "scripts/broken.yaml"), "answers:\n  - error: {kind: bad_request, message: The model knows no such parameter.}\n");
  const project = join(dir, "project.yaml");
  writeFileSync(project, readFileSync(project, "utf8").replace("exports: [", "exports: [broken, "));
}

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open(["--edit"], broken)));
afterAll(() => stage.close());

// Before: the failed run was opened to read why (1 click a run), and lists were in one order.
test("a list shows failures and programs at every width with no click, and is sorted with one", async () => {
  const page = await stage.page("#/start/desk/broken");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.locator("header [data-state=failed]").first().waitFor();
  await page.goto(`${stage.address}/#/start/desk/greeter`);
  await page.getByRole("textbox", { name: "name" }).fill("Ada");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.goto(`${stage.address}/#/runs`);
  const list = page.getByRole("list", { name: "Runs" });
  await list.getByText("The model knows no such parameter.").waitFor();
  const first = (): Promise<string> => list.getByRole("listitem").first().innerText();
  expect(await first()).toContain("greeter");
  const clicks = new Clicks();
  await clicks.on(page.getByRole("button", { name: "Worker" }));
  expect(await first()).toContain("broken");
  expect(clicks.count).toBe(1);
  for (const width of [390, 1280, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    for (const item of await list.getByRole("listitem").all()) expect(await item.getByText("desk", { exact: true }).isVisible()).toBe(true);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
    await page.screenshot({ path: `${OUTPUT}/runs-list-${width}.png` });
  }
  expect(await axe(page)).toEqual([]);
  await page.context().close();
});

// Before: the approvals were searched for in the tree, one click a call, and an output was selected by hand.
test("the changes of a run are one click away, and its output is copied with one", async () => {
  const page = await stage.page("#/", { permissions: ["clipboard-read", "clipboard-write"] });
  await startWriter(page);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  const about = page.getByRole("region", { name: "The selected call" });
  const clicks = new Clicks();
  await clicks.on(about.getByRole("button", { name: "Copy", exact: true }).last());
  await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).not.toBe("");
  const saved = page.waitForEvent("download");
  await clicks.on(about.getByRole("button", { name: "Save", exact: true }));
  expect((await saved).suggestedFilename()).toBe("writer.md");
  await clicks.on(page.getByRole("navigation", { name: "Views of the run" }).getByRole("link", { name: "Files" }));
  const changes = page.getByRole("region", { name: "Changes of this run" });
  await changes.getByText("second line").waitFor();
  await changes.getByText("1 file, 1 change").waitFor();
  await page.screenshot({ path: `${OUTPUT}/changed-files.png` });
  expect(clicks.count).toBe(3);
  expect(await axe(page)).toEqual([]);
  await page.context().close();
});

// Before: eight buttons stood between the words and the keyboard of a phone, some of them 32 px high.
test("on a phone the composer is at the end of the window, its buttons are folded, and targets have 44 px", async () => {
  const page = await stage.page("#/", { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
  await startChat(page, "Hello, who are you?");
  await page.getByText("You said: Hello").waitFor();
  await runOf(page);
  const composer = page.getByRole("form", { name: "Message" });
  const box = await composer.boundingBox();
  expect((box?.y ?? 0) + (box?.height ?? 0)).toBeGreaterThan(780);
  expect(await page.getByRole("button", { name: "Rules" }).isVisible()).toBe(false);
  await page.screenshot({ path: `${OUTPUT}/chat-phone.png` });
  await page.getByRole("button", { name: "More" }).click();
  await page.getByRole("button", { name: "Rules" }).waitFor();
  const small = await composer.getByRole("button").evaluateAll((buttons) => buttons.filter((button) => !button.matches("input") && button.getBoundingClientRect().height < 43.5).map((button) => button.textContent));
  expect(small).toEqual([]);
  await page.getByRole("button", { name: "End the chat" }).click();
  await page.getByRole("button", { name: "Go on" }).click();
  await page.screenshot({ path: `${OUTPUT}/chat-phone-more.png` });
  expect(await axe(page)).toEqual([]);
  await page.context().close();
});
