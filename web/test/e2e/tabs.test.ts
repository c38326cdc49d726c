import { afterAll, beforeAll, expect, test } from "vitest";
import { runOf, Stage, startChat, startWriter } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
afterAll(() => stage.close());

test("of two tabs that answer at once, the second hears who decided", async () => {
  const one = await stage.page();
  await startWriter(one);
  const two = await stage.page(`#/runs/${await runOf(one)}`);
  await two.getByRole("button", { name: "Deny…" }).click();
  // The second tab's answer is held back until the first one's has arrived.
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  await two.route("**/answers", async (route) => {
    await held;
    await route.continue();
  });
  await two.getByRole("button", { name: "Deny", exact: true }).click();
  await one.getByRole("button", { name: "Approve" }).click();
  await one.locator("header [data-state=done]").first().waitFor();
  release();
  await two.getByText("operator has already answered this question.").first().waitFor();
  await two.locator("header [data-state=done]").first().waitFor();
  await one.context().close();
  await two.context().close();
});

test("the inbox counts what waits in all runs, and its questions are answered there", async () => {
  const one = await stage.page();
  const inbox = await stage.page("#/inbox");
  await inbox.getByText("Nothing waits for you.").waitFor();
  await startWriter(one);
  await inbox.getByRole("heading", { name: /writer wants to call write_file/ }).waitFor();
  expect(await inbox.getByRole("link", { name: /Inbox/ }).innerText()).toContain("1");
  expect(await inbox.title()).toMatch(/^\(1\)/);
  await inbox.getByRole("button", { name: "Approve" }).click();
  await inbox.getByText("Nothing waits for you.").waitFor();
  await one.locator("header [data-state=done]").first().waitFor();
  await one.context().close();
  await inbox.context().close();
});

test("the page finds the server again after it was killed, asks to sign in, and no record is lost or doubled", async () => {
  // A token that the next server knows, too.
  const page = await stage.page();
  await startChat(page, "Hello");
  await page.getByText("You said: Hello").waitFor();
  const run = await runOf(page);
  await stage.kill();
  await page.locator(".banner").waitFor();
  await stage.again();
  // Sessions end with the server. The page stays where it was.
  await page.getByText("Your session has ended").waitFor({ timeout: 20_000 });
  await page.getByLabel("Token").fill(stage.server.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect.poll(() => page.locator(".banner").count(), { timeout: 20_000 }).toBe(0);
  await page.getByLabel("Message to chat").fill("How are you?");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByText("Well, thank you.").waitFor();
  expect(await page.getByText("You said: Hello").count()).toBe(1);
  expect(await page.getByRole("article", { name: /^Message/ }).count()).toBe(2);
  expect(await runOf(page)).toBe(run);
  await page.context().close();
});
