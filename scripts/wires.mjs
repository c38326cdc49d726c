// Sends requests through the official TypeScript SDKs. `scripts/wires` starts this with the SDKs installed in the folder of the
// first argument, and writes one request a line: `{"provider", "base", "model", "body"}`. A line answers each: why the SDK ended.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

// The SDKs warn of old models, once a request.
console.warn = () => {};

const { resolve } = createRequire(`${process.argv[2]}/wires.mjs`);
const load = async (name) => import(pathToFileURL(resolve(name)).href);
const [{ default: OpenAI }, { default: Anthropic }, { GoogleGenAI }] = await Promise.all(
  ["openai", "@anthropic-ai/sdk", "@google/genai"].map(load),
);

const senders = {
  openai: ({ base, body }) => new OpenAI({ baseURL: base, apiKey: "k", maxRetries: 0 }).chat.completions.create(body),
  openai_resp: ({ base, body }) => new OpenAI({ baseURL: base, apiKey: "k", maxRetries: 0 }).responses.create(body),
  anthropic: ({ base, body }) => new Anthropic({ baseURL: base, apiKey: "k", maxRetries: 0 }).messages.create(body),
  async gemini({ base, model, body }) {
    const { contents, generationConfig, ...rest } = body;
    const client = new GoogleGenAI({ apiKey: "k", vertexai: false, httpOptions: { baseUrl: base, apiVersion: "" } });
    const config = { ...generationConfig, ...rest };
    for await (const _ of await client.models.generateContentStream({ model, contents, config }));
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  const why = await senders[request.provider](request).then(
    () => "nothing was refused",
    (error) => `${error.name}: ${error.message}`,
  );
  console.log(JSON.stringify(why));
}
