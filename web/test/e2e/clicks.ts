/** Clicks that are counted: what a person does for a job. */

import type { Locator } from "playwright-core";

export class Clicks {
  count = 0;

  async on(target: Locator): Promise<void> {
    await target.click();
    this.count++;
  }

  /** A choice in a list of the browser takes two clicks: one opens it. */
  async choose(target: Locator, option: string | { label: string } | { index: number }): Promise<void> {
    await target.selectOption(option);
    this.count += 2;
  }
}
