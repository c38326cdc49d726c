/** Messages of one chat that wait until its answer is complete. They belong to this tab, and survive a reload of it. */

export class Queue {
  texts = $state.raw<readonly string[]>([]);
  readonly #key: string;

  constructor(chat: string) {
    this.#key = `llm-do-queue ${chat}`;
    try {
      const kept: unknown = JSON.parse(sessionStorage.getItem(this.#key) ?? "[]");
      if (Array.isArray(kept)) this.texts = kept.filter((text) => typeof text === "string");
    } catch {
      // A browser may keep nothing.
    }
  }

  add(text: string): void {
    this.#set([...this.texts, text]);
  }

  /** Puts a text before all others. */
  first(text: string): void {
    this.#set([text, ...this.texts]);
  }

  remove(index: number): void {
    this.#set(this.texts.filter((_, i) => i !== index));
  }

  /** Removes a text and returns it. */
  take(index: number): string | undefined {
    const text = this.texts[index];
    this.remove(index);
    return text;
  }

  #set(texts: readonly string[]): void {
    this.texts = texts;
    try {
      if (texts.length === 0) sessionStorage.removeItem(this.#key);
      else sessionStorage.setItem(this.#key, JSON.stringify(texts));
    } catch {
      // As above.
    }
  }
}
