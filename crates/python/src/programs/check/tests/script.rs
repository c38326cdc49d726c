//! Programs in TypeScript.

use super::{bounds_in, checked_in, finds_in};
use crate::programs::check::LONGEST;
use llm_do_core::worker::Language::Script;

fn bounds(code: &str, expected: &str) {
    bounds_in(Script, code, expected);
}

fn finds(code: &str, place: &str, words: &str) {
    finds_in(Script, code, place, words);
}

fn main(body: &str) -> String {
    let lines: Vec<String> = body.lines().map(|line| format!("  {line}\n")).collect();
    format!("export async function main(input, ctx) {{\n{}}}\n", lines.concat())
}

#[test]
fn calls_are_counted_with_their_loops() {
    bounds(&main("return 1"), "no calls");
    bounds(&main("return await ctx.call('read', {path: 'a'});"), "at most 1 call: read");
    bounds(&main("return ctx.call(`read`, {path: input.path as string});"), "at most 1 call: read");
    bounds(&main("return await ctx?.call('read', {path: 'a'});"), "at most 1 call: read");
    bounds(&main("return await ctx['call']('read', {path: 'a'});"), "at most 1 call: read");
    bounds(
        &main("for (let i = 0; i < 3; i++) {\n  await ctx.call('ask', {input: `${i}`});\n}"),
        "at most 3 calls: ask (3)",
    );
    bounds(
        &main("for (let i = 1; i <= 10; i += 3) await ctx.call('ask', {input: 'x'});"),
        "at most 4 calls: ask (4)",
    );
    bounds(
        &main(
            "const names: string[] = input.names.slice(0, 5);\nfor (const name of names) await ctx.call('ask', {input: name});",
        ),
        "at most 5 calls: ask (5)",
    );
    bounds(
        &main(
            "const names = input.slice(0, 9);\nfor (let i = 0; i < 6 && i < names.length; i++) await ctx.call('ask', {input: names[i]});",
        ),
        "at most 6 calls: ask (6)",
    );
    bounds(
        &main(
            "const n = Math.min(input.length, 8);\nfor (let i = 0; i < n; i++) await ctx.call('ask', {input: input[i]});",
        ),
        "at most 8 calls: ask (8)",
    );
    bounds(
        &main(
            "const texts = await ctx.map(input.map((p) => ({path: p})), 'read', {limit: 7});\n\
             for (const text of texts.filter((t) => t)) { if (!text) continue; await ctx.call('ask', {input: text}); }",
        ),
        "at most 14 calls: read (7), ask (7)",
    );
    bounds(
        &main("if (input) await ctx.call('read', {path: 'a'});\nelse await ctx.call('read', {path: 'b'});"),
        "at most 1 call: read",
    );
    bounds(
        "const one = async (ctx: any, n: string) => ctx.call('ask', {input: n});\n\
         async function two(ctx, n) { try { return await one(ctx, n); } catch { return null; } }\n\
         export default async function main({names}: {names: string[]}, ctx) {\n  return [await two(ctx, 'a'), await one(ctx, 'b'), names];\n}\n",
        "at most 2 calls: ask (2)",
    );
    bounds(
        "const KINDS = ['a', 'b'];\nexport async function main(input, ctx) {\n  for (const kind of [...KINDS, 'c']) await ctx.call('ask', {input: kind});\n}\n",
        "at most 3 calls: ask (3)",
    );
    bounds(
        &main(
            "for (const [i, x] of Object.entries({a: 1, b: 2})) await ctx.call('ask', {input: i});\nwhile (input.x) input.x--;",
        ),
        "at most 2 calls: ask (2)",
    );
}

#[test]
fn loops_without_a_bound_are_found() {
    let place = "line 2, column 3";
    finds(&main("while (true) await ctx.call('ask', {input: 'x'});"), place, "attempt < 10; attempt++");
    finds(&main("do { await ctx.call('ask', {input: 'x'}); } while (input)"), place, "attempt < 10");
    finds(&main("for (;;) { await ctx.call('ask', {input: 'x'}); }"), place, "attempt < 10");
    finds(&main("for (const x of input) await ctx.call('ask', {input: x});"), place, "items.slice(0, 50)");
    finds(&main("for (const x in {a: 1}) await ctx.call('ask', {input: x});"), place, "no bound");
    finds(
        &main("for (let i = 0; i < 3; i++) { i = 0; await ctx.call('ask', {input: 'x'}); }"),
        place,
        "no bound",
    );
    finds(&main("for (let i = 0; i < 3; i--) { await ctx.call('ask', {input: 'x'}); }"), place, "no bound");
    finds(
        &main("for (let i = 0; i < input.length; i++) await ctx.call('ask', {input: 'x'});"),
        place,
        "no bound",
    );
    finds(&main("return await ctx.map(input, 'ask');"), "line 2, column 16", "{limit: 50}");
    finds(&main("const n = 5;\nawait ctx.map(input, 'ask', {limit: n});"), "line 3, column 9", "as a number");
    finds(&main("await ctx.map(input, 'ask', {limit: 5, ...input});"), "line 2, column 9", "as a number");
    finds(&main("await ctx.map(input, 'ask', {limit: 101});"), "line 1, column 8", "101 calls");
    // Lists that grow have no bound.
    finds(
        &main("const todo = ['a'];\nfor (const x of todo) todo.push(await ctx.call('ask', {input: x}));"),
        "line 3, column 3",
        "no bound",
    );
    finds(
        &main("const todo = ['a'];\nfor (const x of todo) todo[9] = await ctx.call('ask', {input: x});"),
        "line 3, column 3",
        "no bound",
    );
    finds(
        "async function again(ctx, n) {\n  await ctx.call('ask', {input: 'x'});\n  await again(ctx, n);\n}\nexport async function main(input, ctx) { await again(ctx, 1); }\n",
        "line 3, column 9",
        "calls itself",
    );
    finds(
        "const a = async (ctx) => b(ctx);\nasync function b(ctx) { await ctx.call('ask', {input: 'x'}); await a(ctx); }\nasync function main(input, ctx) { await a(ctx); }\n",
        "line 2, column 68",
        "calls itself",
    );
}

#[test]
fn names_and_arguments_are_compared_with_signatures() {
    let place = "line 2, column 9";
    finds(&main("await ctx.call('raed', {path: 'x'});"), place, "there are `read`, `ask`, `write`");
    finds(&main("await ctx.call('read', {file: 'x', ...input});"), "line 2, column 33", "no argument `file`");
    finds(&main("await ctx.call('write', {path: 'x'});"), place, "lacks `content`");
    finds(&main("await ctx.call('read');"), place, "lacks `path`");
    finds(
        &main("await ctx.call('read', {path: 3});"),
        "line 2, column 33",
        "of type string, and this is integer",
    );
    finds(
        &main("await ctx.map(input.map((x) => ({input: x, y: 1})), 'ask', {limit: 3});"),
        "line 2, column 49",
        "`y`",
    );
    finds(&main("await ctx.call(input, {path: 'x'});"), place, "a text in the code");
    finds(&main("await ctx.call`read`;"), place, "a text in the code");
    finds(&main("await ctx.call(...input);"), place, "one by one");
    finds(&main("ctx.call('read', {path: 'x'});"), "line 2, column 3", "write `await` before it");
    bounds(
        &main("const path = 'x';\nawait ctx.call('read', {path, offset: undefined});"),
        "at most 1 call: read",
    );
    bounds(&main("await ctx.call('read', {...input});"), "at most 1 call: read");
}

#[test]
fn hidden_calls_are_found() {
    let ctx = "use `ctx` only as";
    finds(&main("const f = ctx.call;\nreturn await f('read', {path: 'x'});"), "line 2, column 13", ctx);
    finds(&main("return await ctx['ca' + 'll']('read', {path: 'x'});"), "line 2, column 16", ctx);
    finds(&main("const {call} = ctx;"), "line 2, column 18", ctx);
    finds(&main("const a = [ctx];"), "line 2, column 14", ctx);
    finds(&main("const a = {ctx};"), "line 2, column 14", ctx);
    finds(&main("const a = {...ctx};"), "line 2, column 17", ctx);
    finds(&main("input.f(ctx);"), "line 2, column 11", ctx);
    finds(&main("await ctx.call.apply(null, ['read', {path: 'x'}]);"), "line 2, column 9", ctx);
    for (code, name) in [
        ("eval('1');", "eval"),
        ("new Function('return 1')();", "Function"),
        ("Reflect.apply(input, null, []);", "Reflect"),
        ("new Proxy({}, {});", "Proxy"),
        ("globalThis.x = 1;", "globalThis"),
        ("await import('node:fs');", "import"),
        ("import.meta.url;", "import.meta"),
        ("arguments[1].call('read', {path: 'x'});", "arguments"),
        ("process.exit(0);", "process"),
        ("setTimeout(() => 1, 5);", "setTimeout"),
        ("(() => 1).constructor('1')();", "constructor"),
        ("(() => 1)['constructor']('1')();", "constructor"),
        ("input.__proto__ = null;", "__proto__"),
        ("[]['__proto__'].x = 1;", "__proto__"),
    ] {
        finds(&main(code), "line 2, column ", &format!("`{name}` is not available"));
    }
    finds(&main("await ctx.step('x', 1);"), "line 2, column 9", "`ctx.step` is not available");
    finds(
        &main("await Promise.all(input.map((x) => ctx.call('ask', {input: x})));"),
        "line 2, column 38",
        "await ctx.map(items, \"name\", {limit: 50})",
    );
    finds(
        &main("async function f() { await ctx.call('ask', {input: 'x'}); }\nawait f();"),
        "line 2, column 30",
        "a function within a function",
    );
    finds(&main("class A { static x = ctx.call('ask', {input: 'x'}); }"), "line 2, column 24", "in a class");
    finds(
        "async function one(x, ctx) { return await ctx.call('ask', {input: x}); }\nasync function main(input, ctx) {\n  const g = one;\n}\n",
        "line 3, column 13",
        "by its name",
    );
    finds(
        "async function one(x, ctx, y = ctx.call('ask', {input: x})) {}\nasync function main(input, ctx) {}\n",
        "line 1, column 32",
        "the head of a function",
    );
}

#[test]
fn imports_and_values_that_differ_are_found() {
    finds(
        "import fs from 'node:fs';\nexport function main(input, ctx) {}\n",
        "line 1, column 1",
        "`node:fs`",
    );
    finds("export * from 'fs';\nexport function main(input, ctx) {}\n", "line 1, column 1", "`fs`");
    for (code, name) in
        [("Math.random();", "random"), ("Date.now();", "now"), ("new Date();", "Date"), ("Date();", "Date")]
    {
        finds(&main(code), "line 2, column 3", &format!("`{name}` differs"));
    }
    bounds(
        "import { CallError } from 'llm-do';\nexport async function main(input, ctx) {\n  try { return await ctx.call('read', {path: 'a'}); }\n  \
         catch (error) { if (error instanceof CallError) return String(new Date(input.at)); throw error; }\n}\n",
        "at most 1 call: read",
    );
}

#[test]
fn the_form_of_a_program_is_checked() {
    finds("const x = 1;\n", "line 1, column 1", "no function `main`");
    finds("export function main(ctx) {}\n", "line 1, column 8", "async function main(input, ctx)");
    finds("export function main(input, {call}) {}\n", "line 1, column 8", "async function main(input, ctx)");
    for (code, place, words) in [
        ("export function main(input, ctx) {\n  const x = ;\n}\n", "2:", "syntax error"),
        ("enum A { B }\nexport function main(input, ctx) {}\n", "1:", "enum is not supported"),
        ("function main(input, ctx) { let a; let a; }\n", "1:", "already been declared"),
    ] {
        let Some(checked) = checked_in(Script, code, LONGEST) else { return };
        let problem = checked.expect_err("a syntax error");
        assert!(problem.starts_with(place) && problem.contains(words), "{problem}");
    }
    for deep in [("[".repeat(150), "]".repeat(150)), ("(".repeat(20_000), ")".repeat(20_000))] {
        let code = main(&format!("return {}1{};", deep.0, deep.1));
        let problem = checked_in(Script, &code, LONGEST).expect("there is Node").expect_err("too deep");
        assert!(problem.contains("deep") || problem.contains("nested"), "{problem}");
    }
}

#[test]
fn the_check_of_a_long_program_is_fast() {
    let functions: String =
        (0..1_000).map(|n| format!("async function g{n}(ctx) {{ await g{}(ctx); }}\n", n + 1)).collect();
    let last = "async function g1000(ctx) { await ctx.call('ask', {input: 'x'}); }\n";
    bounds(
        &format!("{functions}{last}export async function main(input, ctx) {{ await g0(ctx); }}\n"),
        "at most 1 call: ask",
    );
}
