/**
 * One tab runs the engine for all tabs of a site: the tab whose worker has the site's lock. The others send it their
 * requests over a channel. When the tab closes or crashes, the browser gives the lock to the next one, which begins with
 * the files. Requests that were under way end as if a server had gone away, and the app asks again.
 */

import type { Call } from "../engine/through";
import type { Reply } from "./host";

/** What serves requests: the engine with its host. */
export interface Service {
  ask(asked: Call, reply: (reply: Reply) => void): () => void;
  close(): void;
}

type Said =
  | { say: "owner"; owner: string }
  | { say: "owner?" }
  | { say: "ask"; to: string; from: string; id: number; asked: Call }
  | { say: "close"; to: string; from: string; id: number }
  | { say: "reply"; to: string; id: number; reply: Reply };

const GONE: Reply = { reply: "lost", message: "The tab that ran the engine is gone. This tab asks again." };

export class Relay {
  readonly #self = crypto.randomUUID();
  readonly #site: string;
  readonly #begin: () => Promise<Service>;
  readonly #became: (isOwner: boolean) => void;
  #service: Service | undefined;
  #owner: string | undefined;
  #channel: BroadcastChannel | undefined;
  /** Requests of this tab. */
  readonly #asked = new Map<number, { asked: Call; reply: (reply: Reply) => void; close?: () => void; isSent: boolean }>();
  /** Requests of other tabs that this tab serves, by tab. */
  readonly #served = new Map<string, Map<number, () => void>>();
  #next = 1;

  /** `begin` starts the engine in this tab. `became` hears whether it runs here. */
  constructor(site: string, begin: () => Promise<Service>, became: (isOwner: boolean) => void) {
    this.#site = site;
    this.#begin = begin;
    this.#became = became;
  }

  /** Runs the engine here, or waits until it can. */
  async run(): Promise<void> {
    const locks = navigator.locks as LockManager | undefined;
    if (locks === undefined || typeof BroadcastChannel !== "function") return this.#serve();
    this.#channel = new BroadcastChannel(`llm-do ${this.#site}`);
    this.#channel.onmessage = (event: MessageEvent<Said>) => this.#hear(event.data);
    try {
      // While this tab lives it has this lock, so that the owner learns of its end.
      await hold(locks, this.#lockOf(this.#self), {});
      const first = await hold(locks, `llm-do ${this.#site}`, { ifAvailable: true });
      if (first === null) {
        this.#became(false);
        this.#say({ say: "owner?" });
        await hold(locks, `llm-do ${this.#site}`, {});
      }
    } catch {
      // A page without an origin, such as a file, has no locks, and no files to share either.
      this.#channel.close();
      this.#channel = undefined;
    }
    await this.#serve();
  }

  #lockOf(client: string): string {
    return `llm-do ${this.#site} ${client}`;
  }

  async #serve(): Promise<void> {
    this.#service = await this.#begin();
    this.#owner = this.#self;
    for (const [id, one] of [...this.#asked]) {
      if (one.isSent) this.#end(id, GONE);
      else this.#send(id);
    }
    this.#say({ say: "owner", owner: this.#self });
    this.#became(true);
  }

  /** Asks the engine, wherever it runs. Returns what closes the request. */
  ask(asked: Call, reply: (reply: Reply) => void): () => void {
    const id = this.#next++;
    this.#asked.set(id, { asked, reply, isSent: false });
    this.#send(id);
    return () => {
      const one = this.#asked.get(id);
      this.#asked.delete(id);
      one?.close?.();
    };
  }

  #send(id: number): void {
    const one = this.#asked.get(id);
    const owner = this.#owner;
    if (one === undefined || owner === undefined) return;
    one.isSent = true;
    if (this.#service !== undefined) one.close = this.#service.ask(one.asked, (reply) => this.#bring(id, reply));
    else {
      this.#say({ say: "ask", to: owner, from: this.#self, id, asked: one.asked });
      one.close = () => this.#say({ say: "close", to: owner, from: this.#self, id });
    }
  }

  #bring(id: number, reply: Reply): void {
    const one = this.#asked.get(id);
    if (isLast(reply)) this.#asked.delete(id);
    one?.reply(reply);
  }

  #end(id: number, reply: Reply): void {
    const one = this.#asked.get(id);
    this.#asked.delete(id);
    one?.reply(reply);
  }

  #say(said: Said): void {
    this.#channel?.postMessage(said);
  }

  #hear(said: Said): void {
    switch (said.say) {
      case "owner?":
        if (this.#service !== undefined) this.#say({ say: "owner", owner: this.#self });
        break;
      case "owner": {
        if (this.#service !== undefined || this.#owner === said.owner) return;
        const isOther = this.#owner !== undefined;
        this.#owner = said.owner;
        for (const [id, one] of [...this.#asked]) {
          if (one.isSent && isOther) this.#end(id, GONE);
          else if (!one.isSent) this.#send(id);
        }
        break;
      }
      case "ask":
        if (said.to === this.#self && this.#service !== undefined) this.#serveFor(said.from, said.id, said.asked);
        break;
      case "close": {
        if (said.to !== this.#self) return;
        const served = this.#served.get(said.from);
        served?.get(said.id)?.();
        served?.delete(said.id);
        break;
      }
      case "reply":
        if (said.to === this.#self) this.#bring(said.id, said.reply);
    }
  }

  #serveFor(client: string, id: number, asked: Call): void {
    let served = this.#served.get(client);
    if (served === undefined) {
      served = new Map();
      this.#served.set(client, served);
      void this.#watch(client);
    }
    const of = served;
    const close = this.#service?.ask(asked, (reply) => {
      this.#say({ say: "reply", to: client, id, reply });
      if (isLast(reply)) of.delete(id);
    });
    if (close !== undefined) of.set(id, close);
  }

  /** Closes the requests of a tab when it is gone: its lock is free then. */
  async #watch(client: string): Promise<void> {
    const release = await hold(navigator.locks, this.#lockOf(client), {}).catch(() => null);
    for (const close of this.#served.get(client)?.values() ?? []) close();
    this.#served.delete(client);
    release?.();
  }
}

/** Whether nothing follows in the answer to a request. */
export const isLast = (reply: Reply): boolean => reply.reply === "end" || reply.reply === "lost" || (reply.reply === "head" && !reply.isStream);

/** Takes a lock. Returns what releases it. `null`: another tab has it, and it was not waited for. */
function hold(locks: LockManager, name: string, options: LockOptions): Promise<(() => void) | null> {
  return new Promise((resolve, reject) => {
    locks
      .request(name, options, (lock) => (lock === null ? resolve(null) : new Promise<void>((release) => resolve(release))))
      .catch(reject);
  });
}
