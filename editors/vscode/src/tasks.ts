/** Tasks: `check` with its findings as problems, and runs, tests and replays in a terminal. */

import { spawn, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import * as vscode from "vscode";
import { placed } from "./findings.ts";
import type { Host } from "./host.ts";
import { belongs } from "./host.ts";

export const TYPE = "llm-do";
const MATCHER = "$llm-do";
/** Folders whose workers are not the user's. */
const EXCLUDED = "**/{node_modules,.venv,target,.git,.llm-do}/**";

interface Definition extends vscode.TaskDefinition {
  command: string;
  target?: string;
  arguments?: string[];
}

export class Tasks implements vscode.TaskProvider {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  /** One `check` for each project of the workspace. */
  async provideTasks(): Promise<vscode.Task[]> {
    const found = this.#host.found();
    if (!vscode.workspace.isTrusted || !("program" in found)) return [];
    const marks = await vscode.workspace.findFiles("**/{project.yaml,llm-do.yaml,main.worker}", EXCLUDED, 200);
    const tasks = new Map<string, vscode.Task>();
    for (const mark of marks) {
      const folder = vscode.workspace.getWorkspaceFolder(mark);
      if (folder === undefined) continue;
      const { root } = belongs(mark);
      const target = vscode.workspace.asRelativePath(root, false);
      const name = root === folder.uri.fsPath ? "." : target;
      tasks.set(root, this.#task({ type: TYPE, command: "check", target: name }, folder, found.program));
    }
    return [...tasks.values()];
  }

  resolveTask(task: vscode.Task): vscode.Task | undefined {
    const found = this.#host.found();
    const folder = typeof task.scope === "object" ? task.scope : vscode.workspace.workspaceFolders?.[0];
    if (!vscode.workspace.isTrusted || !("program" in found) || folder === undefined) return undefined;
    return this.#task(task.definition as Definition, folder, found.program);
  }

  #task(definition: Definition, folder: vscode.WorkspaceFolder, program: string): vscode.Task {
    const { command, target = ".", arguments: further = [] } = definition;
    const root = join(folder.uri.fsPath, target);
    const name = target === "." ? command : `${command} ${target}`;
    if (command === "check") {
      const execution = new vscode.CustomExecution(() =>
        Promise.resolve(new CheckTerminal(program, [command, root, "--color", "always", ...further], root, folder.uri.fsPath)),
      );
      const task = new vscode.Task(definition, folder, name, TYPE, execution, MATCHER);
      task.group = vscode.TaskGroup.Build;
      return task;
    }
    return new vscode.Task(definition, folder, name, TYPE, new vscode.ProcessExecution(program, [command, root, ...further], { cwd: folder.uri.fsPath }));
  }

  check(root: string, target: string, folder: vscode.WorkspaceFolder, program: string): vscode.Task {
    const execution = new vscode.CustomExecution(() =>
      Promise.resolve(new CheckTerminal(program, ["check", target, "--color", "always"], root, folder.uri.fsPath)),
    );
    const definition = { type: TYPE, command: "check", target: vscode.workspace.asRelativePath(target, false) };
    return new vscode.Task(definition, folder, `check ${definition.target}`, TYPE, execution, MATCHER);
  }
}

/** Starts the program in a terminal in which one can answer it, and that stays when the program has ended. */
export async function inTerminal(program: string, args: string[], cwd: string, title: string): Promise<void> {
  const folder = vscode.workspace.getWorkspaceFolder(vscode.Uri.file(cwd)) ?? vscode.TaskScope.Workspace;
  const definition = { type: TYPE, command: args[0] ?? "", arguments: args.slice(1) };
  const task = new vscode.Task(definition, folder, title, TYPE, new vscode.ProcessExecution(program, args, { cwd }), []);
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, panel: vscode.TaskPanelKind.Dedicated, focus: true, clear: true };
  await vscode.tasks.executeTask(task);
}

/** Shows the output of `check` with paths that the problem matcher can read. */
class CheckTerminal implements vscode.Pseudoterminal {
  readonly #write = new vscode.EventEmitter<string>();
  readonly #close = new vscode.EventEmitter<number>();
  readonly onDidWrite = this.#write.event;
  readonly onDidClose = this.#close.event;
  readonly #program: string;
  readonly #args: string[];
  readonly #root: string;
  readonly #folder: string;
  #child: ChildProcess | undefined;

  constructor(program: string, args: string[], root: string, folder: string) {
    this.#program = program;
    this.#args = args;
    this.#root = root;
    this.#folder = folder;
  }

  open(): void {
    const child = spawn(this.#program, this.#args, { cwd: this.#folder, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      let rest = "";
      stream.setEncoding("utf8").on("data", (text: string) => {
        const lines = (rest + text).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) this.#line(line);
      });
      stream.once("end", () => rest !== "" && this.#line(rest));
    }
    child.once("error", (error) => {
      this.#line(`error: ${this.#program} did not start: ${error.message}`);
      this.#close.fire(127);
    });
    child.once("close", (code) => this.#close.fire(code ?? 1));
  }

  close(): void {
    this.#child?.kill();
  }

  #line(line: string): void {
    this.#write.fire(`${placed(line, this.#root, this.#folder)}\r\n`);
  }
}
