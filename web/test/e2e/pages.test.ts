import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import { runOf, Stage, startChat, startWriter } from "./stage";

const WIDTHS = [390, 1280, 1920];
let stage: Stage;
const made = new Map<string, string>();

beforeAll(async () => {
  stage = await Stage.open();
  const page = await stage.page();
  const start = async (worker: string, until: string): Promise<void> => {
    await page.goto(`${stage.address}/#/start/desk/${worker}`);
    await page.getByRole("textbox", { name: "input" }).fill("Go on.");
    await page.getByRole("button", { name: "Start the run" }).click();
    await page.locator(until).first().waitFor({ timeout: 30_000 });
    made.set(worker, await runOf(page));
  };
  await start("reporter", "header [data-state=done]");
  await start("courier", "[data-question]");
  await start("asker", "[data-question]");
  await startWriter(page);
  made.set("writer", await runOf(page));
  await startChat(page, "Hello, who are you?");
  await page.getByText("You said: Hello").waitFor();
  for (const text of ["How are you?", "Please write it down"]) {
    await page.getByLabel("Message to chat").fill(text);
    await page.getByRole("button", { name: "Send" }).click();
    await (text.startsWith("How") ? page.getByText("Well, thank you.") : page.getByRole("button", { name: "Approve" })).waitFor();
  }
  made.set("chat", await runOf(page));
  await page.context().close();
}, 120_000);
afterAll(() => stage.close());

const VIEWS: [string, () => string, (page: Page) => Promise<unknown>][] = [
  ["programs", () => "#/", (page) => page.getByRole("list", { name: "Last runs" }).waitFor()],
  ["start", () => "#/start/desk/order", (page) => page.getByRole("button", { name: "Start the run" }).click()],
  ["runs", () => "#/runs", (page) => page.getByRole("list", { name: "Runs" }).waitFor()],
  ["inbox", () => "#/inbox", (page) => page.getByRole("heading", { name: /courier wants to call/ }).waitFor()],
  ["run-done", () => `#/runs/${made.get("reporter")}`, (page) => page.getByText("Look again in two weeks.", { exact: true }).first().waitFor()],
  ["run-question", () => `#/runs/${made.get("writer")}`, (page) => page.getByRole("button", { name: "Approve" }).waitFor()],
  ["run-untrusted", () => `#/runs/${made.get("courier")}/calls/0%2F0.0`, (page) => page.getByText("Words of others").first().waitFor()],
  ["run-form", () => `#/runs/${made.get("asker")}`, (page) => page.getByRole("button", { name: "Answer" }).waitFor()],
  ["compare", () => `#/compare?a=${made.get("courier")}&ac=0&b=${made.get("writer")}&bc=0`, (page) => page.getByRole("heading", { name: "Prompt" }).waitFor()],
  ["costs", () => "#/costs", (page) => page.getByRole("list", { name: "Dearest runs" }).waitFor()],
  ["run-arguments", () => `#/runs/${made.get("writer")}`, async (page) => {
    await page.getByRole("button", { name: "Edit arguments" }).click();
    await page.getByRole("textbox", { name: "content" }).fill("first line\nanother line\nthird line\n");
    await page.getByText("The change with these arguments").waitFor();
  }],
  ["run-costs", () => `#/runs/${made.get("reporter")}/costs`, (page) => page.getByRole("table").waitFor()],
  ["run-files", () => `#/runs/${made.get("courier")}/files/%2Finbox`, (page) => page.getByText("mail.txt").first().waitFor()],
  ["chat", () => `#/runs/${made.get("chat")}`, (page) => page.getByRole("button", { name: "Approve" }).waitFor()],
  ["editor", () => "#/programs/desk/workers%2Fwriter.worker", (page) => page.locator(".cm-content").waitFor()],
  ["help", () => "#/", (page) => page.keyboard.press("?")],
];

test.each(["light", "dark"] as const)("every page in %s is whole and has no serious finding of axe", async (colorScheme) => {
  const page = await stage.page("#/", { colorScheme, reducedMotion: "reduce" });
  const found: string[] = [];
  for (const [name, to, ready] of VIEWS) {
    await page.goto("about:blank");
    await page.goto(`${stage.address}/${to()}`);
    await page.getByRole("navigation", { name: "Pages", exact: true }).waitFor();
    try {
      await ready(page);
    } catch (error) {
      found.push(`${name}: ${error instanceof Error ? error.message : String(error)}`);
    }
    for (const width of WIDTHS) {
      await page.setViewportSize({ width, height: width < 600 ? 844 : width < 1500 ? 800 : 1080 });
      await page.waitForTimeout(120);
      await page.screenshot({ path: `${OUTPUT}/${name}-${width}-${colorScheme}.png` });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) found.push(`${name} at ${width}: ${wide} px wider than the page`);
      if (width !== 1920) for (const finding of await axe(page)) found.push(`${name} at ${width}: ${finding}`);
    }
  }
  await page.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: /Sign out/ }).click();
  await page.getByLabel("Token").waitFor();
  await page.screenshot({ path: `${OUTPUT}/sign-in-1280-${colorScheme}.png` });
  for (const finding of await axe(page)) found.push(`sign-in: ${finding}`);
  await page.context().close();
  expect(found).toEqual([]);
}, 240_000);
