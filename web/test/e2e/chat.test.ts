import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Stage, startChat } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open(["--edit", "--chat-model", "script:scripts/other.yaml"])));
afterAll(() => stage.close());

const written = (page: Page): Promise<string | undefined> => stage.read(page, "out/chat.txt");
async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel("Message to chat").fill(text);
  await page.getByLabel("Message to chat").press("Enter");
}
const answer = (page: Page, text: string): Promise<void> =>
  page.getByLabel("Answer", { exact: true }).getByText(text, { exact: true }).last().waitFor();

test("the column of a chat has one place and one width, whatever is said", async () => {
  const page = await stage.page();
  await startChat(page, "Hi");
  await answer(page, "You said: Hi");
  const column = (): Promise<(number | undefined)[]> =>
    page.locator(".chat").boundingBox().then((box) => [box?.x, box?.width]);
  const before = await column();
  expect(before[1]).toBe(980);
  await say(page, `A long message ${"with many words ".repeat(30)}`);
  await page.getByLabel("Answer", { exact: true }).getByText("You said: A long message").last().waitFor();
  expect(await column()).toEqual(before);
  await page.context().close();
});

test("messages are said, waited with, said at once, and stopped", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await say(page, "Talk slowly");
  await page.locator("article.streaming").getByText("One thing").waitFor();
  await say(page, "How are you?");
  const waiting = page.getByRole("list", { name: "Messages that wait" });
  await waiting.getByText("How are you?").waitFor();
  // Taken back, changed, and put in again.
  await page.getByLabel("Message to chat").press("ArrowUp");
  expect(await page.getByLabel("Message to chat").inputValue()).toBe("How are you?");
  await page.getByLabel("Message to chat").press("Enter");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped here.").waitFor();
  await answer(page, "Well, thank you.");
  expect(await waiting.count()).toBe(0);
  await say(page, "Talk slowly again");
  await page.locator("article.streaming").getByText("One thing").waitFor();
  await say(page, "This at once");
  await page.getByRole("button", { name: "Say now" }).click();
  await expect.poll(() => waiting.count()).toBe(0);
  await page.getByLabel("Message to chat").press("Escape");
  await page.getByText("This at once").first().waitFor();
  await page.context().close();
});

test("a reload in the middle of an answer shows its beginning", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await say(page, "Talk without an end");
  const streaming = page.locator("article.streaming");
  await streaming.getByText("One thing after the other,").waitFor();
  await page.reload();
  await streaming.getByText("One thing after the other,").waitFor();
  expect(await page.getByText("The beginning of this answer follows").count()).toBe(0);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByText("Stopped here.").waitFor();
  await page.context().close();
}, 60_000);

test("a message is taken back with the file that it led to, tried again, and changed", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await say(page, "Please write it down");
  await page.getByRole("button", { name: "Approve" }).click();
  await answer(page, "It is in the file.");
  expect(await written(page)).toBe("from the chat\n");
  await page.getByRole("button", { name: "Undo" }).click();
  const restore = page.getByRole("button", { name: "restore" });
  await restore.waitFor();
  await page.getByRole("region", { name: /Change to .*chat\.txt/ }).getByText("from the chat").waitFor();
  await restore.click();
  await page.getByText("A message was taken back.").waitFor();
  await expect.poll(() => written(page)).toBeUndefined();

  await say(page, "How are you?");
  await answer(page, "Well, thank you.");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect.poll(() => page.getByText("Taken back: 1 message").count()).toBeGreaterThan(0);
  await answer(page, "Well, thank you.");
  await page.getByRole("button", { name: "Edit" }).last().click();
  await expect.poll(() => page.getByLabel("Message to chat").inputValue()).toBe("How are you?");
  await page.getByLabel("Message to chat").fill("Something else");
  await page.getByLabel("Message to chat").press("Enter");
  await answer(page, "You said: Something else");
  await page.context().close();
});

test("a worker is run and its result kept, and a file is attached and taken back", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await page.getByRole("button", { name: "Run a worker" }).click();
  await page.getByLabel("Worker", { exact: true }).selectOption("greeter");
  await page.getByRole("dialog").getByRole("textbox", { name: "name" }).fill("Ada");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const call = page.getByRole("article", { name: "A call of yours" });
  await call.locator(".json").getByText(/Hello,/).waitFor();
  await call.getByRole("button", { name: "Keep for the next message" }).click();
  await call.getByText("Its result joins your next message.").waitFor();
  await page.locator("form.composer input[type=file]").setInputFiles({
    name: "notes.txt",
    mimeType: "text/plain",
    buffer: Buffer.from("Buy milk."),
  });
  const attached = page.locator("p.aside", { hasText: "notes.txt" });
  await attached.getByText("joins the next message").waitFor();
  await attached.getByRole("button", { name: "Take back" }).click();
  await attached.getByText("was taken back").waitFor();
  await page.context().close();
});

test("rules are made and forgotten, and a compaction is taken back", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await page.getByRole("button", { name: "Rules" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("What the rule does").selectOption("blocked");
  await dialog.getByLabel("Calls").fill("write_file(out/**)");
  await dialog.getByRole("button", { name: "Add" }).click();
  await dialog.getByRole("listitem").getByText("write_file(out/**)").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await say(page, "Please write it down");
  // The rule refuses it: nothing is asked, and the model hears that.
  await expect.poll(() => page.getByText(/^You said: /).count(), { timeout: 30_000 }).toBe(2);
  expect(await written(page)).toBe(undefined);
  expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
  await page.getByRole("button", { name: "Rules" }).click();
  await dialog.getByRole("button", { name: "Forget" }).click();
  await dialog.getByText("No rule was made").waitFor();
  await dialog.getByRole("button", { name: "Close" }).click();
  await say(page, "How are you?");
  await answer(page, "Well, thank you.");
  await page.getByRole("button", { name: "Compact" }).click();
  await dialog.getByLabel("What the summary must keep").fill("the note");
  await dialog.getByRole("button", { name: "Compact", exact: true }).click();
  await page.getByText(/^Compacted:/).waitFor();
  await page.getByRole("button", { name: "Compact" }).click();
  await dialog.getByRole("button", { name: "Take the last compaction back" }).click();
  await page.getByText("(taken back)").first().waitFor();
  await page.context().close();
});

test("another model is chosen in the middle, and answers from then on", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  const model = page.getByLabel("Model", { exact: true });
  expect(await model.inputValue()).toBe("script:scripts/chat.yaml");
  await model.selectOption("script:scripts/other.yaml");
  await page.getByText(/script:scripts\/other\.yaml/).first().waitFor();
  await say(page, "Are you there?");
  await answer(page, "Another model heard: Are you there?");
  await page.reload();
  await answer(page, "Another model heard: Are you there?");
  expect(await model.inputValue()).toBe("script:scripts/other.yaml");
  await page.context().close();
});

test("a remembered answer holds for the next call of the same kind, and a forgotten one is asked for again", async () => {
  const page = await stage.page();
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  await say(page, "Please write it down");
  await page.getByLabel("Remember for this session").check();
  await page.getByRole("button", { name: "Approve" }).click();
  await answer(page, "It is in the file.");
  await say(page, "And again, write it down");
  await expect.poll(() => page.getByText("It is in the file.", { exact: true }).count()).toBe(2);
  expect(await page.getByRole("button", { name: "Approve" }).count()).toBe(0);
  await page.context().close();
});

test("a chat is saved as Markdown, copied, and ended", async () => {
  const page = await stage.page("#/", { permissions: ["clipboard-read", "clipboard-write"] });
  await startChat(page, "Hello");
  await answer(page, "You said: Hello");
  const [saved] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save as Markdown" }).click(),
  ]);
  const text = readFileSync(await saved.path(), "utf8");
  expect(text).toContain("## You\n\nHello");
  expect(text).toContain("You said: Hello");
  await page.getByRole("button", { name: "Copy" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe("You said: Hello");
  await page.getByRole("button", { name: "End the chat" }).click();
  await page.getByRole("button", { name: "End it now" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByText("This conversation is over.").waitFor();
  await page.context().close();
});
