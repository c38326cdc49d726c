//! Programs that a model writes (docs/guides/programs.md): checked, approved, confined, recorded like other calls.

use crate::{
    python::fixture::{has_python, run, succeed},
    resume_after_kill::{run_until, whole_records},
    scenario::{Finished, Scenario},
};
use serde_json::{Value, json};
use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// A program that reads files, lets a worker classify each, and writes a table.
const TABLE: &str = "\
def main(input, ctx):
    names = input['files'][:20]
    texts = ctx.map([{'path': '/in/' + name} for name in names], 'read_file', limit=20)
    kinds = ctx.map([{'input': text} for text in texts], 'classify', limit=20)
    rows = [f'{name},{kind}' for name, kind in zip(names, kinds)]
    ctx.call('write_file', {'path': '/out/table.csv', 'content': '\\n'.join(rows)})
    ctx.log('wrote', len(rows), 'rows')
    return {'rows': len(rows)}
";

const MAIN: &str = "---\nmodel: script:s.json\nallow_workers: [classify]\n\
    sandbox: {paths: {in: {root: ./in, mode: ro}, out: {root: ./out, mode: rw}}}\n\
    toolsets:\n  filesystem: {tools: [read_file, write_file]}\n  programs: {PROGRAMS}\n---\nGo.\n";

pub(crate) fn call(code: &str, input: Value) -> Value {
    json!({"tool": "run_program", "arguments": {"code": code, "input": input, "why": "Makes a table."}})
}

/// A project whose model makes these calls, each in a turn of its own, and then repeats the last result.
pub(crate) fn project(programs: &str, calls: &[Value]) -> Scenario {
    let mut answers = vec![json!({"when": {"worker": "classify"}, "text": "kind of {{ last }}"})];
    for (turn, call) in calls.iter().enumerate() {
        answers.push(json!({"when": {"worker": "main", "turn": turn}, "calls": [call]}));
    }
    answers.push(json!({"when": {"worker": "main"}, "text": "{{ last }}"}));
    Scenario::new()
        .file("project.yaml", "name: p\n")
        .file("main.worker", &MAIN.replace("{PROGRAMS}", programs))
        .file(
            "workers/classify.worker",
            "---\nmodel: script:s.json\nlimits: {max_cost_usd: 0.5}\n---\nClassify.\n",
        )
        .file("in/a.txt", "apples")
        .file("in/b.txt", "bananas")
        .file("s.json", &json!({ "answers": answers }).to_string())
}

pub(crate) fn files() -> Value {
    json!({"files": ["a.txt", "b.txt"]})
}

pub(crate) const APPROVED: &[&str] = &[".", "--approval", "approve_all"];

pub(crate) fn kinds<'a>(journal: &'a [Value], kind: &str) -> Vec<&'a Value> {
    journal.iter().filter(|record| record["kind"] == kind).collect()
}

/// Runs one program that must fail or be refused, and returns what the model gets.
fn refused(programs: &str, code: &str, arguments: &[&str]) -> (Scenario, Finished) {
    let scenario = project(programs, &[call(code, json!({}))]);
    let told = run(&scenario, arguments);
    assert_eq!(told.code, Some(0), "{told}");
    (scenario, told)
}

#[test]
fn program_makes_the_calls_of_its_worker_and_returns_a_result() {
    if !has_python() {
        return;
    }
    let scenario = project("{}", &[call(TABLE, files())]);
    let told = succeed(&scenario, APPROVED);
    assert_eq!(told.stdout.trim(), "{\"rows\":2}", "{told}");
    assert_eq!(
        scenario.read("out/table.csv").as_deref(),
        Some("a.txt,kind of apples\nb.txt,kind of bananas")
    );
    let journal = scenario.journal();
    // Each call is one of the program's, judged by the gate, with a key that does not depend on the order.
    let calls: Vec<&Value> =
        kinds(&journal, "call_started").into_iter().filter(|r| r["function"] != "main").collect();
    assert_eq!(calls.len(), 6, "{calls:#?}");
    for call in &calls[1..] {
        assert_eq!(call["principal"], json!({"tool": {"tool": "run_program", "worker": "main"}}));
        let judged = |r: &&Value| r["kind"] == "verdict" && r["path"] == call["path"];
        assert!(journal.iter().any(|record| judged(&record)), "{call}");
    }
    // The model sees what a program may call, and not the tool itself.
    let started = kinds(&journal, "conversation_started");
    let tools = started[0]["tools"].as_array().expect("tools");
    let tool = tools.iter().find(|tool| tool["name"] == "run_program").expect("the tool");
    let description = tool["description"].as_str().expect("a text");
    for part in [
        "read_file(path: str",
        "classify(input: Any",
        "write_file(path: str, content: str",
        "at most 200 calls",
    ] {
        assert!(description.contains(part), "{part}: {description}");
    }
    assert!(!description.contains("\nrun_program("), "{description}");
    let notes = kinds(&journal, "note");
    assert!(notes.iter().any(|note| note["text"].as_str().is_some_and(|text| text.contains("wrote 2 rows"))));
}

#[test]
fn operator_is_asked_once_with_code_callees_and_bounds() {
    if !has_python() {
        return;
    }
    let scenario = project("{}", &[call(TABLE, files())]);
    let told = run(&scenario, &[".", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let journal = scenario.journal();
    let [asked] = kinds(&journal, "asked")[..] else { panic!("one question: {journal:#?}") };
    assert_eq!((&asked["function"], &asked["risk"]), (&json!("run_program"), &json!("exec")));
    assert_eq!(asked["input"]["code"], json!(TABLE));
    assert_eq!(
        asked["calls"],
        json!({
            "callees": [
                {"name": "classify", "most": 20}, {"name": "read_file", "most": 20}, {"name": "write_file", "most": 1},
            ],
            "cost": 10.0,
        })
    );
    // Nothing of it has run. After the approval, the gate still asks for the call that writes.
    assert_eq!(kinds(&journal, "call_started").len(), 2);
    let told = run(&scenario, &["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!(told.code, Some(5), "{told}");
    assert!(told.stderr.contains("write_file"), "{told}");
    let told = run(&scenario, &["runs", "resume", "last", "--approve", "all"]);
    assert_eq!((told.code, told.stdout.trim()), (Some(0), "{\"rows\":2}"), "{told}");
    let shown = scenario.run(&["runs", "show", "last", "--call", "0/0.0"]);
    assert!(shown.stdout.contains("at most 41 calls"), "{shown}");
}

#[test]
fn broken_program_goes_back_with_places_and_is_not_asked_about() {
    if !has_python() {
        return;
    }
    let code = "import os\n\ndef main(input, ctx):\n    for name in input:\n        ctx.call('read_fil', path=name)\n        \
                ctx.call('read_file', file=name)\n";
    let (scenario, told) = refused("{}", code, &[".", "--approval", "defer"]);
    for part in [
        "line 1, column 1: the module `os` is not available",
        "line 4, column 5: this loop calls `read_file` and has no bound",
        "line 5, column 9: there is no function `read_fil` to call; there are `classify`, `read_file`, `write_file`",
        "line 6, column 36: `read_file` has no argument `file`",
    ] {
        assert!(told.stdout.contains(part), "{part}\n{told}");
    }
    let journal = scenario.journal();
    assert!(kinds(&journal, "asked").is_empty() && kinds(&journal, "verdict").len() == 1, "{journal:#?}");
    // The same broken program over and over ends by the usual limit.
    let calls: Vec<Value> = (0..8).map(|_| call(code, json!({}))).collect();
    let scenario = project("{}", &calls);
    let told = run(&scenario, APPROVED);
    assert_ne!(told.code, Some(0), "{told}");
    assert!(told.stderr.contains("over and over with the same arguments"), "{told}");
}

#[test]
fn faulty_programs_end_with_a_reason() {
    if !has_python() {
        return;
    }
    let stopped = "was stopped: it did not make its next call or return in time";
    let cases = [
        ("def main(input, ctx):\n    while True:\n        pass\n", stopped),
        (
            "def main(input, ctx):\n    while True:\n        try:\n            sum(range(10 ** 6))\n        \
             except Exception:\n            pass\n",
            stopped,
        ),
        ("def f(n):\n    return f(n + 1)\n\ndef main(input, ctx):\n    return f(0)\n", "RecursionError"),
        ("def main(input, ctx):\n    return 'x' * (20 << 20)\n", "the limit is"),
        ("def main(input, ctx):\n    return 1 / 0\n", "program.py:2"),
        ("def main(input, ctx):\n    return ctx.call('read_file', path='/in/none.txt')\n", "none.txt"),
        (
            "def main(input, ctx):\n    return ctx.map([{'path': '/in/a.txt'}] * 3, 'read_file', limit=2)\n",
            "more than 2 items",
        ),
    ];
    thread::scope(|scope| {
        for (code, words) in cases {
            scope.spawn(move || {
                let (_, told) = refused("{timeout: 3}", code, APPROVED);
                assert!(told.stdout.contains(words), "{words}: {told}");
            });
        }
    });
    // A gigabyte of output neither fills the memory nor the journal.
    let code = "def main(input, ctx):\n    for n in range(1 << 14):\n        print('x' * (1 << 16))\n    return 'printed'\n";
    let began = Instant::now();
    let (scenario, _) = refused("{timeout: 20}", code, APPROVED);
    assert!(began.elapsed() < Duration::from_secs(100));
    let journal = fs::metadata(scenario.runs().remove(0).join("journal.jsonl")).expect("a journal").len();
    assert!(journal < 1 << 20, "{journal} bytes");
}

#[test]
fn program_that_hides_a_call_from_the_check_is_refused_the_call() {
    if !has_python() {
        return;
    }
    // The module `collections` leads to `sys`, and that to the context of the call.
    let hidden = "import collections\n\ndef main(input, ctx):\n    READ\n    \
                  here = collections._sys._getframe().f_locals['ctx']\n    return CALL\n";
    let code = hidden
        .replace("READ", "pass")
        .replace("CALL", "here.call('write_file', path='/out/hidden.txt', content='x')");
    let (scenario, told) = refused("{}", &code, APPROVED);
    assert!(told.stdout.contains("was checked and approved for other calls (no calls)"), "{told}");
    assert_eq!(scenario.read("out/hidden.txt"), None);
    // Also more calls than were approved.
    let read = |name: &str| format!("call('read_file', path='/in/{name}.txt')");
    let code =
        hidden.replace("READ", &format!("ctx.{}", read("a"))).replace("CALL", &format!("here.{}", read("b")));
    let (_, told) = refused("{}", &code, APPROVED);
    assert!(told.stdout.contains("approved for at most 1 calls"), "{told}");
}

#[test]
fn programs_may_run_unasked_if_none_of_their_calls_asks() {
    if !has_python() {
        return;
    }
    let reads = "def main(input, ctx):\n    return ctx.call('read_file', path='/in/a.txt')\n";
    let writes = "def main(input, ctx):\n    return ctx.call('write_file', path='/out/x', content='x')\n";
    let pre_approved = "{pre_approved: callees}";
    let (_, told) = refused(pre_approved, reads, &["."]);
    assert_eq!(told.stdout.trim(), "apples", "{told}");
    for (programs, code) in [(pre_approved, writes), ("{}", reads)] {
        let (scenario, told) = refused(programs, code, &["."]);
        let refused = ["needs an approval", "There is no tool `run_program`"];
        assert!(refused.iter().any(|words| told.stdout.contains(words)), "{told}");
        assert_eq!(scenario.read("out/x"), None);
    }
    // A rule of the operator that blocks a callee holds within a program.
    let (_, told) = refused(pre_approved, reads, &[".", "--deny", "read_file"]);
    assert!(told.stdout.contains("blocked") || told.stdout.contains("needs an approval"), "{told}");
}

#[test]
fn program_of_a_tainted_conversation_asks_and_its_calls_are_tainted() {
    if !has_python() {
        return;
    }
    let code = "def main(input, ctx):\n    return ctx.call('read_file', path='/in/a.txt')\n";
    let read = json!({"tool": "read_file", "arguments": {"path": "/in/b.txt"}});
    let tainted = |programs: &str| {
        let scenario = project(programs, &[read.clone(), call(code, json!({}))]);
        let worker = MAIN
            .replace("{PROGRAMS}", programs)
            .replace("root: ./in, mode: ro", "root: ./in, mode: ro, untrusted: true");
        scenario.file("main.worker", &worker)
    };
    let scenario = tainted("{pre_approved: callees}");
    let told = run(&scenario, &["."]);
    assert!(told.stdout.contains("needs an approval"), "{told}");
    let scenario = tainted("{pre_approved: callees}");
    let told = succeed(&scenario, APPROVED);
    assert_eq!(told.stdout.trim(), "apples", "{told}");
    let journal = scenario.journal();
    let calls = kinds(&journal, "call_started");
    let of = |name: &str| calls.iter().rfind(|record| record["function"] == name).expect("a call");
    for name in ["run_program", "read_file"] {
        assert!(of(name)["origins"].to_string().contains("untrusted"), "{name}: {}", of(name));
    }
}

#[test]
fn declared_output_is_enforced_and_calls_are_narrowed() {
    if !has_python() {
        return;
    }
    let returns = "{returns: {type: object, properties: {n: {type: integer}}, required: [n]}}";
    let (_, told) = refused(returns, "def main(input, ctx):\n    return {'n': 3}\n", APPROVED);
    assert_eq!(told.stdout.trim(), "{\"n\":3}", "{told}");
    let (_, told) = refused(returns, "def main(input, ctx):\n    return {'m': 3}\n", APPROVED);
    assert!(told.stdout.contains("`n`") || told.stdout.contains("\"n\""), "{told}");
    let reads = "def main(input, ctx):\n    return ctx.call('read_file', path='/in/a.txt')\n";
    let (_, told) = refused("{calls: [classify, write_*]}", reads, APPROVED);
    assert!(told.stdout.contains("there are `classify`, `write_file`"), "{told}");
    let (_, told) =
        refused("{max_calls: 1}", &format!("{reads}    ctx.call('classify', input='x')\n"), APPROVED);
    assert!(told.stdout.contains("2 calls") && told.stdout.contains("1 are allowed"), "{told}");
}

#[test]
fn program_becomes_a_project_whose_check_and_case_pass() {
    if !has_python() {
        return;
    }
    let scenario = project("{}", &[call(TABLE, files())]);
    succeed(&scenario, APPROVED);
    let told = scenario.run(&["runs", "export", "--program", "last", "0/0.0", "-o", "flow"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read("flow/flow.py").as_deref(), Some(TABLE));
    for command in [&["check", "flow"][..], &["test", "flow"], &["test", "flow", "--live"]] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(0), "{command:?}: {told}");
    }
    // A program that works differently fails its case.
    fs::write(scenario.project().join("flow/flow.py"), TABLE.replace("len(rows)}", "0}")).expect("written");
    let told = scenario.run(&["test", "flow"]);
    assert_eq!(told.code, Some(1), "{told}");
    let wrong = scenario.run(&["runs", "export", "--program", "last", "0/7.0", "-o", "other"]);
    assert!(wrong.code != Some(0) && wrong.stderr.contains("it has 0/0.0"), "{wrong}");
    let again = scenario.run(&["runs", "export", "--program", "last", "0/0.0", "-o", "flow"]);
    assert!(again.code != Some(0) && again.stderr.contains("is not empty"), "{again}");
}

#[test]
fn exported_project_has_the_rules_narrowings_and_templates_of_its_workers() {
    if !has_python() {
        return;
    }
    let worker = MAIN
        .replace("{PROGRAMS}", "{}")
        .replace("sandbox: {paths", "tool_rules:\n  - {tool: \"write_file(/out/**)\", then: ask}\n  - {tool: read_file, timeout: 9s}\nsandbox: {restrict: [/in, /out], paths");
    let scenario = project("{}", &[call(TABLE, files())])
        .file("main.worker", &worker)
        .file("project.yaml", "name: p\napproval: {rules: [{tool: delete_file, then: blocked}]}\n")
        .file("templates/kinds.jinja", "{% include 'more.jinja' %}")
        .file("templates/more.jinja", "Fruit or {{ file('names.txt') }}.")
        .file("templates/names.txt", "vegetable")
        .file(
            "workers/classify.worker",
            "---\nmodel: script:s.json\nlimits: {max_cost_usd: 0.5}\n---\n{% include 'kinds.jinja' %}\nClassify.\n",
        );
    succeed(&scenario, APPROVED);
    let told = scenario.run(&["runs", "export", "--program", "last", "0/0.0", "-o", "flow"]);
    assert_eq!(told.code, Some(0), "{told}");
    let manifest = scenario.read("flow/project.yaml").expect("a manifest");
    for part in [
        "\"restrict\":[\"/in\",\"/out\"]",
        "{\"tool\":\"write_file(/out/**)\",\"then\":\"ask\"},{\"tool\":\"delete_file\",\"then\":\"blocked\"}",
    ] {
        assert!(manifest.contains(part), "{part}: {manifest}");
    }
    for name in ["kinds.jinja", "more.jinja", "names.txt"] {
        assert_eq!(
            scenario.read(&format!("flow/templates/{name}")),
            scenario.read(&format!("templates/{name}"))
        );
    }
    for command in [&["check", "flow"][..], &["test", "flow"]] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(0), "{command:?}: {told}");
    }
}

#[test]
fn program_that_its_check_refused_is_not_exported() {
    if !has_python() {
        return;
    }
    let (scenario, _) = refused("{}", "def main(input, ctx):\n    return eval('1')\n", APPROVED);
    let told = scenario.run(&["runs", "export", "--program", "last", "0/0.0", "-o", "flow"]);
    assert!(told.code != Some(0) && told.stderr.contains("the check refused the program `0/0.0`"), "{told}");
    assert!(!scenario.project().join("flow").exists());
}

/// The time of the system, which the check does not find, in the name of a file.
const OTHER_PATH: &str = "import collections\n\ndef main(input, ctx):\n    \
    ctx.call('write_file', path='/out/first.txt', content='x')\n    \
    now = collections._sys.modules['time'].monotonic_ns()\n    \
    return ctx.call('write_file', path=f'/out/{now}.txt', content='x')\n";

#[test]
fn program_that_takes_another_path_when_it_is_resumed_has_no_second_effect() {
    if !has_python() {
        return;
    }
    another_path_is_an_error(&project("{}", &[call(OTHER_PATH, json!({}))]));
}

/// Runs a project whose program asks for two calls, the second with a path that differs in each execution.
pub(crate) fn another_path_is_an_error(scenario: &Scenario) {
    let told = run(scenario, &[".", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    for approved in ["0/0.0", "all"] {
        let told = run(scenario, &["runs", "resume", "last", "--approve", approved]);
        assert_eq!(told.code, Some(5), "{told}");
    }
    // The second call was recorded, and waits. Now the program makes another one instead.
    let told = run(scenario, &["runs", "resume", "last", "--approve", "all"]);
    assert!(told.code != Some(0) && told.code != Some(5), "{told}");
    assert!(told.stderr.contains("it took another path. That call was not made"), "{told}");
    let written: Vec<_> = fs::read_dir(scenario.project().join("out")).expect("a folder").collect();
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(scenario.read("out/first.txt").as_deref(), Some("x"));
}

#[test]
fn sets_have_one_order_in_each_process() {
    if !has_python() {
        return;
    }
    let code = "def main(input, ctx):\n    return ''.join(list({c for c in 'the quick brown fox jumps'}))\n";
    let order = || succeed(&project("{}", &[call(code, json!({}))]), APPROVED).stdout;
    assert_eq!(order(), order());
}

#[test]
fn types_that_are_long_are_described_on_demand() {
    if !has_python() {
        return;
    }
    let describe = json!({"tool": "describe_functions", "arguments": {"names": ["tool7", "read_file"]}});
    let many: String = (0..120)
        .map(|n| format!("def tool{n}(first_argument: int, second_argument: str, third_argument: list[str]) -> dict[str, int]:\n    return {{}}\n"))
        .collect();
    let scenario = project("{}\n  custom: {}", std::slice::from_ref(&describe)).file("tools.py", &many);
    let told = succeed(&scenario, APPROVED);
    assert!(
        told.stdout.contains("tool7(first_argument: int, second_argument: str, third_argument: list[str])"),
        "{told}"
    );
    assert!(told.stdout.contains("read_file(path: str"), "{told}");
    // The tools are long, so the run keeps them in a file of its own.
    let kept = fs::read_dir(scenario.runs().remove(0).join("blobs")).expect("a folder");
    let kept: String =
        kept.map(|file| fs::read_to_string(file.expect("an entry").path()).expect("a text")).collect();
    assert!(kept.contains("`describe_functions` returns their types"), "{kept}");
    assert!(kept.contains("tool7(first_argument, second_argument, third_argument)"), "{kept}");
    // Short types are in the description, and the tool is not there.
    let scenario = project("{}", &[describe]);
    let told = run(&scenario, APPROVED);
    assert!(told.stdout.contains("There is no tool `describe_functions`"), "{told}");
    let journal = scenario.journal();
    let tools = kinds(&journal, "conversation_started")[0]["tools"].to_string();
    assert!(tools.contains("read_file(path: str") && !tools.contains("describe_functions"), "{tools}");
}

#[test]
fn killed_at_any_record_it_repeats_no_call() {
    if has_python() {
        no_call_is_repeated(|| project("{}", &[call(TABLE, files())]));
    }
}

/// Kills the run of a project at each of its records and resumes it.
pub(crate) fn no_call_is_repeated(project: impl Fn() -> Scenario + Sync) {
    let undisturbed = project();
    let told = succeed(&undisturbed, APPROVED);
    let expected = told.stdout;
    let text = fs::read_to_string(undisturbed.runs().remove(0).join("journal.jsonl")).expect("a journal");
    let mut ends: Vec<u64> = Vec::new();
    for line in text.split_inclusive('\n') {
        ends.push(ends.last().copied().unwrap_or(0) + line.len() as u64);
    }
    ends.pop();
    let next = AtomicUsize::new(0);
    let resumed = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(&bytes) = ends.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let scenario = project();
                    let cache = |of: &Scenario| of.home().join("home/.llm-do");
                    fs::create_dir_all(cache(&scenario)).expect("a folder");
                    let copied = Command::new("cp")
                        .arg("-r")
                        .arg(cache(&undisturbed).join("cache"))
                        .arg(cache(&scenario))
                        .status();
                    assert!(copied.expect("cp starts").success());
                    if run_until(&scenario, APPROVED, bytes) == Some(0) {
                        continue;
                    }
                    let cut = whole_records(&scenario).len();
                    let told = match cut {
                        0 => scenario.run(APPROVED),
                        _ => scenario.run(&["runs", "resume", "last"]),
                    };
                    assert_eq!(
                        (told.code, &told.stdout),
                        (Some(0), &expected),
                        "killed after {cut} records: {told}"
                    );
                    let journal = scenario.journal();
                    // Each call has one end, and each request one answer.
                    for kind in ["tool_ended", "model_answered", "call_ended"] {
                        let mut places: Vec<String> = kinds(&journal, kind)
                            .iter()
                            .map(|r| format!("{} {}", r["path"], r["step"]))
                            .collect();
                        let all = places.len();
                        places.sort();
                        places.dedup();
                        assert_eq!(places.len(), all, "killed after {cut} records: a repeated {kind}");
                    }
                    resumed.fetch_add(usize::from(cut > 0), Ordering::Relaxed);
                }
            });
        }
    });
    assert!(resumed.into_inner() >= ends.len() / 2, "{} of {}", next.into_inner(), ends.len());
}
