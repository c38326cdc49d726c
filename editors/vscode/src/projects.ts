/** Finds the program that a file belongs to, as `llm-do` does: the nearest folder above with a manifest or an entry. */

import { existsSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";

const MANIFESTS = ["project.yaml", "llm-do.yaml", "main.worker"];

export interface Target {
  /** What a command line names: the project's folder, or a worker file that belongs to no project. */
  target: string;
  /** The folder that paths of findings and of reports are relative to. */
  root: string;
}

/** Returns the folder of the project around a file, not above `within`. */
export function projectOf(file: string, within: string): string | undefined {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const inside = folder === within || relative(within, folder).split(sep)[0] !== "..";
    if (!inside) return undefined;
    if (MANIFESTS.some((name) => existsSync(join(folder, name)))) return folder;
    if (folder === within || dirname(folder) === folder) return undefined;
  }
}

/** Returns what to check, serve or test for a worker or a file of cases. */
export function targetOf(file: string, within: string): Target {
  const project = projectOf(file, within);
  if (project !== undefined) return { target: project, root: project };
  const root = dirname(file);
  const worker = /^(.+)\.cases\.(?:yaml|yml|jsonl)$/.exec(basename(file))?.[1];
  return { target: worker === undefined ? file : join(root, `${worker}.worker`), root };
}
