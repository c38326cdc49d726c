/** Reads the names of cases and their places in a file. */

import { isMap, isScalar, isSeq, LineCounter, parseDocument } from "yaml";

export interface Case {
  name: string;
  /** The line and the column of the name, from 0. */
  line: number;
  column: number;
}

/** Returns the cases of a file's text. A half-typed file gives the cases that can be read. */
export function casesOf(path: string, text: string): Case[] {
  return path.endsWith(".jsonl") ? ofLines(text) : ofYaml(text);
}

function ofLines(text: string): Case[] {
  return text.split(/\r?\n/).flatMap((content, line) => {
    try {
      const { name } = JSON.parse(content) as { name?: unknown };
      return typeof name === "string" ? [{ name, line, column: 0 }] : [];
    } catch {
      return [];
    }
  });
}

function ofYaml(text: string): Case[] {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, logLevel: "silent" });
  const cases = isMap(document.contents) ? document.contents.get("cases", true) : undefined;
  if (!isSeq(cases)) return [];
  return cases.items.flatMap((item) => {
    const name = isMap(item) ? item.get("name", true) : undefined;
    if (!isScalar(name) || name.value === null || name.value === "" || !name.range) return [];
    const { line, col } = lines.linePos(name.range[0]);
    return [{ name: String(name.value), line: line - 1, column: col - 1 }];
  });
}
