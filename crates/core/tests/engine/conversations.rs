//! Conversations with the user: chats, and workers that talk to the user in the middle of a run.
//!
//! The world checks for each request of each test that it follows from the records before it.

use crate::world::{Ran, World, calls, text, tool, worker, worker_with_tools};
use llm_do_core::{
    engine::FailureKind,
    function::Risk,
    model::{ModelError, ModelErrorKind, Part, Role},
    question::Answer,
    schema::Schema,
    worker::{WorkerDefinition, WorkerMode},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A chat with `main`, which answers these one after another.
fn chat(answers: &[&str]) -> World {
    let mut world = World::new().worker(worker("main"), answers.iter().map(|answer| text(answer)).collect());
    world.chat = true;
    world
}

fn says(words: &str) -> Answer {
    Answer::Give { value: Arc::new(json!(words)) }
}

/// A worker that talks to the user and gives its caller a number.
fn interviewer(id: &str, mode: WorkerMode) -> WorkerDefinition {
    let schema = json!({"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]});
    let returns = Some(Arc::new(Schema::new(schema).unwrap()));
    WorkerDefinition { mode, interactive: true, returns, ..worker(id) }
}

/// The texts of the last request to that worker, with their roles.
fn history(ran: &Ran, worker: &str) -> Vec<(Role, String)> {
    let last = ran.seen.iter().rfind(|seen| seen.worker == worker).expect("it was asked");
    last.messages.iter().map(|message| (message.role, message.text())).collect()
}

#[test]
fn what_the_user_says_follows_each_answer_until_the_user_ends_it() {
    let ran = chat(&["Hello Ann.", "Ann."])
        .asking([says("Who am I?"), Answer::End])
        .run(json!({"input": "I am Ann."}));
    assert_eq!(ran.output(), &json!("Ann."), "a chat ends with what was said last");
    assert_eq!(
        history(&ran, "main"),
        [
            (Role::User, "I am Ann.".to_owned()),
            (Role::Assistant, "Hello Ann.".to_owned()),
            (Role::User, "Who am I?".to_owned()),
        ]
    );
}

#[test]
fn a_run_that_is_no_chat_answers_once() {
    let main = WorkerDefinition { mode: WorkerMode::Chat, ..worker("main") };
    let ran = World::new().worker(main, vec![text("Hello.")]).run(json!({"input": "hi"}));
    assert_eq!(ran.output(), &json!("Hello."));
    assert!(ran.asks.is_empty());
}

#[test]
fn without_an_answer_the_chat_is_suspended() {
    let ran = chat(&["Hello."]).asking_in_vain().run(json!({"input": "hi"}));
    let llm_do_core::engine::End::Suspended(waiting) = &ran.outcome.end else {
        panic!("{:?}", ran.outcome.end)
    };
    assert_eq!(waiting[0].id.to_string(), "0:message.1");
}

#[test]
fn undone_messages_are_sent_no_more_and_keep_their_numbers() {
    let ran = chat(&["one", "two", "three", "four"])
        .asking([says("second"), says("third"), Answer::Undo { message: 1 }, says("other"), Answer::End])
        .run(json!({"input": "first"}));
    let sent: Vec<String> = history(&ran, "main").into_iter().map(|(_, text)| text).collect();
    assert_eq!(sent, ["first", "one", "other"]);
    let last = ran.seen.last().unwrap();
    let ids: Vec<u32> = last.messages.iter().map(|message| message.id.0).collect();
    assert_eq!(ids, [0, 1, 6], "the IDs of undone messages are not used again");
    assert_eq!(last.messages[2].parent.map(|id| id.0), Some(1));
}

#[test]
fn the_first_message_can_be_undone() {
    let ran = chat(&["one", "two"])
        .asking([Answer::Undo { message: 0 }, says("another start"), Answer::End])
        .run(json!({"input": "first"}));
    assert_eq!(history(&ran, "main"), [(Role::User, "another start".to_owned())]);
}

#[test]
fn a_kept_result_joins_the_next_message_with_its_origin() {
    let world = chat(&["one", "two"])
        .worker(worker("other"), vec![text("found")])
        .worker(worker("another"), vec![text("again")]);
    let call =
        |worker: &str| Answer::Run { worker: worker.into(), input: Arc::new(json!({"input": "look"})) };
    let ran = world
        .asking([
            call("other"),
            Answer::Keep { message: 1 },
            call("another"),
            Answer::Detach { message: 2 },
            Answer::Keep { message: 3 },
            Answer::Keep { message: 9 },
            says("next"),
            Answer::End,
        ])
        .run(json!({"input": "first"}));
    let parts = &ran.seen.last().unwrap().messages.last().unwrap().parts;
    let joined: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Attachment { name, text } => Some((&**name, &**text)),
            _ => None,
        })
        .collect();
    assert_eq!(joined, [("result of another", "again")]);
}

#[test]
fn a_call_of_the_user_of_no_worker_is_noted() {
    let nothing = Answer::Run { worker: "nothing".into(), input: Arc::new(json!({})) };
    let ran = chat(&["one"]).asking([nothing, Answer::End]).run(json!({"input": "first"}));
    assert_eq!(ran.output(), &json!("one"));
}

#[test]
fn limits_of_turns_and_calls_hold_for_each_answer() {
    let look = || calls([("look", json!({}))]);
    let mut main = worker_with_tools("main");
    main.limits.max_turns = Some(2);
    main.limits.max_tool_calls = Some(1);
    let mut world = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("seen"))))
        .worker(main, vec![look(), text("one"), look(), text("two"), look(), look(), text("three")]);
    world.chat = true;
    let ran = world
        .asking([says("again"), says("more"), says("and now?"), Answer::End])
        .run(json!({"input": "go"}));
    assert_eq!(ran.output(), &json!("three"), "the third answer reached a limit, the fourth did not");
    let sent = history(&ran, "main");
    assert_eq!(sent.last(), Some(&(Role::User, "and now?".to_owned())));
    let results = ran.seen.last().unwrap().messages.iter().filter(|message| message.role == Role::Tool);
    assert_eq!(results.count(), 4, "a call that was not made is answered, too");
}

#[test]
fn a_failed_request_ends_the_answer_and_not_the_chat() {
    let broken = || Err(ModelError::new(ModelErrorKind::Auth, "the key is wrong"));
    let mut world = World::new().worker(worker("main"), vec![broken(), text("Now.")]);
    world.chat = true;
    let ran = world.asking([says("try again"), Answer::End]).run(json!({"input": "hi"}));
    assert_eq!(ran.output(), &json!("Now."));
}

#[test]
fn a_worker_that_talks_to_the_user_gives_its_caller_a_typed_result() {
    let mut main = worker("main");
    main.allow_workers = vec!["ask_age".into()];
    let ran = World::new()
        .worker(main, vec![calls([("ask_age", json!({"input": "Find out the age."}))]), text("done")])
        .worker(
            interviewer("ask_age", WorkerMode::Chat),
            vec![text("How old are you?"), text("In years?"), calls([("finish", json!({"age": 41}))])],
        )
        .asking([says("older than 40"), says("41")])
        .run(json!({"input": "go"}));
    assert_eq!(ran.results(), [(r#"{"age":41}"#.to_owned(), false)]);
    assert_eq!(ran.first("ask_age").tools, ["ask_user", "finish"]);
}

#[test]
fn done_asks_for_the_result_once_more() {
    let mut main = worker("main");
    main.allow_workers = vec!["ask_age".into()];
    let ran = World::new()
        .worker(main, vec![calls([("ask_age", json!({"input": "Find out the age."}))]), text("done")])
        .worker(
            interviewer("ask_age", WorkerMode::Chat),
            vec![text("How old are you?"), text("Well …"), calls([("finish", json!({"age": 0}))])],
        )
        .asking([Answer::End])
        .run(json!({"input": "go"}));
    assert_eq!(ran.results(), [(r#"{"age":0}"#.to_owned(), false)], "text alone is no result any more");
}

#[test]
fn without_a_user_it_fails_before_anything_is_sent() {
    let mut main = worker("main");
    main.allow_workers = vec!["ask_age".into()];
    let mut world = World::new()
        .worker(main, vec![calls([("ask_age", json!({"input": "x"}))]), text("no user")])
        .worker(interviewer("ask_age", WorkerMode::Chat), vec![]);
    world.attended = false;
    let ran = world.run(json!({"input": "go"}));
    assert!(ran.error().contains("no user can be reached in this run"), "{}", ran.error());
}

#[test]
fn ask_user_takes_texts_choices_and_forms() {
    let asked = |arguments: Value, answer: Answer| {
        let main = interviewer("main", WorkerMode::Single);
        let main = WorkerDefinition { returns: None, ..main };
        World::new()
            .worker(main, vec![calls([("ask_user", arguments)]), text("thanks")])
            .asking([answer])
            .run(json!({"input": "go"}))
    };
    let give = |value: Value| Answer::Give { value: Arc::new(value) };
    let ran = asked(json!({"question": "Name?"}), says("Ann"));
    assert_eq!(ran.results(), [("Ann".to_owned(), false)]);
    let form = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let ran = asked(json!({"question": "How many?", "form": form}), give(json!({"n": 3})));
    assert_eq!(ran.results(), [(r#"{"n":3}"#.to_owned(), false)]);
    let ran = asked(json!({"question": "Which?", "choices": ["a", "b"]}), says("c"));
    assert!(ran.error().contains("the answer does not fit the question"), "{}", ran.error());
    let ran = asked(json!({"question": "Name?"}), Answer::Decline { reason: None });
    assert!(ran.error().contains("gave no answer"), "{}", ran.error());
    let ran = asked(json!({"question": "?", "choices": ["a", "b"], "form": form}), says("c"));
    assert!(ran.error().contains("not both"), "{}", ran.error());
}

#[test]
fn a_tool_named_finish_is_refused_where_the_conversation_has_one() {
    let main = WorkerDefinition {
        returns: None,
        toolsets: worker_with_tools("x").toolsets,
        ..interviewer("main", WorkerMode::Chat)
    };
    let ran = World::new()
        .tool(tool("finish", Risk::Read, |_| Ok(json!(1))))
        .worker(main, vec![])
        .run(json!({"input": "go"}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.failure().message.contains("rename the function"));
}
