import { mount } from "svelte";
import "./app.css";
import App from "./App.svelte";
import { HttpEngine } from "./engine/http";
import { AppStore } from "./store/app.svelte";

const target = document.getElementById("app");
if (target !== null) mount(App, { target, props: { app: new AppStore(new HttpEngine()) } });
