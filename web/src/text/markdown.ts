/**
 * Markdown as a tree of our own nodes, which components turn into elements. No HTML is ever made or parsed: HTML in the
 * text is text, so there is nothing to sanitise.
 */

import type { SyntaxNode, Tree } from "@lezer/common";
import { parser as commonMark, Autolink, Strikethrough, Table, TaskList } from "@lezer/markdown";
import { safeAddress } from "./links";

export type Inline =
  | { kind: "text"; text: string }
  | { kind: "emphasis"; children: Inline[] }
  | { kind: "strong"; children: Inline[] }
  | { kind: "deleted"; children: Inline[] }
  | { kind: "code"; text: string }
  | { kind: "link"; address: string; children: Inline[] }
  | { kind: "image"; address: string; text: string }
  | { kind: "break" };

/** How the cells of a column are aligned, if the table says so. */
export type Align = "left" | "center" | "right" | undefined;

export type Block =
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; children: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: Item[] }
  | { kind: "table"; head: Inline[][]; rows: Inline[][][]; align: Align[] }
  | { kind: "rule" };

export interface Item {
  /** Set for a task: whether it is done. */
  done?: boolean;
  children: Block[];
}

/** Longer texts are shown as they are: nobody reads them as prose, and the time of a page is bounded. */
export const LONGEST = 200_000;
/** Deeper nesting is shown as text. */
const DEEPEST = 24;
/** A line with more marks than this has a hostile author. Parsers take quadratic time for some of these. */
const MOST_MARKS = 2_000;
/** Each of these may open a quotation, and each line inside one is looked at once for each level. */
const MOST_QUOTES = 10_000;

const parser = commonMark.configure([Autolink, Strikethrough, Table, TaskList]);

/** A top-level block, with its source: a block whose source did not change need not be drawn again. */
export interface Part {
  source: string;
  block: Block;
}

/** Whether a text is fit to be read as Markdown. */
export function isReadable(text: string): boolean {
  if (text.length > LONGEST) return false;
  let marks = 0;
  let quotes = 0;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    // A blank line ends a paragraph, and with it what an opening mark can reach.
    if (code === 62 && ++quotes > MOST_QUOTES) return false;
    if (code === 10 && text.charCodeAt(i + 1) === 10) marks = 0;
    else if ((code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) || code >= 123) {
      if (code < 127 && ++marks > MOST_MARKS) return false;
    }
  }
  return true;
}

/** The blocks of a text. Blocks of `earlier` whose source is the same are taken over. */
export function parse(text: string, earlier: readonly Part[] = []): Part[] {
  if (!isReadable(text)) return [{ source: text, block: { kind: "code", language: "", text } }];
  const tree = parser.parse(text);
  const reader = new Reader(text, tree);
  const parts: Part[] = [];
  for (let node = tree.topNode.firstChild; node !== null; node = node.nextSibling) {
    const source = text.slice(node.from, node.to);
    const before = earlier[parts.length];
    // A reference may get its address later, and then the paragraph means something else.
    if (before?.source === source && !source.includes("][")) {
      parts.push(before);
      continue;
    }
    const block = reader.block(node, 0);
    if (block !== undefined) parts.push({ source, block });
  }
  return parts;
}

const ENTITIES = new Map([
  ["&amp;", "&"],
  ["&lt;", "<"],
  ["&gt;", ">"],
  ["&quot;", '"'],
  ["&apos;", "'"],
  ["&nbsp;", "\u00a0"],
  ["&mdash;", "—"],
  ["&ndash;", "–"],
  ["&hellip;", "…"],
]);

function entity(written: string): string {
  const named = ENTITIES.get(written);
  if (named !== undefined) return named;
  const number = /^&#(?:x([0-9a-f]{1,6})|([0-9]{1,7}));$/i.exec(written);
  if (number === null) return written;
  const code = number[1] === undefined ? Number(number[2]) : parseInt(number[1], 16);
  return code > 0 && code <= 0x10ffff ? String.fromCodePoint(code) : "\ufffd";
}

const label = (written: string): string => written.replace(/^\[|\]$/g, "").trim().replace(/\s+/g, " ").toLowerCase();

class Reader {
  readonly #text: string;
  readonly #references = new Map<string, string>();

  constructor(text: string, tree: Tree) {
    this.#text = text;
    for (let node = tree.topNode.firstChild; node !== null; node = node.nextSibling) {
      if (node.name !== "LinkReference") continue;
      const [name, url] = [node.getChild("LinkLabel"), node.getChild("URL")];
      if (name !== null && url !== null) {
        const key = label(this.#slice(name));
        if (!this.#references.has(key)) this.#references.set(key, this.#slice(url));
      }
    }
  }

  #slice(node: { from: number; to: number }): string {
    return this.#text.slice(node.from, node.to);
  }

  block(node: SyntaxNode, depth: number): Block | undefined {
    const { name } = node;
    if (depth > DEEPEST) return { kind: "code", language: "", text: this.#slice(node) };
    switch (name) {
      case "Paragraph":
      case "Task":
        return { kind: "paragraph", children: this.#inline(node, depth) };
      case "FencedCode":
      case "CodeBlock":
        return this.#code(node);
      case "Blockquote":
        return { kind: "quote", children: this.#blocks(node, depth) };
      case "BulletList":
      case "OrderedList":
        return this.#list(node, depth);
      case "HorizontalRule":
        return { kind: "rule" };
      case "Table":
        return this.#table(node, depth);
      case "LinkReference":
      case "QuoteMark":
      case "ListMark":
      case "TaskMarker":
        return undefined;
      case "HTMLBlock":
      case "CommentBlock":
      case "ProcessingInstructionBlock":
        return { kind: "code", language: "", text: this.#slice(node) };
      default: {
        const heading = /^(?:ATX|Setext)Heading(\d)$/.exec(name);
        if (heading !== null) {
          return { kind: "heading", level: Number(heading[1]), children: trimmed(this.#inline(node, depth)) };
        }
        return { kind: "paragraph", children: [{ kind: "text", text: this.#slice(node) }] };
      }
    }
  }

  #blocks(node: SyntaxNode, depth: number): Block[] {
    const blocks: Block[] = [];
    for (let child = node.firstChild; child !== null; child = child.nextSibling) {
      const block = this.block(child, depth + 1);
      if (block !== undefined) blocks.push(block);
    }
    return blocks;
  }

  #code(node: SyntaxNode): Block {
    const info = node.getChild("CodeInfo");
    const text = node.getChildren("CodeText").map((part) => this.#slice(part));
    // Each part of an indented or quoted block is one line, with its line break in between.
    return { kind: "code", language: info === null ? "" : this.#slice(info), text: text.join("") };
  }

  #list(node: SyntaxNode, depth: number): Block {
    const items: Item[] = [];
    let start = 1;
    for (const item of node.getChildren("ListItem")) {
      const mark = item.getChild("ListMark");
      if (items.length === 0 && mark !== null) start = parseInt(this.#slice(mark), 10) || 0;
      const marker = item.getChild("Task")?.getChild("TaskMarker");
      const read: Item = { children: this.#blocks(item, depth) };
      if (marker) read.done = /x/i.test(this.#slice(marker));
      items.push(read);
    }
    return { kind: "list", ordered: node.name === "OrderedList", start, items };
  }

  #table(node: SyntaxNode, depth: number): Block {
    const cells = (row: SyntaxNode): Inline[][] =>
      row.getChildren("TableCell").map((cell) => this.#inline(cell, depth));
    const head = node.getChild("TableHeader");
    return { kind: "table", head: head === null ? [] : cells(head), rows: node.getChildren("TableRow").map(cells), align: this.#align(node) };
  }

  /** The alignments in the second line of a table: `:--`, `:-:`, `--:`. */
  #align(node: SyntaxNode): Align[] {
    const line = node.getChild("TableDelimiter");
    if (line === null) return [];
    const columns = this.#slice(line).trim().replace(/^\||\|$/g, "").split("|");
    return columns.map((column) => {
      const [left, right] = [column.trim().startsWith(":"), column.trim().endsWith(":")];
      return left && right ? "center" : right ? "right" : left ? "left" : undefined;
    });
  }

  #inline(node: SyntaxNode, depth: number): Inline[] {
    if (depth > DEEPEST) return [{ kind: "text", text: this.#slice(node) }];
    const found: Inline[] = [];
    let at = node.from;
    const text = (from: number, to: number): void => {
      // Lines of a paragraph are joined by spaces; their indentation does not count.
      const words = this.#text.slice(from, to).replace(/[ \t]*\n[ \t]*/g, "\n");
      if (words !== "") push(found, words);
    };
    for (let child = node.firstChild; child !== null; child = child.nextSibling) {
      text(at, child.from);
      at = child.to;
      this.#mark(child, depth + 1, found);
    }
    text(at, node.to);
    return found;
  }

  #mark(node: SyntaxNode, depth: number, found: Inline[]): void {
    const written = this.#slice(node);
    switch (node.name) {
      case "Emphasis":
        found.push({ kind: "emphasis", children: this.#inline(node, depth) });
        return;
      case "StrongEmphasis":
        found.push({ kind: "strong", children: this.#inline(node, depth) });
        return;
      case "Strikethrough":
        found.push({ kind: "deleted", children: this.#inline(node, depth) });
        return;
      case "InlineCode": {
        const code = written.replace(/^`+|`+$/g, "").replace(/\n/g, " ");
        found.push({ kind: "code", text: /^ .*[^ ].* $/.test(code) ? code.slice(1, -1) : code });
        return;
      }
      case "Link":
      case "Image":
        this.#link(node, depth, found);
        return;
      case "Autolink":
      case "URL": {
        const bare = written.replace(/^<|>$/g, "");
        const named = /^[a-z][a-z0-9+.-]*:/i.test(bare) ? bare : bare.includes("@") ? `mailto:${bare}` : `https://${bare}`;
        const address = safeAddress(named);
        if (address === undefined) push(found, written);
        else found.push({ kind: "link", address, children: [{ kind: "text", text: bare }] });
        return;
      }
      case "HardBreak":
        found.push({ kind: "break" });
        return;
      case "Escape":
        push(found, written.slice(1));
        return;
      case "Entity":
        push(found, entity(written));
        return;
      case "EmphasisMark":
      case "StrikethroughMark":
      case "CodeMark":
      case "LinkMark":
      case "HeaderMark":
      case "QuoteMark":
      case "TaskMarker":
      case "TableDelimiter":
        return;
      default:
        push(found, written);
    }
  }

  #link(node: SyntaxNode, depth: number, found: Inline[]): void {
    const url = node.getChild("URL");
    const name = node.getChild("LinkLabel");
    const close = node.getChildren("LinkMark")[1];
    const open = node.firstChild;
    const inner = { from: open?.to ?? node.from, to: close?.from ?? node.to };
    const key = name !== null && this.#slice(name) !== "[]" ? this.#slice(name) : this.#slice(inner);
    const written = url === null ? this.#references.get(label(key)) : this.#slice(url).replace(/^<|>$/g, "");
    const address = written === undefined ? undefined : safeAddress(written);
    if (node.name === "Image") {
      found.push({ kind: "image", address: written ?? "", text: this.#slice(inner) });
      return;
    }
    if (address === undefined) {
      push(found, this.#slice(node));
      return;
    }
    const children: Inline[] = [];
    let at = inner.from;
    for (let child = node.firstChild; child !== null && child.from < inner.to; child = child.nextSibling) {
      if (child.from < inner.from) continue;
      if (child.from > at) push(children, this.#text.slice(at, child.from));
      this.#mark(child, depth + 1, children);
      at = child.to;
    }
    if (inner.to > at) push(children, this.#text.slice(at, inner.to));
    found.push({ kind: "link", address, children });
  }
}

function push(found: Inline[], text: string): void {
  const last = found.at(-1);
  if (last?.kind === "text") last.text += text;
  else found.push({ kind: "text", text });
}

function trimmed(children: Inline[]): Inline[] {
  const [first, last] = [children[0], children.at(-1)];
  if (first?.kind === "text") first.text = first.text.trimStart();
  if (last?.kind === "text") last.text = last.text.trimEnd();
  return children;
}

/** The words of inline nodes, without marks. */
export function wordsOf(children: readonly Inline[]): string {
  return children
    .map((node) => {
      switch (node.kind) {
        case "break":
          return "\n";
        case "text":
        case "code":
        case "image":
          return node.text;
        default:
          return wordsOf(node.children);
      }
    })
    .join("");
}
