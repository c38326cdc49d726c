import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Browser } from "playwright-core";
import { axe, launch, open, OUTPUT } from "./browser";
import { exported, exportedRun, line } from "./export-page";
import { runOf, Stage, startChat } from "./stage";

const RECORDED = fileURLToPath(new URL("../../../examples/recorded", import.meta.url));

let browser: Browser;
beforeAll(async () => void (browser = await launch()));
afterAll(() => browser.close());

test.each(["light", "dark"] as const)("a recorded run is read from a file, in %s", async (colorScheme) => {
  const url = exportedRun(join(RECORDED, "mail-assistant/after"), "export.html");
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme, offline: true });
  const { page, faults } = await open(context, "file:");
  await page.goto(url);
  await page.getByRole("treeitem", { name: /send_mail/ }).first().click();
  await page.getByRole("heading", { name: "send_mail" }).waitFor();
  await page.getByText("typed").first().waitFor();
  await page.screenshot({ path: `${OUTPUT}/export-1280-${colorScheme}.png` });
  await page.setViewportSize({ width: 390, height: 844 });
  await page.screenshot({ path: `${OUTPUT}/export-390-${colorScheme}.png` });
  expect(await axe(page)).toEqual([]);
  expect(faults).toEqual([]);
  await context.close();
});

test("the records of every example are shown", async () => {
  const context = await browser.newContext({ offline: true });
  const { page, faults } = await open(context, "file:");
  for (const name of ["analysis", "calculator", "digest", "extractor", "greeter", "helpdesk", "interview", "minutes", "notes", "orchestrator"]) {
    await page.goto(exportedRun(join(RECORDED, name), "export-example.html"));
    await page.getByRole("treeitem").first().waitFor();
    for (const tab of ["Costs", "Calls"]) await page.getByRole("link", { name: tab }).click();
  }
  expect(faults).toEqual([]);
  await context.close();
});

test("a call shows its log lines, and an edited call the arguments that were used", async () => {
  const begun = { kind: "call_started", source: "program", principal: "operator" };
  const lines = [
    line(0, "0", { kind: "run_started", target: "t", entry: "main" }),
    line(1, "0", { ...begun, function: "main", input: "hi" }),
    line(2, "0", { kind: "conversation_started", worker: "main", message: { id: 0, role: "user", parts: [{ part: "text", text: "hi" }] } }),
    line(3, "0", { kind: "model_answered", step: "model.0.0", message: { id: 1, role: "assistant", parts: [{ part: "call", id: "a", name: "pay", arguments: { json: { amount: 900 } } }] }, finish: "tool_calls", usage: {} }),
    line(4, "0/0.0", { ...begun, source: { toolset: "bank" }, principal: { worker: "main" }, function: "pay", input: { amount: 900 } }),
    line(5, "0/0.0", { kind: "asked", step: "ask", question: "approval", chain: ["main"], function: "pay", risk: "write", input: { amount: 900 }, rule: "start" }),
    line(6, "0/0.0", { kind: "answered", step: "ask", answer: "edit", input: { amount: 30 }, by: "ada", via: "http" }),
    line(7, "0/0.0", { kind: "note", step: "log.0", text: "paying now" }),
    line(8, "0/0.0", { kind: "tool_ended", ending: { output: { transfer: "BIG" } }, log: "x".repeat(256 * 1024) }),
    line(9, "0", { kind: "call_ended", ending: { output: "done" }, usage: {} }),
    line(10, "0", { kind: "run_ended", status: "done", ending: { output: "done" }, usage: {} }),
  ];
  const context = await browser.newContext({ offline: true, viewport: { width: 1280, height: 800 } });
  const { page, faults } = await open(context, "file:");
  await page.goto(exported(lines.map((text) => text.replace('"BIG"', "9007199254740993")), "export-edited.html"));
  const made = page.getByRole("article", { name: "Answer" }).locator("summary", { hasText: "pay" });
  await made.getByText("edited").waitFor();
  expect(await made.innerText()).toContain('{"amount":30}');
  expect(await made.innerText()).not.toContain("900");
  await page.getByRole("treeitem", { name: /pay/ }).click();
  const input = page.locator("section", { has: page.getByRole("heading", { name: /^Input/ }) }).last();
  expect(await input.locator(".scalar:visible").allInnerTexts()).toEqual(["30"]);
  await input.getByText("As the caller gave it, not used").click();
  expect(await input.locator(".scalar").allInnerTexts()).toEqual(["30", "900"]);
  await page.getByText("9007199254740993").waitFor();
  const log = page.getByRole("region", { name: "Log" });
  await log.getByText("paying now").waitFor();
  await log.getByText("The journal keeps the first 256 KiB.").waitFor();
  await page.screenshot({ path: `${OUTPUT}/export-edited-1280.png` });
  expect(faults).toEqual([]);
  await context.close();
});

test.each([390, 1280, 1920])("costs, tables and right-to-left texts are whole at %i pixels", async (width) => {
  const head = Array.from({ length: 9 }, (_, at) => `column${at}`);
  const row = head.map((_, at) => String(1234567890 + at));
  const answer = `| ${head.join(" | ")} |\n|${"--:|".repeat(9)}\n| ${row.join(" | ")} |\n\n\u05e9\u05dc\u05d5\u05dd world\n\nplain words`;
  const lines = [
    line(0, "0", { kind: "run_started", target: "t", entry: "main" }),
    line(1, "0", { kind: "call_started", source: "program", principal: "operator", function: "main", input: "hi" }),
    line(2, "0", { kind: "conversation_started", worker: "main", message: { id: 0, role: "user", parts: [] } }),
    line(3, "0", { kind: "model_answered", step: "model.0.0", message: { id: 1, role: "assistant", parts: [{ part: "text", text: answer }] }, finish: "stop", usage: { input_tokens: 1000, output_tokens: 2, cost_usd: 0.0000042 } }),
    line(4, "0", { kind: "call_ended", ending: { output: answer }, usage: {} }),
    line(5, "0", { kind: "run_ended", status: "done", ending: { output: answer }, usage: {} }),
  ];
  const context = await browser.newContext({ offline: true, viewport: { width, height: 900 } });
  const { page, faults } = await open(context, "file:");
  await page.goto(exported(lines, `export-whole-${width}.html`));
  await page.getByRole("treeitem").first().waitFor();
  const money = page.getByRole("treeitem").first().locator(".money");
  if (await money.isVisible()) {
    expect(await money.innerText()).toBe("$0.0000042");
    expect(await money.evaluate((cell) => cell.scrollWidth <= cell.clientWidth)).toBe(true);
  }
  const cell = page.getByRole("cell", { name: "1234567890" }).first();
  expect(await cell.evaluate((element) => [element.getClientRects().length, Math.round(element.clientHeight / parseFloat(getComputedStyle(element).lineHeight))])).toEqual([1, 1]);
  expect(await cell.evaluate((element) => getComputedStyle(element).textAlign)).toBe("right");
  const direction = (text: string): Promise<string> => page.locator(".markdown p", { hasText: text }).first().evaluate((element) => getComputedStyle(element).direction);
  expect([await direction("world"), await direction("plain words")]).toEqual(["rtl", "ltr"]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await page.screenshot({ path: `${OUTPUT}/whole-${width}.png`, fullPage: true });
  expect(faults).toEqual([]);
  await context.close();
});

test.each([390, 1280, 1920])("the failing call of a failed run is one click away at %i pixels", async (width) => {
  const begun = { kind: "call_started", source: { toolset: "x" }, principal: "operator", input: {} };
  const failed = (kind: string): Record<string, unknown> => ({ kind, ending: { failure: { kind: "tool", message: "host is away" } }, usage: {} });
  const lines = [
    line(0, "0", { kind: "run_started", target: "t", entry: "main" }),
    line(1, "0", { ...begun, source: "program", function: "main" }),
    line(2, "0/0.0", { ...begun, function: "look" }),
    line(3, "0/0.0", { kind: "tool_ended", ending: { output: 1 } }),
    line(4, "0/0.1", { ...begun, function: "fetch" }),
    line(5, "0/0.1", { ...failed("tool_ended"), at_ms: 90 }),
    line(6, "0", { ...failed("call_ended"), at_ms: 100 }),
    line(7, "0", { kind: "run_ended", at_ms: 110, status: "failed", ending: { failure: { kind: "tool", message: "host is away" } }, usage: {} }),
  ];
  const context = await browser.newContext({ offline: true, viewport: { width, height: 900 } });
  const { page, faults } = await open(context, "file:");
  await page.goto(exported(lines, `export-failing-${width}.html`));
  await page.getByRole("link", { name: "Failing call: fetch" }).click();
  await page.getByRole("heading", { name: "fetch" }).waitFor();
  await page.getByRole("button", { name: "2 failed" }).click();
  expect(await page.getByRole("treeitem").count()).toBe(2);
  await page.getByRole("button", { name: /^Slowest: fetch/ }).click();
  expect(await page.getByRole("treeitem").count()).toBe(3);
  await page.getByRole("heading", { name: "fetch" }).waitFor();
  expect(await axe(page)).toEqual([]);
  expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  await page.screenshot({ path: `${OUTPUT}/failing-${width}.png` });
  expect(faults).toEqual([]);
  await context.close();
});

test("words of a run are never executed in its page", async () => {
  const hostile = `</script><script>document.title="owned"</script><img src=x onerror="document.title='owned'">`;
  const lines = [
    line(0, "0", { kind: "run_started", run: hostile, target: hostile, entry: hostile }),
    line(1, "0", { kind: "call_started", function: hostile, source: { toolset: hostile }, principal: { worker: hostile }, input: JSON.parse(`{${JSON.stringify(hostile)}:${JSON.stringify(hostile)},"__proto__":{"polluted":1}}`) as object }),
    line(2, "0", { kind: "tool_ended", ending: { output: hostile }, log: hostile, blobs: [{ name: hostile, media_type: "image/svg+xml", data: btoa("<svg onload=alert(1)>") }] }),
  ];
  const context = await browser.newContext({ offline: true });
  const { page, faults } = await open(context, "file:");
  await page.goto(exported(lines, "export-hostile.html"));
  await page.getByRole("treeitem").first().waitFor();
  await page.getByText("onerror").first().waitFor();
  expect(await page.title()).not.toBe("owned");
  expect(await page.locator("img").count()).toBe(0);
  expect(faults).toEqual([]);
  await context.close();
});

test("the server's own export opens from a file", async () => {
  const stage = await Stage.open();
  const page = await stage.page();
  await startChat(page, "Hello");
  await page.getByText("You said: Hello").waitFor();
  const id = await runOf(page);
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export" }).click()]);
  expect(file.suggestedFilename()).toBe(`${id}.html`);
  const path = join(OUTPUT, "export-server.html");
  await file.saveAs(path);
  const context = await browser.newContext({ offline: true });
  const other = await open(context, "file:");
  await other.page.goto(pathToFileURL(path).href);
  await other.page.getByText("You said: Hello").first().waitFor();
  expect(other.faults).toEqual([]);
  await context.close();
  await stage.close();
});
