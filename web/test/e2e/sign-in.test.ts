import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Stage } from "./stage";

let stage: Stage;
/** Another port of this machine. */
let other: Server;
let otherAddress: string;
let serveOther: (asked: IncomingMessage, answer: ServerResponse) => void = (_, answer) => void answer.end();

beforeAll(async () => {
  stage = await Stage.open();
  other = createServer((asked, answer) => serveOther(asked, answer));
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  otherAddress = `http://127.0.0.1:${(other.address() as AddressInfo).port}`;
});
afterAll(async () => {
  other.closeAllConnections();
  other.close();
  await stage.close();
});

test("all tabs have one session, and hear when another signs out or in", async () => {
  const one = await stage.page("#/runs");
  const two = await one.context().newPage();
  await two.goto(`${stage.address}/#/inbox`);
  await two.getByText("Nothing waits for you.").waitFor();
  await two.getByRole("button", { name: /Sign out/ }).click();
  await one.getByRole("heading", { name: "Sign in to llm-do" }).waitFor();
  // The printed link, in a third tab.
  const three = await one.context().newPage();
  await three.goto(`${stage.address}/#token=${stage.server.token}`);
  await three.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  expect(three.url()).not.toContain("token");
  await one.getByRole("heading", { name: "Runs", exact: true }).waitFor();
  await two.getByText("Nothing waits for you.").waitFor();
  // Neither the cookie nor the storage has the token.
  const kept = JSON.stringify([await one.context().cookies(), await one.evaluate(() => ({ ...localStorage }))]);
  expect(kept).not.toContain(stage.server.token);
  await one.context().close();
});

test("another port receives a cookie that is useless, and sets one that signs nobody in", async () => {
  const page = await stage.page();
  let received = "";
  serveOther = (asked, answer) => {
    received = asked.headers.cookie ?? "";
    const [name = ""] = received.split("=");
    answer.setHeader("Set-Cookie", `${name}=${"0".repeat(64)}; Path=/; HttpOnly`);
    answer.end("<h1>Another server</h1>");
  };
  const visit = await page.context().newPage();
  await visit.goto(`${otherAddress}/`);
  await visit.getByRole("heading", { name: "Another server" }).waitFor();
  expect(received).toMatch(/^llm-do-session-\d+=[0-9a-f]{64}$/);
  for (const path of ["/v1/session", "/v1/runs"]) {
    const answer = await fetch(stage.server.address + path, { headers: { Cookie: received, Origin: stage.server.address } });
    expect(answer.status, path).toBe(401);
  }
  await page.reload();
  await page.getByRole("heading", { name: "Sign in to llm-do" }).waitFor();
  await page.context().close();
});

test("a link of another page asks before it signs in", async () => {
  serveOther = (_, answer) => {
    answer.setHeader("Content-Type", "text/html");
    answer.end(`<a href="${stage.address}/#token=${stage.server.token}">Look</a>`);
  };
  const context = await stage.browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(10_000);
  await page.goto(`${otherAddress}/`);
  await page.getByRole("link", { name: "Look" }).click();
  await page.getByRole("heading", { name: "Sign in with this link?" }).waitFor();
  expect(await context.cookies()).toEqual([]);
  await page.getByRole("button", { name: "Do not sign in" }).click();
  await page.getByRole("heading", { name: "Sign in to llm-do" }).waitFor();
  // A link that changes only the end of the address loads nothing: it asks, too.
  await page.goto(`${stage.address}/#token=${stage.server.token}`);
  await page.getByRole("heading", { name: "Sign in with this link?" }).waitFor();
  await page.getByRole("button", { name: "Sign in", exact: true }).click();
  await page.getByRole("heading", { name: "Programs", exact: true }).waitFor();
  await context.close();
});
