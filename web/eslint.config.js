import js from "@eslint/js";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default ts.config(
  { ignores: ["dist/", "test-output/", "node_modules/", "src/engine/api.ts"] },
  js.configs.recommended,
  ...ts.configs.strict,
  ...svelte.configs.recommended,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, svelteConfig } },
  },
  {
    rules: {
      // The compiler has the undefined names.
      "no-undef": "off",
      "no-console": "error",
      // Characters that are not seen are what some patterns are about.
      "no-control-regex": "off",
      "no-misleading-character-class": "off",
      eqeqeq: "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "@typescript-eslint/consistent-type-imports": "error",
      // Assignments in a row, and `void` before what an effect depends on.
      "@typescript-eslint/no-unused-expressions": ["error", { allowTernary: true, allowShortCircuit: true }],
      // Nothing becomes markup. Everything that is shown may come from others.
      "svelte/no-at-html-tags": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text of others must not become markup." },
        { property: "outerHTML", message: "Text of others must not become markup." },
        { property: "insertAdjacentHTML", message: "Text of others must not become markup." },
      ],
      // Addresses of this app are fragments.
      "svelte/no-navigation-without-resolve": "off",
      // The stores say what has changed, and hold plain data.
      "svelte/prefer-svelte-reactivity": "off",
    },
  },
);
