/** Requests of the app to the host itself: the files of this page, its options and its folders. The engine does not see them. */

import type { Call } from "../engine/through";
import { decoded, encoded, fromBase64, type Bytes } from "./bytes";
import { list } from "./files";
import type { Host, Reply } from "./host";
import type { Options } from "./protocol";
import { Folders } from "./folders";
import { FolderStore, namesOf, StoreError, storeError, type MountedStore, type Store } from "./store";
import { pack, unpack } from "./zip";

/** The beginning of the paths of these requests. */
export const DESK = "/page/";

export interface DeskState {
  /** Whether the browser keeps the files of this page. */
  kept: boolean;
  /** The providers' variables that have a key. */
  keys: string[];
  /** The programs in folders that the user picked. */
  folders: { program: string; allowed: boolean }[];
}

/** A program as data. */
export interface ProgramFiles {
  name: string;
  /** The files by path: text, or Base64. */
  files: Record<string, { text: string } | { base64: string }>;
}

/** The version of the page's program that was written, and its files. */
interface Installed {
  sha256: string;
  paths: string[];
}

type Permitted = FileSystemDirectoryHandle & {
  queryPermission(options: { mode: "read" | "readwrite" }): Promise<PermissionState>;
};

export class Desk {
  readonly #host: Host;
  readonly #store: MountedStore;
  /** What the page notes for itself, beside the programs. */
  readonly #notes: Store;
  readonly #folders: Folders;
  readonly #allowed = new Map<string, boolean>();
  #options: Options = {};

  constructor(host: Host, store: MountedStore, notes: Store, site: string) {
    this.#host = host;
    this.#store = store;
    this.#notes = notes;
    this.#folders = new Folders(site);
  }

  /** Opens the folders of earlier visits, as far as the browser still allows it. */
  async begin(options: Options): Promise<void> {
    this.setOptions(options);
    for (const [program, handle] of await this.#folders.all().catch(() => [])) await this.#mount(program, handle);
  }

  setOptions(options: Options): void {
    this.#options = options;
    this.#host.setOptions(options);
  }

  async #mount(program: string, handle: FileSystemDirectoryHandle): Promise<boolean> {
    const state = await (handle as Permitted).queryPermission?.({ mode: "readwrite" }).catch(() => "denied");
    const allowed = state === undefined || state === "granted";
    this.#allowed.set(program, allowed);
    if (allowed) this.#store.mount(program, new FolderStore(handle, false));
    return allowed;
  }

  async answer(asked: Call): Promise<Reply> {
    const [path = "", search = ""] = asked.path.slice(DESK.length).split("?", 2);
    try {
      return await this.#answered(`${asked.method} ${path}`, new URLSearchParams(search), asked);
    } catch (error) {
      const { kind, message } = error instanceof StoreError ? error : storeError(error, path);
      return json({ code: kind, detail: message }, kind === "quota" ? 507 : kind === "missing" ? 404 : kind === "denied" ? 403 : 400);
    }
  }

  async #answered(what: string, query: URLSearchParams, asked: Call): Promise<Reply> {
    const program = (): string => {
      const name = query.get("program") ?? "";
      if (name.startsWith(".") || namesOf(name).length !== 1) throw new StoreError("denied", `${name} is no name of a program`);
      return name;
    };
    switch (what) {
      case "GET state": {
        const state: DeskState = {
          kept: this.#store.isKept,
          keys: Object.keys(this.#options.keys ?? {}),
          folders: [...this.#allowed].map(([name, allowed]) => ({ program: name, allowed })),
        };
        return json(state);
      }
      case "PUT options":
        this.setOptions(bodyOf<Options>(asked));
        return json({});
      case "PUT program":
        return json({ written: await this.#install(program(), query.get("sha256") ?? "", bodyOf<ProgramFiles>(asked).files) });
      case "GET export":
        return bytes(await this.#exported(program(), query.get("runs") === "true"));
      case "POST import":
        return json({ written: await this.#imported(program(), asked) });
      case "POST folder": {
        const name = program();
        const handle = await this.#folders.get(name);
        if (handle === undefined) throw new StoreError("denied", "no folder was picked");
        const allowed = await this.#mount(name, handle);
        this.#host.changed(name);
        return json({ allowed });
      }
      case "DELETE folder": {
        const name = program();
        this.#store.unmount(name);
        this.#allowed.delete(name);
        await this.#folders.remove(name);
        this.#host.changed(name);
        return json({});
      }
      case "DELETE program": {
        const name = program();
        await this.#store.remove(name);
        this.#host.changed(name);
        return json({});
      }
      default:
        throw new StoreError("missing", `this page has no ${what}`);
    }
  }

  /**
   * Puts the page's program in the place of an older version. Runs stay, and so do the visitor's changes until there is
   * another version. Returns how many files were written.
   */
  async #install(program: string, sha256: string, files: ProgramFiles["files"]): Promise<number> {
    const note = `installed-${program}`;
    const known = (await this.#notes.stat(note)) !== undefined;
    const before = known ? (JSON.parse(decoded((await this.#notes.read(note)).bytes)) as Installed) : undefined;
    const isThere = (await this.#store.stat(program)) !== undefined;
    if (isThere && before?.sha256 === sha256) return 0;
    const paths = Object.keys(files).map((path) => namesOf(path).join("/"));
    for (const [path, file] of Object.entries(files)) {
      await this.#store.write(`${program}/${path}`, "text" in file ? encoded(file.text) : fromBase64(file.base64));
    }
    // A file that the new version lacks would still be a part of the program.
    for (const path of before?.paths ?? []) {
      const place = `${program}/${path}`;
      if (!paths.includes(path) && (await this.#store.stat(place)) !== undefined) await this.#store.remove(place);
    }
    await this.#notes.write(note, encoded(JSON.stringify({ sha256, paths } satisfies Installed)));
    this.#host.changed(program);
    return paths.length;
  }

  async #exported(program: string, runs: boolean): Promise<Bytes> {
    const files: Record<string, Bytes> = {};
    const add = async (below: string): Promise<void> => {
      const folder = below === "" ? program : `${program}/${below}`;
      if ((await this.#store.stat(folder))?.kind !== "folder") return;
      const { entries } = await list(this.#store, folder, true, 1_000_000);
      for (const { path, kind } of entries) {
        const whole = below === "" ? path : `${below}/${path}`;
        if (kind === "file") files[whole] = (await this.#store.read(`${program}/${whole}`)).bytes;
      }
    };
    await add("");
    // A deep list leaves it out.
    if (runs) await add(".llm-do/runs");
    return pack(files);
  }

  async #imported(program: string, asked: Call): Promise<number> {
    if (typeof asked.body === "string" || asked.body === undefined) throw new StoreError("other", "no file was given");
    const files = unpack(asked.body);
    if ((await this.#store.stat(program)) !== undefined) throw new StoreError("exists", `there is a program ${program} already. Choose another name`);
    try {
      for (const [path, content] of Object.entries(files)) await this.#store.write(`${program}/${path}`, content);
    } catch (error) {
      // Half of a program would look like a whole one.
      await this.#store.remove(program).catch(() => undefined);
      throw error;
    }
    this.#host.changed(program);
    return Object.keys(files).length;
  }
}

const json = (value: unknown, status = 200): Reply => ({
  reply: "head",
  status,
  headers: { "content-type": status === 200 ? "application/json" : "application/problem+json" },
  body: JSON.stringify(value),
  isStream: false,
});

const bytes = (body: Bytes): Reply => ({
  reply: "head",
  status: 200,
  headers: { "content-type": "application/zip", "content-length": String(body.length) },
  body,
  isStream: false,
});

function bodyOf<T>({ body }: Call): T {
  return JSON.parse(typeof body === "string" ? body : decoded(body ?? new Uint8Array())) as T;
}
