// How much a browser loads, compressed: the first page, and all that can follow. Fails above the limits.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT = 350_000;
/** The first load of a page that runs the engine, and the engine, which is loaded while the page is shown. */
const PAGE_LIMIT = 600_000;
const ENGINE_LIMIT = 2_000_000;
const dist = new URL("../dist/", import.meta.url);
/** @param {string} name */
const size = (name) => gzipSync(readFileSync(new URL(name, dist)), { level: 9 }).length;

/** @param {string} page */
const firstOf = (page) => {
  const html = readFileSync(new URL(page, dist), "utf8");
  const named = [...html.matchAll(/(?:src|href)="\.\/(assets\/[^"]+)"/g)].map((found) => found[1] ?? "");
  return [page, ...named].map((name) => ({ name, bytes: size(name) }));
};
const first = firstOf("index.html");
const named = first.map(({ name }) => name);
const later = readdirSync(new URL("assets/", dist))
  .map((name) => `assets/${name}`)
  .filter((name) => !named.includes(name))
  .map((name) => ({ name, bytes: size(name) }));

/** @param {{ bytes: number }[]} files */
const sum = (files) => files.reduce((total, file) => total + file.bytes, 0);
for (const { name, bytes } of first) process.stdout.write(`  first page  ${String(bytes).padStart(7)}  ${name}\n`);
for (const { name, bytes } of later) process.stdout.write(`  later       ${String(bytes).padStart(7)}  ${name}\n`);
const all = sum(first) + sum(later);
process.stdout.write(`compressed: first page ${sum(first)} bytes, all ${all} bytes, export page ${size("export.html")} bytes\n`);
if (all > LIMIT) {
  process.stderr.write(`the app has ${all} bytes, more than ${LIMIT}\n`);
  process.exit(1);
}
const page = sum(firstOf("page.html"));
const engine = existsSync(new URL("engine.wasm", dist)) ? size("engine.wasm") : 0;
process.stdout.write(`compressed: first load of a page that runs the engine ${page} bytes; the engine, which follows, ${engine} bytes\n`);
if (page > PAGE_LIMIT || engine > ENGINE_LIMIT) {
  process.stderr.write(`more than ${PAGE_LIMIT} bytes for the page, or ${ENGINE_LIMIT} for the engine\n`);
  process.exit(1);
}
