/** A `llm-do serve` on this machine's loopback interface, for the panel of one program. */

import { spawn, type ChildProcess } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { basename } from "node:path";

const START_MS = 30_000;
/** The server keeps a name to itself in a project. This one must not stop a `llm-do serve` of the user. */
const SUFFIX = "-editor";

export interface Call {
  method: string;
  path: string;
  headers: Record<string, string>;
  body?: string;
}

export class Serve {
  /** The name of the program in the server's addresses. */
  readonly name: string;
  /** Settles when the process has ended, with the end of what it wrote to stderr. */
  readonly ended: Promise<string>;
  readonly #process: ChildProcess;
  readonly #token: string;
  readonly #port: number;

  private constructor(name: string, process: ChildProcess, token: string, port: number, ended: Promise<string>) {
    this.name = name;
    this.#process = process;
    this.#token = token;
    this.#port = port;
    this.ended = ended;
  }

  /** Starts the server, and waits until it listens. */
  static start(program: string, target: string, root: string, further: string[], log: (line: string) => void): Promise<Serve> {
    const name = `${basename(target).replaceAll(/[^A-Za-z0-9_-]/g, "-").slice(0, 40)}${SUFFIX}`;
    const token = randomBytes(32).toString("hex");
    const child = spawn(program, ["serve", `${name}=${target}`, "--listen", "127.0.0.1:0", "--edit", "--color", "never", ...further], {
      cwd: root,
      env: { ...process.env, LLM_DO_SERVE_TOKEN: token },
      stdio: ["ignore", "ignore", "pipe"],
    });
    return new Promise((resolve, reject) => {
      let said = "";
      const timer = setTimeout(() => fail(`llm-do serve did not start within ${START_MS / 1000} seconds`), START_MS);
      const ended = new Promise<string>((end) => child.once("close", () => end(said.trim())));
      const fail = (why: string): void => {
        clearTimeout(timer);
        child.kill();
        reject(new Error(why));
      };
      child.once("error", (error) => fail(`llm-do serve did not start: ${error.message}`));
      void ended.then((text) => fail(text === "" ? "llm-do serve has ended" : text));
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        for (const line of text.split("\n").filter((line) => line !== "")) log(line);
        said = (said + text).slice(-4000);
        const port = /^note: serving .* on http:\/\/127\.0\.0\.1:(\d+)$/m.exec(said)?.[1];
        if (port === undefined) return;
        clearTimeout(timer);
        resolve(new Serve(name, child, token, Number(port), ended));
      });
    });
  }

  /** Sends a request with this server's token. A caller chooses a path of the interface, and nothing else. */
  send(call: Call, answered: (response: IncomingMessage) => void, failed: (error: Error) => void): ClientRequest {
    const headers = { ...call.headers, authorization: `Bearer ${this.#token}` };
    const asked = request({ host: "127.0.0.1", port: this.#port, method: call.method, path: call.path, headers }, answered);
    asked.once("error", failed);
    asked.end(call.body);
    return asked;
  }

  /** Lets later runs see what is on the disk: the server reads a program again when one of its files is written. */
  async refresh(path: string): Promise<void> {
    const place = `/v1/programs/${encodeURIComponent(this.name)}/files/content`;
    const { status, text } = await this.#whole({ method: "GET", path: `${place}?${new URLSearchParams({ path })}`, headers: {} });
    if (status !== 200) return;
    const { text: content } = JSON.parse(text) as { text: string };
    const sha256 = createHash("sha256").update(content).digest("hex");
    const body = JSON.stringify({ path, text: content, sha256 });
    await this.#whole({ method: "PUT", path: place, headers: { "content-type": "application/json" }, body });
  }

  #whole(call: Call): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      this.send(
        call,
        (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (piece: string) => (text += piece));
          response.once("end", () => resolve({ status: response.statusCode ?? 0, text }));
          response.once("error", reject);
        },
        reject,
      );
    });
  }

  stop(): void {
    this.#process.kill("SIGTERM");
  }
}
