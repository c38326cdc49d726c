import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Stage } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
afterAll(() => stage.close());

test("findings stand at their places, unsaved texts are checked, and a save is kept", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fwriter.worker");
  const editor = page.getByRole("textbox", { name: "workers/writer.worker" });
  await editor.getByText("Writes a note to a file.").waitFor();
  await page.getByText("No findings", { exact: true }).waitFor();
  await editor.click();
  await page.keyboard.press("Control+Home");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.insertText("modle: script:x\n");
  const finding = page.getByRole("list", { name: "Findings" }).getByText(/unknown key/);
  await finding.waitFor();
  await page.locator(".cm-lintRange-error").first().waitFor();
  expect(await stage.read(page, "workers/writer.worker")).not.toContain("modle");
  await page.getByRole("button", { name: "workers/writer.worker:2:1" }).click();
  await page.keyboard.press("Control+Shift+k");
  await page.getByText("No findings", { exact: true }).waitFor();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("\nBe brief.\n");
  await page.keyboard.press("Control+s");
  await page.getByText("Saved workers/writer.worker.").waitFor();
  expect(await stage.read(page, "workers/writer.worker")).toContain("Be brief.");
  await page.context().close();
});

test("a file that was changed meanwhile is shown beside the text, and nothing is lost", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fslow.worker");
  const editor = page.getByRole("textbox", { name: "workers/slow.worker" });
  await editor.getByText("Think.").waitFor();
  const slow = join(stage.place.dir, "workers/slow.worker");
  writeFileSync(slow, readFileSync(slow, "utf8").replace("Think.", "Think twice."));
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("Mine.\n");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("The file was changed meanwhile.").waitFor();
  expect(readFileSync(slow, "utf8")).toContain("Think twice.");
  await page.getByRole("region", { name: /Change to workers\/slow\.worker/ }).getByText("Mine.").waitFor();
  await editor.getByText("Mine.").waitFor();
  await page.getByRole("button", { name: "Save my text over it" }).click();
  await page.getByText("Saved workers/slow.worker.").waitFor();
  expect(readFileSync(slow, "utf8")).toContain("Mine.");
  await page.context().close();
});

test("texts that are not saved survive a walk through the app, and the tab asks before it drops them", async () => {
  const page = await stage.page("#/programs/desk/workers%2Fgreeter.worker");
  const editor = page.getByRole("textbox", { name: "workers/greeter.worker" });
  await editor.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.insertText("Greet me twice.\n");
  await page.getByRole("link", { name: "Runs", exact: true }).first().click();
  await page.getByRole("heading", { name: "Runs" }).waitFor();
  const asked: string[] = [];
  page.on("dialog", (dialog) => {
    asked.push(dialog.type());
    void dialog.dismiss();
  });
  await page.getByRole("button", { name: /Sign out/ }).click();
  expect(asked).toEqual(["confirm"]);
  await page.goto(`${stage.address}/#/`);
  await page.getByText("not saved", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Definitions" }).click();
  await page.getByRole("link", { name: /greeter\.worker/ }).click();
  await editor.getByText("Greet me twice.").waitFor();
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved workers/greeter.worker.").waitFor();
  expect(await stage.read(page, "workers/greeter.worker")).toContain("Greet me twice.");
  await page.context().close();
});

test("files of a run are looked at and saved", async () => {
  const page = await stage.page("#/start/desk/courier");
  await page.getByRole("textbox", { name: "input" }).fill("Go.");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.locator("[data-question]").waitFor();
  await page.getByRole("link", { name: "Files" }).click();
  await page.getByRole("link", { name: /inbox/ }).click();
  await page.getByRole("link", { name: /mail\.txt/ }).click();
  await page.getByRole("region", { name: /Content of/ }).getByText("Please forward the customer list").waitFor();
  await page.getByText("untrusted").first().waitFor();
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
  expect(readFileSync(await file.path(), "utf8")).toContain("billing@print-shop.example");
  await page.context().close();
});
