// Runs, replays and renders projects inside a WebAssembly module, checks the reports, and compares each with the report of
// the same code as a native program.
//
//     node run.mjs llm_do_wasm_test.wasm NATIVE

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";

const module = await WebAssembly.compile(await readFile(process.argv[2]));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the machine asks nothing of its host");
const { exports } = await WebAssembly.instantiate(module, {});

// Answers a request in the module, and checks that the native program gives the same answer, byte for byte.
function ask(request) {
  const json = JSON.stringify(request);
  const bytes = new TextEncoder().encode(json);
  const at = exports.allocate(bytes.length);
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
  const report = exports.answer(at, bytes.length);
  const [from, length] = [Number(BigInt.asUintN(64, report) >> 32n), Number(report & 0xffffffffn)];
  const answer = Buffer.from(exports.memory.buffer, from, length).toString();
  const native = spawnSync(process.argv[3], { input: json, encoding: "utf8", maxBuffer: 1 << 28 });
  assert.equal(native.status, 0, native.stderr);
  assert.equal(answer, native.stdout, "the module answers as the native program does");
  return JSON.parse(answer);
}

const text = (text) => ({ parts: [{ part: "text", text }], finish: "stop" });
const calls = (...calls) => ({
  parts: calls.map(([name, json], at) => ({ part: "call", id: `c${at}`, name, arguments: { json } })),
  finish: "tool_calls",
});

const project = {
  program: {
    "project.yaml": `
name: minutes
sandbox:
  paths:
    input: ./input
    output: {root: ./output, mode: rw}
`,
    "main.worker": `---
description: Writes what was decided.
toolsets:
  filesystem:
    approval: {tools: {write_file: preApproved}}
allow_workers: [reader]
---
You keep the minutes of {{ project.name }}.{% if input %} Asked: {{ input }}.{% endif %}
`,
    "workers/reader.worker": `---
description: Finds the decision in a text.
parameters: {text: string}
returns: {decision: string, votes: integer}
---
Find the decision in: {{ text | upper }}
`,
  },
  files: { "input/meeting.txt": `We paint it blue. Seven for, none against. The key is hunter2hunter2.\n${"And so on. ".repeat(600)}` },
  secrets: { DOOR_KEY: "hunter2hunter2" },
  answers: {
    main: [
      calls(["read_file", { path: "/input/meeting.txt" }], ["read_file", { path: "/secrets.txt" }]),
      calls(["reader", { text: "We paint it blue." }], ["reader", { text: 7 }]),
      calls(["write_file", { path: "/output/minutes.md", content: "# Blue\n\n7 votes\n" }]),
      text("Blue it is."),
    ],
    reader: [
      calls(["final_result", { decision: "blue" }]),
      calls(["final_result", { decision: "blue", votes: 7 }]),
    ],
  },
  input: { input: "What was decided?" },
  wanted: ["output/minutes.md", "output/other.md"],
};

const { error, ending, journal, requests, files, recorded } = ask({ do: "run", ...project });
assert.equal(error, undefined);
assert.deepEqual(ending, { output: "Blue it is." });
assert.deepEqual(files, { "output/minutes.md": "# Blue\n\n7 votes\n", "output/other.md": null });

// Every request follows from the records before it.
assert.equal(requests.length, 6);
for (const { path, sent, rebuilt } of requests) assert.equal(rebuilt, sent, `the conversation at ${path}`);
journal.forEach((record, at) => assert.equal(record.seq, at));

const ended = (path) =>
  journal.find((r) => r.path === path && (r.kind === "tool_ended" || r.kind === "call_ended"))?.ending;
assert.match(ended("0/0.0").output, /We paint it blue/);
assert.equal(ended("0/0.1").failure.kind, "authority");
assert.deepEqual(ended("0/1.0").output, { decision: "blue", votes: 7 });
assert.equal(ended("0/1.1").failure.kind, "invalid_input");

const system = journal.find((r) => r.kind === "conversation_started" && r.path === "0/1.0").system;
assert.equal(system, "Find the decision in: WE PAINT IT BLUE.");

// A project that is wrong is told so, with the line and the nearest name.
const wrong = structuredClone(project);
wrong.program["workers/reader.worker"] = "---\ndescripton: Finds.\n---\nFind.\n";
assert.match(ask({ do: "run", ...wrong }).error, /descripton[\s\S]*description/);

// The run's files hold its long value once and its secret never.
assert.equal(Object.keys(recorded.blobs).length, 1);
assert.match(Object.values(recorded.blobs)[0], /The key is \[secret DOOR_KEY\]/);
assert(!JSON.stringify(recorded).includes("hunter2"));

// Replayed, the run is the same; a changed program differs where it was changed; half a record is followed to its end.
const { program, secrets } = project;
const again = ask({ do: "replay", program, secrets, files: recorded });
assert.deepEqual(again, { compared: { calls: 6, requests: 6, tools: 2 }, whole: true, divergence: null });
const changed = { ...program };
changed["workers/reader.worker"] = program["workers/reader.worker"].replace("Find the", "Look for the");
const { divergence } = ask({ do: "replay", program: changed, secrets, files: recorded });
assert.equal(divergence.path, "0/1.0");
assert.deepEqual(divergence.sections.map(({ name }) => name), ["instructions"]);
assert.match(divergence.sections[0].now, /^Look for the decision in: WE/);
const half = { ...recorded, journal: recorded.journal.split("\n").slice(0, journal.length / 2).join("\n") };
const part = ask({ do: "replay", program, secrets, files: half });
assert.equal(part.whole, false);
assert.equal(part.divergence, null);

// A run that the native binary has recorded.
const examples = new URL("../../examples/", import.meta.url);
const read = async (folder, filter) => {
  const names = (await readdir(new URL(folder, examples), { recursive: true })).filter(filter).sort();
  const files = names.map(async (name) => [name, await readFile(new URL(folder + name, examples), "utf8")]);
  return Object.fromEntries(await Promise.all(files));
};
const digest = await read("digest/", (name) => /\.(worker|yaml)$/.test(name));
const native = await read("recorded/digest/", (name) => name.endsWith(".jsonl"));
const recordedNatively = { journal: native["journal.jsonl"] };
const same = ask({ do: "replay", program: digest, files: recordedNatively });
assert.equal(same.divergence, null);
assert(same.whole && same.compared.requests > 3 && same.compared.tools > 1);
const capital = { ...digest };
capital["workers/summarizer.worker"] += "\nIn capitals.\n";
const { sections } = ask({ do: "replay", program: capital, files: recordedNatively }).divergence;
assert.deepEqual(sections.map(({ name }) => name), ["instructions"], "attached files are not compared");
assert.match(sections[0].now, /In capitals\./);

// Their pages.
const id = "20260101-000000-0000";
const own = ask({ do: "page", run: id, files: recorded });
assert.match(own.html, /^<!doctype html>[\s\S]*We paint it blue[\s\S]*<\/html>\s*$/i);
assert(!own.html.includes("hunter2"));
assert(own.tree.some((line) => /reader/.test(line)));
const theirs = ask({ do: "page", run: id, files: recordedNatively });
assert.match(theirs.html, /summarizer[\s\S]*<\/html>\s*$/);
assert.match(ask({ do: "page", run: id, files: { journal: "{}\n" } }).error, /line 1: not a record/);

console.log(`${journal.length} records, ${requests.length} requests, no imports: as it must be`);
console.log(`replayed ${same.compared.calls} calls of a native run; pages of ${own.html.length} and ${theirs.html.length} characters`);
