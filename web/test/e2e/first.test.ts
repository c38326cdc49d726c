import { expect, test } from "vitest";
import { front } from "../stand-in/front";
import { launch, open, OUTPUT } from "./browser";
import { place } from "./program";
import { serve } from "./server";

test("first look", async () => {
  const here = place();
  const server = await serve(here);
  const app = await front(server, "token-of-the-page");
  const browser = await launch();
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const { page, faults } = await open(context, app.address);
  try {
    await page.goto(`${app.address}/#token=token-of-the-page`);
    await page.getByRole("heading", { name: "Programs" }).waitFor();
    await page.screenshot({ path: `${OUTPUT}/x-home.png` });
    await page.getByRole("link", { name: "Run order" }).click();
    await page.getByRole("button", { name: "Start the run" }).waitFor();
    await page.screenshot({ path: `${OUTPUT}/x-start.png`, fullPage: true });
    await page.goto(`${app.address}/#/start/desk/writer`);
    await page.getByRole("textbox", { name: "input" }).fill("Write");
    await page.getByRole("button", { name: "Start the run" }).click();
    await page.getByRole("button", { name: "Approve" }).waitFor();
    await page.screenshot({ path: `${OUTPUT}/x-question.png` });
    await page.getByRole("button", { name: "Approve" }).click();
    await page.locator("[data-state=done]").first().waitFor();
    await page.screenshot({ path: `${OUTPUT}/x-done.png` });
    await page.goto(`${app.address}/#/start/desk/chat`);
    await page.getByLabel("Your first message").fill("Hello");
    await page.getByRole("button", { name: "Start the chat" }).click();
    await page.getByText("You said: Hello").waitFor();
    await page.getByLabel("Message to chat").fill("How are you?");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByText("Well, thank you.").waitFor();
    await page.screenshot({ path: `${OUTPUT}/x-chat.png` });
  } finally {
    await page.screenshot({ path: `${OUTPUT}/x-last.png` });
    await browser.close();
    await app.close();
    await server.stop();
    here.remove();
  }
  expect(faults).toEqual([]);
});
