import assert from "node:assert/strict";
import { createServer, request, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, test } from "node:test";
import { Bridge, type ToPage } from "../src/bridge.ts";
import type { Call } from "../src/serve.ts";

let server: Server;
let asked: IncomingMessage[];
let closed: Promise<void>;
beforeEach(async () => {
  asked = [];
  server = createServer((message, response) => {
    asked.push(message);
    closed = new Promise((resolve) => response.once("close", resolve));
    if (message.url === "/v1/endless") return void response.write("data: 1\n\n");
    response.setHeader("content-type", "application/json").setHeader("set-cookie", "secret=1").end('{"ok": "\u00e4"}');
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(() => void server.close().closeAllConnections());

function bridge(before?: (call: Call) => Promise<void>): { bridge: Bridge; until: (type: ToPage["type"]) => Promise<ToPage[]> } {
  const got: ToPage[] = [];
  let heard = (): void => undefined;
  const send = ({ method, path, headers }: Call, answered: (response: IncomingMessage) => void, failed: (error: Error) => void) =>
    request({ host: "127.0.0.1", port: (server.address() as AddressInfo).port, method, path, headers }, answered).once("error", failed).end();
  const made = new Bridge(() => Promise.resolve({ send }), (message) => (got.push(message), heard()), before);
  const until = async (type: ToPage["type"]): Promise<ToPage[]> => {
    while (!got.some((one) => one.type === type)) await new Promise<void>((resolve) => (heard = resolve));
    return got;
  };
  return { bridge: made, until };
}
const call = (path: string, more: Partial<Call> = {}): Call => ({ method: "GET", path, headers: {}, ...more });

test("a response reaches the page in pieces, without the server's other headers", async () => {
  const { bridge: made, until } = bridge();
  await made.take({ type: "request", id: 7, call: call("/v1/session", { headers: { Accept: "text/event-stream", Authorization: "Bearer of the page", Host: "example.org" } }) });
  const [response, piece] = await until("end");
  assert.deepEqual(response, { type: "response", id: 7, status: 200, headers: { "content-type": "application/json", "content-length": "12" } });
  assert.ok(piece?.type === "piece");
  assert.equal(Buffer.from(piece.base64, "base64").toString(), '{"ok": "\u00e4"}');
  assert.equal(asked[0]?.headers.accept, "text/event-stream");
  assert.equal(asked[0]?.headers.authorization, undefined);
});

test("the page reaches no other path, method or host", async () => {
  for (const bad of [call("/"), call("/v1/../openapi.json"), call("http://example.org/v1/"), call("//example.org/v1/"), call("/v1/runs", { method: "TRACE" }), call("/v1/a\r\nx: y")]) {
    const { bridge: made, until } = bridge();
    await made.take({ type: "request", id: 1, call: bad });
    assert.deepEqual(await until("failed"), [{ type: "failed", id: 1 }], JSON.stringify(bad));
  }
  assert.equal(asked.length, 0);
});

test("a stream that the page leaves ends at the server", async () => {
  const { bridge: made, until } = bridge();
  await made.take({ type: "request", id: 1, call: call("/v1/endless") });
  await until("piece");
  await made.take({ type: "abort", id: 1 });
  await closed;
});

test("a request waits for what must happen before it, and fails with it", async () => {
  const order: string[] = [];
  const first = bridge(async ({ path }) => void order.push(path));
  await first.bridge.take({ type: "request", id: 1, call: call("/v1/runs", { method: "POST" }) });
  await first.until("end");
  assert.deepEqual([order, asked.length], [["/v1/runs"], 1]);
  const second = bridge(() => Promise.reject(new Error("no server")));
  await second.bridge.take({ type: "request", id: 1, call: call("/v1/runs") });
  await second.until("failed");
  assert.equal(asked.length, 1);
});
