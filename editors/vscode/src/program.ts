/** Looks for the program `llm-do`. */

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";

export interface Places {
  /** The setting `llm-do.path`; may be empty. */
  setting: string;
  /** Folders of the workspace. */
  folders: string[];
  /** Programs of the workspace may be started. */
  trusted: boolean;
  /** The variable `PATH`. */
  path: string;
  /** The folder of this extension. */
  extension: string;
}

export type Found = { program: string; from: "setting" | "PATH" | "workspace" | "extension" } | { problem: string; tried: string[] };

/** Folders of a workspace in which package managers put programs. */
const OF_WORKSPACE = [".venv/bin", "node_modules/.bin"];

/**
 * Returns the program of the first place that has one: the setting, the `PATH`, the workspace, this extension. A setting that
 * names nothing is a problem, because another program would otherwise be started in its place. Programs of a workspace without
 * trust are not looked at.
 */
export function findProgram(places: Places): Found {
  const tried: string[] = [];
  const first = (candidates: string[]): string | undefined =>
    candidates.find((candidate) => {
      tried.push(candidate);
      return isProgram(candidate);
    });
  const onPath = (name: string): string[] =>
    places.path
      .split(delimiter)
      .filter((folder) => isAbsolute(folder))
      // A folder of the workspace on the PATH is code of the workspace.
      .filter((folder) => places.trusted || !places.folders.some((root) => isInside(root, folder)))
      .map((folder) => join(folder, name));

  const setting = places.setting.trim();
  if (setting !== "") {
    const isName = !/[/\\]/.test(setting);
    const candidates = isAbsolute(setting)
      ? [setting]
      : isName
        ? onPath(setting)
        : places.trusted
          ? places.folders.map((folder) => resolve(folder, setting))
          : [];
    const program = first(candidates);
    if (program !== undefined) return { program, from: "setting" };
    const untrusted = !isName && !isAbsolute(setting) && !places.trusted;
    const why = untrusted
      ? `The setting llm-do.path is "${setting}", a path in this workspace, and the workspace is not trusted.`
      : `The setting llm-do.path is "${setting}", and no such program exists.`;
    return { problem: why, tried };
  }
  const path = first(onPath("llm-do"));
  if (path !== undefined) return { program: path, from: "PATH" };
  if (places.trusted) {
    const own = first(places.folders.flatMap((folder) => OF_WORKSPACE.map((bin) => join(folder, bin, "llm-do"))));
    if (own !== undefined) return { program: own, from: "workspace" };
  }
  const packed = first([join(places.extension, "bin", "llm-do")]);
  if (packed !== undefined) return { program: packed, from: "extension" };
  return { problem: "The program llm-do was not found.", tried };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function isInside(root: string, path: string): boolean {
  const [outer, inner] = [resolve(root), resolve(path)];
  return inner === outer || inner.startsWith(outer.endsWith("/") ? outer : `${outer}/`);
}
