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
Today is {{ run.date }}.

The price of {{ item }}?
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
          --- recorded messages
          +++ now messages
          @@ -1,2 +1,2 @@
           [0 user]
          -The price of pear?
          +What is the price of pear?
    0 of 1 cases pass
    "##);
    // Recorded again it passes.
    updated(&scenario);
    assert_eq!(scenario.run(&["test"]).code, Some(0));
}

#[test]
fn keywords_of_llm_do_in_a_schema_do_not_change_a_recorded_request() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nparameters: {text: {type: string, untrusted: true}}\n\
             returns: {title: {type: string, clean: true, maxLength: 80}}\nallow_workers: [helper]\n---\n{{ text }}\n",
        )
        .file(
            "workers/helper.worker",
            "---\nparameters: {text: {type: string, untrusted: true}}\n\
             returns: {word: {type: string, clean: true, maxLength: 9}}\n---\n{{ text }}\n",
        )
        .file("main.cases.yaml", "cases: [{name: a, input: {text: x}, expect: {output: {title: ok}}}]\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {worker: helper}\n    json: {word: w}\n  - when: {turn: 0}\n    \
             calls: [{tool: helper, arguments: {text: t}}]\n  - json: {title: ok}\n",
        );
    updated(&scenario);
    let told = scenario.run(&["test"]);
    assert_eq!(told.code, Some(0), "{told}");
    // A keyword that the model sees still counts.
    let longer =
        scenario.read("workers/helper.worker").expect("a worker").replace("maxLength: 9", "maxLength: 8");
    let told = scenario.file("workers/helper.worker", &longer).run(&["test"]);
    assert!(told.code == Some(1) && told.stdout.contains("-      \"maxLength\": 9"), "{told}");
}

#[test]
fn a_case_may_expect_that_its_input_is_refused() {
    let cases = |expect: &str, input: &str| {
        Scenario::new()
            .env("OPENAI_API_KEY", "no-key")
            .file("main.worker", "---\nmodel: openai:gpt-5\nparameters: {n: integer}\n---\n{{ n }}\n")
            .file(
                "main.cases.yaml",
                &format!("cases: [{{name: a, input: {input}, expect: {{fails: {expect}}}}}]\n"),
            )
    };
    // It asks no model, so it needs no recording.
    let scenario = cases("invalid_input", "{n: many}");
    assert_eq!(scenario.run(&["check"]).code, Some(0));
    for arguments in [&["test"][..], &["test", "--recorded"], &["test", "--update"]] {
        let told = scenario.run(arguments);
        assert!(told.code == Some(0) && told.stdout.contains("pass  main.cases.yaml: a"), "{told}");
    }
    assert!(!scenario.project().join("main.recorded").exists());
    let told = cases("invalid_input", "{n: 3}").run(&["test"]);
    assert!(told.code == Some(1), "{told}");
    assert!(told.stdout.contains("fails: expected invalid_input, and `main` accepts the input"), "{told}");
    let told = cases("tool", "{n: many}").run(&["test"]);
    assert!(told.code != Some(0) && told.to_string().contains("E0903"), "{told}");
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

    --- stderr
    note: no case has a recording, so 1 case asks models: `--update` records the answers, `--recorded` asks no model, and `--max-cost USD` limits the cost
    "##);
    let told = scenario.run(&["test", "--allow", "shell"]);
    assert_eq!(told.code, Some(0), "{told}");
    let writes = scenario.run(&["test", "--grant", "/usr:rw"]);
    assert_eq!(writes.code, Some(2), "{writes}");
    assert!(writes.stderr.contains("outside of its copy"), "{writes}");
}

#[test]
fn hosted_models_are_asked_only_when_that_is_said() {
    let hosted = |scenario: Scenario| {
        scenario
            .file("main.worker", "---\nmodel: far:m\n---\nAnswer.\n")
            .file(
                "main.cases.yaml",
                "cases:\n- name: one\n  input: hello\n  expect: {output: {matches: o}}\n",
            )
            .file("project.yaml", "providers: {far: {base_url: 'http://models.invalid/v1'}}\n")
    };
    let scenario = hosted(Scenario::new());
    let grant = ["--grant", "endpoint=models.invalid"];
    let told = scenario.run(&["test", grant[0], grant[1]]);
    assert_snapshot!(told, @"
    exit 2
    --- stderr
    note: no case has a recording, so 1 case asks models: `--update` records the answers, `--recorded` asks no model, and `--max-cost USD` limits the cost
    error: no case has a recording, so the cases would ask far:m, a hosted model, without a limit
    hint: `--max-cost USD` asks it and limits the cost; `--live` asks it without a limit
    hint: `--update` asks it and records the answers, from which later tests run
    ");
    // Said, the model is asked; nothing answers at that address.
    for said in [&["--live"][..], &["--model", "far:m"]] {
        let told = scenario
            .run(&[&["test", grant[0], grant[1], "--set", "limits.request_retries=0"], said].concat());
        assert_eq!(told.code, Some(1), "{told}");
    }
    // Without a price a limit can't be kept, which is an error of its own.
    let told = scenario.run(&["test", grant[0], grant[1], "--max-cost", "0.10"]);
    assert!(told.code == Some(1) && told.stdout.contains("the price of this model is not known"), "{told}");
    // A script and a server on this machine cost nothing.
    let scenario = hosted(Scenario::new()).file("main.worker", "---\nmodel: script:s.yaml\n---\nAnswer.\n");
    let scenario = scenario.file("s.yaml", "answers: [{text: ok}]\n");
    assert_eq!(scenario.run(&["test"]).code, Some(0));
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
        "answers:\n  - when: {{worker: main, turn: 0, last: 'of fig'}}\n    json: {{total: 9}}\n{}",
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

/// Two cases of three repeats, each of which costs a dollar.
fn costly() -> Scenario {
    let script = "answers:\n  - text: hi\n    usage: {input_tokens: 10, output_tokens: 10}\n";
    let cases =
        "repeat: 3\ncases:\n- {name: said, expect: {output: hi}}\n- {name: again, expect: {output: hi}}\n";
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nSay it.\n")
        .file("s.yaml", script)
        .file("main.cases.yaml", cases)
        .home_file("config.yaml", "prices:\n  'script:*': {input: 100, output: 100000}\n")
}

#[test]
fn cost_ends_the_tests() {
    let scenario = costly();
    let told = scenario.run(&["test", "--live", "--max-cost", "0.5", "--json"]);
    assert_eq!(told.code, Some(4), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!((report["cases"].as_array().map(Vec::len), &report["not_run"]), (Some(1), &json!(1)));
    let case = &report["cases"][0];
    assert_eq!((case["runs"].as_array().map(Vec::len), &case["not_run"]), (Some(1), &json!(2)));
    assert_eq!(scenario.run(&["test", "--max-cost", "much"]).code, Some(2));
}

/// A judge that the limit cuts off has not judged: the case did not run whole, and did not fail.
#[test]
fn a_judge_that_is_cut_off_fails_no_case() {
    let script = "answers:\n- when: {worker: main}\n  text: hi\n  usage: {input_tokens: 10, output_tokens: 5}\n\
        - json: {pass: true, reason: fine}\n  usage: {input_tokens: 10, output_tokens: 5}\n";
    let scenario = Scenario::new()
        .file("project.yaml", "{}\n")
        .file("main.worker", "---\nmodel: script:s.yaml\n---\nSay it.\n")
        .file("workers/judge.worker", "---\nmodel: script:s.yaml\nparameters: {output: string}\nreturns: {pass: boolean, reason: string}\n---\nJudge.\n")
        .file("s.yaml", script)
        .file("main.cases.yaml", "cases:\n- {name: said, expect: {judge: judge}}\n")
        .home_file("config.yaml", "prices:\n  'script:*': {input: 100, output: 100000}\n");
    // Each request costs half a dollar.
    let told = scenario.run(&["test", "--live", "--max-cost", "0.6", "--json"]);
    assert_eq!(told.code, Some(4), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(
        (report["cases"].as_array().map(Vec::len), &report["not_run"]),
        (Some(0), &json!(1)),
        "{told}"
    );
    let told = scenario.run(&["test", "--live", "--max-cost", "2"]);
    assert_eq!(told.code, Some(0), "{told}");
}

/// A case whose repeats did not all run neither passes nor fails.
#[test]
fn a_case_that_is_cut_off_does_not_pass() {
    let scenario = costly();
    let arguments = ["test", "--live", "--max-cost", "1.5", "--junit", "r.xml"];
    assert_snapshot!(scenario.run(&arguments), @r##"
    exit 4
    --- stdout
    cut   main.cases.yaml: said  2 of 2 (34 % to 100 %)
          1 of 3 repeats did not run
    0 of 1 cases pass, 2.00 USD; 1 did not run whole and 1 did not run, because --max-cost pays for no more
    "##);
    let report = scenario.read("r.xml").expect("a report");
    assert!(report.contains("<skipped message=") && report.contains("failures=\"0\""), "{report}");
}

#[test]
fn a_limit_of_cost_needs_a_price() {
    let scenario = shop().env("OPENAI_API_KEY", "no-key");
    let told =
        scenario.run(&["test", "--model", "openai:unknown-model", "--case", "given", "--max-cost", "1"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stdout.contains("the price of this model is not known"), "{told}");
}

#[test]
fn what_can_not_be_written_is_said_before_a_model_is_asked() {
    let scenario = shop();
    for option in ["--junit", "--summary"] {
        let told = scenario.run(&["test", "--model", "script:s.yaml", option, "no/such/folder/r"]);
        assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{told}");
        assert!(told.stderr.contains("cannot write no/such/folder/r"), "{told}");
    }
    let told = scenario.run(&["test", "--model", "script:s.yaml", "--html", "main.worker"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(2), ""), "{told}");
}

/// A server that fails says nothing about the worker.
#[test]
fn a_model_that_fails_leaves_the_recording_as_it_is() {
    let scenario = shop();
    updated(&scenario);
    let before = recordings(&scenario);
    let broken = "answers:\n  - error: {status: 400, message: closed}\n";
    let scenario = scenario.file("s.yaml", broken);
    let told = scenario.run(&["test", "--update", "--model", "script:s.yaml", "--case", "given"]);
    assert_snapshot!(told, @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: given
          the call failed: script:s.yaml: closed
          calls: `lookup` was not called; called: nothing
          its recording is left as it is: a model failed
    0 of 1 cases pass
    "##);
    assert_eq!(recordings(&scenario), before);
}

#[test]
fn files_in_yaml_and_in_lines_share_their_recordings() {
    let line = json!({"name": "lines", "input": {"item": "a\u{7f}b", "n": 3}, "given": {"lookup": {"price": 0.5}}, "expect": {"calls": ["lookup"]}});
    let scenario = shop().file("main.cases.jsonl", &format!("\u{feff}{line}\r\n\r\n"));
    updated(&scenario);
    let names: Vec<String> = recordings(&scenario).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["given.1.jsonl", "lines.1.jsonl", "pear.1.jsonl", "pear.2.jsonl"]);
    assert_eq!(scenario.run(&["test"]).code, Some(0));
    let same = scenario.file("main.cases.jsonl", &line.to_string().replace("\"lines\"", "\"pear\""));
    for command in [&["check"][..], &["test"]] {
        let told = same.run(command);
        assert!(told.code == Some(2) && told.to_string().contains("E0907"), "{told}");
    }
}

#[test]
fn thousands_of_cases_in_lines_are_all_read() {
    let cases: String = (0..25_000)
        .map(|at| format!("{{\"name\":\"c{at}\",\"input\":{{\"item\":\"x\",\"n\":1}},\"expect\":{{\"fails\":\"denied\"}}}}\n"))
        .collect();
    let scenario = shop().file("main.cases.jsonl", &cases);
    let told = scenario.run(&["test", "--model", "script:s.yaml", "--case", "c24999"]);
    assert!(told.stdout.contains("c24999"), "{told}");
    let scenario =
        scenario.file("main.cases.jsonl", &format!("{cases}{{\"name\":\"last\",\"expct\":{{}}}}\n"));
    let told = scenario.run(&["check"]);
    assert!(told.to_string().contains("main.cases.jsonl:25001:16"), "{told}");
}

#[test]
fn expectations_that_can_never_hold_are_refused() {
    let cases = "\
cases:
- {name: a, input: {item: x, n: 1}, expect: {calls: []}}
- {name: b, input: {item: x, n: 1}, expect: {output: {matches: 2026}}}
- {name: c, input: {item: x, n: 1}, expect: {output: {any_of: []}}}
- {name: d, input: {item: x, n: 1}, expect: {files: {a.txt: {matchs: x}, b.txt: 5, c.txt: {absent: false}}}}
- {name: e, input: {item: x, n: 1}, expect: {calls: ['!lookup where itm = b', 'lookup where item in @set.json']}}
- {name: f, input: {item: x, n: 1}, files: {a: x, a/b: y, main.worker/c: z, workers/: w, workers: v}, expect: {calls: [lookup]}}
- {name: g, input: {item: x, n: 1}, expect: {ensures: ['nowhere.py:f'], fails: denied}}
";
    let scenario = shop().file("main.cases.yaml", cases);
    assert_snapshot!(scenario.run(&["check"]), @r##"
    exit 2
    --- stdout
    error[E0901]: the case `a` expects nothing
     --> main.cases.yaml:2:10
      |
    2 | - {name: a, input: {item: x, n: 1}, expect: {calls: []}}
      |          ^
      |
      = help: add `expect` with `output`, `calls`, `files`, `ensures`, `judge`, `fails` or `limits`

    error[E0906]: `matches` takes a regular expression in quotes
     --> main.cases.yaml:3:64
      |
    3 | - {name: b, input: {item: x, n: 1}, expect: {output: {matches: 2026}}}
      |                                                                ^^^^
      |
      = help: if the output has a key `matches`, write `{exactly: …}` for the whole of its object

    error[E0906]: `any_of` takes a list of alternatives
     --> main.cases.yaml:4:63
      |
    4 | - {name: c, input: {item: x, n: 1}, expect: {output: {any_of: []}}}
      |                                                               ^
      |
      = help: if the output has a key `any_of`, write `{exactly: …}` for the whole of its object

    error[E0906]: a file holds a text, which this never fits
     --> main.cases.yaml:5:62
      |
    5 | - {name: d, input: {item: x, n: 1}, expect: {files: {a.txt: {matchs: x}, b.txt: 5, c.txt: {absent: false}}}}
      |                                                              ^^^^^^^^^
      |
      = help: write a text in quotes, `{matches: REGEX}`, `{any_of: [TEXT, …]}` or `{absent: true}`

    error[E0906]: a file holds a text, which this never fits
     --> main.cases.yaml:5:81
      |
    5 | - {name: d, input: {item: x, n: 1}, expect: {files: {a.txt: {matchs: x}, b.txt: 5, c.txt: {absent: false}}}}
      |                                                                                 ^
      |
      = help: write a text in quotes, `{matches: REGEX}`, `{any_of: [TEXT, …]}` or `{absent: true}`

    error[E0906]: `absent` can only be `true`
     --> main.cases.yaml:5:100
      |
    5 | - {name: d, input: {item: x, n: 1}, expect: {files: {a.txt: {matchs: x}, b.txt: 5, c.txt: {absent: false}}}}
      |                                                                                                    ^^^^^
      |
      = help: a file that must exist has a text: `{matches: ""}` fits any

    error[E0421]: `calls`: `lookup`: the tool has no argument `itm`
     --> main.cases.yaml:6:54
      |
    6 | - {name: e, input: {item: x, n: 1}, expect: {calls: ['!lookup where itm = b', 'lookup where item in @set.json']}}
      |                                                      ^^^^^^^^^^^^^^^^^^^^^^^
      |
      = note: the test can never hold as intended
      = help: did you mean `item`?

    error[E0404]: `lookup where item in @set.json` names the values of a file or of a tool
     --> main.cases.yaml:6:79
      |
    6 | - {name: e, input: {item: x, n: 1}, expect: {calls: ['!lookup where itm = b', 'lookup where item in @set.json']}}
      |                                                                               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
      |
      = help: in a case, `in` takes a list: `in ["a", "b"]`

    error[E0908]: `files` of the case `f`: `a/b` lies below `a`, which is a file
     --> main.cases.yaml:7:51
      |
    7 | - {name: f, input: {item: x, n: 1}, files: {a: x, a/b: y, main.worker/c: z, workers/: w, workers: v}, expect: {calls: [lookup]}}
      |                                                   ^^^
      |
      = help: a path is relative to the program's root, without `..`: `input/a.txt`

    error[E0908]: `files` of the case `f`: `main.worker/c` lies below `main.worker`, which is a file
     --> main.cases.yaml:7:59
      |
    7 | - {name: f, input: {item: x, n: 1}, files: {a: x, a/b: y, main.worker/c: z, workers/: w, workers: v}, expect: {calls: [lookup]}}
      |                                                           ^^^^^^^^^^^^^
      |
      = help: a path is relative to the program's root, without `..`: `input/a.txt`

    error[E0908]: `files` of the case `f`: `workers/` is a folder
     --> main.cases.yaml:7:77
      |
    7 | - {name: f, input: {item: x, n: 1}, files: {a: x, a/b: y, main.worker/c: z, workers/: w, workers: v}, expect: {calls: [lookup]}}
      |                                                                             ^^^^^^^^
      |
      = help: a path is relative to the program's root, without `..`: `input/a.txt`

    error[E0908]: `files` of the case `f`: `workers` is a folder
     --> main.cases.yaml:7:90
      |
    7 | - {name: f, input: {item: x, n: 1}, files: {a: x, a/b: y, main.worker/c: z, workers/: w, workers: v}, expect: {calls: [lookup]}}
      |                                                                                          ^^^^^^^
      |
      = help: a path is relative to the program's root, without `..`: `input/a.txt`

    error[E0205]: the case `g` expects both a failure and an output
     --> main.cases.yaml:8:10
      |
    8 | - {name: g, input: {item: x, n: 1}, expect: {ensures: ['nowhere.py:f'], fails: denied}}
      |          ^
      |
      = help: a call that fails has no output: keep `fails`, or `output`, `ensures` and `judge`

    error[E0702]: `ensures` of the case `g` names `nowhere.py`, which does not exist
     --> main.cases.yaml:8:56
      |
    8 | - {name: g, input: {item: x, n: 1}, expect: {ensures: ['nowhere.py:f'], fails: denied}}
      |                                                        ^^^^^^^^^^^^^^
      |
      = help: the file is relative to the program's root

    warning[W0805]: nothing can call the worker `strict`
    --> workers/strict.worker
     = help: add it to the `allow_workers` of a worker, export it, or remove it

    --- stderr
    found 14 errors, 1 warning
    note: `llm-do check --explain E0901` says more about an error
    "##);
}

#[test]
fn recordings_that_are_damaged_say_so() {
    let scenario = shop();
    updated(&scenario);
    let file = scenario.project().join("main.recorded/given.1.jsonl");
    let whole = fs::read_to_string(&file).expect("a recording");
    let lines: Vec<&str> = whole.lines().collect();
    for kept in 0..lines.len() {
        fs::write(&file, lines[..kept].iter().map(|line| format!("{line}\n")).collect::<String>())
            .expect("a file");
        let told = scenario.run(&["test", "--case", "given"]);
        let said =
            "the recording `main.recorded/given.1.jsonl` cannot be used: it ends in the middle of a run";
        assert!(told.stdout.contains(said), "{kept} lines: {told}");
    }
    let date = recorded_date(&scenario);
    fs::write(&file, whole.replacen(&date, "{{ x }}", 1)).expect("a file");
    assert!(scenario.run(&["test", "--case", "given"]).stdout.contains("is not a date"));
    fs::write(&file, b"\xff").expect("a file");
    assert!(scenario.run(&["test", "--case", "given"]).stdout.contains("cannot be read"));
}

#[test]
fn a_judge_that_does_not_accept_the_output_fails_its_case_alone() {
    let main = "---\nmodel: script:s.yaml\n---\nSay it.\n";
    let cases = "\
cases:
- {name: judged, expect: {judge: strict}}
- {name: said, expect: {output: {matches: hi}}}
";
    let scenario = shop()
        .file("main.worker", main)
        .file("s.yaml", "answers:\n  - text: hi\n")
        .file("main.cases.yaml", cases);
    assert_snapshot!(scenario.run(&["test", "--model", "script:s.yaml"]), @r##"
    exit 1
    --- stdout
    fail  main.cases.yaml: judged
          judge: `strict`: the input does not fit: /output: "hi" is not of type "object"
            signature: strict(output: object)
    pass  main.cases.yaml: said
    1 of 2 cases pass
    "##);
    // The judge is not unreachable, and its parameter is not a mistake.
    let checked = scenario.run(&["check"]);
    assert!(!checked.stdout.contains("strict"), "{checked}");
}

#[test]
fn reports_in_the_project_are_in_no_copy() {
    let main = "---\nmodel: script:s.yaml\ntoolsets: {filesystem: {tools: [list_files]}}\n---\nLook.\n";
    let script = "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files, arguments: {path: /}}]\n  - text: \"{{ last }}\"\n";
    let cases =
        "cases:\n- {name: a, expect: {calls: [list_files]}}\n- {name: b, expect: {calls: [list_files]}}\n";
    let scenario =
        Scenario::new().file("main.worker", main).file("s.yaml", script).file("main.cases.yaml", cases);
    assert_eq!(scenario.run(&["test", "--update"]).code, Some(0));
    let told = scenario.run(&["test", "--html", "pages", "--junit", "r.xml", "--summary", "r.md"]);
    assert_eq!(told.code, Some(0), "{told}");
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
