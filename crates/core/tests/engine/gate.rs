//! The gate as a run meets it: asking, remembering, editing, refusing, suspending (`docs/reference/approvals.md`).

use crate::world::{World, calls, mount, rule, text, tool, worker, worker_with_tools};
use llm_do_core::{
    authority::{Access, Mount, Origin},
    engine::{End, FailureKind},
    function::{FunctionSource, Risk},
    gate::{DecidedBy, Gate, Mode, Rule},
    journal::{Ending, RecordKind},
    question::{Answer, Question},
    schema::Schema,
};
use serde_json::{Value, json};
use std::sync::Arc;

const APPROVE: Answer = Answer::Approve { remember: false };

fn deny() -> Answer {
    Answer::Deny { reason: None, remember: false }
}

fn edit(input: Value) -> Answer {
    Answer::Edit { input: Arc::new(input) }
}

/// `main` sends these one after another; sending asks.
fn sender<const N: usize>(inputs: [Value; N]) -> World {
    let mut send = tool("send", Risk::Network, |input| Ok(json!(format!("sent {}", input["text"]))));
    send.meta.input = Arc::new(Schema::built_in(
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
    ));
    let mut script: Vec<_> = inputs.map(|input| calls([("send", input)])).into();
    script.push(text("done"));
    World::new().tool(send).worker(worker_with_tools("main"), script)
}

#[test]
fn the_operator_is_asked_with_all_there_is_to_know() {
    let ran = sender([json!({"text": "hi"})]).asking([APPROVE]).run(json!({}));
    let ask = &ran.asks[0];
    assert_eq!((ask.call.as_str(), &*ask.function, ask.risk), ("0/0.0", "send", Risk::Network));
    assert_eq!((ask.chain.as_slice(), &*ask.input), (&["main".into()][..], &json!({"text": "hi"})));
    assert_eq!(ask.rule, DecidedBy::Default(Risk::Network));
    assert_eq!(ran.results(), [("sent \"hi\"".to_owned(), false)]);
}

#[test]
fn the_verdict_is_recorded_before_the_deed_and_says_who_decided() {
    let ran = sender([json!({"text": "hi"})]).asking([APPROVE]).run(json!({}));
    let kinds: Vec<&str> = ran
        .records
        .iter()
        .filter(|record| record.path.as_str() == "0/0.0")
        .map(|record| match &record.body {
            RecordKind::CallStarted { .. } => "started",
            RecordKind::Asked(_) => "asked",
            RecordKind::Answered(_) => "answered",
            RecordKind::Verdict {
                rule: Rule::PreApproved, by: DecidedBy::Operator { by, via, .. }, ..
            } if **by == *"operator" && **via == *"test" => "approved",
            RecordKind::ToolStarted { .. } => "began",
            RecordKind::ToolEnded { .. } => "ended",
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(kinds, ["started", "asked", "answered", "approved", "began", "ended"]);
}

#[test]
fn the_model_is_told_why_it_was_refused() {
    let reason = Answer::Deny { reason: Some("use the other list".into()), remember: false };
    let ran = sender([json!({"text": "hi"})]).asking([reason]).run(json!({}));
    assert_eq!(ran.error(), "The operator refused `send`: use the other list");
    assert_eq!(ran.made(), []);
    let recorded = ran.records.iter().any(|record| match &record.body {
        RecordKind::Verdict { rule: Rule::Blocked, reason, .. } => {
            reason.as_deref() == Some("use the other list")
        }
        _ => false,
    });
    assert!(recorded);
}

#[test]
fn what_is_not_remembered_is_asked_again() {
    let same = || json!({"text": "hi"});
    let ran = sender([same(), same()]).asking([APPROVE, deny()]).run(json!({}));
    assert_eq!(ran.asks.len(), 2);
    assert_eq!(ran.made().len(), 1);
}

#[test]
fn a_remembered_answer_holds_for_the_same_call_of_every_worker_in_the_chain() {
    for (answer, made) in
        [(Answer::Approve { remember: true }, 2), (Answer::Deny { reason: None, remember: true }, 0)]
    {
        let mut main = worker_with_tools("main");
        main.allow_workers = vec!["child".into()];
        let sending = |text: &str| calls([("send", serde_json::from_str(text).unwrap())]);
        let ran = World::new()
            .tool(tool("send", Risk::Network, |_| Ok(json!("sent"))))
            .worker(worker_with_tools("child"), vec![sending(r#"{"a": 1, "b": 2}"#), text("ok")])
            .worker(
                main,
                vec![
                    calls([("child", json!({}))]),
                    sending(r#"{"b": 2, "a": 1}"#),
                    sending(r#"{"a": 2}"#),
                    text("done"),
                ],
            )
            .asking([answer, deny()])
            .run(json!({}));
        assert_eq!(ran.asks.len(), 2, "key order doesn't matter, arguments do");
        assert_eq!(ran.made().len(), made);
    }
}

#[test]
fn a_question_that_waits_for_its_turn_is_not_put_when_its_answer_is_remembered_by_then() {
    let remembered = [
        (Answer::Approve { remember: true }, Rule::PreApproved, 4),
        (Answer::Deny { reason: Some("no".into()), remember: true }, Rule::Blocked, 1),
    ];
    for (answer, rule, made) in remembered {
        let send = |text: &str| ("send", json!({ "text": text }));
        let ran = World::new()
            .tool(tool("send", Risk::Network, |_| Ok(json!("sent"))))
            .worker(
                worker_with_tools("main"),
                vec![calls([send("hi"), send("hi"), send("bye"), send("hi")]), text("done")],
            )
            .asking([answer.clone(), Answer::Approve { remember: false }])
            .run(json!({}));
        let asked: Vec<&str> = ran.asks.iter().map(|ask| ask.call.as_str()).collect();
        assert_eq!(asked, ["0/0.0", "0/0.2"]);
        assert_eq!(ran.made().len(), made);
        let by = |call: &str| ran.verdicts().into_iter().find(|(path, ..)| path == call).unwrap();
        assert_eq!(by("0/0.0"), ("0/0.0".into(), rule, "operator".into()));
        for call in ["0/0.1", "0/0.3"] {
            assert_eq!(by(call), (call.into(), rule, "operator, remembered".into()));
        }
        // All four questions are on record, each with its answer and through what it came.
        let kinds = |kind: fn(&RecordKind) -> bool| ran.records.iter().filter(|it| kind(&it.body)).count();
        assert_eq!(kinds(|body| matches!(body, RecordKind::Asked(_))), 4);
        assert_eq!(kinds(|body| matches!(body, RecordKind::Answered(given) if &*given.via == "test")), 2);
        assert_eq!(kinds(|body| matches!(body, RecordKind::Answered(given) if given.is_remembered())), 2);
    }
}

#[test]
fn paths_are_remembered_by_the_real_place() {
    let mut main = worker("main");
    main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    let writing = |path: &str| calls([("write_file", json!({"path": path, "content": "x"}))]);
    let ran = World::new()
        .worker(
            main,
            vec![writing("a.txt"), writing("/a.txt"), writing("./a.txt"), writing("b.txt"), text("done")],
        )
        .asking([Answer::Approve { remember: true }, deny()])
        .run(json!({}));
    assert_eq!(ran.asks.len(), 2);
    assert_eq!((ran.read("a.txt").as_deref(), ran.read("b.txt")), (Some("x"), None));
}

#[test]
fn edited_arguments_pass_every_step_again_but_the_asking() {
    let ran = sender([json!({"text": "hi"})]).asking([edit(json!({"text": "hello"}))]).run(json!({}));
    assert_eq!(ran.results(), [("sent \"hello\"".to_owned(), false)]);
    assert_eq!(ran.asks.len(), 1);

    let ran = sender([json!({"text": "hi"})]).asking([edit(json!({"text": 5}))]).run(json!({}));
    assert!(ran.error().contains("don't fit its schema"), "{}", ran.error());
    assert_eq!(ran.made(), []);

    let mut world = sender([json!({"text": "hi"})]).asking([edit(json!({"text": "bomb"}))]);
    world.gate.operator = vec![rule("send(*bomb*)", Rule::Blocked)];
    let ran = world.run(json!({}));
    assert!(ran.error().contains("is blocked"), "{}", ran.error());
    assert_eq!(ran.made(), []);
}

#[test]
fn an_edited_path_is_located_again() {
    let mut main = worker("main");
    main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    let writing = || vec![calls([("write_file", json!({"path": "a.txt", "content": "x"}))]), text("done")];
    let to = |path: &str| [edit(json!({"path": path, "content": "y"}))];
    let ran = World::new().worker(main, writing()).asking(to("b.txt")).run(json!({}));
    assert_eq!((ran.read("a.txt"), ran.read("b.txt").as_deref()), (None, Some("y")));

    let mut main = worker("main");
    main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    let ran = World::new().worker(main, writing()).asking(to("main.worker")).run(json!({}));
    assert!(ran.error().contains("read-only"), "{}", ran.error());
}

#[test]
fn nobody_to_ask_means_refused_and_not_offered() {
    let mut world = sender([]).tool(tool("look", Risk::Read, |_| Ok(json!(null))));
    world.gate.mode = Mode::AutoDeny;
    let ran = world.run(json!({}));
    assert_eq!(ran.first("main").tools, ["look"]);

    // Some arguments could pass, so the tool is offered; the others are refused.
    let mut world = sender([json!({"text": "ok"}), json!({"text": "no"})]);
    world.gate = Gate {
        mode: Mode::AutoDeny,
        operator: vec![rule("send where text = ok", Rule::PreApproved)],
        ..Gate::default()
    };
    let ran = world.run(json!({}));
    assert_eq!(ran.first("main").tools, ["send"]);
    assert!(
        ran.error().contains("needs an approval, and this run has no operator to ask"),
        "{}",
        ran.error()
    );
    assert_eq!(ran.made().len(), 1);
}

#[test]
fn a_tool_that_is_always_blocked_is_not_offered_in_any_mode() {
    let mut world = sender([]);
    world.gate.operator = vec![rule("send", Rule::Blocked)];
    assert!(world.run(json!({})).first("main").tools.is_empty());
}

#[test]
fn a_callers_block_holds_below_it_and_its_approval_does_not() {
    let below = |lines: Vec<llm_do_core::gate::RuleLine>, answers: Vec<Answer>| {
        let mut main = worker("main");
        main.allow_workers = vec!["child".into()];
        main.rules = lines.into();
        World::new()
            .tool(tool("send", Risk::Network, |_| Ok(json!("sent"))))
            .worker(worker_with_tools("child"), vec![calls([("send", json!({"to": "x"}))]), text("ok")])
            .worker(main, vec![calls([("child", json!({}))]), text("done")])
            .asking(answers)
            .run(json!({}))
    };
    let ran = below(vec![rule("send(*x*)", Rule::Blocked)], vec![]);
    let (told, is_error) = &ran.results_of("child")[0];
    assert!(*is_error && told.contains("rule send(*x*) (a caller's rule)"), "{told}");

    let ran = below(vec![rule("send", Rule::PreApproved)], vec![APPROVE]);
    assert_eq!(ran.asks.len(), 1);
}

#[test]
fn a_workers_own_rules_loosen_only_what_stays_in_its_declared_mounts() {
    let writer = |declared: bool| {
        let mut main = worker("main");
        main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
        main.rules = [rule("write_file", Rule::PreApproved)].into();
        if declared {
            main.sandbox.narrowing.declared = true;
            main.sandbox.narrowing.mounts =
                vec![Mount { origin: Origin::Declared, ..mount("/out", "out", Access::Write) }];
        }
        let write = calls([("write_file", json!({"path": "/out/a.txt", "content": "x"}))]);
        World::new().worker(main, vec![write, text("done")])
    };
    assert_eq!(writer(true).asking([]).run(json!({})).read("out/a.txt").as_deref(), Some("x"));
    let ran = writer(false).asking([deny()]).run(json!({}));
    assert_eq!((ran.asks.len(), ran.read("out/a.txt")), (1, None));
}

#[test]
fn a_mounts_rule_tightens_what_others_allow() {
    let mut main = worker("main");
    main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    main.sandbox.narrowing.declared = true;
    let mut out = mount("/out", "out", Access::Write);
    out.approvals.write = Some(Rule::Ask);
    out.approvals.delete = Some(Rule::Blocked);
    // Without a mount in which a file may be deleted, the model would not be shown the tool.
    main.sandbox.narrowing.mounts = vec![out, mount("/scratch", "scratch", Access::Write)];
    let mut world = World::new()
        .file("out/old.txt", "old")
        .worker(
            main,
            vec![
                calls([
                    ("write_file", json!({"path": "/out/a.txt", "content": "x"})),
                    ("delete_file", json!({"path": "/out/old.txt"})),
                ]),
                text("done"),
            ],
        )
        .asking([APPROVE]);
    world.gate.operator = vec![rule("*_file", Rule::PreApproved)];
    let ran = world.run(json!({}));
    assert_eq!(ran.asks[0].rule, DecidedBy::Mount { at: "/out".into() });
    assert_eq!(ran.read("out/a.txt").as_deref(), Some("x"));
    assert!(ran.results()[1].0.contains("is blocked"), "{:?}", ran.results());
    assert_eq!(ran.read("out/old.txt").as_deref(), Some("old"));
}

#[test]
fn deferring_suspends_the_run_after_what_needs_no_approval() {
    let mut main = worker_with_tools("main");
    main.allow_workers = vec!["child".into()];
    let mut world = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .tool(tool("write", Risk::Write, |_| panic!("it is not run")))
        .tool(tool("late", Risk::Exec, |_| panic!("it is not run")))
        .worker(
            worker_with_tools("child"),
            vec![calls([
                ("look", json!({})),
                ("write", json!({"a": 1})),
                ("late", json!({})),
                ("look", json!({"late": 1})),
            ])],
        )
        .worker(main, vec![calls([("child", json!({}))])]);
    world.gate.mode = Mode::Defer;
    let ran = world.asking_in_vain().run(json!({}));
    let End::Suspended(waiting) = &ran.outcome.end else { panic!("it is suspended: {:?}", ran.outcome.end) };
    let waiting: Vec<(String, &str)> = waiting
        .iter()
        .map(|waiting| match &waiting.question {
            Question::Approval(approval) => (waiting.id.to_string(), &*approval.function),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(waiting, [("0/0.0/0.1:ask".to_owned(), "write")]);
    assert_eq!(ran.made(), [("0/0.0/0.0".to_owned(), "look".to_owned())]);
    let suspended: Vec<&str> = ran
        .records
        .iter()
        .filter(|record| matches!(record.body, RecordKind::CallEnded { ending: Ending::Suspended, .. }))
        .map(|record| record.path.as_str())
        .collect();
    assert_eq!(suspended, ["0/0.0/0.1", "0/0.0", "0"]);
}

#[test]
fn an_operator_who_cannot_answer_now_suspends_the_run() {
    let mut world = sender([json!({"text": "hi"})]).asking_in_vain();
    world.gate.mode = Mode::Interactive;
    let ran = world.run(json!({}));
    assert!(matches!(&ran.outcome.end, End::Suspended(asks) if asks.len() == 1));
}

#[test]
fn the_entry_itself_can_be_refused() {
    let mut world = World::new().worker(worker("main"), vec![]);
    world.gate.operator = vec![rule("main", Rule::Blocked)];
    assert_eq!(world.run(json!({})).failure().kind, FailureKind::Blocked);
}

#[test]
fn approving_everything_is_recorded_as_the_modes_word() {
    let ran = sender([json!({"text": "hi"})]).run(json!({}));
    let verdict = ran.verdicts().into_iter().find(|(path, ..)| path == "0/0.0").unwrap();
    assert_eq!((verdict.1, verdict.2.as_str()), (Rule::PreApproved, "mode approve_all"));
}

/// A program whose rule takes a set from a tool: `main` sends to `DE1` and to `DE2`.
fn payees(risk: Risk, result: Value) -> World {
    let list = tool("list_payees", risk, move |_| Ok(result.clone()));
    let mut world = sender([json!({"text": "DE1"}), json!({"text": "DE2"})]).tool(list);
    world.gate = Gate {
        mode: Mode::AutoDeny,
        operator: vec![rule(
            "send where text in {\"tool\":\"list_payees\",\"at\":\"/*/iban\"}",
            Rule::PreApproved,
        )],
        ..Gate::default()
    };
    world
}

#[test]
fn a_set_from_a_tool_is_read_once_before_the_first_request() {
    let ran = payees(Risk::Read, json!([{"iban": "DE1"}, {"iban": "DE3"}])).run(json!({}));
    let made = ran.made();
    let made: Vec<(&str, &str)> = made.iter().map(|(path, name)| (path.as_str(), name.as_str())).collect();
    assert_eq!(made, [("0/set.0", "list_payees"), ("0/0.0", "send")]);
    assert!(ran.error().contains("needs an approval"), "{}", ran.error());
    let at = |wanted: &dyn Fn(&RecordKind) -> bool| {
        ran.records.iter().position(|record| wanted(&record.body)).unwrap()
    };
    let read = ran.records.iter().position(|record| record.path.as_str() == "0/set.0").unwrap();
    assert!(read < at(&|body| matches!(body, RecordKind::ModelRequested { .. })));
    let calls = ran.records.iter().filter(|record| record.path.as_str() == "0/set.0");
    assert_eq!(calls.filter(|record| matches!(record.body, RecordKind::CallStarted { .. })).count(), 1);
}

#[test]
fn a_set_that_no_reading_tool_returns_allows_nothing() {
    for (risk, result) in
        [(Risk::Write, json!([{"iban": "DE1"}])), (Risk::Read, json!("none")), (Risk::Read, json!([]))]
    {
        let ran = payees(risk, result).run(json!({}));
        assert!(ran.made().iter().all(|(_, name)| name != "send"), "{:?}", ran.made());
    }
}

#[test]
fn a_function_with_the_name_of_a_built_in_tool_is_refused() {
    let impostor = tool("read_file", Risk::Read, |_| Ok(json!("mine")));
    let mut main = worker_with_tools("main");
    main.toolsets.push(("filesystem".into(), Arc::new(json!({}))));
    let ran = World::new().tool(impostor).worker(main, vec![text("done")]).run(json!({}));
    let End::Failed(failure) = &ran.outcome.end else { panic!("it ran") };
    assert!(failure.message.contains("is the name of a tool of `filesystem`"), "{}", failure.message);
}

#[test]
fn a_worker_without_file_tools_may_have_functions_of_their_names() {
    for (source, allowed) in [(FunctionSource::Program, true), (FunctionSource::Library("kit".into()), false)]
    {
        let impostor = tool("delete_file", Risk::Read, |_| Ok(json!("mine")));
        let mut main = worker("main");
        main.toolsets = vec![("test".into(), Arc::new(json!({})))];
        main.source = source;
        let script = vec![calls([("delete_file", json!({}))]), text("done")];
        let ran = World::new().tool(impostor).worker(main, script).run(json!({}));
        assert_eq!(matches!(ran.outcome.end, End::Done(_)), allowed, "{:?}", ran.outcome.end);
    }
}
