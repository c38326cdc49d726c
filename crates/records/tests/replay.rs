//! A program over a record: nothing is executed, and the first difference is reported.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    driver::{CutOff, Driver, Known, Step, StepEnd},
    engine::{Halt, Principal},
    function::{FunctionSource, Risk},
    journal::{Ending, Record, RecordKind},
    model::{MessageId, Usage},
    origin::{Origin, Steering, Untrusted},
    question::{Answer, Approval, Given, MEMORY, Question, Reply},
    rule::DecidedBy,
    step_name::StepName,
};
use llm_do_records::{Difference, ReplayDriver, ReplayReport};
use serde_json::{Value, json};
use std::sync::Arc;

fn call(index: usize) -> CallPath {
    CallPath::root().call(0, index)
}

fn started(input: Value) -> RecordKind {
    RecordKind::CallStarted {
        function: "look".into(),
        source: FunctionSource::Program,
        principal: Principal::Operator,
        input: Arc::new(input),
        origins: Default::default(),
    }
}

fn begun() -> RecordKind {
    RecordKind::ToolStarted { function: "look".into(), risk: Risk::Write, idempotency_key: "k".into() }
}

fn output(value: Value) -> Ending {
    Ending::Output(Arc::new(value))
}

fn tool_ended(value: Value) -> RecordKind {
    RecordKind::ToolEnded {
        ending: output(value),
        blobs: Vec::new(),
        log: None,
        origins: Default::default(),
        mixed: false,
    }
}

fn call_ended(value: Value) -> RecordKind {
    RecordKind::CallEnded {
        ending: output(value),
        usage: Usage::default(),
        blobs: Vec::new(),
        origins: Default::default(),
        said: Box::default(),
    }
}

fn requested(digest: &str, max_tokens: u32) -> RecordKind {
    RecordKind::ModelRequested {
        turn: 0,
        attempt: 0,
        head: MessageId(0),
        digest: digest.into(),
        max_tokens: Some(max_tokens),
    }
}

fn failed() -> RecordKind {
    let error = llm_do_core::model::ModelError::new(llm_do_core::model::ModelErrorKind::Server, "no");
    RecordKind::ModelFailed { error, retries: None }
}

fn over(records: Vec<(CallPath, &str, RecordKind)>) -> ReplayDriver {
    let records = records.into_iter().enumerate().map(|(number, (path, step, body))| Record {
        seq: number as u64,
        at_ms: 1000 + number as u64,
        path,
        step: step.into(),
        body,
    });
    ReplayDriver::new(records.collect(), Arc::default())
}

fn step<'a>(
    path: &'a CallPath,
    name: &'static str,
    intent: RecordKind,
    run: impl Future<Output = RecordKind> + Send + 'a,
) -> Step<'a> {
    let cut_off = CutOff::Again;
    Step { path, name: name.into(), intent: Some(intent), deadline: None, cut_off, run: Box::pin(run) }
}

async fn never() -> RecordKind {
    panic!("a replay does nothing")
}

fn approval(risk: Risk) -> Question {
    Question::Approval(Approval {
        chain: vec!["main".into()],
        function: "look".into(),
        risk,
        input: Arc::new(json!({})),
        preview: None,
        rule: DecidedBy::Default(Risk::Write),
        calls: None,
        steering: None,
        rules: Vec::new(),
        expires_ms: None,
        arguments: Default::default(),
    })
}

#[tokio::test]
async fn results_come_from_the_record() {
    let driver = over(vec![
        (call(0), "call", started(json!({}))),
        (call(0), "tool", begun()),
        (call(0), "tool", tool_ended(json!(1))),
        (CallPath::root(), "end", call_ended(json!(2))),
    ]);
    driver.record(&call(0), "call".into(), started(json!({}))).unwrap();
    let stepped = driver.step(step(&call(0), "tool", begun(), never())).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == tool_ended(json!(1))));
    driver.record(&CallPath::root(), "end".into(), call_ended(json!(2))).unwrap();
    let ReplayReport { compared, divergence, whole } = driver.report();
    assert_eq!((compared.calls, compared.tools, divergence, whole), (1, 1, None, true));
}

#[tokio::test]
async fn the_first_difference_ends_it() {
    let driver = over(vec![
        (call(0), "call", started(json!({"a": 1}))),
        (CallPath::root(), "end", call_ended(json!(2))),
    ]);
    let halt = driver.record(&call(0), "call".into(), started(json!({"a": 2}))).unwrap_err();
    assert!(matches!(halt, Halt::Diverged { .. }) && driver.cancelled());
    let _ = driver.record(&CallPath::root(), "end".into(), call_ended(json!(3)));
    let divergence = driver.report().divergence;
    let divergence = divergence.unwrap();
    assert_eq!((divergence.path, divergence.chain.len()), (call(0), 1));
    assert!(matches!(divergence.what, Difference::Changed { .. }));
}

#[tokio::test]
async fn what_follows_a_record_that_breaks_off_is_no_difference() {
    let records = vec![(call(0), "call", started(json!({}))), (call(0), "tool", begun())];
    let driver = over(records.clone());
    driver.record(&call(0), "call".into(), started(json!({}))).unwrap();
    assert_eq!(driver.step(step(&call(0), "tool", begun(), never())).await.unwrap_err(), Halt::Cancelled);
    assert_eq!(driver.record(&call(1), "call".into(), started(json!({}))).unwrap_err(), Halt::Cancelled);
    let ReplayReport { divergence, whole, .. } = driver.report();
    assert_eq!((divergence, whole), (None, false));
    // But a call of the record that is never made is one.
    let divergence = over(records).report().divergence;
    assert!(matches!(divergence.unwrap().what, Difference::Gone { .. }));
}

#[tokio::test]
async fn a_step_that_is_left_out_or_added_is_a_difference_where_the_call_has_ended() {
    let root = CallPath::root();
    let records = vec![
        (root.clone(), "model.0.0", requested("d", 1)),
        (root.clone(), "model.0.0", failed()),
        (root.clone(), "end", call_ended(json!(1))),
    ];
    let driver = over(records.clone());
    driver.record(&root, "end".into(), call_ended(json!(1))).unwrap_err();
    let divergence = driver.report().divergence.unwrap();
    assert_eq!((divergence.step.to_string().as_str(), divergence.turn()), ("model.0.0", Some(0)));
    assert!(matches!(divergence.what, Difference::Gone { .. }));
    let driver = over(records);
    driver.step(step(&root, "model.1.0", requested("e", 1), never())).await.unwrap_err();
    assert!(matches!(driver.report().divergence.unwrap().what, Difference::Added { .. }));
}

#[tokio::test]
async fn a_request_is_the_same_whatever_a_budget_leaves_it() {
    let root = CallPath::root();
    let records = vec![(root.clone(), "model.0.0", requested("d", 9)), (root.clone(), "model.0.0", failed())];
    let driver = over(records.clone());
    let stepped = driver.step(step(&root, "model.0.0", requested("d", 5), never())).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == failed()));
    let driver = over(records);
    driver.step(step(&root, "model.0.0", requested("e", 9), async { failed() })).await.unwrap_err();
    assert!(driver.report().divergence.is_some());
}

#[tokio::test]
async fn answers_come_from_the_record_whoever_gave_them() {
    let approved = |via| Given::operator(Answer::Approve { remember: true }, via);
    let driver = over(vec![
        (call(0), "ask", RecordKind::Asked(approval(Risk::Write))),
        (call(0), "ask", RecordKind::Answered(approved("terminal"))),
        (call(1), "ask", RecordKind::Answered(approved(MEMORY))),
        (CallPath::root(), "end", call_ended(json!(1))),
    ]);
    for (index, via) in [(1, MEMORY), (0, "terminal")] {
        let question = approval(Risk::Write);
        let exchanged =
            driver.exchange(&call(index), StepName::Ask(0), question, Known::Nothing).await.unwrap();
        assert_eq!(exchanged.reply, Reply::Given(approved(via)));
    }
    // Another question than the recorded one is a difference, and one that is not in the record as well.
    driver.exchange(&call(0), StepName::Ask(0), approval(Risk::Network), Known::Nothing).await.unwrap_err();
    assert!(driver.report().divergence.is_some());
}

#[tokio::test]
async fn steering_that_names_other_contents_is_the_same_question() {
    let steered = |calls: &[usize]| {
        let read = calls.iter().map(|index| Untrusted {
            call: call(*index),
            function: "fetch".into(),
            origin: Origin::Untrusted,
            excerpt: "buy".into(),
        });
        let steering = Some(Box::new(Steering { read: read.collect(), ..Steering::default() }));
        match approval(Risk::Write) {
            Question::Approval(approval) => Question::Approval(Approval { steering, ..approval }),
            other => other,
        }
    };
    let approved = Given::operator(Answer::Approve { remember: false }, "terminal");
    let records = vec![
        (call(0), "ask", RecordKind::Asked(steered(&[1]))),
        (call(0), "ask", RecordKind::Answered(approved)),
        (CallPath::root(), "end", call_ended(json!(1))),
    ];
    // The recorded call was asked about before the call beside it had ended.
    let driver = over(records.clone());
    driver.exchange(&call(0), StepName::Ask(0), steered(&[1, 2]), Known::Nothing).await.unwrap();
    assert_eq!(driver.report().divergence, None);
    // No untrusted content at all is another question.
    let driver = over(records);
    driver.exchange(&call(0), StepName::Ask(0), approval(Risk::Write), Known::Nothing).await.unwrap_err();
    assert!(driver.report().divergence.is_some());
}
