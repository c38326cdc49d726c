/** Where the reader is. The address has it behind `#`, so that no server needs to know the pages. */

export type Route =
  | { page: "home" }
  /** `from`, `call`: the call of an earlier run whose input is filled in. */
  | { page: "start"; program: string; worker: string; from: string; call: string }
  /** Two calls of runs. An empty `b` is chosen by the page. */
  | { page: "compare"; a: Side; b: Side }
  /** The costs of runs. */
  | { page: "costs"; query: URLSearchParams }
  /** What starts runs by itself. */
  | { page: "triggers" }
  | { page: "runs"; query: URLSearchParams }
  | { page: "run"; run: string; view: string; item: string }
  | { page: "inbox" }
  /** Models, keys and files of an engine in the page. */
  | { page: "setup" }
  | { page: "program"; program: string; file: string }
  /** The results of `llm-do test`. An empty `test` is the newest. */
  | { page: "tests"; program: string; test: string }
  /** A map and its rows. An empty `map` is the newest. */
  | { page: "maps"; program: string; map: string; query: URLSearchParams }
  /** The run of a row. */
  | { page: "row"; program: string; map: string; row: string; view: string; item: string }
  | { page: "missing" };

/** A call of a run. */
export interface Side {
  run: string;
  call: string;
}

/** The address of the comparison of two calls. Without `b`, with the one before. */
export function compared(a: Side, b?: Side): string {
  const query = new URLSearchParams({ a: a.run, ac: a.call });
  if (b !== undefined) for (const [name, value] of [["b", b.run], ["bc", b.call]] as const) query.set(name, value);
  return `#/compare?${query}`;
}

/** An address of a page of the app. */
export function href(...parts: string[]): string {
  return `#/${parts.map((part) => encodeURIComponent(part)).join("/")}`;
}

/** The address of a new run of a worker, with the input of a call of an earlier run. */
export function again(program: string, worker: string, run: string, call: string): string {
  return `${href("start", program, worker)}?${new URLSearchParams({ from: run, call })}`;
}

/** The route of an address. What can't be read is no page. */
export function routeOf(hash: string): Route {
  const [path = "", search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  let parts: string[];
  try {
    parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return { page: "missing" };
  }
  const query = new URLSearchParams(search);
  const [page, first = "", second = "", third = "", view = "", item = ""] = parts;
  switch (page) {
    case undefined:
      return { page: "home" };
    case "start":
      return { page: "start", program: first, worker: second, from: query.get("from") ?? "", call: query.get("call") ?? "0" };
    case "compare": {
      const side = (name: string): Side => ({ run: query.get(name) ?? "", call: query.get(`${name}c`) ?? "0" });
      return { page: "compare", a: side("a"), b: side("b") };
    }
    case "costs":
      return { page: "costs", query };
    case "triggers":
      return { page: "triggers" };
    case "runs":
      return first === ""
        ? { page: "runs", query }
        : { page: "run", run: first, view: second, item: third };
    case "inbox":
    case "setup":
      return { page };
    case "tests":
      return { page: "tests", program: first, test: second };
    case "maps":
      return third === ""
        ? { page: "maps", program: first, map: second, query }
        : { page: "row", program: first, map: second, row: third, view, item };
    case "programs":
      return { page: "program", program: first, file: second };
    default:
      return { page: "missing" };
  }
}

export class Router {
  current = $state.raw<Route>(routeOf(location.hash));

  constructor() {
    addEventListener("hashchange", () => (this.current = routeOf(location.hash)));
  }

  go(to: string): void {
    location.hash = to;
  }

  /** Changes the address without a step back in the browser's history. */
  replace(to: string): void {
    history.replaceState(null, "", to);
    this.current = routeOf(location.hash);
  }
}
