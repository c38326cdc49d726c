/** A program, and pages for it: of a server, or with the engine in them (`engines.ts`). */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { front, type Front } from "../stand-in/front";
import { launch, open } from "./browser";
import { ENGINE } from "./engines";
import { made, type Made } from "./page/made";
import { site, type Site } from "./page/site";
import { place, type Place } from "./program";
import { serve, type Server } from "./server";

const DIST = fileURLToPath(new URL("../../dist", import.meta.url));
const INDEX = join(DIST, "index.html");

/** The text files of a program, by path. */
function filesOf(dir: string, below = ""): Record<string, string> {
  const files: Record<string, string> = {};
  for (const name of readdirSync(join(dir, below))) {
    const path = below === "" ? name : `${below}/${name}`;
    if (statSync(join(dir, path)).isDirectory()) Object.assign(files, filesOf(dir, path));
    else files[path] = readFileSync(join(dir, path), "utf8");
  }
  return files;
}

/** A site whose page runs the program itself. */
class PageSite {
  private constructor(
    readonly site: Site,
    readonly made: Made,
  ) {}

  static async of(at: Place): Promise<PageSite> {
    const engine = gzipSync(readFileSync(join(DIST, "engine.wasm")), { level: 9 });
    const page = made(DIST, { name: "desk", description: "", files: filesOf(at.dir), connect: [] }, engine);
    return new PageSite(await site({ page: page.dir }), page);
  }

  async close(): Promise<void> {
    await this.site.close();
    this.made.remove();
  }
}

export class Stage {
  readonly place: Place;
  readonly browser: Browser;
  readonly faults: string[][] = [];
  server: Server;
  /** Where the page is. */
  address: string;
  #front: Front | undefined;
  readonly #page: PageSite | undefined;
  readonly #more: string[];

  private constructor(at: Place, server: Server, browser: Browser, before: Front | undefined, more: string[], page?: PageSite) {
    this.place = at;
    this.server = server;
    this.browser = browser;
    this.#front = before;
    this.#more = more;
    this.#page = page;
    this.address = page === undefined ? (before?.address ?? server.address) : `${page.site.origin}/page`;
  }

  /** A server with these options. `prepare` changes its files before it starts. */
  static async open(more: string[] = ["--edit"], prepare?: (at: Place) => void): Promise<Stage> {
    const at = place();
    prepare?.(at);
    if (ENGINE === "page") return new Stage(at, NO_SERVER, await launch(), undefined, more, await PageSite.of(at));
    const server = await serve(at, 0, more);
    const inside = await (await fetch(server.address)).text();
    const built = readFileSync(INDEX, "utf8");
    const same =
      inside.replace(/content="[0-9a-f]{32}"/, 'content="__NONCE__"').replace('content="user"', 'content="__OPENED_BY__"') === built;
    // The binary was built before the app: its other files are served in front of it.
    const before = same ? undefined : await front(server.address);
    if (process.env["LLM_DO_WEB_INSIDE"] === "1" && !same) throw new Error("the binary holds another build of the app");
    return new Stage(at, server, await launch(), before, more);
  }

  /** A page of its own browser profile, signed in with that token. */
  async page(to = "#/", options: BrowserContextOptions = {}, token = this.server.token): Promise<Page> {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
    const { page, faults } = await open(context, this.address);
    this.faults.push(faults);
    if (this.#page === undefined) await page.goto(`${this.address}/#token=${token}`);
    else {
      await page.goto(`${this.address}/`);
      await page.getByRole("button", { name: "Open the program" }).click({ timeout: 30_000 });
    }
    await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
    if (to !== "#/") await page.goto(`${this.address}/${to}`);
    return page;
  }

  /** Reads a file of the program, where the engine of that page has it. */
  async read(page: Page, path: string): Promise<string | undefined> {
    if (this.#page !== undefined) return page.evaluate(readPrivate, ["llm-do", encodeURIComponent("/page/"), "programs", "desk", ...path.split("/")]);
    const file = join(this.place.dir, path);
    return existsSync(file) ? readFileSync(file, "utf8") : undefined;
  }

  /** Kills the server. */
  async kill(): Promise<void> {
    await this.server.kill();
  }

  /** Starts it again, at the same address and with the same programs. */
  async again(): Promise<void> {
    const port = Number(new URL(this.server.address).port);
    this.server = await serve(this.place, port, this.#more);
  }

  /** Signs a page in again after the server was started again: sessions end with it. The page stays where it was. */
  async signIn(page: Page): Promise<void> {
    await page.reload();
    await page.getByLabel("Token").fill(this.server.token);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByLabel("Token").waitFor({ state: "detached" });
  }

  async close(): Promise<void> {
    await this.browser.close();
    await this.#front?.close();
    await this.#page?.close();
    await this.server.stop();
    this.place.remove();
    expect(this.faults.flat()).toEqual([]);
  }
}

const NO_SERVER: Server = { address: "", token: "", kill: () => Promise.resolve(), stop: () => Promise.resolve() };

/** Reads a private file of the origin in its page. */
async function readPrivate(names: string[]): Promise<string | undefined> {
  try {
    let folder = await navigator.storage.getDirectory();
    for (const name of names.slice(0, -1)) folder = await folder.getDirectoryHandle(name);
    return await (await (await folder.getFileHandle(names.at(-1) ?? "")).getFile()).text();
  } catch {
    return undefined;
  }
}

/** The ID of the run that a page shows. */
export async function runOf(page: Page): Promise<string> {
  await page.waitForURL(/#\/runs\/[0-9a-f-]+/);
  return /#\/runs\/([0-9a-f-]+)/.exec(page.url())?.[1] ?? "";
}

/** Starts the worker `writer`, which asks before it writes. */
export async function startWriter(page: Page): Promise<void> {
  await page.goto(`${page.url().split("#")[0]}#/start/desk/writer`);
  await page.getByRole("textbox", { name: "input" }).fill("Write it down.");
  await page.getByRole("button", { name: "Start the run" }).click();
  await page.getByRole("button", { name: "Approve" }).waitFor();
}

export async function startChat(page: Page, first: string): Promise<void> {
  await page.goto(`${page.url().split("#")[0]}#/start/desk/chat`);
  await page.getByLabel("Your first message").fill(first);
  await page.getByRole("button", { name: "Start the chat" }).click();
}
