/** The input of a run: what a box asks for, and the options that the answer becomes. */

export interface Asked {
  /** The worker's signature, or nothing. */
  signature: string;
  /** What the box contains at first. */
  value: string;
}

/** Reads what `llm-do show WORKER --json` prints. */
export function asked(stdout: string): Asked {
  try {
    const shown = JSON.parse(stdout) as { signature?: unknown; settings?: { key: string; value: unknown }[] };
    const parameters = shown.settings?.find((setting) => setting.key === "parameters")?.value;
    const signature = typeof shown.signature === "string" ? shown.signature : "";
    if (typeof parameters !== "object" || parameters === null) return { signature, value: "" };
    const required = Object.entries(parameters).filter(([, type]) => !(typeof type === "string" && type.endsWith("?")));
    const isText = required.length === 1 && required[0]?.[1] === "string";
    if (required.length === 0 || isText) return { signature, value: "" };
    return { signature, value: JSON.stringify(Object.fromEntries(required.map(([name, type]) => [name, emptyOf(type)]))) };
  } catch {
    return { signature: "", value: "" };
  }
}

function emptyOf(type: unknown): unknown {
  if (Array.isArray(type)) return type[0];
  const name = typeof type === "string" ? type : typeof type === "object" && type !== null && "type" in type ? type.type : undefined;
  if (name === "integer" || name === "number") return 0;
  if (name === "boolean") return false;
  if (typeof name === "string" && name.startsWith("array")) return [];
  return name === "object" ? {} : "";
}

/** Returns the options of `llm-do run` for what was entered: an object in JSON is the input, anything else the message. */
export function options(entered: string): string[] {
  const text = entered.trim();
  if (text === "") return [];
  if (text.startsWith("{")) {
    try {
      JSON.parse(text);
      return [`--input=${text}`];
    } catch {
      // A message may begin with a brace.
    }
  }
  return [`--message=${entered}`];
}
