/** The engine as a WebAssembly module: messages in, effects out. */

import { decoded, encoded, type Bytes } from "./bytes";
import type { Effect, Input } from "./protocol";

interface Exports {
  memory: WebAssembly.Memory;
  allocate(length: number): number;
  step(address: number, length: number): bigint;
}

/** What takes a step: the module, or a test in its place. */
export interface Steps {
  step(inputs: Input[]): Effect[];
}

export class EngineModule implements Steps {
  readonly #exports: Exports;

  private constructor(exports: Exports) {
    this.#exports = exports;
  }

  static async compile(bytes: Bytes): Promise<WebAssembly.Module> {
    return WebAssembly.compile(bytes);
  }

  static async make(module: WebAssembly.Module): Promise<EngineModule> {
    const { exports } = await WebAssembly.instantiate(module, {});
    return new EngineModule(exports as unknown as Exports);
  }

  step(inputs: Input[]): Effect[] {
    const now = new Date();
    const today = `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`;
    const message = encoded(JSON.stringify({ now_ms: now.getTime(), today, inputs }));
    const { memory, allocate, step } = this.#exports;
    const address = allocate(message.length) >>> 0;
    new Uint8Array(memory.buffer, address, message.length).set(message);
    const found = BigInt.asUintN(64, step(address, message.length));
    const effects = new Uint8Array(memory.buffer, Number(found >> 32n), Number(found & 0xffffffffn));
    return (JSON.parse(decoded(effects)) as { effects: Effect[] }).effects;
  }
}

const two = (number: number): string => String(number).padStart(2, "0");
