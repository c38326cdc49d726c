//! The guarantees of a compaction for any conversation, without a model that summarises.

use super::*;
use crate::{
    call_path::CallPath,
    conversation::{OutputContract, Setup},
    limits::Limits,
    model::{FinishReason, Sees, ToolCall},
    question::Answer,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// An event of a conversation.
#[derive(Clone, Debug)]
enum Event {
    /// The model makes that number of calls, whose results have that size.
    Calls(usize, usize),
    /// The model answers, and the user says something.
    Says(String),
    /// The conversation is compacted: that number of its old results, and a summary if there are older turns.
    Compact(usize, bool),
    /// The user undoes the last compaction.
    UndoCompaction,
    /// The user undoes the message of that number.
    Undo(u32),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..4usize, prop_oneof![Just(10usize), Just(3000)]).prop_map(|(calls, size)| Event::Calls(calls, size)),
        4 => "[a-z]{1,20}".prop_map(Event::Says),
        3 => (0..4usize, any::<bool>()).prop_map(|(results, summary)| Event::Compact(results, summary)),
        1 => Just(Event::UndoCompaction),
        1 => (0..8u32).prop_map(Event::Undo),
    ]
}

fn conversation() -> Conversation {
    let setup = Setup {
        call: CallPath::root(),
        worker: "w".into(),
        limits: Limits { max_turns: Some(u32::MAX), ..Limits::default() },
        output: OutputContract::of_conversation(None, false),
        sees: Sees::default(),
        tools: vec!["look".into()],
        server_tools: false,
        with_user: true,
        user: Origin::Trusted,
        listens: false,
    };
    Conversation::new(setup, Conversation::first_message(vec![Part::text("first words")]))
}

fn model_says(conversation: &mut Conversation, parts: Vec<Part>, finish: FinishReason) {
    let message = conversation.answer_message(&ModelResponse {
        parts,
        finish,
        usage: Default::default(),
        unknown_finish: None,
    });
    conversation.answered(message, finish);
}

fn says(words: &str) -> Answer {
    Answer::Give { value: Arc::new(Value::from(words)) }
}

/// Each call is answered once, right after the message that makes it, and nothing else is answered.
fn assert_paired(messages: &[Arc<Message>]) {
    for (at, message) in messages.iter().enumerate() {
        let calls: Vec<&str> = message.calls().map(|call| &*call.id).collect();
        let next = messages.get(at + 1).filter(|next| next.role == Role::Tool);
        let answers: Vec<&str> = next
            .into_iter()
            .flat_map(|next| &next.parts)
            .filter_map(|part| match part {
                Part::Result(result) => Some(&*result.call_id),
                _ => None,
            })
            .collect();
        assert_eq!(calls, answers);
        assert!(message.role != Role::Tool || at > 0 && messages[at - 1].calls().count() > 0);
    }
}

proptest! {
    #[test]
    fn pairs_and_the_users_words_survive(events in prop::collection::vec(event(), 1..30)) {
        let mut talk = conversation();
        let mut number = 0;
        // The words that the history holds, with the numbers of their messages.
        let mut words: Vec<(u32, String)> = vec![(0, "first words".to_owned())];
        for event in events {
            match event {
                Event::Calls(calls, size) => {
                    let call = |at| Part::Call(ToolCall {
                        id: format!("c{at}").into(),
                        name: "look".into(),
                        arguments: Arguments::Json(Arc::new(json!({"at": talk.turn(), "n": at}))),
                    });
                    let parts = (0..calls).map(call).collect();
                    if matches!(talk.next(), crate::conversation::Next::Ask) {
                        model_says(&mut talk, parts, FinishReason::ToolCalls);
                        let results = (0..calls).map(|at| ToolResult {
                            call_id: format!("c{at}").into(),
                            name: "look".into(),
                            content: "r".repeat(size).into(),
                            is_error: false,
                        });
                        talk.results(results.collect(), Vec::new());
                    }
                }
                Event::Says(said) => {
                    if matches!(talk.next(), crate::conversation::Next::Ask) {
                        model_says(&mut talk, vec![Part::text("answer")], FinishReason::Stop);
                    }
                    number += 1;
                    talk.heard(number, &says(&said));
                    words.push((number, said));
                }
                Event::Compact(results, summary) => {
                    let results: Vec<OldResult> = talk.old_results().into_iter().take(results).map(|(message, result)| {
                        OldResult { message, call_id: Arc::clone(&result.call_id), number: Some(1) }
                    }).collect();
                    let room = Room { recent: Some(100), user: u64::MAX, text: u64::MAX };
                    let older = talk.older_turns(&results, room, None).filter(|_| summary);
                    let summary = older.map(|older| older.summary(&talk, "SUMMARY".into()));
                    talk.compacted(Compaction { results, summary, ..Compaction::default() });
                }
                Event::UndoCompaction => {
                    talk.heard(number + 1, &Answer::UndoCompaction);
                }
                Event::Undo(message) => {
                    number += 1;
                    talk.heard(number, &Answer::Undo { message });
                    if let Some(at) = words.iter().position(|(number, _)| *number == message) {
                        words.truncate(at);
                    }
                }
            }
            assert_paired(talk.messages());
            let sent = serde_json::to_string(talk.messages()).unwrap();
            for (_, said) in &words {
                prop_assert!(sent.contains(said.as_str()), "{said} is missing in {sent}");
            }
            let digest = Conversation::digest_of(talk.messages());
            prop_assert_eq!(talk.digest(), &digest);
            prop_assert!(talk.messages().iter().filter(|message| message.text().contains("SUMMARY")).count() <= 1);
        }
    }
}
