/**
 * Text that others wrote, made safe to look at: nothing in it can hide, or reorder what is shown. The rules are those of
 * `crates/visible`, which the terminal uses.
 */

/** How much of a text may stay as it is. */
export type Mode =
  /** Values, code, paths of several lines: every hidden character is an escape, but newlines and tabs stay. */
  | "text"
  /** The same on one line: newlines and tabs are escapes too. */
  | "line"
  /** Words of a model or a person: emoji and scripts that need joiners stay whole. */
  | "prose";

/** A part of a text. */
export interface Piece {
  text: string;
  /** Whether it is the escape of a character that a page would not show. */
  escaped: boolean;
}

// Characters that a page does not show, shows as space, or shows as what a font makes of them, and those that change the
// order in which others are shown. The space itself is none of them. Lone surrogates exist in JavaScript alone.
const HIDDEN =
  "\\p{Cc}\\p{Cs}\\p{Co}\\p{Noncharacter_Code_Point}" +
  "\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000" +
  "\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f" +
  "\\u2800\\u3164\\uffa0\\ufe00-\\ufe0f\\ufeff\\ufff0-\\ufffb" +
  "\\u{16fe4}\\u{13430}-\\u{1345f}\\u{1d159}\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}";
const hidden = new RegExp(`[${HIDDEN}]`, "u");
/** The hidden characters of a text of several lines, for an editor. */
export const hiddenInCode = new RegExp(`(?![\\n\\t])[${HIDDEN}]`, "gu");
const control = /\p{Cc}|\p{Cs}/u;
const joiner = /[\u200c\u200d]/u;
const selector = /[\ufe00-\ufe0f\u180b-\u180d\u180f\u{e0100}-\u{e01ef}]/u;
const reorders = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb]/u;
// Private use and blank Braille are left in prose: pictures of dots and fonts use them. So are spaces of other widths.
const leftInProse =
  /[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800\u{e000}-\u{f8ff}\u{f0000}-\u{10ffff}\n\t]/u;
const ascii = /^[\0-\x7f]$/;
const keycap = /[0-9#*]/;

function isHarmful(c: string): boolean {
  if (c === "\n" || c === "\t") return false;
  if (control.test(c) || reorders.test(c)) return true;
  return hidden.test(c) && !leftInProse.test(c) && !joiner.test(c) && !selector.test(c);
}

/** Whether a joiner or selector hides in prose, behind that character. */
function hidesBehind(c: string, before: string): boolean {
  if (joiner.test(c)) return ascii.test(before) || joiner.test(before);
  return selector.test(before) || joiner.test(before) || (ascii.test(before) && !keycap.test(before));
}

function escaped(c: string): string {
  switch (c) {
    case "\n":
      return "\\n";
    case "\r":
      return "\\r";
    case "\t":
      return "\\t";
    default: {
      const code = c.codePointAt(0) ?? 0;
      return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u{${code.toString(16)}}`;
    }
  }
}

/** The parts of a text, in order. Joined they are what a page may show. */
export function pieces(text: string, mode: Mode): Piece[] {
  // Most texts have nothing to escape. The test is linear and allocates nothing.
  if (!hidden.test(text)) return text === "" ? [] : [{ text, escaped: false }];
  const found: Piece[] = [];
  let plain = "";
  let escapes = "";
  const flush = (): void => {
    if (plain !== "") found.push({ text: plain, escaped: false });
    if (escapes !== "") found.push({ text: escapes, escaped: true });
    plain = escapes = "";
  };
  let before = " ";
  for (const c of text) {
    let hide: boolean;
    if (mode === "prose") {
      hide = joiner.test(c) || selector.test(c) ? hidesBehind(c, before) : isHarmful(c);
    } else {
      hide = hidden.test(c) && (mode === "line" || (c !== "\n" && c !== "\t"));
    }
    if (hide) {
      escapes += escaped(c);
    } else {
      if (escapes !== "") flush();
      plain += c;
    }
    before = c;
  }
  flush();
  return found;
}

/** The text as a page may show it, for places that take no markup: titles, labels, the clipboard's preview. */
export function visible(text: string, mode: Mode): string {
  return pieces(text, mode)
    .map((piece) => piece.text)
    .join("");
}

/** The beginning of a text on one line, at most `max` characters, with `…` where more follows. */
export function start(text: string, max: number): string {
  // A character has at most two code units, and its escape does not begin before it.
  const shown = Array.from(visible(text.slice(0, 2 * max + 2), "line"));
  return shown.length > max || text.length > 2 * max + 2 ? `${shown.slice(0, max).join("")}…` : shown.join("");
}
