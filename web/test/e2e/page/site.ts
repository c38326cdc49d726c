/** A plain server of static files, and one that behaves as a provider of models does. */

import { existsSync, readFileSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join, normalize } from "node:path";

const KINDS: Record<string, string> = { html: "text/html; charset=utf-8", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

export interface Site {
  origin: string;
  /** Paths that were asked for. */
  asked: string[];
  close(): Promise<void>;
}

function listen(server: Server, asked: string[]): Promise<Site> {
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      resolve({
        origin: `http://127.0.0.1:${port}`,
        asked,
        close: () =>
          new Promise((closed) => {
            server.close(() => closed());
            server.closeAllConnections();
          }),
      });
    });
  });
}

/** Serves folders below their names. A function in the place of a folder answers by itself. */
export function site(folders: Record<string, string | ((path: string) => string | undefined)>): Promise<Site> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? "/", "http://site");
    asked.push(pathname);
    const [, name = "", ...rest] = pathname.split("/");
    const folder = folders[name];
    const path = rest.join("/") === "" ? "index.html" : rest.join("/");
    const kind = KINDS[path.split(".").at(-1) ?? ""] ?? "application/octet-stream";
    if (typeof folder === "function") {
      const text = folder(path);
      response.writeHead(text === undefined ? 404 : 200, { "Content-Type": kind }).end(text ?? "");
      return;
    }
    const file = folder === undefined ? "" : normalize(join(folder, path));
    if (folder === undefined || !file.startsWith(folder) || !existsSync(file) || !statSync(file).isFile()) {
      response.writeHead(404).end();
      return;
    }
    response.writeHead(200, { "Content-Type": kind }).end(readFileSync(file));
  });
  return listen(server, asked);
}

export interface Asked {
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
  /** Whether the page has ended the request before the answer was complete. */
  broken: boolean;
}

/** A server of models that answers pages of any origin, as the providers with CORS do. */
export async function provider(answer: (asked: Asked, response: ServerResponse) => void): Promise<Site & { requests: Asked[] }> {
  const requests: Asked[] = [];
  const paths: string[] = [];
  const server = createServer((request, response) => {
    const origin = request.headers.origin ?? "*";
    const cors = {
      "Access-Control-Allow-Origin": origin,
      "Access-Control-Allow-Headers": request.headers["access-control-request-headers"] ?? "",
      "Access-Control-Allow-Methods": "GET, POST",
    };
    for (const [name, value] of Object.entries(cors)) response.setHeader(name, value);
    if (request.method === "OPTIONS") {
      response.writeHead(204).end();
      return;
    }
    paths.push(request.url ?? "");
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (piece: string) => (body += piece));
    request.on("end", () => {
      const asked: Asked = { path: request.url ?? "", headers: request.headers, body, broken: false };
      requests.push(asked);
      response.on("close", () => (asked.broken = !response.writableFinished));
      answer(asked, response);
    });
  });
  return { ...(await listen(server, paths)), requests };
}
