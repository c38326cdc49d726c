//! `llm-do tune`: better instructions from cases (docs/guides/tuning.md).

use crate::{
    recorded_examples::{copy, examples},
    scenario::{Finished, Scenario, lines},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// The example, in the folder `tickets`.
fn tickets() -> Scenario {
    let scenario = Scenario::new();
    copy(&examples().join("tickets"), &scenario.project().join("tickets"));
    scenario
}

fn model() -> String {
    format!("script:{}", examples().join("scripts/tickets.yaml").display())
}

fn tune(scenario: &Scenario, more: &[&str]) -> Finished {
    let model = model();
    scenario.run(&[&["tune", "tickets", "--model", &model][..], more].concat())
}

fn report(told: &Finished) -> Value {
    serde_json::from_str(&told.stdout).unwrap_or_else(|error| panic!("{error}: {told}"))
}

/// The folder beside the runs.
fn state(scenario: &Scenario) -> PathBuf {
    scenario.project().join("tickets/.llm-do/runs/tune")
}

/// The lines of the log, and the folders of the runs.
fn kept(scenario: &Scenario) -> (Vec<Value>, BTreeSet<String>) {
    let (mut log, mut runs) = (Vec::new(), BTreeSet::new());
    for entry in fs::read_dir(state(scenario)).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            let entries = fs::read_dir(path).expect("runs").map(|entry| entry.expect("a run").path());
            let journals = entries.filter(|run| run.join("journal.jsonl").exists());
            runs.extend(journals.map(|run| run.display().to_string()));
        } else {
            let text = fs::read_to_string(path).expect("a log");
            log.extend(lines(text.rfind('\n').map_or("", |end| &text[..end])));
        }
    }
    (log, runs)
}

/// A project whose worker says `nay` unless its instructions have the word `bravely`, with that many cases. The proposer
/// answers `proposal`, a template.
fn brave(cases: usize, proposal: &str) -> Scenario {
    let worker = "---\n# A comment.\nparameters: {n: integer}\nreturns: {say: [aye, nay]}  # two words\n---\n\
        Answer the question number {{ input.n }} with one of two words, whichever seems better to you.\n";
    let mut of_cases = String::from("cases:\n");
    for n in 0..cases {
        let _ = writeln!(of_cases, "- {{name: c{n}, input: {{n: {n}}}, expect: {{output: {{say: aye}}}}}}");
    }
    let script = format!(
        "answers:\n- when: {{worker: proposer}}\n  json: {{diagnosis: d, instructions: {}}}\n  usage: {{input_tokens: 900, output_tokens: 90}}\n- json: {{say: \"{}\"}}\n  \
         usage: {{input_tokens: 200, output_tokens: 10}}\n",
        serde_json::to_string(proposal).expect("text"),
        "{% if 'bravely' in input %}aye{% else %}nay{% endif %}"
    );
    Scenario::new()
        .file("main.worker", worker)
        .file("main.cases.yaml", &of_cases)
        .file("project.yaml", "{}\n")
        .file("s.yaml", &script)
}

/// The instructions of [`brave`], with a word more.
const BRAVELY: &str = "Answer the question number {{ '{{ input.n }}' }} bravely with one of two words, whichever seems better to you.";

fn tune_brave(scenario: &Scenario, more: &[&str]) -> Finished {
    scenario.run(&[&["tune", ".", "--model", "script:s.yaml"][..], more].concat())
}

/// A refused run or proposal is no result: the tuning ends, and continues when there is more.
#[test]
fn a_budget_over_time_ends_a_tuning_and_what_it_refuses_is_made_later() {
    let scenario = brave(30, BRAVELY)
        .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 200}\n");
    let mut refused = 0;
    let told = (1..100u64)
        .find_map(|step| {
            let budgets = format!("budgets: {{daily: {{per: day, max_tokens: {}}}}}\n", step * 3_000);
            fs::write(scenario.home().join("home/.llm-do/budgets.yaml"), budgets).expect("a file");
            let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--json"]);
            if told.code == Some(0) {
                return Some(told);
            }
            assert_eq!(told.code, Some(4), "{told}");
            assert!(told.stderr.contains("error: the budget `daily` leaves too little"), "{told}");
            refused += 1;
            None
        })
        .expect("it ends");
    assert!(refused > 2, "{refused}");
    assert_eq!(report(&told)["outcome"], "gain", "{told}");
}

/// The proposer is a program of its own, and its requests are those of the program that it works for.
#[test]
fn a_budget_of_the_program_counts_the_proposer() {
    let scenario = brave(30, BRAVELY)
        .home_file("config.yaml", "prices:\n  'script:*': {input: 1, output: 10, max_output: 200}\n");
    let here = scenario.project().canonicalize().expect("a folder").display().to_string();
    let budgets = format!(
        "budgets: {{own: {{per: day, max_tokens: 9000000, program: {here:?}}}, all: {{per: day, max_tokens: 9000000}}}}\n"
    );
    fs::write(scenario.home().join("home/.llm-do/budgets.yaml"), budgets).expect("a file");
    let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let told = scenario.run(&["budgets", "--json"]);
    let shown: Value = serde_json::from_str(&told.stdout).expect("JSON");
    let used = |at: usize| shown["budgets"][at]["used_tokens"].as_u64().expect("a number");
    assert!(used(0) > 990, "{told}");
    assert_eq!(used(0), used(1), "{told}");
}

#[test]
fn the_gain_of_the_example_is_real_and_written_on_demand() {
    let scenario = tickets();
    let before = scenario.read("tickets/main.worker").expect("the worker");
    let told = tune(&scenario, &["--max-cost", "unlimited", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let first = report(&told);
    assert_eq!(first["outcome"], "gain", "{told}");
    let test = &first["test"];
    assert!(
        test["better"].as_u64() >= Some(6) && test["worse"] == 0 && test["p"].as_f64() < Some(0.05),
        "{test}"
    );
    assert!(test["after"]["passed"].as_u64() > test["before"]["passed"].as_u64());
    assert_eq!(first["cases"]["test"], test["after"]["of"]);
    assert!(told.stderr.contains("on the front, validation "), "{told}");
    // Nothing has changed, and each run can be looked at.
    assert_eq!(scenario.read("tickets/main.worker").as_ref(), Some(&before));
    let (log, runs) = kept(&scenario);
    assert_eq!(Some(runs.len() as u64), first["runs"].as_u64());
    let run = runs.iter().next().expect("a run");
    let shown = scenario.run(&["runs", "show", run]);
    assert!(shown.code == Some(0) && shown.stdout.contains("main"), "{shown}");
    // The proposer has seen no message of a validation or test case.
    let proposals: Vec<&Value> = log.iter().filter(|line| line["kind"] == "proposed").collect();
    let parts = parts(&log, &first);
    assert!(!proposals.is_empty() && parts.len() == 25);
    for proposal in proposals {
        let run = proposal["proposal"]["run"].as_str().expect("a run");
        let folder = runs.iter().find(|folder| folder.ends_with(run)).expect("its folder");
        let journal = fs::read_to_string(PathBuf::from(folder).join("journal.jsonl")).expect("a journal");
        assert!(parts.iter().all(|message| !journal.contains(message)), "{run}");
    }
    // The same command makes no run, and writes.
    let told = tune(&scenario, &["--max-cost", "unlimited", "--write"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(told.stdout.contains("written:    main.worker"), "{told}");
    assert_eq!(kept(&scenario).1, runs);
    let after = scenario.read("tickets/main.worker").expect("the worker");
    let head = before.split("The message:").next().expect("a beginning");
    assert!(after.starts_with(head) && after.contains("\n- refund: billing"), "{after}");
    let model = model();
    let checked = scenario.run(&["check", "tickets"]);
    assert_eq!(checked.code, Some(0), "{checked}");
    let tested = scenario.run(&["test", "tickets", "--live", "--model", &model, "--case", "refund-*"]);
    assert_eq!(tested.code, Some(0), "{tested}");
    // From there, nothing is left to gain.
    let told = tune(&scenario, &["--max-cost", "unlimited"]);
    assert!(told.code == Some(0) && told.stdout.contains("no reliable gain: "), "{told}");
}

/// The messages of the validation and test cases: those of which no failure was in a message to the proposer, by the names
/// that the splits give them.
fn parts(log: &[Value], report: &Value) -> Vec<String> {
    let text = fs::read_to_string(examples().join("tickets/main.cases.yaml")).expect("cases");
    let mut messages = Vec::new();
    let mut name = String::new();
    for line in text.lines() {
        if let Some(of) = line.strip_prefix("- name: ") {
            of.clone_into(&mut name);
        }
        if let Some(message) = line.strip_prefix("  input: {message: ") {
            let message = message.strip_suffix('}').expect("a map").to_owned();
            let message: String = serde_json::from_str(&message).expect("a text");
            if !TRAIN.contains(&&*name) {
                messages.push(message);
            }
        }
    }
    let cases = &report["cases"];
    let others = cases["validation"].as_u64().unwrap_or(0) + cases["test"].as_u64().unwrap_or(0);
    assert_eq!(messages.len() as u64, others, "{} lines", log.len());
    messages
}

/// The train cases of the example. They stay where they are when cases are added.
const TRAIN: [&str; 15] = [
    "refund-4",
    "refund-5",
    "invoice-5",
    "card-3",
    "crash-1",
    "crash-2",
    "password-5",
    "slow-1",
    "slow-3",
    "slow-5",
    "quote-3",
    "quote-4",
    "demo-2",
    "demo-3",
    "demo-5",
];

#[test]
fn a_tuning_that_is_killed_at_any_moment_continues_and_pays_nothing_twice() {
    let (undisturbed, killed) = (tickets(), tickets());
    let told = tune(&undisturbed, &["--max-cost", "unlimited", "--json"]);
    let expected = report(&told);
    let (log, _) = kept(&undisturbed);
    let (model, mut kills) = (model(), 0);
    for until in [1, 2, 9, 15, 16, 17, 30, 55, log.len() - 10, log.len() - 2] {
        let words = ["tune", "tickets", "--model", &model, "--max-cost", "unlimited"];
        let mut command = killed.command(&words);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let since = Instant::now();
        while kept(&killed).0.len() < until && child.try_wait().expect("a process").is_none() {
            assert!(since.elapsed() < Duration::from_secs(60), "{until} lines did not come");
            thread::sleep(Duration::from_millis(1));
        }
        kills += usize::from(child.try_wait().expect("a process").is_none());
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }
    assert!(kills >= 6, "{kills} kills came in time");
    let told = tune(&killed, &["--max-cost", "unlimited", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let continued = report(&told);
    for key in ["outcome", "rounds", "validation", "test", "test_uses", "instructions", "runs", "usage"] {
        assert_eq!(continued[key], expected[key], "{key}");
    }
    let (log, runs) = kept(&killed);
    let keys: BTreeSet<&str> = log.iter().filter_map(|line| line["key"].as_str()).collect();
    assert_eq!(keys.len(), log.len(), "no key has two results");
    // A kill costs at most the run that was under way.
    let made = expected["runs"].as_u64().expect("runs") as usize;
    assert!((made..=made + kills).contains(&runs.len()), "{} runs, {kills} kills", runs.len());
}

#[test]
fn few_cases_end_normally_before_anything_runs() {
    for (cases, why) in [(9, "there are 9 cases"), (10, "the test split has ")] {
        let scenario = brave(cases, BRAVELY);
        let told = tune_brave(&scenario, &[]);
        assert_eq!(told.code, Some(0), "{told}");
        assert!(told.stdout.contains("not decided: ") && told.stdout.contains(why), "{told}");
        assert!(!scenario.project().join(".llm-do").exists());
    }
}

#[test]
fn a_cost_is_named_or_asked_for() {
    let scenario = brave(40, BRAVELY);
    let told = tune_brave(&scenario, &[]);
    assert_eq!(told.code, Some(3), "{told}");
    assert!(told.stderr.contains("--max-cost is required without a terminal"), "{told}");
    let two = ["--model", "script:other.yaml", "--max-cost", "unlimited", "--write"];
    assert_eq!(tune_brave(&scenario, &two).code, Some(2));
    for wrong in [
        ["--max-growth", "0.5"],
        ["--rounds", "0"],
        ["--max-cost", "much"],
        ["--proposer", "x"],
        ["--approval", "interactive"],
    ] {
        assert_eq!(tune_brave(&scenario, &wrong).code, Some(2), "{wrong:?}");
    }
}

#[test]
fn a_budget_is_kept_and_a_higher_one_continues() {
    let prices = "prices:\n  'script:*': {input: 1, output: 10, max_output: 100}\n";
    let scenario = brave(40, BRAVELY).home_file("config.yaml", prices);
    let cost = |told: &Finished| report(told)["usage"]["cost_usd"].as_f64().expect("a cost");
    // A run costs 0.0003 USD.
    let little = tune_brave(&scenario, &["--max-cost", "0.005", "--json"]);
    assert_eq!(little.code, Some(4), "{little}");
    assert!(report(&little)["outcome"] == "undecided" && cost(&little) <= 0.005, "{little}");
    let enough = tune_brave(&scenario, &["--max-cost", "1usd", "--json"]);
    assert_eq!(enough.code, Some(0), "{enough}");
    let all = report(&enough);
    assert_eq!(all["outcome"], "gain", "{enough}");
    let paid = all["paid_usd"].as_f64().expect("a cost");
    assert!((paid + cost(&little) - cost(&enough)).abs() < 1e-9, "{paid} {enough}");
    // And nothing the third time.
    let third = report(&tune_brave(&scenario, &["--max-cost", "1usd", "--json"]));
    assert!(third["paid_usd"].is_null() && third["usage"] == all["usage"], "{third}");
}

#[test]
fn memorised_answers_and_broken_templates_are_refused() {
    for (proposal, why) in [
        (
            "Answer {{ '{{ input.n }}' }}. {{ (last | split('<input>\\n') | list)[1][:90] }}",
            "repeats 5 words of a case",
        ),
        ("Answer bravely.", "`{{ input.n }}` is missing"),
        ("Answer {{ '{{ input.n }} of {{ input.m }}' }} bravely.", "`{{ input.m }}` is new"),
        ("{{ '{{ input.n }}' }}{% for n in range(99) %} bravely{% endfor %}", "--max-growth 2 allows"),
    ] {
        let scenario = brave(40, proposal);
        let words = "an input of many words that could be learnt by heart";
        let cases = scenario
            .read("main.cases.yaml")
            .expect("cases")
            .replace("{n: ", &format!("{{text: {words}, n: "));
        let worker = scenario.read("main.worker").expect("a worker").replace("{n: ", "{text: string, n: ");
        let scenario = scenario.file("main.cases.yaml", &cases).file("main.worker", &worker);
        let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--rounds", "2", "--json"]);
        assert_eq!(told.code, Some(0), "{told}");
        let report = report(&told);
        assert_eq!(report["outcome"], "no_reliable_gain", "{told}");
        assert!(report["rounds"][0]["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{told}");
        // The reason reaches the proposer with the next failure.
        let proposals = kept_in(&scenario);
        assert!(proposals.iter().any(|message| message.contains("thrown away: ")), "{proposals:?}");
    }
}

/// The messages to the proposer of [`brave`].
fn kept_in(scenario: &Scenario) -> Vec<String> {
    let mut messages = Vec::new();
    for folder in fs::read_dir(scenario.project().join(".llm-do/runs/tune")).expect("state") {
        let folder = folder.expect("an entry").path();
        for run in fs::read_dir(&folder).into_iter().flatten() {
            let journal = run.expect("a run").path().join("journal.jsonl");
            let text = fs::read_to_string(journal).unwrap_or_default();
            messages.extend(text.lines().filter(|line| line.contains("<instructions>")).map(str::to_owned));
        }
    }
    messages
}

#[test]
fn a_run_sees_no_cases_and_the_proposer_sees_how_calls_ended() {
    let scenario = brave(40, "Answer {{ '{{ input.n }}' }} {{ '{{ \"}}\" ~ file(\"s.yaml\") }}' }}.");
    let worker = scenario.read("main.worker").expect("a worker");
    let worker = worker.replace("returns:", "toolsets: {filesystem: {}}\nreturns:");
    let script = scenario.read("s.yaml").expect("a script").replace(
        "- json: {say:",
        "- when: {worker: main, turn: 0}\n  calls: [{tool: read_file, arguments: {path: /main.cases.yaml}}, \
         {tool: read_file, arguments: {path: /main.worker}}]\n- json: {say:",
    );
    let scenario = scenario.file("main.worker", &worker).file("s.yaml", &script);
    let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--rounds", "1", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(
        report(&told)["rounds"][0]["reason"].as_str().is_some_and(|why| why.contains("is new")),
        "{told}"
    );
    // The message is in several records of the proposer's run.
    let messages = kept_in(&scenario);
    let message = messages.first().expect("a message to the proposer");
    assert!(message.contains("main.cases.yaml\\\"}) -> failed: "), "{message}");
    assert!(message.contains("main.worker\\\"}) -> ") && !message.contains("did not end"), "{message}");
}

#[test]
fn a_gain_that_the_test_split_does_not_confirm_changes_nothing() {
    // The proposal helps one case in ten.
    let scenario = brave(60, BRAVELY);
    let script = scenario.read("s.yaml").expect("a script").replace(
        "{% if 'bravely' in input %}",
        "{% if 'bravely' in input and (input | split('number ') | list)[1][:1] == '1' %}",
    );
    let scenario = scenario.file("s.yaml", &script);
    let before = scenario.read("main.worker");
    let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--write"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(told.stdout.contains("no reliable gain: "), "{told}");
    assert_eq!(scenario.read("main.worker"), before);
}

#[test]
fn models_are_compared_at_the_same_cost() {
    let scenario = brave(40, BRAVELY);
    let script = scenario.read("s.yaml").expect("a script").replace("bravely' in input", "courage' in input");
    let scenario = scenario.file("t.yaml", &script);
    let told = tune_brave(&scenario, &["--model", "script:t.yaml", "--max-cost", "2usd", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let both = report(&told);
    let outcomes = [&both["models"][0]["outcome"], &both["models"][1]["outcome"]];
    assert_eq!(outcomes, ["gain", "no_reliable_gain"], "{told}");
    let difference = &both["differences"][0];
    assert!(difference["worse"].as_u64() >= Some(6) && difference["decided"] == true, "{told}");
    let text = tune_brave(&scenario, &["--model", "script:t.yaml", "--max-cost", "2usd"]);
    assert!(text.stdout.contains("the first is better of script:s.yaml and script:t.yaml"), "{text}");
}

#[test]
fn a_model_that_fails_is_no_failed_case() {
    let scenario = brave(40, BRAVELY);
    let script = scenario.read("s.yaml").expect("a script");
    let broken = script.replacen(
        "- json:",
        "- when: {last_regex: '.'}\n  error: {kind: auth, message: no key}\n- json:",
        1,
    );
    let scenario = scenario.file("s.yaml", &broken);
    let told = tune_brave(&scenario, &["--max-cost", "unlimited"]);
    assert_eq!(told.code, Some(1), "{told}");
    assert!(told.stderr.contains("a model failed, and without its answer nothing can be judged"), "{told}");
    let scenario = scenario.file("s.yaml", &script);
    let told = tune_brave(&scenario, &["--max-cost", "unlimited"]);
    assert!(told.code == Some(0) && told.stdout.contains("gain: "), "{told}");
}

#[test]
fn a_state_that_a_project_brings_is_refused() {
    let scenario = brave(40, BRAVELY);
    assert_eq!(tune_brave(&scenario, &["--max-cost", "unlimited"]).code, Some(0));
    // Another user has another key.
    fs::remove_file(scenario.home().join("home/.llm-do/journal.key")).expect("a key");
    let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--write"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("was not written by this user's llm-do"), "{told}");
    assert!(!scenario.read("main.worker").expect("a worker").contains("bravely"));
}

#[test]
fn only_instructions_in_a_text_of_their_own_are_tuned() {
    let scenario = brave(40, BRAVELY);
    let worker = scenario.read("main.worker").expect("a worker");
    let body = worker.rsplit("---\n").next().expect("instructions").trim();
    // A file of prompts is such a text.
    let head = worker.strip_suffix(&format!("{body}\n")).expect("a head");
    let scenario = scenario.file("main.worker", head).file("prompts/main.md", &format!("{body}\n"));
    let told = tune_brave(&scenario, &["--max-cost", "unlimited", "--write"]);
    assert!(told.code == Some(0) && told.stdout.contains("written:    prompts/main.md"), "{told}");
    assert_eq!(scenario.read("main.worker").as_deref(), Some(head));
    assert!(scenario.read("prompts/main.md").expect("a prompt").contains(" bravely with "));
    // A key is none.
    let keyed = head.replacen("---\n", &format!("---\ninstructions: '{body}'\n"), 1);
    fs::remove_file(scenario.project().join("prompts/main.md")).expect("a prompt");
    let scenario = scenario.file("main.worker", &keyed);
    let told = tune_brave(&scenario, &["--max-cost", "unlimited"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("under the key `instructions`"), "{told}");
}

#[test]
fn a_lone_worker_file_is_tuned_and_its_state_is_the_users() {
    let scenario = brave(40, BRAVELY);
    let at = |name: &str| scenario.project().join(name);
    fs::remove_file(at("project.yaml")).expect("a manifest");
    for name in ["worker", "cases.yaml"] {
        fs::rename(at(&format!("main.{name}")), at(&format!("w.{name}"))).expect("a file");
    }
    let words = ["tune", "w.worker", "--model", "script:s.yaml", "--max-cost", "unlimited", "--write"];
    let told = scenario.run(&words);
    assert!(told.code == Some(0) && told.stdout.contains("written:    w.worker"), "{told}");
    let worker = scenario.read("w.worker").expect("a worker");
    assert!(worker.contains("# A comment.") && worker.contains("bravely"), "{worker}");
    assert!(scenario.home().join("home/.llm-do/runs/tune").is_dir());
    assert!(!scenario.project().join(".llm-do").exists());
}
