import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page that runs the engine as one script and one style sheet, which scripts/single-page.js puts into one file.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "node_modules/.cache/single",
    emptyOutDir: true,
    cssCodeSplit: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: "src/page/main.ts",
      transform: { define: { "import.meta": "{}" } },
      checks: { pluginTimings: false },
      output: { format: "iife", codeSplitting: false, entryFileNames: "single.js", assetFileNames: "single[extname]" },
    },
  },
});
