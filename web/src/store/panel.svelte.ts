/** What an editor shows in its panel. */

import type { Shown } from "../PanelApp.svelte";
import type { AppStore } from "./app.svelte";

export class Panel {
  /** The worker at the cursor. `undefined`: the editor has not said yet. */
  current = $state.raw<Shown | undefined>(undefined);
  readonly #app: AppStore;
  readonly #ask: () => void;
  #saved: ((all: boolean) => void) | undefined;

  /** `ask`: asks the editor to save its documents. */
  constructor(app: AppStore, ask: () => void) {
    this.#app = app;
    this.#ask = ask;
  }

  show(shown: Shown): void {
    const before = this.current;
    this.current = shown;
    // Another program has another server. Another worker ends a look at an earlier run.
    if (before !== undefined && before.program !== shown.program) void this.#app.begin();
    if (before !== undefined && (before.program !== shown.program || before.file !== shown.file)) this.#app.router.go("#/");
  }

  save(): Promise<boolean> {
    this.#saved?.(false);
    return new Promise((resolve) => {
      this.#saved = resolve;
      this.#ask();
    });
  }

  saved(all: boolean): void {
    this.#saved?.(all);
    this.#saved = undefined;
  }
}
