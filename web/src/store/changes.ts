/** The files that the calls of a run have changed, as far as its records say. */

import type { Change } from "../engine/records";
import type { Call } from "./call";

export interface FileChange {
  call: Call;
  path: string;
  /** The change that was approved. Absent where no question showed it. */
  change: Change | undefined;
}

/** The changes by calls that have ended with an output, in the order of the calls. */
export function changesOf(calls: Iterable<Call>): FileChange[] {
  const found: FileChange[] = [];
  for (const call of calls) {
    if (call.output === undefined || call.isWorker) continue;
    const asked = [...call.questions.values()].findLast(({ question }) => question.question === "approval");
    const preview = asked?.question.question === "approval" ? asked.question.preview : undefined;
    const { input } = call;
    const given = typeof input === "object" && input !== null && !Array.isArray(input) ? input["path"] : undefined;
    const isWrite = call.risk === "write" || call.risk === "destructive";
    const path = preview?.path ?? (isWrite && typeof given === "string" ? given : undefined);
    if (path === undefined) continue;
    // Other arguments than those that were shown make another change.
    const change = asked?.answer?.answer === "edit" ? undefined : (preview ?? undefined);
    found.push({ call, path, change });
  }
  return found;
}
