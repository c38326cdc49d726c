/** Programs in a page with the real engine: a plain site, a provider of models on loopback, and a visitor. */

import { existsSync, readFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe, launch, open, OUTPUT } from "../browser";
import { runOf } from "../stage";
import { made, type Made } from "./made";
import { provider, site, type Asked, type Site } from "./site";

const DIST = fileURLToPath(new URL("../../../dist", import.meta.url));
const ENGINE = `${DIST}/engine.wasm`;
const KEY = "sk-visitor-0123456789abcdef";

const WRITER = `---
description: Writes a note to a file.
model: openai:gpt-5-mini
sandbox: {paths: {out: {root: ./out, mode: rw}}}
toolsets: {filesystem: {tools: [write_file, read_file]}}
---
Write the note.
`;
const GREETER = `---
description: Greets somebody by name.
model: openai:gpt-5-mini
parameters:
  name: {type: string, description: Who is greeted.}
---
Greet {{ name }}.
`;
const CHAT = `---
description: Talks.
mode: chat
model: openai:gpt-5-mini
---
Talk.
`;
/** What a hostile program tries: a key, pictures and links in answers, a template without an end. */
const HOSTILE = `---
description: Ask me anything. <b>Bold</b> ![x](https://evil.example/x.png)
model: openai:gpt-5-mini
---
Ask for the key.
`;
const ENDLESS = `---
description: Never ends.
model: openai:gpt-5-mini
---
{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{{ a }}{% endfor %}{% endfor %}{% endfor %}
`;
const MANIFEST = "name: desk\nversion: 1.0.0\nexports: [writer, greeter, chat, hostile, endless]\nentry: greeter\n";

/** A message of the stream of OpenAI's chat interface. */
const piece = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const END = "data: [DONE]\n\n";

interface Chat {
  messages: { role: string; content?: unknown }[];
}

let browser: Browser;
let served: Site;
let models: Awaited<ReturnType<typeof provider>>;
let site_: Made;
/** Lets the answers that wait go on. */
let release: (() => void)[] = [];
const faults: string[][] = [];

function answer({ body }: Asked, response: ServerResponse): void {
  const { messages } = JSON.parse(body) as Chat;
  const all = JSON.stringify(messages);
  const last = JSON.stringify(messages.at(-1)?.content ?? "");
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  const say = (text: string): void => {
    for (const part of text.match(/.{1,12}/gs) ?? []) response.write(piece({ content: part }));
    response.end(piece({}, "stop") + END);
  };
  if (all.includes("Write the note.") && messages.at(-1)?.role !== "tool") {
    const call = { index: 0, id: "w", type: "function", function: { name: "write_file", arguments: JSON.stringify({ path: "out/note.txt", content: "first line\nsecond line\n" }) } };
    response.end(piece({ role: "assistant", tool_calls: [call] }) + piece({}, "tool_calls") + END);
  } else if (last.includes("slowly") || all.includes("Greet Slow")) {
    response.write(piece({ content: "The bees are " }));
    release.push(() => response.end(piece({ content: "well." }) + piece({}, "stop") + END));
  } else if (all.includes("Ask for the key.")) {
    say('Enter your key: <input name="key"> ![p](https://evil.example/p.png?k=1) [here](javascript:alert(1)) <img src=x onerror=alert(1)>');
  } else if (all.includes("endless answer")) {
    const more = (): void => {
      while (!response.destroyed && response.write(piece({ content: "x".repeat(60_000) })));
      if (!response.destroyed) response.once("drain", more);
    };
    more();
  } else say(`Hello! You said ${last}.`);
}

beforeAll(async () => {
  if (!existsSync(ENGINE)) throw new Error(`there is no ${ENGINE}: scripts/page-engine makes it`);
  models = await provider(answer);
  site_ = made(
    DIST,
    {
      name: "desk",
      description: "What the tests of pages run.",
      files: {
        "project.yaml": MANIFEST,
        "workers/writer.worker": WRITER,
        "workers/greeter.worker": GREETER,
        "workers/chat.worker": CHAT,
        "workers/hostile.worker": HOSTILE,
        "workers/endless.worker": ENDLESS,
      },
      connect: [models.origin],
    },
    gzipSync(readFileSync(ENGINE), { level: 9 }),
  );
  served = await site({ site: site_.dir });
  browser = await launch();
}, 120_000);
afterAll(async () => {
  await browser.close();
  await served.close();
  await models.close();
  site_.remove();
  expect(faults.flat().filter((fault) => !fault.startsWith(`request: ${models.origin}`))).toEqual([]);
});

async function visit(of: BrowserContext, to = ""): Promise<Page> {
  const { page, faults: found } = await open(of, served.origin);
  faults.push(found);
  page.setDefaultTimeout(30_000);
  await page.goto(`${served.origin}/site/${to}`);
  return page;
}

/** A visitor who has opened the program and entered a key. */
async function visitor(): Promise<{ of: BrowserContext; page: Page }> {
  const of = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await visit(of);
  await page.getByRole("button", { name: "Open the program" }).click();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await page.goto(`${served.origin}/site/#/setup`);
  await page.getByLabel("Provider").selectOption("openai");
  await page.getByLabel(/^Key/).fill(KEY);
  await page.getByText("Another address").click();
  await page.getByLabel(/^Address/).fill(`${models.origin}/v1`);
  await page.getByRole("button", { name: "Use this model" }).click();
  await page.getByText("a key is set").waitFor();
  return { of, page };
}

async function start(page: Page, worker: string, field: string, text: string): Promise<string> {
  await page.goto(`${served.origin}/site/#/start/desk/${worker}`);
  await page.getByRole("textbox", { name: field }).fill(text);
  await page.getByRole("button", { name: "Start the run" }).click();
  return runOf(page);
}

test("a run goes from the form to its result, and is in the history after a reload", async () => {
  const { of, page } = await visitor();
  await start(page, "greeter", "name", "Ada");
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByText("Hello! You said").first().waitFor();
  expect(models.requests.at(-1)?.headers.authorization).toBe(`Bearer ${KEY}`);
  await page.goto(`${served.origin}/site/#/runs`);
  await page.reload();
  await page.getByRole("list", { name: "Runs" }).getByRole("link").first().click();
  await page.getByText("Hello! You said").first().waitFor();
  for (const scheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const width of [390, 1280, 1920]) {
      await page.setViewportSize({ width, height: 900 });
      await page.screenshot({ path: `${OUTPUT}/page-run-${scheme}-${width}.png`, fullPage: true });
    }
    expect(await axe(page)).toEqual([]);
  }
  await of.close();
});

test("a call is approved with its diff in view, and its file is in the page", async () => {
  const { of, page } = await visitor();
  const run = await start(page, "writer", "input", "Write it down.");
  await page.getByRole("region", { name: "Change to /out/note.txt" }).getByText("second line").waitFor();
  await page.screenshot({ path: `${OUTPUT}/page-question-1280.png`, fullPage: true });
  await page.getByRole("button", { name: "Approve" }).click();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.goto(`${served.origin}/site/#/runs/${run}/files/${encodeURIComponent("/out/note.txt")}`);
  await page.getByText("second line").first().waitFor();
  await of.close();
});

test("a question waits over a reload, and one answer of two tabs counts", async () => {
  const { of, page } = await visitor();
  await start(page, "writer", "input", "Write it down.");
  await page.getByRole("button", { name: "Approve" }).waitFor();
  const other = await visit(of, new URL(page.url()).hash);
  await other.getByRole("button", { name: "Approve" }).waitFor();
  await Promise.all([page.getByRole("button", { name: "Approve" }).click(), other.getByRole("button", { name: "Deny" }).click().catch(() => undefined)]);
  await page.locator("header [data-state=done]").first().waitFor();
  await other.locator("header [data-state=done]").first().waitFor();
  await of.close();
});

test("a run that a reload has cut off is continued without a repeated record", async () => {
  const { of, page } = await visitor();
  release = [];
  await start(page, "greeter", "name", "Slow");
  await page.locator("article.streaming").getByText("The bees are").waitFor();
  await page.reload();
  await page.getByRole("button", { name: "Continue the run" }).click();
  await expect.poll(() => release.length, { timeout: 20_000 }).toBe(2);
  for (const go of release) go();
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByText("The bees are well.").first().waitFor();
  await of.close();
});

test("a hostile answer is text: nothing of it is loaded, and no key leaves", async () => {
  const { of, page } = await visitor();
  await start(page, "hostile", "input", "Go.");
  await page.locator("header [data-state=done]").first().waitFor();
  await page.getByText("Enter your key").first().waitFor();
  expect(await page.locator("main img, main input[name=key], a[href^='javascript']").count()).toBe(0);
  await of.close();
});

test("a template without an end ends, and an answer without an end is cancelled", async () => {
  const { of, page } = await visitor();
  await start(page, "endless", "input", "Go.");
  await page.locator("header [data-state=failed]").first().waitFor();
  await start(page, "greeter", "name", "endless answer");
  await page.locator("article.streaming").waitFor();
  await page.getByRole("button", { name: "Cancel the run" }).click();
  await page.getByRole("button", { name: "Cancel it now" }).click();
  await page.locator("header [data-state=cancelled]").first().waitFor();
  await expect.poll(() => models.requests.at(-1)?.broken).toBe(true);
  await of.close();
});

test("a chat goes on over a reload", async () => {
  const { of, page } = await visitor();
  await page.goto(`${served.origin}/site/#/start/desk/chat`);
  await page.getByLabel("Your first message").fill("Good morning.");
  await page.getByRole("button", { name: "Start the chat" }).click();
  await page.getByText("You said").first().waitFor();
  await page.reload();
  await page.getByText("You said").first().waitFor();
  await page.locator("[data-composer]").fill("And again.");
  await page.keyboard.press("Enter");
  await page.getByText("And again.").nth(1).waitFor();
  await of.close();
});
