//! Programs that a model writes in TypeScript (docs/guides/programs.md): checked, confined and recorded as those in Python.

use crate::{
    programs::{APPROVED, another_path_is_an_error, call, files, kinds, no_call_is_repeated, project},
    python::{
        fixture::{has_python, run, succeed},
        without_namespaces::without_namespaces,
    },
    scenario::{Finished, Scenario},
    typescript::node,
};
use serde_json::{Value, json};
use std::{fs, path::Path, thread};

/// A program that reads files, lets a worker classify each, and writes a table.
const TABLE: &str = "\
type Input = { files: string[] };
const line = async (ctx: any, name: string, text: string): Promise<string> =>
  `${name},${await ctx.call('classify', { input: text })}`;
export async function main(input: Input, ctx: any) {
  const names = input.files.slice(0, 2);
  const texts = await ctx.map(names.map((name) => ({ path: `/in/${name}` })), 'read_file', { limit: 2 });
  const rows = await Promise.all([line(ctx, names[0], texts[0]), line(ctx, names[1], texts[1])]);
  await ctx.call('write_file', { path: '/out/table.csv', content: rows.join('\\n') });
  ctx.log('wrote', rows.length, 'rows');
  return { rows: rows.length };
}
";

fn of(node: &Path, calls: &[Value]) -> Scenario {
    with("{language: typescript}", node, calls)
}

fn with(programs: &str, node: &Path, calls: &[Value]) -> Scenario {
    project(programs, calls).env("LLM_DO_NODE", node.display().to_string())
}

/// A mark of programs that never end.
const ENDLESS: &str = "/* endless */";

fn main_of(body: &str) -> String {
    format!("export async function main(input, ctx) {{\n  {body}\n}}\n")
}

/// Runs one program, and returns what the model gets.
fn told(node: &Path, code: &str) -> (Scenario, Finished) {
    let programs =
        if code.contains(ENDLESS) { "{language: typescript, timeout: 5}" } else { "{language: typescript}" };
    let scenario = with(programs, node, &[call(code, json!({"names": ["a.txt"]}))]);
    let told = run(&scenario, APPROVED);
    assert_eq!(told.code, Some(0), "{told}");
    (scenario, told)
}

fn has_written(scenario: &Scenario) {
    let table = scenario.read("out/table.csv");
    assert_eq!(table.as_deref(), Some("a.txt,kind of apples\nb.txt,kind of bananas"));
}

#[test]
fn program_makes_the_calls_of_its_worker_in_both_tiers() {
    let Some(node) = node() else { return };
    let scenario = of(&node, &[call(TABLE, files())]);
    let told = succeed(&scenario, APPROVED);
    assert_eq!(told.stdout.trim(), "{\"rows\":2}", "{told}");
    has_written(&scenario);
    let journal = scenario.journal();
    for call in kinds(&journal, "call_started")
        .iter()
        .filter(|call| call["path"].as_str().is_some_and(|path| path.starts_with("0/0.0/")))
    {
        assert_eq!(call["principal"], json!({"tool": {"tool": "run_program", "worker": "main"}}));
    }
    let notes = kinds(&journal, "note");
    assert!(notes.iter().any(|note| note["text"].as_str().is_some_and(|text| text.contains("wrote 2 rows"))));
    let started = kinds(&journal, "conversation_started");
    let tools = started[0]["tools"].as_array().expect("tools");
    let tool = tools.iter().find(|tool| tool["name"] == "run_program").expect("the tool");
    let description = tool["description"].as_str().expect("a text");
    for part in
        ["classify({input?: unknown", "write_file({path: string, content: string", "TypeScript program"]
    {
        assert!(description.contains(part), "{part}: {description}");
    }
    let scenario = of(&node, &[call(TABLE, files())]);
    let Some(told) = without_namespaces(&scenario, APPROVED) else { return };
    assert_eq!((told.code, told.stdout.trim()), (Some(0), "{\"rows\":2}"), "{told}");
    has_written(&scenario);
}

#[test]
fn model_chooses_between_two_languages() {
    let Some(node) = node().filter(|_| has_python()) else { return };
    let named = |code: &str, language: &str| {
        let mut call = call(code, json!({}));
        call["arguments"]["language"] = language.into();
        call
    };
    let calls = [
        named(&main_of("return 'TypeScript';"), "typescript"),
        call("def main(input, ctx):\n    return 'Python'\n", json!({})),
    ];
    for (calls, expected) in [(&calls[..1], "TypeScript"), (&calls[1..], "Python")] {
        let scenario =
            project("{language: [python, typescript]}", calls).env("LLM_DO_NODE", node.display().to_string());
        let told = succeed(&scenario, APPROVED);
        assert_eq!(told.stdout.trim(), expected, "{told}");
    }
}

#[test]
fn broken_and_faulty_programs_go_back_to_the_model() {
    let Some(node) = node() else { return };
    let cases = [
        (
            "for (const name of input.names) await ctx.call('read_fil', {path: name});",
            "line 2, column 41: there is no function `read_fil` to call; there are `classify`, `read_file`, `write_file`",
        ),
        (
            "for (const name of input.names) await ctx.call('read_file', {path: name});",
            "line 2, column 3: this loop calls `read_file` and has no bound",
        ),
        ("await ctx.call('read_file', {file: 'x'});", "`read_file` has no argument `file`"),
        ("const f = ctx.call; await f('read_file', {path: '/in/a.txt'});", "use `ctx` only as"),
        ("const x = ;", "syntax error"),
        ("for (;;) {} /* endless */", "was stopped: it did not make its next call or return in time"),
        (
            "await new Promise(() => {}); /* endless */",
            "was stopped: it did not make its next call or return in time",
        ),
        ("const f = (n) => f(n + 1); return f(0);", "RangeError"),
        ("return 'x'.repeat(20 << 20);", "are allowed"),
        ("throw new TypeError('one');", "program.ts:2"),
        ("return await ctx.call('read_file', {path: '/in/none.txt'});", "none.txt"),
        (
            "return await ctx.map([1, 2, 3].map((n) => ({path: '/in/a.txt'})), 'read_file', {limit: 2});",
            "more than 2 items",
        ),
        ("return ({})['con' + 'structor']['con' + 'structor']('return 1')();", "EvalError"),
        (
            "try { await ctx.call('read_file', {path: '/in/none.txt'}); } catch (error) { return error.name; }",
            "CallError",
        ),
    ];
    thread::scope(|scope| {
        for (body, words) in cases {
            let node = &node;
            scope.spawn(move || {
                let (_, told) = told(node, &main_of(body));
                assert!(told.stdout.contains(words), "{words}: {told}");
            });
        }
    });
    // A gigabyte of output does not fill the journal.
    let (scenario, _) = told(
        &node,
        &main_of(
            "const x = 'x'.repeat(1 << 16);\n  for (let n = 0; n < 1 << 14; n++) console.log(x);\n  return 1;",
        ),
    );
    let journal = fs::metadata(scenario.runs().remove(0).join("journal.jsonl")).expect("a journal").len();
    assert!(journal < 1 << 20, "{journal} bytes");
}

#[test]
fn program_that_hides_a_call_from_the_check_is_refused_the_call() {
    let Some(node) = node() else { return };
    // The check sees a list of one name, and the program makes an endless one of it.
    let (_, told) = told(
        &node,
        &main_of(
            "const names = ['a.txt'];\n  \
             Object.defineProperty(names, Symbol.iterator, {value: function* () { for (;;) yield 'a.txt'; }});\n  \
             for (const name of names) await ctx.call('read_file', {path: `/in/${name}`});",
        ),
    );
    assert!(told.stdout.contains("approved for at most 1 calls"), "{told}");
}

#[test]
fn program_becomes_a_project_whose_check_and_case_pass() {
    let Some(node) = node() else { return };
    // `main` need not be exported, and a name may be a text of any kind.
    let code = TABLE.replace("export async", "async").replace("'classify'", "`classify`");
    let scenario = of(&node, &[call(&code, files())]);
    succeed(&scenario, APPROVED);
    let told = scenario.run(&["runs", "export", "--program", "last", "0/0.0", "-o", "flow"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(scenario.read("flow/flow.ts").is_some_and(|text| text.ends_with("export { main };\n")));
    for command in [&["check", "flow"][..], &["test", "flow"]] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(0), "{command:?}: {told}");
    }
}

#[test]
fn killed_at_any_record_it_repeats_no_call() {
    let Some(node) = node() else { return };
    no_call_is_repeated(|| of(&node, &[call(TABLE, files())]));
}

#[test]
fn program_that_takes_another_path_when_it_is_resumed_has_no_second_effect() {
    let Some(node) = node() else { return };
    let code = main_of(
        "await ctx.call('write_file', {path: '/out/first.txt', content: 'x'});\n  \
         const now = Math['ran' + 'dom']();\n  \
         return await ctx.call('write_file', {path: `/out/${now}.txt`, content: 'x'});",
    );
    another_path_is_an_error(&of(&node, &[call(&code, json!({}))]));
}
