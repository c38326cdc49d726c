//! Post-conditions: what must hold of an output beyond its schema.

use crate::world::{Ran, Script, World, calls, text, worker};
use llm_do_core::{
    conversation::{Ensure, FINAL_TOOL},
    engine::FailureKind,
    journal::Body,
    model::{Part, Role},
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

/// What the model was told last.
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
        let answered = ran.records.iter().filter(|record| matches!(record.body, Body::ModelAnswered { .. }));
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
