/** Routes that a server may not have yet, over a folder: files of a run, and definitions of its program. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";

const sha256 = (text: string | Buffer): string => createHash("sha256").update(text).digest("hex");

/** Answers the request if it is for one of these routes. */
export async function standIn(dir: string, binary: string, asked: IncomingMessage, answer: ServerResponse): Promise<boolean> {
  const url = new URL(asked.url ?? "/", "http://x");
  const json = (status: number, body: unknown): true => {
    answer.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    return true;
  };
  const path = url.searchParams.get("path") ?? "";
  if (/^\/v1\/runs\/[^/]+\/files$/.test(url.pathname)) {
    const at = join(dir, path);
    if (!existsSync(at) || !statSync(at).isDirectory()) return json(404, { status: 404, code: "not_found", detail: "there is no such folder" });
    const entries = readdirSync(at, { withFileTypes: true })
      .filter((entry) => !entry.name.startsWith("."))
      .map((entry) => ({
        name: entry.name,
        kind: entry.isDirectory() ? "folder" : "file",
        ...(entry.isDirectory() ? {} : { bytes: statSync(join(at, entry.name)).size }),
        ...(path.startsWith("/inbox") ? { untrusted: true } : {}),
      }));
    return json(200, { path, entries });
  }
  if (/^\/v1\/runs\/[^/]+\/files\/content$/.test(url.pathname)) {
    answer.writeHead(200, { "Content-Type": "application/octet-stream" }).end(readFileSync(join(dir, path)));
    return true;
  }
  const route = /^\/v1\/programs\/[^/]+\/(.*)$/.exec(url.pathname)?.[1];
  if (route === undefined) return false;
  const names = readdirSync(dir, { recursive: true, encoding: "utf8" }).filter((name) => /\.(worker|ya?ml)$/.test(name) && !name.includes(".llm-do"));
  if (route === "files") {
    const files = names.sort().map((name) => {
      const text = readFileSync(join(dir, name));
      return { path: name, sha256: sha256(text), bytes: text.length };
    });
    return json(200, { files });
  }
  if (route === "files/content" && asked.method === "GET") {
    const text = readFileSync(join(dir, path), "utf8");
    return json(200, { path, text, sha256: sha256(text) });
  }
  let body = "";
  for await (const chunk of asked) body += String(chunk);
  const given = JSON.parse(body) as { path: string; text: string; sha256: string | null; files: Record<string, string> };
  if (route === "check") return json(200, { diagnostics: check(binary, dir, given.files) });
  if (sha256(readFileSync(join(dir, given.path))) !== given.sha256) {
    return json(409, { status: 409, code: "file_changed", detail: "the file was changed meanwhile" });
  }
  writeFileSync(join(dir, given.path), given.text);
  return json(200, { sha256: sha256(given.text), diagnostics: check(binary, dir, {}) });
}

function check(binary: string, dir: string, files: Record<string, string>): unknown {
  const copy = mkdtempSync(join(tmpdir(), "llm-do-check-"));
  cpSync(dir, copy, { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(copy, name), text);
  let out: string;
  try {
    out = execFileSync(binary, ["check", "--output", "json", "."], { cwd: copy, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    out = (error as { stdout: string }).stdout;
  }
  rmSync(copy, { recursive: true, force: true });
  return (JSON.parse(out) as { diagnostics: unknown }).diagnostics;
}
