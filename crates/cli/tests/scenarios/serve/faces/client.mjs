// The official JavaScript client of OpenAI's interfaces, with workers for models.
import { createRequire } from "node:module";

const [modules, address, token] = process.argv.slice(2);
const OpenAI = createRequire(`${modules}/`)("openai").default;
const client = new OpenAI({ baseURL: `http://${address}/v1`, apiKey: token, maxRetries: 0 });
const heard = {};

const said = await client.chat.completions.create({
  model: "desk/reader",
  messages: [{ role: "user", content: "Read it." }],
});
heard.text = said.choices[0].message.content;

const runner = client.chat.completions.stream({
  model: "desk/reader",
  messages: [{ role: "user", content: "Read it." }],
});
heard.streamed = await runner.finalContent();

const stream = client.responses.stream({ model: "desk/writer", input: "Write." });
const asked = await stream.finalResponse();
const request = asked.output.find((item) => item.type === "mcp_approval_request");
heard.name = request.name;
const done = await client.responses.create({
  model: "desk/writer",
  previous_response_id: asked.id,
  input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
});
heard.done = done.output_text;
heard.called = done.output.filter((item) => item.type === "mcp_call").map((item) => item.name);

try {
  await client.chat.completions.create({ model: "desk/nobody", messages: [{ role: "user", content: "Hi" }] });
} catch (error) {
  heard.unknown = [error.status, error.code, error.param];
}
console.log(JSON.stringify(heard));
