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

/** The file of the key that seals journals. It lies beside the programs, so that no export and no program has it. */
const SEAL_KEY = "seal-key";
/** The file that shows whether journals can be appended to. */
const PROBE = ".probe";

interface Own {
  programs: Store;
  notes: Store;
  sealKey: Bytes;
}

async function ownOf(site: string): Promise<Own> {
  const fresh = crypto.getRandomValues(new Uint8Array(32));
  try {
    const place = ["llm-do", encodeURIComponent(site)];
    const notes = await FolderStore.private(place);
    const known = (await notes.stat(SEAL_KEY)) === undefined ? undefined : (await notes.read(SEAL_KEY)).bytes;
    const sealKey = known?.length === fresh.length ? known : fresh;
    // Private windows of some browsers have folders and refuse files: this fails then.
    if (sealKey === fresh) await notes.write(SEAL_KEY, fresh);
    const programs = await FolderStore.private([...place, "programs"]);
    await programs.append(PROBE, new Uint8Array());
    await programs.remove(PROBE);
    return { programs, notes, sealKey };
  } catch {
    // A private window, a page that is a file, or an older browser. The app says that nothing is kept.
    return { programs: new MemoryStore(), notes: new MemoryStore(), sealKey: fresh };
  }
}

async function serve(site: string): Promise<Service> {
  const engine = new Promise<{ bytes: Bytes; options: Options }>((resolve) => (given = resolve));
  tell({ kind: "need" });
  const [{ bytes, options }, own] = await Promise.all([engine, ownOf(site)]);
  const store = new MountedStore(own.programs);
  const module = await EngineModule.compile(await unpacked(bytes));
  const host = new Host(
    () => EngineModule.make(module),
    store,
    own.sealKey,
    () => Promise.reject(new Error("this page contains no model")),
  );
  const desk = new Desk(host, store, own.notes, site);
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
