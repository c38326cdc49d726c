/** What all pages share: the engine, the session, what waits, and what is said to the reader. */

import { getContext, setContext } from "svelte";
import {
  EngineError,
  type Connection,
  type Engine,
  type Program,
  type QuestionOfRun,
  type Scope,
  type Session,
  type WaitingQuestion,
  type Worker,
} from "../engine/engine";
import type { Answer } from "../engine/records";
import { Drafts } from "./drafts.svelte";
import { Router } from "./route.svelte";
import { whileSeen } from "./seen";

export type ThemeName = "auto" | "light" | "dark";

export interface Toast {
  id: number;
  tone: "info" | "bad";
  text: string;
}

const KEY = Symbol("app");
const THEME = "llm-do-theme";

/** How often a hidden page looks for questions. */
const HIDDEN_MS = 30_000;

export const provideApp = (app: AppStore): AppStore => setContext(KEY, app);
export const useApp = (): AppStore => getContext(KEY);

/** Whether a question is a chat that waits for its next message: nothing is held up by it. */
export const isTurn = (question: WaitingQuestion): boolean =>
  question.question === "input" && question.conversation !== undefined;

export class AppStore {
  readonly engine: Engine;
  readonly router = new Router();
  readonly drafts = new Drafts();
  /** `undefined`: not known yet. `null`: signed out. */
  session = $state.raw<Session | null | undefined>(undefined);
  connection = $state.raw<Connection>({ state: "connected" });
  programs = $state.raw<Program[] | undefined>(undefined);
  workers = $state.raw<Worker[] | undefined>(undefined);
  questions = $state.raw<QuestionOfRun[]>([]);
  /** Questions that hold something up. */
  readonly pressing = $derived(this.questions.filter((question) => !isTurn(question)));
  /** Counts changes of runs, for lists of them. */
  runs_version = $state(0);
  toasts = $state.raw<Toast[]>([]);
  /** What screen readers are told. */
  announcement = $state("");
  /** What the page shows, in words for the title of its tab. */
  about = $state("");
  theme = $state<ThemeName>("auto");
  problem = $state.raw<EngineError | undefined>(undefined);
  /** Whether the session of this page has ended, and not by signing out. */
  ended = $state(false);
  /** The token of a link that was not opened by the user: another page could have put its own token into it. */
  offered = $state.raw<string | undefined>(undefined);
  #toast = 0;
  #end: (() => void) | undefined;
  #asking = false;
  #askAgain = false;

  /** Whether the engine runs in this page, and not on a server. */
  readonly isPage: boolean;

  constructor(engine: Engine, isPage = false) {
    this.engine = engine;
    this.isPage = isPage;
    engine.onConnection((connection) => {
      if (this.connection.state !== connection.state) {
        this.announce(connection.state === "lost" ? (isPage ? "The engine does not answer." : "The connection to the server is lost.") : "Connected again.");
        // The server may be another process with other runs under way.
        if (connection.state === "connected") void this.#refresh();
      }
      this.connection = connection;
    });
    engine.onSession(() => void this.#enter());
    addEventListener("hashchange", () => {
      // Which page has changed the address can't be known.
      const token = takeToken(this.router);
      if (token !== undefined) this.#offer(token);
    });
    const theme = remembered();
    if (theme !== undefined) this.setTheme(theme);
  }

  can(scope: Scope): boolean {
    return this.session?.scopes.includes(scope) ?? false;
  }

  /** Signs in with the token of the address, if it has one, and reads what every page needs. */
  async begin(): Promise<void> {
    const token = takeToken(this.router);
    if (token === undefined) await this.#enter();
    else if (openedByUser()) await this.signIn(token);
    else this.#offer(token);
  }

  /** Asks whether to sign in with that token. */
  #offer(token: string): void {
    this.#leave();
    this.problem = undefined;
    this.offered = token;
  }

  /** Keeps the present session, if there is one, and drops the token of a link. */
  async decline(): Promise<void> {
    this.offered = undefined;
    await this.#enter();
  }

  async signIn(token: string): Promise<void> {
    try {
      await this.engine.signIn(token);
    } catch (error) {
      this.offered = undefined;
      this.session = null;
      this.problem = asError(error);
      return;
    }
    await this.#enter();
  }

  async signOut(): Promise<void> {
    if (this.drafts.isAnyUnsaved && !confirm("Signing out drops the definitions that are not saved. Sign out?")) return;
    await this.attempt(() => this.engine.signOut());
    this.drafts.clear();
    this.#leave();
  }

  /** Does what may fail. Says why if it does, and returns nothing. */
  async attempt<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  failed(error: unknown): void {
    const problem = asError(error);
    if (problem.code === "unauthorized") this.#expire();
    else this.toast(problem.message, "bad");
  }

  toast(text: string, tone: Toast["tone"] = "info"): void {
    const toast = { id: ++this.#toast, tone, text };
    this.toasts = [...this.toasts.slice(-3), toast];
    setTimeout(() => this.dismiss(toast.id), tone === "bad" ? 12_000 : 5_000);
  }

  dismiss(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
  }

  announce(text: string): void {
    // The same text twice is no change, and would not be read.
    this.announcement = this.announcement === text ? `${text}\u00a0` : text;
  }

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    if (theme === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.dataset["theme"] = theme;
    try {
      localStorage.setItem(THEME, theme);
    } catch {
      // A browser may keep nothing. The choice then lasts as long as the page.
    }
  }

  /** Answers a question. Returns whether the answer stands; else says who or what was faster. */
  async answer(run: string, question: WaitingQuestion, answer: Answer): Promise<boolean> {
    try {
      await this.engine.answer(run, question, answer);
      return true;
    } catch (error) {
      const problem = asError(error);
      if (problem.code === "already_decided") {
        const by = problem.by ?? "Somebody else";
        this.toast(`${by} has already answered this question. Your answer changed nothing.`, "bad");
        this.announce(`${by} has already answered this question.`);
      } else if (problem.code === "question_changed") {
        this.toast("The question has changed meanwhile. Please look at it again.", "bad");
      } else {
        this.failed(problem);
      }
      return false;
    } finally {
      void this.readQuestions();
    }
  }

  /** Reads what waits. While it is being read, further wishes become one. */
  async readQuestions(): Promise<void> {
    this.#askAgain = true;
    if (this.#asking) return;
    this.#asking = true;
    try {
      while (this.#askAgain) {
        this.#askAgain = false;
        const before = this.pressing.length;
        this.questions = await this.engine.questions();
        if (this.pressing.length > before) {
          this.announce(`${this.pressing.length} ${this.pressing.length === 1 ? "question waits" : "questions wait"}.`);
        }
      }
    } catch (error) {
      // The connection's banner says that the server is away, and reading follows when it is back.
      if (asError(error).code !== "offline") this.failed(error);
    } finally {
      this.#asking = false;
    }
  }

  async #enter(): Promise<void> {
    this.problem = undefined;
    this.offered = undefined;
    const had = this.session !== null && this.session !== undefined;
    try {
      this.session = await this.engine.session();
      this.ended = false;
    } catch (error) {
      const problem = asError(error);
      // Another tab has signed out, for example.
      if (had) this.#leave();
      this.session = null;
      if (problem.code !== "unauthorized") this.problem = problem;
      return;
    }
    await this.#refresh();
    this.#end?.();
    const unwatch = whileSeen((signal, again) => this.#watch(signal, again));
    const timer = setInterval(() => {
      if (document.hidden && this.can("read")) void this.readQuestions();
    }, HIDDEN_MS);
    this.#end = () => {
      unwatch();
      clearInterval(timer);
    };
  }

  #leave(): void {
    this.#end?.();
    this.#end = undefined;
    this.session = null;
    this.questions = [];
    this.programs = this.workers = undefined;
  }

  /** The server knows the session no more. */
  #expire(): void {
    this.#leave();
    this.ended = true;
  }

  async #refresh(): Promise<void> {
    this.runs_version++;
    await Promise.all([
      this.can("read") ? this.readQuestions() : undefined,
      this.attempt(async () => (this.programs = await this.engine.programs())),
      this.attempt(async () => (this.workers = await this.engine.workers())),
    ]);
  }

  async #watch(signal: AbortSignal, again: boolean): Promise<void> {
    if (!this.can("read")) return;
    // Runs may have changed while the page was hidden.
    if (again) this.runs_version++;
    try {
      for await (const notice of this.engine.notices(signal)) {
        if (notice.notice !== "questions") this.runs_version++;
        if (notice.notice !== "run") void this.readQuestions();
      }
    } catch (error) {
      if (!signal.aborted) this.failed(error);
    }
  }
}

export function asError(error: unknown): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError("internal", error instanceof Error ? error.message : String(error));
}

/** Takes the token out of an address such as `#token=…`, so that it is neither copied nor kept in the history. */
function takeToken(router: Router): string | undefined {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (token === undefined) return undefined;
  router.replace("#/");
  try {
    return decodeURIComponent(token);
  } catch {
    return token;
  }
}

/** Whether the user has opened the page, and no other page: the server knows that from the browser. */
function openedByUser(): boolean {
  return document.querySelector("meta[name=opened-by]")?.getAttribute("content") === "user";
}

function remembered(): ThemeName | undefined {
  try {
    const theme = localStorage.getItem(THEME);
    return theme === "light" || theme === "dark" ? theme : undefined;
  } catch {
    return undefined;
  }
}
