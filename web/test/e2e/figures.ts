/** Figures of a measurement that is repeated. */

/** The median of the figures, and in words how many repetitions gave none. The median of no figures is NaN. */
export function median(figures: readonly (number | null)[]): { median: number; text: string } {
  const known = figures.filter((figure): figure is number => figure !== null && Number.isFinite(figure)).sort((a, b) => a - b);
  const median = known[Math.floor(known.length / 2)] ?? Number.NaN;
  const missing = figures.length - known.length;
  const text = known.length === 0 ? "no figure" : `median ${Math.round(median)} ms of ${known.map(Math.round).join(", ")}`;
  return { median, text: missing === 0 ? text : `${text}; ${missing} of ${figures.length} gave no figure` };
}
