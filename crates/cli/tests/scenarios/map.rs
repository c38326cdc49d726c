//! `llm-do map`: one worker over the rows of a table (docs/reference/map.md).

use crate::{
    scenario::{Finished, Scenario, lines},
    terminal_session::Session,
};
use insta::assert_snapshot;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

const WORKER: &str = "---\nmodel: script:s.yaml\nparameters: {text: string, n: integer?}\nreturns: {label: [good, bad]}\n---\nClassify {{ input.text }}.\n";
const SCRIPT: &str = "answers:\n  - when: {last_regex: 'awful'}\n    json: {label: bad}\n    usage: &u {input_tokens: 100, output_tokens: 10}\n  - when: {last_regex: 'explode'}\n    error: {kind: bad_request, message: no such thing}\n  - json: {label: good}\n    usage: *u\n";

fn classifier() -> Scenario {
    Scenario::new().file("w.worker", WORKER).file("s.yaml", SCRIPT)
}

/// The command over that input.
fn map(scenario: &Scenario, input: &str, more: &[&str]) -> Finished {
    let mut words = vec!["map", "w.worker", input, "-o", "out.jsonl", "--max-cost", "unlimited"];
    words.extend(more);
    scenario.run(&words)
}

fn output(scenario: &Scenario) -> Vec<Value> {
    lines(&scenario.read("out.jsonl").expect("an output"))
}

fn failures(scenario: &Scenario) -> Vec<Value> {
    lines(&scenario.read("out.jsonl.failures.jsonl").expect("failures"))
}

/// Returns the number of the model's answers for each row, in the records of all commands.
fn answers(scenario: &Scenario) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for entry in fs::read_dir(scenario.project().join("out.jsonl.map")).expect("the state") {
        let path = entry.expect("an entry").path();
        if !path.file_name().expect("a name").to_string_lossy().starts_with("journal-") {
            continue;
        }
        let text = fs::read_to_string(path).expect("a segment");
        // A killed process may leave half a line.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let line: Value = serde_json::from_str(line).expect("JSON");
            if line["record"]["kind"] == "model_answered" {
                *answers.entry(line["row"].as_str().expect("a row").to_owned()).or_default() += 1;
            }
        }
    }
    answers
}

#[test]
fn a_table_as_spreadsheets_write_it_becomes_one_line_a_row() {
    let table = "\u{feff}text,n\r\n\"fine, \"\"truly\"\"\nfine\",1\r\nawful,2\r\nexplode,3\r\nbroken\r\nfine,abc\r\nsame,\r\nsame,\r\n";
    let scenario = classifier().file("in.csv", table);
    let told = map(&scenario, "in.csv", &[]);
    assert_snapshot!(told, @r"
    exit 1
    --- stdout
    7 rows: 4 done, 3 failed; 440 tokens
    output:   out.jsonl
    failures: out.jsonl.failures.jsonl

    --- stderr
    note: 7 rows: 0 done, 7 missing
    warning: 2 rows can't be used and fail:
      in.csv:6 (row 4): it has 1 field, and the header names 2 columns
      in.csv:7 (row 5): `n=abc`: `abc` is not a value of type integer
    ");
    let rows: Vec<(Value, Value)> =
        output(&scenario).iter().map(|line| (line["row"].clone(), line["output"]["label"].clone())).collect();
    let expected = [(1, "good"), (2, "bad"), (6, "good"), (7, "good")];
    assert_eq!(rows, expected.map(|(row, label)| (json!(row), json!(label))));
    let usage = json!({"input_tokens": 100, "output_tokens": 10});
    assert!(output(&scenario).iter().all(|line| line["usage"] == usage && line["run"].is_string()));
    let failed: Vec<Value> = failures(&scenario)
        .into_iter()
        .map(|mut line| {
            line["$failure"]
                .as_object_mut()
                .expect("an object")
                .retain(|key, _| key == "kind" || key == "row");
            line
        })
        .collect();
    let expected = [
        json!({"text": "explode", "n": 3, "$failure": {"kind": "model", "row": 3}}),
        json!({"$row": ["broken"], "$failure": {"kind": "invalid_input", "row": 4}}),
        json!({"text": "fine", "n": "abc", "$failure": {"kind": "invalid_input", "row": 5}}),
    ];
    assert_eq!(failed, expected);
    // No folder for a row, and none among the project's runs.
    assert!(scenario.runs().is_empty());
    let state = fs::read_dir(scenario.project().join("out.jsonl.map")).unwrap();
    assert!(state.map(|entry| entry.unwrap().path()).all(|path| !path.is_dir()), "no folders");
}

#[test]
fn the_same_command_again_runs_what_is_missing_and_nothing_twice() {
    let scenario = classifier().file("in.csv", "text\na\nb\nb\n");
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    let first = scenario.read("out.jsonl").unwrap();
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    assert_eq!(scenario.read("out.jsonl").unwrap(), first);
    assert_eq!(answers(&scenario).len(), 3);
    // A new row at the top and another equal one: two rows run, and all come in the new order.
    let scenario = scenario.file("in.csv", "text\nnew\na\nb\nb\nb\n");
    let told = map(&scenario, "in.csv", &[]);
    assert!(told.code == Some(0) && told.stderr.contains("5 rows: 3 done, 2 missing"), "{told}");
    let answered = answers(&scenario);
    assert!(answered.len() == 5 && answered.values().all(|times| *times == 1), "{answered:?}");
    let runs: Vec<Value> = output(&scenario).iter().map(|line| line["run"].clone()).collect();
    assert_eq!(runs[1..4], lines(&first).iter().map(|line| line["run"].clone()).collect::<Vec<_>>());
    // Another definition is another program; back again, what was done counts.
    let scenario = scenario.file("w.worker", &WORKER.replace("Classify", "Sort"));
    let told = map(&scenario, "in.csv", &[]);
    assert!(told.stderr.contains("have changed") && told.stderr.contains("5 rows: 0 done"), "{told}");
    assert_eq!(answers(&scenario).len(), 10);
    let scenario = scenario.file("w.worker", WORKER);
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    assert_eq!(answers(&scenario).len(), 10);
    assert_eq!(output(&scenario).iter().map(|line| line["run"].clone()).collect::<Vec<_>>(), runs);
}

/// Rows that are killed often enough. `scripts/prove map` does the same with 100,000 rows.
#[test]
fn a_map_that_is_killed_at_any_moment_has_each_row_once_and_the_same_bytes() {
    let rows: u32 = std::env::var("LLM_DO_TEST_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(400);
    let mut table = String::from("text,n\n");
    for row in 0..rows {
        // Each row is there twice.
        let (word, n) = (if row % 7 == 0 { "awful" } else { "fine" }, row / 2);
        table.push_str(&format!("\"{word}, {n}\",{n}\n"));
    }
    let (undisturbed, killed) = (classifier().file("in.csv", &table), classifier().file("in.csv", &table));
    let began = Instant::now();
    assert_eq!(map(&undisturbed, "in.csv", &[]).code, Some(0));
    let whole = began.elapsed();
    for part in 1..=10 {
        let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited", "-q"];
        let mut child = killed.command(&words).stdout(Stdio::null()).spawn().expect("it starts");
        // At ten different moments, each after some rows more.
        thread::sleep(whole.mul_f64(0.05 + 0.08 * f64::from(part % 5)));
        child.kill().expect("a kill");
        child.wait().expect("an end");
        if let Some(lines_) = killed.read("out.jsonl") {
            assert!(lines_.ends_with('\n') && lines(&lines_).len() == rows as usize, "a partial output");
        }
    }
    assert_eq!(map(&killed, "in.csv", &[]).code, Some(0));
    assert_eq!(killed.read("out.jsonl"), undisturbed.read("out.jsonl"));
    assert_eq!(output(&killed).len(), rows as usize);
    let answered = answers(&killed);
    assert_eq!(answered.len(), rows as usize);
    assert!(answered.values().all(|times| *times == 1), "an answer was paid twice");
}

#[test]
fn columns_are_checked_before_anything_is_sent() {
    let scenario = classifier()
        .file("other.csv", "review,stars\ngood,5\n")
        .file("twice.csv", "text,text\na,b\n")
        .file("lines.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\", \"txet\": 1}\n")
        .file("odd.txt", "a\n")
        .file("semicolons.csv", "text;n\na;1\n");
    assert_snapshot!(map(&scenario, "other.csv", &[]).stderr, @"
    error: the column `review` fits no parameter
      signature: w(text: string, n: integer?)
    hint: name its parameter with --set-column PARAMETER=review
    hint: or leave it out with --ignore-column review
    ");
    assert_snapshot!(map(&scenario, "other.csv", &["--ignore-column", "review", "--ignore-column", "stars"]).stderr, @"
    error: no column is for `text`
      signature: w(text: string, n: integer?)
    hint: name a column with --set-column text=COLUMN
    hint: or give all rows the same value with --param text=VALUE
    ");
    assert_snapshot!(map(&scenario, "other.csv", &["--set-column", "text=reviews"]).stderr, @"
    error: there is no column `reviews`
      signature: w(text: string, n: integer?)
    hint: did you mean `review`?
    hint: the columns are `review`, `stars`
    ");
    assert_snapshot!(map(&scenario, "twice.csv", &[]).stderr, @"error: twice.csv:1: two columns are named `text`");
    assert_snapshot!(map(&scenario, "lines.jsonl", &[]).stderr, @"
    error: lines.jsonl:2 (row 2): the column `txet` fits no parameter
      signature: w(text: string, n: integer?)
    hint: name its parameter with --set-column text=txet
    hint: or leave it out with --ignore-column txet
    ");
    assert_snapshot!(map(&scenario, "odd.txt", &[]).stderr, @"error: odd.txt: only .jsonl, .ndjson, .csv and .tsv files, and folders, are input");
    assert_snapshot!(map(&scenario, "semicolons.csv", &[]).stderr, @"
    error: the column `text;n` fits no parameter
      signature: w(text: string, n: integer?)
    hint: the fields of a .csv file are separated by commas and those of a .tsv file by tabs: write the table so
    hint: name its parameter with --set-column text='text;n'
    hint: or leave it out with --ignore-column 'text;n'
    ");
    assert!(map(&scenario, "none.csv", &[]).code == Some(2));
    assert!(scenario.read("out.jsonl").is_none());
    // None of them has left a state that is in the way of the right input.
    let told = map(&scenario, "other.csv", &["--set-column", "text=review", "--set-column", "n=stars"]);
    assert_eq!(told.code, Some(0), "{told}");
    let told = map(&scenario, "lines.jsonl", &["--ignore-column", "txet"]);
    assert_eq!(told.code, Some(2), "the state of a map over another file is in the way: {told}");
}

#[test]
fn an_output_from_elsewhere_is_not_overwritten() {
    let scenario = classifier().file("in.csv", "text\na\n").file("out.jsonl", "precious\n");
    assert_snapshot!(map(&scenario, "in.csv", &[]), @"
    exit 2
    --- stderr
    error: out.jsonl exists, and is not from this map
    hint: move out.jsonl away, and run the command again
    hint: or choose another file with -o
    ");
    assert_eq!(scenario.read("out.jsonl").unwrap(), "precious\n");
    fs::remove_file(scenario.project().join("out.jsonl")).unwrap();
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    let scenario = scenario.file("more.csv", "text\nb\n");
    assert_snapshot!(map(&scenario, "more.csv", &[]).stderr, @"
    error: out.jsonl.map belongs to a map over [DIR]/project/in.csv
    hint: choose another file with -o
    hint: or give that map up: remove out.jsonl.map and out.jsonl
    ");
    assert_eq!(output(&scenario).len(), 1);
}

#[test]
fn rows_that_failed_are_input_for_another_map_and_for_a_second_try() {
    let scenario = classifier().file("in.csv", "text,n\nfine,1\nexplode,2\nexplode,x\n");
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(1));
    let second = |scenario: &Scenario| {
        scenario.run(&[
            "map",
            "w.worker",
            "out.jsonl.failures.jsonl",
            "-o",
            "second.jsonl",
            "--max-cost",
            "unlimited",
        ])
    };
    assert_eq!(second(&scenario).code, Some(1), "they fail as before");
    let of = |file: &str| -> Vec<(Value, Value)> {
        lines(&scenario.read(file).unwrap())
            .iter()
            .map(|line| (line["text"].clone(), line["n"].clone()))
            .collect()
    };
    assert_eq!(of("second.jsonl.failures.jsonl"), of("out.jsonl.failures.jsonl"));
    // The cause is mended: nothing runs by itself, and one of them does on demand.
    let scenario = scenario.file("s.yaml", &SCRIPT.replace("explode", "nothing"));
    let again = map(&scenario, "in.csv", &[]);
    assert!(
        again.code == Some(1) && again.stderr.contains("3 rows: 1 done, 0 missing, 2 failed before"),
        "{again}"
    );
    assert_eq!(map(&scenario, "in.csv", &["--retry-failed"]).code, Some(1));
    assert_eq!(output(&scenario).len(), 2);
    assert_eq!(failures(&scenario).len(), 1);
}

#[test]
fn a_limit_of_failures_or_of_cost_ends_it_with_code_4_and_more_rows_can_follow() {
    let scenario = classifier().file("in.csv", "text\nexplode 1\nexplode 2\nexplode 3\nfine\n");
    let told = map(&scenario, "in.csv", &["--max-failures", "25%", "--concurrency", "1", "--pilot", "0"]);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(told.stdout.contains("2 failed, 2 missing"), "{told}");
    assert_eq!(map(&scenario, "in.csv", &["--max-failures", "3"]).code, Some(1));
    assert_eq!((output(&scenario).len(), failures(&scenario).len()), (1, 3));

    // 100 tokens of input and 10 of output a row: 0.0002 USD.
    let prices = "prices:\n  'script:*': {input: 1, output: 10}\n";
    let scenario = classifier().file("in.csv", "text\na\nb\nc\nd\ne\n").home_file("config.yaml", prices);
    let command = |most: &str| {
        let words =
            ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", most, "--pilot", "2", "--json"];
        scenario.run(&words)
    };
    let told = command("0.0005usd");
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((told.code, &report["status"]), (Some(4), &json!("max_cost")), "{told}");
    assert_eq!(
        (&report["rows"]["done"], &report["usage"]["cost_usd"]),
        (&json!(2), &json!(0.0004)),
        "{told}"
    );
    assert!(
        told.stderr.contains("judged by 2 rows, the other 3 will use 0.0005 USD to 0.0007 USD"),
        "{told}"
    );
    assert_eq!(command("1usd").code, Some(0));
    assert_eq!(output(&scenario).len(), 5);
}

#[test]
fn without_a_terminal_a_cost_must_be_named() {
    let scenario = classifier().file("in.csv", "text\na\n");
    assert_snapshot!(scenario.run(&["map", "w.worker", "in.csv", "-o", "out.jsonl"]), @"
    exit 3
    --- stderr
    error: --max-cost is required without a terminal
    hint: say how much they may cost with --max-cost, such as --max-cost 5usd or --max-cost unlimited
    ");
    assert!(scenario.read("out.jsonl").is_none());
    let unpriced = Scenario::new()
        .file("w.worker", "---\nparameters: {text: string}\n---\nX\n")
        .file("in.csv", "text\na\n")
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .env("LLM_DO_MODEL", "openai:unknown-model");
    let told = unpriced.run(&["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "5usd"]);
    assert!(
        told.code == Some(2) && told.stderr.contains("the price of openai:unknown-model is not known"),
        "{told}"
    );
}

#[test]
fn on_a_terminal_the_pilot_runs_and_the_rest_is_asked_for() {
    let scenario = classifier().file("in.csv", "text\na\nb\nc\nd\n");
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--pilot", "2"];
    let mut session = Session::start(scenario.command_on_terminal(&words));
    session.expect("Run the other 2 rows?");
    session.wait_for_keys();
    session.type_keys("n");
    let (code, shown) = session.end();
    assert_eq!(code, Some(3), "{shown}");
    assert!(shown.contains("2 missing"), "{shown}");
    assert_eq!(output(&scenario).len(), 2);
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--pilot", "0"];
    let mut session = Session::start(scenario.command_on_terminal(&words));
    session.expect("Run 2 rows?");
    session.wait_for_keys();
    session.type_keys("y");
    assert_eq!(session.end().0, Some(0));
    assert_eq!(output(&scenario).len(), 4);
}

#[test]
fn a_signal_at_the_question_ends_it_and_the_output_is_written() {
    let scenario = classifier().file("in.csv", "text\na\nb\nc\nd\n");
    for pilot in ["2", "0"] {
        let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--pilot", pilot];
        let mut session = Session::start(scenario.command_on_terminal(&words));
        session.expect("2 rows?");
        session.wait_for_keys();
        session.type_keys("\x03");
        let (code, shown) = session.end();
        assert_eq!(code, Some(130), "{shown}");
        assert!(shown.contains("2 missing"), "{shown}");
        assert_eq!(output(&scenario).len(), 2);
    }
}

#[test]
fn a_limit_of_failures_is_checked_at_the_end_too_and_its_way_out_leads_out() {
    let scenario = classifier().file("in.csv", "text\nexplode 1\nexplode 2\nexplode 3\nexplode 4\n");
    let told = map(&scenario, "in.csv", &["--max-failures", "1"]);
    assert_eq!(told.code, Some(4), "{told}");
    let scenario = classifier().file("in.csv", "text\nexplode 1\nexplode 2\nfine\n");
    let one = ["--max-failures", "1", "--concurrency", "1"];
    for _ in 0..2 {
        let told = map(&scenario, "in.csv", &one);
        assert_eq!(told.code, Some(4), "{told}");
        assert!(
            told.stdout.contains("raise --max-failures or run the failed rows again with --retry-failed"),
            "{told}"
        );
    }
    assert_eq!(map(&scenario, "in.csv", &["--max-failures", "2"]).code, Some(1));
    assert_eq!(output(&scenario).len(), 1);
    let told = map(&scenario, "in.csv", &[]);
    assert!(told.stdout.starts_with("3 rows: 1 done (1 before), 2 failed\n"), "{told}");
    let told = map(&scenario, "in.csv", &["--max-failures", "many"]);
    assert!(
        told.stderr.contains("--max-failures takes a number of rows or a percentage, such as 5%; got `many`"),
        "{told}"
    );
}

#[test]
fn a_script_costs_nothing() {
    let scenario = classifier().file("in.csv", "text\na\nb\nc\n");
    let told = map(&scenario, "in.csv", &["--pilot", "1"]);
    assert!(told.stderr.contains("tokens, at no cost"), "{told}");
}

#[test]
fn a_signal_ends_it_in_order_and_the_state_is_kept() {
    let table: String = (0..200).map(|n| format!("{n}\n")).collect();
    let slow = "answers:\n  - json: {label: good}\n    delay_ms: 20\n";
    let scenario = classifier().file("s.yaml", slow).file("in.csv", &format!("text\n{table}"));
    let words =
        ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited", "--concurrency", "4"];
    let mut command = scenario.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let results = scenario.project().join("out.jsonl.map/results.jsonl");
    while fs::metadata(&results).map_or(0, |found| found.len()) == 0 {
        thread::sleep(Duration::from_millis(2));
    }
    kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let told = scenario.finished(child.wait_with_output().unwrap());
    assert_eq!(told.code, Some(130), "{told}");
    assert!(told.stderr.contains("stopping: no more rows begin"), "{told}");
    let done = output(&scenario).len();
    assert!((1..200).contains(&done), "{done}");
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    assert_eq!(output(&scenario).len(), 200);
    assert!(answers(&scenario).values().all(|times| *times == 1));
}

#[test]
fn lines_come_as_rows_end_if_order_does_not_matter() {
    let script = "answers:\n  - when: {last_regex: slow}\n    json: {label: bad}\n    delay_ms: 300\n  - json: {label: good}\n";
    let scenario = classifier().file("s.yaml", script).file("in.csv", "text\nslow\nfast\n");
    assert_eq!(map(&scenario, "in.csv", &["--unordered"]).code, Some(0));
    let rows: Vec<Value> = output(&scenario).iter().map(|line| line["row"].clone()).collect();
    assert_eq!(rows, [json!(2), json!(1)]);
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(0));
    let rows: Vec<Value> = output(&scenario).iter().map(|line| line["row"].clone()).collect();
    assert_eq!(rows, [json!(1), json!(2)]);
}

#[test]
fn each_file_of_a_folder_is_a_row() {
    let scenario = classifier()
        .file("docs/b.txt", "awful")
        .file("docs/a.txt", "fine")
        .file("docs/.hidden", "x")
        .file("docs/more/c.txt", "below");
    let told = map(&scenario, "docs", &[]);
    assert_eq!(told.code, Some(0), "{told}");
    let labels: Vec<Value> = output(&scenario).iter().map(|line| line["output"]["label"].clone()).collect();
    assert_eq!(labels, ["good", "bad"]);
    // Its content decides whether a file runs again.
    let scenario = scenario.file("docs/a.txt", "awful now");
    assert_eq!(map(&scenario, "docs", &[]).code, Some(0));
    assert_eq!(answers(&scenario).len(), 3);
    let paths = Scenario::new()
        .file("w.worker", "---\nmodel: script:s.yaml\nparameters: {file: path}\ntoolsets: [filesystem]\n---\nRead {{ input.file }}.\n")
        .file("s.yaml", "answers:\n  - when: {turn: 0}\n    calls: [{tool: read_file, arguments: {path: /file/a.txt}}]\n  - text: read\n")
        .file("docs/a.txt", "content");
    let told = paths.run(&["map", "w.worker", "docs", "-o", "out.jsonl", "--max-cost", "unlimited"]);
    assert_eq!(told.code, Some(0), "{told}");
}

#[test]
fn a_call_that_must_ask_fails_its_row() {
    let worker = "---\nmodel: script:s.yaml\nparameters: {text: string}\ntoolsets: [filesystem]\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntool_rules: {write_file: ask}\n---\nX\n";
    let script = "answers:\n  - when: {turn: 0, last_regex: writes}\n    calls: [{tool: write_file, arguments: {path: /out/a.txt, content: x}}]\n  - text: done\n";
    let scenario =
        Scenario::new().file("project.yaml", "name: p\n").file("main.worker", worker).file("s.yaml", script);
    fs::create_dir(scenario.project().join("out")).unwrap();
    let scenario = scenario.file("in.csv", "text\nwrites\nreads\n");
    let command = |more: &[&str]| {
        let words = ["map", ".", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
        scenario.run(&[&words[..], more].concat())
    };
    assert_eq!(command(&[]).code, Some(1));
    let failed = failures(&scenario);
    assert_eq!(failed.len(), 1);
    assert_eq!((&failed[0]["text"], &failed[0]["$failure"]["kind"]), (&json!("writes"), &json!("asks")));
    assert!(failed[0]["$failure"]["message"].to_string().contains("`--allow write_file`"), "{failed:?}");
    assert!(scenario.read("out/a.txt").is_none());
    assert_eq!(command(&["--retry-failed", "--allow", "write_file"]).code, Some(0));
    assert_eq!(scenario.read("out/a.txt").as_deref(), Some("x"));
}

#[test]
fn a_row_that_was_cut_off_in_an_effect_fails_as_interrupted() {
    let worker = "---\nmodel: script:s.yaml\nparameters: {text: string}\ntoolsets: {shell: {rules: [{pattern: sleep, approval_required: false}]}}\n---\nX\n";
    let script = "answers:\n  - when: {turn: 0, last_regex: slow}\n    calls: [{tool: shell, arguments: {command: sleep 600}}]\n  - text: done\n";
    let scenario =
        Scenario::new().file("w.worker", worker).file("s.yaml", script).file("in.csv", "text\nslow\nfast\n");
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited", "--trusted"];
    let mut child = scenario.command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    let journal = scenario.project().join("out.jsonl.map/journal-000000.jsonl");
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"tool_started\"")) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was cut off");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for more in [&[][..], &["--retry-failed"]] {
        let told = scenario.run(&[&words[..], more].concat());
        assert_eq!(told.code, Some(1), "{told}");
        let failed = failures(&scenario);
        assert_eq!((failed.len(), &failed[0]["$failure"]["kind"]), (1, &json!("interrupted")), "{failed:?}");
        assert_eq!(output(&scenario).len(), 1);
    }
}

#[test]
fn a_state_from_elsewhere_is_refused() {
    let [mine, other] = [classifier(), classifier()].map(|scenario| scenario.file("in.csv", "text\na\n"));
    assert_eq!(map(&other, "in.csv", &[]).code, Some(0));
    let state = "out.jsonl.map";
    crate::recorded_examples::copy(&other.project().join(state), &mine.project().join(state));
    let told = map(&mine, "in.csv", &[]);
    assert!(told.code == Some(2) && told.stderr.contains("was not written by this user's llm-do"), "{told}");
    // Records of a run that was cut off, with a word changed.
    let script =
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: list_files}]\n  - text: x\n    delay_ms: 60000\n";
    let mine = Scenario::new()
        .file(
            "w.worker",
            "---\nmodel: script:s.yaml\nparameters: {text: string}\ntoolsets: [filesystem]\n---\nX\n",
        )
        .file("s.yaml", script)
        .file("in.csv", "text\na\n");
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
    let mut child = mine.command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    let journal = mine.project().join("out.jsonl.map/journal-000000.jsonl");
    while !fs::read_to_string(&journal).is_ok_and(|text| text.contains("\"tool_ended\"")) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was cut off");
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.replacen("list_files", "list_filez", 1)).unwrap();
    let told = mine.run(&words);
    assert!(told.code == Some(1) && told.stderr.contains("was not written by this user's llm-do"), "{told}");
}

#[test]
fn a_disk_that_fills_ends_it_and_the_same_command_continues() {
    let table: String = (0..300).map(|row| format!("row {row}\n")).collect();
    let scenario = classifier().file("in.csv", &format!("text\n{table}"));
    let binary = env!("CARGO_BIN_EXE_llm-do");
    let command =
        format!("ulimit -f 300; exec {binary} map w.worker in.csv -o out.jsonl --max-cost unlimited");
    let mut full = scenario.command_of(std::path::Path::new("/bin/sh"));
    let told = scenario.finished(full.args(["-c", &command]).output().unwrap());
    assert_eq!(told.code, Some(1), "{told}");
    assert!(
        told.stderr.contains("out.jsonl.map") && told.stderr.contains("what is done stays done"),
        "{told}"
    );
    assert!(scenario.read("out.jsonl").is_none());
    let told = map(&scenario, "in.csv", &[]);
    assert_eq!(told.code, Some(0), "{told}");
    assert_eq!(output(&scenario).len(), 300);
    let answered = answers(&scenario);
    assert!(answered.len() == 300 && answered.values().all(|times| *times == 1));
}

#[test]
fn two_maps_do_not_share_an_output() {
    let slow = "answers:\n  - json: {label: good}\n    delay_ms: 60000\n";
    let scenario = classifier().file("s.yaml", slow).file("in.csv", "text\na\n");
    let words = ["map", "w.worker", "in.csv", "-o", "out.jsonl", "--max-cost", "unlimited"];
    let mut child = scenario.command(&words).stderr(Stdio::null()).spawn().expect("it starts");
    let journal = scenario.project().join("out.jsonl.map/journal-000000.jsonl");
    while !journal.exists() {
        thread::sleep(Duration::from_millis(5));
    }
    assert_snapshot!(scenario.run(&words), @"
    exit 2
    --- stderr
    error: another llm-do map is writing out.jsonl
    hint: wait for its end, or stop that process
    ");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_quote_that_is_never_closed_does_not_swallow_the_rows_below() {
    // The last column would hold the rest of the file.
    let scenario = classifier().file("in.csv", "n,text\n1,a\n2,\"oops\n3,b\n");
    let told = map(&scenario, "in.csv", &[]);
    assert_eq!(told.code, Some(2), "{told}");
    assert_snapshot!(told.stderr, @r#"
    error: in.csv:3: a quote is opened in this row and never closed, so that the rest of the file would be one field
    hint: close it, or write the field as "…" with each quote of its text doubled
    "#);
    let state = scenario.project().join("out.jsonl.map");
    assert!(!state.exists(), "a map that did not begin leaves nothing");
    // A folder that was there before may hold what no map has written.
    fs::create_dir(&state).unwrap();
    fs::write(state.join("precious"), "").unwrap();
    assert_eq!(map(&scenario, "in.csv", &[]).code, Some(2));
    assert!(state.join("precious").exists());
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
    let scenario = classifier().file("in.csv", "");
    let mut text = String::from("text\nfine\n\"begins here\n");
    text.push_str(&"line after line\n".repeat((65 << 20) / 16));
    fs::write(scenario.project().join("in.csv"), text).unwrap();
    let told = map(&scenario, "in.csv", &[]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("is there a quote that is not closed?"), "{told}");
}
