/** The extension's beginning and end. */

import * as vscode from "vscode";
import { Client } from "./client.ts";
import { registerCommands } from "./commands.ts";
import { Host } from "./host.ts";
import { Panel } from "./panel.ts";
import { StatusItem } from "./status.ts";
import { Tasks, TYPE } from "./tasks.ts";
import { Cases } from "./testing.ts";

let client: Client | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const host = new Host(context);
  const started = new Client(host);
  client = started;
  const tasks = new Tasks(host);
  new StatusItem(context, host, started);
  registerCommands(context, host, tasks, new Cases(context, host), new Panel(context, host));
  context.subscriptions.push(
    vscode.tasks.registerTaskProvider(TYPE, tasks),
    vscode.commands.registerCommand("llm-do.restart", () => started.restart()),
    vscode.commands.registerCommand("llm-do.output", () => host.output.show()),
    // The server and the place of the program depend on both.
    vscode.workspace.onDidGrantWorkspaceTrust(() => started.restart()),
    vscode.workspace.onDidChangeConfiguration((change) => {
      if (change.affectsConfiguration("llm-do.path")) void started.restart();
    }),
  );
  await started.restart();
}

export function deactivate(): Promise<void> | undefined {
  return client?.stop();
}
