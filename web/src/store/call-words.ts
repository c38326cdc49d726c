/** The words of calls, for rows of lists and for search, and the calls that lists show as one. */

import { writeJson } from "../engine/json";
import type { Json, Message } from "../engine/records";
import type { Call } from "./call";

/** Longest text of a call that is searched, in characters. */
const LONGEST = 1_000_000;

/** The function of a worker that is code: its call is the worker's own work, so lists show both as one. */
export const codeOf = (call: Call): Call | undefined => call.children.find((child) => child.path === `${call.path}/code`);

/** The calls below a call, as lists show them. */
export function shownChildren(call: Call): readonly Call[] {
  const code = codeOf(call);
  return code === undefined ? call.children : call.children.flatMap((child) => (child === code ? code.children : [child]));
}

/** The call whose row shows a call. */
export const rowOf = (call: Call): Call => (call.parent !== undefined && call.path === `${call.parent.path}/code` ? call.parent : call);

/** The beginning of a call's input: its first words, else its JSON. */
export function hintOf(call: Call, longest = 80): string {
  const text = firstText(call.input) ?? (call.input === null || isEmpty(call.input) ? "" : writeJson(call.input).slice(0, 4 * longest));
  const line = text.slice(0, 4 * longest).replace(/\s+/g, " ").trim();
  return line.length > longest ? `${line.slice(0, longest)}…` : line;
}

const isEmpty = (value: Json): boolean => typeof value === "object" && value !== null && Object.keys(value).length === 0;

function firstText(value: Json, depth = 0): string | undefined {
  if (typeof value === "string") return value.trim() === "" ? undefined : value;
  if (typeof value !== "object" || value === null || depth > 4) return undefined;
  for (const inner of Object.values(value)) {
    const found = firstText(inner, depth + 1);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The text parts of a message. */
export const messageText = (message: Message): string =>
  message.parts.flatMap((part) => (part.part === "text" ? [part.text] : [])).join("\n\n");

/** The instructions and the first message of a call to a model. */
export function promptOf(call: Call): string | undefined {
  const { conversation } = call;
  if (conversation === undefined) return undefined;
  return [conversation.system, messageText(conversation.first)].filter((text) => text !== "").join("\n\n");
}

function wordsOf(value: Json | undefined, into: string[]): void {
  if (typeof value === "string") into.push(value);
  else if (Array.isArray(value)) value.forEach((item) => wordsOf(item, into));
  else if (typeof value === "object" && value !== null) {
    for (const [name, item] of Object.entries(value)) {
      into.push(name);
      wordsOf(item, into);
    }
  } else if (value !== undefined && value !== null) into.push(String(value));
}

/** The searched text of each call, with the number of records that it is of. */
const known = new WeakMap<Call, { records: number; text: string }>();

/** Whether the name, the place, the input, the output, the failure or the conversation of a call has a text in lower case. */
export function hasWords(call: Call, wanted: string): boolean {
  if (call.name.toLowerCase().includes(wanted) || call.path.includes(wanted)) return true;
  let found = known.get(call);
  if (found?.records !== call.records.length) {
    const words: string[] = [];
    wordsOf(call.input, words);
    wordsOf(call.output, words);
    if (call.failure !== undefined) words.push(call.failure.message);
    if (call.log !== undefined) words.push(call.log);
    for (const note of call.notes) words.push(note.text);
    for (const item of call.conversation?.items ?? []) {
      if (item.kind === "assistant" || item.kind === "repair") words.push(messageText(item.message));
      else if (item.kind === "interjection") words.push(item.text);
      else if (item.kind === "user") words.push(messageText({ parts: item.parts } as Message));
    }
    found = { records: call.records.length, text: words.join("\n").slice(0, LONGEST).toLowerCase() };
    known.set(call, found);
  }
  return found.text.includes(wanted) || found.text.replace(/\s+/g, " ").includes(wanted);
}
