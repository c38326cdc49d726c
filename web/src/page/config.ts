/** What `llm-do page` writes into a page (`crates/serve/src/page.rs`): the places of the engine and the program, and the model. */

import { fromBase64, unpacked, type Bytes } from "./bytes";
import type { ProgramFiles } from "./desk";

export interface PageConfig {
  /** The address of the engine, relative to the page. `null`: the page holds it. */
  engine: string | null;
  /** The program. `null`: an empty page, for programs of the visitor. */
  program: {
    name: string;
    description: string | null;
    /** The hash of all of its files. */
    sha256: string;
    /** The address of its files, relative to the page. `null`: the page holds them. */
    files: string | null;
  } | null;
  /** The model of all workers, if the author of the page chose one. */
  model: string | null;
  /** The origins that the policy of the page allows, beside its own. A port may be `*`. */
  connect: string[];
}

/** Returns the text of a script element of the page that is data. */
function held(id: string): string {
  const text = document.getElementById(id)?.textContent?.trim() ?? "";
  if (text === "") throw new Error(`this page lacks its part ${id}: make it again with llm-do page`);
  return text;
}

export const config = (): PageConfig => JSON.parse(held("llm-do-page")) as PageConfig;

async function fetched(address: string): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(new URL(address, document.baseURI));
  } catch {
    throw new Error(`${address} can't be loaded. Are you offline?`);
  }
  if (!response.ok) throw new Error(`${address} can't be loaded: the site answered with status ${response.status}`);
  return response;
}

/** Returns the engine. `progress` hears how many of how many bytes have arrived. */
export async function engineOf({ engine }: PageConfig, progress: (bytes: number, of: number) => void): Promise<Bytes> {
  if (engine === null) return fromBase64(held("llm-do-engine"));
  const response = await fetched(engine);
  const of = Number(response.headers.get("content-length") ?? 0);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  const reader = response.body?.getReader();
  for (let read = await reader?.read(); read?.done === false; read = await reader?.read()) {
    pieces.push(read.value);
    bytes += read.value.length;
    progress(bytes, of);
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

export async function programOf({ files }: NonNullable<PageConfig["program"]>): Promise<ProgramFiles> {
  const packed = files === null ? fromBase64(held("llm-do-program")) : new Uint8Array(await (await fetched(files)).arrayBuffer());
  return JSON.parse(new TextDecoder().decode(await unpacked(packed))) as ProgramFiles;
}
