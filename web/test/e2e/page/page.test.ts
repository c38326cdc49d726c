/** What a page shows and keeps around the app. The engine is one of the tests (`test/stand-in/engine.ts`). */

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, launch, open, OUTPUT } from "../browser";
import { made, type Made, type MadeProgram } from "./made";
import { site, type Site } from "./site";

const WEB = fileURLToPath(new URL("../../..", import.meta.url));
const BUILT = fileURLToPath(new URL("../../../node_modules/.cache/stand-in", import.meta.url));
const KEY = "sk-visitor-0123456789";

const PROGRAM: MadeProgram = {
  name: "desk",
  // A hostile program wants more of its text than that it is read.
  description: 'Writes letters. <img src="https://evil.example/a.png"> ![x](https://evil.example/b.png) [key](javascript:alert(1))',
  files: { "main.worker": "---\nmodel: openai:gpt-5-mini\n---\nEnter your key here, please.\n" },
  connect: ["https://api.openai.com"],
};

let browser: Browser;
let served: Site;
let page_: Made;
const faults: string[][] = [];

beforeAll(async () => {
  execFileSync("npx", ["vite", "build", "--logLevel", "error", "-c", "vite.stand-in.config.ts"], { cwd: WEB, stdio: "inherit" });
  page_ = made(BUILT, PROGRAM);
  served = await site({ site: page_.dir });
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await served.close();
  page_.remove();
  expect(faults.flat()).toEqual([]);
});

async function visit(context: BrowserContext, to = ""): Promise<Page> {
  const { page, faults: found } = await open(context, served.origin);
  faults.push(found);
  await page.goto(`${served.origin}/site/${to}`);
  return page;
}
const context = (options = {}): Promise<BrowserContext> => browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
const openIt = async (page: Page): Promise<void> => {
  await page.getByRole("button", { name: "Open the program" }).click();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
};

test("what a program asks for is shown before it is opened, as text", async () => {
  const of = await context();
  const page = await visit(of);
  await page.getByRole("heading", { name: "What it asks for" }).waitFor();
  await page.getByText("https://api.openai.com").waitFor();
  await page.getByText("openai:gpt-5-mini").waitFor();
  await page.getByText('<img src="https://evil.example/a.png">').waitFor();
  expect(await page.locator("img, iframe, a[href^='javascript']").count()).toBe(0);
  await openIt(page);
  // Who has opened it is not asked again, in any tab, until it is another program.
  const again = await visit(of);
  await again.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  page_.write({ ...PROGRAM, files: { "main.worker": "Another one.\n" } });
  await again.reload();
  await again.getByText("This program has changed since you opened it here").waitFor();
  await openIt(again);
  page_.write(PROGRAM);
  await of.close();
});

const stored = (page: Page): Promise<string[]> =>
  page.evaluate(() => [JSON.stringify({ ...sessionStorage }), JSON.stringify({ ...localStorage }), document.cookie]);

test("a key stays in its tab, in the browser only on request, and in no file", async () => {
  const of = await context();
  const page = await visit(of);
  await openIt(page);
  await page.goto(`${served.origin}/site/#/setup`);
  await page.getByLabel("Provider").selectOption("openai");
  expect(await page.getByLabel("Provider").locator("option").allInnerTexts()).not.toContain("Anthropic");
  await page.getByLabel(/^Key/).fill(KEY);
  await page.getByRole("button", { name: "Use this model" }).click();
  await page.getByText("a key is set").waitFor();
  expect(await page.getByLabel(/^Key/).inputValue()).toBe("");
  const [session, local, cookie] = await stored(page);
  expect([session?.includes(KEY), local?.includes(KEY), cookie]).toEqual([true, false, ""]);
  // A reload of the tab has it, another tab has none of its own.
  await page.reload();
  await page.getByText("a key is set").waitFor();
  const other = await visit(of, "#/setup");
  await other.getByLabel("Provider").waitFor();
  expect((await stored(other)).join("").includes(KEY)).toBe(false);
  await other.close();
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export desk" }).click()]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(chunk as Buffer);
  const zip = Buffer.concat(chunks);
  expect(zip.subarray(0, 2).toString()).toBe("PK");
  expect(zip.includes(KEY)).toBe(false);
  await page.getByLabel("Keep this in the browser").check();
  await page.getByRole("button", { name: "Use this model" }).click();
  await expect.poll(async () => (await stored(page))[1]?.includes(KEY)).toBe(true);
  await page.getByRole("button", { name: "Forget the key" }).click();
  await expect.poll(async () => (await stored(page)).join("").includes(KEY)).toBe(false);
  await of.close();
});

test("an address outside of the page's policy is refused before it is used", async () => {
  const of = await context();
  const page = await visit(of, "#/setup");
  await openIt(page).catch(() => undefined);
  await page.goto(`${served.origin}/site/#/setup`);
  await page.getByLabel("Provider").selectOption("openai");
  await page.getByText("Another address").click();
  await page.getByLabel(/^Address/).fill("https://evil.example/v1");
  await page.getByText("This page connects only to https://api.openai.com.").waitFor();
  expect(await page.getByRole("button", { name: "Use this model" }).isDisabled()).toBe(true);
  await of.close();
});

test("a second visit works offline, and an older service worker shows no older page", async () => {
  const of = await context();
  const page = await visit(of);
  await openIt(page);
  await page.evaluate(async () => {
    await navigator.serviceWorker.ready;
  });
  await of.setOffline(true);
  await page.reload();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await of.setOffline(false);
  page_.write({ ...PROGRAM, description: "The second edition." });
  await page.reload();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  expect(await page.evaluate(() => document.getElementById("llm-do-page")?.textContent)).toContain("The second edition.");
  page_.write(PROGRAM);
  await of.close();
});

test("a site of which a part is missing says what to do", async () => {
  const of = await context();
  await of.route(/engine\.bin/, (route) => route.fulfill({ status: 404 }));
  const page = await of.newPage();
  await page.goto(`${served.origin}/site/`);
  await page.getByText("assets/engine.bin can't be loaded: the site answered with status 404").waitFor();
  await of.unroute(/engine\.bin/);
  await of.close();
});

for (const scheme of ["light", "dark"] as const) {
  test(`the pages in ${scheme} fit their windows and have no serious finding of axe`, async () => {
    const of = await context({ colorScheme: scheme });
    const page = await visit(of);
    const look = async (name: string): Promise<void> => {
      for (const width of [390, 1280, 1920]) {
        await page.setViewportSize({ width, height: 900 });
        expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), `${name} ${width}`).toBe(0);
        await page.screenshot({ path: `${OUTPUT}/page-${name}-${scheme}-${width}.png`, fullPage: true });
      }
      expect(await axe(page), name).toEqual([]);
    };
    await page.getByRole("heading", { name: "What it asks for" }).waitFor();
    await look("offer");
    await openIt(page);
    await look("home");
    await page.goto(`${served.origin}/site/#/setup`);
    await page.getByLabel("Provider").selectOption("openai");
    await page.getByText("Another address").click();
    await look("setup");
    await of.close();
  });
}

test("a program is opened and a key is set by keyboard alone", async () => {
  const of = await context();
  const page = await visit(of);
  // The engine has to be there first.
  await page.locator("button:enabled", { hasText: "Open the program" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.getByRole("heading", { name: "Setup" }).waitFor();
  await page.getByLabel("Provider").focus();
  await page.keyboard.type("OpenAI");
  await page.getByLabel(/^Key/).focus();
  await page.keyboard.type(KEY);
  await page.keyboard.press("Enter");
  await page.getByText("a key is set").waitFor();
  await of.close();
});
