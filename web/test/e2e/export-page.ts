/** The page of a run, as the exporter makes it. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { OUTPUT } from "./browser";
import { writeJournal } from "./journals";
import { BINARY } from "./server";

/** Fields that a record of that kind must have, where a test does not care. */
const REST: Record<string, object> = {
  run_started: { format: 2, run: "20261127-120000-0000", version: "0", approval: "interactive", date: "2026-11-27", definitions: [] },
  conversation_started: { model: "script:m", system: "", tools: [], can: { native_schema: false, tools: true } },
};

/** The line of a record, from what matters of it. */
export function line(seq: number, path: string, fields: Record<string, unknown>): string {
  return JSON.stringify({ seq, at_ms: seq, path, step: "x", ...REST[String(fields["kind"])], ...fields });
}

function exportOf(run: string, home: string, name: string): string {
  const page = join(OUTPUT, name);
  const env = { PATH: process.env["PATH"], HOME: home, LLM_DO_HOME: home };
  execFileSync(BINARY, ["runs", "export", run, "--html", "-o", page], { cwd: home, env });
  return pathToFileURL(page).href;
}

/** Exports a run that these lines record into the output of the tests, and returns the page's address. */
export function exported(lines: string[], name: string): string {
  const home = mkdtempSync(join(tmpdir(), "llm-do-export-"));
  const id = "20261127-120000-0000";
  try {
    writeJournal(home, home, id, lines);
    return exportOf(join(home, id), home, name);
  } finally {
    rmSync(home, { recursive: true });
  }
}

/** The same of the run in that folder. */
export function exportedRun(folder: string, name: string): string {
  const home = mkdtempSync(join(tmpdir(), "llm-do-export-"));
  try {
    return exportOf(folder, home, name);
  } finally {
    rmSync(home, { recursive: true });
  }
}
