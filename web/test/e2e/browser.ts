/** Chromium, and what the tests of the pages have in common. */

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";

export const OUTPUT = fileURLToPath(new URL("../../test-output", import.meta.url));
mkdirSync(OUTPUT, { recursive: true });

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const LAUNCH = {
  executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
  args: [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
};

export function launch(): Promise<Browser> {
  return chromium.launch(LAUNCH);
}

/** A browser with a profile on disk. */
export function launchKept(profile: string): Promise<BrowserContext> {
  return chromium.launchPersistentContext(profile, LAUNCH);
}

/** What a page must never do. */
export interface Watched {
  page: Page;
  /** Errors of scripts, refusals by the policy, and requests to other hosts. */
  faults: string[];
}

export async function open(context: BrowserContext, own: string): Promise<Watched> {
  const page = await context.newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(`script: ${error.message}\n${error.stack ?? ""}`));
  page.on("console", (message) => {
    const text = message.text();
    // A browser writes each refused or failed request to the console. The tests cause some on purpose.
    if (message.type() === "error" && !/Failed to load resource|net::ERR_/.test(text)) faults.push(`console: ${text}`);
  });
  page.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(own) && !/^(blob|data|file):/.test(url)) faults.push(`request: ${url}`);
  });
  page.setDefaultTimeout(10_000);
  return { page, faults };
}

/** The serious and critical findings of axe. */
export async function axe(page: Page): Promise<string[]> {
  return page.evaluate(async (source) => {
    // Through the debugger, which no policy holds back.
    (0, eval)(source);
    const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: AxeFinding[] }> } }).axe;
    const { violations } = await run.run();
    return violations
      .filter((found) => found.impact === "serious" || found.impact === "critical")
      .map((found) => `${found.id}: ${found.help}: ${found.nodes.map((node) => node.html.slice(0, 160)).slice(0, 4).join(" | ")}`);
    interface AxeFinding {
      id: string;
      impact: string;
      help: string;
      nodes: { html: string }[];
    }
  }, AXE);
}
