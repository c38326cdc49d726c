/** A conversation as a Markdown file. */

import { writeJson } from "../engine/json";
import type { Json, Part } from "../engine/records";
import type { Call, Conversation, Item } from "../store/call";
import type { RunStore } from "../store/run.svelte";
import { visible } from "./visible";

const textOf = (parts: readonly Part[]): string =>
  parts.flatMap((part) => (part.part === "text" ? [part.text] : [])).join("\n\n");

function fenced(text: string, language = ""): string {
  // A fence is longer than any in the text.
  const longest = Math.max(2, ...(text.match(/`+/g) ?? []).map((run) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}

const json = (value: Json): string =>
  typeof value === "string" ? fenced(value) : fenced(writeJson(value, 2), "json");

/** What was said, without what was taken back. Characters that can't be seen are written as escapes. */
export function markdownOf(conversation: Conversation, run: RunStore, call: Call): string {
  const parts = [`# ${call.name}`];
  const shown = (item: Item): string | undefined => {
    switch (item.kind) {
      case "user":
        return `## You\n\n${textOf(item.parts)}${item.parts
          .flatMap((part) => (part.part === "attachment" || part.part === "blob" ? [`\n\n*Attached: ${part.name ?? "file"}*`] : []))
          .join("")}`;
      case "interjection":
        return `## You, while ${call.name} was at work\n\n${item.text}`;
      case "assistant": {
        const text = textOf(item.message.parts);
        const calls = item.message.parts.flatMap((part) => (part.part === "call" ? [`*called ${part.name}*`] : []));
        return text === "" && calls.length === 0 ? undefined : `## ${call.name}\n\n${[text, ...calls].filter(Boolean).join("\n\n")}`;
      }
      case "run": {
        const output = run.calls.get(item.path)?.output;
        return item.kept && output !== undefined ? `## Result of ${item.worker}\n\n${json(output)}` : undefined;
      }
      case "compacted":
        return item.text === undefined || item.taken_back ? undefined : `## Summary of older turns\n\n${item.text}`;
      default:
        return undefined;
    }
  };
  for (const item of conversation.items) {
    if (item.undone) continue;
    const text = shown(item);
    if (text !== undefined) parts.push(text);
  }
  return `${visible(parts.join("\n\n"), "text")}\n`;
}
