// Tools: how a module describes its tools to llm-do, and how they are called.

const RISKS = ["read", "write", "network", "exec", "destructive"];

/** Describes a module: what its functions take, and what their author states about them. */
async function describeModule(module) {
  inspect();
  inspected.unparsed = undefined;
  let found;
  try {
    found = toolsOf(await exportsOf(module.path), module.names ?? []);
  } catch (error) {
    return { error: described(error, module) };
  }
  const absent = found.find((tool) => tool.absent);
  if (absent) {
    const message = `the module exports no function or tool \`${absent.name}\``;
    return { error: { kind: "import", type: "Error", message, frames: [] } };
  }
  // Objects and companions are what their author calls tools: beside them, other functions are helpers.
  const stated = found.filter((tool) => tool.schema !== undefined || tool.options.execute);
  const isListed = (module.names ?? []).length > 0;
  const report = { functions: [], exposes: stated.length ? "decorated" : "plain", hidden: [] };
  for (const tool of found) {
    const place = locate(tool.function) ?? { file: module.path, line: 1, before: "" };
    let doc;
    let refused;
    try {
      doc = docOf(place.before);
    } catch (error) {
      refused = error.message;
    }
    const isStated = stated.includes(tool);
    if (!isStated && stated.length && !isListed) {
      if (doc?.params.some((param) => param.type)) report.hidden.push({ name: tool.name, file: place.file, line: place.line });
      continue;
    }
    if (!isStated && !doc && !refused && !isListed) continue;
    report.functions.push(describeTool(tool, doc, refused, place, module));
  }
  // Exports have the order of their names. Models and people get that of the source.
  const order = ({ file, line }) => (file === module.path ? line : Infinity);
  report.functions.sort((a, b) => (order(a) === order(b) ? 0 : order(a) - order(b)));
  if (!report.functions.length) report.exposes = "nothing";
  return report;
}

function describeTool(tool, doc, refused, place, module) {
  const { options } = tool;
  const told = {
    name: tool.name,
    function: tool.key,
    description: String(options.description ?? doc?.description ?? tool.schema?.description ?? ""),
    input: { type: "object" },
    async: true,
    context: parametersOf(tool.function ?? (() => {})).length > 1,
    file: place.file,
    line: place.line,
  };
  const attempt = (make) => {
    try {
      make();
    } catch (error) {
      refused ??= error instanceof Told ? error.message : `its schema can't be read: ${error?.message ?? error}`;
    }
  };
  if (!isFunction(tool.function)) refused ??= "it has no function `execute`: llm-do runs its tools itself";
  attempt(() => {
    if (tool.schema !== undefined) {
      told.input = jsonOf(tool.schema, "input", module.path);
      if (told.input.type !== "object") throw new Told("refused", "its schema is not that of an object: the arguments of a tool have names");
    } else if (options.execute) {
      throw new Told("refused", "it has no `inputSchema`");
    } else if (doc) {
      const signature = signatureOf(tool.function, doc);
      told.input = signature.input;
      told.context = signature.positions.some((position) => position.context);
      if (signature.output) told.output = signature.output;
    } else if (parametersOf(tool.function).length) {
      // It can be an entry, which takes the run's input as it is.
      told.untyped = true;
      told.input = { type: "object", properties: { input: {} } };
    }
  });
  attempt(() => {
    if (options.outputSchema !== undefined) told.output = jsonOf(options.outputSchema, "output", module.path);
  });
  attempt(() => Object.assign(told, statements(options)));
  const paths = Object.entries(told.input.properties ?? {}).filter(([, field]) => field?.format === "path");
  told.paths = paths.map(([name]) => name);
  if (refused) told.refused = refused;
  return told;
}

/** What the author states about a tool. */
function statements({ needsApproval, risk, parallel, untrusted }) {
  const told = {};
  const refuse = (message) => {
    throw new Told("refused", message);
  };
  if (isFunction(needsApproval)) {
    told.approval = "callable";
    told.approval_origins = parametersOf(needsApproval).length > 1;
  } else if (needsApproval !== undefined) {
    if (typeof needsApproval !== "boolean") refuse("its `needsApproval` is neither true, false nor a function");
    told.approval = needsApproval ? "ask" : "preApproved";
  }
  if (risk !== undefined) told.risk = RISKS.includes(risk) ? risk : refuse(`its \`risk\` is none of ${RISKS.join(", ")}`);
  if (parallel !== undefined) {
    told.parallel = [true, false, "process"].includes(parallel) ? parallel : refuse('its `parallel` is neither true, false nor "process"');
  }
  if (untrusted !== undefined) {
    const isList = Array.isArray(untrusted) && untrusted.every((field) => typeof field === "string");
    told.untrusted = typeof untrusted === "boolean" || isList ? untrusted : refuse("its `untrusted` is neither true, false nor a list of fields");
  }
  return told;
}

const prepared = new Map();

/** The tool that a call names, with the way in which it takes its arguments. */
async function toolFor(module, key) {
  const known = `${module.key}\0${key}`;
  if (!prepared.has(known)) {
    const exports = await exportsOf(module.path);
    const tool = toolsOf(exports, module.names ?? []).find((tool) => tool.key === key && !tool.absent);
    if (!tool) throw new Error(`${module.path} has no tool \`${key}\``);
    tool.takesContext = parametersOf(tool.function).length > 1;
    if (tool.schema === undefined) {
      inspect();
      const doc = docOf(locate(tool.function)?.before ?? "");
      tool.positions = doc && signatureOf(tool.function, doc).positions;
    }
    prepared.set(known, tool);
  }
  return prepared.get(known);
}

/** Calls a tool, and returns what its function returns. */
async function invoke(tool, args, context, entry) {
  const input = await validated(tool.schema, args);
  let given = [entry ? input.input : input, context];
  if (tool.positions) {
    given = tool.positions.map((one) => (one.context ? context : one.whole ? input : input[one.name]));
  }
  const returned = await tool.function.apply(tool.receiver, given);
  return isObject(returned) && typeof returned[Symbol.asyncIterator] === "function" ? progress(returned, context) : returned;
}

/** Runs a generator. What it yields is progress, for the journal; its result is what it returns, else the last of these. */
async function progress(generator, context) {
  const iterator = generator[Symbol.asyncIterator]();
  let last;
  for (;;) {
    const { done, value } = await iterator.next();
    if (done) return value === undefined ? last : value;
    if (context.signal.aborted) {
      await iterator.return?.();
      throw context.signal.reason;
    }
    last = value;
    context.log(typeof value === "string" ? value : stringify(plain(value, "what it yields")));
  }
}
