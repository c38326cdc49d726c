/** The page of a run, as the exporter makes it. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { OUTPUT } from "./browser";

const TEMPLATE = fileURLToPath(new URL("../../dist/export.html", import.meta.url));

/** Writes it into the output of the tests, and returns its address. */
export function exported(records: string, name: string): string {
  const held = { format: 1, encoding: "gzip+base64", records: gzipSync(records).toString("base64") };
  const path = join(OUTPUT, name);
  writeFileSync(path, readFileSync(TEMPLATE, "utf8").replace("__LLM_DO_RUN__", () => JSON.stringify(held)));
  return pathToFileURL(path).href;
}
