/** Texts of definitions that are open, with what is not saved yet. They outlive the page that shows them. */

import type { Definition } from "../engine/engine";

export interface Draft {
  /** What is saved. The hash is `null` of a file that is not there yet. */
  saved: Omit<Definition, "sha256"> & { sha256: string | null };
  text: string;
}

type Texts = ReadonlyMap<string, Draft>;
const NONE: Texts = new Map();
const isChanged = ({ saved, text }: Draft): boolean => saved.sha256 === null || saved.text !== text;

export class Drafts {
  #programs = $state.raw<ReadonlyMap<string, Texts>>(new Map());

  /** The open texts of a program, by path. */
  of(program: string): Texts {
    return this.#programs.get(program) ?? NONE;
  }

  /** The paths of a program's texts that are not saved. */
  unsaved(program: string): string[] {
    return [...this.of(program)].filter(([, draft]) => isChanged(draft)).map(([path]) => path);
  }

  get isAnyUnsaved(): boolean {
    return [...this.#programs.keys()].some((program) => this.unsaved(program).length > 0);
  }

  set(program: string, path: string, draft: Draft): void {
    this.#put(program, new Map([...this.of(program), [path, draft]]));
  }

  /** Drops a text, saved or not. */
  drop(program: string, path: string): void {
    this.#put(program, new Map([...this.of(program)].filter(([open]) => open !== path)));
  }

  /** Drops the texts without a change, so that they are read again. */
  closeUnchanged(program: string): void {
    this.#put(program, new Map([...this.of(program)].filter(([, draft]) => isChanged(draft))));
  }

  clear(): void {
    this.#programs = new Map();
  }

  #put(program: string, texts: Texts): void {
    this.#programs = new Map([...this.#programs, [program, texts]]);
  }
}
