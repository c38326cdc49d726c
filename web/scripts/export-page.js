// Puts the page of one run into one file: dist/export.html. Its policy allows this script and this style and nothing else, so
// that nothing in a run can be executed, whatever it says.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const from = new URL("../node_modules/.cache/export/", import.meta.url);
// In a script element `</script` ends it, wherever it stands. Both stay the same program.
const script = readFileSync(new URL("export.js", from), "utf8")
  .replaceAll(/<\/(script)/gi, "<\\/$1")
  .replaceAll("<!--", "\\x3C!--");
const style = readFileSync(new URL("export.css", from), "utf8").trim();
if (script.includes("__LLM_DO_RUN__")) throw new Error("the script must not contain the place of the run");

/** @param {string} text */
const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
const policy =
  `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; img-src data: blob:; ` +
  "base-uri 'none'; form-action 'none'";

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>llm-do</title>
<style>${style}</style>
</head>
<body>
<div id="app"></div>
<noscript>This page needs JavaScript.</noscript>
<script type="application/json" id="llm-do-run">__LLM_DO_RUN__</script>
<script>${script}</script>
</body>
</html>
`;
writeFileSync(new URL("../dist/export.html", import.meta.url), page);
