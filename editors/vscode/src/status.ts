/** The item in the status bar, and the menu behind it. */

import * as vscode from "vscode";
import type { Client, Status } from "./client.ts";
import type { Host } from "./host.ts";

export class StatusItem {
  readonly #item = vscode.window.createStatusBarItem("llm-do.status", vscode.StatusBarAlignment.Right, 50);
  readonly #host: Host;
  readonly #client: Client;
  #version = "";

  constructor(context: vscode.ExtensionContext, host: Host, client: Client) {
    this.#host = host;
    this.#client = client;
    this.#item.name = "llm-do";
    this.#item.command = "llm-do.status";
    context.subscriptions.push(
      this.#item,
      client.onStatus((status) => void this.#show(status)),
      vscode.commands.registerCommand("llm-do.status", () => this.#menu()),
    );
    void this.#show(client.status);
    this.#item.show();
  }

  async #show(status: Status): Promise<void> {
    const icon = { running: "$(check)", starting: "$(sync~spin)", stopped: "$(circle-slash)", missing: "$(warning)", failed: "$(warning)" }[status.state];
    const bad = status.state === "missing" || status.state === "failed";
    const trust = vscode.workspace.isTrusted ? "" : " Restricted mode: nothing of the project runs.";
    this.#item.text = `${icon} llm-do`;
    this.#item.backgroundColor = bad ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
    this.#item.tooltip = "why" in status ? status.why : `Language server: ${status.state}.${trust}`;
    const found = this.#host.found();
    if (status.state !== "running" || !("program" in found)) return;
    if (this.#version === "") this.#version = (await this.#host.run(found.program, ["--version"], "/")).stdout.trim();
    this.#item.tooltip = `${this.#version}, ${found.program}. Language server: running.${trust}`;
  }

  async #menu(): Promise<void> {
    const { status } = this.#client;
    const found = this.#host.found();
    if (status.state === "missing" && !("program" in found)) return this.#host.explain(found.problem, found.tried);
    const items = [
      { label: "$(refresh) Restart Language Server", command: "llm-do.restart" },
      { label: "$(check) Check Program", command: "llm-do.check" },
      { label: "$(history) Replay Run", command: "llm-do.replay" },
      { label: "$(output) Show Output", command: "llm-do.output" },
    ];
    const title = "why" in status ? status.why : "program" in found ? `${found.program}: language server ${status.state}` : "llm-do";
    const chosen = await vscode.window.showQuickPick(items, { title });
    if (chosen !== undefined) await vscode.commands.executeCommand(chosen.command);
  }
}
