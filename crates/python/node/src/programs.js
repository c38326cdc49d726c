// Programs that models write: a module whose text is in no file, and a context that only makes calls.

/** The function `main` of a program. Errors name its file, which is not there, and its lines. */
async function mainOf({ path: file, text }) {
  sources.set(file, text.split("\n"));
  const { href } = pathToFileURL(file);
  texts.set(href, `${withoutTypes(text)}\nexport { main as "llm-do:main" };\n`);
  return (await import(href))["llm-do:main"];
}

/** A call as the fields of a callback. */
function question(name, input) {
  if (typeof name !== "string") throw new TypeError("the name of a worker or tool is a text");
  return { name, input: plain(input, `the input of ${name}`) };
}

/** Makes a call for each item, all at once, and returns the results in their order. */
async function callEach(call, items, name, options) {
  const limit = options?.limit;
  if (!Number.isInteger(limit)) throw new TypeError('ctx.map needs a bound: ctx.map(items, "name", {limit: 50})');
  const questions = [];
  for (const item of items) {
    if (questions.length === limit) throw tooMany(limit, name);
    questions.push(question(name, item));
  }
  const ended = await Promise.allSettled(questions.map((one) => call.ask("call", one)));
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw failed.reason;
  return ended.map((one) => one.value);
}

const tooMany = (limit, name) =>
  new RangeError(`there are more than ${limit} items for "${name}": pass fewer, as in items.slice(0, ${limit}), or a greater limit`);

/** Makes the context of a program. */
function programContextOf(call) {
  return Object.freeze({
    call: async (name, input) => call.ask("call", question(name, input)),
    map: (items, name, options) => callEach(call, items, name, options),
    log: (...values) => {
      const texts = values.map((value) => (typeof value === "string" ? value : stringify(plain(value, "the text"))));
      call.print(`${texts.join(" ")}\n`);
    },
  });
}
