//! Programs in TypeScript.

use super::Dialect;
use llm_do_core::worker::Language;

pub(super) const DIALECT: Dialect = Dialect {
    language: Language::Script,
    name: "typescript",
    file: "/program/program.ts",
    description: "\
Runs a TypeScript program that you write and returns what its `export async function main(input, ctx)` returns. Use it instead of many \
single calls: only the result comes back to you, so let the program choose, count and combine.
- `await ctx.call(\"name\", {arguments})` makes one call and returns its result. A failed call throws an error with the name `CallError`.
- `await ctx.map(items, \"name\", {limit: N})` makes a call for each item, an object of arguments, all at once, and returns the results in order. More than N items are an error.
- `ctx.log(text)` notes something for the user.
Names of calls are texts in the code. Make calls in functions at the top level and in loops with a bound, not in callbacks: \
`for (const page of pages.slice(0, 20))`, `for (let i = 0; i < 3; i++)`. \
There are no files, no network, no timers and no imports. All effects are calls.",
    modules: &["llm-do"],
    refused: &[
        ("eval", "write the code, or use `JSON.parse` for data"),
        ("Function", "write the function"),
        ("import", "a program is one text, without other modules"),
        ("import.meta", "a program is in no file"),
        ("require", "a program is one text, without other modules"),
        ("Reflect", "write the property or the call"),
        ("Proxy", "use an object"),
        ("globalThis", "write the name itself"),
        ("global", "write the name itself"),
        ("arguments", "name the parameters"),
        ("process", "there is no process to ask: return from `main`, or throw an error"),
        ("fetch", "there is no network: call a tool"),
        ("WebSocket", "there is no network: call a tool"),
        ("WebAssembly", "write the code"),
        ("setTimeout", "calls wait by themselves"),
        ("setInterval", "calls wait by themselves"),
        ("setImmediate", "calls wait by themselves"),
        ("queueMicrotask", "write the call"),
        ("SharedArrayBuffer", "use an array"),
        ("Atomics", "use a variable"),
        ("Worker", "`ctx.map` makes calls at once"),
        ("MessageChannel", "use a variable"),
        ("BroadcastChannel", "use a variable"),
        ("performance", "take the time from `input`: it differs when the run is resumed"),
        ("crypto", "take the value from `input`: it differs when the run is resumed"),
        ("WeakRef", "use a variable"),
        ("FinalizationRegistry", "use a variable"),
    ],
    hidden: &["constructor", "prototype"],
    stops: &[],
    growing: &["push", "unshift", "splice", "add", "set", "fill", "length"],
    varying: &[("Date", "now"), ("Math", "random")],
    main: "export async function main(input, ctx) {",
    attempts: "for (let attempt = 0; attempt < 10; attempt++)",
    first_items: "for (const item of items.slice(0, 50))",
    repeat: "a loop such as `for (let i = 0; i < N; i++)`",
    call: "await ctx.call(\"NAME\", {…})",
    map: "await ctx.map(items, \"NAME\", {limit: 50})",
    lambda: "a function within another expression",
    awaits: true,
};
