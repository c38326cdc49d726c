import { defineConfig } from "vitest/config";

// Tests in a browser, against the real server. One file after the other: each starts a browser.
export default defineConfig({
  test: { include: ["test/e2e/**/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000, fileParallelism: false },
});
