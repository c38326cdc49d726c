import { createHash } from "node:crypto";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe } from "./browser";
import { runOf, Stage, startWriter } from "./stage";

const TOKENS = {
  watcher: { token: "watcher-0123456789abcdef", scopes: "[read]", read: "all" },
  starter: { token: "starter-0123456789abcdef", scopes: "[start, read]", read: "own" },
  sender: { token: "sender-0123456789abcdef", scopes: "[start]", read: "own" },
};

let stage: Stage;
beforeAll(async () => {
  stage = await Stage.open(["--edit"], ({ home }) => {
    mkdirSync(home, { recursive: true });
    const entries = Object.entries(TOKENS).map(([name, { token, scopes, read }]) => {
      const sha256 = createHash("sha256").update(token).digest("hex");
      return `  - {name: ${name}, sha256: ${sha256}, scopes: ${scopes}, read: ${read}}\n`;
    });
    writeFileSync(join(home, "serve.yaml"), `tokens:\n${entries.join("")}`);
  });
});
afterAll(() => stage.close());

test("a token that only reads sees all and is offered nothing to do", async () => {
  const operator = await stage.page();
  await startWriter(operator);
  const run = await runOf(operator);
  const page = await stage.page("#/", {}, TOKENS.watcher.token);
  await page.getByText("Writes a note to a file.").waitFor();
  expect(await page.getByRole("link", { name: /^(Run|Chat) / }).count()).toBe(0);
  await page.goto(`${stage.address}/#/runs/${run}`);
  await page.getByText("Your token does not allow answers.").waitFor();
  expect(await page.getByRole("button", { name: /Approve|Deny|Cancel the run/ }).count()).toBe(0);
  await page.locator("[data-question]").press("a");
  await page.goto(`${stage.address}/#/inbox`);
  await page.getByText("Your token does not allow answers.").waitFor();
  await page.goto(`${stage.address}/#/programs/desk/workers%2Fwriter.worker`);
  await page.getByText("read only").waitFor();
  expect(await page.getByRole("button", { name: "Save" }).count()).toBe(0);
  expect(await axe(page)).toEqual([]);
  // The key had no effect.
  await operator.getByRole("button", { name: "Deny…" }).click();
  await operator.getByRole("button", { name: "Deny", exact: true }).click();
  await operator.locator("header [data-state=done]").first().waitFor();
  await page.context().close();
  await operator.context().close();
});

test("a token that reads its own runs sees no others", async () => {
  const operator = await stage.page();
  await startWriter(operator);
  const run = await runOf(operator);
  const page = await stage.page("#/runs", {}, TOKENS.starter.token);
  await page.getByText("No run fits.").waitFor();
  await page.goto(`${stage.address}/#/runs/${run}`);
  await page.getByRole("heading", { name: "There is no such run" }).waitFor();
  await page.goto(`${stage.address}/#/inbox`);
  await page.getByText("Nothing waits for you.").waitFor();
  await startWriterWithout(page);
  await page.getByText("Your token does not allow answers.").waitFor();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("button", { name: "Cancel it now" }).click();
  await page.locator("header [data-state=cancelled]").first().waitFor();
  await page.goto(`${stage.address}/#/runs`);
  await expect.poll(() => page.getByRole("list", { name: "Runs" }).getByRole("link").count()).toBe(1);
  await page.context().close();
  await operator.context().close();
});

test("a token that only starts runs is told that it may not see them", async () => {
  const page = await stage.page("#/", {}, TOKENS.sender.token);
  await page.getByText("Writes a note to a file.").waitFor();
  expect(await page.getByRole("heading", { name: "Last runs" }).count()).toBe(0);
  expect(await page.locator("[aria-busy=true]").count()).toBe(0);
  await startWriterWithout(page);
  await page.getByText(/The run was started/).waitFor();
  await page.getByText(/Your token does not allow reading runs/).first().waitFor();
  expect(await axe(page)).toEqual([]);
  await page.goto(`${stage.address}/#/inbox`);
  await page.getByText(/Your token does not allow reading runs/).first().waitFor();
  await page.goto(`${stage.address}/#/runs`);
  await page.getByText(/Your token does not allow reading runs/).first().waitFor();
  await page.context().close();
});

/** Starts the worker `writer` with a token that can't answer. */
async function startWriterWithout(page: Awaited<ReturnType<Stage["page"]>>): Promise<void> {
  await page.goto(`${stage.address}/#/start/desk/writer`);
  await page.getByRole("textbox", { name: "input" }).fill("Write it down.");
  await page.getByRole("button", { name: "Start the run" }).click();
}
