/**
 * The tests of the app run against two engines: `llm-do serve`, and the engine in the page (`LLM_DO_E2E_ENGINE=page`). The list
 * has what the page can't do, with its reason; every other test must pass with both.
 */

import { basename } from "node:path";
import { beforeEach } from "vitest";

export const ENGINE: "server" | "page" = process.env["LLM_DO_E2E_ENGINE"] === "page" ? "page" : "server";

/** Files of tests that are about something else than an engine in a page. */
const FILES: Record<string, string> = {};

/** Tests, by the beginning of their names. */
const TESTS: Record<string, string> = {};

beforeEach(({ task, skip }) => {
  if (ENGINE !== "page") return;
  const reason = FILES[basename(task.file.filepath)] ?? Object.entries(TESTS).find(([name]) => task.name.startsWith(name))?.[1];
  if (reason !== undefined) skip(reason);
});
