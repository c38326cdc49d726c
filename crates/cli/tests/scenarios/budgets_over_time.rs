//! Budgets of a day or a month: no processes overspend them together, whatever happens to each
//! (docs/reference/budgets.md).

use crate::scenario::{Finished, Scenario};
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::{Value, json};
use std::{
    fs,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A worker that makes two calls and answers; each request uses 1,000 tokens.
fn looking() -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: looking\n")
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nLook.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    text: Looking.\n    calls: [{tool: list_files}]\n    usage: &u {input_tokens: 900, output_tokens: 100}\n  - when: {turn: 1}\n    calls: [{tool: list_files, arguments: {path: /}}]\n    usage: *u\n  - text: done\n    usage: *u\n",
        )
        .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 500}\n")
}

/// A worker whose model is at a server.
fn remote(server: &TestServer, more: &str) -> Scenario {
    Scenario::new()
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .env("OPENAI_API_KEY", "sk-first-0123456789")
        .home_file("config.yaml", "prices:\n  'openai:one': {input: 1, output: 10, max_output: 2000}\n")
        .file("project.yaml", "name: remote\n")
        .file("main.worker", &format!("---\nmodel: openai:one\ntoolsets: [filesystem]\n{more}---\nWrite.\n"))
}

/// The entries of `llm-do budgets --json`.
fn budgets(scenario: &Scenario) -> Vec<Value> {
    let told = scenario.run(&["budgets", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    report["budgets"].as_array().expect("a list").clone()
}

fn requests(scenario: &Scenario) -> usize {
    scenario.journal().iter().filter(|record| record["kind"] == "model_requested").count()
}

#[test]
fn a_used_up_budget_ends_a_run_and_says_when_it_opens_again() {
    let scenario = looking().home_file(
        "budgets.yaml",
        "budgets:\n  daily: {per: day, max_tokens: 2500}\n  monthly: {per: month, max_cost_usd: 5}\n",
    );
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(4), "{told}");
    let said = &told.stderr;
    assert!(
        said.contains("error: the budget `daily` leaves too little: 2000 of 2500 tokens per day used"),
        "{told}"
    );
    assert!(said.contains("; it opens again at 20") && said.contains(" 00:00 +00:00"), "{told}");
    assert!(said.contains("the incomplete answer:\n  │ Looking."), "{told}");
    assert_eq!(requests(&scenario), 2);

    let [daily, monthly] = budgets(&scenario).try_into().expect("two budgets");
    assert_eq!((&daily["budget"], &daily["per"]), (&json!("daily"), &json!("day")));
    assert_eq!(
        (&daily["used_tokens"], &daily["reserved_tokens"], &daily["left_tokens"]),
        (&json!(2000), &json!(0), &json!(500)),
        "{daily}"
    );
    assert_eq!((&monthly["used_cost_usd"], &monthly["left_cost_usd"]), (&json!(0.0038), &json!(4.9962)));
    assert!(monthly["opens_again"].as_str().is_some_and(|time| time.ends_with("-01T00:00:00+00:00")));
    let shown = scenario.run(&["budgets"]).stdout;
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(rows[0], ["BUDGET", "PER", "LIMIT", "USED", "RESERVED", "LEFT", "OPENS AGAIN"], "{shown}");
    assert_eq!(
        rows[1][..6],
        ["daily", "day", "2500 tokens", "2000 tokens", "0 tokens", "500 tokens"],
        "{shown}"
    );
    assert_eq!(rows[2][..6], ["monthly", "month", "5.00 USD", "0.0038 USD", "0 USD", "5.00 USD"], "{shown}");

    // Nothing is sent any more, by whichever command.
    fs::write(
        scenario.home().join("home/.llm-do/budgets.yaml"),
        "budgets: {daily: {per: day, max_tokens: 2100}}\n",
    )
    .expect("a file");
    assert_eq!(scenario.run(&["."]).code, Some(4));
    assert_eq!(requests(&scenario), 0);
    // A model without a price of the user costs nothing.
    fs::remove_file(scenario.home().join("home/.llm-do/config.yaml")).expect("a file");
    assert_eq!(scenario.run(&["."]).code, Some(0));
    assert_eq!(budgets(&scenario)[0]["used_tokens"], json!(2000));
}

#[test]
fn four_runs_side_by_side_never_cost_more_than_the_budget() {
    let (cost, number) = (Arc::<AtomicU64>::default(), AtomicU64::new(0));
    let spent = Arc::clone(&cost);
    let server = TestServer::start(Script::route(move |seen| {
        let most = ["max_completion_tokens", "max_tokens"].iter().find_map(|key| seen.body[*key].as_u64());
        let output = most.expect("a budget bounds answers").min(700);
        // Millionths of a dollar.
        spent.fetch_add(10 + output * 10, Ordering::Relaxed);
        let number = number.fetch_add(1, Ordering::Relaxed);
        Reply::tool("write_file", json!({"path": format!("{number}.txt"), "content": "a"})).usage(10, output)
    }));
    let scenario =
        remote(&server, "").home_file("budgets.yaml", "budgets: {all: {per: month, max_cost_usd: 0.1}}\n");
    let running: Vec<_> = (0..4)
        .map(|_| {
            let mut command = scenario.command(&[".", "go", "--approval", "approve_all"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
        })
        .collect();
    for child in running {
        let told = scenario.finished(child.wait_with_output().expect("it ends"));
        assert_eq!(told.code, Some(4), "{told}");
        assert!(told.stderr.contains("the budget `all` leaves too little"), "{told}");
    }
    let cost = cost.load(Ordering::Relaxed);
    assert!((90_000..=100_000).contains(&cost), "{cost} millionths of a dollar");
    let all = &budgets(&scenario)[0];
    assert_eq!(
        (all["used_cost_usd"].as_f64(), &all["reserved_cost_usd"]),
        (Some(cost as f64 / 1e6), &json!(0.0))
    );
}

/// A run that is killed while its request is in flight. Returns what a resume says.
fn killed_in_flight(server: &TestServer, scenario: &Scenario) -> Finished {
    let mut child = scenario
        .command(&[".", "go"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    server.wait_for_requests(1);
    let all = &budgets(scenario)[0];
    assert!(all["reserved_tokens"].as_u64() > Some(2000) && all["used_tokens"] == json!(0), "{all}");
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let all = &budgets(scenario)[0];
    assert!(all["used_tokens"].as_u64() > Some(2000) && all["reserved_tokens"] == json!(0), "{all}");
    scenario.run(&["runs", "resume"])
}

#[test]
fn a_request_of_a_killed_run_counts_in_full_and_again_when_a_resume_sends_it_again() {
    let first = || TestServer::start(Script::turns([Reply::hang(), Reply::text("done").usage(10, 5)]));
    let server = first();
    let scenario =
        remote(&server, "").home_file("budgets.yaml", "budgets: {all: {per: day, max_tokens: 10000}}\n");
    let told = killed_in_flight(&server, &scenario);
    assert_eq!((told.code, told.stdout.trim()), (Some(0), "done"), "{told}");
    let all = &budgets(&scenario)[0];
    assert!(all["used_tokens"].as_u64() > Some(2015) && all["reserved_tokens"] == json!(0), "{all}");

    // Enough for one request, and not for two that may both have been answered.
    let server = first();
    let scenario =
        remote(&server, "").home_file("budgets.yaml", "budgets: {all: {per: day, max_tokens: 3500}}\n");
    let told = killed_in_flight(&server, &scenario);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(told.stderr.contains("the budget `all` leaves too little"), "{told}");
    assert_eq!(server.request_count(), 1, "nothing is sent again");
}

#[test]
fn a_test_that_a_budget_ends_blames_the_budget_and_judges_no_case() {
    let case = "{name: a, input: x, expect: {fails: limit}}";
    let scenario = looking()
        .file("main.cases.yaml", &format!("cases: [{case}]\n"))
        .home_file("budgets.yaml", "budgets: {daily: {per: day, max_tokens: 2500}}\n");
    let told = scenario.run(&["test", ".", "--live", "--max-cost", "1"]);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(
        told.stdout
            .contains("0 of 0 cases pass; 1 did not run, because a budget over time leaves too little"),
        "{told}"
    );
    assert!(told.stderr.contains("error: the budget `daily` leaves too little: 2000 of 2500"), "{told}");
}

#[test]
fn a_budget_counts_a_program_however_it_is_started() {
    let started = [&["."][..], &["main.worker", "--no-project"], &["main.worker"]];
    for program in ["each", "[HERE]", "[HERE]/main.worker"] {
        for (first, second) in [(0, 1), (1, 0), (2, 1)] {
            let scenario = looking();
            let here = scenario.project().canonicalize().expect("a folder").display().to_string();
            let program = program.replace("[HERE]", &here);
            let scenario = scenario.home_file(
                "budgets.yaml",
                &format!("budgets: {{own: {{per: day, program: {program}, max_tokens: 4000}}}}\n"),
            );
            let told = scenario.run(started[first]);
            assert_eq!(told.code, Some(0), "{program}, {first}: {told}");
            let told = scenario.run(started[second]);
            assert_eq!(told.code, Some(4), "{program}, {first}, {second}: {told}");
        }
    }
}

#[test]
fn a_budget_for_a_program_that_does_not_exist_is_warned_about() {
    let scenario = looking().home_file(
        "budgets.yaml",
        "budgets: {own: {per: day, program: /nonexistent/a.worker, max_tokens: 4000}}\n",
    );
    let warning = "the budget `own` counts nothing: /nonexistent/a.worker does not exist";
    let told = scenario.run(&["budgets"]);
    assert!(told.code == Some(0) && told.stderr.contains(warning), "{told}");
    let told = scenario.run(&["doctor"]);
    assert!(told.stdout.contains(warning), "{told}");
}

#[test]
fn a_broken_file_is_an_error_before_the_first_request() {
    let scenario = looking()
        .file("main.cases.yaml", "cases: [{name: a, input: x, expect: {output: done}}]\n")
        .home_file("budgets.yaml", "budgets:\n  daily: {per: day, max_tokns: 2500}\n");
    for command in [&["."][..], &["test", "."], &["budgets"], &["serve", ".", "--listen", "127.0.0.1:0"]] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(2), "{command:?}: {told}");
        assert!(
            told.stderr.contains("budgets.yaml:2:") && told.stderr.contains("max_tokns"),
            "{command:?}: {told}"
        );
    }
    assert!(scenario.runs().is_empty());
    let told = scenario.run(&["doctor"]);
    assert!(told.stdout.contains("budgets.yaml:2:"), "{told}");
    let home = scenario.home().join("home/.llm-do");
    fs::write(home.join("budgets.yaml"), "budgets:\n  daily:\n").expect("a file");
    for command in ["budgets", "."] {
        let told = scenario.run(&[command]);
        assert_eq!(told.code, Some(2), "{command}: {told}");
        assert!(told.stderr.contains("budgets.yaml:2:") && !told.stderr.contains("error: error"), "{told}");
    }
    fs::remove_file(home.join("budgets.yaml")).expect("a file");
    std::os::unix::fs::symlink("/nonexistent.yaml", home.join("budgets.yaml")).expect("a link");
    for command in ["budgets", "."] {
        let told = scenario.run(&[command]);
        assert!(told.code == Some(2) && told.stderr.contains("budgets.yaml"), "{command}: {told}");
    }
    fs::remove_file(home.join("budgets.yaml")).expect("a link");
    fs::write(home.join("budgets.yaml"), "budgets: {daily: {per: day, max_tokens: 9000}}\n").expect("a file");
    fs::create_dir_all(home.join("spending")).expect("a folder");
    fs::write(home.join("spending/book.json"), "{").expect("a file");
    let told = scenario.run(&["."]);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(
        told.stderr.contains("the request is not sent: cannot use [DIR]/home/.llm-do/spending/book.json"),
        "{told}"
    );
}

#[test]
fn a_budget_of_money_refuses_a_model_without_a_price_and_one_of_tokens_counts_it() {
    let server = TestServer::start(Script::turns([Reply::text("done").usage(10, 5)]));
    let scenario = remote(&server, "")
        .home_file("config.yaml", "")
        .home_file("budgets.yaml", "budgets: {all: {per: day, max_cost_usd: 5}}\n");
    let scenario = scenario.file("main.worker", "---\nmodel: openai:unknown-model\n---\nWrite.\n");
    let told = scenario.run(&[".", "go"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(
        told.stderr.contains("the budget `all` may cost 5.00 USD, and the price of this model is not known"),
        "{told}"
    );
    assert_eq!(server.request_count(), 0);
    let scenario = scenario.home_file("budgets.yaml", "budgets: {all: {per: day, max_tokens: 90000}}\n");
    assert_eq!(scenario.run(&[".", "go"]).code, Some(0));
    assert_eq!(budgets(&scenario)[0]["used_tokens"], json!(15));
}

#[test]
fn programs_have_budgets_for_themselves_and_the_copy_of_a_test_counts_for_its_program() {
    let scenario = looking()
        .file("main.cases.yaml", "cases: [{name: a, input: x, expect: {output: done}}]\n")
        .file("in.csv", "input\na\nb\n");
    let project = scenario.project().canonicalize().expect("a folder").display().to_string();
    let scenario = scenario.home_file(
        "budgets.yaml",
        &format!(
            "budgets:\n  here: {{per: day, program: {project}, max_tokens: 100000}}\n  other: {{per: day, program: /elsewhere, max_tokens: 1}}\n  own: {{per: day, program: each, max_tokens: 100000}}\n"
        ),
    );
    let used = || {
        let all = budgets(&scenario);
        let of = |name: &str| all.iter().find(|one| one["budget"] == name).expect("a budget").clone();
        assert_eq!(of("other")["used_tokens"], json!(0));
        let (here, own) = (of("here"), of("own"));
        assert_eq!(here["used_tokens"], own["used_tokens"], "{all:?}");
        here["used_tokens"].as_u64().expect("a number")
    };
    assert_eq!(budgets(&scenario)[2]["program"], json!("each"));
    for (command, total) in [
        (&["."][..], 3000),
        (&["test", ".", "--live", "--max-cost", "1"], 6000),
        (&["map", ".", "in.csv", "-o", "out.jsonl", "--max-cost", "1usd"], 12000),
    ] {
        let told = scenario.run(command);
        assert_eq!(told.code, Some(0), "{command:?}: {told}");
        assert_eq!(used(), total, "{command:?}");
    }
    assert_eq!(budgets(&scenario)[2]["program"], json!("[DIR]/project"));
}
