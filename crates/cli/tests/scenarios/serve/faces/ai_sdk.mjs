// The Vercel AI SDK with its provider for OpenAI's interfaces: Responses by default, Chat Completions with `.chat`.
import { createRequire } from "node:module";

const [modules, address, token] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { generateText, streamText, Output, tool } = await import(require.resolve("ai"));
const { createOpenAI } = await import(require.resolve("@ai-sdk/openai"));
const { z } = await import(require.resolve("zod"));
const openai = createOpenAI({ baseURL: `http://${address}/v1`, apiKey: token });
const sorted = z.object({ urgent: z.boolean() });
const heard = {};

for (const [name, model] of [
  ["responses", (worker) => openai(`desk/${worker}`)],
  ["chat", (worker) => openai.chat(`desk/${worker}`)],
]) {
  const given = { maxRetries: 0 };
  const { text } = await generateText({ ...given, model: model("reader"), prompt: "Read it." });
  const stream = streamText({ ...given, model: model("reader"), prompt: "Read it." });
  const typed = await generateText({
    ...given,
    model: model("sorter"),
    prompt: "Help!",
    output: Output.object({ schema: sorted }),
  });
  const forced = await generateText({
    ...given,
    model: model("sorter"),
    prompt: "Help!",
    tools: { sorted: tool({ inputSchema: sorted }) },
    toolChoice: "required",
  });
  const tuned = await generateText({
    ...given,
    model: model("echo"),
    prompt: "Hello",
    temperature: 0.2,
    maxOutputTokens: 100,
  });
  heard[name] = {
    text,
    streamed: await stream.text,
    typed: typed.output,
    forced: forced.toolCalls.map(({ toolName, input }) => [toolName, input]),
    ignored: tuned.response.headers["llm-do-ignored"],
  };
}
console.log(JSON.stringify(heard));
