/** Waiting between attempts to reach an engine. */

const FIRST_MS = 400;
const LONGEST_MS = 10_000;

/** How long to wait before the attempt with that number, from 0: longer each time, and not the same for all pages. */
export function backoff(attempt: number, random = Math.random()): number {
  const most = Math.min(FIRST_MS * 2 ** Math.min(attempt, 10), LONGEST_MS);
  return Math.round(most * (0.5 + random / 2));
}

/** Waits, or less if the network comes back or the page is looked at again. Throws if the signal ends it. */
export function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
      globalThis.removeEventListener?.("online", done);
      resolve();
    };
    const abort = (): void => {
      clearTimeout(timer);
      globalThis.removeEventListener?.("online", done);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(done, ms);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    globalThis.addEventListener?.("online", done, { once: true });
  });
}
