import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, test } from "node:test";
import { findProgram, type Found, type Places } from "../src/program.ts";

let root: string;
beforeEach(() => (root = mkdtempSync(join(tmpdir(), "llm-do-places-"))));
afterEach(() => rmSync(root, { recursive: true }));

function program(path: string, mode = 0o755): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, "#!/bin/sh\n");
  chmodSync(file, mode);
  return file;
}
const places = (given: Partial<Places> = {}): Places => ({
  setting: "",
  folders: [join(root, "workspace")],
  trusted: true,
  path: join(root, "path"),
  extension: join(root, "extension"),
  ...given,
});
const found = (it: Found): string => ("program" in it ? it.program : it.problem);

test("the setting wins over the PATH, the PATH over the workspace, the workspace over the extension", () => {
  const packed = program("extension/bin/llm-do");
  assert.deepEqual(findProgram(places()), { program: packed, from: "extension" });
  const node = program("workspace/node_modules/.bin/llm-do");
  assert.deepEqual(findProgram(places()), { program: node, from: "workspace" });
  const python = program("workspace/.venv/bin/llm-do");
  assert.equal(found(findProgram(places())), python);
  const path = program("path/llm-do");
  assert.deepEqual(findProgram(places()), { program: path, from: "PATH" });
  const set = program("elsewhere/llm-do");
  assert.deepEqual(findProgram(places({ setting: set })), { program: set, from: "setting" });
  assert.equal(found(findProgram(places({ setting: ".venv/bin/llm-do" }))), python);
  const named = program("path/llm-do-next");
  assert.equal(found(findProgram(places({ setting: "llm-do-next" }))), named);
});

test("a setting that names nothing is a problem, and no other program starts in its place", () => {
  program("path/llm-do");
  const missing = join(root, "gone/llm-do");
  const it = findProgram(places({ setting: missing }));
  assert.deepEqual(it, { problem: `The setting llm-do.path is "${missing}", and no such program exists.`, tried: [missing] });
});

test("no program of an untrusted workspace is found, wherever a setting or the PATH leads", () => {
  program("workspace/.venv/bin/llm-do");
  program("workspace/node_modules/.bin/llm-do");
  program("workspace/bin/llm-do");
  const untrusted = { trusted: false, path: join(root, "workspace/bin") };
  assert.equal(found(findProgram(places(untrusted))), "The program llm-do was not found.");
  assert.match(found(findProgram(places({ ...untrusted, setting: "bin/llm-do" }))), /not trusted/);
  assert.equal(found(findProgram(places({ path: join(root, "workspace/bin") }))), join(root, "workspace/bin/llm-do"));
});

test("folders, files without the right to execute and relative parts of the PATH are no programs", () => {
  mkdirSync(join(root, "path/llm-do"), { recursive: true });
  program("extension/bin/llm-do", 0o644);
  const it = findProgram(places({ path: `${join(root, "path")}:.:relative` }));
  assert.ok("tried" in it);
  assert.deepEqual(it.tried.length, 4);
});
