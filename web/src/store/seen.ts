/** Work that only a page that is looked at needs. A browser gives a server few connections, over all tabs. */

/** How long a hidden page keeps its connections. */
const KEPT_MS = 20_000;

/**
 * Runs that work while the page is visible: it is ended some time after the page was hidden, and begun again (`again`) later.
 * A page that opens hidden does not begin.
 */
export function whileSeen(work: (signal: AbortSignal, again: boolean) => Promise<void>): () => void {
  let running: AbortController | undefined;
  let again = false;
  let hiding: ReturnType<typeof setTimeout> | undefined;
  const begin = (): void => {
    clearTimeout(hiding);
    if (running !== undefined) return;
    const controller = new AbortController();
    running = controller;
    void work(controller.signal, again);
    again = true;
  };
  const end = (): void => {
    clearTimeout(hiding);
    running?.abort();
    running = undefined;
  };
  const changed = (): void => {
    clearTimeout(hiding);
    if (document.hidden) hiding = setTimeout(end, KEPT_MS);
    else begin();
  };
  document.addEventListener("visibilitychange", changed);
  if (!document.hidden) begin();
  return () => {
    document.removeEventListener("visibilitychange", changed);
    end();
  };
}
