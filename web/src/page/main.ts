import { mount } from "svelte";
import "../app.css";
import { config } from "./config";
import PageApp from "./PageApp.svelte";
import { PageStore } from "./page.svelte";

const target = document.getElementById("app");
if (target !== null) {
  try {
    mount(PageApp, { target, props: { page: new PageStore(config()) } });
  } catch (error) {
    target.textContent = `This page can't be shown: ${error instanceof Error ? error.message : String(error)}`;
  }
}
// A page that is one file, and a page without a secure connection, have no service worker.
if (document.documentElement.dataset["offline"] === "yes" && "serviceWorker" in navigator) {
  void navigator.serviceWorker.register("./sw.js").catch(() => undefined);
}
