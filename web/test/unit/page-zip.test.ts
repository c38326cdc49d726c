import { zipSync } from "fflate";
import { expect, test } from "vitest";
import { decoded, encoded, type Bytes } from "../../src/page/bytes";
import { pack, unpack } from "../../src/page/zip";

const zip = (files: Record<string, string>): Bytes =>
  zipSync(Object.fromEntries(Object.entries(files).map(([name, text]) => [name, encoded(text)]))) as Bytes;

test("what was packed is unpacked, with runs", () => {
  const files = { "main.worker": encoded("Hello."), ".llm-do/runs/r/journal.jsonl": encoded("{}\n") };
  const found = unpack(pack(files));
  expect(Object.keys(found)).toEqual(Object.keys(files));
  expect(decoded(found["main.worker"] ?? new Uint8Array())).toBe("Hello.");
});

test("the folder around a program is left out", () => {
  expect(Object.keys(unpack(zip({ "desk/main.worker": "a", "desk/in/b.txt": "b", "__MACOSX/x": "c" })))).toEqual(["main.worker", "in/b.txt"]);
});

test("names that lead elsewhere are refused, and secrets are left out", () => {
  for (const name of ["../x", "/etc/x", "a/../../x", "a\\..\\x", "a//b"]) {
    expect(() => unpack(zip({ [name]: "x", "main.worker": "y" })), name).toThrow(/not allowed/);
  }
  expect(Object.keys(unpack(zip({ "main.worker": "a", ".env": "KEY=1", ".git/config": "x" })))).toEqual(["main.worker"]);
});

test("a zip that unpacks to more than the page takes is refused before it is unpacked", () => {
  const bomb = zip({ "main.worker": "a", "x.bin": "0".repeat(1000) });
  // The size in the directory at the end, which a hostile zip chooses.
  const view = new DataView(bomb.buffer, bomb.byteOffset, bomb.byteLength);
  let directory = bomb.length - 22;
  directory = view.getUint32(directory + 16, true);
  view.setUint32(directory + 24, 0x7fffffff, true);
  expect(() => unpack(bomb)).toThrow(/512 MiB/);
  expect(() => unpack(encoded("no zip"))).toThrow(/no zip/);
  expect(() => unpack(zip({}))).toThrow(/empty/);
});
