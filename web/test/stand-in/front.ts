/**
 * A server of the app's files in front of another server: it adds what that one does not have yet. With it the app can be
 * looked at while the service is being built.
 */

import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const TYPES: Record<string, string> = { js: "text/javascript", css: "text/css", svg: "image/svg+xml", html: "text/html" };

export interface Front {
  address: string;
  /** The server behind it. */
  behind: { address: string; token: string };
  close(): Promise<void>;
}

export async function front(behind: { address: string; token: string }, token: string): Promise<Front> {
  const self = { address: "", behind, close: () => Promise.resolve() };
  const server = createServer((asked, answer) => void handle(self, token, asked, answer));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  self.address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  self.close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return self;
}

const json = (answer: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  answer.writeHead(status, { "Content-Type": "application/json", ...headers });
  answer.end(body === undefined ? undefined : JSON.stringify(body));
};
const problem = (answer: ServerResponse, status: number, code: string, detail: string): void =>
  json(answer, status, { status, code, detail });

async function handle(self: Front, token: string, asked: IncomingMessage, answer: ServerResponse): Promise<void> {
  const url = new URL(asked.url ?? "/", self.address);
  if (asked.method === "GET" && (url.pathname === "/" || url.pathname.startsWith("/assets/"))) return file(url.pathname, answer);
  const bearer = asked.headers.authorization?.replace("Bearer ", "");
  const cookie = /llm-do-token=([^;]+)/.exec(asked.headers.cookie ?? "")?.[1];
  if (url.pathname === "/v1/session" && asked.method === "POST") {
    if (bearer !== token) return problem(answer, 401, "unauthorized", "no such token");
    return json(answer, 204, undefined, { "Set-Cookie": `llm-do-token=${token}; HttpOnly; SameSite=Strict; Path=/` });
  }
  if ((bearer ?? cookie) !== token) return problem(answer, 401, "unauthorized", "no such token");
  if (asked.method !== "GET" && asked.headers.origin !== self.address) return problem(answer, 403, "forbidden", "origin");
  if (url.pathname === "/v1/session" && asked.method === "DELETE") {
    return json(answer, 204, undefined, { "Set-Cookie": "llm-do-token=; Max-Age=0; Path=/" });
  }
  if (url.pathname === "/v1/session") {
    return json(answer, 200, { name: "operator", scopes: ["start", "read", "answer", "edit"], read: "all", version: "0" });
  }
  if (url.pathname === "/v1/programs") return json(answer, 200, { programs: [{ program: "desk", description: "A desk.", edit: true }] });
  if (url.pathname === "/v1/workers") {
    const headers = { Authorization: `Bearer ${self.behind.token}` };
    const read = (await (await fetch(`${self.behind.address}/v1/workers`, { headers })).json()) as { workers: { worker: string }[] };
    return json(answer, 200, { workers: read.workers.map((worker) => ({ ...worker, chat: worker.worker === "chat" })) });
  }
  if (url.pathname === "/v1/events") return notices(self, answer);
  if (url.pathname === "/v1/runs" && asked.method === "GET") {
    const limit = url.searchParams.get("limit");
    const before = url.searchParams.get("before");
    const query = new URLSearchParams({ ...(limit ? { limit } : {}), ...(before ? { before } : {}) });
    return proxy(self, asked, answer, `/v1/runs?${query}`);
  }
  return proxy(self, asked, answer, url.pathname + url.search);
}

function file(path: string, answer: ServerResponse): void {
  const name = path === "/" ? "/index.html" : path;
  let body: Buffer;
  try {
    body = readFileSync(DIST + name);
  } catch {
    return problem(answer, 404, "not_found", "no such file");
  }
  const nonce = randomBytes(16).toString("base64");
  const headers: Record<string, string> = { "Content-Type": TYPES[name.split(".").at(-1) ?? ""] ?? "application/octet-stream" };
  if (path === "/") {
    body = Buffer.from(body.toString().replaceAll("__NONCE__", nonce));
    headers["Content-Security-Policy"] =
      `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data: blob:; ` +
      "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  }
  answer.writeHead(200, headers);
  answer.end(body);
}

function proxy(self: Front, asked: IncomingMessage, answer: ServerResponse, path: string): void {
  const headers: Record<string, string | string[] | undefined> = { ...asked.headers, authorization: `Bearer ${self.behind.token}` };
  for (const name of ["cookie", "origin", "host", "referer"]) delete headers[name];
  for (const name of Object.keys(headers)) if (name.startsWith("sec-")) delete headers[name];
  const behind = request(self.behind.address + path, { method: asked.method ?? "GET", headers }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers);
    response.pipe(answer);
    response.on("error", () => answer.destroy());
  });
  behind.on("error", () => (answer.headersSent ? answer.destroy() : problem(answer, 502, "", "away")));
  answer.on("close", () => behind.destroy());
  asked.pipe(behind);
}

/** Looks at the questions now and then, and says so when they changed. */
function notices(self: Front, answer: ServerResponse): void {
  answer.writeHead(200, { "Content-Type": "text/event-stream" });
  let before = "";
  const look = async (): Promise<void> => {
    const headers = { Authorization: `Bearer ${self.behind.token}` };
    try {
      const questions = await (await fetch(`${self.behind.address}/v1/questions`, { headers })).text();
      const runs = await (await fetch(`${self.behind.address}/v1/runs?limit=20`, { headers })).text();
      if (questions + runs !== before) {
        before = questions + runs;
        const count = (JSON.parse(questions) as { questions: unknown[] }).questions.length;
        answer.write(`event: questions\ndata: ${JSON.stringify({ count })}\n\n`);
        answer.write(`event: run\ndata: ${JSON.stringify({ run: "", program: "desk", worker: "", state: "running", chat: false })}\n\n`);
      }
    } catch {
      answer.destroy();
    }
  };
  const timer = setInterval(() => void look(), 200);
  answer.on("close", () => clearInterval(timer));
}
