/** The messages between the engine and its host (`docs/reference/page-engine.md`). */

export type ErrorKind =
  | "missing"
  | "exists"
  | "wrong_kind"
  | "not_empty"
  | "quota"
  | "denied"
  | "held"
  | "network"
  | "aborted"
  | "other";

/** An effect that failed. The message may be shown to people and models. */
export interface HostError {
  kind: ErrorKind;
  message: string;
}

export interface ListedEntry {
  path: string;
  kind: "file" | "folder";
  bytes: number;
  modified_ms: number;
}

/** What `done` has beside the ID. */
export interface Result {
  base64?: string;
  /** The size of the whole file. */
  bytes?: number;
  kind?: "file" | "folder";
  modified_ms?: number;
  entries?: ListedEntry[];
  cut?: boolean;
}

/** What the command line is for `llm-do run`. */
export interface Options {
  keys?: Record<string, string>;
  variables?: Record<string, string>;
  model?: string;
  default_model?: string;
  approval?: string;
  allow?: string[];
  ask?: string[];
  deny?: string[];
  budget?: string[];
  grants?: string[];
}

/** Its name and its value. */
export type Header = [string, string];

export type Input =
  | { input: "start"; entropy: string; seal_key: string }
  | { input: "options"; options: Options }
  | { input: "request"; id: number; method: string; path: string; headers: Record<string, string>; body?: string; base64?: string }
  | { input: "close"; id: number }
  | ({ input: "done"; id: number } & Result)
  | { input: "failed"; id: number; error: HostError }
  | { input: "head"; id: number; status: number; headers: Header[] }
  | { input: "piece"; id: number; base64: string }
  | { input: "end"; id: number }
  | { input: "changed"; program: string };

interface OfRun {
  run?: string;
}

export type FileEffect =
  | ({ effect: "append"; id: number; path: string; text: string } & OfRun)
  | ({ effect: "store"; id: number; path: string; base64: string } & OfRun)
  | ({ effect: "read"; id: number; path: string; from?: number; most?: number } & OfRun)
  | ({ effect: "stat"; id: number; path: string } & OfRun)
  | ({ effect: "list"; id: number; path: string; deep?: boolean; most?: number } & OfRun)
  | ({ effect: "write"; id: number; path: string; base64: string; new?: boolean } & OfRun)
  | ({ effect: "folder"; id: number; path: string } & OfRun)
  | ({ effect: "move"; id: number; path: string; to: string } & OfRun)
  | ({ effect: "remove"; id: number; path: string; deep?: boolean } & OfRun);

export type SendEffect = {
  effect: "send";
  id: number;
  method: string;
  url: string;
  headers: Header[];
  body?: string;
} & OfRun;

export type AnswerEffect =
  | ({
      effect: "respond";
      request: number;
      status: number;
      headers: Header[];
      text?: string;
      base64?: string;
      stream: boolean;
    } & OfRun)
  | ({ effect: "piece"; request: number; text: string } & OfRun)
  | { effect: "end"; request: number; run?: string };

export type Effect =
  | FileEffect
  | SendEffect
  | AnswerEffect
  | { effect: "lock"; id: number; name: string; run?: string }
  | { effect: "unlock"; name: string; run?: string }
  | ({ effect: "wait"; id: number; ms: number } & OfRun)
  | ({ effect: "abort"; id: number } & OfRun);
