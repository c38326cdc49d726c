/**
 * The tests of the app run against two engines: `llm-do serve`, and the engine in the page (`LLM_DO_E2E_ENGINE=page`). The list
 * has what the page can't do, with its reason; every other test must pass with both.
 */

import { basename } from "node:path";
import { beforeEach } from "vitest";

export const ENGINE: "server" | "page" = process.env["LLM_DO_E2E_ENGINE"] === "page" ? "page" : "server";

/** Files of tests that are about something else than an engine in a page. */
const FILES: Record<string, string> = {
  "sign-in.test.ts": "a page has no server to sign in to",
  "scopes.test.ts": "a page has one visitor, who may do everything",
  "triggers.test.ts": "a page starts nothing by itself",
  "results.test.ts": "tests and maps need the command line",
  "files.test.ts": "a page takes no uploads: a run names files of the page",
  "settlement.test.ts": "a page is not killed between an effect and its record: the engine's own tests do that",
  "tabs.test.ts": "windows of these tests are browsers of their own; page/engine.test.ts has two tabs of one",
  "many.test.ts": "windows of these tests are browsers of their own; page/host.test.ts has tabs of one",
  "looking.test.ts": "runs are started by requests to a server",
  "measure.test.ts": "journals and times are those of a server",
  "keyboard.test.ts": "runs are started by requests to a server; page/page.test.ts has the keyboard",
  "hostile.test.ts": "journals are written beside a server",
  "export.test.ts": "pages of recorded runs have no engine",
};

/** Tests, by the beginning of their names. */
const TESTS: Record<string, string> = {
  "the token of the link": "a page has no token",
  "a reload in the middle": "a reload cuts a run off, and the visitor continues it: page/engine.test.ts",
  "the history is searched": "each window of these tests has runs of its own",
};

beforeEach(({ task, skip }) => {
  if (ENGINE !== "page") return;
  const reason = FILES[basename(task.file.filepath)] ?? Object.entries(TESTS).find(([name]) => task.name.startsWith(name))?.[1];
  if (reason !== undefined) skip(reason);
});
