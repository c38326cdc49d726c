/**
 * JSON with all digits of its integers. A JavaScript number changes integers beyond 2^53 silently, so these become a
 * `bigint`. Everything that comes from the engine, goes to it or is shown as JSON passes through here.
 */

import type { Json } from "./records";

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
/** Fewer digits are exact as a number. */
const LONG = /\d{16}/;
/** The beginning of a text that stands for an integer on its way through `JSON`. A hostile text can't know it. */
const MARK = `integer ${[...crypto.getRandomValues(new Uint32Array(4))].join("-")} `;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

/** Reads a text as `JSON.parse` does, and throws what it throws. */
export function parseJson(text: string): unknown {
  if (!LONG.test(text)) return JSON.parse(text);
  return JSON.parse(marked(text), (_key, value: unknown) =>
    typeof value === "string" && value.startsWith(MARK) ? BigInt(value.slice(MARK.length)) : value,
  );
}

/** The text with each integer that a number can't hold as a marked string. */
function marked(text: string): string {
  let out = "";
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === 34) {
      at = afterString(text, at + 1);
    } else if (code === 45 || (code >= 48 && code <= 57)) {
      NUMBER.lastIndex = at;
      const found = NUMBER.exec(text);
      if (found === null) {
        at++;
        continue;
      }
      const [digits, fraction, exponent] = found;
      const end = at + digits.length;
      if (fraction === undefined && exponent === undefined && !Number.isSafeInteger(Number(digits))) {
        out += `${text.slice(from, at)}"${MARK}${digits}"`;
        from = end;
      }
      at = end;
    } else at++;
  }
  return out + text.slice(from);
}

function afterString(text: string, begin: number): number {
  for (let at = begin; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 92) at++;
    else if (code === 34) return at + 1;
  }
  return text.length;
}

/** Writes a value as `JSON.stringify` does, with `indent` spaces a level. */
export function writeJson(value: unknown, indent?: number): string {
  let found = false;
  const text = JSON.stringify(
    value,
    (_key, inner: unknown) => {
      if (typeof inner !== "bigint") return inner;
      found = true;
      return `${MARK}${inner}`;
    },
    indent,
  );
  return found ? text.replace(MARKED, "$1") : text;
}

/** A value for a count of the page, which needs no more digits than a number has. */
export function asNumber<T>(value: T): T | number {
  return typeof value === "bigint" ? Number(value) : value;
}

/** Whether a value is one that the engine takes as an integer: of 64 bits. */
export function isWide(value: Json): boolean {
  return typeof value === "bigint" && value >= -(2n ** 63n) && value < 2n ** 64n;
}
