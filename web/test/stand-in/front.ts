/**
 * The app's files of `dist` in front of a server that has others of them inside, or none. Everything else goes to that
 * server. With it the page can be worked on without building the server again.
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
  close(): Promise<void>;
}

export async function front(behind: string): Promise<Front> {
  let address = "";
  const server = createServer((asked, answer) => {
    const path = new URL(asked.url ?? "/", address).pathname;
    if (asked.method === "GET" && (path === "/" || path.startsWith("/assets/"))) file(path, answer, asked);
    else proxy(behind, asked, answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const close = (): Promise<void> =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { address, close };
}

/** The headers of the app's page, as the service sends them. */
export function policy(nonce: string): string {
  return (
    `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; img-src 'self' data: blob:; ` +
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
  );
}

export function file(path: string, answer: ServerResponse, asked: IncomingMessage): void {
  const name = path === "/" ? "/index.html" : path;
  let body: Buffer;
  try {
    body = readFileSync(DIST + name);
  } catch {
    answer.writeHead(404).end();
    return;
  }
  const headers: Record<string, string> = { "Content-Type": TYPES[name.split(".").at(-1) ?? ""] ?? "application/octet-stream" };
  if (path === "/") {
    const nonce = randomBytes(16).toString("hex");
    const site = asked.headers["sec-fetch-site"];
    const by = site === undefined || site === "none" || site === "same-origin" ? "user" : "another page";
    body = Buffer.from(body.toString().replaceAll("__NONCE__", nonce).replaceAll("__OPENED_BY__", by));
    headers["Content-Security-Policy"] = policy(nonce);
    headers["Cross-Origin-Opener-Policy"] = "same-origin";
  }
  answer.writeHead(200, headers).end(body);
}

function proxy(behind: string, asked: IncomingMessage, answer: ServerResponse): void {
  const headers = { ...asked.headers, host: new URL(behind).host };
  // The page's origin is that of its server.
  if (headers.origin !== undefined) headers.origin = behind;
  const sent = request(behind + (asked.url ?? ""), { method: asked.method ?? "GET", headers }, (response) => {
    answer.writeHead(response.statusCode ?? 502, response.headers);
    // The headers of a stream come before its first event.
    answer.flushHeaders();
    response.pipe(answer);
    response.on("error", () => answer.destroy());
  });
  // A server that is away refuses connections, and so does this one.
  sent.on("error", () => answer.destroy());
  answer.on("close", () => sent.destroy());
  asked.pipe(sent);
}
