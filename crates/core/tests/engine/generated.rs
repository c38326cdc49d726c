//! Workers that a worker makes (`docs/reference/worker-files.md`): they never hold more than their creator.

use crate::world::{Ran, World, calls, mount, rule, text, worker, worker_with_tools};
use llm_do_core::{
    authority::{Access, Narrowing},
    engine::FailureKind,
    gate::{Mode, Rule},
    journal::RecordKind,
    model::ModelResponse,
    question::Answer,
    worker::WorkerDefinition,
};
use serde_json::{Value, json};
use std::sync::Arc;

/// A worker that may make others.
fn creator(toolsets: &[(&str, Value)]) -> WorkerDefinition {
    let mut main = worker("main");
    main.toolsets = vec![("workers".into(), Arc::new(json!({"dynamic": true})))];
    main.toolsets.extend(toolsets.iter().map(|(name, own)| ((*name).into(), Arc::new(own.clone()))));
    main
}

fn create(more: Value) -> Value {
    let mut arguments = json!({"name": "made", "instructions": "Work on {{ input }}."});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    arguments
}

fn ask(input: &str) -> Value {
    json!({"worker": "made", "input_data": input})
}

type Said = Result<ModelResponse, llm_do_core::model::ModelError>;

/// `main` makes a worker and calls it; what the made one's model says.
fn made(main: WorkerDefinition, more: Value, says: Vec<Said>, prepare: impl FnOnce(World) -> World) -> Ran {
    let script =
        vec![calls([("worker_create", create(more))]), calls([("worker_call", ask("bees"))]), text("done")];
    prepare(World::new().worker(main, script).script("made", says)).run(json!({}))
}

#[test]
fn a_worker_that_was_made_is_called_like_any_other() {
    let ran = made(creator(&[]), json!({"description": "Looks."}), vec![text("It flies.")], |world| world);
    assert_eq!(ran.results(), [("It flies.".to_owned(), false)]);
    let request = ran.first("made");
    assert_eq!((request.system.as_str(), request.messages[0].text()), ("", "Work on bees.".to_owned()));
    let definition = ran.records.iter().find_map(|record| match &record.body {
        RecordKind::Definition(used) if &*used.worker == "made" => Some(used.text.to_string()),
        _ => None,
    });
    let expected = "---\nname: made\ndescription: \"Looks.\"\n---\nWork on {{ input }}.";
    assert_eq!(definition.as_deref(), Some(expected), "the journal has what was made");
}

#[test]
fn making_one_is_always_asked_about() {
    let mut main = creator(&[]);
    main.rules = Arc::new([rule("worker_create", Rule::PreApproved)]);
    let denied = || Answer::Deny { reason: Some("no".into()), remember: false };
    let ran = made(main, json!({}), vec![], |world| {
        let mut world = world.asking([denied()]);
        world.gate.operator.push(rule("worker_create", Rule::PreApproved));
        world
    });
    assert_eq!(ran.asks.len(), 1);
    assert_eq!(ran.asks[0].input["instructions"], "Work on {{ input }}.", "the operator reads them");
    assert!(ran.error().contains("`made` is not among the workers you may call"), "{}", ran.error());
    let mut silent = World::new().worker(creator(&[]), vec![text("done")]);
    silent.gate.mode = Mode::AutoDeny;
    let offered = silent.run(json!({})).first("main").tools.clone();
    assert_eq!(offered, Vec::<String>::new(), "none can be made, so none can be called");
}

#[test]
fn it_gets_its_creators_tools_as_they_are_configured_and_no_others() {
    let toolsets = [("filesystem", json!({"tools": ["read_file"]})), ("test", json!({}))];
    let ran = made(creator(&toolsets), json!({"toolsets": ["filesystem"]}), vec![text("x")], |world| world);
    assert_eq!(ran.first("made").tools, ["read_file"]);
    let ran = made(creator(&toolsets), json!({}), vec![text("x")], |world| world);
    assert!(ran.first("made").tools.is_empty());
    for wanted in ["workers", "shell", "custom"] {
        let ran = made(creator(&toolsets), json!({"toolsets": [wanted]}), vec![], |world| world);
        assert_eq!(ran.seen.iter().filter(|seen| seen.worker == "made").count(), 0, "{wanted}");
    }
}

#[test]
fn it_sees_what_its_creator_sees() {
    let mut main = creator(&[("filesystem", json!({}))]);
    main.sandbox.narrowing = Narrowing {
        mounts: vec![mount("/notes", "notes", Access::Read)],
        declared: true,
        ..Narrowing::default()
    };
    let deeds = vec![
        calls([
            ("read_file", json!({"path": "/notes/a.txt"})),
            ("read_file", json!({"path": "/secret.txt"})),
            ("write_file", json!({"path": "/notes/b.txt", "content": "x"})),
        ]),
        text("tried"),
    ];
    let ran = made(main, json!({"toolsets": ["filesystem"]}), deeds, |world| {
        world.file("notes/a.txt", "noted").file("secret.txt", "secret")
    });
    let results = ran.results_of("made");
    assert_eq!(results[0], ("noted".to_owned(), false));
    assert!(results[1].1 && results[2].1, "{results:?}");
    assert_eq!(ran.read("notes/b.txt"), None);
}

#[test]
fn what_is_blocked_for_its_creator_is_blocked_for_it() {
    let mut main = creator(&[("filesystem", json!({}))]);
    main.rules = Arc::new([rule("read_file", Rule::Blocked)]);
    let deeds = vec![calls([("read_file", json!({"path": "/a.txt"}))]), text("tried")];
    let ran =
        made(main, json!({"toolsets": ["filesystem"]}), deeds, |world| world.file("a.txt", "not to be read"));
    assert!(ran.results_of("made")[0].1, "{:?}", ran.results_of("made"));
}

#[test]
fn what_its_creators_rules_allow_is_asked_about_again() {
    let mut main = creator(&[("filesystem", json!({"approval": {"default": "preApproved"}}))]);
    main.rules = Arc::new([rule("write_file", Rule::PreApproved)]);
    let deeds = vec![calls([("write_file", json!({"path": "/a.txt", "content": "x"}))]), text("tried")];
    let yes = Answer::Approve { remember: false };
    let no = Answer::Deny { reason: None, remember: false };
    let ran = made(main, json!({"toolsets": ["filesystem"]}), deeds, |world| world.asking([yes, no]));
    let asked: Vec<&str> = ran.asks.iter().map(|ask| &*ask.function).collect();
    assert_eq!(asked, ["worker_create", "write_file"]);
    assert_eq!(ran.read("a.txt"), None);
}

#[test]
fn nobody_but_its_creator_can_call_it() {
    let mut main = creator(&[]);
    main.allow_workers = vec!["child".into()];
    let mut child = creator(&[]);
    child.id = "child".into();
    let script = vec![
        calls([("worker_create", create(json!({})))]),
        calls([("child", json!({"input": "x"}))]),
        calls([("worker_call", ask("x"))]),
        text("done"),
    ];
    let world = World::new()
        .worker(main, script)
        .worker(child, vec![calls([("worker_call", ask("x"))]), text("tried")])
        .script("made", vec![text("made it")]);
    let ran = world.run(json!({}));
    assert!(ran.results_of("child")[0].0.contains("is not among the workers you may call"));
    assert_eq!(ran.results(), [("made it".to_owned(), false)]);
}

#[test]
fn a_name_that_is_taken_and_one_that_is_a_path_are_refused() {
    for name in ["main", "../x", "a/b", "lib:x", "A", "", "worker_call\u{0}", "x y"] {
        let mut arguments = create(json!({}));
        arguments["name"] = name.into();
        let script = vec![calls([("worker_create", arguments)]), text("done")];
        let ran = World::new().worker(creator(&[]), script).run(json!({}));
        assert!(ran.results()[0].1, "{name}");
        assert!(ran.asks.is_empty());
    }
    let twice = vec![
        calls([("worker_create", create(json!({}))), ("worker_create", create(json!({"description": "x"})))]),
        text("done"),
    ];
    let results = World::new().worker(creator(&[]), twice).run(json!({})).results();
    assert!(!results[0].1 && results[1].0.contains("there is a worker `made` already"), "{results:?}");
}

#[test]
fn its_instructions_read_no_file_of_the_program() {
    for evil in ["{{ file('a.txt') }}", "{% include 'a.txt' %}", "{% import 'a.txt' as a %}"] {
        let script = vec![
            calls([("worker_create", create(json!({"instructions": evil})))]),
            calls([("worker_call", ask("x"))]),
            text("done"),
        ];
        let ran = World::new().worker(creator(&[]), script).file("a.txt", "secret").run(json!({}));
        assert!(ran.results()[0].1, "{evil}: {:?}", ran.results());
        assert!(!ran.results()[0].0.contains("secret"));
    }
}

#[test]
fn its_answer_can_have_a_type() {
    let returns = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    let says = vec![calls([("final_result", json!({"ok": true}))])];
    let ran = made(creator(&[]), json!({"returns": returns}), says, |world| world);
    assert_eq!(ran.results(), [("{\"ok\":true}".to_owned(), false)]);
    let script =
        vec![calls([("worker_create", create(json!({"returns": {"type": "nonsense"}})))]), text("x")];
    let ran = World::new().worker(creator(&[]), script).run(json!({}));
    assert!(ran.error().contains("`returns` is not a usable JSON Schema"), "{}", ran.error());
}

#[test]
fn without_dynamic_no_worker_is_made() {
    let mut main = worker_with_tools("main");
    main.toolsets.push(("workers".into(), Arc::new(json!({"style": "both"}))));
    let script = vec![calls([("worker_create", create(json!({})))]), text("done")];
    let ran = World::new().worker(main, script).run(json!({}));
    assert!(ran.error().contains("There is no tool `worker_create`"), "{}", ran.error());
    let mut other = worker("main");
    other.allow_workers = vec!["*".into()];
    let script = vec![calls([("worker_call", ask("x"))]), text("done")];
    let ran = World::new().worker(other, script).run(json!({}));
    assert!(ran.results()[0].1);
    assert!(
        !matches!(ran.outcome.end, llm_do_core::engine::End::Failed(ref f) if f.kind == FailureKind::Model)
    );
}
