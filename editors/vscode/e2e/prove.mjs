// Tries the extension in code-server with Chromium, as a user would.
//
// node e2e/prove.mjs --program LLM_DO --vsix FILE --code-server FOLDER --node NODE [--shots FOLDER]
//
// FOLDER has node_modules/code-server, and NODE is the version of Node that it needs. If LLM_DO has no `lsp`, e2e/stand-in.mjs
// stands for its language server, and the output says so.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { start } from "./code-server.mjs";

const { values: given } = parseArgs({
  options: { program: { type: "string" }, vsix: { type: "string" }, "code-server": { type: "string" }, node: { type: "string" }, shots: { type: "string" } },
});
const examples = fileURLToPath(new URL("../../../examples/", import.meta.url));
const standIn = fileURLToPath(new URL("stand-in.mjs", import.meta.url));
const home = mkdtempSync(join(tmpdir(), "llm-do-editors-"));
const workspace = join(home, "workspace");
const log = join(home, "initialized");
/** The process of each language server that was started. */
const servers = join(home, "servers");

const hasServer = spawnSync(given.program, ["lsp", "--help"]).status === 0;
mkdirSync(workspace);
for (const name of ["greeter.worker", "greeter.cases.yaml", "greeter.recorded", "strikes"]) cpSync(join(examples, name), join(workspace, name), { recursive: true });
// A second case, which fails.
const cases = join(workspace, "greeter.cases.yaml");
writeFileSync(cases, readFileSync(cases, "utf8") + "- name: bob\n  input: Ada\n  expect: {output: Hello}\n");
cpSync(join(workspace, "greeter.recorded/ada.1.jsonl"), join(workspace, "greeter.recorded/bob.1.jsonl"));
// A program whose entry writes a file, which needs an approval, and may call another worker.
const letters = join(workspace, "letters");
mkdirSync(join(letters, "workers"), { recursive: true });
mkdirSync(join(letters, "drafts"));
writeFileSync(
  join(letters, "main.worker"),
  "---\ndescription: Writes a letter.\nallow_workers: [helper]\ntoolsets:\n  filesystem: {tools: [write_file]}\nsandbox:\n  paths:\n    drafts: {root: ./drafts, mode: rw}\n---\nWrite a letter.\n",
);
writeFileSync(join(letters, "workers/helper.worker"), "---\ndescription: Helps.\n---\nHelp.\n");
writeFileSync(
  join(home, "script.yaml"),
  `answers:
- when: {worker: main, turn: 0}
  calls:
  - {tool: write_file, arguments: {path: /drafts/letter.md, content: "Dear Ada"}}
- when: {worker: main, turn: 1}
  text: The letter is written.
- text: Good morning from the script
`,
);
// The program, with a record of how its language server begins.
const program = join(home, "llm-do");
const server = hasServer ? `exec "${given.program}" lsp "$@"` : `exec "${process.execPath}" "${standIn}" "$@"`;
writeFileSync(program, `#!/bin/sh\nif [ "$1" = lsp ]; then shift; echo $$ >>"${servers}"; ${server}; fi\nexec "${given.program}" "$@"\n`);
chmodSync(program, 0o755);

let passed = 0;
let failed = 0;
let editor;
/** A step, with a picture of its end. */
async function step(name, work) {
  const { page } = editor;
  try {
    await work(page);
    passed++;
    console.log(`ok    ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL  ${name}\n${String(error.stack ?? error).replaceAll(/^/gm, "      ")}`);
  }
  if (given.shots) {
    mkdirSync(given.shots, { recursive: true });
    await page.screenshot({ path: join(given.shots, `${String(passed + failed).padStart(2, "0")}-${name.replaceAll(/\W+/g, "-")}.png`) });
  }
}
async function until(what, work, ms = 30_000) {
  for (const end = Date.now() + ms; ; ) {
    const found = await work();
    if (found) return found;
    if (Date.now() > end) throw new Error(`${what}: not after ${ms / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
/** Opens a box with a key, and enters a text. A key that comes while the focus moves is lost, and a box that loses it closes. */
async function enter(page, key, text) {
  const box = page.locator(".quick-input-widget input").first();
  await until("the box", async () => {
    await page.keyboard.press(key);
    return box.fill(text, { timeout: 3000 }).then(() => true, () => false);
  });
}
async function open(page, path) {
  // The panel may have the focus: files open beside it only from there.
  const tab = page.locator(".editor-group-container").first().locator(".tab.active");
  if ((await tab.count()) > 0) await tab.click();
  await enter(page, "Control+P", path);
  // Other files of the same name may be listed before the text is searched.
  const rows = page.locator(".quick-input-list .monaco-list-row");
  await path.split("/").reduce((found, part) => found.filter({ hasText: part }), rows).first().click();
  await page.locator(`.tab.active[data-resource-name="${path.split("/").at(-1)}"]`).first().waitFor();
}
async function command(page, title) {
  await enter(page, "F1", `>${title}`);
  await page.locator(".quick-input-list .monaco-list-row").filter({ hasText: title }).first().click();
}
const lines = (page) => page.locator(".editor-group-container").first().locator(".view-lines").first();
/** The text of the editor, as it is shown. */
const shown = async (page) => (await lines(page).innerText()).replaceAll("\u00a0", " ");
const panel = (page) => page.frameLocator("iframe.webview").last().frameLocator("iframe#active-frame");

const machine = { "llm-do.path": program, "llm-do.arguments": ["--model", `script:${join(home, "script.yaml")}`] };
const settings = {
  "terminal.integrated.gpuAcceleration": "off",
  "workbench.editor.enablePreview": false,
  "files.autoSave": "off",
};
const common = { node: given.node, entry: join(given["code-server"], "node_modules/code-server/out/node/entry.js"), vsix: given.vsix, folder: workspace, settings, machine, environment: { LLM_DO_STAND_IN_LOG: log } };

console.log(hasServer ? "language server: llm-do lsp" : "language server: a stand-in, because this llm-do has no `lsp`");
try {
  editor = await start({ ...common, home: join(home, "trusted") });
  editor.page.setDefaultTimeout(30_000);

  await step("a worker file is highlighted", async (page) => {
    await open(page, "strikes/main.worker");
    const colours = () => lines(page).evaluate((element) => new Set([...element.querySelectorAll("span[class^=mtk]")].map((one) => one.className)).size);
    await until("colours", async () => (await colours()) >= 4, 60_000);
    await page.locator(".statusbar-item", { hasText: "Worker" }).waitFor();
  });
  await step("the status bar shows the language server", async (page) => {
    await page.locator('.statusbar-item[id*="llm-do.status"] .codicon-check').waitFor({ timeout: 60_000 });
    if (!hasServer) assert.match(readFileSync(log, "utf8"), /"trusted":true/);
  });
  await step("a server that was killed is started again", async (page) => {
    const served = () => readFileSync(servers, "utf8").trim().split("\n").map(Number);
    const before = served();
    process.kill(before.at(-1), "SIGKILL");
    await until("another server", () => served().length > before.length);
    await page.locator('.statusbar-item[id*="llm-do.status"] .codicon-check').waitFor();
  });
  await step("a wrong value is a finding, and the fix corrects it", async (page) => {
    await lines(page).locator(".view-line").nth(1).click();
    await page.keyboard.press("Home");
    await page.keyboard.type("locked: yes");
    await page.keyboard.press("Escape");
    await page.keyboard.press("Enter");
    await page.keyboard.press("ArrowUp");
    await page.locator(".squiggly-error").first().waitFor();
    await page.locator('.statusbar-item[id="status.problems"]', { hasText: "1" }).waitFor();
    await page.keyboard.press("End");
    await page.keyboard.press("Control+.");
    const fix = page.locator(".action-widget .monaco-list-row.action", { hasText: "write `true`" }).first();
    await fix.waitFor();
    await fix.click();
    await until("the fix", async () => /^locked: true$/m.test(await shown(page)));
    await page.keyboard.press("Home");
    await page.keyboard.press("Shift+ArrowDown");
    await page.keyboard.press("Delete");
    await until("no finding", async () => (await page.locator(".squiggly-error").count()) === 0);
  });
  await step("a lens runs the worker in a terminal", async (page) => {
    await open(page, "greeter.worker");
    await page.locator(".codelens-decoration a", { hasText: /run/i }).first().click();
    const box = page.locator(".quick-input-widget input").first();
    await page.locator(".quick-input-title", { hasText: "greeter(" }).waitFor();
    await box.fill("Ada");
    await page.keyboard.press("Enter");
    await until("the answer", async () => (await page.locator(".xterm-rows").allInnerTexts()).join("\n").replaceAll("\u00a0", " ").includes("Good morning from the script"));
  });
  await step("the panel shows the prompt as it is typed", async (page) => {
    await command(page, "llm-do: Show Prompt");
    await panel(page).getByRole("region", { name: "Prompt" }).getByText("You are a friendly greeter").waitFor();
    await lines(page).getByText("You are a friendly greeter").click();
    await page.keyboard.press("Home");
    await page.keyboard.type("NEW WORDS. ");
    await panel(page).getByRole("region", { name: "Prompt" }).getByText("NEW WORDS. You are a friendly greeter").waitFor();
  });
  await step("the panel saves, runs the worker and shows the run", async (page) => {
    await panel(page).getByRole("button", { name: "Save 1 file and run" }).click();
    await panel(page).getByRole("status", { name: "Answer" }).getByText("Good morning from the script").waitFor();
    assert.match(readFileSync(join(workspace, "greeter.worker"), "utf8"), /^NEW WORDS\. /m);
    await panel(page).getByRole("link", { name: "Open the run" }).click();
    await panel(page).getByRole("link", { name: "Calls" }).waitFor();
    assert.equal(await panel(page).getByRole("link", { name: "Runs" }).getAttribute("aria-current"), "page");
  });
  await step("the panel follows the editor to another worker", async (page) => {
    await open(page, "strikes/main.worker");
    await panel(page).getByRole("textbox", { name: /species/ }).waitFor();
    // The page went from a run to the worker, and the focus stays with the text.
    assert.equal(await page.evaluate(() => document.activeElement?.closest(".monaco-editor") !== null), true);
  });
  await step("a write is approved in the panel", async (page) => {
    await open(page, "letters/main.worker");
    await panel(page).getByRole("region", { name: "Prompt" }).getByText("Write a letter.").waitFor();
    await panel(page).getByRole("button", { name: "Run", exact: true }).click();
    await panel(page).getByRole("link", { name: "Answer its question" }).click();
    await panel(page).getByText("Dear Ada").first().waitFor();
    assert.equal(existsSync(join(letters, "drafts/letter.md")), false);
    await panel(page).getByRole("button", { name: /^Approve/ }).click();
    await until("the letter", () => existsSync(join(letters, "drafts/letter.md")));
    await panel(page).getByText("The letter is written.").first().waitFor();
  });
  if (hasServer) {
    await step("a key is completed", async (page) => {
      await lines(page).getByText("Writes a letter").click();
      await page.keyboard.press("End");
      await page.keyboard.press("Enter");
      await page.keyboard.type("compat");
      await page.locator(".suggest-widget .monaco-list-row", { hasText: "compatible_models" }).waitFor();
      await page.keyboard.press("Enter");
      await until("the key", async () => /^compatible_models:/m.test(await shown(page)));
      await page.keyboard.press("Home");
      await page.keyboard.press("Shift+ArrowDown");
      await page.keyboard.press("Delete");
      await until("the text before", async () => !(await shown(page)).includes("compatible_models"));
    });
    await step("a worker is renamed across files", async (page) => {
      await lines(page).getByText("helper").last().click();
      await page.keyboard.press("F2");
      await page.locator(".rename-box input").fill("assistant");
      await page.keyboard.press("Enter");
      await until("the file", () => existsSync(join(letters, "workers/assistant.worker")) && !existsSync(join(letters, "workers/helper.worker")));
      await until("the caller", async () => (await shown(page)).includes("allow_workers: [assistant]"));
    });
  }
  await step("check lists its findings as problems", async (page) => {
    await open(page, "strikes/main.worker");
    writeFileSync(join(workspace, "strikes/main.worker"), readFileSync(join(examples, "strikes/main.worker"), "utf8").replace("description:", "descripton:"));
    await command(page, "llm-do: Check Program");
    await until("the output", async () => (await page.locator(".xterm-rows").allInnerTexts()).join("\n").replaceAll("\u00a0", " ").includes("unknown key `descripton`"));
    await page.keyboard.press("Control+Shift+M");
    await page.locator(".markers-panel .monaco-list-row", { hasText: "unknown key `descripton`" }).first().waitFor();
    cpSync(join(examples, "strikes/main.worker"), join(workspace, "strikes/main.worker"));
  });
  await step("the Test Explorer runs cases and shows what differs", async (page) => {
    cpSync(join(examples, "greeter.worker"), join(workspace, "greeter.worker"));
    await open(page, "greeter.worker");
    await command(page, "llm-do: Run Cases of Worker");
    const tree = page.locator(".test-explorer .monaco-list-row");
    await tree.filter({ hasText: "greeter.cases.yaml" }).locator(".monaco-tl-twistie").click();
    await tree.filter({ hasText: "ada" }).locator(".codicon-testing-passed-icon").waitFor({ timeout: 60_000 });
    await tree.filter({ hasText: "bob" }).locator(".codicon-testing-failed-icon").waitFor();
    await open(page, "greeter.cases.yaml");
    await lines(page).getByText("bob").click();
    await command(page, "Test: Peek Output");
    await page.locator(".test-output-peek .diffEditor, .test-output-peek-message-container .monaco-diff-editor").first().waitFor();
  });
  await editor.stop();

  writeFileSync(log, "");
  editor = await start({ ...common, home: join(home, "untrusted"), trusted: false });
  editor.page.setDefaultTimeout(30_000);
  await step("nothing of an untrusted workspace runs", async (page) => {
    await open(page, "greeter.worker");
    await page.locator('.statusbar-item[id*="llm-do.status"] .codicon-check').waitFor({ timeout: 60_000 });
    if (!hasServer) assert.match(readFileSync(log, "utf8"), /"trusted":false/);
    await page.locator(".codelens-decoration a", { hasText: /run/i }).first().click();
    await page.locator(".notification-toast", { hasText: "needs a trusted workspace" }).waitFor();
    assert.equal(await page.locator(".quick-input-widget:visible").count(), 0);
  });
} finally {
  await editor?.stop();
  rmSync(home, { recursive: true, force: true });
}
console.log(`\n${passed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
