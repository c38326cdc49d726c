/** Performs the effects of the engine on files. */

import { encoded, fromBase64, toBase64 } from "./bytes";
import type { FileEffect, ListedEntry, Result } from "./protocol";
import { missing, StoreError, type Store } from "./store";

/** Folders whose content a deep list leaves out. */
const SHALLOW = new Set([".git", "node_modules", ".llm-do"]);
/** What a list has at most if the engine names no number. */
const MOST = 100_000;

export async function performOnFiles(store: Store, effect: FileEffect): Promise<Result> {
  switch (effect.effect) {
    case "append":
      await store.append(effect.path, encoded(effect.text));
      return {};
    case "store":
      await store.write(effect.path, fromBase64(effect.base64));
      return {};
    case "write":
      if (effect.new === true && (await store.stat(effect.path)) !== undefined) throw exists(effect.path);
      await store.write(effect.path, fromBase64(effect.base64));
      return {};
    case "read": {
      const { bytes, of } = await store.read(effect.path, effect.from, effect.most);
      return { base64: toBase64(bytes), bytes: of };
    }
    case "stat": {
      const found = await store.stat(effect.path);
      if (found === undefined) throw missing(effect.path);
      return { ...found };
    }
    case "list":
      return list(store, effect.path, effect.deep ?? false, effect.most ?? MOST);
    case "folder":
      await store.folder(effect.path);
      return {};
    case "move":
      await move(store, effect.path, effect.to);
      return {};
    case "remove":
      if (effect.deep !== true && (await store.stat(effect.path))?.kind === "folder" && (await store.list(effect.path)).length > 0) {
        throw new StoreError("not_empty", `${effect.path} is not empty`);
      }
      await store.remove(effect.path);
      return {};
  }
}

const exists = (path: string): StoreError => new StoreError("exists", `${path} exists already`);

/** Lists a folder, with everything below it if `deep`. */
export async function list(store: Store, path: string, deep: boolean, most: number): Promise<{ entries: ListedEntry[]; cut: boolean }> {
  const entries: ListedEntry[] = [];
  const below = async (folder: string, before: string): Promise<boolean> => {
    for (const { name, kind, bytes, modified_ms } of await store.list(folder)) {
      if (entries.length === most) return true;
      entries.push({ path: before + name, kind, bytes, modified_ms });
      const inner = folder === "" ? name : `${folder}/${name}`;
      if (deep && kind === "folder" && !SHALLOW.has(name) && (await below(inner, `${before}${name}/`))) return true;
    }
    return false;
  };
  const cut = await below(path, "");
  entries.sort((a, b) => (a.path < b.path ? -1 : 1));
  return { entries, cut };
}

/** Moves a file or a folder: copies it, then removes it. */
async function move(store: Store, path: string, to: string): Promise<void> {
  if ((await store.stat(to)) !== undefined) throw exists(to);
  await copy(store, path, to);
  await store.remove(path);
}

async function copy(store: Store, path: string, to: string): Promise<void> {
  if ((await store.stat(path))?.kind !== "folder") return store.write(to, (await store.read(path)).bytes);
  await store.folder(to);
  for (const { name } of await store.list(path)) await copy(store, `${path}/${name}`, `${to}/${name}`);
}
