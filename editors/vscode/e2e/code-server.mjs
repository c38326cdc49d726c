// Starts code-server with the extension, and opens a workspace in Chromium.
import { spawn, spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { chromium } from "playwright-core";

/** A free port of the loopback interface. */
function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/**
 * `folder`: the workspace. `settings`: of the user; `machine`: of the machine that the server runs on. `entry`: the main script of code-server, which runs under `node`.
 * Returns the page of the workbench and what ends both.
 */
export async function start({ node, entry, vsix, folder, home, settings, machine, trusted = true, environment = {} }) {
  const data = join(home, "data");
  const extensions = join(home, "extensions");
  for (const scope of ["User", "Machine"]) mkdirSync(join(data, scope), { recursive: true });
  // Settings that say what runs are those of the machine.
  writeFileSync(join(data, "Machine/settings.json"), JSON.stringify(machine));
  writeFileSync(
    join(data, "User/settings.json"),
    JSON.stringify({
      "workbench.startupEditor": "none",
      "telemetry.telemetryLevel": "off",
      "extensions.autoCheckUpdates": false,
      "update.mode": "none",
      "security.workspace.trust.enabled": !trusted,
      "security.workspace.trust.startupPrompt": "never",
      "security.workspace.trust.banner": "never",
      "workbench.colorTheme": "Default Dark Modern",
      "files.simpleDialog.enable": true,
      "chat.disableAIFeatures": true,
      "editor.accessibilitySupport": "off",
      ...settings,
    }),
  );
  const common = ["--user-data-dir", data, "--extensions-dir", extensions];
  const env = { ...process.env, ...environment, PATH: `${dirname(node)}:${environment.PATH ?? process.env.PATH}`, XDG_CONFIG_HOME: join(home, "config") };
  const installed = spawnSync(node, [entry, ...common, "--install-extension", vsix, "--force"], { encoding: "utf8", env });
  if (installed.status !== 0) throw new Error(`the extension can't be installed: ${installed.stdout}${installed.stderr}`);
  const port = await freePort();
  const server = spawn(node, [entry, ...common, "--auth", "none", "--disable-telemetry", "--disable-update-check", "--bind-addr", `127.0.0.1:${port}`, folder], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let said = "";
  for (const stream of [server.stdout, server.stderr]) stream.on("data", (text) => (said += text));
  for (const until = Date.now() + 60_000; ; ) {
    const answer = await fetch(`http://127.0.0.1:${port}/healthz`).catch(() => undefined);
    if (answer?.ok) break;
    if (Date.now() > until || server.exitCode !== null) throw new Error(`code-server does not answer: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  const browser = await chromium.launch({ executablePath: process.env.LLM_DO_TEST_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1500, height: 950 } });
  await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(folder)}`);
  await page.locator(".monaco-workbench").waitFor({ timeout: 120_000 });
  return {
    page,
    said: () => said,
    async stop() {
      await browser.close();
      process.kill(-server.pid, "SIGTERM");
    },
  };
}
