// A Node host and its frames, for tests. The host comes from `build.rs` (`LLM_DO_TEST_HOST`).

import { spawn } from "node:child_process";
import { mkdtempSync, mkdirSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

const ARGUMENTS = ["--disable-warning=ExperimentalWarning", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON"];

/** A host that runs the files of a project. */
export class Host {
  constructor(files = {}, more = []) {
    this.root = realpathSync(mkdtempSync(path.join(tmpdir(), "llm-do-")));
    for (const [name, text] of Object.entries(files)) this.put(name, text);
    const packages = process.env.LLM_DO_TEST_PACKAGES;
    if (packages) symlinkSync(packages, path.join(this.root, "node_modules"));
    const arguments_ = [...ARGUMENTS, ...more, process.env.LLM_DO_TEST_HOST, "3"];
    this.process = spawn(process.execPath, arguments_, { stdio: ["ignore", "pipe", "pipe", "pipe"], env: {} });
    this.frames = [];
    this.wanted = [];
    this.next = 1;
    let pending = Buffer.alloc(0);
    this.process.stdio[3].on("data", (data) => {
      pending = Buffer.concat([pending, data]);
      while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32BE(0)) {
        const end = 4 + pending.readUInt32BE(0);
        this.frames.push(JSON.parse(pending.toString("utf8", 4, end)));
        pending = pending.subarray(end);
      }
      this.look();
    });
    this.process.on("exit", (code) => {
      this.frames.push({ t: "exit", code });
      this.look();
    });
    this.printed = "";
    for (const stream of [this.process.stdout, this.process.stderr]) stream.on("data", (data) => (this.printed += data));
  }

  put(name, text) {
    const file = path.join(this.root, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, text);
  }

  /** Hands frames to those who wait for them. */
  look() {
    this.wanted = this.wanted.filter(({ is, resolve }) => {
      const at = this.frames.findIndex(is);
      if (at >= 0) resolve(this.frames.splice(at, 1)[0]);
      return at < 0;
    });
  }

  /** The next frame of these kinds, or the end of the process. */
  read(...kinds) {
    return new Promise((resolve) => {
      this.wanted.push({ is: ({ t }) => kinds.includes(t) || t === "exit", resolve });
      this.look();
    });
  }

  send(message) {
    const body = Buffer.from(JSON.stringify(message));
    const length = Buffer.alloc(4);
    length.writeUInt32BE(body.length);
    this.process.stdio[3].write(Buffer.concat([length, body]));
  }

  module(name = "tools.ts", names = []) {
    const file = path.join(this.root, name);
    return { key: names.length ? `${file}#${names}` : file, path: file, root: this.root, ...(names.length ? { names } : {}) };
  }

  /** The report of a module. */
  async load(name, names) {
    this.send({ t: "load", modules: [this.module(name, names)] });
    const answer = await this.read("loaded");
    return answer.modules?.[0] ?? answer;
  }

  begin(name, args = {}, { module = "tools.ts", names, ...more } = {}) {
    const id = this.next++;
    this.send({ t: "call", id, module: this.module(module, names), function: name, args, plain: false, ctx: {}, ...more });
    return id;
  }

  /** Calls a function, and returns the frame that ends the call. */
  async call(name, args, more) {
    this.begin(name, args, more);
    return this.read("result", "error");
  }

  close() {
    this.process.kill("SIGKILL");
  }
}

/** Runs a test with a host, and ends it. `more` are further arguments of Node. */
export async function withHost(files, test, more) {
  const host = new Host(files, more);
  try {
    await host.read("ready");
    await test(host);
  } finally {
    host.close();
  }
}
