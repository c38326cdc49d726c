//! Post-conditions: what must hold of an output beyond its schema.

use crate::world::{Ran, Script, World, calls, rule, text, tool, worker, worker_with_tools};
use llm_do_core::{
    conversation::{Ensure, FINAL_TOOL},
    engine::FailureKind,
    function::{Function, Risk},
    gate::Rule,
    journal::RecordKind,
    model::{Part, Role},
    question::Answer,
    schema::Schema,
};
use serde_json::{Value, json};
use std::sync::Arc;

fn title(said: &str) -> Value {
    json!({"title": said})
}

fn world(native: bool, script: Script) -> World {
    let mut main = worker("main");
    let schema =
        json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    main.returns = Some(Arc::new(Schema::new(schema).unwrap()));
    main.ensures = Arc::new([
        Ensure::new("output.title | length < 10", Some("a short title")).unwrap(),
        Ensure::new("input in output.title", None).unwrap(),
    ]);
    let mut world = World::new().worker(main, script);
    world.capabilities.native_schema = native;
    world
}

/// The last message to the model.
fn told(ran: &Ran) -> String {
    let last = ran.seen.last().unwrap().messages.last().unwrap();
    assert!(matches!(last.role, Role::User | Role::Tool));
    let parts = last.parts.iter().map(|part| match part {
        Part::Result(result) => result.content.to_string(),
        part => part.as_text().unwrap_or_default().to_owned(),
    });
    parts.collect()
}

fn run(native: bool, answers: &[Value]) -> Ran {
    let script = answers.iter().map(|answer| match native {
        true => text(&answer.to_string()),
        false => calls([(FINAL_TOOL, answer.clone())]),
    });
    world(native, script.collect()).run(json!({"input": "bee"}))
}

#[test]
fn an_output_that_meets_them_is_taken() {
    for native in [true, false] {
        let ran = run(native, &[title("a bee")]);
        assert_eq!(ran.output(), &title("a bee"));
        assert_eq!(ran.seen.len(), 1);
    }
}

#[test]
fn the_model_hears_which_does_not_hold_and_can_mend_it() {
    for native in [true, false] {
        let ran = run(native, &[title("a very long title of a bee"), title("ant"), title("a bee")]);
        assert_eq!(ran.output(), &title("a bee"));
        let expected = "Your answer doesn't meet what is required of it:\n- `input in output.title` does not hold\nAnswer again.";
        assert_eq!(told(&ran), expected);
        let answered =
            ran.records.iter().filter(|record| matches!(record.body, RecordKind::ModelAnswered { .. }));
        assert_eq!(answered.count(), 3, "every attempt is in the journal");
    }
}

#[test]
fn used_up_attempts_fail_in_their_own_way_with_the_last_answer() {
    for native in [true, false] {
        let ran = run(native, &[json!({"titel": 1}), title("ant"), title("much too long for a bee")]);
        let failure = ran.failure();
        assert_eq!(failure.kind, FailureKind::Postcondition);
        assert!(
            failure.message.contains("- a short title (`output.title | length < 10` does not hold)"),
            "{failure}"
        );
        assert!(failure.message.starts_with("no output met the conditions after 3 attempts."), "{failure}");
        assert_eq!(failure.partial.as_deref(), Some(&title("much too long for a bee")));
    }
    let ran = run(true, &[title("ant"), title("ant"), json!({})]);
    assert_eq!(ran.failure().kind, FailureKind::InvalidOutput, "the last attempt says how it failed");
}

#[test]
fn plain_text_has_conditions_too() {
    let mut main = worker("main");
    main.ensures = Arc::new([Ensure::new("'TODO' not in output", None).unwrap()]);
    let ran = World::new().worker(main, vec![text("TODO"), text("done")]).run(json!({}));
    assert_eq!(ran.output(), &json!("done"));
}

/// Runs `main`, whose output the tool `judge` looks at.
fn judged(native: bool, judge: Function, answers: &[&str]) -> Ran {
    judged_in(World::new(), native, judge, answers)
}

fn judged_in(world: World, native: bool, judge: Function, answers: &[&str]) -> Ran {
    let mut main = worker_with_tools("main");
    let schema =
        json!({"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]});
    main.returns = Some(Arc::new(Schema::new(schema).unwrap()));
    main.ensures = Arc::new([
        Ensure::new("judge", None).unwrap(),
        Ensure::new("output.title | length < 10", Some("a short title")).unwrap(),
    ]);
    let script = answers.iter().map(|answer| match native {
        true => text(&title(answer).to_string()),
        false => calls([(FINAL_TOOL, title(answer))]),
    });
    let mut world = world.worker(main, script.collect()).tool(judge);
    world.capabilities.native_schema = native;
    world.run(json!({"input": "bee"}))
}

/// Finds fault with titles that say nothing of a bee.
fn wants_a_bee(said: fn(bool) -> Result<Value, String>) -> Function {
    tool("judge", Risk::Read, move |arguments| {
        said(arguments["output"]["title"].as_str().is_some_and(|title| title.contains("bee")))
    })
}

#[test]
fn a_tool_is_called_with_the_output_and_what_it_says_goes_back_to_the_model() {
    let ways: [fn(bool) -> Result<Value, String>; 6] = [
        |good| Ok(if good { json!(true) } else { json!("no bee in it") }),
        |good| Ok(if good { json!(null) } else { json!(["no bee in it"]) }),
        |good| Ok(if good { json!(" OK\n") } else { json!({"ok": false, "reason": "no bee in it"}) }),
        |good| Ok(if good { json!([]) } else { json!({"ok": false, "problem": "no bee in it"}) }),
        |good| Ok(if good { json!({"ok": true, "reason": "x"}) } else { json!("no bee in it ") }),
        |good| if good { Ok(json!("")) } else { Err("no bee in it".to_owned()) },
    ];
    for way in ways {
        for native in [true, false] {
            let ran = judged(native, wants_a_bee(way), &["ant", "a bee"]);
            assert_eq!(ran.output(), &title("a bee"));
            let expected =
                "Your answer doesn't meet what is required of it:\n- `judge`: no bee in it\nAnswer again.";
            assert_eq!(told(&ran), expected);
        }
    }
}

#[test]
fn a_tool_is_not_troubled_with_an_output_that_an_expression_refuses() {
    let ran = judged(true, wants_a_bee(|good| Ok(json!(good))), &["much too long for a bee", "a bee"]);
    let asked = ran.records.iter().filter(|record| matches!(record.body, RecordKind::CallStarted { .. }));
    assert_eq!(asked.count(), 2, "the worker and one look at the short title");
    assert_eq!(ran.output(), &title("a bee"));
}

#[test]
fn outputs_that_a_tool_refuses_are_used_up_like_others() {
    for native in [true, false] {
        let ran = judged(native, wants_a_bee(|good| Ok(json!(good))), &["ant", "wasp", "fly", "bee"]);
        let failure = ran.failure();
        assert_eq!(failure.kind, FailureKind::Postcondition);
        assert!(failure.message.starts_with("no output met the conditions after 3 attempts."), "{failure}");
        assert!(failure.message.contains("- `judge`: no\n"), "{failure}");
        assert_eq!(failure.partial.as_deref(), Some(&title("fly")));
    }
}

#[test]
fn nothing_is_returned_where_a_tool_cannot_tell() {
    let ran = judged(true, wants_a_bee(|_| Ok(json!(7))), &["a bee"]);
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.failure().message.contains("`judge` of `ensures` answered 7"), "{}", ran.failure());
    assert_eq!(ran.failure().partial.as_deref(), Some(&title("a bee")));
}

#[test]
fn a_tool_of_ensures_passes_the_gate_like_any_other() {
    let denied = || Answer::Deny { reason: Some("not now".into()), remember: false };
    let mut world = World::new().asking([denied()]);
    world.gate.operator.push(rule("judge", Rule::Ask));
    let ran = judged_in(world, true, wants_a_bee(|good| Ok(json!(good))), &["a bee"]);
    assert_eq!(ran.asks.len(), 1);
    assert_eq!(ran.failure().kind, FailureKind::Denied);
    assert!(ran.failure().message.contains("could not look at the output"), "{}", ran.failure());
}

#[test]
fn a_tool_that_does_not_exist_or_wants_more_is_told_before_any_request() {
    let ran = judged(true, tool("other", Risk::Read, |_| Ok(json!(true))), &["a bee"]);
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.failure().message.contains("`judge`, which is not a tool that it may call; it has: other"));
    let mut greedy = wants_a_bee(|good| Ok(json!(good)));
    let schema = json!({"type": "object", "properties": {"output": {}, "size": {}}, "required": ["size"]});
    greedy.meta.input = Arc::new(Schema::new(schema).unwrap());
    let ran = judged(true, greedy, &["a bee"]);
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.failure().message.contains("also requires `size`"), "{}", ran.failure());
    assert!(ran.seen.is_empty());
}

#[test]
fn the_output_goes_to_the_parameter_that_can_take_it() {
    let cases = [
        (
            json!({"output": {}, "input": {}}),
            json!(["output"]),
            json!({"output": title("a bee"), "input": "bee"}),
        ),
        (json!({"report": {}, "depth": {}}), json!(["report"]), json!({"report": title("a bee")})),
        (json!({"text": {"type": "string"}}), json!([]), json!({"text": title("a bee").to_string()})),
        (json!({"input": {}, "instructions": {}}), json!([]), json!({"input": title("a bee")})),
    ];
    for (properties, required, expected) in cases {
        let mut judge = tool("judge", Risk::Read, move |given| {
            if *given == expected { Ok(json!(true)) } else { Err(format!("{given}")) }
        });
        let schema = json!({"type": "object", "properties": properties, "required": required});
        judge.meta.input = Arc::new(Schema::new(schema).unwrap());
        assert_eq!(judged(true, judge, &["a bee"]).output(), &title("a bee"));
    }
}

#[test]
fn a_worker_can_look_at_the_output_of_another() {
    let mut main = worker("main");
    main.allow_workers = vec!["critic".into()];
    main.ensures = Arc::new([Ensure::new("critic", None).unwrap()]);
    let mut critic = worker("critic");
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    critic.returns = Some(Arc::new(Schema::new(schema).unwrap()));
    let world = World::new()
        .worker(main, vec![text("an ant"), text("a bee")])
        .worker(critic, vec![calls([(FINAL_TOOL, json!({"ok": true}))])]);
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!("an ant"));
    assert!(ran.records.iter().any(|record| record.path.as_str() == "0/ensures.0.0"));
}
