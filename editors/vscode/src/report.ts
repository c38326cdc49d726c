/** Reads the report that `llm-do test --json` prints. */

export interface Failure {
  text: string;
  /** The expected and the actual output, where the output differs. */
  expected?: string;
  actual?: string;
}

export interface Outcome {
  file: string;
  case: string;
  model: string | undefined;
  state: "passed" | "failed" | "skipped";
  failures: Failure[];
  /** The time of all repeats, which a recorded run does not have. */
  took_ms: number | undefined;
}

interface Run {
  pass: boolean;
  failures?: string[];
  differs?: { expected: unknown; output: unknown };
  missed?: { place: string; diffs: string[] };
  took_ms?: number;
}

/** Returns the outcome of each case, or what llm-do says in place of a report. */
export function outcomes(stdout: string): { outcomes: Outcome[] } | { problem: string } {
  let report: unknown;
  try {
    report = JSON.parse(stdout);
  } catch {
    return { problem: "llm-do printed no report." };
  }
  if (!isObject(report)) return { problem: "llm-do printed no report." };
  if (!Array.isArray(report["cases"])) {
    const error = isObject(report["error"]) ? report["error"]["message"] : undefined;
    return { problem: typeof error === "string" ? error : "llm-do printed no report." };
  }
  return { outcomes: report["cases"].filter(isObject).map(outcome) };
}

function outcome(found: Record<string, unknown>): Outcome {
  const runs = (Array.isArray(found["runs"]) ? found["runs"] : []) as Run[];
  const isWhole = found["passed"] === found["of"] && found["of"] !== 0 && (found["not_run"] ?? 0) === 0;
  const several = runs.length > 1;
  const failures = runs.flatMap((run, at) => (run.pass ? [] : failuresOf(run, several ? `repeat ${at + 1}: ` : "")));
  const times = runs.map((run) => run.took_ms).filter((ms) => ms !== undefined);
  return {
    file: String(found["file"]),
    case: String(found["case"]),
    model: typeof found["model"] === "string" ? found["model"] : undefined,
    state: failures.length > 0 ? "failed" : isWhole ? "passed" : "skipped",
    failures,
    took_ms: times.length > 0 ? times.reduce((sum, ms) => sum + ms, 0) : undefined,
  };
}

function failuresOf(run: Run, before: string): Failure[] {
  const { differs } = run;
  const texts = [...(run.failures ?? []), ...(run.missed === undefined ? [] : [[`${run.missed.place}:`, ...run.missed.diffs].join("\n")])];
  if (texts.length === 0) texts.push("the case failed");
  return texts.map((text) =>
    differs !== undefined && text.startsWith("output:")
      ? { text: before + text, expected: printed(differs.expected), actual: printed(differs.output) }
      : { text: before + text },
  );
}

const printed = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
