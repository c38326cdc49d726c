/** The engine of a page that holds one run (`llm-do runs export`): everything can be looked at, nothing can be done. */

import { EngineError, type Connection, type Engine, type Folder, type Page, type Run, type RunState, type Session } from "./engine";
import { parseJson } from "./json";
import { asRecorded, type RunEvent, type RunRecord } from "./records";

type Recorded = Extract<RunEvent, { event: "record" }>;

/** What the exporter writes into the page. */
interface Held {
  format: number;
  encoding: string;
  records: string;
}

const EVENTS_AT_ONCE = 4000;

/** Reads the records out of the page, each with the changes that it makes to the view of the run. */
export async function heldRecords(text: string): Promise<Recorded[]> {
  const held = JSON.parse(text) as Held;
  if (held.format !== 2 || held.encoding !== "gzip+base64") {
    throw new EngineError("unreadable", "This page was made by another version of llm-do.");
  }
  const packed = Uint8Array.from(atob(held.records), (c) => c.charCodeAt(0));
  const lines = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const records: Recorded[] = [];
  for (const line of (await new Response(lines).text()).split("\n")) {
    if (line.trim() === "") continue;
    const record = asRecorded(parseJson(line));
    if (record !== undefined) records.push(record);
  }
  return records;
}

const REFUSED = (): never => {
  throw new EngineError("recorded", "This page is a record of a run: nothing can be done in it.");
};
const refused = async (): Promise<never> => REFUSED();

export class RecordedEngine implements Engine {
  readonly #records: Recorded[];

  constructor(records: Recorded[]) {
    this.#records = records;
  }

  get #first(): RunRecord | undefined {
    return this.#records[0]?.record;
  }

  get id(): string {
    const first = this.#first;
    return first !== undefined && "run" in first && typeof first.run === "string" ? first.run : "";
  }

  session(): Promise<Session> {
    const first = this.#first;
    const version = first !== undefined && "version" in first && typeof first.version === "string" ? first.version : "";
    return Promise.resolve({ name: "", scopes: ["read"], read: "own", version });
  }

  run(): Promise<Run> {
    const first = this.#first;
    const last = this.#records.at(-1)?.record;
    const text = (record: RunRecord | undefined, field: string): string => {
      const value = (record as Record<string, unknown> | undefined)?.[field];
      return typeof value === "string" ? value : "";
    };
    const state = last?.kind === "run_ended" ? (text(last, "status") as RunState) : "cut_off";
    const chat = (first as { chat?: boolean } | undefined)?.chat === true;
    return Promise.resolve({
      run: this.id,
      program: text(first, "target"),
      worker: text(first, "entry"),
      chat,
      client: "",
      state,
    });
  }

  async *follow(_run: string, after: number | undefined): AsyncGenerator<RunEvent[]> {
    const rest = this.#records.filter(({ record }) => after === undefined || record.seq > after);
    for (let at = 0; at < rest.length; at += EVENTS_AT_ONCE) {
      yield rest.slice(at, at + EVENTS_AT_ONCE);
      await new Promise((resolve) => setTimeout(resolve));
    }
  }

  async runs(): Promise<Page> {
    return { runs: [await this.run()] };
  }

  programs = (): Promise<[]> => Promise.resolve([]);
  workers = (): Promise<[]> => Promise.resolve([]);
  questions = (): Promise<[]> => Promise.resolve([]);
  definitions = (): Promise<[]> => Promise.resolve([]);
  files = (_run: string, path: string): Promise<Folder> => Promise.resolve({ path, entries: [] });
  // eslint-disable-next-line require-yield -- nothing happens in a record
  async *notices(): AsyncGenerator<never> {
    return;
  }
  onConnection = (listener: (connection: Connection) => void): (() => void) => {
    void listener;
    return () => undefined;
  };

  onSession = (listener: () => void): (() => void) => {
    void listener;
    return () => undefined;
  };

  signIn = refused;
  signOut = refused;
  start = refused;
  upload = refused;
  answer = refused;
  message = refused;
  stop = refused;
  cancel = refused;
  continueRun = refused;
  exportRun = refused;
  costs = refused;
  triggers = refused;
  tests = refused;
  test = refused;
  maps = refused;
  map = refused;
  rows = refused;
  followRow = REFUSED;
  file = refused;
  definition = refused;
  save = refused;
  check = refused;
  complete = refused;
  hover = refused;
  definitionAt = refused;
  prompt = refused;
}
