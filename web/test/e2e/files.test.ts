import { afterAll, beforeAll, expect, test } from "vitest";
import { Stage, runOf } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
afterAll(() => stage.close());

const letter = { name: "letter.txt", mimeType: "text/plain", buffer: Buffer.from("Dear Ada, the bees are well.\n") };

const picture = {
  name: "bees.png",
  mimeType: "image/png",
  buffer: Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64"),
};

test("a file is uploaded for a parameter, and the worker reads it", async () => {
  const page = await stage.page("#/start/desk/reader");
  const start = page.getByRole("button", { name: "Start the run" });
  await start.click();
  // A file is needed.
  await page.locator("form.start [aria-invalid=true]").first().waitFor();
  await page.getByLabel("Upload a file").setInputFiles(letter);
  await page.getByText("📎 letter.txt").waitFor();
  await start.click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByLabel("Answer", { exact: true }).getByText("Dear Ada, the bees are well.").last().waitFor();
  await page.context().close();
});

test("files are attached at the start, taken away again, and shown with the message", async () => {
  const page = await stage.page("#/start/desk/chat");
  await page.getByLabel("Your first message").fill("Look at these");
  const attach = page.locator("form.start label.button input[type=file]");
  await attach.setInputFiles([picture, { ...picture, name: "more <b>bees.png" }, { ...picture, name: "third.png" }]);
  await page.getByRole("button", { name: "Remove third.png" }).click();
  await expect.poll(() => page.locator("form.start .badge").count()).toBe(2);
  await page.getByRole("button", { name: "Start the chat" }).click();
  await page.getByText(/You said: Look at these/).first().waitFor();
  const shown = page.locator("figcaption");
  await expect.poll(() => shown.count()).toBe(2);
  await shown.first().getByText("bees.png").waitFor();
  // A name is text.
  expect(await page.locator("figcaption b").count()).toBe(0);
  const [file] = await Promise.all([page.waitForEvent("download"), shown.first().getByRole("button", { name: "Save" }).click()]);
  expect(file.suggestedFilename()).toBe("bees.png");
  expect(await runOf(page)).not.toBe("");
  await page.context().close();
});
