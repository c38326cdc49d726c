import { fileURLToPath } from "node:url";
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig, type Plugin } from "vite";

/** Puts an engine of the tests in the place of the WebAssembly module. */
const standIn = (): Plugin => ({
  name: "stand-in",
  enforce: "pre",
  resolveId: (source, importer) =>
    source === "./module" && importer?.includes("/src/page/") === true ? fileURLToPath(new URL("test/stand-in/engine.ts", import.meta.url)) : null,
});

// The page that runs the engine, with an engine of the tests, and its transport alone. Only tests use them.
export default defineConfig({
  plugins: [standIn(), svelte()],
  worker: { plugins: () => [standIn()] },
  base: "./",
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "node_modules/.cache/stand-in",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: { page: "page.html", sw: "src/page/sw.ts", host: "test/stand-in/host-main.ts" },
      output: { entryFileNames: ({ name }) => (name === "page" ? "assets/[name]-[hash].js" : "[name].js") },
    },
  },
});
