import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page of one run: one script and one style sheet, which scripts/export-page.js puts into one file.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    target: "es2022",
    outDir: "node_modules/.cache/export",
    emptyOutDir: true,
    cssCodeSplit: false,
    reportCompressedSize: false,
    rolldownOptions: {
      input: "src/export.ts",
      output: { format: "iife", codeSplitting: false, entryFileNames: "export.js", assetFileNames: "export[extname]" },
    },
  },
});
