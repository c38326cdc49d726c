/** Conversations with workers: `const chat = p.worker("talker").chat()`, `await chat.send("Hello")`. */

import { readFile, realpath } from "node:fs/promises";
import { basename, resolve } from "node:path";

import type { Connection, Params, Request } from "./connection.js";
import { Disconnected, Failed, InvalidInput, LlmDoError, errorOfRun } from "./errors.js";
import type { Answer } from "./question.js";
import type { Result, Run } from "./result.js";
import { Events, type Waited } from "./stream.js";

/** What the worker has said last. */
export interface Reply {
  readonly text: string;
  /** The number of the message that comes next. `undo` takes it. */
  readonly number: number;
  /** Whether the answer was cut off: by `stop`, or at the model's limit. */
  readonly cutOff: boolean;
  /** Tokens of the next request, if they are known. */
  readonly contextTokens: number | undefined;
}

/** What goes with a message. */
export interface MessageOptions {
  /** Paths of files for the worker's model. */
  readonly attachments?: readonly string[] | undefined;
}

/** Starts the run of a chat. */
export type StartChat<I> = (
  input: I | string,
  attachments: readonly string[],
  hear: (params: Params) => void,
  heard: (method: string, params: Params) => boolean,
) => Request;

/** Records that say why something was not done that an answer asked for. */
const NOT_DONE: readonly string[] = ["not_attached", "model_not_chosen"];

/** The wait for the next turn of a conversation. */
interface Turn {
  readonly question: Promise<Params>;
  readonly settle: (question: Params) => void;
  readonly fail: (error: unknown) => void;
}

function turn(): Turn {
  let settle: (question: Params) => void = () => {};
  let fail: (error: unknown) => void = () => {};
  const question = new Promise<Params>((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  question.catch(() => {}); // Whoever waits for it hears of it.
  return { question, settle, fail };
}

/**
 * A conversation with a worker. The first message starts its run. A message that is sent while an answer is under way waits for
 * its end. Approvals go to the operator, as those of calls. `await using` ends the conversation.
 */
export class Chat<I = Readonly<Record<string, unknown>>, O = unknown> implements AsyncDisposable {
  readonly #connection: Connection;
  readonly #start: StartChat<I>;
  readonly #decode: (view: unknown) => Result<O>;
  #run: string | undefined;
  #request: Request | undefined;
  #over = false;
  /** The question for the next message, while it waits. */
  #open: Params | undefined;
  #next: Turn | undefined;
  #events: ((params: Params) => void) | undefined;
  /** Why what the last answer asked for was not done. */
  #notDone: string | undefined;

  /** @internal */
  constructor(connection: Connection, start: StartChat<I>, decode: (view: unknown) => Result<O>, input: I | undefined) {
    this.#connection = connection;
    this.#start = start;
    this.#decode = decode;
    if (input !== undefined) this.#begin(input, []);
  }

  /** The ID of its run, once it has begun: `llm-do runs show RUN` shows it. */
  get run(): string | undefined {
    return this.#run;
  }

  /** Says something, and waits for the answer. What fails throws `Failed`, and the next message continues the conversation. */
  async send(text: string, options: MessageOptions = {}): Promise<Reply> {
    return this.#replied(await (await this.#say(text, options)).question);
  }

  /**
   * Says something. The stream gives the events of the answer, and `result()` the reply. Leaving it early, or `close`, stops the
   * answer.
   */
  stream(text: string, options: MessageOptions = {}): Events<Reply> {
    return new Events<Reply>(
      (hear): Waited => {
        const said = this.#say(text, options, hear);
        return { result: said.then(({ question }) => question), cancel: () => this.stop() };
      },
      (question) => this.#replied(question as Params),
    );
  }

  /** What the worker has said last. Waits until it has. */
  async reply(): Promise<Reply> {
    return this.#replied(await this.#begun().question);
  }

  /** Has the answer under way take these words with its next request. If there is none, they are the next message. */
  async sayNow(text: string): Promise<void> {
    this.#begun();
    await this.#connection.request("message", { run: this.#run, text, now: true }).result;
  }

  /** Stops the answer under way, as Ctrl-C does in a terminal. The conversation waits for the next message. */
  stop(): void {
    if (this.#run === undefined) return this.#request?.cancel();
    // There may be no answer any more.
    this.#connection.request("stop", { run: this.#run }).result.catch(() => {});
  }

  /** Takes the message with this number back, and all that came after it. Without a number: the last one. */
  async undo(message?: number): Promise<Reply> {
    return this.act({ answer: "undo", message: message ?? (await this.reply()).number - 1 });
  }

  /** Has the model summarise older turns. `keep` says what the summary must have. */
  compact(keep?: string): Promise<Reply> {
    return this.act({ answer: "compact", ...(keep === undefined ? {} : { keep }) });
  }

  /** Has another model answer from now on. */
  chooseModel(model: string): Promise<Reply> {
    return this.act({ answer: "model", model });
  }

  /** Adds a file to the next message. */
  async attach(path: string): Promise<Reply> {
    const named = resolve(path);
    const name = basename(named);
    const read = Promise.all([readFile(named, "base64"), realpath(named)]);
    const [data, real] = await read.catch((cause: unknown) => {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new InvalidInput(`cannot attach ${named}: ${reason}`, { kind: "invalid_input", cause });
    });
    // What type it has shows in its content, and where it lies decides whether its words are trusted.
    const places = [...new Set([named, real])];
    const content = { name, media_type: "application/octet-stream", data, places };
    return this.act({ answer: "attach", file: name, content });
  }

  /** Gives the conversation one of the answers of `docs/reference/operator-protocol.md`: `act({ answer: "keep", message: 3 })`. */
  async act(answer: Answer): Promise<Reply> {
    return this.#replied(await (await this.#act(answer)).question);
  }

  /** Ends the conversation. Its output is what the worker has said last. */
  async end(): Promise<Result<O>> {
    const request = this.#request;
    if (request === undefined) throw this.#tooEarly();
    if (!this.#over) await this.#act({ answer: "end" });
    return this.#decode(await request.result);
  }

  /** Ends the conversation if it waits for a message, and cancels it if it is at work. */
  async close(): Promise<void> {
    if (this.#request === undefined || this.#over) return;
    if (this.#open === undefined) return this.#request.cancel();
    try {
      await this.end();
    } catch (error) {
      // It was over in this moment.
      if (!(error instanceof LlmDoError)) throw error;
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #tooEarly(): LlmDoError {
    return new LlmDoError("the chat has not begun: send a message");
  }

  #begun(): Turn {
    if (this.#next === undefined) throw this.#tooEarly();
    return this.#next;
  }

  async #say(text: string, options: MessageOptions, hear?: (params: Params) => void): Promise<Turn> {
    const files = options.attachments ?? [];
    if (this.#request === undefined) {
      this.#events = hear;
      return this.#begin(text, files);
    }
    for (const file of files) await this.attach(file);
    return this.#act({ answer: "give", value: text }, hear);
  }

  #begin(input: I | string, attachments: readonly string[]): Turn {
    const next = turn();
    this.#next = next;
    const request = this.#start(
      input,
      attachments,
      (params) => this.#hear(params),
      (method, params) => this.#heard(method, params),
    );
    this.#request = request;
    request.result.then(
      (view) => this.#ended((view as Run).state === "done" ? undefined : errorOfRun(view as Run)),
      (error: unknown) => this.#ended(error),
    );
    return next;
  }

  /** Answers the turn, as soon as it is there. What it returns waits for the next one. */
  async #act(answer: Answer, hear?: (params: Params) => void): Promise<Turn> {
    const before = this.#begun();
    const question = await before.question;
    if (this.#open !== question) {
      throw new Failed("this turn of the chat has an answer", { run: this.#run, kind: "conflict" });
    }
    this.#open = undefined;
    this.#events = hear;
    const next = turn();
    this.#next = next;
    const { run, call, step, digest } = question;
    try {
      await this.#connection.request("answer", { run, call, step, digest, ...answer }).result;
    } catch (error) {
      if (error instanceof LlmDoError && !(error instanceof Disconnected) && !this.#over) {
        // It was no answer to this turn, which still waits.
        this.#open = question;
        this.#next = before;
      }
      throw error;
    }
    return next;
  }

  #replied(question: Params): Reply {
    const { number, cut_off, failure, context } = (question["conversation"] ?? {}) as {
      number?: number;
      cut_off?: boolean;
      failure?: { message: string; kind: string };
      context?: { tokens?: number };
    };
    if (failure !== undefined) throw new Failed(failure.message, { run: this.#run, kind: failure.kind });
    if (question["notDone"] !== undefined) {
      throw new Failed(String(question["notDone"]), { run: this.#run, kind: "not_done" });
    }
    return {
      text: String(question["prompt"] ?? ""),
      number: number ?? 0,
      cutOff: cut_off ?? false,
      contextTokens: context?.tokens,
    };
  }

  #hear(params: Params): void {
    const { path, kind, reason } = (params["record"] ?? {}) as { path?: string; kind?: string; reason?: string };
    if (path === "0" && kind !== undefined && NOT_DONE.includes(kind)) this.#notDone = reason ?? kind;
    this.#events?.(params);
  }

  /** Takes what is about the conversation itself. `false`: it is something else. */
  #heard(method: string, params: Params): boolean {
    if (method === "started") {
      this.#run = String(params["run"]);
    } else if (method === "question" && params["call"] === "0" && params["conversation"] !== undefined) {
      // Events come before the question that they lead to.
      const notDone = this.#notDone;
      this.#notDone = undefined;
      this.#events = undefined;
      this.#open = notDone === undefined ? params : { ...params, notDone };
      this.#next?.settle(this.#open);
    } else {
      return false;
    }
    return true;
  }

  #ended(error: unknown): void {
    this.#over = true;
    if (this.#open !== undefined) this.#next = turn();
    this.#open = undefined;
    this.#next?.fail(error ?? new Failed("the chat is over", { run: this.#run }));
  }
}
