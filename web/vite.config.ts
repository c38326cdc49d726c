import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The app behind a server (index.html), and the page that runs the engine itself (page.html) with its service worker. They
// share their files. The page of one run is built by vite.export.config.ts, the page as a single file by vite.single.config.ts.
export default defineConfig({
  plugins: [svelte()],
  // A page may lie in any folder of a site.
  base: "./",
  build: {
    target: "es2022",
    // A data: address would need a wider policy for nothing.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: { index: "index.html", page: "page.html", sw: "src/page/sw.ts" },
      output: { entryFileNames: ({ name }) => (name === "sw" ? "sw.js" : "assets/[name]-[hash].js") },
    },
  },
});
