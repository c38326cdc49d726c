// Errors: what a function throws, as llm-do reads it.

const sources = new Map();

/** The text of a line of a file, for messages. */
function lineOf(file, line) {
  if (!sources.has(file)) {
    let lines = [];
    try {
      lines = fs.readFileSync(file, "utf8").split("\n");
    } catch {
      // The message does without it.
    }
    sources.set(file, lines);
  }
  return sources.get(file)[line - 1] ?? "";
}

/** True if a file is the user's own code: below the root of its package, and not an installed package. */
function isOwn(file, root) {
  return file.startsWith(`${root}/`) && !file.slice(root.length).includes("/node_modules/");
}

/** The user's own frames of an error, outermost first. Node strips types in place, so lines are those of the source. */
function framesOf(error, root) {
  const found = [];
  for (const line of String(error.stack ?? "").split("\n")) {
    const match = /^\s+at (?:(?:async )?(.*?) \()?((?:file:\/\/)?\/.*?):(\d+):(\d+)\)?$/.exec(line);
    if (!match) continue;
    let file = match[2];
    try {
      if (file.startsWith("file:")) file = fileURLToPath(file.replace(/[?#].*$/, ""));
    } catch {
      continue;
    }
    if (!isOwn(file, root)) continue;
    const name = (match[1] ?? "").replace(/^(Module|Object|new Promise)\./, "").replace(/ \[as .*\]$/, "");
    const number = Number(match[3]);
    found.push({ file, line: number, function: name || "(top level)", text: lineOf(file, number) });
    if (found.length === MAX_FRAMES) break;
  }
  return found.reverse();
}

const short = (text) => (text.length > MAX_MESSAGE ? `${text.slice(0, MAX_MESSAGE)}…` : text);

/** An error as llm-do reads it. */
function describe(error, root) {
  if (!(error instanceof Error) && !(error && typeof error.message === "string")) {
    let text;
    try {
      text = typeof error === "string" ? error : stringify(error) ?? String(error);
    } catch {
      text = String(error);
    }
    return { kind: "exception", type: "Error", message: short(`a function threw ${text}, which is not an Error`) };
  }
  const message = short(String(error.message));
  if (error instanceof Told) return { kind: error.told, type: "Error", message };
  if (error?.name === "Retry") return { kind: "retry", type: "Retry", message };
  const told = { kind: "exception", type: String(error.name || "Error"), message, frames: framesOf(error, root) };
  if (error.name === "CallError" && error.kind) told.cause = String(error.kind);
  if (["EACCES", "EPERM", "EROFS", "ERR_ACCESS_DENIED"].includes(error.code)) told.kind = "denied";
  const network = ["ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ENETUNREACH"];
  for (let cause = error; cause instanceof Error; cause = cause.cause) {
    if (network.includes(cause.code) && cause !== error) told.message = short(`${message}: ${cause.message}`);
    if (["EACCES", "EPERM"].includes(cause.code)) told.kind = "denied";
  }
  const place = error.path ?? error.dest;
  if (typeof place === "string") told.path = place;
  if (error.code === "ERR_MODULE_NOT_FOUND") {
    const package_ = /^Cannot find package '([^']+)'/.exec(message);
    told.kind = "import";
    if (package_) Object.assign(told, { kind: "missing", missing: package_[1] });
  }
  if (error instanceof SyntaxError || /_TYPESCRIPT_SYNTAX$/.test(String(error.code))) Object.assign(told, placeOfSyntaxError(error));
  return told;
}

/** File, line and column of a syntax error, from the lines above its stack. */
function placeOfSyntaxError(error) {
  let stack = String(error.stack ?? "");
  let at = /^((?:file:\/\/)?\/[^\n]*?):(\d+)\n([^\n]*)\n( *)\^?/.exec(stack);
  const unparsed = inspected?.unparsed;
  if (!at && unparsed) {
    // Node says where only for TypeScript, whose parser reads JavaScript too.
    try {
      stripTypeScriptTypes(fs.readFileSync(unparsed, "utf8"), { sourceUrl: unparsed });
    } catch (again) {
      stack = String(again.stack ?? "");
      at = /^((?:file:\/\/)?\/[^\n]*?):(\d+)\n([^\n]*)\n( *)\^?/.exec(stack);
    }
  }
  if (!at) return unparsed ? { file: unparsed } : {};
  const file = at[1].startsWith("file:") ? fileURLToPath(at[1]) : at[1];
  return { file, line: Number(at[2]), column: at[4].length + 1, text: at[3], frames: [] };
}
