// The protocol's own JavaScript client, which executes tools of its own.
import { createRequire } from "node:module";

const [modules, address, token] = process.argv.slice(2);
const { HttpAgent } = createRequire(`${modules}/`)("@ag-ui/client");
const tools = [
  {
    name: "confirm",
    description: "Asks the user.",
    parameters: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
  },
];
const heard = {};

function agent(worker) {
  const url = `http://${address}/v1/ag-ui/app/${worker}`;
  const agent = new HttpAgent({ url, headers: { Authorization: `Bearer ${token}` } });
  agent.addMessage({ id: "1", role: "user", content: "Go." });
  return agent;
}

// The calls without a result, which are the client's to execute.
function open(agent) {
  const answered = new Set(agent.messages.filter(({ role }) => role === "tool").map(({ toolCallId }) => toolCallId));
  return agent.messages.flatMap(({ toolCalls }) => toolCalls ?? []).filter(({ id }) => !answered.has(id));
}

const shown = (calls) => calls.map(({ function: { name, arguments: given } }) => [name, JSON.parse(given)]);

function execute(agent, content) {
  for (const { id } of open(agent)) {
    agent.addMessage({ id: `${id}-result`, role: "tool", toolCallId: id, content });
  }
}

const helper = agent("helper");
await helper.runAgent({ tools });
heard.calls = shown(open(helper));
execute(helper, "yes");
await helper.runAgent({ tools });
heard.text = helper.messages.at(-1).content;

const guarded = agent("guarded");
let last;
const listen = { onEvent: ({ event }) => void (last = event) };
await guarded.runAgent({ tools }, listen);
const [interrupt] = last.outcome.interrupts;
heard.asked = [last.outcome.type, interrupt.reason, open(guarded).length];
const resume = [{ interruptId: interrupt.id, status: "resolved", payload: { approved: true } }];
await guarded.runAgent({ tools, resume });
heard.guarded = shown(open(guarded));
execute(guarded, "no");
await guarded.runAgent({ tools });
heard.after = guarded.messages.at(-1).content;
console.log(JSON.stringify(heard));
