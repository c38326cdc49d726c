// The context of a call: what a tool's second parameter offers.

/** Answers of the worker's own file tools, by the operations of `ctx.sandbox`. */
const FILE_TOOLS = {
  read: ["read_file", (path) => ({ path, max_chars: 1e9 })],
  write: ["write_file", (path, content) => ({ path, content })],
  append: ["append_file", (path, content) => ({ path, content })],
  list: ["list_files", (path = ".", pattern = "**/*") => ({ path, pattern })],
  search: ["search_files", (pattern, path = ".") => ({ pattern, path })],
  delete: ["delete_file", (path) => ({ path })],
  move: ["move_file", (source, destination) => ({ source, destination })],
  copy: ["copy_file", (source, destination) => ({ source, destination })],
  stat: ["file_info", (path) => ({ path })],
  exists: ["file_exists", (path) => ({ path })],
};

/** Makes the context of a call. */
function contextOf(call) {
  const { ctx } = call;
  const make = (op, name, input) => {
    if (typeof name !== "string") throw new TypeError("the name of a worker or tool is a text");
    return call.ask(op, { name, input: plain(input, `the input of ${name}`) });
  };
  const files = Object.entries(FILE_TOOLS).map(([operation, [tool, fields]]) => [
    operation,
    (...args) => make("call_tool", tool, fields(...args)),
  ]);
  return Object.freeze({
    run: ctx.run ?? "",
    worker: ctx.worker ?? "",
    key: ctx.key ?? "",
    toolCallId: ctx.key ?? "",
    approvals: Object.freeze({ mode: ctx.mode ?? "" }),
    signal: call.controller.signal,
    abortSignal: call.controller.signal,
    sandbox: Object.freeze({ mounts: Object.freeze([...(ctx.mounts ?? [])]), ...Object.fromEntries(files) }),
    state: Object.freeze({
      get: async (name, fallback) => (await call.ask("state_get", { name: String(name) })) ?? fallback,
      set: async (name, value) => {
        await call.ask("state_set", { name: String(name), value: plain(value, `the state \`${name}\``) });
      },
    }),
    call: (name, input) => make("call", name, input),
    map: (items, name, options) => callEach(call, items, name, options),
    callTool: (name, input) => make("call_tool", name, input),
    step: (name, act) => step(call, String(name), act),
    log: (text) => call.print(`${text}\n`),
  });
}

/** Runs an effect once: a resumed run gets the recorded value. */
async function step(call, name, act) {
  const go = await call.ask("step", { name });
  if (!(go instanceof Go)) return go;
  let outcome;
  let failure;
  try {
    outcome = { value: plain(await act(), `the value of step \`${name}\``) };
  } catch (error) {
    failure = { error };
    outcome = { error: described(error, call.module) };
  }
  const ended = new Promise((resolve, reject) => waiting.set(go.cb, { call, resolve, reject }));
  send({ t: "step_end", id: call.id, cb: go.cb, ...outcome });
  if (failure) {
    ended.catch(() => {});
    await ended.catch(() => {});
    throw failure.error;
  }
  return ended;
}

/** The answer to a step that has no record. */
class Go {
  constructor(cb) {
    this.cb = cb;
  }
}
