/** The questions of a run to its operator, and the answers. */

/** An answer. The methods of `Question` make answers. */
export type Answer = { readonly answer: string; readonly [field: string]: unknown };

/** Answers questions. `undefined` denies or declines. */
export type Operator = (question: Question) => Answer | undefined | Promise<Answer | undefined>;

/** A question of a run. Arguments and prompts are a model's words: show them as hostile text. */
export class Question {
  /** `approval` (may this call be made?), `input` (a worker wants words or a form) or `settlement`. */
  readonly kind: string;
  /** The ID of the run that asks. */
  readonly run: string;
  /** The workers from the one that was called down to the one that asks. */
  readonly chain: readonly string[];
  /** Of an approval or a settlement: the tool or worker that is called. */
  readonly function: string | undefined;
  /** The arguments of that call. */
  readonly input: unknown;
  /** The risk of that call. */
  readonly risk: string | undefined;
  /** The file before and after the call, if it changes one. */
  readonly preview: Readonly<Record<string, unknown>> | undefined;
  /** Of an input: what is asked. */
  readonly prompt: string | undefined;
  /** Of an input: JSON Schema of the answer; `undefined` for free text. */
  readonly schema: Readonly<Record<string, unknown>> | undefined;

  /** @param raw All fields (`docs/reference/operator-protocol.md`). */
  constructor(readonly raw: Readonly<Record<string, unknown>>) {
    this.kind = String(raw["question"]);
    this.run = String(raw["run"]);
    this.chain = Array.isArray(raw["chain"]) ? raw["chain"].map(String) : [];
    this.function = optional(raw["function"]);
    this.input = raw["input"];
    this.risk = optional(raw["risk"]);
    this.preview = raw["preview"] as Readonly<Record<string, unknown>> | undefined;
    this.prompt = optional(raw["prompt"]);
    this.schema = raw["schema"] as Readonly<Record<string, unknown>> | undefined;
  }

  /** The call is made; with `remember` the same call later in this run too. */
  approve(options: { remember?: boolean } = {}): Answer {
    return { answer: "approve", remember: options.remember ?? false };
  }

  /** The call is not made, and the model is told the reason. */
  deny(reason?: string, options: { remember?: boolean } = {}): Answer {
    return { answer: "deny", ...(reason === undefined ? {} : { reason }), remember: options.remember ?? false };
  }

  /** The call is made with these arguments, which pass every check again except the asking. */
  edit(input: unknown): Answer {
    return { answer: "edit", input };
  }

  /** The words, or a value that fits `schema`. */
  give(value: unknown): Answer {
    return { answer: "give", value };
  }

  /** There is no answer to an input, and the caller is told the reason. */
  decline(reason?: string): Answer {
    return { answer: "decline", ...(reason === undefined ? {} : { reason }) };
  }

  /** The answer of an operator that has none. */
  refuse(): Answer {
    if (this.kind === "approval") return this.deny();
    return this.kind === "input" ? this.decline() : { answer: "abort" };
  }
}

function optional(value: unknown): string | undefined {
  return value === undefined || value === null ? undefined : String(value);
}
