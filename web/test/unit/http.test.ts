import { afterEach, expect, test, vi } from "vitest";
import type { Connection, EngineError } from "../../src/engine/engine";
import { HttpEngine } from "../../src/engine/http";
import type { RunEvent } from "../../src/engine/records";
import { backoff } from "../../src/engine/retry";

afterEach(() => vi.unstubAllGlobals());

const record = (seq: number): string =>
  `event: record\nid: ${seq}\ndata: {"event":"record","record":{"seq":${seq},"at_ms":1,"path":"0","step":"x","kind":"note"}}\n\n`;

/** A response whose body breaks, or ends, after these texts. */
function stream(texts: string[], breaks: boolean): Response {
  const encoder = new TextEncoder();
  return new Response(
    new ReadableStream({
      start(controller) {
        for (const text of texts) controller.enqueue(encoder.encode(text));
        if (breaks) setTimeout(() => controller.error(new TypeError("network error")), 1);
        else controller.close();
      },
    }),
  );
}
const problem = (status: number, body: object): Response => new Response(JSON.stringify(body), { status });

async function followed(answers: ((headers: Headers) => Response)[]): Promise<{ seqs: number[]; asked: (string | null)[]; states: string[] }> {
  const asked: (string | null)[] = [];
  vi.stubGlobal("fetch", (url: string, init?: RequestInit) => {
    if (!url.endsWith("/events?view=true")) return Promise.resolve(new Response(JSON.stringify({ run: "r", program: "p", worker: "w", chat: false, client: "c", state: "done" })));
    const headers = new Headers(init?.headers);
    asked.push(headers.get("Last-Event-ID"));
    const next = answers.shift();
    return next === undefined ? Promise.reject(new TypeError("refused")) : Promise.resolve(next(headers));
  });
  const engine = new HttpEngine();
  const states: string[] = [];
  engine.onConnection((connection: Connection) => states.push(connection.state));
  const seqs: number[] = [];
  for await (const events of engine.follow("r", undefined, new AbortController().signal)) {
    for (const event of events as Extract<RunEvent, { event: "record" }>[]) seqs.push(event.record.seq);
  }
  return { seqs, asked, states };
}

test("a stream continues after the last record, and no record comes twice", async () => {
  const { seqs, asked, states } = await followed([
    () => stream([record(0), record(1), "event: rec"], true),
    () => problem(503, { code: "shutting_down", detail: "ends" }),
    () => stream([record(1), record(2)], true),
    () => stream([record(3)], false),
  ]);
  expect(seqs).toEqual([0, 1, 2, 3]);
  expect(asked).toEqual([null, "1", "1", "2"]);
  expect(states.filter((state, index) => state !== states[index - 1])).toEqual(["lost", "connected", "lost", "connected"]);
});

test("an error that another attempt does not mend ends the stream", async () => {
  const failed = followed([() => problem(404, { code: "not_found", detail: "there is no such run" })]);
  await expect(failed).rejects.toMatchObject({ code: "not_found", message: "there is no such run" });
});

test("refusals say who decided, and a proxy's page is no answer of the server", async () => {
  const engine = new HttpEngine();
  const fails = async (response: Response): Promise<EngineError> => {
    vi.stubGlobal("fetch", () => Promise.resolve(response));
    return engine.answer("r", { call: "0", step: "ask", digest: "d" }, { answer: "approve" }).then(
      () => Promise.reject(new Error("no error")),
      (error: EngineError) => error,
    );
  };
  expect(await fails(problem(409, { code: "already_decided", detail: "x", by: "ada" }))).toMatchObject({ code: "already_decided", by: "ada" });
  expect((await fails(new Response("<html>Bad gateway", { status: 502 }))).code).toBe("offline");
  expect((await fails(new Response("", { status: 401 }))).code).toBe("unauthorized");
  expect((await fails(new Response('"text"', { status: 418 }))).code).toBe("status_418");
});

test("attempts come less and less often, and not for all pages at once", () => {
  expect([0, 1, 2, 3].map((attempt) => backoff(attempt, 1))).toEqual([400, 800, 1600, 3200]);
  expect(backoff(50, 1)).toBe(10_000);
  expect(backoff(2, 0)).toBe(800);
});
