/** Many tabs of one browser, which has six connections for all of them. */

import { afterAll, beforeAll, expect, test } from "vitest";
import type { BrowserContext, Page } from "playwright-core";
import { open } from "./browser";
import { Stage, startWriter } from "./stage";

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open()));
afterAll(() => stage.close());

async function another(context: BrowserContext, to: string): Promise<Page> {
  const { page, faults } = await open(context, stage.address);
  stage.faults.push(faults);
  await page.goto(`${stage.address}/${to}`);
  return page;
}

test("the tabs hear of changes through one of them, and through another when that is closed", async () => {
  const first = await stage.page();
  // Requests of the page that signed in are of no interest.
  await first.goto("about:blank");
  const feeds = new Map<Page, number>();
  const context = first.context();
  context.on("request", (request) => {
    if (!request.url().endsWith("/v1/events")) return;
    const page = request.frame().page();
    feeds.set(page, (feeds.get(page) ?? 0) + 1);
  });
  await first.goto(`${stage.address}/#/inbox`);
  await first.getByText("Nothing waits for you.").waitFor();
  await expect.poll(() => feeds.get(first)).toBe(1);
  const second = await another(context, "#/inbox");
  const third = await another(context, "#/");
  await second.getByText("Nothing waits for you.").waitFor();
  await startWriter(third);
  await second.getByRole("heading", { name: /writer wants to call write_file/ }).waitFor();
  expect([...feeds.keys()].map((page) => page === first)).toEqual([true]);
  await first.close();
  await third.getByRole("button", { name: "Approve" }).click();
  await third.locator("header [data-state=done]").first().waitFor();
  await second.getByText("Nothing waits for you.").waitFor();
  expect(feeds.size).toBe(2);
  await context.close();
});

test("a tab that is hidden opens no stream until it is looked at", async () => {
  const first = await stage.page();
  const context = first.context();
  await context.addInitScript(() => {
    let hidden = true;
    Object.defineProperty(document, "hidden", { get: () => hidden });
    Object.assign(globalThis, {
      show: () => {
        hidden = false;
        document.dispatchEvent(new Event("visibilitychange"));
      },
    });
  });
  const streams: string[] = [];
  await startWriter(first);
  const run = first.url().split("#")[1] ?? "";
  const page = await context.newPage();
  page.on("request", (request) => {
    if (request.url().endsWith("/events?view=true")) streams.push(request.url());
  });
  await page.goto(`${stage.address}/#${run}`);
  await page.getByRole("button", { name: "Approve" }).waitFor();
  expect(streams).toEqual([]);
  await page.evaluate(() => (globalThis as unknown as { show: () => void }).show());
  await page.getByRole("treeitem", { name: /write_file/ }).waitFor();
  await expect.poll(() => streams.length).toBeGreaterThan(0);
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await context.close();
});

test("ten run pages of one browser are live, and their questions are answered", async () => {
  const first = await stage.page();
  await startWriter(first);
  const pages = [first];
  for (let count = 1; count < 10; count++) {
    const page = await another(first.context(), "#/");
    await startWriter(page);
    pages.push(page);
  }
  const inbox = await another(first.context(), "#/inbox");
  await inbox.getByText("10 questions", { exact: true }).waitFor();
  for (const page of pages.toReversed()) {
    await page.getByRole("button", { name: "Approve" }).click();
    await page.locator("header [data-state=done]").first().waitFor();
  }
  await inbox.getByText("Nothing waits for you.").waitFor();
  await first.context().close();
});
