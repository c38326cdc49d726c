//! Limits on the resources of a run: of its workers, of the operator's budget, and across a resume.

use crate::scenario::{Scenario, lines, page_shows};
use insta::assert_snapshot;
use serde_json::Value;
use std::fs;

/// A worker that makes two calls and answers; each request uses 1,000 tokens.
fn looking(limits: &str) -> Scenario {
    Scenario::new()
        .file("main.worker", &format!("---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n{limits}---\nLook.\n"))
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    text: Looking.\n    calls: [{tool: list_files}]\n    usage: &u {input_tokens: 900, output_tokens: 100}\n  - when: {turn: 1}\n    calls: [{tool: list_files, arguments: {path: /}}]\n    usage: *u\n  - text: done\n    usage: *u\n",
        )
}

fn priced(scenario: Scenario) -> Scenario {
    let home = scenario.home().join("home/.llm-do");
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join("config.yaml"), "prices:\n  'script:*': {input: 1, output: 10, max_output: 5000}\n")
        .expect("a file");
    scenario
}

#[test]
fn operator_budget_stops_a_run_and_keeps_its_partial_result() {
    let scenario = looking("");
    assert_snapshot!(scenario.run(&[".", "--budget", "2500tokens"]), @"
    exit 4
    --- stderr
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    error: the run has 500 of 2500 tokens left of its budget, and the next request needs about 999, and more for its answer
    note: the incomplete answer:
      │ Looking.
    hint: `llm-do runs show [RUN]` shows what it did
    ");
    let told = scenario.run(&[".", "--budget", "9000tokens,1h", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((&report["status"], &report["left"]["tokens"]), (&"done".into(), &6000.into()), "{told}");
    assert!(report["usage"].get("cost_usd").is_none(), "an unknown price is no price");
    assert_snapshot!(scenario.run(&[".", "--budget", "2turns"]).stderr, @"
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    error: the run used all of its budget of 2 model turns
    note: the incomplete answer:
      │ Looking.
    hint: `llm-do runs show [RUN]` shows what it did
    ");
    assert_snapshot!(scenario.run(&[".", "--budget", "1calls"]).stderr, @"
    note: no terminal to ask on: calls that need an approval are refused (`--allow RULE` lets some run, `--approval defer` stops the run until they are decided)
    error: the run used all of its budget of 1 tool calls
    note: the incomplete answer:
      │ Looking.
    hint: `llm-do runs show [RUN]` shows what it did
    ");
}

#[test]
fn cost_is_counted_where_prices_are_known() {
    let scenario = priced(looking(""));
    let report = |budget: &str| {
        let told = scenario.run(&[".", "--budget", budget, "--json"]);
        (told.code, serde_json::from_str::<Value>(&told.stdout).unwrap())
    };
    let (code, done) = report("1usd");
    assert_eq!((code, &done["usage"]["cost_usd"]), (Some(0), &0.0057.into()), "{done}");
    assert_eq!(done["left"]["cost_usd"], 0.9943);
    let shown = scenario.run(&["runs", "show"]).stdout;
    assert!(shown.lines().next().unwrap().ends_with("  0.0057 USD"), "{shown}");
    assert_eq!(scenario.run(&["runs", "export", "--html", "-o", "page.html"]).code, Some(0));
    assert!(page_shows(&scenario.read("page.html").unwrap(), "0.0057 USD"));
    let (code, limited) = report("0.004usd");
    assert_eq!((code, &limited["status"]), (Some(4), &"limit".into()), "{limited}");
    assert!(limited["usage"]["cost_usd"].as_f64().unwrap() <= 0.004, "{limited}");
}

#[test]
fn cost_budget_without_a_price_is_refused_before_any_request() {
    let unknown = |limits: &str| {
        let worker = format!("---\nmodel: openai:unknown-model\n{limits}---\nLook.\n");
        Scenario::new().file("main.worker", &worker).env("OPENAI_API_KEY", "no-key")
    };
    assert_snapshot!(unknown("").run(&[".", "--budget", "0.50usd"]), @r#"
    exit 2
    --- stderr
    error: `main` can't ask `openai:unknown-model`: the run may cost 0.50 USD, and the price of this model is not known. Give it in your config.yaml (`llm-do doctor` names its folder, as home), in dollars for a million tokens: `prices: {"openai:unknown-model": {input: 1.25, output: 10}}`
    hint: `llm-do runs show [RUN]` shows what it did
    "#);
    let told = unknown("limits: {max_cost_usd: 0.5}\n").run(&["."]);
    assert_eq!(told.code, Some(2), "{told}");
    assert_snapshot!(looking("").run(&[".", "--budget", "0.50eur"]), @"
    exit 2
    --- stderr
    error: --budget: `0.50eur` is not a budget: write a number and what it counts, such as 0.50usd, 200000tokens, 30turns, 100calls, 10m
    ");
}

#[test]
fn models_that_cost_nothing_need_no_price() {
    for (limits, flags) in [
        ("", &["--budget", "0.50usd"][..]),
        ("", &["--max-cost", "1"]),
        ("limits: {max_cost_usd: 0.5}\n", &[]),
    ] {
        let scenario = looking(limits);
        let told = scenario.run(&[&["run", ".", "", "--json"], flags].concat());
        let report: Value = serde_json::from_str(&told.stdout).unwrap();
        assert_eq!((told.code, &report["usage"]["cost_usd"]), (Some(0), &0.0.into()), "{told}");
        let again = scenario.run(&[&["run", ".", "", "--model", "replay:last", "--json"], flags].concat());
        assert_eq!(again.code, Some(0), "{again}");
    }
    let scenario = looking("limits: {max_cost_usd: 0.5}\n");
    let scenario = scenario.file(
        "main.cases.yaml",
        "cases: [{name: a, input: x, expect: {output: done, limits: {max_cost_usd: 0.1}}}]\n",
    );
    for flags in [&["--update"][..], &["--recorded"], &["--live", "--max-cost", "0.1"]] {
        let told = scenario.run(&[&["test", "."], flags].concat());
        assert_eq!(told.code, Some(0), "{told}");
    }
    // A preview sends nothing, whatever the model would cost.
    let unchosen = Scenario::new().file("main.worker", "---\nlimits: {max_cost_usd: 1}\n---\nHi.\n");
    let told = unchosen.run(&["show", "main", "--prompt", "x"]);
    assert!(told.code == Some(0) && told.stdout.contains("none chosen"), "{told}");
}

/// Three concurrent children, two of which fit the budget: the third waits for the tokens that they do not use.
#[test]
fn resumed_run_has_the_same_ledger() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nallow_workers: [child]\nlimits: {max_tokens: 7300}\nmodel_settings: {max_tokens: 1000}\n---\nAsk.\n",
        )
        .file(
            "workers/child.worker",
            "---\nmodel: script:s.yaml\nparameters: {n: integer}\nmodel_settings: {max_tokens: 2600}\nlimits: {max_tokens: 5000}\n---\nAnswer.\n",
        )
        .file(
            "s.yaml",
            "answers:\n  - when: {worker: main, turn: 0}\n    calls: [{tool: child, arguments: {n: 1}}, {tool: child, arguments: {n: 2}}, {tool: child, arguments: {n: 3}}]\n    usage: &u {input_tokens: 200, output_tokens: 1000}\n  - when: {worker: child, last_regex: '1'}\n    delay_ms: 60\n    text: so it is\n    usage: &v {input_tokens: 100, output_tokens: 1900}\n  - when: {worker: child, last_regex: '2'}\n    delay_ms: 20\n    text: so it is\n    usage: *v\n  - when: {worker: child}\n    text: so it is\n    usage: *v\n  - text: done\n    usage: *u\n",
        );
    let first = scenario.run(&["."]);
    assert_eq!(first.code, Some(4), "{first}");
    let dir = scenario.runs().remove(0);
    let whole = fs::read_to_string(dir.join("journal.jsonl")).unwrap();
    let used = |records: &[Value]| -> u64 {
        let answers = records.iter().filter(|record| record["kind"] == "model_answered");
        let tokens = |record: &Value, of: &str| record["usage"][of].as_u64().unwrap();
        answers.map(|record| tokens(record, "input_tokens") + tokens(record, "output_tokens")).sum()
    };
    let of = |records: &[Value], kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    let undisturbed = lines(&whole);
    assert_eq!((used(&undisturbed), of(&undisturbed, "model_answered")), (7200, 4), "{whole}");
    let third = |kind: &str| {
        undisturbed.iter().position(|record| record["path"] == "0/0.2" && record["kind"] == kind).unwrap()
    };
    let answered =
        undisturbed.iter().position(|record| record["path"] == "0/0.0" && record["kind"] == "model_answered");
    assert!(answered.unwrap() < third("reserved"), "{whole}");
    for kept in 1..whole.lines().count() {
        let cut: String = whole.lines().take(kept).map(|line| format!("{line}\n")).collect();
        fs::write(dir.join("journal.jsonl"), cut).unwrap();
        let told = scenario.run(&["runs", "resume"]);
        assert_eq!(told.code, Some(4), "{kept}: {told}");
        assert!(first.stderr.ends_with(&told.stderr), "{kept}: {told}");
        let records = lines(&fs::read_to_string(dir.join("journal.jsonl")).unwrap());
        for kind in ["reserved", "not_reserved", "model_requested", "model_answered"] {
            // An interrupted request is sent again, with its reservation.
            let again = usize::from(kind == "model_requested");
            let (then, now) = (of(&undisturbed, kind), of(&records, kind));
            assert!((then..=then + again * 3).contains(&now), "{kept}: {kind} {then} {now}");
        }
        assert_eq!(used(&records), used(&undisturbed), "{kept}");
    }
}

fn configured(scenario: Scenario, text: &str) -> Scenario {
    let home = scenario.home().join("home/.llm-do");
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join("config.yaml"), text).expect("a file");
    scenario
}

#[test]
fn command_line_replaces_limits_of_workers_that_are_not_locked() {
    let scenario = looking("limits: {max_turns: 9}\n");
    let told = scenario.run(&[".", "--set", "limits.max_turns=2"]);
    assert_eq!(told.code, Some(4), "{told}");
    assert!(told.stderr.contains("2 model turns") || told.stderr.contains("2 turns"), "{told}");
    let tight = looking("limits: {max_turns: 2}\n");
    assert_eq!(tight.run(&["."]).code, Some(4));
    assert_eq!(tight.run(&[".", "--set", "limits.max_turns=5", "--set", "limits.timeout=5m"]).code, Some(0));
    let locked = looking("limits: {max_turns: 2}\nlocked: true\n");
    assert_eq!(locked.run(&[".", "--set", "limits.max_turns=5"]).code, Some(4));
    for (wrong, message) in [
        ("limits.max_trns=1", "did you mean `max_turns`?"),
        ("limits.max_turns=many", "must be a whole number"),
        ("limits.max_turns=", "has no value"),
        ("colour=blue", "there is no `colour`; a model has"),
    ] {
        let told = scenario.run(&[".", "--set", wrong]);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains(message), "{told}");
    }
}

#[test]
fn limits_of_the_user_hold_in_every_program() {
    let scenario = configured(looking("limits: {max_turns: 9}\n"), "limits: {max_turns: 2}\n");
    assert_eq!(scenario.run(&["."]).code, Some(4));
    let scenario = configured(looking(""), "limits: {max_turns: 5, max_repeats: 9}\n");
    assert_eq!(scenario.run(&["."]).code, Some(0));
}

#[test]
fn approval_of_the_user_is_the_operators() {
    let scenario = |approval: &str| {
        let scenario = Scenario::new()
            .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\n---\nGo.\n")
            .file("s.yaml", "answers:\n  - {when: {turn: 0}, calls: [{tool: write_file, arguments: {path: /a, content: x}}]}\n  - {text: done}\n");
        configured(scenario, approval)
    };
    let written = |scenario: &Scenario, arguments: &[&str]| {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(0), "{told}");
        scenario.read("a").is_some()
    };
    assert!(!written(&scenario(""), &["."]));
    assert!(written(&scenario("approval: {tools: {write_file: preApproved}}\n"), &["."]));
    assert!(written(&scenario("approval: {mode: approve_all}\n"), &["."]));
    assert!(!written(&scenario("approval: {mode: approve_all}\n"), &[".", "--approval", "auto_deny"]));
    // The project comes before the user, and `blocked` before everybody.
    let asking = scenario("approval: {default: preApproved}\n")
        .file("project.yaml", "approval: {tools: {write_file: ask}}\n");
    assert!(!written(&asking, &["."]));
    assert!(!written(
        &scenario("approval: {tools: {write_file: blocked}}\n"),
        &[".", "--allow", "write_file"]
    ));
}

#[test]
fn providers_of_the_user_are_known_everywhere() {
    let scenario = Scenario::new().file("main.worker", "---\nmodel: mine:big\n---\nGo.\n");
    assert!(scenario.run(&["check", "."]).to_string().contains("unknown provider `mine`"));
    let scenario = configured(scenario, "providers: {mine: {base_url: 'http://127.0.0.1:9/v1'}}\n");
    assert_eq!(scenario.run(&["check", "."]).code, Some(0));
    let told = scenario.run(&[".", "Hi", "--set", "limits.request_retries=0"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(!told.stderr.contains("grant"), "{told}");
}
