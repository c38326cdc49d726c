/** The places of the parts of a JSON text. */

import { pointer } from "./form";

export interface Place {
  /** From 1. */
  line: number;
  column: number;
}

/** The place of each value of a JSON text, by JSON pointer. Of a text that is no JSON, those before the fault. */
export function placesOf(text: string): Map<string, Place> {
  const places = new Map<string, Place>();
  let [at, line, lineStart] = [0, 1, 0];

  const blank = (): void => {
    for (; at < text.length; at++) {
      const c = text[at];
      if (c === "\n") {
        line++;
        lineStart = at + 1;
      } else if (c !== " " && c !== "\t" && c !== "\r") return;
    }
  };
  const string = (): string | undefined => {
    const from = at++;
    for (; at < text.length && text[at] !== '"'; at++) if (text[at] === "\\") at++;
    at++;
    try {
      return JSON.parse(text.slice(from, at)) as string;
    } catch {
      return undefined;
    }
  };
  /** Returns whether a whole value was there. */
  const value = (place: string, depth: number): boolean => {
    blank();
    if (at >= text.length || depth > 200) return false;
    places.set(place, { line, column: at - lineStart + 1 });
    const open = text[at];
    if (open === '"') return string() !== undefined;
    if (open !== "{" && open !== "[") {
      const from = at;
      while (at < text.length && !/[\s,\]}]/.test(text[at] ?? "")) at++;
      return at > from;
    }
    at++;
    for (let index = 0; ; index++) {
      blank();
      if (text[at] === (open === "{" ? "}" : "]")) return ++at > 0;
      let name: string | number = index;
      if (open === "{") {
        const key = text[at] === '"' ? string() : undefined;
        blank();
        if (key === undefined || text[at] !== ":") return false;
        at++;
        name = key;
      }
      if (!value(pointer(place, name), depth + 1)) return false;
      blank();
      if (text[at] === ",") at++;
      else if (text[at] !== (open === "{" ? "}" : "]")) return false;
    }
  };
  value("", 0);
  return places;
}

/** The place of a value, or of the innermost one around it that is there. */
export function placeOf(places: ReadonlyMap<string, Place>, at: string): Place {
  for (let place = at; ; place = place.slice(0, place.lastIndexOf("/"))) {
    const found = places.get(place);
    if (found !== undefined) return found;
    if (place === "") return { line: 1, column: 1 };
  }
}
