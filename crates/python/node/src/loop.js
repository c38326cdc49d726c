// The loop: the frames of llm-do, and what the process prints outside of calls.

/** An error of a module's code, as llm-do reads it. */
const described = (error, module) => describe(error, module?.root ?? "/");

function serve(frame) {
  switch (frame.t) {
    case "call":
      begin(frame, async (call) => {
        if (frame.module.text !== undefined) {
          const main = await mainOf(frame.module);
          return result(await main(frame.args.input ?? null, programContextOf(call)), "main");
        }
        const tool = await toolFor(frame.module, frame.function);
        const value = await invoke(tool, frame.args, contextOf(call), isEntry(tool, frame.args));
        return result(value, frame.function);
      });
      break;
    case "approval":
      begin(frame, async () => {
        const tool = await toolFor(frame.module, frame.function);
        const about = { input: frame.input, caller: frame.caller, origins: frame.origins, toolCallId: "", messages: [] };
        return ruleOf(await tool.options.needsApproval(await validated(tool.schema, frame.args), about));
      });
      break;
    case "reply":
      answer(frame);
      break;
    case "cancel":
      cancel(calls.get(frame.id));
      break;
    case "idle": {
      // After everything that the replies before it lead to: a program waits for nothing but calls.
      const { id, number } = frame;
      setImmediate(() => send({ t: "idle", id, number }));
      break;
    }
    case "parse":
      try {
        send({ t: "parsed", ...syntaxOf(frame.text) });
      } catch (error) {
        send({ t: "error", kind: "exception", type: "Error", message: `this Node has no parser for programs: ${error?.message}` });
      }
      break;
    case "load":
      load(frame.modules).catch((error) => send({ t: "error", kind: "exception", type: "Error", message: String(error?.stack ?? error) }));
      break;
    case "schema":
      describeSchema(frame);
      break;
  }
}

/** An entry without types takes the input of the run as it is. */
const isEntry = (tool, args) =>
  tool.schema === undefined && !tool.positions && Object.keys(args).length <= 1 && "input" in args;

/** Runs a call to its end. */
function begin(frame, act) {
  const call = new Call(frame.id, frame.module, frame.ctx);
  calls.set(call.id, call);
  running.run(call, async () => {
    let end;
    try {
      end = { t: "result", value: await act(call) };
    } catch (error) {
      const told = described(error, frame.module);
      if (call.controller.signal.aborted && told.kind === "exception") told.kind = "cancelled";
      end = { t: "error", ...told };
    }
    call.end(end);
  });
}

function result(value, name) {
  const json = plain(value, `the result of \`${name}\``);
  const size = Buffer.byteLength(stringify(json));
  if (size > MAX_RESULT) {
    throw new Told("result", `the result of \`${name}\` has ${size} bytes; at most ${MAX_RESULT} are allowed: write it to a file and return its path`);
  }
  return json;
}

function ruleOf(decided) {
  if (typeof decided === "boolean") return decided ? "ask" : "preApproved";
  if (typeof decided === "string") return decided;
  throw new TypeError(`an approval function returns true, false or a rule, not ${stringify(decided)}`);
}

function answer({ cb, value, error, go }) {
  const asked = waiting.get(cb);
  if (!asked) return;
  waiting.delete(cb);
  if (error) asked.reject(new CallError(error.kind, error.message));
  else asked.resolve(go === undefined ? value : new Go(cb));
}

function cancel(call) {
  if (!call) return;
  const reason = new DOMException("the call was cancelled", "AbortError");
  call.controller.abort(reason);
  for (const [cb, asked] of waiting) {
    if (asked.call !== call) continue;
    waiting.delete(cb);
    asked.reject(reason);
  }
}

async function load(modules) {
  const told = [];
  for (const module of modules) told.push(await describeModule(module));
  send({ t: "loaded", modules: told });
}

/** Describes an export that is a schema: for `schema_in_ref` and `schema_out_ref`. */
async function describeSchema(module) {
  try {
    const exports = await exportsOf(module.path);
    const name = module.class;
    if (!exports.has(name)) {
      const known = [...exports.keys()].map((one) => `\`${one}\``).join(", ");
      throw new Told("refused", `${path.relative(module.root, module.path)} exports no \`${name}\`${known && `; it exports ${known}`}`);
    }
    const schema = jsonOf(exports.get(name), "input", module.path);
    send({ t: "schema", schema });
  } catch (error) {
    send({ t: "error", ...described(error, module) });
  }
}

/** Sends what code prints to the journal of the call that prints it, and never to llm-do's own streams. */
function capture(stream) {
  stream.write = (chunk, encoding, done) => {
    const text = typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    (running.getStore() ?? noCall).print(text);
    const after = typeof encoding === "function" ? encoding : done;
    if (typeof after === "function") process.nextTick(after);
    return true;
  };
}

/** Ends the call whose code has thrown where nothing catches it. Without a call, the error is printed. */
function uncaught(error) {
  const call = running.getStore();
  const told = described(error, call?.module);
  if (call && !call.ended) call.end({ t: "error", ...told });
  else noCall.print(`${told.type}: ${told.message}, outside of all calls\n`);
}

/** Makes a working directory that shows the mounts as the worker names them: a folder of links. */
function enterView(mounts) {
  const temporary = process.env.TMPDIR || "/tmp";
  const folder = path.join(temporary, ".llm-do-view");
  try {
    fs.mkdirSync(folder);
    for (const [at, place] of mounts) {
      const name = at.replace(/^\/+|\/+$/g, "");
      if (!name.includes("/")) fs.symlinkSync(place, path.join(folder, name));
    }
    // Where the temporary folder is private to the process, nothing written beside the links would be kept.
    if (["/tmp", "/dev/shm"].includes(temporary)) fs.chmodSync(folder, 0o555);
    process.chdir(folder);
  } catch (error) {
    write(2, `the working directory can't show the mounts: ${error.message}\n`);
  }
}

if (process.argv[3]) enterView(parse(process.argv[3]));
capture(process.stdout);
capture(process.stderr);
process.on("uncaughtException", uncaught);
process.on("unhandledRejection", uncaught);
process.on("SIGINT", () => {}); // A call is cancelled by a frame. Code that blocks the loop ends with the process.
receive(serve);
send({ t: "ready", version: process.versions.node });
