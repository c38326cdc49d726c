/**
 * The engine behind `llm-do serve` (`docs/reference/http.md`), and the one in the page (`docs/reference/page-engine.md`), which
 * answers the same requests. The only file that knows of HTTP.
 */

import {
  EngineError,
  isUnderWay,
  type Candidate,
  type Connection,
  type CostsOfRuns,
  type CursorIn,
  type Definition,
  type DefinitionFile,
  type DefinitionPlace,
  type Diagnostic,
  type Engine,
  type Explanation,
  type Folder,
  type MapOfRows,
  type Notice,
  type Page,
  type Program,
  type Prompt,
  type QuestionOfRun,
  type RowPage,
  type RowState,
  type Run,
  type RunFilter,
  type Session,
  type StartRequest,
  type TestResults,
  type TestSummary,
  type Trigger,
  type Worker,
} from "./engine";
import { parseJson, writeJson } from "./json";
import { asEvent, type Answer, type Json, type QuestionId, type RunEvent } from "./records";
import { backoff, wait } from "./retry";
import { SessionSecret } from "./session-secret";
import * as shapes from "./shapes";
import { shared, takePlace, takeTurn } from "./sharing";
import { serverEvents, type ServerEvent } from "./sse";

/** Answers of a proxy or a server that is about to come back: the request may be repeated. */
const TRANSIENT = new Set([502, 503, 504]);
/** Codes of errors after which a stream is worth another attempt. */
const AGAIN = new Set(["offline", "shutting_down", "too_many_streams"]);
/** How long a tab without a stream waits between two looks for records, in a look for further ones, and for the first. */
const LOOKS_MS = 2000;
const SILENCE_MS = 300;
const LONGEST_LOOK_MS = 3000;
/** What the tab that reads tells the others. */
type Told = Notice | { notice: "connection"; connection: Connection };
/** Events that are read between two pauses, so that a long run does not freeze the page. */
const EVENTS_AT_ONCE = 2000;

export class HttpEngine implements Engine {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #unreachable: string;
  readonly #listeners = new Set<(connection: Connection) => void>();
  /** What is waiting to reach the server again. */
  readonly #lost = new Set<symbol>();
  /** An event with the ID of a run: its state has changed. */
  readonly #news = new EventTarget();
  readonly #secret = new SessionSecret();

  /** `fetching` sends the requests in place of the browser. `unreachable` says that the engine does not answer. */
  constructor(
    base = "",
    fetching: typeof fetch = (...asked) => fetch(...asked),
    unreachable = "The server can't be reached. Is it running?",
  ) {
    this.#base = base;
    this.#fetch = fetching;
    this.#unreachable = unreachable;
  }

  async signIn(token: string): Promise<void> {
    const response = await this.#send("POST", "/v1/session", { headers: { Authorization: `Bearer ${token}` } });
    const { secret } = await shapes.read(response, shapes.signedIn);
    this.#secret.set(secret);
  }

  async signOut(): Promise<void> {
    try {
      await this.#send("DELETE", "/v1/session");
    } finally {
      this.#secret.set(null);
    }
  }

  onSession(listener: () => void): () => void {
    return this.#secret.onChange(listener);
  }

  session(): Promise<Session> {
    return this.#get("/v1/session", shapes.session);
  }

  async programs(): Promise<Program[]> {
    return (await this.#get("/v1/programs", shapes.programs)).programs;
  }

  async workers(): Promise<Worker[]> {
    return (await this.#get("/v1/workers", shapes.workers)).workers;
  }

  start(request: StartRequest, key: string): Promise<Run> {
    return this.#json("POST", "/v1/runs", shapes.run, request, { "Idempotency-Key": key });
  }

  async upload(file: File): Promise<string> {
    const path = `/v1/uploads?${new URLSearchParams({ name: file.name })}`;
    const response = await this.#send("POST", path, {
      headers: { "Content-Type": "application/octet-stream" },
      body: file,
    });
    return `upload:${(await shapes.read(response, shapes.uploaded)).upload}`;
  }

  runs(filter: RunFilter): Promise<Page> {
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(filter)) {
      const text = Array.isArray(value) ? value.join(",") : String(value);
      if (value !== undefined && text !== "") query.set(key, text);
    }
    return this.#get(`/v1/runs?${query}`, shapes.runs);
  }

  run(run: string): Promise<Run> {
    return this.#get(`/v1/runs/${encodeURIComponent(run)}`, shapes.run);
  }

  follow(run: string, after: number | undefined, signal: AbortSignal): AsyncGenerator<RunEvent[]> {
    const path = `/v1/runs/${encodeURIComponent(run)}/events?view=true`;
    return this.#followed(run, path, async () => !isUnderWay((await this.run(run)).state), after, signal);
  }

  followRow(program: string, map: string, row: string, after: number | undefined, signal: AbortSignal): AsyncGenerator<RunEvent[]> {
    const path = `${this.#ofMap(program, map)}/rows/${encodeURIComponent(row)}/events?view=true`;
    return this.#followed(row, path, async () => !(await this.map(program, map)).running, after, signal);
  }

  async *#followed(
    run: string,
    path: string,
    ended: () => Promise<boolean>,
    after: number | undefined,
    signal: AbortSignal,
  ): AsyncGenerator<RunEvent[]> {
    let last = after;
    const headers = (): Record<string, string> => (last === undefined ? {} : { "Last-Event-ID": String(last) });
    let live = true;
    for await (const { events, whole } of this.#limited(run, path, headers, ended, signal)) {
      const batch: RunEvent[] = [];
      // Pieces of answers were missed between two looks.
      if (whole && !live) batch.push({ event: "joined" });
      live = whole;
      for (const { event, data } of events) {
        if (event === "error") throw new EngineError("unreadable", data);
        const read = shapes.parsed(data, asEvent);
        if (read === undefined || (!whole && read.event !== "record")) continue;
        if (read.event === "record") {
          // Repeated after a lost connection.
          if (last !== undefined && read.record.seq <= last) continue;
          last = read.record.seq;
        }
        batch.push(read);
        if (batch.length === EVENTS_AT_ONCE) {
          yield batch.splice(0);
          await new Promise((resolve) => setTimeout(resolve));
        }
      }
      if (batch.length > 0) yield batch;
    }
  }

  async answer(run: string, question: QuestionId & { digest: string }, answer: Answer): Promise<void> {
    const { call, step, digest } = question;
    await this.#json("POST", `/v1/runs/${encodeURIComponent(run)}/answers`, shapes.anything, { call, step, digest, ...answer });
  }

  async message(run: string, text: string, now: boolean): Promise<boolean> {
    const body = now ? { text, now } : { text };
    const sent = await this.#json("POST", `/v1/runs/${encodeURIComponent(run)}/messages`, shapes.sent, body);
    return sent.delivered;
  }

  async stop(run: string): Promise<void> {
    await this.#send("POST", `/v1/runs/${encodeURIComponent(run)}/stop`);
  }

  async cancel(run: string): Promise<void> {
    await this.#send("POST", `/v1/runs/${encodeURIComponent(run)}/cancel`);
  }

  async continueRun(run: string): Promise<void> {
    await this.#send("POST", `/v1/runs/${encodeURIComponent(run)}/continue`);
  }

  async exportRun(run: string, progress: (bytes: number, of: number | undefined) => void): Promise<Blob> {
    const response = await this.#send("GET", `/v1/runs/${encodeURIComponent(run)}/export`);
    const length = Number(response.headers.get("content-length") ?? 0);
    if (response.body === null) return response.blob();
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    let bytes = 0;
    const reader = response.body.getReader();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      pieces.push(read.value);
      bytes += read.value.length;
      progress(bytes, length > 0 ? length : undefined);
    }
    return new Blob(pieces, { type: response.headers.get("content-type") ?? "text/html" });
  }

  costs(program: string | undefined, since_ms: number): Promise<CostsOfRuns> {
    const query = new URLSearchParams({ since_ms: String(since_ms), ...(program === undefined ? {} : { program }) });
    return this.#get(`/v1/costs?${query}`, shapes.costs);
  }

  async triggers(): Promise<Trigger[]> {
    return (await this.#get("/v1/triggers", shapes.triggers)).triggers;
  }

  async tests(program: string): Promise<TestSummary[]> {
    return (await this.#get(`/v1/programs/${encodeURIComponent(program)}/tests`, shapes.tests)).tests;
  }

  test(program: string, test: string): Promise<TestResults> {
    return this.#get(`/v1/programs/${encodeURIComponent(program)}/tests/${encodeURIComponent(test)}`, shapes.test);
  }

  async maps(program: string): Promise<MapOfRows[]> {
    return (await this.#get(`/v1/programs/${encodeURIComponent(program)}/maps`, shapes.maps)).maps;
  }

  #ofMap(program: string, map: string): string {
    return `/v1/programs/${encodeURIComponent(program)}/maps/${encodeURIComponent(map)}`;
  }

  map(program: string, map: string): Promise<MapOfRows> {
    return this.#get(this.#ofMap(program, map), shapes.map);
  }

  rows(program: string, map: string, state: RowState | undefined, after: number): Promise<RowPage> {
    const query = new URLSearchParams({ after: String(after), ...(state === undefined ? {} : { state }) });
    return this.#get(`${this.#ofMap(program, map)}/rows?${query}`, shapes.rows);
  }

  async questions(): Promise<QuestionOfRun[]> {
    return (await this.#get("/v1/questions", shapes.waiting)).questions;
  }

  async *notices(signal: AbortSignal): AsyncGenerator<Notice> {
    const reader = Symbol("the tab that reads");
    try {
      for await (const told of shared<Told>("llm-do-notices", signal, (tell) => this.#notices(signal, tell), { notice: "missed" })) {
        // The tab that reads knows for all whether the server can be reached.
        if (told.notice === "run") this.#news.dispatchEvent(new Event(told.run));
        if (told.notice !== "connection") yield told;
        else if (told.connection.state === "connected") this.#found(reader);
        else this.#lose(reader, told.connection.retry_ms);
      }
    } finally {
      this.#found(reader);
    }
  }

  async *#notices(signal: AbortSignal, tell: (told: Told) => void): AsyncGenerator<Notice> {
    const events = this.#stream(
      "/v1/events",
      () => ({}),
      () => Promise.resolve(false),
      signal,
      (connection) => tell({ notice: "connection", connection }),
    );
    for await (const batch of events) {
      for (const { event, data } of batch) {
        if (event === "run" || event === "questions") yield shapes.notice(event, data);
      }
    }
  }

  files(run: string, path: string): Promise<Folder> {
    return this.#get(`/v1/runs/${encodeURIComponent(run)}/files?${new URLSearchParams({ path })}`, shapes.folder);
  }

  async file(run: string, path: string): Promise<Blob> {
    const query = new URLSearchParams({ path });
    return (await this.#send("GET", `/v1/runs/${encodeURIComponent(run)}/files/content?${query}`)).blob();
  }

  async definitions(program: string): Promise<DefinitionFile[]> {
    return (await this.#get(`/v1/programs/${encodeURIComponent(program)}/files`, shapes.definitions)).files;
  }

  definition(program: string, path: string): Promise<Definition> {
    return this.#get(`/v1/programs/${encodeURIComponent(program)}/files/content?${new URLSearchParams({ path })}`, shapes.definition);
  }

  save(program: string, path: string, text: string, sha256: string | null): Promise<{ sha256: string; diagnostics: Diagnostic[] }> {
    return this.#json("PUT", `/v1/programs/${encodeURIComponent(program)}/files/content`, shapes.saved, { path, text, sha256 });
  }

  async check(program: string, files: Record<string, string>): Promise<Diagnostic[]> {
    const path = `/v1/programs/${encodeURIComponent(program)}/check`;
    return (await this.#json("POST", path, shapes.diagnostics, { files })).diagnostics;
  }

  async complete(program: string, cursor: CursorIn, signal: AbortSignal): Promise<Candidate[]> {
    const path = `/v1/programs/${encodeURIComponent(program)}/completion`;
    return (await this.#json("POST", path, shapes.completion, cursor, {}, signal)).candidates;
  }

  async hover(program: string, cursor: CursorIn): Promise<Explanation | undefined> {
    const path = `/v1/programs/${encodeURIComponent(program)}/hover`;
    return (await this.#json("POST", path, shapes.explained, cursor)).hover;
  }

  async definitionAt(program: string, cursor: CursorIn): Promise<DefinitionPlace[]> {
    const path = `/v1/programs/${encodeURIComponent(program)}/definition`;
    return (await this.#json("POST", path, shapes.definitionPlaces, cursor)).places;
  }

  prompt(program: string, worker: string, input: Json, files: Record<string, string>): Promise<Prompt> {
    return this.#json("POST", `/v1/programs/${encodeURIComponent(program)}/prompt`, shapes.prompt, { worker, input, files });
  }

  onConnection(listener: (connection: Connection) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * The same for a run. Where other tabs have all places for streams, this tab looks again and again for what is new
   * (`whole`: `false`), until there is a place.
   */
  async *#limited(
    run: string,
    path: string,
    headers: () => Record<string, string>,
    ended: () => Promise<boolean>,
    signal: AbortSignal,
  ): AsyncGenerator<{ events: ServerEvent[]; whole: boolean }> {
    while (!signal.aborted) {
      const leave = await takePlace();
      if (leave !== undefined) {
        try {
          for await (const events of this.#stream(path, headers, ended, signal)) yield { events, whole: true };
        } finally {
          leave();
        }
        return;
      }
      const look = new AbortController();
      const end = (): void => look.abort();
      signal.addEventListener("abort", end);
      try {
        const pass = await takeTurn(signal);
        // Everything that is there arrives at once; then the stream is silent. A look that brings nothing ends, too.
        let silence = setTimeout(end, LONGEST_LOOK_MS);
        const connected = ({ state }: Connection): void => {
          clearTimeout(silence);
          if (state === "connected") silence = setTimeout(end, SILENCE_MS);
        };
        try {
          for await (const events of this.#stream(path, headers, ended, look.signal, connected)) {
            clearTimeout(silence);
            yield { events, whole: false };
            silence = setTimeout(end, SILENCE_MS);
          }
        } finally {
          clearTimeout(silence);
          pass();
        }
        if (!look.signal.aborted) return;
        await this.#newsOf(run, signal);
      } catch (error) {
        if (signal.aborted) return;
        throw error;
      } finally {
        signal.removeEventListener("abort", end);
      }
    }
  }

  /** Waits until the run has another state, or for some time. */
  async #newsOf(run: string, signal: AbortSignal): Promise<void> {
    let heard = (): void => undefined;
    const news = new Promise<void>((resolve) => (heard = resolve));
    this.#news.addEventListener(run, heard);
    try {
      await Promise.race([wait(LOOKS_MS, signal), news]);
    } finally {
      this.#news.removeEventListener(run, heard);
    }
  }

  /** Events over lost connections, until `ended` says that no more follow. `changed`: hears of each connection and loss. */
  async *#stream(
    path: string,
    headers: () => Record<string, string>,
    ended: () => Promise<boolean>,
    signal: AbortSignal,
    changed: (connection: Connection) => void = () => undefined,
  ): AsyncGenerator<ServerEvent[]> {
    const self = Symbol(path);
    try {
      for (let attempt = 0; ; attempt++) {
        const ms = backoff(attempt);
        try {
          const response = await this.#send("GET", path, {
            headers: { Accept: "text/event-stream", ...headers() },
            signal,
            cache: "no-store",
          });
          this.#found(self);
          changed({ state: "connected" });
          if (response.body !== null) {
            for await (const events of serverEvents(response.body)) {
              attempt = 0;
              yield events;
            }
          }
          if (await ended()) return;
        } catch (error) {
          if (signal.aborted) return;
          const again = error instanceof TypeError || (error instanceof EngineError && AGAIN.has(error.code));
          if (!again) throw error;
          this.#lose(self, ms);
          changed({ state: "lost", retry_ms: ms });
        }
        await wait(ms, signal).catch(() => undefined);
        if (signal.aborted) return;
      }
    } finally {
      this.#found(self);
    }
  }

  #lose(who: symbol, retry_ms: number): void {
    this.#lost.add(who);
    for (const listener of this.#listeners) listener({ state: "lost", retry_ms });
  }

  #found(who: symbol): void {
    if (!this.#lost.delete(who) || this.#lost.size > 0) return;
    for (const listener of this.#listeners) listener({ state: "connected" });
  }

  async #get<T>(path: string, shape: shapes.Shape<T>): Promise<T> {
    return shapes.read(await this.#send("GET", path), shape);
  }

  async #json<T>(
    method: string,
    path: string,
    shape: shapes.Shape<T>,
    body: unknown,
    headers: Record<string, string> = {},
    signal?: AbortSignal,
  ): Promise<T> {
    const response = await this.#send(method, path, {
      headers: { "Content-Type": "application/json", ...headers },
      body: writeJson(body),
      ...(signal === undefined ? {} : { signal }),
    });
    return response.status === 204 ? shape(undefined, "") : shapes.read(response, shape);
  }

  async #send(method: string, path: string, init: RequestInit = {}): Promise<Response> {
    let response: Response;
    const headers = new Headers(init.headers);
    const secret = this.#secret.get();
    if (secret !== null) headers.set("Llm-Do-Session", secret);
    try {
      response = await this.#fetch(this.#base + path, { ...init, headers, method, credentials: "same-origin" });
    } catch (error) {
      if (init.signal?.aborted) throw error;
      throw new EngineError("offline", this.#unreachable);
    }
    if (response.ok) return response;
    throw await refusal(response, this.#unreachable);
  }
}

/** The findings of a refusal, if it has some. */
function findings(diagnostics: unknown): Diagnostic[] | undefined {
  try {
    return shapes.diagnostics({ diagnostics }, "").diagnostics;
  } catch {
    return undefined;
  }
}

/** What a response that is no success says. */
async function refusal(response: Response, unreachable: string): Promise<EngineError> {
  const text = await response.text().catch(() => "");
  let problem: { code?: unknown; detail?: unknown; by?: unknown; diagnostics?: unknown } = {};
  try {
    const given: unknown = parseJson(text);
    if (typeof given === "object" && given !== null) problem = given;
  } catch {
    // Not of this server: a proxy's page, for example.
  }
  const { code, detail, by, diagnostics } = problem;
  if (typeof code !== "string" && TRANSIENT.has(response.status)) {
    return new EngineError("offline", unreachable);
  }
  return new EngineError(
    typeof code === "string" ? code : response.status === 401 ? "unauthorized" : `status_${response.status}`,
    typeof detail === "string" ? detail : `The server answered with status ${response.status}.`,
    typeof by === "string" ? by : undefined,
    findings(diagnostics),
  );
}
