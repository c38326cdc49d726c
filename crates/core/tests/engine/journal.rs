//! Tests that the journal contains the whole truth: everything that a model was sent can be rebuilt from it alone.

use crate::world::{World, calls, calls_of, text, tool, worker, worker_with_tools};
use llm_do_core::{
    call_path::CallPath,
    conversation::Next,
    function::Risk,
    journal::RecordKind,
    model::{FinishReason, ModelError, ModelErrorKind, ModelResponse},
    question::Answer,
    rebuild::{FoldError, conversation_at},
    results::SHOWN_CHARS,
    schema::Schema,
    worker::Limits,
};
use proptest::prelude::*;
use serde_json::json;
use std::sync::Arc;

/// Children, failures, repairs, retries, refusals and long results in one run; [`World::run`] rebuilds every request
/// of it.
#[test]
fn an_eventful_run_can_be_rebuilt_from_its_journal_alone() {
    let mut main = worker_with_tools("main");
    main.toolsets.insert(0, ("filesystem".into(), Arc::new(json!({}))));
    main.allow_workers = vec!["counter".into(), "lib/*".into()];
    main.limits.max_repeats = 2;
    let mut counter = worker("counter");
    counter.returns = Some(Arc::new(Schema::new(json!({"type": "integer"})).unwrap()));
    counter.limits.output_retries = 1;
    let overloaded = || Err(ModelError::new(ModelErrorKind::Server, "overloaded"));
    let ran = World::new()
        .file("notes/a.txt", "alpha")
        .tool(tool("dump", Risk::Read, |_| Ok(json!("x".repeat(SHOWN_CHARS * 2)))))
        .tool(tool("fail", Risk::Exec, |_| Err("it is broken".to_owned())))
        .worker(counter, vec![text("let me think"), calls([("final_result", json!({"result": "four"}))])])
        .worker(worker("lib/echo"), vec![overloaded(), text("echo")])
        .worker(
            main,
            vec![
                text(""),
                overloaded(),
                calls([
                    ("dump", json!({})),
                    ("counter", json!({"input": "2+2"})),
                    ("worker_call", json!({"worker": "lib/echo", "input_data": {"a": 1}})),
                    ("fail", json!({})),
                    ("dump", json!({"again": 1})),
                    ("nope", json!({})),
                ]),
                calls([("read_file", json!({"path": "/results/2", "offset": SHOWN_CHARS}))]),
                calls([("dump", json!({})), ("read_file", json!({"path": "/../etc/passwd"}))]),
                calls([("dump", json!({}))]),
                text("done"),
            ],
        )
        .run(json!({"input": "go"}));
    assert_eq!(ran.output(), &json!("done"));
    assert!(ran.results()[0].0.contains("was not made again"), "{:?}", ran.results());
    let repairs = ran.records.iter().filter(|record| matches!(record.body, RecordKind::MessageAdded { .. }));
    assert_eq!(repairs.count(), 2);
}

#[test]
fn a_finished_conversation_is_finished_when_rebuilt() {
    let ran = World::new().worker(worker("main"), vec![text("done")]).run(json!({}));
    let rebuilt = conversation_at(&ran.records, &CallPath::root(), Limits::default()).unwrap();
    assert!(matches!(rebuilt.next(), Next::Done(done) if *done.value == json!("done")));
}

#[test]
fn a_journal_that_breaks_off_gives_the_conversation_up_to_there() {
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .worker(
            worker_with_tools("main"),
            vec![calls([("look", json!({"n": 1})), ("look", json!({"n": 2}))]), text("done")],
        )
        .run(json!({}));
    let one_of_two =
        ran.records.iter().position(|record| matches!(record.body, RecordKind::ToolEnded { .. })).unwrap();
    let rebuilt = conversation_at(&ran.records[..=one_of_two], &CallPath::root(), Limits::default()).unwrap();
    assert!(
        matches!(rebuilt.next(), Next::Call(planned) if planned.len() == 2),
        "both are made again, over the records"
    );
}

#[test]
fn a_place_without_a_conversation_is_an_error() {
    let ran = World::new().worker(worker("main"), vec![text("done")]).run(json!({}));
    let nowhere = CallPath::from("0/7.7");
    let error = conversation_at(&ran.records, &nowhere, Limits::default()).unwrap_err();
    assert_eq!(error, FoldError::NoConversation(nowhere));
}

#[test]
fn records_grow_with_the_turns_and_not_with_their_square() {
    let bytes = |turns: u64| {
        let mut script: Vec<_> = (0..turns).map(|n| calls([("look", json!({"n": n}))])).collect();
        script.push(text("done"));
        let mut main = worker_with_tools("main");
        main.limits.max_turns = Some(500);
        let ran = World::new()
            .tool(tool("look", Risk::Read, |_| Ok(json!("a cat ".repeat(50)))))
            .worker(main, script)
            .run(json!({}));
        serde_json::to_string(&ran.records).unwrap().len()
    };
    let (few, many) = (bytes(20), bytes(80));
    assert!(many < few * 5, "{few} bytes for 20 turns, {many} for 80");
}

/// An answer of a model that may contain anything.
fn any_answer() -> impl Strategy<Value = Result<ModelResponse, ModelError>> {
    let arguments = prop::sample::select(vec![
        json!({}),
        json!({"n": 1}),
        json!({"input": "go"}),
        json!({"input": 7, "wrong": true}),
        json!({"worker": "child", "input_data": "go"}),
        json!({"path": "/notes/a.txt"}),
        json!({"path": "/new.txt", "content": "x"}),
        json!({"path": "/results/1"}),
        json!({"result": 4}),
        json!(null),
    ]);
    let names = vec![
        "dump",
        "fail",
        "ask",
        "child",
        "worker_call",
        "read_file",
        "write_file",
        "final_result",
        "none",
    ];
    let call =
        (prop::sample::select(names), arguments).prop_map(|(name, arguments)| (name.to_owned(), arguments));
    prop_oneof![
        6 => prop::collection::vec(call, 1..5).prop_map(calls_of),
        1 => prop::sample::select(vec!["", "4", "four", "```json\n4\n```"]).prop_map(text),
        1 => Just(Err(ModelError::new(ModelErrorKind::Server, "overloaded"))),
        1 => Just(Ok(ModelResponse { finish: FinishReason::Length, ..text("4 or").unwrap() })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_models_say_every_request_follows_from_the_journal_alone(
        main_says in prop::collection::vec(any_answer(), 1..8),
        child_says in prop::collection::vec(any_answer(), 1..6),
        approves in prop::collection::vec(any::<bool>(), 400),
        typed in any::<bool>(),
    ) {
        // Every script ends with plain text.
        let script = |says: Vec<_>| says.into_iter().chain((0..8).map(|_| text("so be it"))).collect();
        let able = |id: &str| {
            let mut worker = worker_with_tools(id);
            worker.toolsets.insert(0, ("filesystem".into(), Arc::new(json!({}))));
            worker.allow_workers = vec!["child".into(), "chi*".into()];
            worker.limits.max_repeats = 1;
            worker
        };
        let mut child = able("child");
        if typed {
            child.returns = Some(Arc::new(Schema::new(json!({"type": "integer"})).unwrap()));
        }
        World::new()
            .file("notes/a.txt", "alpha")
            .tool(tool("dump", Risk::Read, |input| Ok(json!(format!("{input}{}", "x".repeat(SHOWN_CHARS))))))
            .tool(tool("fail", Risk::Exec, |_| Err("it is broken".to_owned())))
            .tool(tool("ask", Risk::Network, |input| Ok(input.clone())))
            .worker(child, script(child_says))
            .worker(able("main"), script(main_says))
            .asking(approves.into_iter().map(|approve| {
                if approve { Answer::Approve { remember: false } } else { Answer::Deny { reason: None, remember: true } }
            }))
            .run(json!({"input": "go"}));
    }
}
