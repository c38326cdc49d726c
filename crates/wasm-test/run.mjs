// Runs a project inside the WebAssembly module given as the argument, and checks what came of it.
//
//     node run.mjs llm_do_wasm_test.wasm

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const module = await WebAssembly.compile(await readFile(process.argv[2]));
assert.deepEqual(WebAssembly.Module.imports(module), [], "the machine asks nothing of its host");
const { exports } = await WebAssembly.instantiate(module, {});

function run(request) {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const at = exports.allocate(bytes.length);
  new Uint8Array(exports.memory.buffer, at, bytes.length).set(bytes);
  const report = exports.run(at, bytes.length);
  const [from, length] = [Number(report >> 32n), Number(report & 0xffffffffn)];
  return JSON.parse(new TextDecoder().decode(new Uint8Array(exports.memory.buffer, from, length)));
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
  files: { "input/meeting.txt": "We paint it blue. Seven for, none against." },
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

const { error, ending, journal, requests, files } = run(project);
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
const told = run(wrong).error;
assert.match(told, /descripton[\s\S]*description/);

console.log(`${journal.length} records, ${requests.length} requests, no imports: as it must be`);
