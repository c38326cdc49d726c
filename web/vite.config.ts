import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The app: index.html and its files. The page of one run is built by vite.export.config.ts.
export default defineConfig({
  plugins: [svelte()],
  build: {
    target: "es2022",
    // A data: address would need a wider policy for nothing.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
});
