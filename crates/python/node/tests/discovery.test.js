// How a module exposes its tools.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withHost } from "./harness.js";

const byName = (report) => Object.fromEntries(report.functions.map((tool) => [tool.name, tool]));
const described = (code, check, name = "tools.ts") => withHost({ [name]: code }, async (host) => check(await host.load(name), host));
const refused = (code, words) =>
  described(code, (report) => {
    const told = report.functions.map((tool) => tool.refused).join("; ");
    for (const word of words) assert.ok(told.includes(word), `${word} is not in ${JSON.stringify(report)}`);
  });

test("a function with a JSON Schema as its companion is a tool", () =>
  described(
    `/** Greets. */
export function greet(args: { name: string }): string {
  return \`Hello, \${args.name}!\`;
}
export const greetSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
`,
    async ({ functions: [tool], exposes }, host) => {
      assert.deepEqual([tool.name, tool.description, tool.line, exposes], ["greet", "Greets.", 2, "decorated"]);
      assert.deepEqual(tool.input.required, ["name"]);
      assert.equal(tool.context, false);
      assert.equal((await host.call("greet", { name: "Ada" })).value, "Hello, Ada!");
    },
  ));

test("types in a comment are the schema, by name or as one object", () =>
  described(
    `/**
 * Adds two numbers.
 *
 * @param {number} a - the first
 * @param {number} [b=2] - the second
 * @returns {number}
 */
export const add = (a: number, b = 2): number => a + b;

/**
 * @param {{ words: string[], mode?: "up" | "down", weights: Record<string, number> }} options
 * @param {import("llm-do").ToolContext} ctx
 */
export async function join({ words, mode }: { words: string[]; mode?: string }, ctx: unknown) {
  return [words.join(" "), mode, typeof (ctx as { call: unknown }).call];
}

/**
 * @param {object} options
 * @param {string} options.name the name
 * @param {integer|null} [options.age]
 */
export function person(options: object) { return options; }

export function helper(x: number) { return x; }
`,
    async (report, host) => {
      const { add, join, person, helper } = byName(report);
      assert.equal(helper, undefined);
      assert.deepEqual(add.input.required, ["a"]);
      assert.deepEqual(add.input.properties.b, { type: "number", description: "the second", default: 2 });
      assert.deepEqual(add.output, { type: "number" });
      assert.deepEqual(join.input.required, ["words", "weights"]);
      assert.deepEqual(join.input.properties.mode, { enum: ["up", "down"] });
      assert.equal(join.context, true);
      assert.deepEqual(person.input.properties.age, { anyOf: [{ type: "integer" }, { type: "null" }] });
      assert.deepEqual(person.input.required, ["name"]);
      assert.equal((await host.call("add", { b: 5, a: 1 })).value, 6);
      assert.deepEqual((await host.call("join", { words: ["a", "b"], weights: {} })).value, ["a b", null, "function"]);
      assert.deepEqual((await host.call("person", { name: "x" })).value, { name: "x" });
    },
  ));

test("a type that is not understood says what to write", async () => {
  await refused("/** @param {Map<string, number>} x */\nexport function f(x) {}\n", ["Map<string, number>", "Record<string, T>"]);
  await refused("/** @param {string} x */\nexport function f(x, y) {}\n", ["`y` has no type", "@param {string} y"]);
  await refused("/** @param {string\n * @param {number} y */\nexport function f(x) {}\n", ["not closed"]);
});

test("tool() and full objects are tools, also in a default export and of the AI SDK's form", () =>
  described(
    `import { tool } from "llm-do";
import type { NamedTool } from "@golem-forge/core";
export const one = tool({
  description: "One.",
  inputSchema: { type: "object", properties: { x: { type: "integer" } }, required: ["x"] },
  execute: ({ x }) => x + 1,
  needsApproval: true,
  risk: "network",
  parallel: true,
  untrusted: ["text"],
});
export const two: NamedTool = {
  name: "second",
  description: "Two.",
  inputSchema: { type: "object", properties: {} },
  needsApproval: (input, { caller }) => caller === "a",
  async execute(input, { toolCallId, abortSignal }) { return [this.name, typeof toolCallId, abortSignal.aborted]; },
};
export function helper() {}
/** @param {string} x */
export function documented(x: string) { return x; }
`,
    async (report, host) => {
      const { one, second } = byName(report);
      assert.equal(report.functions.length, 2);
      assert.deepEqual(report.hidden.map(({ name }) => name), ["documented"]);
      assert.deepEqual([one.approval, one.risk, one.parallel, one.untrusted], ["ask", "network", true, ["text"]]);
      assert.deepEqual([second.approval, second.approval_origins, second.context], ["callable", true, true]);
      assert.equal((await host.call("one", { x: 1 })).value, 2);
      assert.deepEqual((await host.call("two", {})).value, ["second", "string", false]);
      host.send({ t: "approval", id: 90, module: host.module(), function: "two", args: {}, input: null, caller: "a", origins: {} });
      assert.equal((await host.read("result", "error")).value, "ask");
      host.send({ t: "approval", id: 91, module: host.module(), function: "two", args: {}, input: null, caller: "b", origins: {} });
      assert.equal((await host.read("result", "error")).value, "preApproved");
    },
  ));

test("a CommonJS module exposes the properties of what it exports", () =>
  described(
    `exports.twice = { description: "Twice.", inputSchema: { type: "object", properties: { x: { type: "number" } } }, execute: ({ x }) => 2 * x };\n`,
    async (report, host) => {
      assert.deepEqual(report.functions.map(({ name }) => name), ["twice"]);
      assert.equal((await host.call("twice", { x: 4 }, { module: "tools.js" })).value, 8);
    },
    "tools.js",
  ));

test("what an author states wrongly is refused", async () => {
  const stated = (more) => `export const f = { description: "", inputSchema: { type: "object" }, execute() {}, ${more} };`;
  await refused(stated("risk: 'low'"), ["`risk` is none of"]);
  await refused(stated("parallel: 'yes'"), ["`parallel` is neither"]);
  await refused(stated("needsApproval: 'ask'"), ["`needsApproval` is neither"]);
  await refused(`export const f = { description: "", inputSchema: { type: "string" }, execute() {} };`, ["not that of an object"]);
  await refused(`export const f = { description: "", inputSchema: { type: "object" } };`, ["no function `execute`"]);
  await described(`import { tool } from "llm-do";\nexport const f = tool({ execute() {}, approve: true });`, ({ error }) =>
    assert.match(error.message, /no option `approve`/));
});

test("names that are listed are found, and an entry needs no types", () =>
  described("export function main(input, ctx) { return [input, typeof ctx.call]; }\nexport const _private = () => 1;\n", async (report, host) => {
    assert.equal(report.exposes, "nothing");
    const { functions: [main] } = await host.load("tools.ts", ["main"]);
    assert.equal(main.untyped, true);
    assert.deepEqual((await host.call("main", { input: { a: 1 } }, { names: ["main"] })).value, [{ a: 1 }, "function"]);
    const { error } = await host.load("tools.ts", ["gone"]);
    assert.match(error.message, /exports no function or tool `gone`/);
  }));

test("errors of an import have a place", async () => {
  await described("export const a = 1;\nexport function f( {\n", ({ error }) => assert.deepEqual([error.line, error.type], [2, "SyntaxError"]));
  await described("const a = 1;\nenum A { B }\n", ({ error }) => {
    assert.equal(error.line, 2);
    assert.match(error.message, /enum is not supported/);
  });
  await described("const a = 1;\nconst = 2;\n", ({ error }) => assert.equal(error.line, 2), "tools.mjs");
  await described('import "nope-nope";\n', ({ error }) => assert.equal(error.missing, "nope-nope"));
  await described("const a = 1;\nthrow new Error('no');\n", ({ error }) => assert.equal(error.frames.at(-1).line, 2));
});

test("an export that is a schema is described as a JSON Schema", () =>
  withHost(
    { "shapes.ts": "export const Order = { type: 'object', properties: { n: { type: 'number' } } };\nexport const none = 3;\n" },
    async (host) => {
      const schema = async (name) => {
        host.send({ t: "schema", ...host.module("shapes.ts"), class: name });
        return host.read("schema", "error");
      };
      assert.deepEqual((await schema("Order")).schema, { type: "object", properties: { n: { type: "number" } } });
      assert.equal((await schema("Odrer")).message, "shapes.ts exports no `Odrer`; it exports `Order`, `none`");
      const refused = await schema("none");
      assert.deepEqual([refused.t, refused.kind], ["error", "refused"]);
      assert.match(refused.message, /no JSON Schema/);
    },
  ));
