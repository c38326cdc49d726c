/** The page of the panel in VS Code. `editors/vscode/src/panel.ts` is the other end. */

import { mount } from "svelte";
import "./app.css";
import PanelApp from "./PanelApp.svelte";
import { HttpEngine } from "./engine/http";
import { Through, type Received, type Sent } from "./engine/through";
import { Panel } from "./store/panel.svelte";
import type { Shown } from "./PanelApp.svelte";
import { AppStore } from "./store/app.svelte";

type Message = Received | ({ type: "show" } & Shown) | { type: "theme"; theme: "light" | "dark" } | { type: "saved"; all: boolean };
interface Editor {
  postMessage(message: Sent | { type: "ready" } | { type: "save" }): void;
}
declare function acquireVsCodeApi(): Editor;

// Pages of other windows of the editor have the same origin and other servers.
Object.defineProperty(navigator, "locks", { value: undefined });

const editor = acquireVsCodeApi();
const through = new Through((message) => editor.postMessage(message));
const app = new AppStore(new HttpEngine("", through.fetch));
const panel = new Panel(app, () => editor.postMessage({ type: "save" }));

addEventListener("message", ({ data }: MessageEvent<Message>) => {
  if (data.type === "show") panel.show(data);
  else if (data.type === "theme") app.setTheme(data.theme);
  else if (data.type === "saved") panel.saved(data.all);
  else through.take(data);
});

// The editor would open links by itself, and knows nothing of the app's pages.
addEventListener(
  "click",
  (event) => {
    const link = event.composedPath().find((one): one is HTMLAnchorElement => one instanceof HTMLAnchorElement);
    const to = link?.getAttribute("href");
    if (to === null || to === undefined || !to.startsWith("#/")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    app.router.go(to);
  },
  true,
);

const target = document.getElementById("app");
if (target !== null) {
  mount(PanelApp, {
    target,
    props: {
      app,
      get shown() {
        return panel.current;
      },
      save: () => panel.save(),
    },
  });
}
editor.postMessage({ type: "ready" });
