//! Answers to questions, as clients and other programs give them.

use super::parts;
use llm_do_core::question::{Answer, Question, QuestionId, Waiting};
use serde_json::Value;

/// A question of each kind, and a conversation's.
const QUESTIONS: [&str; 4] = [
    r#"{"question": "approval", "chain": ["main"], "function": "write_file", "risk": "write", "input": {"path": "a"}, "rule": {"default": "write"}}"#,
    r#"{"question": "input", "chain": ["main"], "prompt": "Which?"}"#,
    r#"{"question": "input", "chain": ["main"], "prompt": "", "conversation": {"number": 1}}"#,
    r#"{"question": "settlement", "chain": ["main"], "function": "send", "risk": "network", "input": {}}"#,
];

/// Takes an answer and a question, each as JSON.
pub fn run(bytes: &[u8]) {
    let [answer, waiting] = parts(bytes).map(|text| text.and_then(|text| std::str::from_utf8(text).ok()));
    if let Some(Ok(answer)) = answer.map(serde_json::from_str::<Answer>) {
        hold_answer(&answer);
        if let Some(Ok(waiting)) = waiting.map(serde_json::from_str::<Waiting>) {
            hold_fit(&answer, &waiting.question);
        }
    }
    if let Some(Ok(waiting)) = waiting.map(serde_json::from_str::<Waiting>) {
        hold_question(&waiting);
    }
}

/// Asserts that an answer that was read is written and read again without a change, and answers at least one kind of
/// question.
fn hold_answer(answer: &Answer) {
    let written = serde_json::to_value(answer).expect("an answer is data");
    let again: Answer = serde_json::from_value(written.clone()).expect("what was written can be read");
    assert_eq!(serde_json::to_value(&again).expect("data"), written, "{answer:?}");
    assert_eq!(&again, answer);
    let kind = written["answer"].as_str().expect("an answer has its kind");
    let questions = QUESTIONS.map(|text| serde_json::from_str::<Question>(text).expect("a question"));
    let fits = questions.each_ref().map(|question| answer.fits(question));
    // What an answer decides about: a call, an input, a conversation, a tool.
    let expected = match kind {
        "approve" | "deny" | "edit" => [true, false, false, false],
        "give" | "decline" => [false, true, true, false],
        "again" | "done" | "abort" => [false, false, false, true],
        "stop" => [
            questions[0].ends_with_answer(),
            questions[1].ends_with_answer(),
            questions[2].ends_with_answer(),
            false,
        ],
        _ => [false, false, true, false],
    };
    assert_eq!(fits, expected, "{kind}");
    if let Answer::Forget { of } = answer {
        hold_id(of);
    }
}

/// Asserts that the kind of the question alone determines whether an answer fits.
fn hold_fit(answer: &Answer, question: &Question) {
    let other = QUESTIONS
        .map(|text| serde_json::from_str::<Question>(text).expect("a question"))
        .into_iter()
        .find(|other| kind_of(other) == kind_of(question));
    assert_eq!(
        other.map(|other| answer.fits(&other)),
        Some(answer.fits(question)),
        "{answer:?} {question:?}"
    );
}

fn kind_of(question: &Question) -> (Value, bool) {
    let value = serde_json::to_value(question).expect("a question is data");
    let conversation = !value["conversation"].is_null();
    (value["question"].clone(), conversation)
}

fn hold_question(waiting: &Waiting) {
    let written = serde_json::to_value(waiting).expect("a question is data");
    let again: Waiting = serde_json::from_value(written.clone()).expect("what was written can be read");
    assert_eq!(serde_json::to_value(&again).expect("data"), written);
    hold_id(&waiting.id);
}

/// Asserts that the name of a question on the command line parses to the same question, if it has one.
fn hold_id(id: &QuestionId) {
    let name = id.to_string();
    if let Ok(read) = name.parse::<QuestionId>() {
        assert_eq!(read.to_string(), name);
    }
}
