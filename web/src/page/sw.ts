/**
 * The service worker of a page that `llm-do page` wrote: a second visit works without a network. Files with a hash in their
 * names never change, so the stored one is taken. The page itself is asked for first, so that an older worker shows no older
 * page where the site can be reached.
 */

// A module of its own names.
export {};

/** What `llm-do page` writes here: the files of the page, and their common hash. */
const FILES = "__LLM_DO_FILES__".split(" ");
const BUILD = "llm-do __LLM_DO_BUILD__";

interface Extendable extends Event {
  waitUntil(work: Promise<unknown>): void;
}
interface Fetching extends Extendable {
  request: Request;
  respondWith(response: Promise<Response>): void;
}
const worker = self as unknown as {
  registration: { scope: string };
  skipWaiting(): Promise<void>;
  addEventListener(type: "install" | "activate", listener: (event: Extendable) => void): void;
  addEventListener(type: "fetch", listener: (event: Fetching) => void): void;
};

/** Caches of one origin belong to all of its pages: the name has the folder of this one. */
const folder = new URL(worker.registration.scope).pathname;
const name = `${BUILD} ${folder}`;

worker.addEventListener("install", (event) => {
  event.waitUntil(
    caches
      .open(name)
      .then((cache) => cache.addAll(["./", ...FILES]))
      .then(() => worker.skipWaiting()),
  );
});

worker.addEventListener("activate", (event) => {
  const old = (key: string): boolean => key.startsWith("llm-do ") && key.endsWith(` ${folder}`) && key !== name;
  event.waitUntil(caches.keys().then((keys) => Promise.all(keys.filter(old).map((key) => caches.delete(key)))));
});

worker.addEventListener("fetch", (event) => {
  const { request } = event;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== "GET" || origin !== location.origin || !pathname.startsWith(folder)) return;
  event.respondWith(request.mode === "navigate" ? page(request) : file(request));
});

async function page(request: Request): Promise<Response> {
  try {
    const response = await fetch(request);
    if (response.ok) return response;
    return (await stored("./")) ?? response;
  } catch (error) {
    const known = await stored("./");
    if (known !== undefined) return known;
    throw error;
  }
}

async function file(request: Request): Promise<Response> {
  return (await stored(request)) ?? fetch(request);
}

async function stored(request: RequestInfo): Promise<Response | undefined> {
  return (await caches.open(name)).match(request, { ignoreVary: true });
}
