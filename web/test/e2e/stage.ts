/** A server with a program, and pages that are signed in to it. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { expect } from "vitest";
import { front, type Front } from "../stand-in/front";
import { launch, open } from "./browser";
import { place, type Place } from "./program";
import { serve, type Server } from "./server";

const INDEX = fileURLToPath(new URL("../../dist/index.html", import.meta.url));

export class Stage {
  readonly place: Place;
  readonly browser: Browser;
  readonly faults: string[][] = [];
  server: Server;
  /** Where the page is. */
  address: string;
  #front: Front | undefined;
  readonly #more: string[];

  private constructor(at: Place, server: Server, browser: Browser, before: Front | undefined, more: string[]) {
    this.place = at;
    this.server = server;
    this.browser = browser;
    this.#front = before;
    this.#more = more;
    this.address = before?.address ?? server.address;
  }

  /** A server with these options. `prepare` changes its files before it starts. */
  static async open(more: string[] = ["--edit"], prepare?: (at: Place) => void): Promise<Stage> {
    const at = place();
    prepare?.(at);
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
    await page.goto(`${this.address}/#token=${token}`);
    await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
    if (to !== "#/") await page.goto(`${this.address}/${to}`);
    return page;
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
    await this.server.stop();
    this.place.remove();
    expect(this.faults.flat()).toEqual([]);
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
