/** The arguments of a call as a form, and the change to a file that edited arguments would make. */

import type { Change, Json, JsonObject } from "../engine/records";
import { isObject } from "./form";

/** A schema for a value whose schema is not known. */
export function schemaFor(value: Json, depth = 0): JsonObject {
  if (typeof value === "string") return { type: "string" };
  if (typeof value === "boolean") return { type: "boolean" };
  if (typeof value === "number" || typeof value === "bigint") {
    return { type: typeof value === "bigint" || Number.isInteger(value) ? "integer" : "number" };
  }
  if (Array.isArray(value) && value.length > 0 && depth < 6) {
    const kinds = new Set(value.map((item) => (Array.isArray(item) ? "array" : item === null ? "null" : typeof item)));
    return kinds.size === 1 && !kinds.has("object") ? { type: "array", items: schemaFor(value[0] ?? null, depth + 1) } : {};
  }
  if (isObject(value) && Object.keys(value).length > 0 && depth < 6) {
    const properties = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, schemaFor(inner, depth + 1)]));
    return { type: "object", properties, required: Object.keys(value) };
  }
  return {};
}

/**
 * The change that edited arguments make, where it follows from them: a text that is the whole content of the file, or two
 * texts of which one takes the place of the other. `undefined`: only the tool knows.
 */
export function changeOf(change: Change, given: Json, edited: Json): Change | undefined {
  if (!isObject(given) || !isObject(edited)) return undefined;
  const pathIs = (name: string): boolean => {
    const path = given[name];
    return typeof path === "string" && path !== "" && change.path.endsWith(path.replace(/^\.?\//, ""));
  };
  const path = Object.keys(given).find(pathIs);
  const moved = path !== undefined && edited[path] !== given[path];
  // Of another file, the content before is not known.
  if (moved || change.after === null) return undefined;
  const names = Object.keys(given).filter((name) => name !== path && typeof given[name] === "string");
  const text = (of: JsonObject, name: string): string | undefined => (typeof of[name] === "string" ? of[name] : undefined);
  for (const name of names) {
    const after = text(edited, name);
    if (given[name] === change.after && after !== undefined) return { ...change, after };
  }
  for (const from of names) {
    for (const to of names) {
      const [old, new_] = [text(given, from) ?? "", text(given, to) ?? ""];
      if (from === to || old === "" || change.before === null || !change.before.includes(old)) continue;
      if (change.before.replace(old, () => new_) !== change.after) continue;
      const [was, is] = [text(edited, from), text(edited, to)];
      if (was === undefined || is === undefined || was === "" || !change.before.includes(was)) return undefined;
      return { ...change, after: change.before.replace(was, () => is) };
    }
  }
  return undefined;
}

