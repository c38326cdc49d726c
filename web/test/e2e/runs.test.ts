import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { OUTPUT } from "./browser";
import type { Place } from "./program";
import { runOf, Stage, startWriter } from "./stage";

/** A worker that changes lines of a long file which lie far apart. */
function rewriter({ dir }: Place): void {
  const lines = (new_: number[]): string =>
    Array.from({ length: 400 }, (_, at) => `line ${at + 1}${new_.includes(at + 1) ? " is new" : ""}\n`).join("");
  const few = Array.from({ length: 19 }, (_, at) => 20 * (at + 1));
  mkdirSync(join(dir, "out"));
  writeFileSync(join(dir, "out/long.txt"), lines([]));
  const writer = readFileSync(join(dir, "workers/writer.worker"), "utf8");
  writeFileSync(join(dir, "workers/rewriter.worker"), writer.replace("scripts/writer.yaml", "scripts/rewriter.yaml"));
  const project = join(dir, "project.yaml");
  writeFileSync(project, readFileSync(project, "utf8").replace("exports: [", "exports: [rewriter, "));
  const calls = [{ tool: "write_file", arguments: { path: "out/long.txt", content: lines(few) } }];
  writeFileSync(join(dir, "scripts/rewriter.yaml"), JSON.stringify({ answers: [{ when: { turn: 0 }, calls }, { text: "Done." }] }));
}

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open(["--edit"], rewriter)));
afterAll(() => stage.close());

const note = (page: Page): Promise<string | undefined> => stage.read(page, "out/note.txt");

test("the token of the link leaves the address, and the session survives a reload", async () => {
  const page = await stage.page();
  expect(page.url()).not.toContain("token");
  await page.reload();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await page.getByRole("button", { name: /Sign out/ }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.reload();
  await page.getByLabel("Token").fill("wrong");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByText("does not know this token").waitFor();
  await page.getByLabel("Token").fill(stage.server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await page.context().close();
});

test("a form says what is wrong beside the field, and starts with what is right", async () => {
  const page = await stage.page("#/start/desk/order");
  const start = page.getByRole("button", { name: "Start the run" });
  await start.click();
  expect(await page.getByText("This is needed.").count()).toBe(4);
  await page.getByRole("textbox", { name: "article" }).fill("Honey");
  await page.getByRole("textbox", { name: "amount" }).fill("100");
  await page.getByText("At most 99.").waitFor();
  await page.getByRole("textbox", { name: "amount" }).fill("3");
  await page.getByRole("combobox", { name: "kind" }).selectOption("business");
  await page.getByRole("textbox", { name: "city" }).fill("Ghent");
  await page.getByRole("button", { name: "Add an entry" }).click();
  await page.getByRole("textbox", { name: "tags 1" }).fill("sweet");
  await page.getByRole("button", { name: "JSON" }).click();
  const shown = page.getByLabel("Input as JSON");
  await expect.poll(() => shown.innerText()).toContain('"city": "Ghent"');
  await page.getByRole("button", { name: "Form" }).click();
  await start.click();
  await page.locator("[data-state=done]").first().waitFor();
  await page.getByText("accepted").first().waitFor();
  await page.context().close();
});

test("an answer is shown while it is made, as text and not as markup", async () => {
  const page = await stage.page("#/start/desk/reporter");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  const streaming = page.locator("article.streaming");
  await streaming.getByText("The bees are").waitFor();
  await page.locator("[data-state=done]").first().waitFor({ timeout: 30_000 });
  const answer = page.getByLabel("Answer", { exact: true });
  await answer.getByText('<script>alert("this is text")</script>').waitFor();
  expect(await answer.locator("table td").allInnerTexts()).toContain("northern hive".slice(0, 5));
  expect(await answer.locator("a").evaluateAll((links) => links.map((link) => link.getAttribute("href")))).toEqual([
    "https://bees.example/manual",
  ]);
  expect(await answer.getByText("(https://bees.example/manual)").count()).toBe(1);
  expect(await answer.locator(".escape").innerText()).toBe("\\u{202e}");
  await page.context().close();
});

test("a call is approved with its diff in view", async () => {
  const page = await stage.page();
  await startWriter(page);
  expect(await note(page)).toBeUndefined();
  await page.getByRole("region", { name: "Change to /out/note.txt" }).getByText("second line").waitFor();
  await page.getByRole("button", { name: "Unified" }).click();
  await page.locator("table.unified").waitFor();
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("[data-state=done]").first().waitFor();
  expect(await note(page)).toBe("first line\nsecond line\n");
  await page.context().close();
});

test("all changes of an approval stand above its buttons, in columns that a fold does not squeeze", async () => {
  const page = await stage.page("#/start/desk/rewriter");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  const diff = page.getByRole("region", { name: "Change to /out/long.txt" });
  await diff.getByText("line 380 is new").waitFor();
  await page.getByRole("button", { name: "Side by side" }).click();
  const [before, number] = await diff.locator("tr:not(.fold)").first().locator("td").evaluateAll((cells) => cells.map((cell) => cell.getBoundingClientRect().width)).then(([a = 0, b = 0]) => [b, a]);
  expect(number).toBeLessThan(60);
  expect(before).toBeGreaterThan(400);
  for (const width of [390, 1280, 1920]) {
    await page.setViewportSize({ width, height: 800 });
    for (const view of ["Side by side", "Unified"]) {
      await page.getByRole("button", { name: view }).click();
      const last = await diff.getByText("line 380 is new").boundingBox();
      const approve = await page.getByRole("button", { name: "Approve" }).boundingBox();
      expect(last?.y).toBeLessThan(approve?.y ?? 0);
      // Nothing between the change and the page scrolls.
      expect(await diff.evaluate((element) => element.scrollHeight - element.clientHeight)).toBe(0);
      await page.screenshot({ path: `${OUTPUT}/diff-${width}-${view === "Unified" ? "unified" : "beside"}.png`, fullPage: true });
    }
  }
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.context().close();
});

test("a call is denied with a reason, by keyboard alone", async () => {
  const page = await stage.page();
  await startWriter(page);
  await page.keyboard.press("n");
  await page.keyboard.press("d");
  await page.keyboard.type("not on a Wednesday");
  await page.keyboard.press("Enter");
  await page.locator("[data-state=done]").first().waitFor();
  await page.getByText("not on a Wednesday").first().waitFor();
  await page.context().close();
});

test("arguments are edited before a call is made", async () => {
  const page = await stage.page();
  await startWriter(page);
  await page.getByRole("button", { name: "Edit arguments" }).click();
  await page.getByRole("button", { name: "JSON" }).click();
  const editor = page.getByRole("textbox", { name: "Arguments as JSON" });
  await editor.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText('{"path": "out/note.txt", "content": ');
  await page.getByRole("button", { name: "Call with these arguments" }).click();
  await page.getByText("This is not JSON").waitFor();
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText('"edited\\n"}');
  await page.getByRole("button", { name: "Call with these arguments" }).click();
  await page.locator("[data-state=done]").first().waitFor();
  expect(await note(page)).toBe("edited\n");
  await page.context().close();
});

test("keys reach the editor, the focus stays in the page after an answer, and the tab is named by its run", async () => {
  const page = await stage.page();
  await startWriter(page);
  const id = await runOf(page);
  await expect.poll(() => page.title()).toMatch(new RegExp(`^\\(\\d+\\) writer waiting · ${id} · llm-do$`));
  await page.keyboard.press("n");
  await page.keyboard.press("e");
  await page.locator("[data-question] :focus").and(page.getByRole("textbox", { name: "path" })).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText("by keyboard\n");
  await page.getByRole("button", { name: "Call with these arguments" }).focus();
  await page.keyboard.press("Enter");
  await page.locator("[data-state=done]").first().waitFor();
  expect(await note(page)).toBe("by keyboard\n");
  await expect.poll(() => page.evaluate(() => document.activeElement?.id)).toBe("main");
  await expect.poll(() => page.title()).toContain(`writer done · ${id} · llm-do`);
  await page.goto(`${stage.address}/#/start/desk/writer`);
  await expect.poll(() => page.title()).toContain("writer · llm-do");
  await page.context().close();
});

test("arguments can be edited before the editor has arrived, and while it arrives", async () => {
  const page = await stage.page();
  let arrive = (): void => undefined;
  const held = new Promise<void>((resolve) => (arrive = resolve));
  await page.route(/CodeEditor[^/]*\.js/, async (route) => {
    await held;
    await route.continue();
  });
  await startWriter(page);
  await page.getByRole("button", { name: "Edit arguments" }).click();
  await page.getByRole("button", { name: "JSON" }).click();
  const field = page.locator("textarea[aria-label='Arguments as JSON']");
  await field.click();
  await page.keyboard.press("Control+a");
  const arrived = page.waitForResponse(/CodeEditor[^/]*\.js/);
  arrive();
  await (await arrived).finished();
  // What has arrived is evaluated after this, if at all.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve, 500)));
  await page.keyboard.insertText('{"path": "out/note.txt", "content": "early\\n"}');
  await page.getByRole("button", { name: "Call with these arguments" }).click();
  await page.locator("[data-state=done]").first().waitFor();
  expect(await note(page)).toBe("early\n");
  await page.context().close();
});

test("a run is cancelled", async () => {
  const page = await stage.page("#/start/desk/slow");
  await page.getByRole("textbox", { name: "input" }).fill("Think.");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("button", { name: "Cancel it now" }).click();
  await page.locator("header [data-state=cancelled]").first().waitFor();
  await page.context().close();
});

test("a reload in the middle loses nothing", async () => {
  const page = await stage.page("#/start/desk/reporter");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.locator("article.streaming").getByText("The bees").waitFor();
  await page.reload();
  await page.locator("[data-state=done]").first().waitFor({ timeout: 30_000 });
  await page.getByLabel("Answer", { exact: true }).getByText("Look again in two weeks.").waitFor();
  await page.context().close();
});

test("a run is run again with its input filled in", async () => {
  const page = await stage.page("#/start/desk/order");
  await page.getByRole("textbox", { name: "article" }).fill("Wax");
  await page.getByRole("textbox", { name: "amount" }).fill("3");
  await page.getByRole("combobox", { name: "kind" }).selectOption("business");
  await page.getByRole("textbox", { name: "city" }).fill("Ghent");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  const before = await runOf(page);
  await page.getByRole("link", { name: "Run again" }).click();
  await expect.poll(() => page.getByRole("textbox", { name: "article" }).inputValue()).toBe("Wax");
  expect(await page.getByRole("textbox", { name: "city" }).inputValue()).toBe("Ghent");
  await page.screenshot({ path: `${OUTPUT}/again-1280.png` });
  await page.getByRole("textbox", { name: "amount" }).fill("4");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.waitForURL((url) => /#\/runs\//.test(url.href) && !url.href.includes(before));
  await page.locator("header [data-state=done]").first().waitFor();
  await page.context().close();
});

test("the history is searched and filtered", async () => {
  const page = await stage.page("#/runs");
  const list = page.getByRole("list", { name: "Runs" });
  await list.getByRole("link").first().waitFor();
  const all = await list.getByRole("link").count();
  await page.getByRole("searchbox").fill("honey");
  await expect.poll(() => list.getByRole("link").count()).toBe(1);
  await page.getByRole("searchbox").fill("");
  await page.getByRole("combobox", { name: "State" }).selectOption("cancelled");
  await expect.poll(() => list.getByRole("link").count()).toBe(1);
  expect(all).toBeGreaterThan(5);
  await list.getByRole("link").click();
  expect(await runOf(page)).not.toBe("");
  await page.context().close();
});
