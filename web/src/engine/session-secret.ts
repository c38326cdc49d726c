/**
 * The page's secret of its session with the server (`docs/reference/http.md#pages-in-a-browser`). The storage belongs to this
 * origin: all tabs share it, and no other port of this machine reads it.
 */

const KEY = "llm-do-session";

export class SessionSecret {
  /** Where the browser stores nothing, the secret lasts as long as the page. */
  #kept: string | null = null;

  get(): string | null {
    try {
      return localStorage.getItem(KEY) ?? this.#kept;
    } catch {
      return this.#kept;
    }
  }

  set(secret: string | null): void {
    this.#kept = secret;
    try {
      if (secret === null) localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, secret);
    } catch {
      // A browser may store nothing.
    }
  }

  /** Calls back when another tab signs in or out. Returns what ends that. */
  onChange(listener: () => void): () => void {
    const changed = (event: StorageEvent): void => {
      // A `null` key: everything was removed.
      if (event.key !== KEY && event.key !== null) return;
      this.#kept = event.key === null ? null : event.newValue;
      listener();
    };
    globalThis.addEventListener?.("storage", changed);
    return () => globalThis.removeEventListener?.("storage", changed);
  }
}
