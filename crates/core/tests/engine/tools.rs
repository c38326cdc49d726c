//! Tools: the results that a model receives, and how they are processed.

use crate::world::{World, calls, text, tool, worker, worker_with_tools};
use llm_do_core::{
    engine::FailureKind,
    function::{OutputSchema, Risk},
    journal::RecordKind,
    model::{Blob, Part},
    question::Answer,
    redact::Redact,
    results::SHOWN_CHARS,
    schema::Schema,
};
use serde_json::json;
use std::{borrow::Cow, sync::Arc};

#[test]
fn a_worker_calls_a_tool_and_answers() {
    let ran = World::new()
        .tool(tool("double", Risk::Read, |input| Ok(json!(input["n"].as_i64().unwrap() * 2))))
        .worker(worker_with_tools("main"), vec![calls([("double", json!({"n": 21}))]), text("It is 42.")])
        .run(json!({"input": "Double 21."}));
    assert_eq!(ran.output(), &json!("It is 42."));
    assert_eq!(ran.results(), [("42".to_owned(), false)]);
    let first = ran.first("main");
    assert_eq!((first.system.as_str(), first.messages[0].text().as_str()), ("You are main.", "Double 21."));
}

#[test]
fn input_that_breaks_the_schema_costs_no_execution() {
    let mut double = tool("double", Risk::Exec, |_| panic!("it is not run"));
    double.meta.input = Arc::new(Schema::built_in(
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}),
    ));
    let ran = World::new()
        .tool(double)
        .worker(worker_with_tools("main"), vec![calls([("double", json!({"n": "x"}))]), text("I see.")])
        .asking([])
        .run(json!({}));
    assert_eq!(
        ran.error(),
        "The arguments of `double` don't fit its schema:\n- /n: \"x\" is not of type \"integer\""
    );
    assert_eq!(ran.made(), []);
}

#[test]
fn output_that_breaks_a_declared_schema_is_the_tools_failure() {
    let mut count = tool("count", Risk::Read, |_| Ok(json!("many")));
    let schema = Arc::new(Schema::built_in(json!({"type": "integer"})));
    count.meta.output = Some(OutputSchema::Declared(schema));
    let ran = World::new()
        .tool(count)
        .worker(worker_with_tools("main"), vec![calls([("count", json!({}))]), text("I see.")])
        .run(json!({}));
    assert!(
        ran.error().starts_with(
            "`count` ran to its end, and its effects stay, but it returned something that doesn't fit its schema:"
        ),
        "{}",
        ran.error()
    );
}

#[test]
fn output_that_misses_a_derived_schema_is_handed_on_with_a_note() {
    let mut send = tool("send", Risk::Read, |_| Ok(json!("sent")));
    let schema = Arc::new(Schema::built_in(json!({"type": "integer"})));
    send.meta.output = Some(OutputSchema::Derived(schema));
    let ran = World::new()
        .tool(send)
        .worker(worker_with_tools("main"), vec![calls([("send", json!({}))]), text("It was sent.")])
        .run(json!({}));
    assert_eq!(ran.results(), [("sent".to_owned(), false)]);
    let log = ran.records.iter().find_map(|record| match &record.body {
        RecordKind::ToolEnded { log, .. } => log.clone(),
        _ => None,
    });
    let log = log.unwrap_or_default();
    assert!(log.starts_with("the result of `send` does not fit its return type:"), "{log}");
}

#[test]
fn a_tools_error_is_a_value_for_the_model() {
    let ran = World::new()
        .tool(tool("fetch", Risk::Read, |_| Err("no such page; try `index`".to_owned())))
        .worker(
            worker_with_tools("main"),
            vec![calls([("fetch", json!({}))]), text("There is no such page.")],
        )
        .run(json!({}));
    assert_eq!(ran.error(), "no such page; try `index`");
    assert_eq!(ran.output(), &json!("There is no such page."));
}

#[test]
fn structured_results_are_shown_as_json() {
    let ran = World::new()
        .tool(tool("facts", Risk::Read, |_| Ok(json!({"b": [1, null], "a": "x"}))))
        .worker(worker_with_tools("main"), vec![calls([("facts", json!({}))]), text("ok")])
        .run(json!({}));
    assert_eq!(ran.results(), [(r#"{"b":[1,null],"a":"x"}"#.to_owned(), false)]);
}

#[test]
fn a_long_result_is_cut_and_can_be_read_on() {
    let long = "é".repeat(SHOWN_CHARS + 7);
    let world = |readable: bool| {
        let long = long.clone();
        let mut main = worker_with_tools("main");
        if readable {
            main.toolsets.insert(0, ("filesystem".into(), Arc::new(json!({}))));
        }
        World::new()
            .tool(tool("dump", Risk::Read, move |input| Ok(json!(format!("{}{long}", input["n"])))))
            .worker(
                main,
                vec![
                    calls([
                        ("dump", json!({"n": 1})),
                        ("dump", json!({"n": 2})),
                        ("dump", json!({"n": 1, "again": true})),
                    ]),
                    calls([("read_file", json!({"path": "/results/2", "offset": SHOWN_CHARS}))]),
                    text("ok"),
                ],
            )
    };
    let ran = world(true).run(json!({}));
    let cut = &ran.first("main").path;
    let shown = ran.seen.iter().filter(|seen| seen.path == *cut).nth(1).unwrap().messages[2].clone();
    let [_, Part::Result(shown), Part::Result(again)] = shown.parts.as_slice() else { panic!("{shown:?}") };
    assert!(
        shown
            .content
            .ends_with(r#"[8 more characters. Read on with read_file(path="/results/2", offset=40000).]"#)
    );
    assert!(again.content.contains("/results/1"), "the same text keeps its number");
    let (rest, is_error) = &ran.results()[0];
    assert!(
        !is_error && rest.contains("ééééééé") && rest.chars().filter(|&c| c == 'é').count() == 8,
        "{rest}"
    );

    let ran = world(false).run(json!({}));
    let told = ran.seen[1].messages[2].clone();
    assert!(serde_json::to_string(&told.parts[0]).unwrap().contains("8 more characters are not shown"));
}

struct NoKeys;

impl Redact for NoKeys {
    fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.contains("hunter2") { text.replace("hunter2", "[secret]").into() } else { text.into() }
    }
}

#[test]
fn secrets_reach_neither_model_nor_record() {
    let mut world = World::new()
        .tool(tool("env", Risk::Read, |_| Ok(json!({"hunter2": ["key=hunter2"]}))))
        .tool(tool("fail", Risk::Read, |_| Err("wrong password: hunter2".to_owned())))
        .worker(
            worker_with_tools("main"),
            vec![calls([("env", json!({})), ("fail", json!({}))]), text("ok")],
        );
    world.redact = Arc::new(NoKeys);
    let ran = world.run(json!({}));
    assert_eq!(
        ran.results(),
        [
            (r#"{"[secret]":["key=[secret]"]}"#.to_owned(), false),
            ("wrong password: [secret]".to_owned(), true)
        ]
    );
    assert!(!serde_json::to_string(&ran.records).unwrap().contains("hunter2"));
}

#[test]
fn secrets_in_input_attachments_and_previews_are_replaced_too() {
    let mut main = worker("main");
    main.toolsets = vec![("filesystem".into(), Arc::new(json!({})))];
    let write = calls([("write_file", json!({"path": "notes.txt", "content": "none"}))]);
    let mut world = World::new()
        .file("notes.txt", "my password is hunter2")
        .worker(main, vec![write, text("ok")])
        .asking([Answer::Approve { remember: false }]);
    world.attachments = vec![
        Blob { name: "a.txt".into(), media_type: "text/plain".into(), data: Arc::from(&b"hunter2"[..]) }
            .into(),
    ];
    world.redact = Arc::new(NoKeys);
    let ran = world.run(json!({"input": "Log in with hunter2.", "instructions": "hunter2 is the password"}));
    let sent = ran.first("main").messages[0].text();
    assert_eq!((sent.matches("[secret]").count(), sent.contains("hunter2")), (3, false), "{sent}");
    assert!(serde_json::to_string(&*ran.asks[0]).unwrap().contains("my password is [secret]"));
}

#[test]
fn tools_can_be_left_out_and_are_offered_in_a_fixed_order() {
    let named = |name: &'static str| tool(name, Risk::Read, |_| Ok(json!(null)));
    let mut main = worker("main");
    main.toolsets = vec![("test".into(), Arc::new(json!({"tools": ["zebra", "ant"]})))];
    let ran = World::new()
        .tool(named("zebra"))
        .tool(named("bee"))
        .tool(named("ant"))
        .worker(main, vec![text("ok")])
        .run(json!({}));
    assert_eq!(ran.first("main").tools, ["ant", "zebra"]);

    let mut main = worker("main");
    main.toolsets = vec![("test".into(), Arc::new(json!({"tools": ["ants"]})))];
    let ran = World::new().tool(named("ant")).worker(main, vec![]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert_eq!(ran.failure().message, "toolset `test` of `main` has no tool `ants`; there are: ant");
}

#[test]
fn a_name_that_two_tools_share_is_refused_before_the_first_request() {
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!(null))))
        .tool(tool("look", Risk::Read, |_| Ok(json!(null))))
        .worker(worker_with_tools("main"), vec![])
        .run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
}

#[test]
fn a_schema_goes_to_models_that_keep_to_it_and_a_tool_to_the_others() {
    let returns = || Some(Arc::new(Schema::new(json!({"type": "integer"})).unwrap()));
    let mut main = worker("main");
    main.returns = returns();
    let ran = World::new().worker(main, vec![calls([("final_result", json!({"result": 3}))])]).run(json!({}));
    assert_eq!(ran.output(), &json!(3));
    assert_eq!(
        (ran.first("main").tools.as_slice(), ran.first("main").output),
        (&["final_result".to_owned()][..], false)
    );

    let mut main = worker("main");
    main.returns = returns();
    let mut world = World::new().worker(main, vec![text("3")]);
    world.capabilities.native_schema = true;
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!(3));
    assert!(ran.first("main").tools.is_empty() && ran.first("main").output);

    let mut main = worker("main");
    main.returns = returns();
    let mut world = World::new().worker(main, vec![text("The number is three."), text("3")]);
    world.capabilities.tools = false;
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!(3));
    assert!(ran.first("main").system.ends_with(r#"this schema, and nothing else: {"type":"integer"}"#));
}

#[test]
fn an_output_that_never_fits_fails_with_the_last_answer() {
    let mut main = worker("main");
    main.returns = Some(Arc::new(Schema::new(json!({"type": "integer"})).unwrap()));
    let script = ["one", "two", "three"].map(text).to_vec();
    let ran = World::new().worker(main, script).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::InvalidOutput);
    assert_eq!(ran.failure().partial.as_deref(), Some(&json!("three")));
}
