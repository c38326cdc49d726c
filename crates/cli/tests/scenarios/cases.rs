//! `llm-do test`: cases of workers, from recordings and from models.

use crate::{
    scenario::{Finished, Scenario, lines},
    terminal_session::Session,
};
use insta::assert_snapshot;
use serde_json::{Value, json};
use std::{fs, time::Duration};

const MAIN: &str = "\
---
parameters: {item: string, n: integer}
returns: {total: number}
allow_workers: [lookup]
toolsets: {filesystem: {tools: [write_file]}}
sandbox: {paths: {out: {root: ./out, mode: rw}}}
---
What do {{ n }} of {{ item }} cost? Keep it in /out/total.txt.
";

const LOOKUP: &str = "\
---
parameters: {item: string}
returns: {price: number}
---
The price of {{ item }} on {{ run.date }}?
";

const JUDGE: &str = "\
---
parameters: {output: object}
returns: {pass: boolean, reason: string}
---
Is this good? {{ output }}
";

const SCRIPT: &str = "\
answers:
  - when: {worker: lookup}
    json: {price: 0.5}
  - when: {worker: strict, last: '9'}
    json: {pass: false, reason: too dear}
  - when: {worker: strict}
    json: {pass: true, reason: fine}
  - when: {worker: main, turn: 0}
    calls: [{tool: lookup, arguments: {item: pear}}]
  - when: {worker: main, turn: 1}
    calls: [{tool: write_file, arguments: {path: /out/total.txt, content: '1.5'}}]
  - when: {worker: main}
    json: {total: 1.5}
";

const CASES: &str = "\
repeat: 2
cases:
- name: pear
  input: {item: pear, n: 3}
  expect:
    output: {total: 1.5}
    ensures: [output.total / input.n == 0.5]
    judge: strict
    calls: [lookup(pear), write_file(out/*), '!delete_file']
    files: {out/total.txt: '1.5'}
    limits: {max_turns: 3, max_tool_calls: 2}
- name: given
  input: {item: pear, n: 3}
  given: {lookup: [{price: 0.5}]}
  repeat: 1
  expect: {calls: [lookup]}
";

fn shop() -> Scenario {
    Scenario::new()
        .file("main.worker", MAIN)
        .file("workers/lookup.worker", LOOKUP)
        .file("workers/strict.worker", JUDGE)
        .file("main.cases.yaml", CASES)
        .file("s.yaml", SCRIPT)
}

fn updated(scenario: &Scenario) -> Finished {
    let told = scenario.run(&["test", "--update", "--model", "script:s.yaml"]);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// The recordings, by their names.
fn recordings(scenario: &Scenario) -> Vec<(String, String)> {
    let folder = scenario.project().join("main.recorded");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .expect("recordings")
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(path).expect("a recording"))
        })
        .collect();
    files.sort();
    files
}

/// The date of the recordings.
fn recorded_date(scenario: &Scenario) -> String {
    let text = scenario.read("main.recorded/pear.1.jsonl").expect("a recording");
    lines(&text)[0]["date"].as_str().expect("a date").to_owned()
}

#[test]
fn recorded_cases_need_no_model_and_stay_the_same() {
    let scenario = shop();
    assert_snapshot!(updated(&scenario), @r##"
    exit 0
    --- stdout
    pass  main.cases.yaml: pear  2 of 2 (34 % to 100 %)
    pass  main.cases.yaml: given
    2 of 2 cases pass
    "##);
    let first = recordings(&scenario);
    let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["given.1.jsonl", "pear.1.jsonl", "pear.2.jsonl"]);
    // What two runs do alike is recorded alike, and nothing of this machine is.
    assert_eq!(first[1].1, first[2].1);
    let home = scenario.home().to_string_lossy().into_owned();
    for (name, text) in &first {
        assert!(!text.contains(&home) && !text.contains("/tmp"), "{name}");
    }
    updated(&scenario);
    assert_eq!(recordings(&scenario), first);
    // Without the script there is nothing else that could answer.
    fs::remove_file(scenario.project().join("s.yaml")).expect("the script");
    let told = scenario.run(&["test"]);
    assert_eq!(told.code, Some(0), "{told}");
    let json = scenario.run(&["test", "--recorded", "--json"]);
    assert_eq!(json.stdout, scenario.run(&["test", "--json"]).stdout);
    // The project itself is not touched.
    assert!(!scenario.project().join("out").exists());
    assert_eq!(scenario.runs().len(), 0);
}

#[test]
fn a_changed_prompt_is_told_with_its_difference() {
    let scenario = shop();
    updated(&scenario);
    let scenario = scenario.file("workers/lookup.worker", &LOOKUP.replace("The price", "What is the price"));
    let told = scenario.run(&["test", "--case", "pear", "--repeat", "1"]).to_string();
    let date = recorded_date(&scenario);
    assert_snapshot!(told.replace(&date, "[DATE]"), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: pear
          a request is not the recorded one: `llm-do test --update` records it again
          at 0/0.0 (main → lookup, turn 0)
          --- recorded instructions
          +++ now instructions
          @@ -1 +1 @@
          -The price of pear on [DATE]?
          +What is the price of pear on [DATE]?
    0 of 1 cases pass
    "##);
    // Recorded again it passes.
    updated(&scenario);
    assert_eq!(scenario.run(&["test"]).code, Some(0));
}

#[test]
fn templates_see_the_date_of_the_recording() {
    let scenario = shop();
    updated(&scenario);
    let folder = scenario.project().join("main.recorded");
    let date = recorded_date(&scenario);
    // As if it had been recorded on another day: what was rendered then is asked for again.
    for name in ["given.1.jsonl", "pear.1.jsonl", "pear.2.jsonl"] {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).expect("a recording").replace(&date, "1999-12-31");
        fs::write(file, text).expect("a recording");
    }
    let told = scenario.run(&["test"]);
    // The prompt of `lookup` has the date in it, and is the recorded one again.
    assert_eq!(told.code, Some(0), "{told}");
}

#[test]
fn failing_cases_say_what_does_not_hold() {
    let cases = "\
cases:
- name: wrong
  input: {item: pear, n: 3}
  expect:
    output: {total: {any_of: [2, {matches: x}]}}
    ensures: [output.total > 2]
    calls: [write_file, lookup, '!lookup(pear)']
    files: {out/total.txt: {matches: ^2}, out/other.txt: x}
    limits: {max_turns: 2, max_tool_calls: 1}
- name: fails
  input: {item: pear, n: 3}
  expect: {fails: denied}
- name: too-few
  input: {item: pear, n: 3}
  given: {lookup: [{error: closed}]}
  expect: {output: {total: 1.5}}
";
    let scenario = shop().file("main.cases.yaml", cases);
    assert_snapshot!(scenario.run(&["test", "--model", "script:s.yaml"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: wrong
          output: total: none of the 2 alternatives fits: total: expected 2, found 1.5; or total: expected a match of `x`, found 1.5
          ensures: `output.total > 2` does not hold
          calls: `lookup(pear)` must not be called, and was: lookup({"item":"pear"})
          calls: `lookup` was not called in this place of the order
          files: `out/total.txt`: expected a match of `^2`, found "1.5"
          files: there is no `out/other.txt`
          limits: 3 turns, at most 2
          limits: 2 calls, at most 1
    fail  main.cases.yaml: fails
          fails: expected denied, and the call has an output
    pass  main.cases.yaml: too-few
    1 of 3 cases pass
    "##);
}

#[test]
fn a_judge_decides_by_most_of_its_answers() {
    let cases = "\
cases:
- name: judged
  input: {item: pear, n: 3}
  expect: {judge: strict}
";
    let script = SCRIPT.replace("json: {total: 1.5}", "json: {total: 9.5}");
    let scenario = shop().file("main.cases.yaml", cases).file("s.yaml", &script);
    assert_snapshot!(scenario.run(&["test", "--model", "script:s.yaml"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: judged
          judge: `strict`: too dear
    0 of 1 cases pass
    "##);
}

#[test]
fn a_stub_is_called_as_often_as_it_has_results() {
    let script = "\
answers:
  - when: {worker: main, turn: 0}
    calls: [{tool: lookup, arguments: {item: pear}}, {tool: lookup, arguments: {item: fig}}]
  - when: {worker: main}
    json: {total: 1.5}
";
    let cases = "\
cases:
- name: once
  input: {item: pear, n: 3}
  given: {lookup: [{price: 1}]}
  expect: {output: {total: 1.5}}
- name: always
  input: {item: pear, n: 3}
  given: {lookup: {price: 1}}
  expect: {calls: [lookup(pear), lookup(fig)]}
";
    let scenario = shop().file("main.cases.yaml", cases).file("s.yaml", script);
    assert_snapshot!(scenario.run(&["test", "--model", "script:s.yaml"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: once
          given: `lookup` is called more often than the case gives results: 1
    pass  main.cases.yaml: always
    1 of 2 cases pass
    "##);
}

#[test]
fn other_calls_that_ask_are_refused_unless_the_command_line_allows_them() {
    let main =
        "---\nmodel: script:s.yaml\ntoolsets: {shell: {default: {approval_required: true}}}\n---\nRun it.\n";
    let script = "\
answers:
  - when: {turn: 0}
    calls: [{tool: shell, arguments: {command: echo hi}}]
  - text: \"{{ last }}\"
";
    let cases = "cases:\n- name: echo\n  expect: {calls: [shell(echo hi)]}\n";
    let scenario =
        Scenario::new().file("main.worker", main).file("s.yaml", script).file("main.cases.yaml", cases);
    assert_snapshot!(scenario.run(&["test"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: echo
          calls: `shell(echo hi)` was refused: shell({"command":"echo hi"})
    0 of 1 cases pass
    "##);
    let told = scenario.run(&["test", "--allow", "shell"]);
    assert_eq!(told.code, Some(0), "{told}");
    let writes = scenario.run(&["test", "--grant", "/usr:rw"]);
    assert_eq!(writes.code, Some(2), "{writes}");
    assert!(writes.stderr.contains("outside of its copy"), "{writes}");
}

#[test]
fn reports_have_several_forms() {
    let scenario = shop();
    updated(&scenario);
    let told = scenario.run(&["test", "--junit", "r.xml", "--summary", "r.md", "--html", "pages", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(report["cases"][0]["passed"], 2);
    assert_eq!(report["cases"][0]["case"], "pear");
    assert_snapshot!(scenario.read("r.xml").expect("a report"), @r##"
    <?xml version="1.0" encoding="UTF-8"?>
    <testsuites name="llm-do test" tests="2" failures="0">
      <testsuite name="main.cases.yaml" tests="2" failures="0" time="0.000">
        <testcase classname="main" name="pear" time="0.000"/>
        <testcase classname="main" name="given" time="0.000"/>
      </testsuite>
    </testsuites>
    "##);
    assert_snapshot!(scenario.read("r.md").expect("a summary"), @r##"
    ## llm-do test: 2 of 2 cases pass

    | case | passed | 95 % interval |
    |---|---|---|
    | ✅ main.cases.yaml: pear | 2 of 2 | 34 % to 100 % |
    | ✅ main.cases.yaml: given | 1 of 1 | 21 % to 100 % |
    "##);
    let page = scenario.read("pages/main.cases.yaml.pear.1.html").expect("a page");
    assert!(page.starts_with("<!doctype html>"));
    assert!(scenario.project().join("pages/main.cases.yaml.pear.1.judge-1.html").exists());
}

#[test]
fn a_planted_regression_is_named() {
    let cases = "\
repeat: 10
cases:
- name: pear
  input: {item: pear, n: 3}
  given: {lookup: {price: 0.5}}
  expect: {output: {total: 1.5}}
- name: fig
  input: {item: fig, n: 3}
  given: {lookup: {price: 0.5}}
  expect: {output: {total: 1.5}}
";
    let scenario = shop().file("main.cases.yaml", cases);
    let before = scenario.run(&["test", "--model", "script:s.yaml", "--json"]);
    assert_eq!(before.code, Some(0), "{before}");
    let worse = format!(
        "answers:\n  - when: {{worker: main, turn: 0, last: '\"fig\"'}}\n    json: {{total: 9}}\n{}",
        SCRIPT.trim_start_matches("answers:\n")
    );
    let scenario = scenario.file("before.json", &before.stdout).file("s.yaml", &worse);
    let told = scenario.run(&["test", "--model", "script:s.yaml", "--baseline", "before.json", "--json"]);
    assert_eq!(told.code, Some(1), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let changes: Vec<(&Value, &Value)> = report["comparison"]["cases"]
        .as_array()
        .expect("cases")
        .iter()
        .map(|case| (&case["case"], &case["change"]))
        .collect();
    assert_eq!(changes, [(&json!("pear"), &json!("same")), (&json!("fig"), &json!("worse"))]);
    // Three repeats could not decide it.
    let told =
        scenario.run(&["test", "--model", "script:s.yaml", "--baseline", "before.json", "--repeat", "3"]);
    assert!(told.stdout.contains("not decidable with so few repeats: main.cases.yaml: fig"), "{told}");
    let wrong = scenario.run(&["test", "--baseline", "s.yaml"]);
    assert_eq!(wrong.code, Some(2), "{wrong}");
}

#[test]
fn shards_run_each_case_once() {
    let scenario = shop();
    updated(&scenario);
    let cases = |shard: &str| -> Vec<String> {
        let told = scenario.run(&["test", "--shard", shard, "--json"]);
        let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
        let cases = report["cases"].as_array().expect("cases").iter();
        cases.map(|case| case["case"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!((cases("1/2"), cases("2/2")), (vec!["pear".to_owned()], vec!["given".to_owned()]));
    assert_eq!(scenario.run(&["test", "--shard", "3/2"]).code, Some(2));
}

#[test]
fn bad_recordings_are_refused() {
    let scenario = shop();
    updated(&scenario);
    let file = scenario.project().join("main.recorded/given.1.jsonl");
    let text = fs::read_to_string(&file).expect("a recording");
    fs::write(&file, text.replacen("\"format\":2", "\"format\":99", 1)).expect("a recording");
    let told = scenario.run(&["test", "--case", "given"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stdout.contains("written in journal format 99"), "{told}");
    fs::write(&file, "{\"not\": \"a record\"}\n").expect("a recording");
    assert_eq!(scenario.run(&["test", "--case", "given"]).code, Some(1));
    fs::remove_file(&file).expect("a recording");
    let told = scenario.run(&["test", "--case", "given"]);
    assert!(told.stdout.contains("there is no recording `main.recorded/given.1.jsonl`"), "{told}");
}

#[test]
fn bad_cases_are_refused_before_anything_runs() {
    let cases = "cases:\n- name: pear\n  input: {itm: pear}\n  expect: {output: 1}\n- name: fig\n  input: {item: fig, n: 1}\n";
    let scenario = shop().file("main.cases.yaml", cases);
    assert_snapshot!(scenario.run(&["test", "--model", "script:s.yaml"]), @r##"
    exit 2
    --- stderr
    error[E0903]: `main` does not accept the input of the case `pear`: "item" is a required property; "n" is a required property; Additional properties are not allowed ('itm' was unexpected)
     --> main.cases.yaml:3:11
      |
    3 |   input: {itm: pear}
      |           ^^^^^^^^^
      |
      = help: its signature is main(item: string, n: integer)

    error[E0901]: the case `fig` expects nothing
     --> main.cases.yaml:5:9
      |
    5 | - name: fig
      |         ^^^
      |
      = help: add `expect` with `output`, `calls`, `files`, `ensures`, `judge`, `fails` or `limits`
    "##);
    assert_eq!(scenario.run(&["test", "--case", "none"]).code, Some(2));
    let empty = Scenario::new().file("main.worker", MAIN);
    assert_snapshot!(empty.run(&["test"]), @r##"
    exit 2
    --- stderr
    error: there are no cases in [DIR]/project
    hint: write them in WORKER.cases.yaml beside the worker, or below tests/
    "##);
}

#[test]
fn secrets_are_in_no_recording() {
    let main = "---\nmodel: script:s.yaml\n---\nSay it.\n";
    let secret = "sk-test-0123456789abcdefghij";
    let script = format!("answers:\n  - text: the key is {secret}\n");
    let cases = "cases:\n- name: key\n  expect: {output: {matches: the key}}\n";
    let scenario = Scenario::new()
        .file("main.worker", main)
        .file("s.yaml", &script)
        .file("main.cases.yaml", cases)
        .env("OPENAI_API_KEY", secret);
    let told = scenario.run(&["test", "--update"]);
    assert_eq!(told.code, Some(0), "{told}");
    let (_, text) = recordings(&scenario).remove(0);
    assert!(text.contains("the key is") && !text.contains(secret), "{text}");
    assert_eq!(scenario.run(&["test"]).code, Some(0));
}

#[test]
fn cost_ends_the_tests() {
    let usage = "json: {total: 1.5}\n    usage: {input_tokens: 10, output_tokens: 10}";
    let prices = "prices:\n  'script:*': {input: 100000, output: 100000}\n";
    let scenario =
        shop().file("s.yaml", &SCRIPT.replace("json: {total: 1.5}", usage)).home_file("config.yaml", prices);
    let told = scenario.run(&["test", "--model", "script:s.yaml", "--max-cost", "0.5", "--json"]);
    assert_eq!(told.code, Some(4), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!((report["cases"].as_array().map(Vec::len), &report["not_run"]), (Some(1), &json!(1)));
    assert_eq!(report["cases"][0]["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(scenario.run(&["test", "--max-cost", "much"]).code, Some(2));
}

#[cfg(target_os = "linux")]
#[test]
fn recorded_cases_open_no_socket() {
    use std::{path::Path, process::Stdio};
    let strace = Path::new("/usr/bin/strace");
    if !strace.exists() {
        assert!(std::env::var_os("CI").is_none(), "CI has strace");
        eprintln!("skipped: there is no strace");
        return;
    }
    let scenario = shop();
    updated(&scenario);
    let mut command = scenario.command_of(strace);
    command.args(["-f", "-qq", "-e", "trace=socket,connect", "-o", "calls.txt"]);
    command.args([env!("CARGO_BIN_EXE_llm-do"), "test"]).stdout(Stdio::piped());
    let told = scenario.finished(command.output().expect("strace starts"));
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(scenario.read("calls.txt").as_deref(), Some(""));
}

#[test]
fn watched_cases_run_again_after_each_change_until_ctrl_c() {
    let scenario = shop();
    updated(&scenario);
    let mut session =
        Session::start(scenario.command_on_terminal(&["test", "--watch", "--junit", "report.xml"]));
    // In one step: a file that is empty for a moment would be a change of its own.
    let write = |name: &str, text: &str| {
        let new = scenario.home().join("new");
        fs::write(&new, text).and_then(|()| fs::rename(new, scenario.project().join(name))).expect("a file");
    };
    session.expect("2 of 2 cases pass");
    session.expect("waiting for a change");
    write("main.worker", &MAIN.replace("What do", "How much do"));
    session.expect("a request is not the recorded one");
    session.expect("0 of 2 cases pass");
    session.expect("waiting for a change");
    write("main.cases.yaml", "cases: [");
    session.expect("error");
    session.expect("waiting for a change");
    write("main.cases.yaml", CASES);
    session.expect("0 of 2 cases pass");
    session.expect("waiting for a change");
    write("project.yaml", "name: [");
    session.expect("error");
    session.expect("waiting for a change");
    write("main.worker", MAIN);
    session.expect("error");
    session.expect("waiting for a change");
    fs::remove_file(scenario.project().join("project.yaml")).expect("a manifest");
    session.expect("2 of 2 cases pass");
    session.expect("waiting for a change");
    // The report that each of them wrote was no change.
    let passes = |session: &Session| String::from_utf8_lossy(session.raw()).matches("cases pass").count();
    let before = passes(&session);
    session.written_within(Duration::from_secs(2));
    assert_eq!(passes(&session), before);
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
}

#[test]
fn stubs_of_a_function_may_name_every_worker_that_it_may_call() {
    let cases = |stub: &str| {
        format!(
            "cases:\n- name: sweet\n  input: pear\n  given: {{{stub}: {{sweet: true}}}}\n  expect: {{output: {{sweet: true}}}}\n"
        )
    };
    let flow = "from llm_do import ToolContext\n\n\ndef main(input: str, ctx: ToolContext) -> dict:\n    return ctx.call(\"taste\", input=input)\n";
    let program = |stub: &str| {
        Scenario::new()
            .file("project.yaml", "entry: flow.py:main\n")
            .file("flow.py", flow)
            .file(
                "workers/taste.worker",
                "---\nparameters: {input: string}\nreturns: {sweet: boolean}\n---\nIs it sweet?\n",
            )
            .file("main.cases.yaml", &cases(stub))
    };
    let known = program("taste");
    for arguments in [&["check"][..], &["test", "--live"]] {
        let run = known.run(arguments);
        assert_eq!(run.code, Some(0), "{run}");
    }
    let unknown = program("tast").run(&["check"]);
    assert_eq!(unknown.code, Some(2), "{unknown}");
    assert!(unknown.stderr.contains("tast") || unknown.stdout.contains("tast"), "{unknown}");
}
