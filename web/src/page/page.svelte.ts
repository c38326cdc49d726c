/** The page that runs the engine: what it opens, what it keeps, and what it asks its host for. */

import { EngineError, type Worker } from "../engine/engine";
import { HttpEngine } from "../engine/http";
import { AppStore } from "../store/app.svelte";
import { engineOf, programOf, type PageConfig } from "./config";
import { DESK, type DeskState } from "./desk";
import { Folders } from "./folders";
import { Settings, type Chosen } from "./settings.svelte";
import { Transport } from "./transport";

type Picker = (options: { mode: "read" | "readwrite" }) => Promise<FileSystemDirectoryHandle>;
type Permitted = FileSystemDirectoryHandle & { requestPermission(options: { mode: "readwrite" }): Promise<PermissionState> };

export class PageStore {
  readonly config: PageConfig;
  /** The address of the page without its name: pages of one origin do not share files. */
  readonly site: string;
  readonly settings: Settings;
  app = $state.raw<AppStore | undefined>(undefined);
  /** Why the engine can't run. */
  problem = $state("");
  /** How many bytes of the engine have arrived. An `of` of 0: the site does not say how many there are. */
  loading = $state.raw<{ bytes: number; of: number } | undefined>(undefined);
  /** What the program asks for, as far as it was read. */
  asked = $state.raw<Worker[] | undefined>(undefined);
  state = $state.raw<DeskState | undefined>(undefined);
  /** Whether the browser has promised to keep the files. */
  isPersisted = $state(false);
  #transport: Transport | undefined;
  #engine: HttpEngine | undefined;
  readonly #folders: Folders;

  constructor(config: PageConfig) {
    this.config = config;
    this.site = new URL(".", document.baseURI).pathname;
    this.settings = new Settings(this.site, config.connect, config.model);
    this.#folders = new Folders(this.site);
  }

  /** Whether the visitor has opened this very program before. */
  get isKnown(): boolean {
    if (this.config.program === null) return true;
    try {
      return localStorage.getItem(`llm-do ${this.site} opened`) === this.config.program.sha256;
    } catch {
      return false;
    }
  }

  /** Whether the visitor has opened another version of the program before. */
  get isChanged(): boolean {
    try {
      return !this.isKnown && localStorage.getItem(`llm-do ${this.site} opened`) !== null;
    } catch {
      return false;
    }
  }

  /** Starts the engine, gives it the program, and reads what that asks for. Nothing of the program runs by that. */
  async prepare(): Promise<void> {
    this.problem = "";
    try {
      const transport = (this.#transport ??= new Transport({
        site: this.site,
        engine: () => engineOf(this.config, (bytes, of) => (this.loading = { bytes, of })),
        options: () => this.settings.options,
      }));
      await transport.ready;
      const { program } = this.config;
      if (program !== null) {
        const { files } = await programOf(program);
        await this.#ask("PUT", "program", { program: program.name, sha256: program.sha256 }, JSON.stringify({ name: program.name, files }));
      }
      await this.look();
      this.#engine ??= new HttpEngine("", transport.fetch, "The engine of this page does not answer. Reload the page.");
      const workers = await this.#engine.workers();
      this.asked = workers.filter((worker) => worker.program === program?.name);
      if (this.isKnown) this.enter();
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
  }

  /** Opens the program: the visitor has said so, now or at an earlier visit. */
  enter(): void {
    if (this.#engine === undefined) return;
    const { program } = this.config;
    if (program !== null) {
      try {
        localStorage.setItem(`llm-do ${this.site} opened`, program.sha256);
      } catch {
        // The page asks again at the next visit.
      }
    }
    this.app = new AppStore(this.#engine, true);
  }

  /** Reads what the page keeps. */
  async look(): Promise<void> {
    this.state = (await (await this.#ask("GET", "state")).json()) as DeskState;
    this.isPersisted = (await navigator.storage?.persisted?.().catch(() => false)) ?? false;
  }

  /** Takes the visitor's model and key. */
  async choose(chosen: Chosen, remember: boolean): Promise<void> {
    this.settings.set(chosen, remember);
    await this.#ask("PUT", "options", {}, JSON.stringify(this.settings.options));
    await this.look();
  }

  async forgetKey(): Promise<void> {
    this.settings.forget();
    await this.#ask("PUT", "options", {}, JSON.stringify(this.settings.options));
    await this.look();
  }

  /** Asks the browser to keep the files also when its disk is full. */
  async persist(): Promise<boolean> {
    this.isPersisted = (await navigator.storage?.persist?.().catch(() => false)) ?? false;
    return this.isPersisted;
  }

  async exportProgram(program: string, runs: boolean): Promise<Blob> {
    return (await this.#ask("GET", "export", { program, runs: String(runs) })).blob();
  }

  async importProgram(program: string, file: Blob): Promise<void> {
    await this.#ask("POST", "import", { program }, file);
  }

  async removeProgram(program: string): Promise<void> {
    await this.#ask("DELETE", "program", { program });
  }

  /** Whether the browser lets a page pick a folder and write there. */
  readonly canPick = "showDirectoryPicker" in globalThis;

  /** Lets the visitor pick a folder, whose name becomes the program's. Returns the name, or nothing if none was picked. */
  async pickFolder(): Promise<string | undefined> {
    let handle: FileSystemDirectoryHandle;
    try {
      handle = await (globalThis as unknown as { showDirectoryPicker: Picker }).showDirectoryPicker({ mode: "readwrite" });
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") return undefined;
      throw error;
    }
    const name = handle.name.replaceAll(/[^\p{L}\p{N}._-]/gu, "-").replace(/^\.+/, "") || "folder";
    await this.#folders.put(name, handle);
    await this.#ask("POST", "folder", { program: name });
    await this.look();
    return name;
  }

  /** Asks the browser again for the permission of an earlier visit. */
  async allowFolder(program: string): Promise<void> {
    const handle = await this.#folders.get(program);
    await (handle as Permitted | undefined)?.requestPermission({ mode: "readwrite" });
    await this.#ask("POST", "folder", { program });
    await this.look();
  }

  async leaveFolder(program: string): Promise<void> {
    await this.#ask("DELETE", "folder", { program });
    await this.look();
  }

  async #ask(method: string, what: string, query: Record<string, string> = {}, body?: BodyInit): Promise<Response> {
    const transport = this.#transport;
    if (transport === undefined) throw new EngineError("offline", "the engine does not run yet");
    const search = new URLSearchParams(query).toString();
    const path = `${DESK}${what}${search === "" ? "" : `?${search}`}`;
    const response = await transport.fetch(path, { method, ...(body === undefined ? {} : { body }) });
    if (response.ok) return response;
    const { code, detail } = (await response.json()) as { code: string; detail: string };
    throw new EngineError(code, detail);
  }
}
