/** The folders that the user picked, by program. The browser keeps them between visits; the page and its worker share them. */

export class Folders {
  readonly #site: string;

  constructor(site: string) {
    this.#site = site;
  }

  async #do<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
    const db = await new Promise<IDBDatabase>((resolve, reject) => {
      const opening = indexedDB.open(`llm-do ${this.#site}`, 1);
      opening.onupgradeneeded = () => void opening.result.createObjectStore("folders");
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error);
    });
    try {
      return await new Promise<T>((resolve, reject) => {
        const asked = work(db.transaction("folders", mode).objectStore("folders"));
        asked.onsuccess = () => resolve(asked.result);
        asked.onerror = () => reject(asked.error);
      });
    } finally {
      db.close();
    }
  }

  async all(): Promise<[string, FileSystemDirectoryHandle][]> {
    const names = (await this.#do("readonly", (store) => store.getAllKeys())) as string[];
    const handles = (await this.#do("readonly", (store) => store.getAll())) as FileSystemDirectoryHandle[];
    return names.flatMap((name, at) => (handles[at] === undefined ? [] : [[name, handles[at]]]));
  }

  async get(program: string): Promise<FileSystemDirectoryHandle | undefined> {
    return (await this.#do("readonly", (store) => store.get(program))) as FileSystemDirectoryHandle | undefined;
  }

  put(program: string, handle: FileSystemDirectoryHandle): Promise<unknown> {
    return this.#do("readwrite", (store) => store.put(handle, program));
  }

  remove(program: string): Promise<unknown> {
    return this.#do("readwrite", (store) => store.delete(program));
  }
}
