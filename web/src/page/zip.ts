/** Programs as zip files. What a zip says of itself is not believed: names and sizes are checked before anything is written. */

import { unzipSync, zipSync } from "fflate";
import type { Bytes } from "./bytes";
import { namesOf, StoreError } from "./store";

/** Bounds of a zip that is read. */
const MOST_FILES = 20_000;
const MOST_BYTES = 512 * 1024 * 1024;

export function pack(files: Record<string, Bytes>): Bytes {
  return zipSync(files, { level: 6 }) as Bytes;
}

/** Unpacks a program. A single folder at the top, which is how folders are zipped, is left out. */
export function unpack(zip: Bytes): Record<string, Bytes> {
  let count = 0;
  let sum = 0;
  let files: Record<string, Uint8Array>;
  try {
    files = unzipSync(zip, {
      filter: ({ name, originalSize }) => {
        if (name.endsWith("/") || name.startsWith("__MACOSX/")) return false;
        count++;
        sum += originalSize;
        if (count > MOST_FILES) throw new StoreError("other", `the zip has more than ${MOST_FILES} files`);
        if (sum > MOST_BYTES) throw new StoreError("other", "the files in the zip have more than 512 MiB");
        return true;
      },
    });
  } catch (error) {
    if (error instanceof StoreError) throw error;
    throw new StoreError("other", `the file is no zip that this page can read: ${error instanceof Error ? error.message : String(error)}`);
  }
  const names = Object.keys(files);
  if (names.length === 0) throw new StoreError("other", "the zip is empty");
  const top = names[0]?.split("/", 1)[0] ?? "";
  const isWrapped = names.every((name) => name.startsWith(`${top}/`));
  const found: Record<string, Bytes> = {};
  for (const [name, bytes] of Object.entries(files)) {
    const path = isWrapped ? name.slice(top.length + 1) : name;
    const parts = namesOf(path);
    // Secrets and settings of a machine are no part of a program.
    if (parts.some((part) => part === ".env" || part === ".git")) continue;
    found[path] = bytes as Bytes;
  }
  return found;
}
