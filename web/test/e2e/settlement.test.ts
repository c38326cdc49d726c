import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runOf, Stage, startWriter } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
afterAll(() => stage.close());

/**
 * Kills the server in the middle of the run's call: its journal ends where the tool has begun. The file has another content than
 * before the call and after it, so that the tool can't tell by itself.
 */
async function cutOff(run: string): Promise<void> {
  await stage.kill();
  const journal = join(stage.place.dir, ".llm-do/runs", run, "journal.jsonl");
  const lines = readFileSync(journal, "utf8").split("\n");
  const begun = lines.findIndex((line) => line.includes('"tool_started"'));
  expect(begun).toBeGreaterThan(0);
  writeFileSync(journal, lines.slice(0, begun + 1).join("\n") + "\n");
  writeFileSync(join(stage.place.dir, "out/note.txt"), "by somebody else\n");
  await stage.again();
}

test("what became of a call that was cut off is answered: done, with this result", async () => {
  const page = await stage.page();
  await startWriter(page);
  const run = await runOf(page);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await cutOff(run);
  await stage.signIn(page);
  await page.getByRole("heading", { name: "What became of write_file?" }).waitFor();
  await page.getByText("Only you can know whether its effect took place.").waitFor();
  await page.getByRole("button", { name: "It is done…" }).click();
  const result = page.getByRole("textbox", { name: "Result" });
  await result.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type('"Somebody wrote it');
  await page.getByRole("button", { name: "It is done, with this result" }).click();
  await page.getByText("This is not JSON").waitFor();
  await result.click();
  await page.keyboard.press("Control+End");
  await page.keyboard.type('."');
  await page.getByRole("button", { name: "It is done, with this result" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByLabel("Answer", { exact: true }).getByText("Done: Somebody wrote it.").waitFor();
  expect(readFileSync(join(stage.place.dir, "out/note.txt"), "utf8")).toBe("by somebody else\n");
  await page.context().close();
});

test("a call that was cut off is run again, or the run is ended", async () => {
  for (const [button, state] of [
    ["Run it again", "done"],
    ["End the run", "failed"],
  ] as const) {
    writeFileSync(join(stage.place.dir, "out/note.txt"), "before\n");
    const page = await stage.page();
    await startWriter(page);
    const run = await runOf(page);
    await page.getByRole("button", { name: "Approve" }).click();
    await page.locator("header [data-state=done]").first().waitFor();
    await cutOff(run);
    await stage.signIn(page);
    // The inbox has it, too.
    await page.goto(`${stage.address}/#/inbox`);
    await page.getByRole("heading", { name: "What became of write_file?" }).waitFor();
    await page.getByRole("button", { name: button }).click();
    if (state === "failed") await page.getByRole("button", { name: "End it now" }).click();
    await page.getByText("Nothing waits for you.").waitFor();
    await page.goto(`${stage.address}/#/runs/${run}`);
    await page.locator(`header [data-state=${state}]`).first().waitFor();
    const text = readFileSync(join(stage.place.dir, "out/note.txt"), "utf8");
    expect(text).toBe(state === "done" ? "first line\nsecond line\n" : "by somebody else\n");
    await page.context().close();
  }
  // The lock of the server lies beside the runs.
  const runs = readdirSync(join(stage.place.dir, ".llm-do/runs")).filter((name) => !name.startsWith("."));
  expect(runs).toHaveLength(3);
});
