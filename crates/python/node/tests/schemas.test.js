// Schemas of Zod, against Zod's own where it has them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { withHost } from "./harness.js";

const has = process.env.LLM_DO_TEST_PACKAGES ? {} : { skip: "LLM_DO_TEST_PACKAGES names no node_modules with zod" };

/** Types that both versions write in the same way, and values that they take and refuse. */
const TYPES = [
  "z.string()", "z.string().min(2)", "z.string().max(3)", "z.string().length(2)", "z.string().email()", "z.string().url()",
  "z.string().uuid()", "z.string().regex(/^a+$/)", "z.number()", "z.number().int()", "z.number().min(1)", "z.number().max(9)",
  "z.number().positive()", "z.number().negative()", "z.number().multipleOf(3)", "z.boolean()", "z.null()", "z.any()", "z.unknown()",
  "z.literal('a')", "z.literal(3)", "z.literal(true)", "z.enum(['a', 'b'])", "z.nativeEnum({ A: 'a', B: 'b' })", "z.array(z.string())",
  "z.array(z.number()).min(1)", "z.array(z.number()).max(2)", "z.array(z.number()).length(2)", "z.array(z.array(z.boolean()))",
  "z.tuple([z.string(), z.number()])", "z.tuple([z.string()]).rest(z.number())", "z.object({ a: z.string() })",
  "z.object({ a: z.string().optional() })", "z.object({ a: z.string().nullable() })", "z.object({ a: z.string().default('x') })",
  "z.object({ a: z.object({ b: z.number() }) })", "z.object({ a: z.string() }).strict()", "z.object({ a: z.string() }).passthrough()",
  "z.object({ a: z.string() }).partial()", "z.object({ a: z.string() }).catchall(z.number())",
  "z.object({ a: z.string() }).extend({ b: z.number() })", "z.object({ a: z.string(), b: z.number() }).pick({ a: true })",
  "z.object({ a: z.string(), b: z.number() }).omit({ a: true })", "z.record(z.string(), z.number())",
  "z.union([z.string(), z.number()])", "z.string().or(z.number())", "z.string().nullable()", "z.string().optional()",
  "z.string().nullish()", "z.discriminatedUnion('t', [z.object({ t: z.literal('a') }), z.object({ t: z.literal('b'), n: z.number() })])",
  "z.intersection(z.object({ a: z.string() }), z.object({ b: z.number() }))", "z.object({ a: z.string() }).and(z.object({ b: z.number() }))",
  "z.string().default('x')", "z.string().describe('a text')", "z.string().transform((s) => s.length)", "z.string().refine((s) => s !== 'no')",
  "z.string().brand('Name')", "z.object({ a: z.string() }).readonly()", "z.array(z.string()).nonempty()", "z.array(z.enum(['a', 'b'])).optional()",
];

/** A module with a tool for each type, by that version of Zod. */
const tools = (version) => `
import { z } from "${version}";
const types = [${TYPES.join(",\n")}];
export default Object.fromEntries(types.map((value, at) => [
  "t" + at,
  { description: "", inputSchema: z.object({ value }), execute: ({ value }) => value ?? null },
]));
`;

/** A tool that returns Zod's own schemas of the types. */
const OWN = `
import { z } from "zod";
const types = [${TYPES.join(",\n")}];
export const own = {
  description: "",
  inputSchema: { type: "object" },
  execute: () => types.map((value) => z.toJSONSchema(z.object({ value }), { io: "input" })),
};
`;

/** A schema without what versions write differently and means the same. */
function same(json) {
  if (Array.isArray(json)) return json.map(same);
  if (json === null || typeof json !== "object") return json;
  if (Array.isArray(json.enum) && json.enum.length === 1) return same({ ...json, const: json.enum[0], enum: undefined });
  const made = {};
  for (const [key, value] of Object.entries(json)) {
    if (value === undefined || key === "$schema" || key === "readOnly" || (key === "pattern" && json.format)) continue;
    if (["minimum", "maximum"].includes(key) && Math.abs(value) === Number.MAX_SAFE_INTEGER) continue;
    if (key === "additionalProperties" && JSON.stringify(value) === "{}") continue;
    if (key === "type" && ("const" in json || "enum" in json)) continue;
    if (key === "propertyNames" && JSON.stringify(value) === '{"type":"string"}') continue;
    if (key === "oneOf") made.anyOf = same(value);
    else if (key === "minItems" || key === "maxItems") {
      if (!json.prefixItems) made[key] = value;
    } else made[key] = same(value);
  }
  return made;
}

test("sixty types of Zod 4 and of Zod 3 have the schemas of z.toJSONSchema", has, () =>
  withHost({ "zod4.ts": tools("zod"), "zod3.ts": tools("zod3"), "own.ts": OWN }, async (host) => {
    assert.equal(TYPES.length, 60);
    const own = (await host.call("own", {}, { module: "own.ts" })).value;
    for (const name of ["zod4.ts", "zod3.ts"]) {
      const report = await host.load(name);
      assert.equal(report.functions?.length, TYPES.length, JSON.stringify(report.error));
      const differ = [];
      report.functions.forEach((tool, at) => {
        assert.equal(tool.refused, undefined, `${TYPES[at]}: ${tool.refused}`);
        const input = same(tool.input);
        // Zod 3 takes an object without a field of any type.
        if (name === "zod3.ts" && /any|unknown/.test(TYPES[at])) input.required = ["value"];
        try {
          assert.deepEqual(input, same(own[at]));
        } catch {
          differ.push(`${TYPES[at]}: ${JSON.stringify(input)} is not ${JSON.stringify(same(own[at]))}`);
        }
      });
      assert.deepEqual(differ, [], name);
    }
  }));

test("a companion is Zod's, a shape of its fields, a Standard Schema or the AI SDK's", has, () =>
  withHost(
    {
      "tools.ts": `import { z } from "zod";
import { z as old } from "zod3";
export const greet = ({ name, times }) => name.repeat(times);
export const greetSchema = { name: z.string(), times: z.number().default(2) };
export const shout = ({ name }) => name;
export const shoutSchema = old.object({ name: old.string().transform((s) => s.toUpperCase()) });
export const sdk = ({ x }) => x;
export const sdkSchema = { jsonSchema: { type: "object", properties: { x: { type: "number" } } }, validate: (v) => ({ success: v.x > 0, value: v, error: new Error("too small") }) };
export const dated = () => 1;
export const datedSchema = old.object({ at: old.date() });
export const vendor = () => 1;
export const vendorSchema = { "~standard": { version: 1, vendor: "other", validate: (value) => ({ value }) } };
`,
    },
    async (host) => {
      const { functions } = await host.load();
      const tool = (name) => functions.find((tool) => tool.name === name);
      assert.deepEqual(tool("greet").input.required, ["name"]);
      assert.equal((await host.call("greet", { name: "ab" })).value, "abab");
      assert.equal((await host.call("shout", { name: "ab" })).value, "AB");
      assert.equal((await host.call("sdk", { x: 1 })).value, 1);
      assert.match((await host.call("sdk", { x: 0 })).message, /not valid: too small/);
      assert.match((await host.call("greet", { name: 3 })).message, /not valid:\n- .*string/);
      assert.match(tool("dated").refused, /ZodDate/);
      assert.match(tool("vendor").refused, /of other\) has no JSON Schema/);
    },
  ));

test("tool() and jsonSchema() of the AI SDK make tools", has, () =>
  withHost(
    {
      "tools.ts": `import { tool, jsonSchema } from "ai";
import { z } from "zod";
export const weather = tool({
  description: "The weather.",
  inputSchema: z.object({ city: z.string() }),
  needsApproval: async ({ city }) => city === "Oslo",
  execute: async ({ city }, { toolCallId, abortSignal }) => [city, typeof toolCallId, abortSignal.aborted],
});
export const plain = tool({
  description: "Plain.",
  inputSchema: jsonSchema({ type: "object", properties: { x: { type: "number" } }, required: ["x"] }),
  execute: async function* ({ x }) { yield x; yield x + 1; },
});
`,
    },
    async (host) => {
      const { functions, error } = await host.load();
      assert.equal(error, undefined, JSON.stringify(error));
      assert.deepEqual(functions.map(({ name, refused }) => [name, refused]), [["weather", undefined], ["plain", undefined]]);
      assert.deepEqual(functions[0].input.required, ["city"]);
      assert.deepEqual(functions[1].input.required, ["x"]);
      assert.deepEqual((await host.call("weather", { city: "Oslo" })).value, ["Oslo", "string", false]);
      assert.equal((await host.call("plain", { x: 1 })).value, 2);
      host.send({ t: "approval", id: 70, module: host.module(), function: "weather", args: { city: "Oslo" }, input: null, caller: null, origins: {} });
      assert.equal((await host.read("result", "error")).value, "ask");
    },
  ));
