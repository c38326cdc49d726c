/** Reading again what another process writes, of which no event tells. */

import { wait } from "../engine/retry";
import { whileSeen } from "./seen";

/** Pauses between two readings: while something is at work, and while nothing is. */
const SOON_MS = 700;
const LATER_MS = 4000;

/** Reads again and again while the page is visible. `read` tells whether something is at work. Returns what ends that. */
export function poll(read: () => Promise<boolean>): () => void {
  return whileSeen(async (signal) => {
    while (!signal.aborted) {
      const isAtWork = await read();
      if (signal.aborted) return;
      await wait(isAtWork ? SOON_MS : LATER_MS, signal).catch(() => undefined);
    }
  });
}
