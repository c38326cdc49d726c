// A web chat of others in a real browser: deep-chat, whose page is of another origin than the server.
import { createRequire } from "node:module";

const [modules, chromium, page, address, token] = process.argv.slice(2);
const { chromium: engine } = createRequire(`${modules}/`)("playwright-core");
const heard = { requests: [] };
const browser = await engine.launch({ executablePath: chromium, args: ["--no-sandbox"] });

async function chat(model, text) {
  const tab = await browser.newPage();
  tab.on("response", (response) => {
    if (response.url().includes(address)) heard.requests.push(`${response.request().method()} ${response.status()}`);
  });
  tab.on("console", (message) => message.type() === "error" && (heard.console = message.text()));
  await tab.goto(`${page}#${new URLSearchParams({ address, token, model })}`);
  const input = tab.locator("#text-input");
  await input.click();
  await input.pressSequentially(text);
  await input.press("Enter");
  const answer = tab.locator(".ai-message-text, .error-message-text").last();
  return {
    // The text of the answer, once it has these words.
    until: async (words) => {
      await answer.filter({ hasText: words }).waitFor({ timeout: 60_000 });
      return answer.innerText();
    },
    links: () => answer.locator("a").evaluateAll((links) => links.map((link) => link.href)),
    close: () => tab.close(),
  };
}

const reads = await chat("desk/reader", "Read it.");
heard.read = await reads.until("buy milk");
await reads.close();
const writes = await chat("desk/writer", "Write.");
heard.asked = await writes.until("Answer it here");
heard.links = await writes.links();
const foreign = await browser.newPage();
await foreign.goto("data:text/html,<title>foreign</title>");
heard.foreign = await foreign.evaluate(
  ([address, token]) =>
    fetch(`http://${address}/v1/models`, { headers: { Authorization: `Bearer ${token}` } }).then(
      (response) => response.status,
      (error) => error.name,
    ),
  [address, token],
);
await browser.close();
console.log(JSON.stringify(heard));
