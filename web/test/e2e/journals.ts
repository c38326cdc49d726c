/** Journals that a test writes, with the seals of the user whose server is to show them (`docs/reference/journal.md`). */

import { createHmac, randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** The key of a user's folder, which is made if there is none. */
function keyOf(home: string): Buffer {
  const file = join(home, "journal.key");
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(32).toString("base64").replace(/=+$/, "")}\n`, { mode: 0o600 });
  return Buffer.from(readFileSync(file, "utf8").trim(), "base64");
}

/** Writes the records of a run, or their lines, sealed, into its folder. */
export function writeJournal(home: string, runs: string, id: string, records: (object | string)[]): void {
  const key = keyOf(home);
  let before = id;
  const lines = records.map((record) => {
    const line = typeof record === "string" ? record : JSON.stringify(record);
    const mac = createHmac("sha256", key).update(before).update(line).digest().subarray(0, 16);
    before = mac.toString("base64").replace(/=+$/, "");
    return `${line.slice(0, -1)},"seal":"${before}"}\n`;
  });
  mkdirSync(join(runs, id), { recursive: true });
  writeFileSync(join(runs, id, "journal.jsonl"), lines.join(""));
}
