#!/usr/bin/env node
// Stands for `llm-do lsp` where the program has none yet: it knows one finding, one fix and two lenses, and writes what the client
// says at the beginning into the file LLM_DO_STAND_IN_LOG.
import { appendFileSync } from "node:fs";

// `llm-do lsp` takes no argument.
if (process.argv.length > 2) process.exit(2);

let rest = Buffer.alloc(0);
const texts = new Map();
const send = (message) => {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  process.stdout.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
};
function findings(uri) {
  return (texts.get(uri) ?? "").split("\n").flatMap((line, number) => {
    if (line !== "locked: yes") return [];
    const range = { start: { line: number, character: 8 }, end: { line: number, character: 11 } };
    return [{ range, severity: 1, code: "E0202", source: "llm-do", message: "`locked` must be true or false, not text" }];
  });
}
const checked = (uri, text) => {
  texts.set(uri, text);
  send({ method: "textDocument/publishDiagnostics", params: { uri, diagnostics: findings(uri) } });
};
const answers = {
  initialize: (params) => {
    if (process.env.LLM_DO_STAND_IN_LOG) appendFileSync(process.env.LLM_DO_STAND_IN_LOG, `${JSON.stringify(params.initializationOptions)}\n`);
    return { capabilities: { textDocumentSync: 1, codeLensProvider: {}, codeActionProvider: { codeActionKinds: ["quickfix"] } } };
  },
  shutdown: () => null,
  "textDocument/codeLens": ({ textDocument: { uri } }) => {
    if (!uri.endsWith(".worker")) return [];
    const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 3 } };
    return ["run", "prompt", "chat", "test"].map((name) => ({ range, command: { title: name[0].toUpperCase() + name.slice(1), command: `llm-do.${name}`, arguments: [uri, null] } }));
  },
  "textDocument/codeAction": ({ textDocument: { uri }, range: asked }) =>
    findings(uri)
      .filter(({ range }) => range.start.line === asked.start.line)
      .map((finding) => ({
        title: "write `true`",
        kind: "quickfix",
        isPreferred: true,
        diagnostics: [finding],
        edit: { changes: { [uri]: [{ range: finding.range, newText: "true" }] } },
      })),
};
process.stdin.on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  for (;;) {
    const head = rest.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = Number(/content-length: (\d+)/i.exec(rest.subarray(0, head).toString())[1]);
    if (rest.length < head + 4 + length) return;
    const { id, method, params } = JSON.parse(rest.subarray(head + 4, head + 4 + length).toString());
    rest = rest.subarray(head + 4 + length);
    if (method === "textDocument/didOpen") checked(params.textDocument.uri, params.textDocument.text);
    else if (method === "textDocument/didChange") checked(params.textDocument.uri, params.contentChanges.at(-1).text);
    else if (method === "exit") process.exit(0);
    else if (id !== undefined && method !== undefined) send({ id, result: answers[method]?.(params) ?? null });
  }
});
