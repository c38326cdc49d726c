import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// The page of the panel in VS Code: one script and one style sheet, which the extension
// contains. `editors/vscode/scripts/build.mjs` names the folder.
export default defineConfig({
  plugins: [svelte()],
  publicDir: false,
  build: {
    target: "es2022",
    emptyOutDir: false,
    cssCodeSplit: false,
    modulePreload: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 2000,
    rolldownOptions: {
      input: "src/panel.ts",
      transform: { define: { "import.meta": "{}" } },
      checks: { pluginTimings: false },
      output: { format: "iife", codeSplitting: false, entryFileNames: "panel.js", assetFileNames: "panel[extname]" },
    },
  },
});
