/** The dedicated worker of a tab: the engine with its files, or the way to the tab that runs it. */

import type { Call } from "../engine/through";
import { unpacked, type Bytes } from "./bytes";
import { Desk, DESK } from "./desk";
import { Host, type Reply } from "./host";
import { EngineModule } from "./module";
import type { Options } from "./protocol";
import { isLast, Relay, type Service } from "./relay";
import { FolderStore, MemoryStore, MountedStore, type Store } from "./store";

/** What the page tells its worker. */
export type ToWorker =
  /** The first message. `site`: what the tabs of one page have in common. */
  | { kind: "begin"; site: string }
  /** The engine, and the options of this tab: the answer to `need`. */
  | { kind: "engine"; bytes: Bytes; options: Options }
  | { kind: "ask"; id: number; asked: Call }
  | { kind: "close"; id: number };

/** What the worker tells its page. */
export type FromWorker =
  | { kind: "need" }
  | { kind: "became"; isOwner: boolean }
  | { kind: "failed"; message: string }
  | { kind: "reply"; id: number; reply: Reply };

const tell = (said: FromWorker): void => postMessage(said);

let relay: Relay | undefined;
const closes = new Map<number, () => void>();
let given: ((engine: { bytes: Bytes; options: Options }) => void) | undefined;

async function storeOf(site: string): Promise<Store> {
  try {
    return await FolderStore.private(["llm-do", encodeURIComponent(site)]);
  } catch {
    // A private window, a page that is a file, or an older browser. The app says that nothing is kept.
    return new MemoryStore();
  }
}

async function serve(site: string): Promise<Service> {
  const engine = new Promise<{ bytes: Bytes; options: Options }>((resolve) => (given = resolve));
  tell({ kind: "need" });
  const [{ bytes, options }, main] = await Promise.all([engine, storeOf(site)]);
  const store = new MountedStore(main);
  const module = await EngineModule.compile(await unpacked(bytes));
  const host = new Host(
    () => EngineModule.make(module),
    store,
    () => Promise.reject(new Error("this page contains no model")),
  );
  const desk = new Desk(host, store, site);
  await desk.begin(options);
  return {
    ask: (asked, reply) => {
      if (!asked.path.startsWith(DESK)) return host.ask(asked, reply);
      void desk.answer(asked).then(reply);
      return () => undefined;
    },
    close: () => store.close(),
  };
}

addEventListener("message", (event: MessageEvent<ToWorker>) => {
  const said = event.data;
  switch (said.kind) {
    case "begin":
      relay = new Relay(said.site, () => serve(said.site), (isOwner) => tell({ kind: "became", isOwner }));
      relay.run().catch((error: unknown) => tell({ kind: "failed", message: error instanceof Error ? error.message : String(error) }));
      break;
    case "engine":
      given?.(said);
      break;
    case "ask": {
      const close = relay?.ask(said.asked, (reply) => {
        tell({ kind: "reply", id: said.id, reply });
        if (isLast(reply)) closes.delete(said.id);
      });
      if (close !== undefined) closes.set(said.id, close);
      break;
    }
    case "close":
      closes.get(said.id)?.();
      closes.delete(said.id);
  }
});
