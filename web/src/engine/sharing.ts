/**
 * What the tabs of a browser share, so that they can live with the six connections that a browser gives a server over all
 * tabs: one tab listens for all, and few have a stream of their own. Without locks of the browser, each tab is on its own.
 */

/** Streams of runs at once. One more is the shared one, and two are left for requests. */
const PLACES = 3;

const locks = (): LockManager | undefined => globalThis.navigator?.locks;

/** A lock that is held until `release` is called. `null`: another tab has it, and it was not waited for. */
function hold(name: string, options: LockOptions): Promise<(() => void) | null> {
  return new Promise((resolve, reject) => {
    locks()
      ?.request(name, options, (lock) => {
        if (lock === null) return resolve(null);
        return new Promise<void>((release) => resolve(release));
      })
      .catch(reject);
  });
}

/** Takes one of the places for streams. Returns what gives it back, or nothing if all are taken. */
export async function takePlace(): Promise<(() => void) | undefined> {
  if (locks() === undefined) return () => undefined;
  for (let place = 0; place < PLACES; place++) {
    const release = await hold(`llm-do-stream-${place}`, { ifAvailable: true });
    if (release !== null) return release;
  }
  return undefined;
}

/** Waits until no other tab reads for a moment. Returns what lets the next one read. */
export async function takeTurn(signal: AbortSignal): Promise<() => void> {
  return (await hold("llm-do-turn", { signal })) ?? (() => undefined);
}

/**
 * What `source` brings or tells, which only one tab reads for all. `handedOver` is brought where this tab has taken over from
 * another: something may have been missed.
 */
export async function* shared<T>(
  name: string,
  signal: AbortSignal,
  source: (tell: (value: T) => void) => AsyncIterable<T>,
  handedOver: T,
): AsyncGenerator<T> {
  if (locks() === undefined || typeof BroadcastChannel !== "function") return yield* source(() => undefined);
  const channel = new BroadcastChannel(name);
  const brought: T[] = [];
  let wake = (): void => undefined;
  let over = false;
  let failure: unknown;
  const bring = (value: T): void => {
    brought.push(value);
    wake();
  };
  channel.onmessage = (event: MessageEvent<T>) => bring(event.data);
  const read = async (): Promise<void> => {
    const tell = (value: T): void => {
      if (signal.aborted) return;
      channel.postMessage(value);
      bring(value);
    };
    let release = await hold(name, { ifAvailable: true });
    if (release === null) {
      release = await hold(name, { signal });
      tell(handedOver);
    }
    try {
      for await (const value of source(tell)) tell(value);
    } finally {
      release?.();
    }
  };
  void read()
    .catch((error: unknown) => (failure = error))
    .finally(() => {
      over = true;
      wake();
    });
  const abort = (): void => wake();
  signal.addEventListener("abort", abort);
  try {
    for (;;) {
      yield* brought.splice(0);
      if (signal.aborted) return;
      if (brought.length > 0) continue;
      if (over) {
        if (failure !== undefined) throw failure as Error;
        return;
      }
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    signal.removeEventListener("abort", abort);
    channel.close();
  }
}
