// Each exported function with a schema is a tool of the worker. Node 22.18 or newer runs them, confined, without a build
// step. docs/guides/typescript-tools.md describes what else a tool can do: Zod schemas, approvals, calls of other workers.

/** Splits a bill evenly. */
export function split({ total, people }: { total: number; people: string[] }): Record<string, number> {
  const share = Math.floor((total * 100) / people.length) / 100;
  const rest = Math.round((total - share * people.length) * 100) / 100;
  return Object.fromEntries(people.map((person, at) => [person, at === 0 ? share + rest : share]));
}

export const splitSchema = {
  type: "object",
  properties: {
    total: { type: "number", minimum: 0, description: "What is to be paid" },
    people: { type: "array", items: { type: "string" }, minItems: 1, description: "Who pays" },
  },
  required: ["total", "people"],
  additionalProperties: false,
};
