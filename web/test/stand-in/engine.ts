/**
 * An engine in the place of the WebAssembly module, for the tests of its host in a browser: it has the exports of
 * `src/page/module.ts`, answers what the app asks first, and does what the paths below `/v1/test` say.
 */

import type { Effect, Input } from "../../src/page/protocol";

type Request = Extract<Input, { input: "request" }>;

const respond = (request: number, value: unknown, status = 200): Effect => ({
  effect: "respond",
  request,
  status,
  headers: [["content-type", "application/json"]],
  text: JSON.stringify(value),
  stream: false,
});

export class EngineModule {
  #next = 1;
  readonly #programs = new Set<string>();
  readonly #then = new Map<number, (input: Input) => Effect[]>();
  readonly #streams = new Map<number, number>();
  #closed = 0;

  static compile(): Promise<object> {
    return Promise.resolve({});
  }

  static make(): Promise<EngineModule> {
    return Promise.resolve(new EngineModule());
  }

  step(inputs: Input[]): Effect[] {
    return inputs.flatMap((input) => this.#take(input));
  }

  #do(make: (id: number) => Effect, then: (input: Input) => Effect[]): Effect[] {
    const id = this.#next++;
    this.#then.set(id, then);
    return [make(id)];
  }

  #take(input: Input): Effect[] {
    switch (input.input) {
      case "start":
        return this.#do(
          (id) => ({ effect: "list", id, path: "", deep: false, most: 100 }),
          (listed) => {
            if (listed.input === "done") for (const { path } of listed.entries ?? []) this.#programs.add(path);
            return [];
          },
        );
      case "changed":
        this.#programs.add(input.program);
        return [];
      case "close":
        this.#closed++;
        this.#streams.delete(input.id);
        return [];
      case "request":
        return this.#answer(input);
      case "options":
        return [];
      default: {
        const then = this.#then.get(input.id);
        if (input.input !== "head" && input.input !== "piece") this.#then.delete(input.id);
        return then?.(input) ?? [];
      }
    }
  }

  #answer(request: Request): Effect[] {
    const { id, method } = request;
    const url = new URL(request.path, "http://page");
    const query = (name: string): string => url.searchParams.get(name) ?? "";
    const programs = [...this.#programs];
    switch (`${method} ${url.pathname}`) {
      case "GET /v1/session":
        return [respond(id, { name: "operator", scopes: ["start", "read", "answer", "edit"], read: "all", version: "stand-in" })];
      case "GET /v1/programs":
        return [respond(id, { programs: programs.map((program) => ({ program, edit: true })) })];
      case "GET /v1/workers":
        return [
          respond(id, {
            workers: programs.map((program) => ({
              program,
              worker: "main",
              default: true,
              description: "Does what a test needs.",
              input: { type: "object", properties: { text: { type: "string" } } },
              changes: true,
              network: false,
              model: "openai:gpt-5-mini",
            })),
          }),
        ];
      case "GET /v1/runs":
        return [respond(id, { runs: [] })];
      case "GET /v1/questions":
        return [respond(id, { questions: [] })];
      case "GET /v1/events":
        return [{ effect: "respond", request: id, status: 200, headers: [["content-type", "text/event-stream"]], stream: true }];
      case "POST /v1/test/append": {
        const answered = respond(id, { appended: true });
        const text = query("line").repeat(Number(query("times") || "1"));
        const effects = this.#do(
          (effect) => ({ effect: "append", id: effect, run: "r", path: `desk/.llm-do/runs/r/${query("file")}`, text: `${text}\n` }),
          (result) => [respond(id, result.input === "failed" ? result.error : {}, 507)],
        );
        return [...effects, { ...answered, run: "r" }];
      }
      case "GET /v1/test/read":
        return this.#do(
          (effect) => ({ effect: "read", id: effect, path: query("path"), from: 0, most: 1e9 }),
          (result) => [respond(id, result)],
        );
      case "POST /v1/test/send": {
        let bytes = 0;
        let pieces = 0;
        const begun = this.#next;
        return this.#do(
          (effect) => ({ effect: "send", id: effect, method: "POST", url: query("url"), headers: [["authorization", "Bearer k"]], body: "{}" }),
          (input) => {
            if (input.input === "failed") return [respond(id, input.error, 502)];
            if (input.input === "end") return [respond(id, { bytes, pieces })];
            if (input.input !== "piece") return [];
            pieces++;
            bytes += atob(input.base64).length;
            if (query("stop") === "" || bytes < Number(query("stop"))) return [];
            this.#then.delete(begun);
            return [{ effect: "abort", id: begun }, respond(id, { bytes, pieces })];
          },
        );
      }
      case "GET /v1/test/stream": {
        const next = (count: number): Effect[] => {
          if (count > 0 && !this.#streams.has(id)) return [];
          this.#streams.set(id, count);
          const waits = this.#do((effect) => ({ effect: "wait", id: effect, ms: 20 }), () => next(count + 1));
          return [{ effect: "piece", request: id, text: `data: ${count}\n\n` }, ...waits];
        };
        return [
          { effect: "respond", request: id, status: 200, headers: [["content-type", "text/event-stream"]], stream: true },
          ...next(0),
        ];
      }
      case "GET /v1/test/state":
        return [respond(id, { closed: this.#closed, streams: this.#streams.size })];
      case "GET /v1/test/trap":
        throw new WebAssembly.RuntimeError("unreachable");
      default:
        return [respond(id, { code: "not_in_page", detail: "A page can't do this." }, 501)];
    }
  }
}
