/**
 * The app in front of a server that answers with hostile JSON: wrong types, missing fields, huge numbers, markup and scripts
 * in every text, names of prototypes. The page shows the data or an error, stays usable, and runs no script.
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { file } from "../stand-in/front";
import { launch, open } from "./browser";

type Json = unknown;

const SCRIPT = `"><img src=x onerror="window.broken=1"><script>window.broken=1</script><a href="javascript:window.broken=1">x</a>{{x}}\u202e`;
const RUN = "20261127-000000-0000";

/** Answers of an honest server. */
const question = {
  run: RUN, program: "desk", client: "operator", expires_ms: 1_800_000_000_000, call: "0/0.0", step: "ask", digest: "d", question: "approval", chain: ["main"],
  function: "write_file", risk: "write", input: { path: "out/a.txt", content: "a" },
  preview: { preview: "change", path: "out/a.txt", before: null, after: "a" },
  rule: { rule: { origin: "project.yaml", of_caller: true } },
  steering: { read: [{ call: "0/0", function: "read_file", origin: "untrusted", excerpt: "words" }], more: 1, held: [] },
};
const { run: _run, program: _program, client: _client, ...waiting } = question;
const run = {
  run: RUN, program: "desk", worker: "writer", chat: false, client: "operator", state: "waiting", title: "Write.",
  started_ms: 1_700_000_000_000, took_ms: 5, output: { a: 1 }, failure: { kind: "tool", message: "no" },
  usage: { input_tokens: 5, cost_usd: 0.1 }, questions: [waiting],
};
const diagnostic = {
  code: "unknown-key", severity: "error", message: "no", file: "main.worker", line: 1, column: 1, notes: ["a"], help: ["b"],
  related: [{ message: "c", file: "d", line: 1, column: 1 }],
  fix: { title: "e", edits: [{ file: "main.worker", line: 1, column: 1, start: 0, end: 1, text: "f" }] },
};
const ANSWERS: Record<string, Json> = {
  "/v1/session": { name: "operator", scopes: ["start", "read", "answer", "edit"], read: "all", programs: ["desk"], version: "1", models: ["a:b"] },
  "/v1/programs": { programs: [{ program: "desk", description: "Desk.", edit: true, findings: { errors: 1, warnings: 2 } }] },
  "/v1/workers": {
    workers: [{
      program: "desk", worker: "writer", default: true, description: "Writes.", changes: true, network: false, chat: false, model: "a:b",
      input: { type: "object", properties: { name: { type: "string" }, kind: { enum: ["a", "b"] } }, required: ["name"] },
      output: { type: "object" },
    }],
  },
  "/v1/runs": { runs: [run], next: RUN },
  [`/v1/runs/${RUN}`]: run,
  "/v1/questions": { questions: [question] },
  [`/v1/runs/${RUN}/files`]: { path: "/in", entries: [{ name: "a.txt", kind: "file", bytes: 5, untrusted: true }] },
  "/v1/programs/desk/files": { files: [{ path: "main.worker", sha256: "a", bytes: 5 }] },
  "/v1/programs/desk/files/content": { path: "main.worker", text: "---\n---\nHi.\n", sha256: "a" },
  "/v1/programs/desk/check": { diagnostics: [diagnostic] },
};

const message = { id: 1, role: "user", parts: [{ part: "text", text: "Hi **there** [link](http://x.example)" }] };
/** Records of each kind that the page reads, in the order of a run. */
const RECORDS: Record<string, Json>[] = [
  { kind: "run_started", run: RUN, version: "1", target: ".", entry: "writer", approval: "ask", date: "2026-11-27", definitions: [{ worker: "writer", file: "a", sha256: "b", text: "c" }] },
  { kind: "definition", worker: "writer", file: "a", sha256: "b", text: "c" },
  { kind: "call_started", function: "writer", source: "program", principal: "operator", input: { a: 1 }, origins: [{ at: "/a", origin: "untrusted" }] },
  { kind: "conversation_started", worker: "writer", model: "a:b", system: "Write.", tools: [{ name: "write_file", input: {} }], withheld: [{ name: "x", why: "y" }], message, origin: "trusted" },
  { kind: "attached", part: { part: "attachment", name: "a.txt", text: "b" }, bytes: 1 },
  { kind: "model_requested", turn: 0, attempt: 0 },
  { kind: "model_answered", message: { ...message, id: 2, role: "assistant" }, finish: "stop", usage: { input_tokens: 1 } },
  { kind: "verdict", rule: "ask", by: { rule: { origin: "a" } }, reason: "b" },
  { ...waiting, kind: "asked" },
  { kind: "answered", answer: "approve", by: "operator", via: "http" },
  { kind: "tool_started", function: "write_file", risk: "write", idempotency_key: "k" },
  { kind: "tool_ended", ending: { output: { a: [1, 2] } }, log: "log", blobs: [{ media_type: "image/png", data: "AAAA" }] },
  { kind: "compacted", before: 1, after: 1, results: [{ message: 1, call_id: "a" }], summary: { id: 3, to: 1, text: "s" } },
  { kind: "undone", files: [{ path: "a", state: "restored", preview: { preview: "change", path: "a", before: "b", after: "c" } }], others: ["d"] },
  { kind: "restored", files: [{ path: "a", state: "restored" }] },
  { kind: "model_failed", error: { kind: "a", message: "b" } },
  { kind: "note", text: "a note" },
  { kind: "call_ended", ending: { failure: { kind: "a", message: "b" } }, usage: {}, said: ["a"] },
  { kind: "run_ended", status: "done", ending: { output: "a" }, usage: {} },
];

/** A value with each part changed. */
function changed(value: Json, change: (leaf: Json) => Json): Json {
  if (Array.isArray(value)) return value.map((item) => changed(item, change));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, changed(item, change)]));
  }
  return change(value);
}

/** All values that differ from this one in one place. */
function* variants(value: Json, by: (part: Json) => Json): Generator<Json> {
  yield by(value);
  if (Array.isArray(value)) {
    for (const [at, item] of value.entries()) for (const other of variants(item, by)) yield value.with(at, other);
  } else if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) for (const other of variants(item, by)) yield { ...value, [name]: other };
  }
}

const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
/** Ways in which a server lies about a whole answer, as texts: not all are JSON, or JSON that `JSON.stringify` writes. */
const LIES: Record<string, (answer: Json) => string> = {
  "scripts in every text": (answer) => JSON.stringify(changed(answer, (leaf) => (typeof leaf === "string" ? SCRIPT : leaf))),
  "scripts in the free texts": (answer) =>
    JSON.stringify(changed(answer, (leaf) => (typeof leaf === "string" && !KEPT.has(leaf) ? `${leaf} ${SCRIPT}` : leaf))),
  "huge numbers": (answer) => JSON.stringify(changed(answer, (leaf) => (typeof leaf === "number" ? 1e308 : leaf))),
  "numbers that are none": (answer) => JSON.stringify(answer).replaceAll(/(?<=:)\d+(?=[,}])/g, "1e999"),
  "negative numbers": (answer) => JSON.stringify(changed(answer, (leaf) => (typeof leaf === "number" ? -leaf - 0.5 : leaf))),
  "no values": (answer) => JSON.stringify(changed(answer, () => null)),
  "lists for leaves": (answer) => JSON.stringify(changed(answer, () => [[]])),
  "names of prototypes": (answer) =>
    JSON.stringify(answer).replaceAll("{", `{"__proto__":{"polluted":1,"scopes":[]},"constructor":{"prototype":{"polluted":1}},"toString":1,`).replaceAll(",}", "}"),
  "an empty object": () => "{}",
  "an empty list": () => "[]",
  null: () => "null",
  "a text": () => JSON.stringify(SCRIPT),
  "deep nesting": () => deep,
  "half of it": (answer) => JSON.stringify(answer).slice(0, -5),
  "each thing twice": (answer) =>
    JSON.stringify(answer, (_, value: Json) => (Array.isArray(value) ? [...(value as Json[]), ...(value as Json[])] : value)),
};
/** Texts by which the page finds its way: changed ones lead to errors before anything is drawn. */
const KEPT = new Set<string>([
  "own", "all", "start", "read", "answer", "edit", "waiting", "approval", "write", "change", "file", "error", "untrusted", "trusted",
  "user", "assistant", "text", "attachment", "image/png", "object", "string", "desk", "writer", RUN, "0/0.0", "ask", "main.worker",
]);

let server: Server;
let address: string;
let browser: Browser;
/** The lie about each answer at present. */
let lie = (answer: Json, _path: string): string => JSON.stringify(answer);
let records: string[] = [];

function answer(asked: IncomingMessage, response: ServerResponse): void {
  const path = new URL(asked.url ?? "/", "http://x").pathname;
  if (path === "/" || path.startsWith("/assets/")) return file(path, response, asked);
  if (path === "/v1/session" && asked.method === "POST") return void response.writeHead(201).end(JSON.stringify({ secret: "s" }));
  if (path.endsWith("/events")) {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    if (path !== "/v1/events") for (const record of records) response.write(`event: record\ndata: ${record}\n\n`);
    // It stays open, as for a run under way.
    return;
  }
  const honest = ANSWERS[path];
  if (honest === undefined) return void response.writeHead(404).end(lie({ code: "not_found", detail: "no" }, path));
  response.writeHead(200, { "Content-Type": "application/json" }).end(lie(honest, path));
}

beforeAll(async () => {
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  server.closeAllConnections();
  server.close();
});

/** What the server makes of a record: the item of the conversation with that number, and the state of the call. */
function viewOf(seq: number, { kind, ...fields }: Record<string, unknown>): object {
  const files = { files: fields["files"], others: [] };
  const items: Record<string, object> = {
    conversation_started: { index: 0, item: { kind: "user", number: 0 } },
    model_answered: { index: 1, item: { kind: "assistant", turn: 0, finish: "stop" } },
    compacted: { index: 2, item: { kind: "compacted" } },
    undone: { index: 3, item: { kind: "undo", ...files } },
    restored: { index: 3, item: { kind: "undo", ...files, restored: fields["files"] } },
    model_failed: { index: 4, item: { kind: "note", tone: "warn", text: "b" } },
    note: { index: 5, item: { kind: "note", tone: "info", text: fields["text"] } },
  };
  const item = items[String(kind)] as { index: number; item: object } | undefined;
  const state = kind === "call_ended" ? "failed" : kind === "asked" ? "waiting" : "running";
  return {
    calls: { "0": { state, started_ms: 1 } },
    items: item === undefined ? [] : [{ call: "0", index: item.index, item: { seq, at_ms: 1, ...item.item } }],
    ...(kind === "run_ended" ? { end: "done" } : {}),
  };
}

const told = (seq: number, fields: object): string =>
  JSON.stringify({
    event: "record",
    record: { seq, at_ms: 1_700_000_000_000, path: "0", step: "model", ...fields },
    view: viewOf(seq, fields as Record<string, unknown>),
  });
const honestRecords = (): string[] => RECORDS.map((record, seq) => told(seq, record));

/** Looks at a page that is there, whatever it shows. */
async function look(page: Page, where: string): Promise<void> {
  // A whole load, and no mere change behind `#`.
  await page.goto("about:blank");
  await page.goto(`${address}/${where}`);
  // Something is shown: a page, an error, or the form for signing in.
  await page.locator(":is(main h1, main h2, main [role=alert], main .panel):visible").first().waitFor();
  await page.waitForLoadState("load");
  // What a stream brought is drawn with the next frames.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  const harm = await page.evaluate(() => ({
    broken: (globalThis as { broken?: unknown }).broken,
    polluted: ({} as { polluted?: unknown }).polluted,
    scripts: document.querySelectorAll("main script, main img[onerror], main a[href^=javascript]").length,
  }));
  expect(harm).toEqual({ broken: undefined, polluted: undefined, scripts: 0 });
}

const PAGES = ["#/", "#/start/desk/writer", "#/runs", "#/inbox", `#/runs/${RUN}`, `#/runs/${RUN}/files/%2Fin`, "#/programs/desk/main.worker"];

/** A page that is signed in to the honest server. */
async function signedIn(): Promise<{ page: Page; faults: string[] }> {
  lie = (answer) => JSON.stringify(answer);
  const watched = await open(await browser.newContext(), address);
  await watched.page.goto(`${address}/#token=t`);
  await watched.page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  return watched;
}

test.each(Object.entries(LIES))("answers with %s break no page", async (_, lies) => {
  const { page, faults } = await signedIn();
  records = honestRecords();
  // The session is honest first: without one there is only the form for signing in.
  lie = (answer, path) => (path === "/v1/session" ? JSON.stringify(answer) : lies(answer));
  for (const where of PAGES) await look(page, where);
  lie = lies;
  await look(page, "#/");
  // With an honest server the same page works again.
  lie = (answer) => JSON.stringify(answer);
  await look(page, "#/");
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await page.context().close();
  expect(faults).toEqual([]);
});

test("records that lie in one place break no page", async () => {
  const { page, faults } = await signedIn();
  const wrong: ((part: Json) => Json)[] = [() => null, () => SCRIPT, () => [SCRIPT, 7]];
  for (const [number, by] of wrong.entries()) {
    for (const [at, record] of RECORDS.entries()) {
      // Each place in its own run would be thousands of pages: the places take turns.
      const all = [...variants(record, by)].filter((variant) => typeof variant === "object" && variant !== null);
      const variant = all[(at + number) % all.length] as object;
      records = honestRecords().with(at, told(at, { ...variant, kind: record["kind"] }));
      await look(page, `#/runs/${RUN}${["", "/calls/0", "/costs"][(at + number) % 3]}`);
    }
  }
  await page.context().close();
  expect(faults).toEqual([]);
}, 240_000);
