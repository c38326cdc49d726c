/** A call of an earlier run, so that a run with its input can start. */

import type { Engine } from "../engine/engine";
import type { Json } from "../engine/records";
import type { Call } from "./call";
import { RunStore } from "./run.svelte";

/** The call at a place of a run, with the arguments that it used, and whether the run is a chat. */
export async function callOf(
  engine: Engine,
  id: string,
  path: string,
  signal: AbortSignal,
): Promise<{ call: Call; chat: boolean } | undefined> {
  const run = new RunStore();
  for await (const events of engine.follow(id, undefined, signal)) {
    run.take(events);
    const call = run.calls.get(path);
    // Until a call has begun its work, an approval may change its arguments.
    if (call !== undefined && (call.conversation !== undefined || call.ended_ms !== undefined || call.children.length > 0)) break;
  }
  const call = run.calls.get(path);
  return call === undefined ? undefined : { call, chat: run.start?.chat === true };
}

/** Whether a part of the value is too long for the page, which has only its size. */
export function hasLeftOut(value: Json): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (!Array.isArray(value) && typeof value["$blob"] === "string") return true;
  return Object.values(value).some(hasLeftOut);
}
