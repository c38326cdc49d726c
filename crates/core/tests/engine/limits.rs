//! Limits: of one conversation, of a tree, and what the caller is told when one is reached.

use crate::world::{Script, World, calls, text, tool, using, worker, worker_with_tools};
use llm_do_core::{engine::FailureKind, function::Risk, journal::Body, worker::WorkerDefinition};
use serde_json::json;

fn limited(adjust: impl FnOnce(&mut WorkerDefinition), script: Script) -> World {
    let mut main = worker_with_tools("main");
    adjust(&mut main);
    World::new().tool(tool("look", Risk::Read, |_| Ok(json!("a cat")))).worker(main, script)
}

#[test]
fn turns_and_calls_end_a_run_with_what_there_was() {
    let looking = |n: u64| calls([("look", json!({"n": n}))]);
    let ran = limited(|main| main.limits.max_turns = 2, vec![looking(1), looking(2)]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert!(
        ran.records.iter().any(|record| matches!(record.body, Body::Limit { .. })),
        "the journal says so"
    );

    let ran =
        limited(|main| main.limits.max_tool_calls = Some(1), vec![looking(1), looking(2)]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.made().len(), 1, "no call is made beyond the limit");
}

#[test]
fn a_model_that_only_repeats_itself_is_stopped() {
    let script = vec![calls([("look", json!({}))]); 8];
    let ran = limited(|_| {}, script).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.made().len(), 5);
}

#[test]
fn a_child_at_its_limit_is_a_value_for_its_parent() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let mut child = worker_with_tools("child");
    child.limits.max_turns = 1;
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .worker(child, vec![calls([("look", json!({}))])])
        .worker(main, vec![calls([("child", json!({}))]), text("It gave up.")])
        .run(json!({}));
    assert_eq!(ran.error(), "`child` used all of its 1 model turns without finishing");
    assert_eq!(ran.output(), &json!("It gave up."));
}

#[test]
fn each_request_is_capped_to_what_is_left_of_the_budget() {
    let script = vec![using(calls([("look", json!({}))]), 60), using(text("done"), 30)];
    let ran = limited(|main| main.limits.max_tokens = Some(100), script).run(json!({}));
    let caps: Vec<Option<u32>> = ran.seen.iter().map(|seen| seen.max_tokens).collect();
    assert_eq!(caps, [Some(100), Some(40)]);
    assert_eq!(ran.outcome.usage.output_tokens, Some(90));
}

#[test]
fn a_used_up_budget_ends_the_run_before_another_request() {
    let ran =
        limited(|main| main.limits.max_tokens = Some(100), vec![using(calls([("look", json!({}))]), 100)])
            .run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.failure().message, "`main` and its callees used all of their 100 tokens");
}

#[test]
fn children_spend_their_callers_budget() {
    let mut main = worker("main");
    main.limits.max_tokens = Some(100);
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .worker(worker("child"), vec![using(text("long"), 70)])
        .worker(
            main,
            vec![
                using(calls([("child", json!({"input": "a"}))]), 20),
                using(calls([("child", json!({"input": "b"}))]), 10),
            ],
        )
        .run(json!({}));
    let caps: Vec<Option<u32>> = ran.seen.iter().map(|seen| seen.max_tokens).collect();
    assert_eq!(caps, [Some(100), Some(80), Some(10)]);
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.outcome.usage.output_tokens, Some(100));
}

#[test]
fn children_side_by_side_share_a_budget_without_overspending_it() {
    let mut main = worker("main");
    main.limits.max_tokens = Some(10_000);
    main.allow_workers = vec!["a".into(), "b".into(), "c".into()];
    let child = |id| {
        let mut child = worker(id);
        child.settings.max_tokens = Some(4_000);
        child
    };
    let mut world = World::new()
        .worker(child("a"), vec![using(text("A"), 10)])
        .worker(child("b"), vec![using(text("B"), 10)])
        .worker(child("c"), vec![using(text("C"), 10)])
        .worker(
            main,
            vec![
                using(calls([("a", json!({})), ("b", json!({})), ("c", json!({}))]), 500),
                using(text("done"), 1),
            ],
        );
    world.delay = |_| 3;
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!("done"));
    let caps: Vec<u32> = ran.seen[1..4].iter().filter_map(|seen| seen.max_tokens).collect();
    assert_eq!(caps, [4_000, 4_000, 1_500], "together they could not use more than is left");
}

#[test]
fn a_budget_does_not_starve_children_that_name_no_maximum() {
    let mut main = worker("main");
    main.limits.max_tokens = Some(1_000_000);
    main.allow_workers = vec!["a".into(), "b".into()];
    let mut world = World::new()
        .worker(worker("a"), vec![using(text("A"), 10)])
        .worker(worker("b"), vec![using(text("B"), 10)])
        .worker(main, vec![using(calls([("a", json!({})), ("b", json!({}))]), 10), using(text("done"), 1)]);
    world.delay = |_| 3;
    let ran = world.run(json!({}));
    assert_eq!(ran.results(), [("A".to_owned(), false), ("B".to_owned(), false)]);
    // No provider takes a million as the size of an answer.
    assert!(ran.seen.iter().all(|seen| seen.max_tokens.is_some_and(|max| max <= 10_000)));
}
