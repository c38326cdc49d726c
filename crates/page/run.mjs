// Runs the module and the same engine as a native program side by side over one page in memory, and checks that they ask
// for the same effects, byte for byte.
//
//     node run.mjs llm_do_page.wasm NATIVE

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { createInterface } from "node:readline";

const module = await WebAssembly.compile(await readFile(process.argv[2]));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the module imports nothing");

/** An engine: the module and the native program. */
class Both {
  #exports;
  #native = spawn(process.argv[3], { stdio: ["pipe", "pipe", "inherit"] });
  #lines = createInterface({ input: this.#native.stdout, crlfDelay: Infinity })[Symbol.asyncIterator]();
  /** How long the module worked, in milliseconds. */
  worked = 0;

  static async make() {
    const both = new Both();
    both.#exports = (await WebAssembly.instantiate(module, {})).exports;
    return both;
  }

  async step(message) {
    const json = JSON.stringify(message);
    const bytes = new TextEncoder().encode(json);
    const began = performance.now();
    const at = this.#exports.allocate(bytes.length);
    new Uint8Array(this.#exports.memory.buffer, at, bytes.length).set(bytes);
    const packed = this.#exports.step(at, bytes.length);
    const [from, length] = [Number(BigInt.asUintN(64, packed) >> 32n), Number(packed & 0xffffffffn)];
    const effects = Buffer.from(this.#exports.memory.buffer, from, length).toString();
    this.worked += performance.now() - began;
    this.#native.stdin.write(json + "\n");
    const { value } = await this.#lines.next();
    assert.equal(effects, value, "the module asks for what the native program asks for");
    return JSON.parse(effects).effects;
  }

  end() {
    this.#native.stdin.end();
  }
}

const base64 = (bytes) => Buffer.from(bytes).toString("base64");

/** A page in memory. */
class Page {
  answers = new Map();
  #inputs = [];
  #now = 1795996800000;
  #last = 0;
  #timers = new Map();

  constructor(engine, files, options) {
    this.engine = engine;
    this.files = new Map(Object.entries(files).map(([path, text]) => [path, Buffer.from(text)]));
    const entropy = base64(new Uint8Array(32).fill(1));
    this.#inputs.push({ input: "start", entropy, seal_key: base64(new Uint8Array(32).fill(7)) });
    this.#inputs.push({ input: "options", ...options });
  }

  async ask(method, path, body) {
    const id = ++this.#last;
    this.#inputs.push({ input: "request", id, method, path, headers: {}, body: body && JSON.stringify(body) });
    while (this.#inputs.length > 0 || this.#timers.size > 0) {
      // A timer fires when nothing else happens.
      if (this.#inputs.length === 0) {
        const [[id, due]] = [...this.#timers].sort(([, a], [, b]) => a - b);
        this.#timers.delete(id);
        this.#now = Math.max(this.#now, due);
        this.#done(id);
      }
      const message = { now_ms: ++this.#now, today: "2026-11-29", inputs: this.#inputs };
      this.#inputs = [];
      for (const effect of await this.engine.step(message)) this.#perform(effect);
    }
    const { status, text, base64: bytes } = this.answers.get(id);
    return { status, text: bytes ? Buffer.from(bytes, "base64").toString() : text };
  }

  async json(method, path, body) {
    const { status, text } = await this.ask(method, path, body);
    assert(status < 300, text);
    return text ? JSON.parse(text) : undefined;
  }

  text(path) {
    return this.files.get(path)?.toString();
  }

  #done(id, result = {}) {
    this.#inputs.push({ input: "done", id, ...result });
  }

  #fail(id, kind) {
    this.#inputs.push({ input: "failed", id, error: { kind, message: kind } });
  }

  #kind(path) {
    if (this.files.has(path)) return "file";
    return path === "" || [...this.files.keys()].some((file) => file.startsWith(`${path}/`)) ? "folder" : undefined;
  }

  #perform(effect) {
    const { id, path } = effect;
    switch (effect.effect) {
      case "append":
        this.files.set(path, Buffer.concat([this.files.get(path) ?? Buffer.alloc(0), Buffer.from(effect.text)]));
        break;
      case "store":
      case "write":
        this.files.set(path, Buffer.from(effect.base64, "base64"));
        if (effect.effect === "write") this.#done(id);
        break;
      case "read": {
        const content = this.files.get(path);
        if (content === undefined) return this.#fail(id, "missing");
        const piece = content.subarray(effect.from, Math.min(content.length, effect.from + effect.most));
        this.#done(id, { base64: base64(piece), bytes: content.length });
        break;
      }
      case "stat": {
        const kind = this.#kind(path);
        if (kind === undefined) return this.#fail(id, "missing");
        this.#done(id, { kind, bytes: this.files.get(path)?.length ?? 0 });
        break;
      }
      case "list": {
        if (this.#kind(path) !== "folder") return this.#fail(id, "missing");
        const prefix = path === "" ? "" : `${path}/`;
        const found = new Map();
        for (const [file, content] of this.files) {
          if (!file.startsWith(prefix)) continue;
          const parts = file.slice(prefix.length).split("/");
          for (let depth = 1; depth <= parts.length; depth++) {
            if (depth > 1 && (!effect.deep || [".git", "node_modules", ".llm-do"].includes(parts[depth - 2]))) break;
            const isFile = depth === parts.length;
            found.set(parts.slice(0, depth).join("/"), { kind: isFile ? "file" : "folder", bytes: isFile ? content.length : 0 });
          }
        }
        const paths = [...found.keys()].sort();
        this.#done(id, { entries: paths.slice(0, effect.most).map((path) => ({ path, ...found.get(path) })), cut: paths.length > effect.most });
        break;
      }
      case "lock":
      case "folder":
        this.#done(id);
        break;
      case "wait":
        this.#timers.set(id, this.#now + effect.ms);
        break;
      case "abort":
        this.#timers.delete(id);
        break;
      case "respond":
        this.answers.set(effect.request, { status: effect.status, text: effect.text, base64: effect.base64 });
        break;
      case "piece": {
        const answer = this.answers.get(effect.request);
        answer.text = (answer.text ?? "") + effect.text;
        break;
      }
      case "unlock":
      case "end":
        break;
      default:
        assert.fail(`no effect ${effect.effect}`);
    }
  }
}

const project = {
  "notes/project.yaml": "name: notes\nsandbox:\n  paths:\n    input: ./input\n    output: {root: ./output, mode: rw}\n",
  "notes/main.worker": `---
description: Writes what was decided.
toolsets:
  filesystem:
    approval: {tools: {write_file: preApproved}}
allow_workers: [reader]
---
You keep the minutes of {{ project.name }}.{% if input %} Asked: {{ input }}.{% endif %}
`,
  "notes/workers/reader.worker": `---
description: Finds the decision in a text.
parameters: {text: string}
returns: {decision: string, votes: integer}
---
Find the decision in: {{ text | upper }}
`,
  "notes/input/meeting.txt": `We paint it blue. Seven for, none against. The key is hunter2hunter2.\n${"And so on. ".repeat(600)}`,
  "notes/script.yaml": `answers:
- when: {worker: main, turn: 0}
  calls:
  - {tool: read_file, arguments: {path: /input/meeting.txt}}
  - {tool: read_file, arguments: {path: /secrets.txt}}
- when: {worker: main, turn: 1}
  calls:
  - {tool: reader, arguments: {text: We paint it blue.}}
  - {tool: reader, arguments: {text: 7}}
- when: {worker: reader, turn: 0}
  json: {decision: blue}
- when: {worker: reader}
  json: {decision: blue, votes: 7}
- when: {worker: main, turn: 2}
  calls:
  - {tool: write_file, arguments: {path: /output/minutes.md, content: "# Blue\\n"}}
- when: {worker: main}
  text: Blue it is.
`,
};
const options = { model: "script:script.yaml", keys: { DOOR_KEY: "hunter2hunter2" } };

const engine = await Both.make();
const page = new Page(engine, project, options);
const { run } = await page.json("POST", "/v1/runs", { program: "notes", message: "What was decided?" });
const view = await page.json("GET", `/v1/runs/${run}`);
const journal = page.text(`notes/.llm-do/runs/${run}/journal.jsonl`);
if (process.env.SHOW) console.log(journal);
assert.equal(view.output, "Blue it is.", JSON.stringify(view));
assert.equal(page.text("notes/output/minutes.md"), "# Blue\n");

const records = journal.trimEnd().split("\n").map((line) => JSON.parse(line));
records.forEach((record, at) => assert.equal(record.seq, at));
const ended = (path) =>
  records.find((r) => r.path === path && (r.kind === "tool_ended" || r.kind === "call_ended"))?.ending;
assert.equal(ended("0/0.1").failure.kind, "authority");
assert.deepEqual(ended("0/1.0").output, { decision: "blue", votes: 7 });
assert.equal(ended("0/1.1").failure.kind, "invalid_input");

// The files of the run hold its long value once and its secret never.
const blobs = [...page.files.keys()].filter((path) => path.includes("/blobs/")).map((path) => page.text(path));
const [meeting, ...others] = blobs.filter((text) => text.includes("We paint it blue"));
assert.match(meeting, /The key is \[secret DOOR_KEY\]/);
assert.deepEqual(others, []);
assert(!blobs.join().includes("hunter2"));
assert(!journal.includes("hunter2"));

// Replayed, the run is the same; a changed program differs where it was changed.
const same = await page.json("POST", `/v1/runs/${run}/replay`);
assert.deepEqual([same.whole, same.divergence], [true, null]);
assert.deepEqual(same.compared, { calls: 6, requests: 6, tools: 2 });
page.files.set("notes/workers/reader.worker", Buffer.from(project["notes/workers/reader.worker"].replace("Find the", "Look for the")));
const changed = new Page(await Both.make(), {}, options);
changed.files = page.files;
const { divergence } = await changed.json("POST", `/v1/runs/${run}/replay`);
assert.equal(divergence.path, "0/1.0");
assert.deepEqual(divergence.sections.map(({ name }) => name), ["instructions"]);
changed.engine.end();

// Half a record is followed to its end.
const half = records.slice(0, records.length / 2).map((record) => JSON.stringify(record) + "\n");
const cut = new Page(await Both.make(), { ...project, [`notes/.llm-do/runs/${run}/journal.jsonl`]: half.join("") }, options);
for (const [path, content] of page.files) if (path.includes("/blobs/")) cut.files.set(path, content);
const part = await cut.json("POST", `/v1/runs/${run}/replay`);
assert.deepEqual([part.whole, part.divergence], [false, null]);
cut.engine.end();

// The page of the run, and its stream.
const { text: html } = await page.ask("GET", `/v1/runs/${run}/export`);
assert.match(html, /^<!doctype html>[\s\S]*We paint it blue[\s\S]*<\/html>\s*$/i);
assert(!html.includes("hunter2"));
const { text: events } = await page.ask("GET", `/v1/runs/${run}/events?view=true`);
assert.equal(events.match(/^event: record$/gm).length, records.length);
engine.end();

// A run that the native binary has recorded is replayed and shown here.
const examples = new URL("../../examples/", import.meta.url);
const read = async (folder, to, filter) => {
  const names = (await readdir(new URL(folder, examples), { recursive: true })).filter(filter).sort();
  const files = names.map(async (name) => [to + name, await readFile(new URL(folder + name, examples), "utf8")]);
  return Object.fromEntries(await Promise.all(files));
};
const native = "20260101-000000-0000";
const recorded = await read("recorded/digest/", `digest/.llm-do/runs/${native}/`, (name) => name.endsWith(".jsonl"));
const digest = new Page(await Both.make(), { ...(await read("digest/", "digest/", (name) => /\.(worker|yaml)$/.test(name))), ...recorded }, {});
const replayed = await digest.json("POST", `/v1/runs/${native}/replay`);
assert.equal(replayed.divergence, null, JSON.stringify(replayed));
assert(replayed.whole && replayed.compared.requests > 3 && replayed.compared.tools > 1);
assert.match((await digest.ask("GET", `/v1/runs/${native}/export`)).text, /summarizer[\s\S]*<\/html>\s*$/);
assert.equal((await digest.ask("POST", `/v1/runs/${native}/continue`)).status, 409, "it was not written here");
digest.engine.end();

// The findings of all bad programs of the front end.
const cases = new URL("../program/tests/check/", import.meta.url);
let compared = 0;
for (const entry of await readdir(cases, { withFileTypes: true })) {
  if (!entry.isDirectory() || entry.name.includes(".")) continue;
  const folder = new URL(`${entry.name}/`, cases);
  const files = {};
  for (const file of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!file.isFile()) continue;
    const path = `${file.parentPath ?? file.path}/${file.name}`;
    files[`case${path.slice(folder.pathname.length - 1).replace(/^\/*/, "/")}`] = await readFile(path);
  }
  const bad = new Page(await Both.make(), files, {});
  const { status } = await bad.ask("POST", "/v1/programs/case/check", {});
  assert(status === 200 || status === 404, `${entry.name}: ${status}`);
  bad.engine.end();
  compared++;
}
assert(compared > 100);

console.log(`${records.length} records, ${compared} bad programs, no imports: the module does what the native engine does`);
console.log(`the module worked ${engine.worked.toFixed(0)} ms for a run of ${records.length} records, opening included`);
