// Makes src/engine/api.ts from the description of a server's interface: the schemas that src/engine/api-fits.ts names. `--check`
// compares instead of writing.
//
//   node scripts/api-types.js [--check] [BINARY]
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import openapi, { astToString } from "openapi-typescript";

const options = process.argv.slice(2);
const check = options.includes("--check");
const binary =
  options.find((option) => !option.startsWith("--")) ??
  process.env["LLM_DO_BIN"] ??
  fileURLToPath(new URL("../../target/debug/llm-do", import.meta.url));
const target = new URL("../src/engine/api.ts", import.meta.url);
const imported = new Set(
  [...readFileSync(new URL("../src/engine/api-fits.ts", import.meta.url), "utf8").matchAll(/Schemas\["(\w+)"\]/g)].map(([, name]) => name),
);

/**
 * The schemas that are imported. A reference to another one is of any type: the page reads that by itself.
 * @param {import("openapi-typescript").OpenAPI3} document
 * @returns {import("openapi-typescript").OpenAPI3}
 */
function needed(document) {
  const schemas = JSON.parse(JSON.stringify(document.components?.schemas ?? {}), (_, value) => {
    const name = typeof value?.["$ref"] === "string" ? value["$ref"].split("/").at(-1) : undefined;
    return name === undefined || imported.has(name) ? value : {};
  });
  const named = Object.entries(schemas).filter(([name]) => imported.has(name));
  return { ...document, paths: {}, components: { schemas: Object.fromEntries(named) } };
}

const dir = mkdtempSync(join(tmpdir(), "llm-do-api-"));
writeFileSync(join(dir, "main.worker"), "---\nmodel: script:none.yaml\n---\nHi.\n");
writeFileSync(join(dir, "none.yaml"), "answers:\n  - text: Hi.\n");
const server = spawn(binary, ["serve", "main.worker", "--listen", "127.0.0.1:0"], {
  cwd: dir,
  env: { PATH: process.env["PATH"], HOME: dir, LLM_DO_HOME: join(dir, "home") },
  stdio: ["ignore", "pipe", "pipe"],
});
try {
  const address = await new Promise((resolve, reject) => {
    /** @param {string} line */
    const read = (line) => {
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(line);
      if (found !== null) resolve(found[0]);
    };
    createInterface({ input: server.stdout }).on("line", read);
    createInterface({ input: server.stderr }).on("line", read);
    server.on("error", reject);
    server.on("exit", (code) => reject(new Error(`the server ended (${code})`)));
  });
  const document = await (await fetch(`${address}/openapi.json`)).json();
  const text = `// Made by scripts/api-types.js from the server's /openapi.json.\n\n${astToString(await openapi(needed(document)))}`;
  if (!check) writeFileSync(target, text);
  else if (readFileSync(target, "utf8") !== text) {
    process.stderr.write("src/engine/api.ts is not what the server describes: run `npm run api-types`\n");
    process.exitCode = 1;
  }
} finally {
  server.removeAllListeners("exit");
  server.kill("SIGKILL");
  rmSync(dir, { recursive: true, force: true });
}
