#!/usr/bin/env node
// Starts the program of the package for this platform, with the same arguments, input and output.

import { spawn } from "node:child_process";
import { constants } from "node:os";
import { PLATFORM, packagedBinary } from "../dist/binary.js";

const binary = packagedBinary();
if (binary === undefined) {
  console.error(`error: the package ${PLATFORM} is not installed, which has the program for this machine`);
  console.error("hint: install llm-do with optional dependencies (no `--omit=optional`), or use another package of llm-do");
  process.exit(1);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends an interrupt to both: the program decides what it means. Other signals reach this process alone.
process.on("SIGINT", () => {});
for (const signal of ["SIGTERM", "SIGHUP", "SIGQUIT"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`error: cannot start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
