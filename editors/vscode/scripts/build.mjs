// Builds dist/: the extension, and the page of the panel from the sources of the web app, whose packages must be installed.
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("../../../web/", import.meta.url));
await build({
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
const { status } = spawnSync(`${web}node_modules/.bin/vite`, ["build", "-c", "vite.panel.config.ts", "--logLevel", "warn"], { cwd: web, stdio: "inherit" });
process.exit(status ?? 1);
