import { mount } from "svelte";
import "./app.css";
import ExportApp from "./ExportApp.svelte";
import { heldRecords, RecordedEngine } from "./engine/recorded";

const target = document.getElementById("app");
const held = document.getElementById("llm-do-run")?.textContent ?? "";

async function show(into: HTMLElement): Promise<void> {
  try {
    const engine = new RecordedEngine(await heldRecords(held));
    const info = await engine.run();
    document.title = `${info.worker} · ${info.run}`;
    mount(ExportApp, { target: into, props: { engine, info } });
  } catch (error) {
    into.textContent = `This page can't be shown: ${error instanceof Error ? error.message : String(error)}`;
  }
}
if (target !== null) void show(target);
