/** The host of the engine in a real browser: files, tabs, requests. The engine is one of the tests (`test/stand-in/engine.ts`). */

import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, launchKept } from "../browser";
import { provider, site, type Site } from "./site";

const WEB = fileURLToPath(new URL("../../..", import.meta.url));
const BUILT = fileURLToPath(new URL("../../../node_modules/.cache/stand-in", import.meta.url));

let browser: Browser;
let served: Site;
let models: Awaited<ReturnType<typeof provider>>;

/** A page of the transport alone. Its policy allows the models of the test. */
const host = (path: string): string | undefined => {
  if (path !== "index.html") return undefined;
  const policy = `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src blob:; connect-src 'self' ${models.origin}`;
  return `<!doctype html><meta http-equiv="Content-Security-Policy" content="${policy}"><script type="module" src="/built/host.js"></script>`;
};

beforeAll(async () => {
  execFileSync("npx", ["vite", "build", "--logLevel", "error", "-c", "vite.stand-in.config.ts"], { cwd: WEB, stdio: "inherit" });
  models = await provider(({ path }, response) => {
    if (path === "/elsewhere") return void response.writeHead(307, { Location: `${models.origin}/v1` }).end();
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    const more = (left: number): void => {
      if (left === 0) return void response.end();
      if (response.write("x".repeat(64 * 1024))) more(left - 1);
      else response.once("drain", () => more(left - 1));
    };
    more(1600);
  });
  served = await site({ built: BUILT, one: host, two: host });
  browser = await launch();
});
afterAll(async () => {
  await browser.close();
  await served.close();
  await models.close();
});

const context = (): Promise<BrowserContext> => browser.newContext();

async function open(of: BrowserContext, folder = "one"): Promise<Page> {
  const page = await of.newPage();
  await page.goto(`${served.origin}/${folder}/`);
  await page.waitForFunction(() => "ready" in globalThis);
  await page.evaluate(() => (globalThis as unknown as { ready: Promise<void> }).ready);
  return page;
}

interface Answer {
  status: number;
  body: Record<string, unknown>;
}
const ask = (page: Page, method: string, path: string, body?: string): Promise<Answer> =>
  page.evaluate(
    async ([method, path, body]) => {
      const send = (globalThis as unknown as { engine: typeof fetch }).engine;
      const response = await send(path ?? "", { method: method ?? "", ...(body === null || body === undefined ? {} : { body }) });
      const text = await response.text();
      return { status: response.status, body: text === "" ? {} : (JSON.parse(text) as Record<string, unknown>) };
    },
    [method, path, body ?? null] as const,
  );

const text = (read: Answer): string => Buffer.from(String(read.body["base64"]), "base64").toString();
const JOURNAL = "/v1/test/read?path=desk/.llm-do/runs/r/j.jsonl";

test("records that were answered for are there after the tab has crashed", async () => {
  const of = await context();
  const page = await open(of);
  for (const line of ["a", "b", "c"]) expect((await ask(page, "POST", `/v1/test/append?file=j.jsonl&line=${line}`)).body).toEqual({ appended: true });
  expect(text(await ask(page, "GET", JOURNAL))).toBe("a\nb\nc\n");
  await page.goto("chrome://crash").catch(() => undefined);
  const again = await open(of);
  expect(text(await ask(again, "GET", JOURNAL))).toBe("a\nb\nc\n");
  // Another page of the same origin has files of its own.
  const other = await open(of, "two");
  expect((await ask(other, "GET", JOURNAL)).body).toMatchObject({ input: "failed", error: { kind: "missing" } });
  await of.close();
});

test("one tab runs the engine for all, and another one takes over when it is gone", async () => {
  const of = await context();
  const first = await open(of);
  const second = await open(of);
  await ask(first, "POST", "/v1/test/append?file=j.jsonl&line=first");
  await ask(second, "POST", "/v1/test/append?file=j.jsonl&line=second");
  expect(text(await ask(first, "GET", JOURNAL))).toBe("first\nsecond\n");
  // A request that is under way ends, so that the app asks again.
  const broken = second.evaluate(async () => {
    const response = await (globalThis as unknown as { engine: typeof fetch }).engine("/v1/test/stream");
    const reader = response.body?.getReader();
    await reader?.read();
    Object.assign(globalThis, { hasBegun: true });
    try {
      for (let read = await reader?.read(); read?.done === false; read = await reader?.read());
      return "ended";
    } catch (error) {
      return error instanceof TypeError ? "lost" : String(error);
    }
  });
  await second.waitForFunction(() => "hasBegun" in globalThis);
  await first.close();
  expect(await broken).toBe("lost");
  await ask(second, "POST", "/v1/test/append?file=j.jsonl&line=third");
  expect(text(await ask(second, "GET", JOURNAL))).toBe("first\nsecond\nthird\n");
  await of.close();
});

test("what a closed tab asked for ends in the tab that runs the engine", async () => {
  const of = await context();
  const first = await open(of);
  const second = await open(of);
  await second.evaluate(async () => {
    const response = await (globalThis as unknown as { engine: typeof fetch }).engine("/v1/test/stream");
    await response.body?.getReader().read();
  });
  expect((await ask(first, "GET", "/v1/test/state")).body["streams"]).toBe(1);
  await second.close();
  await expect.poll(async () => (await ask(first, "GET", "/v1/test/state")).body).toMatchObject({ streams: 0, closed: 1 });
  await of.close();
});

test("without space, an error says so, no part of a record stays, and the tab goes on", async () => {
  // A profile on disk: the space of a private window is bounded in another way.
  const profile = mkdtempSync(join(tmpdir(), "llm-do-profile-"));
  const of = await launchKept(profile);
  const page = await open(of);
  await ask(page, "POST", "/v1/test/append?file=j.jsonl&line=before");
  const session = await of.newCDPSession(page);
  const usage = await page.evaluate(async () => (await navigator.storage.estimate()).usage ?? 0);
  await session.send("Storage.overrideQuotaForOrigin", { origin: served.origin, quotaSize: usage + 100_000 });
  const full = await ask(page, "POST", "/v1/test/append?file=j.jsonl&line=0123456789&times=1000000");
  expect(full.status).toBe(507);
  expect(full.body["kind"]).toBe("quota");
  expect(String(full.body["message"])).toContain("no space is left");
  expect(text(await ask(page, "GET", JOURNAL))).toBe("before\n");
  await session.send("Storage.overrideQuotaForOrigin", { origin: served.origin });
  await ask(page, "POST", "/v1/test/append?file=j.jsonl&line=after");
  expect(text(await ask(page, "GET", JOURNAL))).toBe("before\nafter\n");
  await of.close();
  rmSync(profile, { recursive: true, force: true });
});

test("a long answer arrives in pieces, and is ended at the sender when the engine has enough", async () => {
  const of = await context();
  const page = await open(of);
  const whole = await ask(page, "POST", `/v1/test/send?url=${models.origin}/v1`);
  expect(whole.body["bytes"]).toBe(1600 * 64 * 1024);
  expect(models.requests[0]?.headers.authorization).toBe("Bearer k");
  expect(models.requests[0]?.headers.cookie).toBeUndefined();
  expect(models.requests[0]?.headers.referer).toBeUndefined();
  const part = await ask(page, "POST", `/v1/test/send?stop=1000000&url=${models.origin}/v1`);
  expect(part.body["bytes"]).toBeLessThan(1_200_000);
  await expect.poll(() => models.requests.at(-1)?.broken).toBe(true);
  await of.close();
});

test("the policy of the page holds in the worker, and other schemes and redirects reach nothing", async () => {
  const of = await context();
  const page = await open(of);
  const other = await provider((_, response) => response.end("stolen"));
  const before = models.requests.length;
  for (const url of [`${models.origin}/elsewhere`, `${other.origin}/steal?key=k`, "ftp://a.example/", "blob:x", "data:text/plain,x"]) {
    const refused = await ask(page, "POST", `/v1/test/send?url=${encodeURIComponent(url)}`);
    expect(refused.body["kind"], url).toBe("network");
  }
  expect(other.requests).toEqual([]);
  expect(models.requests.slice(before).map(({ path }) => path)).toEqual(["/elsewhere"]);
  await other.close();
  await of.close();
});

test("an engine that traps is made again, and files stay", async () => {
  const of = await context();
  const page = await open(of);
  await ask(page, "POST", "/v1/test/append?file=j.jsonl&line=kept");
  const lost = await page.evaluate(() =>
    (globalThis as unknown as { engine: typeof fetch }).engine("/v1/test/trap").then(
      () => "answered",
      (error: unknown) => (error instanceof TypeError ? error.message : "other"),
    ),
  );
  expect(lost).toContain("has failed");
  expect(text(await ask(page, "GET", JOURNAL))).toBe("kept\n");
  await of.close();
});

test("a program goes out as a zip and comes back, with its runs", async () => {
  const of = await context();
  const page = await open(of);
  const files = { "main.worker": { text: "Hello." }, "data/a.bin": { base64: "AAECAw==" } };
  await ask(page, "PUT", "/page/program?program=desk&sha256=1", JSON.stringify({ name: "desk", files }));
  await ask(page, "POST", "/v1/test/append?file=j.jsonl&line=run");
  const moved = await page.evaluate(async () => {
    const send = (globalThis as unknown as { engine: typeof fetch }).engine;
    const zip = await (await send("/page/export?program=desk&runs=true")).blob();
    const first = await send("/page/import?program=copy", { method: "POST", body: zip });
    const second = await send("/page/import?program=copy", { method: "POST", body: zip });
    return [zip.size, first.status, second.status];
  });
  expect(moved.slice(1)).toEqual([200, 400]);
  expect(text(await ask(page, "GET", "/v1/test/read?path=copy/main.worker"))).toBe("Hello.");
  expect(text(await ask(page, "GET", "/v1/test/read?path=copy/data/a.bin"))).toBe("\0\u0001\u0002\u0003");
  expect(text(await ask(page, "GET", "/v1/test/read?path=copy/.llm-do/runs/r/j.jsonl"))).toBe("run\n");
  await of.close();
});

test("a new version of the page's program replaces the old one, and the same version leaves what the visitor changed", async () => {
  const of = await context();
  const page = await open(of);
  const install = (sha256: string, files: Record<string, { text: string }>): Promise<Answer> =>
    ask(page, "PUT", `/page/program?program=desk&sha256=${sha256}`, JSON.stringify({ name: "desk", files }));
  const read = async (path: string): Promise<string> => text(await ask(page, "GET", `/v1/test/read?path=desk/${path}`));
  await install("1", { "main.worker": { text: "one" }, "old.worker": { text: "old" } });
  await install("1", { "main.worker": { text: "not written" } });
  expect(await read("main.worker")).toBe("one");
  await install("2", { "main.worker": { text: "two" } });
  expect(await read("main.worker")).toBe("two");
  expect((await ask(page, "GET", "/v1/test/read?path=desk/old.worker")).body).toMatchObject({ error: { kind: "missing" } });
  for (const path of ["../x", "a/../../x", "/x"]) {
    expect((await install("3", { [path]: { text: "x" } })).status, path).toBe(403);
  }
  await of.close();
});
