/** A page as `llm-do page` writes it. */

import { createHash } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface Made {
  dir: string;
  /** Writes another version of the page into the folder. */
  write(program: MadeProgram): void;
  remove(): void;
}

export interface MadeProgram {
  name: string;
  description: string;
  files: Record<string, string>;
  connect: string[];
}

export function made(built: string, program: MadeProgram, engine: Uint8Array = new Uint8Array([0])): Made {
  const root = mkdtempSync(join(tmpdir(), "llm-do-page-"));
  const dir = join(root, "site");
  mkdirSync(dir);
  cpSync(join(built, "assets"), join(dir, "assets"), { recursive: true });
  const write = ({ name, description, files, connect }: MadeProgram): void => {
    const data = JSON.stringify({ name, files: Object.fromEntries(Object.entries(files).map(([path, text]) => [path, { text }])) });
    const sha256 = createHash("sha256").update(data).digest("hex");
    const config = { engine: "assets/engine.bin", program: { name, description, sha256, files: `assets/program-${sha256}.bin` }, model: null, connect };
    const policy =
      "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self' blob:; style-src 'self' 'nonce-n'; img-src 'self' data: blob:; " +
      `connect-src 'self' ${connect.join(" ")}; base-uri 'none'; form-action 'none'`;
    const html = readFileSync(join(built, "page.html"), "utf8")
      .replace("__LLM_DO_POLICY__", policy)
      .replace("__NONCE__", "n")
      .replace("__LLM_DO_TITLE__", name)
      .replace("__LLM_DO_PAGE__", () => JSON.stringify(config).replaceAll("<", "\\u003c"));
    const assets = [...html.matchAll(/"\.\/(assets\/[^"]+)"/g)].map((found) => found[1] ?? "");
    const cached = [...assets, "assets/engine.bin", `assets/program-${sha256}.bin`];
    writeFileSync(join(dir, "index.html"), html);
    writeFileSync(join(dir, "assets/engine.bin"), engine);
    writeFileSync(join(dir, `assets/program-${sha256}.bin`), data);
    const worker = readFileSync(join(built, "sw.js"), "utf8").replace("__LLM_DO_FILES__", cached.join(" ")).replace("__LLM_DO_BUILD__", sha256);
    writeFileSync(join(dir, "sw.js"), worker);
  };
  write(program);
  return { dir, write, remove: () => rmSync(root, { recursive: true, force: true }) };
}
