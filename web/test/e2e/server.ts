/** The real server. */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Place } from "./program";

export const BINARY = process.env["LLM_DO_BIN"] ?? fileURLToPath(new URL("../../../target/debug/llm-do", import.meta.url));

/** The token of all servers of the tests, so that a page knows the next one, too. */
const TOKEN = "0123456789abcdef0123456789abcdef";

export interface Server {
  address: string;
  token: string;
  /** Ends it at once, as a crash does. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

export async function serve(place: Place, port = 0, more: string[] = []): Promise<Server> {
  if (!existsSync(BINARY)) throw new Error(`there is no ${BINARY}: build llm-do, or set LLM_DO_BIN`);
  mkdirSync(place.home, { recursive: true });
  const child = spawn(BINARY, ["serve", ".", "--listen", `127.0.0.1:${port}`, "--grace", "1", ...more], {
    cwd: place.dir,
    env: { PATH: process.env["PATH"], HOME: place.home, LLM_DO_HOME: place.home, LLM_DO_SERVE_TOKEN: TOKEN },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const said: string[] = [];
  let address: string | undefined;
  await new Promise<void>((resolve, reject) => {
    const read = (line: string): void => {
      said.push(line);
      address ??= /http:\/\/127\.0\.0\.1:\d+/.exec(line)?.[0];
      if (address !== undefined) resolve();
    };
    createInterface({ input: child.stdout }).on("line", read);
    createInterface({ input: child.stderr }).on("line", read);
    child.on("exit", (code) => reject(new Error(`the server ended (${code}): ${said.join("\n")}`)));
    setTimeout(() => reject(new Error(`the server did not begin: ${said.join("\n")}`)), 20_000).unref();
  });
  child.removeAllListeners("exit");
  const ended = new Promise<void>((resolve) => child.on("exit", () => resolve()));
  const end = async (child: ChildProcess, signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal);
    await ended;
  };
  return {
    address: address ?? "",
    token: TOKEN,
    kill: () => end(child, "SIGKILL"),
    stop: () => end(child, "SIGTERM"),
  };
}
