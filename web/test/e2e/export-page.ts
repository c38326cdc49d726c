/** The page of a run, as the exporter makes it. */

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
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

const ID = "20261127-120000-0000";

/** Exports a run that `record` puts into a folder of runs. */
function exportOf(name: string, record: (home: string, runs: string) => void): string {
  const home = mkdtempSync(join(tmpdir(), "llm-do-export-"));
  const page = join(OUTPUT, name);
  const env = { PATH: process.env["PATH"], HOME: home, LLM_DO_HOME: home };
  try {
    record(home, join(home, "runs"));
    execFileSync(BINARY, ["runs", "export", ID, "--html", "-o", page], { cwd: home, env, stdio: "pipe" });
  } finally {
    rmSync(home, { recursive: true });
  }
  return pathToFileURL(page).href;
}

/** Exports a run that these lines record into the output of the tests, and returns the page's address. */
export function exported(lines: string[], name: string): string {
  return exportOf(name, (home, runs) => writeJournal(home, runs, ID, lines));
}

/** The same of the run in that folder. */
export function exportedRun(folder: string, name: string): string {
  return exportOf(name, (_, runs) => cpSync(folder, join(runs, ID), { recursive: true }));
}
