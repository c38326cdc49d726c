/** Makes the paths in the output of `llm-do check` relative to a folder of the workspace. */

import { isAbsolute, join, relative } from "node:path";

// Colours may stand around the arrow and at the end of the place.
const PLACE = /^((?:\x1b\[[\d;]*m|\s)*-->(?:\x1b\[[\d;]*m|\s)*)([^\x1b]+?)(:\d+:\d+(?:\x1b\[[\d;]*m)*)$/;

/**
 * Rewrites `--> FILE:LINE:COLUMN`. llm-do prints files relative to the program, and a problem matcher can only read them as
 * relative to the folder of the workspace.
 */
export function placed(line: string, root: string, folder: string): string {
  const [, arrow, file, position] = PLACE.exec(line) ?? [];
  if (arrow === undefined || file === undefined || position === undefined || isAbsolute(file)) return line;
  return `${arrow}${relative(folder, join(root, file))}${position}`;
}
