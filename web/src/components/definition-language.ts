/**
 * What the editor shows of definition files: completion, hover, definitions. The engine knows the language; this file only
 * hands over positions and draws.
 */

import { autocompletion, completionKeymap, type Completion, type CompletionContext, type CompletionResult } from "@codemirror/autocomplete";
import type { Extension, Text } from "@codemirror/state";
import { EditorView, hoverTooltip, keymap } from "@codemirror/view";
import { mount, unmount } from "svelte";
import type { Candidate, CandidateKind, Explanation, TextPosition } from "../engine/engine";
import Markdown from "./Markdown.svelte";

/** The language of the file that is open. `text`: as it is in the editor. */
export interface LanguageService {
  complete(text: string, position: TextPosition, signal: AbortSignal): Promise<Candidate[]>;
  hover(text: string, position: TextPosition): Promise<Explanation | undefined>;
  /** Shows the definition of the word there. */
  define(text: string, position: TextPosition): void;
}

/** The icons of candidates. */
const ICONS: Record<CandidateKind, string> = {
  key: "property",
  choice: "enum",
  worker: "function",
  tool: "method",
  toolset: "namespace",
  library: "namespace",
  model: "constant",
  variable: "variable",
  function: "function",
  file: "text",
  type: "type",
};

/** An offset in a text. What lies behind the end of a line or of the text is the end. */
export function offsetOf(doc: Text, { line, character }: TextPosition): number {
  if (line >= doc.lines) return doc.length;
  const at = doc.line(Math.max(line, 0) + 1);
  return Math.min(at.from + character, at.to);
}

export function positionOf(doc: Text, offset: number): TextPosition {
  const line = doc.lineAt(offset);
  return { line: line.number - 1, character: offset - line.from };
}

function drawn(markdown: string): { dom: HTMLElement; destroy: () => void } {
  const dom = document.createElement("div");
  dom.className = "cm-explanation";
  const shown = mount(Markdown, { target: dom, props: { text: markdown } });
  return { dom, destroy: () => void unmount(shown) };
}

async function candidates(service: LanguageService, context: CompletionContext): Promise<CompletionResult | null> {
  const { doc } = context.state;
  const gone = new AbortController();
  context.addEventListener("abort", () => gone.abort());
  let found: Candidate[];
  try {
    found = await service.complete(doc.toString(), positionOf(doc, context.pos), gone.signal);
  } catch {
    // The page reports a lost server elsewhere. The editor then works without candidates.
    return null;
  }
  const [first] = found;
  if (first === undefined) return null;
  const options = found.map(({ label, insert, kind, about }, index): Completion => ({
    label,
    apply: insert,
    type: ICONS[kind],
    // The order of the engine, among those that fit equally well.
    sortText: String(index).padStart(5, "0"),
    ...(about === "" ? {} : { info: () => drawn(about) }),
  }));
  const { start, end } = first.replace;
  return { from: offsetOf(doc, start), to: offsetOf(doc, end), options, validFor: /^[\w-]*$/ };
}

export function definitionLanguage(service: LanguageService): Extension {
  const define = (view: EditorView, offset: number): true => {
    service.define(view.state.doc.toString(), positionOf(view.state.doc, offset));
    return true;
  };
  return [
    autocompletion({ override: [(context) => candidates(service, context)] }),
    keymap.of([...completionKeymap, { key: "F12", preventDefault: true, run: (view) => define(view, view.state.selection.main.head) }]),
    hoverTooltip(async ({ state: { doc } }, offset) => {
      const found = await service.hover(doc.toString(), positionOf(doc, offset)).catch(() => undefined);
      if (found === undefined) return null;
      const { start, end } = found.range;
      return { pos: offsetOf(doc, start), end: offsetOf(doc, end), create: () => drawn(found.markdown) };
    }),
    EditorView.domEventHandlers({
      mousedown(event, view) {
        if (event.button !== 0 || !(event.ctrlKey || event.metaKey)) return false;
        const offset = view.posAtCoords({ x: event.clientX, y: event.clientY });
        return offset !== null && define(view, offset);
      },
    }),
  ];
}
