// Builds the extension, and the page of the panel from the sources of the web app, whose packages must be installed.
//
// node scripts/build.mjs [FOLDER]   writes into FOLDER, or else into dist/
import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const out = resolve(process.argv[2] ?? "dist");
const web = fileURLToPath(new URL("../../../web/", import.meta.url));
await build({
  entryPoints: ["src/extension.ts"],
  outfile: join(out, "extension.js"),
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  minify: true,
  legalComments: "none",
  logLevel: "warning",
});
const { status } = spawnSync(`${web}node_modules/.bin/vite`, ["build", "-c", "vite.panel.config.ts", "--outDir", out, "--logLevel", "warn"], { cwd: web, stdio: "inherit" });
process.exit(status ?? 1);
