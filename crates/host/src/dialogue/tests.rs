//! Tests of the dialogue: every input in every state, and stories over several inputs.

use super::*;
use llm_do_core::{question::Settlement, risk::Risk, step_name::StepName};
use serde_json::Value;
use std::fmt::Write as _;

type Chat = Dialogue<&'static str>;

const PERSON: Manner = Manner { extent: Extent::Chat, in_lines: false, listens: true };
const PIPE: Manner = Manner { in_lines: true, ..PERSON };
const EDITOR: Manner = Manner { listens: false, ..PERSON };

fn root() -> CallPath {
    CallPath::root()
}

fn inner() -> CallPath {
    root().call(1, 0)
}

/// Returns the question with which a conversation waits for message `number`.
fn turn(call: &CallPath, number: u32) -> Waiting {
    let turn = Turn { number, cut_off: false, failure: None, context: None };
    asks(call, StepName::Message(number), Some(turn))
}

/// Returns a question of a worker.
fn question(call: &CallPath) -> Waiting {
    asks(call, StepName::Ask(0), None)
}

fn asks(call: &CallPath, step: StepName, conversation: Option<Turn>) -> Waiting {
    let input = Asks {
        chain: vec!["main".into()],
        prompt: "?".into(),
        schema: None,
        changes: Vec::new(),
        conversation,
        expires_ms: None,
    };
    Waiting { id: QuestionId::new(call, &step), question: Question::Input(input) }
}

/// Returns the question about a tool that was interrupted.
fn settlement(call: &CallPath) -> Waiting {
    let settlement =
        Settlement { chain: Vec::new(), function: "send".into(), risk: Risk::Network, input: Arc::default() };
    Waiting { id: QuestionId::new(call, &StepName::Ask(1)), question: Question::Settlement(settlement) }
}

fn give(text: &str) -> Answer {
    Answer::Give { value: Arc::new(Value::from(text)) }
}

fn attach(file: &str) -> Answer {
    Answer::Attach { file: file.into(), content: None }
}

/// Returns effects in few words.
fn short(effects: &[Effect<&'static str>]) -> String {
    let answer = |answer: &Answer| match answer {
        Answer::Give { value } => format!("give {}", value.as_str().unwrap_or_default()),
        Answer::Attach { file, .. } => format!("attach {file}"),
        Answer::Detach { message } => format!("detach {message}"),
        Answer::Keep { message } => format!("keep {message}"),
        Answer::Undo { message } => format!("undo {message}"),
        other => format!("{other:?}").to_lowercase().split([' ', '{']).next().unwrap_or_default().to_owned(),
    };
    let one = |effect: &Effect<&'static str>| match effect {
        Effect::Start(text, files) => format!("start {text} {files:?}"),
        Effect::Listen => "listen".into(),
        Effect::Continue => "continue".into(),
        Effect::Go(to) => format!("go {to:?}"),
        Effect::Deliver(text) => format!("deliver {text}"),
        Effect::Words(id, text) => format!("words {id} {text}"),
        Effect::Interject(at, text) => format!("interject {at} {text}"),
        Effect::Answer(id, given) => format!("{id} {}", answer(given)),
        Effect::Later(id) => format!("later {id}"),
        Effect::Ask(waiting) => format!("ask {}", waiting.id),
        Effect::Withdraw(id) => format!("withdraw {id}"),
        Effect::Turn(turn, work) => format!("turn {} {work:?}", turn.number),
        Effect::Queued => "queued".into(),
        Effect::Return(text) => format!("return {text}"),
        Effect::Undelivered(rest) => {
            format!("undelivered {}", rest.iter().map(answer).collect::<Vec<_>>().join("+"))
        }
        Effect::Stop => "stop".into(),
        Effect::Cancel => "cancel".into(),
        Effect::Ended(left) => format!("ended {left:?}"),
        Effect::Refused(refusal) => format!("no: {refusal:?}"),
        Effect::News(news) => format!("news {news:?}"),
    };
    effects.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Passes inputs to a dialogue. Returns the effects of the last one.
fn after(chat: &mut Chat, inputs: impl IntoIterator<Item = Input<&'static str>>) -> String {
    inputs.into_iter().map(|input| short(&chat.take(input))).last().unwrap_or_default()
}

fn with(manner: Manner, inputs: impl IntoIterator<Item = Input<&'static str>>) -> Chat {
    let mut chat = Chat::new(manner);
    after(&mut chat, inputs);
    chat
}

/// Returns a dialogue in each state, under its name.
fn states(manner: Manner) -> Vec<(&'static str, Chat)> {
    let began = || vec![Input::Say("hi"), Input::Began];
    let work = |more: Vec<Input<&'static str>>| with(manner, began().into_iter().chain(more));
    let at_turn = || Input::Asked(turn(&root(), 1));
    let ask = || Input::Asked(question(&root()));
    vec![
        ("new", with(manner, [])),
        ("new with a file", with(manner, [Input::Attach("a.txt".into())])),
        ("beginning", with(manner, [Input::Say("hi")])),
        ("at work", work(vec![])),
        ("at work, one waits", work(vec![Input::Say("next")])),
        ("at work, more follows", work(vec![at_turn(), Input::Give(vec![attach("b.txt"), give("see")])])),
        ("asked", work(vec![ask()])),
        ("asked in words", work(vec![ask(), Input::InWords { id: question(&root()).id, queued: false }])),
        ("turn", work(vec![at_turn()])),
        ("turn of a worker", work(vec![Input::Asked(turn(&inner(), 1))])),
        ("leaving", work(vec![Input::Leave { to: Leave::New, talks: true }])),
        ("left", Chat::left(manner)),
        ("over", work(vec![Input::Ended { can_continue: false }])),
    ]
}

/// Returns each input, under its name.
fn inputs() -> Vec<(&'static str, Input<&'static str>)> {
    let model = "script:x".parse().expect("a model");
    let leave = |to| Input::Leave { to, talks: true };
    vec![
        ("say", Input::Say("more")),
        ("say now", Input::SayNow("quick", root())),
        ("give", Input::Give(vec![attach("c.txt"), give("see")])),
        ("compact", Input::Give(vec![Answer::Compact { keep: None }])),
        ("model", Input::Give(vec![Answer::Model { model }])),
        ("attach", Input::Attach("a.txt".into())),
        ("detach", Input::Detach(None, vec![(4, "b.txt".into()), (5, "c.txt".into())])),
        ("keep", Input::Keep(Some(3))),
        ("keep nothing", Input::Keep(None)),
        ("undo", Input::Undo(Some((2, "old")), Undone::Returned)),
        ("retry", Input::Undo(Some((2, "old")), Undone::Again)),
        ("undo nothing", Input::Undo(None, Undone::Returned)),
        ("end", Input::End),
        ("answer", Input::Answer(question(&root()).id, give("red"))),
        ("later", Input::Later(question(&root()).id)),
        ("in words", Input::InWords { id: question(&root()).id, queued: true }),
        ("edit queued", Input::EditQueued),
        ("next", Input::Next),
        ("stop", Input::Stop { talks: true }),
        ("leave", leave(Leave::End)),
        ("leave for new", leave(Leave::New)),
        ("leave for a copy", leave(Leave::Fork)),
        ("terminate", Input::Terminate),
        ("hang up", Input::HangUp),
        ("began", Input::Began),
        ("not begun", Input::NotBegun),
        ("asked", Input::Asked(question(&inner()))),
        ("turn", Input::Asked(turn(&root(), 2))),
        ("withdrawn", Input::Withdrawn(question(&root()).id)),
        ("unsaid", Input::Unsaid(vec!["a", "b"])),
        ("not attached", Input::NotAttached(vec![Answer::Detach { message: 9 }])),
        ("ended", Input::Ended { can_continue: true }),
    ]
}

/// Returns the effects of every input in every state, a line each. Inputs without an effect are left out.
fn table(manner: Manner) -> String {
    let mut table = String::new();
    for (index, (state, _)) in states(manner).into_iter().enumerate() {
        // Writing to a String does not fail.
        let _ = writeln!(table, "{state}");
        for (name, input) in inputs() {
            let (_, mut chat) = states(manner).swap_remove(index);
            let effects = short(&chat.take(input));
            if !effects.is_empty() {
                let _ = writeln!(table, "  {name}: {effects}");
            }
        }
    }
    table
}

#[allow(clippy::disallowed_methods, reason = "UPDATE_EXPECT writes the expected table")]
fn is(manner: Manner, expected: &str, file: &str) {
    let table = table(manner);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        let path = format!("{}/src/dialogue/{file}", env!("CARGO_MANIFEST_DIR"));
        std::fs::write(path, &table).expect("a file");
    } else {
        assert_eq!(table, expected);
    }
}

#[test]
fn every_input_has_its_effects_in_every_state_of_a_chat_with_a_person() {
    is(PERSON, include_str!("person.txt"), "person.txt");
}

#[test]
fn every_input_has_its_effects_in_every_state_of_a_chat_over_a_pipe() {
    is(PIPE, include_str!("pipe.txt"), "pipe.txt");
}

#[test]
fn every_input_has_its_effects_in_every_state_of_a_chat_in_an_editor() {
    is(EDITOR, include_str!("editor.txt"), "editor.txt");
}

#[test]
fn a_message_waits_for_its_turn_and_follows_those_before() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began]);
    after(&mut chat, [Input::Say("two"), Input::Say("three")]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 1))]), "turn 1 Answer");
    assert_eq!(after(&mut chat, [Input::Next]), "queued; deliver two");
    assert_eq!(after(&mut chat, [Input::Give(vec![give("two")])]), "0:message.1 give two");
    assert_eq!((chat.work(), chat.queue().len()), (Some(Work::Answer), 1));
    assert_eq!(after(&mut chat, [Input::Next]), "");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2)), Input::Next]), "queued; deliver three");
}

#[test]
fn words_that_no_request_delivered_come_before_the_messages_that_wait() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began, Input::Say("last")]);
    assert_eq!(after(&mut chat, [Input::SayNow("a", root())]), "interject 0 a; news SaidWithNext");
    after(&mut chat, [Input::Asked(turn(&root(), 1)), Input::Unsaid(vec!["a", "b"])]);
    assert_eq!(chat.queue(), &["a", "b", "last"]);
}

#[test]
fn answers_that_belong_together_follow_each_other_before_any_other_input() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    let together = vec![attach("a"), attach("b"), give("see")];
    assert_eq!(after(&mut chat, [Input::Give(together)]), "0:message.1 attach a");
    assert_eq!(chat.work(), Some(Work::Answer), "the message follows");
    after(&mut chat, [Input::Say("other")]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2))]), "0:message.2 attach b");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 3))]), "0:message.3 give see");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 4)), Input::Next]), "queued; deliver other");
}

#[test]
fn a_message_is_not_given_without_a_file_that_belongs_to_it() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    after(&mut chat, [Input::Give(vec![attach("a"), attach("b"), give("see")])]);
    after(&mut chat, [Input::Asked(turn(&root(), 2))]);
    let instead = vec![Answer::Detach { message: 1 }];
    assert_eq!(after(&mut chat, [Input::NotAttached(instead)]), "undelivered give see");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 3))]), "0:message.3 detach 1");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 4))]), "turn 4 Choice");
}

#[test]
fn a_chat_that_listens_begins_with_the_files_and_the_answer() {
    let mut chat = with(PERSON, [Input::Attach("a".into()), Input::Attach("a".into())]);
    let model = Answer::Model { model: "script:x".parse().expect("a model") };
    assert_eq!(after(&mut chat, [Input::Give(vec![model])]), "listen");
    after(&mut chat, [Input::Began]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 1))]), "0:message.1 attach a");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2))]), "0:message.2 model");
}

#[test]
fn a_run_that_cannot_begin_leaves_the_chat_as_it_was() {
    let mut chat = with(PERSON, [Input::Attach("a".into()), Input::Say("hi"), Input::NotBegun]);
    assert_eq!(chat.first_files(), ["a".into()]);
    assert_eq!(after(&mut chat, [Input::Say("hi")]), "start hi [\"a\"]");
    let mut chat = Chat::left(EDITOR);
    assert_eq!(after(&mut chat, [Input::Say("hi")]), "continue");
    after(&mut chat, [Input::NotBegun]);
    assert!(chat.queue().is_empty() && !chat.is_running());
}

#[test]
fn a_retried_message_follows_the_question_about_files() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    assert_eq!(
        after(&mut chat, [Input::Undo(Some((0, "one")), Undone::Replaced("two"))]),
        "0:message.1 undo 0"
    );
    let restore = asks(&root(), StepName::Restore(1), None);
    assert_eq!(after(&mut chat, [Input::Asked(restore.clone())]), "ask 0:restore.1");
    assert_eq!(after(&mut chat, [Input::Answer(restore.id, give("leave"))]), "0:restore.1 give leave");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2)), Input::Next]), "queued; deliver two");
}

#[test]
fn a_retried_message_answers_no_question_of_a_pipe() {
    let mut chat = with(PIPE, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    after(&mut chat, [Input::Undo(Some((0, "one")), Undone::Again)]);
    let restore = asks(&root(), StepName::Restore(1), None);
    let words = Input::InWords { id: restore.id.clone(), queued: true };
    assert_eq!(after(&mut chat, [Input::Asked(restore.clone()), words]), "");
    assert_eq!(after(&mut chat, [Input::Say("leave")]), "words 0:restore.1 leave");
    after(&mut chat, [Input::Answer(restore.id, give("leave"))]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2)), Input::Next]), "queued; deliver one");
}

#[test]
fn a_stop_leaves_interrupted_tools_open_and_lets_the_run_withdraw_the_rest() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began]);
    after(&mut chat, [Input::Asked(question(&inner())), Input::Asked(settlement(&inner()))]);
    assert_eq!(after(&mut chat, [Input::Stop { talks: true }]), "stop; later 0/1.0:ask.1");
    assert!(chat.question(&settlement(&inner()).id).is_none());
    assert_eq!(after(&mut chat, [Input::Withdrawn(question(&inner()).id)]), "withdraw 0/1.0:ask");
    assert!(!chat.is_asked());
    let restore = asks(&root(), StepName::Restore(1), None);
    assert_eq!(
        after(&mut chat, [Input::Asked(restore), Input::Stop { talks: true }]),
        "stop; news FilesStay"
    );
}

#[test]
fn a_run_without_a_conversation_is_cancelled_and_not_stopped() {
    let manner = Manner { extent: Extent::Run, ..PERSON };
    for (talks, effect) in [(false, "cancel"), (true, "stop")] {
        let mut run = with(manner, [Input::Began]);
        assert_eq!(after(&mut run, [Input::Stop { talks }]), effect);
        let mut run = with(manner, [Input::Began]);
        assert_eq!(after(&mut run, [Input::Leave { to: Leave::End, talks }]), effect);
    }
}

#[test]
fn lines_of_a_pipe_are_all_answered_before_the_end() {
    let mut chat = with(PIPE, [Input::Say("one"), Input::Began, Input::Say("two")]);
    assert_eq!(after(&mut chat, [Input::Leave { to: Leave::End, talks: true }]), "");
    assert!(!chat.is_over());
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 1)), Input::Next]), "queued; deliver two");
    after(&mut chat, [Input::Give(vec![give("two")])]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 2)), Input::Next]), "later 0:message.2");
    assert_eq!(after(&mut chat, [Input::Ended { can_continue: true }]), "ended Some(End)");
    assert!(chat.is_over());
}

#[test]
fn a_question_in_a_pipe_takes_the_lines_that_wait_and_stays_open_after_the_last() {
    let mut chat = with(PIPE, [Input::Say("one"), Input::Began, Input::Say("blue"), Input::Say("red")]);
    let waiting = question(&inner());
    let words = || Input::InWords { id: waiting.id.clone(), queued: true };
    assert_eq!(after(&mut chat, [Input::Asked(waiting.clone()), words()]), "queued; words 0/1.0:ask blue");
    // The driver can't read it as an answer.
    assert_eq!(after(&mut chat, [words()]), "queued; words 0/1.0:ask red");
    assert_eq!(after(&mut chat, [words()]), "", "another line may come");
    assert_eq!(after(&mut chat, [Input::Say("green")]), "words 0/1.0:ask green");
    after(&mut chat, [Input::Leave { to: Leave::End, talks: true }]);
    assert_eq!(after(&mut chat, [words()]), "later 0/1.0:ask");
}

#[test]
fn the_next_chat_takes_the_lines_that_wait() {
    let mut chat = with(PIPE, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    assert_eq!(after(&mut chat, [Input::Leave { to: Leave::New, talks: true }]), "later 0:message.1");
    after(&mut chat, [Input::Say("two"), Input::Leave { to: Leave::End, talks: true }]);
    assert_eq!(after(&mut chat, [Input::Ended { can_continue: true }]), "ended Some(New)");
    assert!(!chat.is_over());
    assert_eq!(after(&mut chat, [Input::Next]), "queued; deliver two");
    assert_eq!(after(&mut chat, [Input::Say("two")]), "start two []");
    after(&mut chat, [Input::Began]);
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 1)), Input::Next]), "later 0:message.1");
}

#[test]
fn a_person_who_leaves_drops_the_messages_that_wait() {
    let mut chat = with(PERSON, [Input::Say("one"), Input::Began, Input::Say("two")]);
    assert_eq!(after(&mut chat, [Input::Leave { to: Leave::End, talks: true }]), "queued; stop");
    assert_eq!(after(&mut chat, [Input::Asked(turn(&root(), 1)), Input::Next]), "later 0:message.1");
}

#[test]
fn a_conversation_that_was_left_first_completes_its_work() {
    let mut chat = Chat::left(EDITOR);
    after(&mut chat, [Input::Say("and?"), Input::Began]);
    let waiting = question(&root());
    // The user has seen the question before, so the words are its answer.
    let words = Input::InWords { id: waiting.id.clone(), queued: true };
    assert_eq!(after(&mut chat, [Input::Asked(waiting), words]), "queued; words 0:ask and?");
}

#[test]
fn a_user_who_is_gone_leaves_the_questions_open() {
    let mut chat = with(EDITOR, [Input::Say("one"), Input::Began, Input::Asked(question(&inner()))]);
    assert_eq!(after(&mut chat, [Input::HangUp]), "later 0/1.0:ask; cancel");
    let mut chat = with(EDITOR, [Input::Say("one"), Input::Began, Input::Asked(turn(&root(), 1))]);
    assert_eq!(after(&mut chat, [Input::HangUp]), "later 0:message.1");
    let mut chat = with(EDITOR, [Input::Say("one"), Input::Began, Input::Asked(turn(&inner(), 1))]);
    assert_eq!(after(&mut chat, [Input::HangUp]), "cancel", "others may be at work");
    assert_eq!(after(&mut chat, [Input::Ended { can_continue: true }]), "ended Some(End)");
    assert!(chat.is_over());
}
