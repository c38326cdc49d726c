// Compares the scopes of tests/grammar/* with their snapshots. `--update` writes the snapshots.
// The grammars of YAML, Markdown, JSON and Python are those of tm-grammars, which come from the same sources as VS Code's.
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";

const folder = "tests/grammar";
const others = ["markdown", "yaml", "json", "python"].flatMap((name) => ["-g", `node_modules/tm-grammars/grammars/${name}.json`]);
const further = process.argv.includes("--update") ? ["--updateSnapshot"] : ["--expandDiff"];
const files = readdirSync(folder).filter((name) => !name.endsWith(".snap"));

let failed = false;
for (const [scope, chosen] of Object.entries({
  "text.llm-do.worker": files.filter((name) => name.endsWith(".worker")),
  "source.llm-do.yaml": files.filter((name) => name.endsWith(".yaml")),
})) {
  if (chosen.length === 0) throw new Error(`no file is for ${scope}`);
  const paths = chosen.map((name) => `${folder}/${name}`);
  const { status, stdout, stderr } = spawnSync("node_modules/.bin/vscode-tmgrammar-snap", ["-s", scope, ...further, ...others, ...paths], { encoding: "utf8" });
  // Markdown can contain many languages, and the tool names each one that it has no grammar of.
  process.stdout.write(`${stdout}${stderr}`.replaceAll(/^grammar not found for .*\n/gm, ""));
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
