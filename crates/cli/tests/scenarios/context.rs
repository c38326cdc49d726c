//! A conversation that outgrows its context: it is compacted, resumed, replayed, shown and exported.

use crate::scenario::{Scenario, page_shows};
use serde_json::{Value, json};
use std::fs;

/// Reads six long files one after the other, and looks at the first result again.
fn reader() -> Scenario {
    let mut answers = Vec::new();
    for turn in 0..6 {
        let read = json!({"tool": "read_file", "arguments": {"path": format!("f{turn}.txt")}});
        answers.push(json!({"when": {"turn": turn}, "calls": [read]}));
    }
    let again = json!({"tool": "read_file", "arguments": {"path": "/results/1", "max_chars": 20}});
    answers.push(json!({"when": {"turn": 6}, "calls": [again]}));
    answers.push(json!({"when": {"turn": 7}, "text": "It begins with: {{ last }}"}));
    let worker = "---\nmodel: script:s.json\nmax_context_tokens: 8000\ntoolsets: [filesystem]\n---\nRead.\n";
    let scenario = Scenario::new()
        .file("main.worker", worker)
        .file("s.json", &json!({ "answers": answers }).to_string());
    (0..6).fold(scenario, |scenario, file| {
        scenario.file(&format!("f{file}.txt"), &format!("line of file {file}\n").repeat(220))
    })
}

fn compactions(journal: &[Value]) -> Vec<&Value> {
    journal.iter().filter(|record| record["kind"] == "compacted").collect()
}

#[test]
fn a_long_loop_is_compacted_and_reads_an_old_result_again() {
    let scenario = reader();
    let done = scenario.run(&["main.worker", "go"]);
    assert_eq!(done.code, Some(0), "{done}");
    assert!(done.stdout.starts_with("It begins with: line of file 0"), "{done}");
    let journal = scenario.journal();
    let [compaction] = compactions(&journal)[..] else { panic!("{:?}", compactions(&journal)) };
    assert_eq!(compaction["step"], json!("compact.0"));
    assert_eq!(compaction["results"][0]["number"], json!(1));
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    let shown = scenario.run(&["runs", "show", "last", "--call", "0"]);
    assert!(shown.stdout.contains("results left out"), "{shown}");
    let page = scenario.run(&["runs", "export", "last", "--html"]);
    assert!(page_shows(&page.stdout, "results left out"), "{}", page.stderr);
    let spans = scenario.run(&["runs", "export", "last", "--otel", "-"]);
    assert!(spans.stdout.contains("llm_do.compaction.after"), "{}", spans.stderr);
}

#[test]
fn a_run_that_was_killed_after_the_compaction_goes_on_with_it() {
    let scenario = reader();
    let whole = scenario.run(&["main.worker", "go"]);
    let file = scenario.runs().into_iter().next().expect("a run").join("journal.jsonl");
    let journal = fs::read_to_string(&file).expect("a journal");
    let at = journal.lines().position(|line| line.contains("\"kind\":\"compacted\"")).expect("a compaction");
    let kept: Vec<&str> = journal.lines().take(at + 1).collect();
    fs::write(&file, kept.join("\n") + "\n").expect("the journal of a killed run");
    let resumed = scenario.run(&["runs", "resume", "last"]);
    assert_eq!((resumed.code, &resumed.stdout), (Some(0), &whole.stdout), "{resumed}");
    assert_eq!(compactions(&scenario.journal()).len(), 1);
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

/// A chat with long answers.
fn talker(limit: &str) -> Scenario {
    let answers = json!([
        {"when": {"purpose": "summary"}, "text": "They talked about long answers."},
        {"text": "{% for i in range(300) %}long answer {{ turn }} {% endfor %}"},
    ]);
    Scenario::new()
        .file("main.worker", &format!("---\nmodel: script:s.json\n{limit}---\nTalk.\n"))
        .file("s.json", &json!({ "answers": answers }).to_string())
}

#[test]
fn a_chat_is_compacted_left_resumed_and_replayed() {
    let scenario = talker("max_context_tokens: 5300\n");
    let done =
        scenario.run_with_stdin(&["chat", "main.worker"], "first words\nsecond words\nthird words\n/cost\n");
    assert_eq!(done.code, Some(0), "{done}");
    assert!(done.stderr.contains("% of its context"), "{done}");
    assert!(done.stderr.contains(" of 5,300 tokens"), "{done}");
    let more = scenario.run_with_stdin(&["chat", "--continue"], "fourth words\nfifth words\n");
    assert_eq!(more.code, Some(0), "{more}");
    let (first, second) = (&done.stderr, &more.stderr);
    assert!(format!("{first}{second}").contains("older turns summarised"), "{first}{second}");
    let journal = scenario.journal();
    let summary = &compactions(&journal)[0]["summary"];
    assert_eq!(summary["text"], json!("They talked about long answers."));
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn the_user_compacts_and_takes_it_back() {
    let scenario = talker("");
    let typed = "first\nsecond\n/compact undo\n/compact the length\n/cost\n/compact undo\nthird\n";
    let done = scenario.run_with_stdin(&["chat", "main.worker"], typed);
    assert_eq!(done.code, Some(0), "{done}");
    for said in [
        "there is no compaction to take back",
        "older turns summarised",
        "the model's limit is not known",
        "the last compaction is taken back",
    ] {
        assert!(done.stderr.contains(said), "{said}: {done}");
    }
    let journal = scenario.journal();
    let answers = journal.iter().filter(|record| record["kind"] == "answered");
    let answers: Vec<&str> = answers.filter_map(|record| record["answer"].as_str()).collect();
    assert_eq!(answers, ["give", "undo_compaction", "compact", "undo_compaction", "give"]);
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn a_chat_is_compacted_from_the_command_line() {
    let scenario = talker("");
    scenario.run_with_stdin(&["chat", "main.worker"], "first\nsecond\n");
    let answer = "0:message.2={\"answer\": \"compact\", \"keep\": \"names\"}";
    let resumed = scenario.run(&["runs", "resume", "last", "--answer", answer]);
    assert_eq!(resumed.code, Some(5), "{resumed}");
    assert_eq!(compactions(&scenario.journal()).len(), 1);
    let wrong =
        scenario.run(&["runs", "resume", "last", "--answer", "0:message.3={\"answer\": \"compress\"}"]);
    assert!(wrong.stderr.contains("undo_compaction"), "{wrong}");
}

#[test]
fn a_request_that_can_not_fit_says_what_to_do() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\nmax_context_tokens: 1000\n---\nTalk.\n")
        .file("s.yaml", "answers: [{text: never}]\n");
    let done = scenario.run(&["main.worker", &"word ".repeat(2000)]);
    assert_eq!(done.code, Some(4), "{done}");
    assert!(done.stderr.contains("`max_context_tokens` is 1000"), "{done}");
    assert!(done.stderr.contains("Raise the limit"), "{done}");
    let small = Scenario::new().file("main.worker", "---\nmax_context_tokens: 10\n---\nTalk.\n");
    let checked = small.run(&["check", "."]);
    assert_eq!(checked.code, Some(2), "{checked}");
}
