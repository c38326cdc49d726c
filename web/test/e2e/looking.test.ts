/** Looking for a fault: comparing, searching in calls, and costs. */

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { axe } from "./browser";
import { Clicks } from "./clicks";
import type { Place } from "./program";
import { runOf, Stage } from "./stage";

/** A worker of code that calls another one for each word. */
function flow({ dir }: Place): void {
  writeFileSync(join(dir, "workers/flow.worker"), "---\ndescription: Greets each name.\ncode: flow.py:greet_all\n---\n");
  const code = [
    "from llm_do import ToolContext",
    "",
    "def greet_all(ctx: ToolContext, names: list[str]) -> list[str]:",
    '    """Greets each."""',
    '    return [ctx.call("greeter", {"name": name}) for name in names]',
    "",
  ];
  writeFileSync(join(dir, "flow.py"), code.join("\n"));
  const project = join(dir, "project.yaml");
  writeFileSync(project, readFileSync(project, "utf8").replace("exports: [", "exports: [flow, "));
}

let stage: Stage;
const runs: string[] = [];

beforeAll(async () => {
  stage = await Stage.open(["--edit"], flow);
  const page = await stage.page();
  for (const names of [["Ada", "Bob"], ["Ada", "Cleo", "Dan"]]) {
    const started = await page.request.post(`${stage.server.address}/v1/runs?wait=50`, {
      headers: { Authorization: `Bearer ${stage.server.token}` },
      data: { program: "desk", worker: "flow", input: { names } },
    });
    const run = (await started.json()) as { run: string; state: string };
    expect(run, JSON.stringify(run)).toMatchObject({ state: "done" });
    runs.push(run.run);
  }
  await page.context().close();
}, 120_000);
afterAll(() => stage.close());

// Before: not possible in the app. Two windows beside each other, 9 clicks, and the reader's eyes.
test("a run is compared with the one before in 1 click, and a call with another in 2", async () => {
  const page = await stage.page(`#/runs/${runs[1]}`);
  await page.locator("header [data-state=done]").first().waitFor();
  const clicks = new Clicks();
  await clicks.on(page.getByRole("link", { name: "Compare" }));
  const input = page.getByRole("region", { name: "Input by field" });
  await input.getByText("Cleo").waitFor();
  expect(await input.getByText("Bob").count()).toBe(1);
  expect(await input.getByText("Ada").count()).toBe(0);
  const calls = page.getByRole("region", { name: "Calls by function" });
  expect(await calls.getByRole("row", { name: /greeter 3 calls.* 2 calls/ }).count()).toBe(1);
  expect(clicks.count).toBe(1);
  expect(await axe(page)).toEqual([]);

  await page.goto(`${stage.address}/#/runs/${runs[1]}`);
  const call = new Clicks();
  await call.on(page.getByRole("treeitem", { name: /greeter.*Dan/ }));
  await call.on(page.getByRole("region", { name: "The selected call" }).getByRole("link", { name: "Compare" }));
  await page.getByRole("heading", { name: "Prompt" }).waitFor();
  await page.getByRole("region", { name: "Output by field" }).getByText("Hello").first().waitFor();
  expect(call.count).toBe(2);
  await page.getByLabel("Call B").waitFor();
  await page.context().close();
});

// Before: each call was opened to look for a word: as many clicks as calls.
test("a word in an input or an output finds its call with no click, and rows have hints", async () => {
  const page = await stage.page(`#/runs/${runs[1]}`);
  const tree = page.getByRole("tree");
  await tree.getByText("greet_all()").waitFor();
  // The worker and its function are one row.
  expect(await tree.getByRole("treeitem").count()).toBe(4);
  await page.keyboard.press("/");
  await page.keyboard.type("cleo");
  await expect.poll(() => tree.getByRole("treeitem", { name: /greeter/ }).count()).toBe(1);
  await page.keyboard.press("Control+a");
  await page.keyboard.type("hello");
  await expect.poll(() => tree.getByRole("treeitem").count()).toBeGreaterThan(1);
  await page.context().close();
});

// Before: not possible in the app; one run at a time under Costs.
test("costs over runs are one click away, by worker, model, day and client", async () => {
  const page = await stage.page("#/runs");
  const clicks = new Clicks();
  await clicks.on(page.getByRole("navigation", { name: "Pages", exact: true }).getByRole("link", { name: "Costs" }));
  await page.getByRole("region", { name: "By worker", exact: true }).getByText("desk/greeter").waitFor();
  await page.getByRole("region", { name: "By model", exact: true }).getByText("script:scripts/plain.yaml").waitFor();
  await page.getByRole("region", { name: "By client", exact: true }).getByText("operator").waitFor();
  await page.getByRole("list", { name: "Dearest runs" }).getByRole("link").first().waitFor();
  expect(clicks.count).toBe(1);
  for (const width of [390, 1280, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0);
  }
  expect(await axe(page)).toEqual([]);
  await page.getByRole("list", { name: "Dearest runs" }).getByRole("link").first().click();
  expect(await runOf(page)).toMatch(/^[0-9a-f-]+$/);
  await page.context().close();
});
