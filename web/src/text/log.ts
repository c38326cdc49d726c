/** The printed output of a call. */

/** Most bytes of a call's printed output that a journal keeps. */
const KEPT = 256 * 1024;
/** The runtime's own last lines about output that it has dropped. */
const TOLD = /\[(?:more was printed and is not kept|output of this call after \d+ KiB was dropped)\]\s*$/;

/** Whether a call printed more than its log holds, where the log itself does not end with a line that says so. */
export function isCutLog(log: string): boolean {
  // A character that does not fit whole is left out.
  return log.length > KEPT / 4 && new TextEncoder().encode(log).length > KEPT - 4 && !TOLD.test(log);
}
