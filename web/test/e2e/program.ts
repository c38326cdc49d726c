/** A copy of the program that the tests run, with a home of its own. */

import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const DESK = fileURLToPath(new URL("desk", import.meta.url));

export interface Place {
  dir: string;
  home: string;
  remove(): void;
}

export function place(): Place {
  const root = mkdtempSync(join(tmpdir(), "llm-do-web-"));
  const dir = join(root, "desk");
  cpSync(DESK, dir, { recursive: true });
  return { dir, home: join(root, "home"), remove: () => rmSync(root, { recursive: true, force: true }) };
}
