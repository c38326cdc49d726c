/** The client of `llm-do lsp`. */

import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, State, type ErrorHandler, type LanguageClientOptions } from "vscode-languageclient/node";
import type { Host } from "./host.ts";

/** What the status bar shows. */
export type Status = { state: "starting" | "running" | "stopped" } | { state: "missing" | "failed"; why: string };

const SELECTOR = [
  { scheme: "file", language: "worker" },
  { scheme: "file", language: "llm-do-yaml" },
  { scheme: "file", pattern: "**/*.worker" },
  { scheme: "file", pattern: "**/{project,llm-do,lib}.yaml" },
  { scheme: "file", pattern: "**/*.cases.{yaml,yml,jsonl}" },
  { scheme: "file", pattern: "**/workers/**/*.{yaml,yml}" },
  { scheme: "file", pattern: "**/{templates,prompts}/**/*.{jinja,jinja2,j2,txt,md}" },
];

export class Client {
  readonly #host: Host;
  readonly #changed = new vscode.EventEmitter<Status>();
  readonly onStatus = this.#changed.event;
  #client: LanguageClient | undefined;
  #status: Status = { state: "stopped" };
  /** Starts and stops happen one after the other. */
  #turn: Promise<void> = Promise.resolve();

  constructor(host: Host) {
    this.#host = host;
  }

  get status(): Status {
    return this.#status;
  }

  restart(): Promise<void> {
    this.#turn = this.#turn.then(async () => {
      await this.#stop();
      await this.#start();
    });
    return this.#turn;
  }

  stop(): Promise<void> {
    this.#turn = this.#turn.then(() => this.#stop());
    return this.#turn;
  }

  async #start(): Promise<void> {
    const found = this.#host.found();
    if (!("program" in found)) {
      this.#set({ state: "missing", why: found.problem });
      void this.#host.explain(found.problem, found.tried);
      return;
    }
    this.#host.output.info(`language server: ${found.program} lsp (from ${found.from})`);
    this.#set({ state: "starting" });
    const cwd = vscode.workspace.workspaceFolders?.find((folder) => folder.uri.scheme === "file")?.uri.fsPath;
    // The transport is stdin and stdout. A named one would add the argument `--stdio`.
    const server = { command: found.program, args: ["lsp"], ...(cwd === undefined ? {} : { options: { cwd } }) };
    const restarts = new Restarts();
    const options: LanguageClientOptions = {
      documentSelector: SELECTOR,
      initializationOptions: { trusted: vscode.workspace.isTrusted },
      synchronize: { configurationSection: "llm-do", fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{worker,yaml,yml,jsonl,json,jinja,jinja2,j2,txt,md,py}") },
      diagnosticCollectionName: "llm-do",
      errorHandler: restarts,
    };
    const client = new LanguageClient("llm-do", "llm-do language server", server, options);
    this.#client = client;
    client.onDidChangeState(({ newState }) => {
      if (this.#client !== client) return;
      if (newState === State.Running) {
        restarts.answered();
        this.#set({ state: "running" });
      } else if (newState === State.Starting) this.#set({ state: "starting" });
      else if (this.#status.state !== "failed") this.#set({ state: "stopped" });
    });
    try {
      await client.start();
    } catch (error) {
      const why = `${found.program} did not start its language server. It may be older than this extension.`;
      this.#set({ state: "failed", why });
      this.#host.output.error(`${why} ${error instanceof Error ? error.message : String(error)}`);
      const output = "Show Output";
      void vscode.window.showErrorMessage(why, output).then((chosen) => chosen === output && client.outputChannel.show());
    }
  }

  async #stop(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#set({ state: "stopped" });
    try {
      await client?.dispose();
    } catch {
      // A server that did not start can't be stopped.
    }
  }

  #set(status: Status): void {
    this.#status = status;
    this.#changed.fire(status);
  }
}

const MOST_RESTARTS = 4;
const WITHIN_MS = 180_000;

/** Starts a server again that has ended, but not for ever, and not one that never answered. */
class Restarts implements ErrorHandler {
  #answered = false;
  #ended: number[] = [];

  answered(): void {
    this.#answered = true;
  }

  error(): { action: ErrorAction } {
    return { action: ErrorAction.Continue };
  }

  closed(): { action: CloseAction; handled?: boolean; message?: string } {
    if (!this.#answered) return { action: CloseAction.DoNotRestart, handled: true };
    const now = Date.now();
    this.#ended = [...this.#ended.filter((at) => now - at < WITHIN_MS), now];
    if (this.#ended.length <= MOST_RESTARTS) return { action: CloseAction.Restart };
    const message = `The language server of llm-do has ended ${this.#ended.length} times in three minutes and is not started again. "llm-do: Restart Language Server" starts it.`;
    return { action: CloseAction.DoNotRestart, message };
  }
}
