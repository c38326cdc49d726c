// Locations: the file and the line of a function, from V8's debugger. Only discovery uses it.

let inspected;

/** Connects to the debugger of this thread, which knows the place of each function. */
function inspect() {
  if (inspected) return;
  const session = new (require("node:inspector").Session)();
  inspected = { session, scripts: new Map(), unparsed: undefined };
  session.connect();
  session.on("Debugger.scriptParsed", ({ params }) => inspected.scripts.set(params.scriptId, params.url));
  session.on("Debugger.scriptFailedToParse", ({ params }) => {
    if (params.url.startsWith("file:")) inspected.unparsed = fileURLToPath(params.url);
  });
  session.post("Debugger.enable");
}

const LOOKED_AT = Symbol.for("llm-do.looked-at");

/** The place of a function: `{file, line, before}`, where `before` is the text of the file up to its definition. */
function locate(target) {
  let place;
  const { session, scripts } = inspected;
  globalThis[LOOKED_AT] = target;
  session.post("Runtime.evaluate", { expression: 'globalThis[Symbol.for("llm-do.looked-at")]' }, (_, value) => {
    session.post("Runtime.getProperties", { objectId: value.result.objectId, ownProperties: true }, (_, properties) => {
      const found = properties?.internalProperties?.find(({ name }) => name === "[[FunctionLocation]]");
      place = found?.value?.value;
    });
  });
  delete globalThis[LOOKED_AT];
  const url = place && scripts.get(place.scriptId);
  if (!url?.startsWith("file:")) return undefined;
  const file = fileURLToPath(url.replace(/[?#].*$/, ""));
  const line = place.lineNumber + 1;
  lineOf(file, 1);
  const lines = sources.get(file).slice(0, line);
  if (lines.length) lines.push(lines.pop().slice(0, place.columnNumber));
  return { file, line, before: lines.join("\n") };
}
