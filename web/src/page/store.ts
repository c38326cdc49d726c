/**
 * The files of the engine in the page: a tree of paths with `/`, in the private files of this origin, in folders that the
 * user picked, or, where the browser keeps nothing, in memory. Only the tab that runs the engine opens them (`owner.ts`).
 */

import type { Bytes } from "./bytes";
import type { ErrorKind, HostError } from "./protocol";

export class StoreError extends Error implements HostError {
  constructor(
    readonly kind: ErrorKind,
    message: string,
  ) {
    super(message);
  }
}

export interface Stat {
  kind: "file" | "folder";
  bytes: number;
  /** The time of the last change, in milliseconds since 1970. 0 for a folder. */
  modified_ms: number;
}

export interface Entry extends Stat {
  name: string;
}

const FOLDER: Stat = { kind: "folder", bytes: 0, modified_ms: 0 };

export interface Store {
  /** Whether the files are still there after the page is closed. */
  readonly isKept: boolean;
  /** Appends to a file. The bytes are on disk when the promise resolves. After a failure the file ends where it ended. */
  append(path: string, bytes: Bytes): Promise<void>;
  /** Reads at most `most` bytes of a file, from that byte on. */
  read(path: string, from?: number, most?: number): Promise<{ bytes: Bytes; of: number }>;
  /** Replaces a file as a whole. Readers see the old or the new content. */
  write(path: string, bytes: Bytes): Promise<void>;
  /** What is at a path, if there is something. */
  stat(path: string): Promise<Stat | undefined>;
  /** The entries of a folder, by name. */
  list(path: string): Promise<Entry[]>;
  folder(path: string): Promise<void>;
  /** Removes a file or a folder with everything in it. */
  remove(path: string): Promise<void>;
  /** Closes everything that is open. */
  close(): void;
}

/** The names of a path. Refuses what would leave the tree. */
export function namesOf(path: string): string[] {
  const names = path.split("/");
  if (names.some((name) => name === "" || name === "." || name === ".." || /[\\\0]/.test(name))) {
    throw new StoreError("denied", `the path ${path} is not allowed`);
  }
  return names;
}

function parted(path: string): { parents: string[]; name: string } {
  const parents = namesOf(path);
  const name = parents.pop() ?? "";
  return { parents, name };
}

export const missing = (path: string): StoreError => new StoreError("missing", `there is no ${path}`);
const wrongKind = (path: string): StoreError => new StoreError("wrong_kind", `${path} is a folder in place of a file, or the reverse`);

/** The error of the browser as one of the store's. */
export function storeError(error: unknown, path: string): StoreError {
  if (error instanceof StoreError) return error;
  const said = error instanceof Error ? error.message : String(error);
  switch (error instanceof Error || error instanceof DOMException ? error.name : "") {
    case "QuotaExceededError":
      return new StoreError("quota", "no space is left for this page. Remove runs or free disk space, then continue the run");
    case "NotFoundError":
      return missing(path);
    case "NotAllowedError":
    case "SecurityError":
      return new StoreError("denied", `the browser does not allow access to ${path}. Allow the folder again on the page Setup`);
    case "TypeMismatchError":
      return wrongKind(path);
    default:
      return new StoreError("other", `${path}: ${said}`);
  }
}

const byName = (entries: Entry[]): Entry[] => entries.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));

/** Files in memory: for browsers that keep nothing, and for tests. */
export class MemoryStore implements Store {
  readonly isKept = false;
  /** A folder has no bytes. */
  readonly #all = new Map<string, { bytes?: Bytes; modified_ms: number }>();

  #parents(path: string): void {
    const { parents } = parted(path);
    for (let depth = 1; depth <= parents.length; depth++) {
      const folder = parents.slice(0, depth).join("/");
      const known = this.#all.get(folder);
      if (known?.bytes !== undefined) throw wrongKind(folder);
      if (known === undefined) this.#all.set(folder, { modified_ms: 0 });
    }
  }

  async append(path: string, bytes: Bytes): Promise<void> {
    const before = (await this.stat(path)) === undefined ? new Uint8Array() : (await this.read(path)).bytes;
    const both = new Uint8Array(before.length + bytes.length);
    both.set(before);
    both.set(bytes, before.length);
    await this.write(path, both);
  }

  read(path: string, from = 0, most = Infinity): Promise<{ bytes: Bytes; of: number }> {
    namesOf(path);
    const found = this.#all.get(path);
    if (found === undefined) return Promise.reject(missing(path));
    if (found.bytes === undefined) return Promise.reject(wrongKind(path));
    return Promise.resolve({ bytes: found.bytes.slice(from, from + most), of: found.bytes.length });
  }

  async write(path: string, bytes: Bytes): Promise<void> {
    this.#parents(path);
    if ((await this.stat(path))?.kind === "folder") throw wrongKind(path);
    this.#all.set(path, { bytes, modified_ms: Date.now() });
  }

  stat(path: string): Promise<Stat | undefined> {
    namesOf(path);
    const found = this.#all.get(path);
    if (found === undefined) return Promise.resolve(undefined);
    if (found.bytes === undefined) return Promise.resolve(FOLDER);
    return Promise.resolve({ kind: "file", bytes: found.bytes.length, modified_ms: found.modified_ms });
  }

  list(path: string): Promise<Entry[]> {
    const known = this.#all.get(path);
    if (path !== "" && known === undefined) return Promise.reject(missing(path));
    if (known?.bytes !== undefined) return Promise.reject(wrongKind(path));
    const before = path === "" ? "" : `${path}/`;
    const entries: Entry[] = [];
    for (const [key, { bytes, modified_ms }] of this.#all) {
      const name = key.slice(before.length);
      if (!key.startsWith(before) || name === "" || name.includes("/")) continue;
      entries.push({ name, kind: bytes === undefined ? "folder" : "file", bytes: bytes?.length ?? 0, modified_ms });
    }
    return Promise.resolve(byName(entries));
  }

  async folder(path: string): Promise<void> {
    this.#parents(path);
    const known = await this.stat(path);
    if (known?.kind === "file") throw wrongKind(path);
    if (known === undefined) this.#all.set(path, { modified_ms: 0 });
  }

  async remove(path: string): Promise<void> {
    if ((await this.stat(path)) === undefined) throw missing(path);
    for (const key of [...this.#all.keys()]) if (key === path || key.startsWith(`${path}/`)) this.#all.delete(key);
  }

  close(): void {
    // Nothing is open.
  }
}

/** What a dedicated worker has beside the types of a page. */
interface SyncHandle {
  read(into: Uint8Array, options?: { at: number }): number;
  write(bytes: Uint8Array, options?: { at: number }): number;
  truncate(size: number): void;
  getSize(): number;
  flush(): void;
  close(): void;
}
type SyncFile = FileSystemFileHandle & { createSyncAccessHandle(): Promise<SyncHandle> };

/** Files that stay open for appending. The one that was used longest ago is closed first. */
const OPEN = 32;

/**
 * Files below a folder of the browser: a private one of the origin, or one that the user picked. A private one is appended
 * to through synchronous access handles, which exist in a dedicated worker only.
 */
export class FolderStore implements Store {
  readonly isKept = true;
  readonly #root: FileSystemDirectoryHandle;
  readonly #isPrivate: boolean;
  /** Open files by path, the one that was used last at the end. */
  readonly #open = new Map<string, SyncHandle>();

  constructor(root: FileSystemDirectoryHandle, isPrivate: boolean) {
    this.#root = root;
    this.#isPrivate = isPrivate;
  }

  /** Opens a private folder of this origin. Fails where the browser has none for this page. */
  static async private(names: string[]): Promise<FolderStore> {
    let root = await navigator.storage.getDirectory();
    for (const name of names) root = await root.getDirectoryHandle(name, { create: true });
    return new FolderStore(root, true);
  }

  async #folder(names: string[], create: boolean): Promise<FileSystemDirectoryHandle> {
    let at = this.#root;
    for (const name of names) at = await at.getDirectoryHandle(name, { create });
    return at;
  }

  async #handle(path: string): Promise<SyncHandle> {
    const known = this.#open.get(path);
    if (known !== undefined) {
      this.#open.delete(path);
      this.#open.set(path, known);
      return known;
    }
    const { parents, name } = parted(path);
    const file = (await (await this.#folder(parents, true)).getFileHandle(name, { create: true })) as SyncFile;
    const handle = await file.createSyncAccessHandle();
    for (const oldest of this.#open.keys()) {
      if (this.#open.size < OPEN) break;
      this.#close(oldest);
    }
    this.#open.set(path, handle);
    return handle;
  }

  async append(path: string, bytes: Bytes): Promise<void> {
    if (!this.#isPrivate) {
      const before = (await this.stat(path)) === undefined ? new Uint8Array() : (await this.read(path)).bytes;
      return this.write(path, await new Blob([before, bytes]).arrayBuffer().then((both) => new Uint8Array(both)));
    }
    try {
      const handle = await this.#handle(path);
      const size = handle.getSize();
      try {
        writeWhole(handle, bytes, size);
        handle.flush();
      } catch (error) {
        // A part of a record must not stay: the next one would follow it on the same line.
        handle.truncate(size);
        handle.flush();
        throw error;
      }
    } catch (error) {
      throw storeError(error, path);
    }
  }

  async read(path: string, from = 0, most = Infinity): Promise<{ bytes: Bytes; of: number }> {
    try {
      const open = this.#open.get(path);
      if (open !== undefined) {
        const of = open.getSize();
        const bytes = new Uint8Array(Math.max(0, Math.min(most, of - from)));
        return { bytes: bytes.subarray(0, open.read(bytes, { at: from })), of };
      }
      const { parents, name } = parted(path);
      const file = await (await (await this.#folder(parents, false)).getFileHandle(name)).getFile();
      return { bytes: new Uint8Array(await file.slice(from, Math.min(from + most, file.size)).arrayBuffer()), of: file.size };
    } catch (error) {
      throw storeError(error, path);
    }
  }

  async write(path: string, bytes: Bytes): Promise<void> {
    this.#close(path);
    const { parents, name } = parted(path);
    try {
      const file = await (await this.#folder(parents, true)).getFileHandle(name, { create: true });
      // The browser writes a copy, and puts it in the place of the file when it is closed.
      const writable = await file.createWritable();
      try {
        await writable.write(bytes);
        await writable.close();
      } catch (error) {
        await writable.abort().catch(() => undefined);
        throw error;
      }
    } catch (error) {
      throw storeError(error, path);
    }
  }

  async stat(path: string): Promise<Stat | undefined> {
    const { parents, name } = parted(path);
    try {
      const folder = await this.#folder(parents, false);
      try {
        return await this.#statOf(await folder.getFileHandle(name), path);
      } catch (error) {
        if (storeError(error, path).kind !== "wrong_kind") throw error;
        return FOLDER;
      }
    } catch (error) {
      const known = storeError(error, path);
      if (known.kind === "missing" || known.kind === "wrong_kind") return undefined;
      throw known;
    }
  }

  async list(path: string): Promise<Entry[]> {
    const entries: Entry[] = [];
    const names = path === "" ? [] : namesOf(path);
    try {
      for await (const [name, handle] of (await this.#folder(names, false)).entries()) {
        if (handle.kind === "directory") entries.push({ name, ...FOLDER });
        // The browser's copy of a file that is being written is none of the program's files.
        else if (!name.endsWith(".crswap")) {
          entries.push({ name, ...(await this.#statOf(handle as FileSystemFileHandle, [...names, name].join("/"))) });
        }
      }
    } catch (error) {
      throw storeError(error, path);
    }
    return byName(entries);
  }

  async #statOf(handle: FileSystemFileHandle, path: string): Promise<Stat> {
    const { size, lastModified } = await handle.getFile();
    return { kind: "file", bytes: this.#open.get(path)?.getSize() ?? size, modified_ms: lastModified };
  }

  async folder(path: string): Promise<void> {
    try {
      await this.#folder(namesOf(path), true);
    } catch (error) {
      throw storeError(error, path);
    }
  }

  async remove(path: string): Promise<void> {
    for (const open of [...this.#open.keys()]) if (open === path || open.startsWith(`${path}/`)) this.#close(open);
    const { parents, name } = parted(path);
    try {
      await (await this.#folder(parents, false)).removeEntry(name, { recursive: true });
    } catch (error) {
      throw storeError(error, path);
    }
  }

  #close(path: string): void {
    this.#open.get(path)?.close();
    this.#open.delete(path);
  }

  close(): void {
    for (const path of [...this.#open.keys()]) this.#close(path);
  }
}

function writeWhole(handle: SyncHandle, bytes: Uint8Array, at: number): void {
  for (let written = 0; written < bytes.length; ) {
    const count = handle.write(bytes.subarray(written), { at: at + written });
    // Where no space is left, some browsers write a part and throw nothing.
    if (count <= 0) throw new DOMException("no space is left", "QuotaExceededError");
    written += count;
  }
}

/**
 * The store with some programs in folders that the user picked. Their runs stay in the private files: only those are
 * appended to without a copy of the whole journal.
 */
export class MountedStore implements Store {
  readonly #main: Store;
  readonly #picked = new Map<string, Store>();

  constructor(main: Store) {
    this.#main = main;
  }

  get isKept(): boolean {
    return this.#main.isKept;
  }

  /** Puts a folder in the place of a program. */
  mount(program: string, folder: Store): void {
    this.#picked.set(program, folder);
  }

  unmount(program: string): void {
    this.#picked.delete(program);
  }

  /** The store of a path, and the path there. */
  #at(path: string): [Store, string] {
    const [program = "", ...below] = path.split("/");
    const picked = this.#picked.get(program);
    return picked === undefined || below[0] === ".llm-do" ? [this.#main, path] : [picked, below.join("/")];
  }

  append(path: string, bytes: Bytes): Promise<void> {
    const [store, at] = this.#at(path);
    return store.append(at, bytes);
  }

  read(path: string, from?: number, most?: number): Promise<{ bytes: Bytes; of: number }> {
    const [store, at] = this.#at(path);
    return store.read(at, from, most);
  }

  write(path: string, bytes: Bytes): Promise<void> {
    const [store, at] = this.#at(path);
    return store.write(at, bytes);
  }

  stat(path: string): Promise<Stat | undefined> {
    const [store, at] = this.#at(path);
    return at === "" ? Promise.resolve(FOLDER) : store.stat(at);
  }

  async list(path: string): Promise<Entry[]> {
    const [store, at] = this.#at(path);
    const entries = await store.list(at);
    if (path !== "") return entries;
    const programs = [...this.#picked.keys()].map((name): Entry => ({ name, ...FOLDER }));
    return byName([...entries.filter((entry) => !this.#picked.has(entry.name)), ...programs]);
  }

  folder(path: string): Promise<void> {
    const [store, at] = this.#at(path);
    return at === "" ? Promise.resolve() : store.folder(at);
  }

  remove(path: string): Promise<void> {
    const [store, at] = this.#at(path);
    return at === "" ? Promise.reject(new StoreError("denied", "a picked folder is not removed")) : store.remove(at);
  }

  close(): void {
    this.#main.close();
    for (const store of this.#picked.values()) store.close();
  }
}
