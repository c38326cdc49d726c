/** The commands of the palette, of the menus and of the code lenses: `[uri of the worker file, name of the worker or null]`. */

import { basename } from "node:path";
import * as vscode from "vscode";
import { asked, options } from "./input.ts";
import { belongs, setting, type Host } from "./host.ts";
import { inTerminal, type Tasks } from "./tasks.ts";

export interface Runner {
  /** Runs the cases of a worker. Returns whether there are some. */
  runCases(worker: vscode.Uri): Promise<boolean>;
}
export interface Prompts {
  /** The worker of the panel, if the panel has the focus. */
  readonly focused: vscode.Uri | undefined;
  show(worker: vscode.Uri): Promise<void>;
}

export function registerCommands(context: vscode.ExtensionContext, host: Host, tasks: Tasks, cases: Runner, prompts: Prompts): void {
  const on = (name: string, what: string, work: (program: string, worker: vscode.Uri, id: string | undefined) => Promise<void>): void => {
    const command = async (given?: unknown, worker?: unknown): Promise<void> => {
      if (!(await host.isTrusted(what))) return;
      const uri = await chosen(given, prompts.focused);
      if (uri === undefined) return;
      const program = await host.program();
      if (program === undefined) return;
      await work(program, uri, typeof worker === "string" ? worker : undefined);
    };
    context.subscriptions.push(vscode.commands.registerCommand(name, command));
  };

  on("llm-do.run", "Running a worker", async (program, worker, id) => {
    await save(worker);
    const input = await ask(context, host, program, worker);
    if (input === undefined) return;
    await inTerminal(program, ["run", ...named(worker, id), ...further(worker), ...options(input)], belongs(worker).root, `run ${title(worker, id)}`);
  });
  on("llm-do.chat", "A chat", async (program, worker, id) => {
    await save(worker);
    await inTerminal(program, ["chat", ...named(worker, id), ...further(worker)], belongs(worker).root, `chat ${title(worker, id)}`);
  });
  on("llm-do.prompt", "The prompt panel", (_, worker) => prompts.show(worker));
  on("llm-do.check", "A check", async (program, worker) => {
    await vscode.workspace.saveAll(false);
    const { target, root } = belongs(worker);
    const folder = vscode.workspace.getWorkspaceFolder(worker);
    if (folder === undefined) return inTerminal(program, ["check", target], root, `check ${basename(target)}`);
    await vscode.tasks.executeTask(tasks.check(root, target, folder, program));
  });
  on("llm-do.test", "Running cases", async (_, worker) => {
    await vscode.workspace.saveAll(false);
    if (await cases.runCases(worker)) return;
    const name = basename(worker.fsPath).replace(/\.(worker|yaml|yml)$/, "");
    await vscode.window.showInformationMessage(`${name} has no cases. They belong into ${name}.cases.yaml next to the worker.`);
  });
  on("llm-do.replay", "A replay", async (program, worker) => {
    const { root, target } = belongs(worker);
    const run = await pickRun(host, program, root);
    if (run !== undefined) await inTerminal(program, ["runs", "replay", run, target], root, `replay ${run}`);
  });
}

/** The options of the setting `llm-do.arguments`. */
export const further = (worker: vscode.Uri): string[] => setting<string[]>("arguments", [], worker);

const named = (worker: vscode.Uri, id: string | undefined): string[] => {
  const { root, target } = belongs(worker);
  return id !== undefined && target === root ? [target, "--entry", id] : [worker.fsPath];
};
const title = (worker: vscode.Uri, id: string | undefined): string => id ?? basename(worker.fsPath);

/** A lens names the file, a menu passes it, and the palette means the editor or the panel. */
async function chosen(given: unknown, focused: vscode.Uri | undefined): Promise<vscode.Uri | undefined> {
  if (typeof given === "string") return vscode.Uri.parse(given, true);
  if (given instanceof vscode.Uri) return given;
  if (focused !== undefined) return focused;
  const open = vscode.window.activeTextEditor?.document;
  if (open?.uri.scheme === "file" && ["worker", "llm-do-yaml"].includes(open.languageId)) return open.uri;
  const workers = await vscode.workspace.findFiles("**/*.worker", "**/{node_modules,.venv,target,.git,.llm-do}/**", 500);
  const items = workers.map((uri) => ({ label: vscode.workspace.asRelativePath(uri), uri })).sort((a, b) => (a.label < b.label ? -1 : 1));
  if (items.length === 0) {
    await vscode.window.showInformationMessage("The workspace has no worker file. A worker is a file such as main.worker.");
    return undefined;
  }
  return (await vscode.window.showQuickPick(items, { title: "Worker" }))?.uri;
}

/** A run reads files from the disk. */
async function save(worker: vscode.Uri): Promise<void> {
  await vscode.workspace.textDocuments.find((document) => document.uri.toString() === worker.toString())?.save();
}

/** Asks for the input of a worker. What was entered last time stands there. Nothing: the user has changed their mind. */
async function ask(context: vscode.ExtensionContext, host: Host, program: string, worker: vscode.Uri): Promise<string | undefined> {
  const shown = await host.run(program, ["show", worker.fsPath, "--json"], belongs(worker).root);
  const { signature, value } = asked(shown.stdout);
  const key = `input:${worker.toString()}`;
  const input = await vscode.window.showInputBox({
    title: `Run ${signature || basename(worker.fsPath)}`,
    prompt: "A message, or the input as a JSON object. Empty: no input.",
    value: context.workspaceState.get<string>(key) ?? value,
    ignoreFocusOut: true,
  });
  if (input !== undefined) await context.workspaceState.update(key, input);
  return input;
}

async function pickRun(host: Host, program: string, root: string): Promise<string | undefined> {
  const listed = await host.run(program, ["runs", "list", "--json"], root);
  const items = runsOf(listed.stdout);
  if (items.length === 0) {
    await vscode.window.showInformationMessage("This program has no run to replay.");
    return undefined;
  }
  return (await vscode.window.showQuickPick(items, { title: "Replay against the program as it is now", matchOnDescription: true }))?.label;
}

function runsOf(stdout: string): vscode.QuickPickItem[] {
  try {
    const { runs } = JSON.parse(stdout) as { runs?: { run: string; entry?: string; state?: string; started_ms?: number }[] };
    return (runs ?? []).map(({ run, entry = "", state = "", started_ms }) => ({
      label: run,
      description: [entry, state, started_ms === undefined ? "" : new Date(started_ms).toLocaleString()].filter((part) => part !== "").join(" · "),
    }));
  } catch {
    return [];
  }
}
