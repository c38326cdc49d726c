// The protocol's own JavaScript client, with a worker for an agent.
import { createRequire } from "node:module";

const [modules, address, token] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${modules}/`)("@ag-ui/client");
const heard = {};

function agent(worker) {
  const url = `http://${address}/v1/ag-ui/desk/${worker}`;
  return new HttpAgent({ url, headers: { Authorization: `Bearer ${token}` } });
}

async function run(agent, parameters) {
  const events = [];
  const seen = await agent.runAgent(parameters, { onEvent: ({ event }) => void events.push(event) });
  return { events, kinds: events.map((event) => event.type), messages: seen.newMessages };
}

const reader = agent("reader");
reader.addMessage({ id: "1", role: "user", content: "Read it." });
const read = await run(reader, {});
heard.kinds = read.kinds;
heard.messages = reader.messages.map(({ role, content, toolCalls }) => [role, content, toolCalls?.length ?? 0]);
heard.usage = read.events.at(-1).usage;

const sorter = agent("sorter");
sorter.addMessage({ id: "1", role: "user", content: "Help!" });
heard.result = (await run(sorter, {})).events.at(-1).result;

const writer = agent("writer");
writer.addMessage({ id: "1", role: "user", content: "Write." });
const asked = (await run(writer, {})).events.at(-1).outcome;
heard.interrupt = [asked.type, asked.interrupts[0].reason, asked.interrupts[0].responseSchema.required];
heard.call = asked.interrupts[0].toolCallId === writer.messages.at(-1).toolCalls[0].id;
const resume = [{ interruptId: asked.interrupts[0].id, status: "resolved", payload: { approved: true } }];
const done = await run(writer, { resume });
heard.resumed = done.kinds;
heard.text = writer.messages.at(-1).content;

const late = await fetch(`http://${address}/v1/ag-ui/desk/writer`, {
  method: "POST",
  headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
  body: JSON.stringify({ threadId: "t", runId: "r", messages: [], resume }),
});
heard.late = [late.status, (await late.json()).code];

const talker = agent("talker");
talker.addMessage({ id: "1", role: "user", content: "Hello." });
const first = await run(talker, {});
talker.addMessage({ id: "2", role: "user", content: "More." });
const second = await run(talker, {});
const runs = [first, second].map(({ events }) => events.at(-1).metadata.run);
heard.talk = [talker.messages.at(-1).content, runs[0] === runs[1]];

const failing = agent("failing");
failing.addMessage({ id: "1", role: "user", content: "Hello" });
heard.failed = await run(failing, {}).then(
  ({ events }) => events.at(-1).type,
  (error) => error.message,
);
console.log(JSON.stringify(heard));
