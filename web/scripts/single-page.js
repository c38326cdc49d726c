// Puts the page that runs the engine into one file: dist/single.html. `llm-do page --single` writes the engine and a program
// into it. Its policy allows this script and this style, and what `llm-do page` names.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const from = new URL("../node_modules/.cache/single/", import.meta.url);
// In a script element `</script` ends it, wherever it stands. Both stay the same program.
const script = readFileSync(new URL("single.js", from), "utf8")
  .replaceAll(/<\/(script)/gi, "<\\/$1")
  .replaceAll("<!--", "\\x3C!--");
const style = readFileSync(new URL("single.css", from), "utf8").trim();
for (const place of ["__LLM_DO_PAGE__", "__LLM_DO_ENGINE__", "__LLM_DO_PROGRAM__", "__LLM_DO_POLICY__", "__LLM_DO_TITLE__"]) {
  if (script.includes(place)) throw new Error(`the script must not contain ${place}`);
}

/** @param {string} text */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="__LLM_DO_POLICY__">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<meta name="csp-nonce" content="__NONCE__">
<meta name="llm-do-script" content="${hash(script)}">
<meta name="llm-do-style" content="${hash(style)}">
<title>__LLM_DO_TITLE__</title>
<style>${style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="llm-do-page">__LLM_DO_PAGE__</script>
<script type="application/octet-stream" id="llm-do-engine">__LLM_DO_ENGINE__</script>
<script type="application/octet-stream" id="llm-do-program">__LLM_DO_PROGRAM__</script>
<script>${script}</script>
</body>
</html>
`;
writeFileSync(new URL("../dist/single.html", import.meta.url), page);
