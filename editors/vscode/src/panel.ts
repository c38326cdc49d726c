/** The panel with the prompt of the worker at the cursor. The page is the app of `llm-do serve`, built from web/src/panel.ts. */

import { randomBytes } from "node:crypto";
import { relative, sep } from "node:path";
import * as vscode from "vscode";
import { Bridge, type FromPage, type ToPage } from "./bridge.ts";
import { further } from "./commands.ts";
import { belongs, type Host } from "./host.ts";
import { Serve } from "./serve.ts";

/** What the page gets besides answers. */
type Shown =
  | { type: "show"; program: string; file: string; unsaved: Record<string, string> }
  | { type: "theme"; theme: "light" | "dark" }
  | { type: "saved"; all: boolean };
type Page = FromPage | { type: "ready" } | { type: "save" };

const TYPING_MS = 150;

export class Panel {
  readonly #context: vscode.ExtensionContext;
  readonly #host: Host;
  #panel: vscode.WebviewPanel | undefined;
  #bridge: Bridge | undefined;
  /** The server of each program, by its target. */
  readonly #servers = new Map<string, Promise<Serve>>();
  /** The worker that is shown. */
  #worker: vscode.Uri | undefined;
  #isReady = false;
  #timer: NodeJS.Timeout | undefined;
  /** Why the last server did not start. A program that stays broken while one types is said once. */
  #problem = "";

  constructor(context: vscode.ExtensionContext, host: Host) {
    this.#context = context;
    this.#host = host;
    context.subscriptions.push(
      vscode.window.onDidChangeActiveTextEditor((editor) => editor !== undefined && this.#follow(editor.document)),
      vscode.window.onDidChangeTextEditorSelection(({ textEditor }) => this.#follow(textEditor.document)),
      vscode.workspace.onDidChangeTextDocument(() => this.#soon()),
      vscode.workspace.onDidSaveTextDocument(() => this.#soon()),
      vscode.window.onDidChangeActiveColorTheme(() => this.#theme()),
      vscode.workspace.onDidChangeConfiguration((change) => change.affectsConfiguration("llm-do") && this.#stopServers()),
      { dispose: () => this.#stopServers() },
    );
  }

  get focused(): vscode.Uri | undefined {
    return this.#panel?.active === true ? this.#worker : undefined;
  }

  async show(worker: vscode.Uri): Promise<void> {
    this.#worker = worker;
    if (this.#panel === undefined) this.#open();
    else this.#panel.reveal(undefined, true);
    this.#send();
  }

  #open(): void {
    const dist = vscode.Uri.joinPath(this.#context.extensionUri, "dist");
    const panel = vscode.window.createWebviewPanel("llm-do.prompt", "Prompt", { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true }, {
      enableScripts: true,
      retainContextWhenHidden: true,
      localResourceRoots: [dist],
    });
    panel.iconPath = vscode.Uri.joinPath(this.#context.extensionUri, "media", "worker.svg");
    const post = (message: ToPage | Shown): void => void panel.webview.postMessage(message);
    const bridge = new Bridge(() => this.#server(), post, async ({ method, path }) => {
      // A run uses the definitions that the server has read.
      if (method === "POST" && path === "/v1/runs") await this.#refresh();
    });
    panel.webview.onDidReceiveMessage((message: Page) => {
      if (message.type === "ready") {
        this.#isReady = true;
        this.#theme();
        this.#send();
      } else if (message.type === "save") void this.#save(post);
      else void bridge.take(message);
    });
    panel.onDidDispose(() => {
      bridge.close();
      this.#panel = this.#bridge = undefined;
      this.#isReady = false;
      this.#stopServers();
    });
    this.#panel = panel;
    this.#bridge = bridge;
    panel.webview.html = page(panel.webview, dist);
  }

  /** The worker of the editor, if the panel is open and the file is one. */
  #follow(document: vscode.TextDocument): void {
    if (this.#panel === undefined || document.languageId !== "worker" || document.uri.scheme !== "file") return;
    if (this.#worker?.toString() === document.uri.toString()) return;
    this.#worker = document.uri;
    this.#send();
  }

  #soon(): void {
    if (this.#panel === undefined) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#send(), TYPING_MS);
  }

  /** Tells the page which worker is shown, with all texts of its program that are not saved. */
  #send(): void {
    const worker = this.#worker;
    if (this.#panel === undefined || !this.#isReady || worker === undefined) return;
    const { root, target } = belongs(worker);
    const unsaved: Record<string, string> = {};
    for (const document of vscode.workspace.textDocuments) {
      if (document.isDirty && document.uri.scheme === "file" && belongs(document.uri).target === target) {
        unsaved[below(root, document.uri)] = document.getText();
      }
    }
    this.#panel.title = `Prompt: ${vscode.workspace.asRelativePath(worker)}`;
    void this.#server()
      .then(({ name }) => this.#post({ type: "show", program: name, file: below(root, worker), unsaved }))
      .catch(() => undefined);
  }

  #post(message: Shown): void {
    void this.#panel?.webview.postMessage(message);
  }

  #theme(): void {
    const { kind } = vscode.window.activeColorTheme;
    this.#post({ type: "theme", theme: kind === vscode.ColorThemeKind.Light || kind === vscode.ColorThemeKind.HighContrastLight ? "light" : "dark" });
  }

  /** Saves the documents of the program. The page runs the worker afterwards. */
  async #save(post: (message: Shown) => void): Promise<void> {
    const target = this.#worker === undefined ? undefined : belongs(this.#worker).target;
    const dirty = vscode.workspace.textDocuments.filter((one) => one.isDirty && one.uri.scheme === "file" && belongs(one.uri).target === target);
    const saved = await Promise.all(dirty.map((document) => document.save()));
    this.#send();
    post({ type: "saved", all: saved.every(Boolean) });
  }

  async #refresh(): Promise<void> {
    if (this.#worker === undefined) return;
    await (await this.#server()).refresh(below(belongs(this.#worker).root, this.#worker));
  }

  /** The server of the worker's program. One that has ended is started again by the next request. */
  #server(): Promise<Serve> {
    const worker = this.#worker;
    if (worker === undefined) return Promise.reject(new Error("no worker is shown"));
    const { target, root } = belongs(worker);
    const running = this.#servers.get(target);
    if (running !== undefined) return running;
    const starting = this.#start(target, root, worker);
    this.#servers.set(target, starting);
    const forget = (): void => void (this.#servers.get(target) === starting && this.#servers.delete(target));
    starting.then((server) => server.ended.then(forget), forget);
    return starting;
  }

  async #start(target: string, root: string, worker: vscode.Uri): Promise<Serve> {
    if (!vscode.workspace.isTrusted) throw new Error("the workspace is not trusted");
    const program = await this.#host.program();
    if (program === undefined) throw new Error("llm-do was not found");
    try {
      const server = await Serve.start(program, target, root, further(worker), (line) => this.#host.output.info(`serve: ${line}`));
      this.#problem = "";
      return server;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (why === this.#problem) throw error;
      this.#problem = why;
      void vscode.window.showErrorMessage(`The prompt panel has no server. ${why}`, "Show Output").then((chosen) => chosen && this.#host.output.show());
      throw error;
    }
  }

  #stopServers(): void {
    this.#bridge?.close();
    for (const server of this.#servers.values()) void server.then((one) => one.stop()).catch(() => undefined);
    this.#servers.clear();
  }
}

const below = (root: string, uri: vscode.Uri): string => relative(root, uri.fsPath).split(sep).join("/");

function page(webview: vscode.Webview, dist: vscode.Uri): string {
  const at = (name: string): string => webview.asWebviewUri(vscode.Uri.joinPath(dist, name)).toString();
  const nonce = randomBytes(16).toString("hex");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${webview.cspSource} 'nonce-${nonce}'; img-src data: blob:; base-uri 'none'; form-action 'none'`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="csp-nonce" content="${nonce}">
<link rel="stylesheet" href="${at("panel.css")}">
</head>
<body>
<div id="app"></div>
<script nonce="${nonce}" src="${at("panel.js")}"></script>
</body>
</html>`;
}
