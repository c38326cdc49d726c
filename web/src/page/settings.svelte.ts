/**
 * The visitor's model and key. They stay in this tab; in this browser only if the visitor asks for it. They are in no file
 * of the page, so that no export has them.
 */

import type { Options } from "./protocol";

export interface Provider {
  /** The part of a model's name before the colon. */
  name: string;
  title: string;
  /** The variable that holds its key natively, if it takes one. */
  key?: string;
  /** The variable that holds another address. */
  base: string;
  /** The provider's own address. */
  origin: string;
  example: string;
  /** What a page needs of it. */
  note?: string;
}

/** The providers that answer pages, and servers of the visitor. */
export const PROVIDERS: readonly Provider[] = [
  { name: "anthropic", title: "Anthropic", key: "ANTHROPIC_API_KEY", base: "ANTHROPIC_BASE_URL", origin: "https://api.anthropic.com", example: "claude-haiku-4-5" },
  { name: "openai", title: "OpenAI", key: "OPENAI_API_KEY", base: "OPENAI_BASE_URL", origin: "https://api.openai.com", example: "gpt-5-mini" },
  { name: "openai_resp", title: "OpenAI (Responses)", key: "OPENAI_API_KEY", base: "OPENAI_BASE_URL", origin: "https://api.openai.com", example: "gpt-5-mini" },
  { name: "gemini", title: "Google Gemini", key: "GEMINI_API_KEY", base: "GEMINI_BASE_URL", origin: "https://generativelanguage.googleapis.com", example: "gemini-2.5-flash" },
  { name: "openrouter", title: "OpenRouter", key: "OPENROUTER_API_KEY", base: "OPENROUTER_BASE_URL", origin: "https://openrouter.ai", example: "openai/gpt-5-mini" },
  {
    name: "ollama",
    title: "Ollama on this machine",
    base: "OLLAMA_BASE_URL",
    origin: "http://127.0.0.1:11434",
    example: "qwen3:4b",
    note: "Start it with OLLAMA_ORIGINS set to the address of this page, so that it answers the page.",
  },
];

export interface Chosen {
  provider: string;
  /** The model of all workers. Empty: the models that the program names. */
  model: string;
  key: string;
  /** Another address of the provider. */
  base: string;
}

const NOTHING: Chosen = { provider: "", model: "", key: "", base: "" };

export class Settings {
  readonly #place: string;
  readonly providers: Provider[];
  chosen = $state.raw<Chosen>(NOTHING);
  /** Whether the browser keeps them after the tab is closed. */
  isRemembered = $state(false);

  /** `connect`: the origins that the policy of the page allows. */
  constructor(site: string, connect: string[], model: string | null) {
    this.#place = `llm-do ${site} model`;
    const others = connect.filter((origin) => !PROVIDERS.some((one) => one.origin === origin));
    // A server that the page names beside the known ones may be any of them, at another address.
    this.providers = PROVIDERS.filter(({ origin }) => others.length > 0 || allows(connect, origin));
    const [provider = "", name = ""] = model === null ? [] : split(model);
    const begin: Chosen = { ...NOTHING, provider: this.providers.some((one) => one.name === provider) ? provider : "", model: name };
    const kept = read(localStorageOf(), this.#place);
    this.isRemembered = kept !== undefined;
    this.chosen = { ...begin, ...(kept ?? read(sessionStorageOf(), this.#place)) };
  }

  get provider(): Provider | undefined {
    return this.providers.find((one) => one.name === this.chosen.provider);
  }

  /** Keeps the choice for this tab, and for the browser if `remember`. */
  set(chosen: Chosen, remember: boolean): void {
    this.chosen = chosen;
    this.isRemembered = remember;
    write(sessionStorageOf(), this.#place, chosen);
    write(localStorageOf(), this.#place, remember ? chosen : undefined);
  }

  /** Removes the key everywhere. */
  forget(): void {
    this.set({ ...this.chosen, key: "" }, false);
  }

  /** The choice as options of the engine. */
  get options(): Options {
    const { key, base, model } = this.chosen;
    const provider = this.provider;
    if (provider === undefined) return {};
    return {
      ...(key === "" || provider.key === undefined ? {} : { keys: { [provider.key]: key } }),
      ...(base === "" ? {} : { variables: { [provider.base]: base } }),
      ...(model === "" ? {} : { model: `${provider.name}:${model}` }),
    };
  }
}

/** Whether the policy of the page allows an origin. */
export function allows(connect: string[], origin: string): boolean {
  return connect.some((one) => one === origin || (one.endsWith(":*") && origin.replace(/:\d+$/, "") === one.slice(0, -2)));
}

function split(model: string): [string, string] {
  const at = model.indexOf(":");
  return at === -1 ? ["", model] : [model.slice(0, at), model.slice(at + 1)];
}

// A browser may refuse both. The choice then lasts as long as the page.
function sessionStorageOf(): Storage | undefined {
  try {
    return sessionStorage;
  } catch {
    return undefined;
  }
}
function localStorageOf(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}

function read(storage: Storage | undefined, place: string): Chosen | undefined {
  try {
    const text = storage?.getItem(place);
    if (text === null || text === undefined) return undefined;
    const given = JSON.parse(text) as Partial<Record<keyof Chosen, unknown>>;
    const of = (name: keyof Chosen): string => (typeof given[name] === "string" ? given[name] : "");
    return { provider: of("provider"), model: of("model"), key: of("key"), base: of("base") };
  } catch {
    return undefined;
  }
}

function write(storage: Storage | undefined, place: string, chosen: Chosen | undefined): void {
  try {
    if (chosen === undefined) storage?.removeItem(place);
    else storage?.setItem(place, JSON.stringify(chosen));
  } catch {
    // A full or refused storage: the choice lasts as long as the page.
  }
}
