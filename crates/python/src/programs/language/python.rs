//! Programs in Python.

use super::Dialect;
use llm_do_core::worker::Language;

pub(super) const DIALECT: Dialect = Dialect {
    language: Language::Python,
    name: "python",
    file: "/program/program.py",
    description: "\
Runs a Python program that you write and returns what its `main(input, ctx)` returns. Use it instead of many single calls: only \
the result comes back to you, so let the program choose, count and combine.
- `ctx.call(\"name\", {arguments})` makes one call and returns its result. A failed call raises `CallError` (`from llm_do import CallError`).
- `ctx.map(items, \"name\", limit=N)` makes a call for each item, a dict of arguments, all at once, and returns the results in order. More than N items are an error.
- `ctx.log(text)` notes something for the user.
Names of calls are texts in the code. A loop that makes calls needs a bound: `for page in pages[:20]`, `for attempt in range(3)`. \
There are no files, no network and no other packages than these modules: MODULES. All effects are calls.",
    modules: &[
        "base64",
        "bisect",
        "calendar",
        "collections",
        "copy",
        "csv",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "html",
        "io",
        "itertools",
        "json",
        "llm_do",
        "math",
        "operator",
        "re",
        "statistics",
        "string",
        "textwrap",
        "typing",
        "unicodedata",
    ],
    refused: &[
        ("getattr", "write the attribute"),
        ("setattr", "use a dict"),
        ("delattr", "use a dict"),
        ("eval", "write the code, or use `json.loads` for data"),
        ("exec", "write the code"),
        ("compile", "write the code"),
        ("__import__", "write an import"),
        ("__builtins__", "write the name itself"),
        ("globals", "pass values as arguments"),
        ("locals", "pass values as arguments"),
        ("vars", "pass values as arguments"),
        ("open", "there are no files: call a tool that reads or writes"),
        ("breakpoint", "use `ctx.log`"),
        ("exit", "return from `main`"),
        ("quit", "return from `main`"),
    ],
    hidden: &[],
    stops: &["BaseException", "KeyboardInterrupt", "SystemExit", "GeneratorExit"],
    growing: &["append", "extend", "insert", "add", "update", "setdefault"],
    varying: &[
        ("datetime", "now"),
        ("datetime", "utcnow"),
        ("datetime", "today"),
        ("date", "today"),
    ],
    main: "def main(input, ctx):",
    attempts: "for attempt in range(10):",
    first_items: "for item in items[:50]",
    repeat: "a loop over `range(N)`",
    call: "ctx.call(\"NAME\", {…})",
    map: "ctx.map(items, \"NAME\", limit=50)",
    lambda: "a lambda",
    awaits: false,
};
