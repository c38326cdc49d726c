/** Runs the engine: gives it inputs, and performs its effects in their order. */

import type { Call } from "../engine/through";
import { fromBase64, toBase64, type Bytes } from "./bytes";
import { performOnFiles } from "./files";
import type { Steps } from "./module";
import { Network, type InnerFetch } from "./network";
import type { AnswerEffect, Effect, HostError, Input, Options } from "./protocol";
import { storeError, type Store } from "./store";

/** A part of an answer to a request of the app. */
export type Reply =
  | { reply: "head"; status: number; headers: Record<string, string>; body: Bytes | string | undefined; isStream: boolean }
  | { reply: "piece"; text: string }
  | { reply: "end" }
  /** The engine was lost, or never began. */
  | { reply: "lost"; message: string };

/** Instances in a row that a first message may bring down. */
const ATTEMPTS = 3;

export class Host {
  readonly #store: Store;
  readonly #make: () => Promise<Steps>;
  #network: Network;
  readonly #sealKey: Bytes;
  readonly #inner: InnerFetch;
  #engine: Steps | undefined;
  #options: Options = {};
  /** Inputs that wait, with what is called when the engine has them. */
  #inputs: { input: Input; taken: () => void }[] = [];
  #isBusy = false;
  #failures = 0;
  /** Why the engine can't run, if it can't. */
  #dead: string | undefined;
  readonly #locks = new Set<string>();
  readonly #replies = new Map<number, (reply: Reply) => void>();
  #next = 1;

  /** `make` makes a new instance of the engine. `sealKey` seals the journals of this browser. */
  constructor(make: () => Promise<Steps>, store: Store, sealKey: Bytes, inner: InnerFetch) {
    this.#make = make;
    this.#store = store;
    this.#sealKey = sealKey;
    this.#inner = inner;
    this.#network = this.#newNetwork();
  }

  #newNetwork(): Network {
    const network: Network = new Network((input) => (this.#network === network ? this.#tell(input) : Promise.resolve()), this.#inner);
    return network;
  }

  /** Asks the engine. Returns what closes the request. */
  ask(asked: Call, reply: (reply: Reply) => void): () => void {
    if (this.#dead !== undefined) {
      reply({ reply: "lost", message: this.#dead });
      return () => undefined;
    }
    const id = this.#next++;
    this.#replies.set(id, reply);
    const { method, path, headers, body } = asked;
    const sent = body === undefined ? {} : typeof body === "string" ? { body } : { base64: toBase64(body) };
    void this.#tell({ input: "request", id, method, path, headers, ...sent });
    return () => {
      if (this.#replies.delete(id)) void this.#tell({ input: "close", id });
    };
  }

  setOptions(options: Options): void {
    this.#options = options;
    if (this.#engine !== undefined) void this.#tell({ input: "options", options });
  }

  /** The files of a program are others now. */
  changed(program: string): void {
    void this.#tell({ input: "changed", program });
  }

  #tell(input: Input): Promise<void> {
    return new Promise((taken) => {
      this.#inputs.push({ input, taken });
      void this.#work();
    });
  }

  async #work(): Promise<void> {
    if (this.#isBusy || this.#dead !== undefined) return;
    this.#isBusy = true;
    try {
      while (this.#inputs.length > 0) {
        const taken = this.#inputs.splice(0);
        try {
          const engine = (this.#engine ??= await this.#begin());
          await this.#perform(engine.step(taken.map(({ input }) => input)));
          this.#failures = 0;
        } catch (error) {
          this.#lose(error);
          if (this.#dead !== undefined) return;
        } finally {
          for (const one of taken) one.taken();
        }
      }
    } finally {
      this.#isBusy = false;
    }
  }

  async #begin(): Promise<Steps> {
    const engine = await this.#make();
    const entropy = toBase64(crypto.getRandomValues(new Uint8Array(32)));
    await this.#perform(
      engine.step([
        { input: "start", entropy, seal_key: toBase64(this.#sealKey) },
        { input: "options", options: this.#options },
      ]),
    );
    return engine;
  }

  /** The engine has trapped: its memory is lost, and no record is. The next input makes another instance. */
  #lose(error: unknown): void {
    const said = error instanceof Error ? error.message : String(error);
    this.#engine = undefined;
    this.#locks.clear();
    this.#network.abortAll();
    this.#network = this.#newNetwork();
    const message = `The engine of this page has failed (${said}). Its runs are kept; continue them on their pages.`;
    if (++this.#failures === ATTEMPTS) this.#dead = `The engine of this page can't run: ${said}`;
    for (const reply of this.#replies.values()) reply({ reply: "lost", message: this.#dead ?? message });
    this.#replies.clear();
    for (const { taken } of this.#inputs.splice(0)) taken();
  }

  async #perform(effects: Effect[]): Promise<void> {
    /** Runs whose journal could not be written: nothing of theirs follows. */
    const ended = new Map<string, HostError>();
    for (const effect of effects) {
      const run = effect.run;
      const failed = run === undefined ? undefined : ended.get(run);
      if (failed !== undefined) {
        if ("id" in effect) this.#report({ input: "failed", id: effect.id, error: failed });
        continue;
      }
      switch (effect.effect) {
        case "append":
        case "store":
        case "read":
        case "stat":
        case "list":
        case "write":
        case "folder":
        case "move":
        case "remove":
          try {
            const result = await performOnFiles(this.#store, effect);
            // Of a record, only a failure is reported.
            if (effect.effect !== "append" && effect.effect !== "store") this.#report({ input: "done", id: effect.id, ...result });
          } catch (error) {
            const { kind, message } = storeError(error, effect.path);
            this.#report({ input: "failed", id: effect.id, error: { kind, message } });
            if (run !== undefined && (effect.effect === "append" || effect.effect === "store")) ended.set(run, { kind, message });
          }
          break;
        case "lock":
          if (this.#locks.has(effect.name)) this.#report({ input: "failed", id: effect.id, error: HELD });
          else {
            // One tab runs the engine for all, so that a set is enough (`owner.ts`).
            this.#locks.add(effect.name);
            this.#report({ input: "done", id: effect.id });
          }
          break;
        case "unlock":
          this.#locks.delete(effect.name);
          break;
        case "send":
          this.#network.send(effect);
          break;
        case "wait":
          this.#network.wait(effect.id, effect.ms);
          break;
        case "abort":
          this.#network.abort(effect.id);
          break;
        default:
          this.#answer(effect);
      }
    }
  }

  /** Keeps the result of an effect for the next step. */
  #report(input: Input): void {
    this.#inputs.push({ input, taken: () => undefined });
  }

  #answer(effect: AnswerEffect): void {
    const reply = this.#replies.get(effect.request);
    if (reply === undefined) return;
    if (effect.effect === "piece") return reply({ reply: "piece", text: effect.text });
    if (effect.effect === "respond") {
      const { status, headers, text, base64, stream } = effect;
      reply({ reply: "head", status, headers: Object.fromEntries(headers), body: base64 === undefined ? text : fromBase64(base64), isStream: stream });
      if (stream) return;
    } else reply({ reply: "end" });
    this.#replies.delete(effect.request);
  }
}

const HELD: HostError = { kind: "held", message: "the run is under way already" };
