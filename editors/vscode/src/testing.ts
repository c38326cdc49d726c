/** The cases of programs in the Test Explorer. */

import { basename, dirname, join, relative } from "node:path";
import * as vscode from "vscode";
import { casesOf } from "./cases.ts";
import { belongs, setting, type Host } from "./host.ts";
import { outcomes, type Failure } from "./report.ts";

const FILES = "**/*.cases.{yaml,yml,jsonl}";
const EXCLUDED = "**/{node_modules,.venv,target,.git,.llm-do}/**";

interface Group {
  target: string;
  root: string;
  uri: vscode.Uri;
  items: vscode.TestItem[];
}

export class Cases {
  readonly #host: Host;
  readonly #controller = vscode.tests.createTestController("llm-do", "Cases of llm-do");
  readonly #recorded: vscode.TestRunProfile;

  constructor(context: vscode.ExtensionContext, host: Host) {
    this.#host = host;
    const run = (live: boolean) => (request: vscode.TestRunRequest, token: vscode.CancellationToken) => this.#run(request, token, live);
    this.#recorded = this.#controller.createRunProfile("Run", vscode.TestRunProfileKind.Run, (request, token) =>
      run(setting("test.live", false))(request, token),
    );
    this.#recorded.isDefault = true;
    this.#controller.createRunProfile("Run, asking models", vscode.TestRunProfileKind.Run, run(true));
    this.#controller.refreshHandler = () => this.#discover();
    const watcher = vscode.workspace.createFileSystemWatcher(FILES);
    context.subscriptions.push(
      this.#controller,
      watcher,
      watcher.onDidCreate((uri) => this.#read(uri)),
      watcher.onDidChange((uri) => this.#read(uri)),
      watcher.onDidDelete((uri) => this.#controller.items.delete(uri.toString())),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        if (isCases(document.uri)) this.#take(document.uri, document.getText());
      }),
    );
    void this.#discover();
  }

  /** Runs the cases of a worker, or of a file of cases. Returns whether there are some. */
  async runCases(worker: vscode.Uri): Promise<boolean> {
    const id = basename(worker.fsPath).replace(/(\.cases)?\.(worker|yaml|yml|jsonl)$/, "");
    const { root } = belongs(worker);
    const items: vscode.TestItem[] = [];
    this.#controller.items.forEach((item) => {
      const path = item.uri?.fsPath ?? "";
      const names = basename(path).replace(/\.cases\.(yaml|yml|jsonl)$/, "") === id;
      if (names && (dirname(path) === dirname(worker.fsPath) || dirname(path).startsWith(join(root, "tests")))) items.push(item);
    });
    if (items.length === 0) return false;
    await vscode.commands.executeCommand("workbench.view.testing.focus");
    const source = new vscode.CancellationTokenSource();
    await this.#run(new vscode.TestRunRequest(items, undefined, this.#recorded), source.token, setting("test.live", false));
    return true;
  }

  async #discover(): Promise<void> {
    const files = (await vscode.workspace.findFiles(FILES, EXCLUDED, 2000)).filter((uri) => uri.scheme === "file");
    const names = new Set(files.map((uri) => uri.toString()));
    this.#controller.items.forEach((item) => names.has(item.id) || this.#controller.items.delete(item.id));
    await Promise.all(files.map((uri) => this.#read(uri)));
  }

  async #read(uri: vscode.Uri): Promise<void> {
    if (!isCases(uri)) return;
    try {
      this.#take(uri, new TextDecoder().decode(await vscode.workspace.fs.readFile(uri)));
    } catch {
      this.#controller.items.delete(uri.toString());
    }
  }

  #take(uri: vscode.Uri, text: string): void {
    const cases = casesOf(uri.path, text);
    const id = uri.toString();
    // A half-typed file keeps the cases that it had.
    if (cases.length === 0 && text.trim() !== "" && this.#controller.items.get(id) !== undefined) return;
    const item = this.#controller.items.get(id) ?? this.#controller.createTestItem(id, vscode.workspace.asRelativePath(uri), uri);
    item.children.replace(
      cases.map(({ name, line, column }) => {
        const child = item.children.get(`${id}#${name}`) ?? this.#controller.createTestItem(`${id}#${name}`, name, uri);
        child.range = new vscode.Range(line, column, line, column + name.length);
        return child;
      }),
    );
    this.#controller.items.add(item);
  }

  async #run(request: vscode.TestRunRequest, token: vscode.CancellationToken, live: boolean): Promise<void> {
    if (!(await this.#host.isTrusted("Running cases"))) return;
    const program = await this.#host.program();
    if (program === undefined) return;
    await vscode.workspace.saveAll(false);
    const run = this.#controller.createTestRun(request);
    try {
      for (const group of this.#groups(request)) {
        if (token.isCancellationRequested) break;
        await this.#runGroup(program, group, run, token, live);
      }
    } finally {
      run.end();
    }
  }

  /** The chosen cases by what one command can run. */
  #groups(request: vscode.TestRunRequest): Group[] {
    const groups = new Map<string, Group>();
    const excluded = new Set(request.exclude ?? []);
    const add = (item: vscode.TestItem): void => {
      if (excluded.has(item) || item.uri === undefined) return;
      if (item.children.size > 0) return item.children.forEach(add);
      const { target, root } = belongs(item.uri);
      const group = groups.get(target) ?? { target, root, uri: item.uri, items: [] };
      group.items.push(item);
      groups.set(target, group);
    };
    if (request.include) request.include.forEach(add);
    else this.#controller.items.forEach(add);
    return [...groups.values()];
  }

  async #runGroup(program: string, group: Group, run: vscode.TestRun, token: vscode.CancellationToken, live: boolean): Promise<void> {
    for (const item of group.items) run.started(item);
    const names = [...new Set(group.items.map((item) => item.label))];
    const args = ["test", group.target, "--json", ...names.flatMap((name) => ["--case", name])];
    if (live) args.push("--live", "--max-cost", String(setting("test.maxCost", 1)));
    run.appendOutput(`${program} ${args.join(" ")}\r\n`);
    const error = (text: string): void => {
      for (const item of group.items) run.errored(item, new vscode.TestMessage(text));
    };
    let ended;
    try {
      ended = await this.#host.run(program, args, group.root, token);
    } catch (problem) {
      return error(`${program} did not start: ${String(problem)}`);
    }
    if (ended.stderr !== "") run.appendOutput(ended.stderr.replaceAll("\n", "\r\n"));
    const read = outcomes(ended.stdout);
    if ("problem" in read) return error(ended.stderr.trim() || read.problem);
    for (const item of group.items) {
      const file = relative(group.root, item.uri?.fsPath ?? "");
      const own = read.outcomes.filter((one) => one.case === item.label && one.file === file);
      const failures = own.flatMap((one) => one.failures);
      const took = own.reduce<number | undefined>((sum, one) => (one.took_ms === undefined ? sum : (sum ?? 0) + one.took_ms), undefined);
      if (failures.length > 0) run.failed(item, failures.map((failure) => message(failure, item)), took);
      else if (own.length > 0 && own.every((one) => one.state === "passed")) run.passed(item, took);
      else run.skipped(item);
    }
  }
}

function message(failure: Failure, item: vscode.TestItem): vscode.TestMessage {
  const { text, expected, actual } = failure;
  const shown = expected === undefined || actual === undefined ? new vscode.TestMessage(text) : vscode.TestMessage.diff(text, expected, actual);
  if (item.uri !== undefined && item.range !== undefined) shown.location = new vscode.Location(item.uri, item.range);
  return shown;
}

const isCases = (uri: vscode.Uri): boolean => uri.scheme === "file" && /\.cases\.(yaml|yml|jsonl)$/.test(uri.path) && !/\/(node_modules|\.llm-do|\.git)\//.test(uri.path);
