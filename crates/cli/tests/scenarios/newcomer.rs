//! First contact of a new user: messages that say what to do, and lists of completed changes.

use crate::{scenario::Scenario, terminal_session::Session};
use serde_json::Value;
use std::time::{Duration, Instant};

/// A worker whose model is a script with these answers.
fn worker(front: &str, answers: &str) -> Scenario {
    Scenario::new()
        .file("main.worker", &format!("---\nmodel: script:s.yaml\n{front}---\nGo.\n"))
        .file("s.yaml", &format!("answers:\n{answers}"))
}

#[test]
fn a_message_without_quotes_is_told_with_them() {
    let scenario = worker("", "  - text: ok\n");
    let told = scenario.run(&["main.worker", "say", "hello", "to", "ada", "--json"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(
        told.stderr
            .contains("a message of several words needs quotes: llm-do main.worker \"say hello to ada\""),
        "{told}"
    );
}

#[test]
fn half_a_name_of_a_model_is_completed() {
    let scenario = worker("", "  - text: ok\n");
    for half in ["openai", "gpt-5-mini"] {
        let told = scenario.run(&[".", "--model", half]);
        assert!(told.code == Some(2) && told.stderr.contains("did you mean `openai:gpt-5-mini`?"), "{told}");
    }
}

#[test]
fn a_server_on_this_machine_that_is_not_running_is_told_at_once() {
    let scenario = Scenario::new()
        .env("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        .file("main.worker", "---\nmodel: openai:m\n---\nGo.\n");
    let began = Instant::now();
    let told = scenario.run(&[".", "hi"]);
    assert!(told.code == Some(1) && told.stderr.contains("is a server running there?"), "{told}");
    // Retries would have taken at least 3.75 s.
    assert!(!told.stderr.contains("attempts") && began.elapsed() < Duration::from_secs(60), "{told}");
}

#[test]
fn one_name_limits_the_cost_everywhere() {
    let scenario = worker("", "  - text: ok\n")
        .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 500}\n")
        .file("in.csv", "input\na\n")
        .file("main.cases.yaml", "cases:\n- name: one\n  expect: {output: {matches: ok}}\n");
    for name in ["--max-cost", "--budget"] {
        let amount = "0.50usd";
        for arguments in [&["."][..], &["test"], &["map", "main.worker", "in.csv", "-o", "out.jsonl"]] {
            let told = scenario.run(&[arguments, &[name, amount]].concat());
            assert_eq!(told.code, Some(0), "{arguments:?} {name}: {told}");
        }
    }
    let told = scenario.run(&[".", "--max-cost", "100calls"]);
    assert!(told.code == Some(2) && told.stderr.contains("--max-cost: `100calls` is no amount"), "{told}");
    let help = scenario.run(&["run", "--help"]).stdout;
    let output = help.find("\nOutput:").expect("a heading");
    assert!(help[output..].contains("-o, --to <FILE>"), "{help}");
}

#[test]
fn runs_are_listed_with_worker_input_and_cost() {
    let scenario = worker(
        "parameters: {topic: string}\n",
        "  - {text: ok, usage: {input_tokens: 1000, output_tokens: 100}}\n",
    )
    .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 500}\n");
    assert_eq!(scenario.run(&[".", "about bees"]).code, Some(0));
    assert_eq!(scenario.run(&[".", "--param", "topic=wasps"]).code, Some(0));
    let listed = scenario.run(&["runs", "list"]).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines[0].ends_with("0.0020 USD  main  topic=wasps"), "{listed}");
    assert!(lines[1].ends_with("0.0020 USD  main  \"about bees\""), "{listed}");
}

#[test]
fn tools_that_failed_are_counted_after_a_piped_run() {
    let scenario = worker(
        "toolsets: {filesystem: {tools: [read_file, list_files]}}\n",
        "  - when: {turn: 0}\n    calls: [{tool: read_file, arguments: {path: no.txt}}, {tool: read_file, arguments: {path: nor.txt}}, {tool: list_files}]\n  - text: ok\n",
    );
    let told = scenario.run(&["."]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "ok\n"), "{told}");
    assert!(told.stderr.contains("warning: 2 of 3 tool calls failed"), "{told}");
}

#[test]
fn a_resumed_run_is_not_shown_as_interrupted() {
    let scenario = worker(
        "toolsets: {filesystem: {}}\nreturns: {said: string}\n",
        "  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - json: {said: fine}\n",
    );
    let mut session = Session::start(scenario.command_on_terminal(&["."]));
    session.expect_prompt();
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
    let mut session = Session::start(scenario.command_on_terminal(&["runs", "resume", "last"]));
    session.expect_prompt();
    session.type_keys("a");
    let (code, shown) = session.end();
    assert_eq!((code, shown.matches("fine").count()), (Some(0), 1), "a typed result once: {shown}");
    let shown = scenario.run(&["runs", "show", "last"]).stdout;
    assert!(shown.contains("  done  main") && !shown.contains("interrupted"), "{shown}");
}

#[test]
fn the_last_run_of_a_replay_is_no_replay() {
    let scenario = worker("", "  - text: ok\n");
    assert_eq!(scenario.run(&[".", "hi"]).code, Some(0));
    // The message differs, so the replay fails; it is none of the runs that another one could replay.
    assert_eq!(scenario.run(&[".", "other", "--model", "replay:last"]).code, Some(1));
    let told = scenario.run(&[".", "hi", "--model", "replay:last"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "ok\n"), "{told}");
}

#[test]
#[cfg(feature = "local")]
fn the_smallest_model_is_not_given_what_it_can_not_do() {
    let scenario = Scenario::new()
        // A head without weights.
        .home_file("models/smollm2-135m-instruct.gguf", &format!("GGUF\u{3}{}", "\0".repeat(19)))
        .file("main.worker", "---\ntoolsets: [filesystem]\n---\nGo.\n");
    let told = scenario.run(&[".", "hi"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("local:smollm2-135m-instruct, the only model here, is too small"), "{told}");
    assert!(told.stderr.contains("llm-do models suggest"), "{told}");
    // Named, it is tried: these weights are none.
    let told = scenario.run(&[".", "hi", "--model", "local:smollm2-135m-instruct"]);
    assert!(!told.stderr.contains("too small"), "{told}");
    let doctor = scenario.run(&["doctor"]);
    assert!(doctor.stdout.contains("local:smollm2-135m-instruct, since no provider has a key"), "{doctor}");

    let told = scenario.run(&["models", "suggest", "--json"]);
    let suggested: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let (memory, needs) = (suggested["memory"].as_u64(), suggested["needs_memory"].as_u64());
    assert!(memory.zip(needs).is_none_or(|(memory, needs)| needs <= memory), "{suggested}");
    assert!(
        suggested["command"].as_str().is_some_and(|it| it.starts_with("llm-do models pull ")),
        "{suggested}"
    );
}

#[test]
fn map_keeps_the_input_beside_the_output_and_its_runs_open() {
    let scenario = worker("parameters: {text: string}\n", "  - text: ok\n")
        .file("in.csv", "id,text\n7,bees\n8,wasps\n")
        .file("folder/a.txt", "of a")
        .file("folder/b.txt", "of b");
    let map = |inputs: &str, outputs: &str, more: &[&str]| {
        let told = scenario
            .run(&[&["map", "main.worker", inputs, "-o", outputs, "--max-cost", "unlimited"], more].concat());
        assert_eq!(told.code, Some(0), "{told}");
        let text = scenario.read(outputs).expect("the output");
        text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")).collect::<Vec<_>>()
    };
    let plain = map("in.csv", "out.jsonl", &["--ignore-column", "id"]);
    assert!(plain[0].get("input").is_none());
    // Rows that are done get their input, too, and no row runs again.
    let kept = map("in.csv", "out.jsonl", &["--ignore-column", "id", "--keep"]);
    assert_eq!(kept[0]["input"], serde_json::json!({"id": "7", "text": "bees"}));
    assert_eq!((&kept[1]["input"]["id"], &kept[1]["run"]), (&"8".into(), &plain[1]["run"]));
    let files = map("folder", "files.jsonl", &["--keep"]);
    assert_eq!(files[1]["input"], serde_json::json!({"name": "b.txt"}));

    let run = kept[1]["run"].as_str().expect("an ID");
    for arguments in [&["runs", "show", run][..], &["runs", "show", run, "out.jsonl"]] {
        let told = scenario.run(arguments);
        assert!(told.code == Some(0) && told.stdout.contains("done  main"), "{told}");
    }
    let told = scenario.run(&["runs", "show", run, "--call", "0"]);
    assert!(told.code == Some(0) && told.stdout.contains("wasps"), "{told}");
    let told = scenario.run(&["runs", "show", &"0".repeat(32)]);
    assert!(told.code == Some(2) && told.stderr.contains("name the output of the map"), "{told}");
}
