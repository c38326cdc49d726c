/** Numbers, times and sizes for people. */

/** `850 ms`, `12.4 s`, `3 min 05 s`, `2 h 10 min`. */
export function duration(ms: number): string {
  if (!Number.isFinite(ms) || ms < 0) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  if (hours === 0) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${hours} h ${String(minutes).padStart(2, "0")} min`;
}

/** `950`, `12.4k`, `3.1M`. */
export function count(n: number): string {
  if (n < 1000) return String(n);
  if (n < 999_950) return `${trimmed(n / 1000)}k`;
  return `${trimmed(n / 1_000_000)}M`;
}

function trimmed(n: number): string {
  return n >= 100 ? n.toFixed(0) : n.toFixed(1).replace(/\.0$/, "");
}

/** `$0.0042`, `$1.20`, and `<$0.000001` for less. */
export function cost(usd: number): string {
  if (usd === 0) return "$0";
  if (usd < 0.000_001) return "<$0.000001";
  // Two digits, without an exponent.
  return usd < 0.01 ? `$${usd.toFixed(1 - Math.floor(Math.log10(usd)))}` : `$${usd.toFixed(usd < 1 ? 3 : 2)}`;
}

/** `512 B`, `3.4 kB`, `1.2 MB`. */
export function bytes(n: number): string {
  if (n < 1000) return `${n} B`;
  if (n < 1_000_000) return `${trimmed(n / 1000)} kB`;
  return `${trimmed(n / 1_000_000)} MB`;
}

const sameDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const otherDay = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
});
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** A time as a list shows it: without the date if it is today. */
export function time(ms: number, now: number): string {
  const [then, today] = [new Date(ms), new Date(now)];
  // Beyond the years that a date can have.
  if (Number.isNaN(then.getTime())) return "";
  return (then.toDateString() === today.toDateString() ? sameDay : otherDay).format(then);
}

/** A time with its date and seconds. */
export function exactTime(ms: number): string {
  const then = new Date(ms);
  return Number.isNaN(then.getTime()) ? "" : exact.format(then);
}

/** `1 call`, `2 calls`. */
export function plural(n: number, one: string, many = `${one}s`): string {
  return `${n} ${n === 1 ? one : many}`;
}
