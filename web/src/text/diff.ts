/** Differences of two texts, by line. */

/** A line of a comparison. Numbers count from 1. */
export interface Line {
  kind: "same" | "removed" | "added";
  text: string;
  before?: number;
  after?: number;
}

/** A row of two columns. A line that was changed stands beside the one that replaces it. */
export interface Row {
  before?: Line;
  after?: Line;
}

/** Lines that are shown, or a number of equal ones that are folded. */
export type Section<T> = { folded: false; rows: T[] } | { folded: true; rows: T[] };

/** Most edits that are searched for. Texts that differ by more are shown as replaced, so that the time is bounded. */
const MOST_EDITS = 1500;

/** The lines of a text. The last line break ends the last line and does not begin another one. */
export function linesOf(text: string): string[] {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

/** Compares two texts. An absent text has no lines. */
export function compare(before: string | null, after: string | null): Line[] {
  const [a, b] = [linesOf(before ?? ""), linesOf(after ?? "")];
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const lines: Line[] = [];
  const same = (i: number, j: number): void => {
    lines.push({ kind: "same", text: a[i] ?? "", before: i + 1, after: j + 1 });
  };
  for (let i = 0; i < head; i++) same(i, i);
  let [i, j] = [head, head];
  for (const edit of edits(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) {
    if (edit === "same") same(i++, j++);
    else if (edit === "removed") lines.push({ kind: "removed", text: a[i] ?? "", before: ++i });
    else lines.push({ kind: "added", text: b[j] ?? "", after: ++j });
  }
  for (; i < a.length; i++, j++) same(i, j);
  return lines;
}

/** The shortest sequence of edits (Myers, "An O(ND) Difference Algorithm and Its Variations", 1986). */
function edits(a: string[], b: string[]): Line["kind"][] {
  const replaced = (): Line["kind"][] => [...a.map(() => "removed" as const), ...b.map(() => "added" as const)];
  if (a.length === 0 || b.length === 0) return replaced();
  const most = Math.min(a.length + b.length, MOST_EDITS);
  const offset = most + 1;
  const furthest = new Int32Array(2 * offset + 1);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= most; d++) {
    trace.push(furthest.slice(offset - d - 1, offset + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const left = furthest[offset + k - 1] ?? 0;
      const right = furthest[offset + k + 1] ?? 0;
      let x = k === -d || (k !== d && left < right) ? right : left + 1;
      let y = x - k;
      while (x < a.length && y < b.length && a[x] === b[y]) {
        x++;
        y++;
      }
      furthest[offset + k] = x;
      if (x >= a.length && y >= b.length) return walk(trace, a.length, b.length);
    }
  }
  return replaced();
}

function walk(trace: Int32Array[], x: number, y: number): Line["kind"][] {
  const found: Line["kind"][] = [];
  for (let d = trace.length - 1; d > 0; d--) {
    const before = trace[d];
    // Entry `i` of round `d` belongs to diagonal `i - d - 1`.
    const at = (k: number): number => before?.[k + d + 1] ?? 0;
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const from = down ? k + 1 : k - 1;
    const [startX, startY] = [at(from), at(from) - from];
    const [afterX, afterY] = down ? [startX, startY + 1] : [startX + 1, startY];
    for (; x > afterX && y > afterY; x--, y--) found.push("same");
    found.push(down ? "added" : "removed");
    [x, y] = [startX, startY];
  }
  for (; x > 0 && y > 0; x--, y--) found.push("same");
  return found.reverse();
}

/** The lines in two columns. */
export function sideBySide(lines: Line[]): Row[] {
  const rows: Row[] = [];
  let [removed, added]: [Line[], Line[]] = [[], []];
  const flush = (): void => {
    for (let i = 0; i < Math.max(removed.length, added.length); i++) {
      const row: Row = {};
      const [before, after] = [removed[i], added[i]];
      if (before !== undefined) row.before = before;
      if (after !== undefined) row.after = after;
      rows.push(row);
    }
    [removed, added] = [[], []];
  };
  for (const line of lines) {
    if (line.kind === "removed") removed.push(line);
    else if (line.kind === "added") added.push(line);
    else {
      flush();
      rows.push({ before: line, after: line });
    }
  }
  flush();
  return rows;
}

/** Folds long stretches that did not change, with `context` lines kept on both sides. */
export function fold<T>(rows: T[], isSame: (row: T) => boolean, context = 3): Section<T>[] {
  const sections: Section<T>[] = [];
  let at = 0;
  while (at < rows.length) {
    let end = at;
    const first = rows[at];
    const same = first !== undefined && isSame(first);
    while (end < rows.length && isSame(rows[end] as T) === same) end++;
    const stretch = rows.slice(at, end);
    const head = at === 0 ? 0 : context;
    const tail = end === rows.length ? 0 : context;
    if (same && stretch.length > head + tail + 1) {
      if (head > 0) sections.push({ folded: false, rows: stretch.slice(0, head) });
      sections.push({ folded: true, rows: stretch.slice(head, stretch.length - tail) });
      if (tail > 0) sections.push({ folded: false, rows: stretch.slice(stretch.length - tail) });
    } else {
      sections.push({ folded: false, rows: stretch });
    }
    at = end;
  }
  return sections;
}

/** The beginning and the end that two versions of a line share, in UTF-16 units, so that the rest can be marked. */
export function common(before: string, after: string): { head: number; tail: number } {
  let head = 0;
  while (head < before.length && head < after.length && before[head] === after[head]) head++;
  let tail = 0;
  while (
    tail < before.length - head &&
    tail < after.length - head &&
    before[before.length - 1 - tail] === after[after.length - 1 - tail]
  ) {
    tail++;
  }
  // Not between the halves of a pair.
  if (/[\ud800-\udbff]/.test(before[head - 1] ?? "")) head--;
  if (/[\udc00-\udfff]/.test(before[before.length - tail] ?? "")) tail--;
  return { head: Math.max(head, 0), tail: Math.max(tail, 0) };
}
