/** What all parts of the extension share: settings, the program, and where a file belongs. */

import { spawn } from "node:child_process";
import { dirname } from "node:path";
import * as vscode from "vscode";
import { findProgram, type Found } from "./program.ts";
import { targetOf, type Target } from "./projects.ts";

export class Host {
  readonly output: vscode.LogOutputChannel;
  readonly #extension: string;

  constructor(context: vscode.ExtensionContext) {
    this.output = vscode.window.createOutputChannel("llm-do", { log: true });
    this.#extension = context.extensionPath;
    context.subscriptions.push(this.output);
  }

  found(): Found {
    return findProgram({
      setting: setting<string>("path", ""),
      folders: (vscode.workspace.workspaceFolders ?? []).filter((one) => one.uri.scheme === "file").map((one) => one.uri.fsPath),
      trusted: vscode.workspace.isTrusted,
      path: process.env["PATH"] ?? "",
      extension: this.#extension,
    });
  }

  /** Returns the program. Without one, says so and what to do. */
  async program(): Promise<string | undefined> {
    const found = this.found();
    if ("program" in found) return found.program;
    await this.explain(found.problem, found.tried);
    return undefined;
  }

  async explain(problem: string, tried: string[]): Promise<void> {
    this.output.error(`${problem} Tried: ${tried.join(", ") || "nothing"}`);
    const [settings, install, output] = ["Open Settings", "How to Install", "Show Places"];
    const chosen = await vscode.window.showErrorMessage(
      `${problem} Install llm-do, for example with \`pip install llm-do\` into the workspace's .venv, or set llm-do.path.`,
      settings,
      install,
      output,
    );
    if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "llm-do.path");
    else if (chosen === install) await vscode.commands.executeCommand("markdown.showPreview", vscode.Uri.joinPath(vscode.Uri.file(this.#extension), "README.md"));
    else if (chosen === output) this.output.show();
  }

  /** Says that a command needs trust. Returns whether the workspace has it. */
  async isTrusted(what: string): Promise<boolean> {
    if (vscode.workspace.isTrusted) return true;
    const manage = "Manage Trust";
    const chosen = await vscode.window.showWarningMessage(`${what} needs a trusted workspace: it can start code of the project.`, manage);
    if (chosen === manage) await vscode.commands.executeCommand("workbench.trust.manage");
    return false;
  }

  /** Runs the program to its end, and returns what it prints and its exit code. */
  run(program: string, args: string[], cwd: string, token?: vscode.CancellationToken): Promise<{ stdout: string; stderr: string; code: number | null }> {
    this.output.info(`${program} ${args.join(" ")}`);
    return new Promise((resolve, reject) => {
      const child = spawn(program, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
      let [stdout, stderr] = ["", ""];
      child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
      child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
      const cancelling = token?.onCancellationRequested(() => child.kill("SIGINT"));
      child.once("error", reject);
      child.once("close", (code) => {
        cancelling?.dispose();
        resolve({ stdout, stderr, code });
      });
    });
  }
}

export function setting<T>(name: string, otherwise: T, scope?: vscode.Uri): T {
  return vscode.workspace.getConfiguration("llm-do", scope).get<T>(name, otherwise);
}

/** Returns what a file belongs to. The search ends at the folder of the workspace. */
export function belongs(uri: vscode.Uri): Target {
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  return targetOf(uri.fsPath, folder?.uri.fsPath ?? dirname(uri.fsPath));
}
