/** Forms of all kinds of schemas, and arguments that are edited in one. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, OUTPUT } from "./browser";
import { Clicks } from "./clicks";
import type { Place } from "./program";
import { Stage, startWriter } from "./stage";

const BOOKING = `---
description: Books a room.
parameters:
  type: object
  required: [contact, days, prices, at]
  properties:
    contact:
      description: How the guest is reached.
      oneOf:
        - {title: By mail, type: object, required: [mail], properties: {mail: {type: string}}}
        - {title: By phone, type: object, required: [phone], properties: {phone: {type: integer}}}
    days: {type: array, minItems: 1, items: {enum: [mon, tue, wed]}}
    prices: {type: object, additionalProperties: {type: number, minimum: 0}}
    at: {type: string, format: date-time}
    remark: {type: string}
model: script:scripts/order.yaml
returns: {accepted: boolean}
---
Book it.
`;
function booking({ dir }: Place): void {
  writeFileSync(join(dir, "workers/booking.worker"), BOOKING);
  const project = join(dir, "project.yaml");
  writeFileSync(project, readFileSync(project, "utf8").replace("exports: [", "exports: [booking, "));
}

let stage: Stage;
beforeAll(async () => void (stage = await Stage.open(["--edit"], booking)));
afterAll(() => stage.close());

// Before: alternatives, maps and lists of choices were JSON to be typed, or a list box for each entry (3 clicks an entry).
test("alternatives, maps, chips and dates are filled in with 6 clicks and no JSON", async () => {
  const page = await stage.page("#/start/desk/booking");
  const clicks = new Clicks();
  const contact = page.getByRole("group", { name: /contact/ });
  expect(await contact.getByRole("textbox", { name: "mail" }).getAttribute("aria-required")).toBe("true");
  await clicks.choose(contact.getByRole("combobox"), "By phone");
  await contact.getByRole("textbox", { name: "phone" }).fill("12345");
  await clicks.on(page.getByRole("button", { name: "mon" }));
  await clicks.on(page.getByRole("button", { name: "wed" }));
  const prices = page.getByRole("group", { name: /prices/ });
  await clicks.on(prices.getByRole("button", { name: "Add an entry" }));
  await prices.getByRole("textbox", { name: "prices 1, name" }).fill("single");
  await prices.getByRole("textbox", { name: "value" }).fill("-1");
  await page.keyboard.press("Tab");
  await prices.getByText("At least 0.").waitFor();
  await page.getByRole("textbox", { name: "at", exact: true }).fill("2026-01-31 14:30");

  // The problem is at its line of the JSON.
  await page.getByRole("button", { name: "JSON" }).click();
  await page.getByRole("list", { name: "Problems" }).getByText(/Line 10: .*At least 0\./).waitFor();
  await page.locator(".cm-lint-marker-error").waitFor();
  await page.getByRole("button", { name: "Form" }).click();
  await prices.getByRole("textbox", { name: "value" }).fill("80");
  expect(await axe(page)).toEqual([]);
  for (const width of [390, 1280, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    await page.screenshot({ path: `${OUTPUT}/booking-${width}.png`, fullPage: true });
  }
  await clicks.on(page.getByRole("button", { name: "Start the run" }));
  await page.locator("header [data-state=done]").first().waitFor();
  expect(clicks.count).toBe(6);
  const run = /runs\/([^/]+)/.exec(page.url())?.[1] ?? "";
  const journal = await stage.read(page, `.llm-do/runs/${run}/journal.jsonl`);
  expect(journal).toContain('{"contact":{"phone":12345},"days":["mon","wed"],"prices":{"single":80},"at":"2026-01-31 14:30"}');
  await page.context().close();
});

// Before: the whole arguments as one JSON text, in which the content's lines were \\n, and without its diff.
test("the content of a file is edited as text with its diff redrawn, in 2 clicks", async () => {
  const page = await stage.page();
  await startWriter(page);
  const clicks = new Clicks();
  await clicks.on(page.getByRole("button", { name: "Edit arguments" }));
  const content = page.getByRole("textbox", { name: "content" });
  await expect.poll(() => content.inputValue()).toBe("first line\nsecond line\n");
  await content.fill("first line\nedited line\n");
  await page.getByText("The change with these arguments").waitFor();
  const changes = page.getByRole("region", { name: "Change to /out/note.txt" });
  await changes.last().getByText("edited line").waitFor();
  await page.getByRole("textbox", { name: "path" }).fill("out/other.txt");
  await page.getByText("the tool decides").waitFor();
  await page.getByRole("textbox", { name: "path" }).fill("out/note.txt");
  expect(await axe(page)).toEqual([]);
  await clicks.on(page.getByRole("button", { name: "Call with these arguments" }));
  await page.locator("header [data-state=done]").first().waitFor();
  expect(await stage.read(page, "out/note.txt")).toBe("first line\nedited line\n");
  expect(clicks.count).toBe(2);
  await page.context().close();
});

// Before: one click ended a run, and nothing asked.
test("cancelling asks first, and the key that asked does not answer", async () => {
  const page = await stage.page("#/start/desk/slow");
  await page.getByRole("textbox", { name: "input" }).fill("Think.");
  await page.getByRole("button", { name: "Start the run" }).click();
  const cancel = page.getByRole("button", { name: "Cancel the run" });
  await cancel.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Let it run" }).and(page.locator(":focus")).waitFor();
  await page.keyboard.press("Escape");
  await cancel.and(page.locator(":focus")).waitFor();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator("header [data-state=cancelled]").first().waitFor();
  await page.context().close();
});
