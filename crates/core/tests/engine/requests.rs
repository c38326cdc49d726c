//! Requests that fail: what is tried again, and what is recorded of it (`docs/reference/loop.md`).

use crate::world::{Script, World, calls, text, tool, worker, worker_with_tools};
use llm_do_core::{
    engine::FailureKind,
    function::Risk,
    journal::RecordKind,
    model::{FinishReason, ModelError, ModelErrorKind, ModelName, ModelResponse},
    price::Usd,
    worker::WorkerDefinition,
};
use serde_json::json;

fn fails(kind: ModelErrorKind) -> Result<ModelResponse, ModelError> {
    Err(ModelError::new(kind, "the server says no"))
}

/// Waits before retries, in milliseconds.
fn waits(script: Script) -> (Vec<u64>, Option<FailureKind>) {
    let ran = World::new().worker(worker("main"), script).run(json!({}));
    let waits = ran.records.iter().filter_map(|record| match record.body {
        RecordKind::Slept { ms } => Some(ms),
        _ => None,
    });
    let failed = match &ran.outcome.end {
        llm_do_core::engine::End::Failed(failure) => Some(failure.kind),
        _ => None,
    };
    (waits.collect(), failed)
}

#[test]
fn transient_failures_are_tried_again_with_growing_waits() {
    use ModelErrorKind as K;
    let (waits, failed) = waits(vec![
        fails(K::Server),
        fails(K::Network),
        fails(K::Timeout),
        fails(K::RateLimited),
        text("ok"),
    ]);
    assert_eq!(failed, None);
    assert_eq!(waits, [375, 750, 1_500, 3_000], "with a fixed random number");
}

#[test]
fn a_server_that_names_a_time_is_obeyed() {
    let slow = ModelError {
        retry_after_ms: Some(7_000),
        ..ModelError::new(ModelErrorKind::RateLimited, "slow down")
    };
    assert_eq!(waits(vec![Err(slow), text("ok")]), (vec![7_000], None));
}

#[test]
fn what_cannot_get_better_ends_the_call_at_once() {
    use ModelErrorKind as K;
    for kind in [K::Auth, K::NotFound, K::BadRequest, K::ContextExceeded, K::Unsupported] {
        assert_eq!(waits(vec![fails(kind)]), (vec![], Some(FailureKind::Model)), "{kind:?}");
    }
}

#[test]
fn an_answer_that_says_the_same_again_and_again_fails_and_is_not_asked_for_again() {
    let line = "- The meeting notes say that the budget is approved.\n";
    // Answers that a person has written are not checked.
    let mut main = WorkerDefinition { models: models(&["other:test"]), ..worker("main") };
    main.limits.request_retries = 3;
    let ran = World::new().worker(main.clone(), vec![text(&line.repeat(57))]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Model);
    assert!(ran.failure().message.contains("the model repeats itself"), "{}", ran.failure().message);
    let kinds = ran.records.iter().filter_map(|record| match &record.body {
        RecordKind::ModelFailed { error, .. } => Some(error.kind),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [ModelErrorKind::Repetition]);
    // A list of equal short values is an answer.
    let labels = "not relevant\n".repeat(100);
    let ran = World::new().worker(main, vec![text(&labels)]).run(json!({}));
    assert_eq!(ran.output().as_str().map(str::trim_end), Some(labels.trim_end()));
}

#[test]
fn a_model_that_stays_away_fails_the_call_with_its_last_words() {
    let mut main = worker_with_tools("main");
    main.limits.request_retries = 2;
    let mut script =
        vec![Ok(ModelResponse { parts: calls([("look", json!({}))]).unwrap().parts, ..text("").unwrap() })];
    script[0].as_mut().unwrap().parts.insert(0, llm_do_core::model::Part::text("First I look."));
    script.extend(std::iter::repeat_n(fails(ModelErrorKind::Server), 3));
    let ran =
        World::new().tool(tool("look", Risk::Read, |_| Ok(json!(1)))).worker(main, script).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Model);
    assert_eq!(ran.failure().message, "the server says no (after 3 attempts)");
    assert_eq!(ran.failure().partial.as_deref(), Some(&json!("First I look.")));
    assert_eq!(ran.made().len(), 1, "no tool is run again for a request's sake");
}

#[test]
fn every_attempt_is_recorded_under_its_own_key() {
    let script = vec![fails(ModelErrorKind::Server), text("ok")];
    let ran = World::new().worker(worker("main"), script).run(json!({}));
    let steps: Vec<(String, &str)> = ran
        .records
        .iter()
        .map(|record| {
            let kind = match record.body {
                RecordKind::ModelRequested { .. } => "requested",
                RecordKind::ModelFailed { .. } => "failed",
                RecordKind::Random { .. } => "random",
                RecordKind::Slept { .. } => "slept",
                RecordKind::ModelAnswered { .. } => "answered",
                _ => "",
            };
            (record.step.to_string(), kind)
        })
        .filter(|(_, kind)| !kind.is_empty())
        .collect();
    let steps: Vec<(&str, &str)> = steps.iter().map(|(step, kind)| (step.as_str(), *kind)).collect();
    assert_eq!(
        steps,
        [
            ("model.0.0", "requested"),
            ("model.0.0", "failed"),
            ("jitter.0.0", "random"),
            ("wait.0.0", "slept"),
            ("model.0.1", "requested"),
            ("model.0.1", "answered"),
        ]
    );
}

#[test]
fn a_childs_dead_model_is_a_value_for_its_parent() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .worker(worker("child"), vec![fails(ModelErrorKind::Auth)])
        .worker(main, vec![calls([("child", json!({}))]), text("The child has no model.")])
        .run(json!({}));
    assert_eq!(ran.error(), "the server says no");
    assert_eq!(ran.output(), &json!("The child has no model."));
}

#[test]
fn the_command_line_overrides_workers_that_are_not_locked() {
    let asked = |locked: bool| {
        let mut main = worker("main");
        main.models = models(&["script:own"]);
        main.settings.temperature = Some(0.1);
        main.settings.max_tokens = Some(50);
        main.locked = locked;
        let mut world = World::new().worker(main, vec![text("ok")]);
        world.model.forced = Some("script:other".parse().unwrap());
        world.settings_override.temperature = Some(0.9);
        let ran = world.run(json!({}));
        let first = ran.first("main");
        (first.model.clone(), first.temperature, first.max_tokens)
    };
    assert_eq!(asked(false), ("script:other".to_owned(), Some(0.9), Some(50)));
    assert_eq!(asked(true), ("script:own".to_owned(), Some(0.1), Some(50)));
}

fn models(names: &[&str]) -> Vec<ModelName> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// A worker with these models and without retries.
fn with_models(names: &[&str]) -> WorkerDefinition {
    let mut main = WorkerDefinition { models: models(names), ..worker_with_tools("main") };
    main.limits.request_retries = 0;
    main
}

#[test]
fn the_next_model_stands_in_for_one_that_is_unavailable_and_stays() {
    use ModelErrorKind as K;
    for kind in [K::Server, K::Network, K::Timeout, K::RateLimited, K::Auth, K::NotFound] {
        let script = vec![fails(kind), calls([("look", json!({}))]), text("ok")];
        let main = with_models(&["a:one", "b:two", "c:three"]);
        let ran =
            World::new().tool(tool("look", Risk::Read, |_| Ok(json!(1)))).worker(main, script).run(json!({}));
        assert_eq!(ran.output(), &json!("ok"), "{kind:?}");
        let asked: Vec<&str> = ran.seen.iter().map(|seen| seen.model.as_str()).collect();
        assert_eq!(asked, ["a:one", "b:two", "b:two"], "{kind:?}");
        let chosen = ran.records.iter().filter_map(|record| match &record.body {
            RecordKind::ModelChosen { model, .. } => Some((record.step.to_string(), model.to_string())),
            _ => None,
        });
        assert_eq!(chosen.collect::<Vec<_>>(), [("stand_in.0".to_owned(), "b:two".to_owned())]);
    }
}

#[test]
fn a_wrong_request_and_a_refusal_stay_with_their_model() {
    use ModelErrorKind as K;
    for kind in [K::BadRequest, K::ContextExceeded, K::Unsupported] {
        let ran = World::new()
            .worker(with_models(&["a:one", "b:two"]), vec![fails(kind), text("ok")])
            .run(json!({}));
        assert_eq!((ran.failure().kind, ran.seen.len()), (FailureKind::Model, 1), "{kind:?}");
    }
    let mut refused = text("I won't.").unwrap();
    refused.finish = FinishReason::Refusal;
    let ran =
        World::new().worker(with_models(&["a:one", "b:two"]), vec![Ok(refused), text("ok")]).run(json!({}));
    assert_eq!(ran.seen.len(), 1);
}

#[test]
fn without_a_model_left_the_failure_names_the_reason_of_each() {
    let script = vec![fails(ModelErrorKind::Server), fails(ModelErrorKind::Auth)];
    let ran = World::new().worker(with_models(&["a:one", "b:two"]), script).run(json!({}));
    assert_eq!(
        ran.failure().message,
        "none of the models of `main` answers: `a:one`: the server says no; `b:two`: the server says no"
    );
}

#[test]
fn a_model_without_a_price_does_not_stand_in_under_a_limit_of_cost() {
    let mut main = with_models(&["a:one", "b:two"]);
    main.limits.max_cost_usd = Usd::dollars(1.0);
    let mut world = World::new().worker(main, vec![fails(ModelErrorKind::Server), text("ok")]);
    world.terms.price = crate::limits::price();
    world.without_terms = Some("b:two".parse().unwrap());
    let ran = world.run(json!({}));
    assert!(ran.failure().message.contains("the price of `b:two` is not known"), "{}", ran.failure().message);
}

#[test]
fn a_switch_counts_as_the_same_turn() {
    let mut main = with_models(&["a:one", "b:two"]);
    main.limits.max_turns = Some(1);
    let ran = World::new().worker(main, vec![fails(ModelErrorKind::Server), text("ok")]).run(json!({}));
    assert_eq!(ran.output(), &json!("ok"));
}

#[test]
fn the_models_of_the_user_come_last_and_spare_a_locked_worker_and_a_forced_model() {
    let fails_twice = || vec![fails(ModelErrorKind::Server), fails(ModelErrorKind::Server), text("ok")];
    let asked = |main: WorkerDefinition, forced: Option<&str>| {
        let mut world = World::new().worker(main, fails_twice());
        world.model.fallback = models(&["u:own", "other:no"]);
        world.model.forced = forced.map(|name| name.parse().unwrap());
        let ran = world.run(json!({}));
        ran.seen.iter().map(|seen| seen.model.clone()).collect::<Vec<_>>()
    };
    assert_eq!(asked(with_models(&["a:one", "b:two"]), None), ["a:one", "b:two", "u:own"]);
    let locked = WorkerDefinition { locked: true, ..with_models(&["a:one", "b:two"]) };
    assert_eq!(asked(locked, None), ["a:one", "b:two"]);
    assert_eq!(asked(with_models(&["a:one", "b:two"]), Some("x:only")), ["x:only"]);
    let mut picky = with_models(&["a:one"]);
    picky.compatible_models = vec!["a:*".to_owned(), "other:*".to_owned()];
    assert_eq!(asked(picky, None), ["a:one", "other:no"], "a model that does not fit is passed over");
}
