//! Limits: of one conversation, of a tree, and the caller's error when one is reached.

use crate::world::{Ran, Script, World, calls, text, tool, using, worker, worker_with_tools};
use llm_do_core::{
    engine::FailureKind,
    function::Risk,
    journal::{Record, RecordKind},
    model::{ModelError, ModelErrorKind},
    price::{Price, Usd},
    worker::WorkerDefinition,
};
use serde_json::json;

fn limited(adjust: impl FnOnce(&mut WorkerDefinition), script: Script) -> World {
    let mut main = worker_with_tools("main");
    adjust(&mut main);
    World::new().tool(tool("look", Risk::Read, |_| Ok(json!("a cat")))).worker(main, script)
}

#[test]
fn turns_and_calls_end_a_run_with_what_there_was() {
    let looking = |n: u64| calls([("look", json!({"n": n}))]);
    let ran = limited(|main| main.limits.max_turns = Some(2), vec![looking(1), looking(2)]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert!(
        ran.records.iter().any(|record| matches!(record.body, RecordKind::Limit { .. })),
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
    child.limits.max_turns = Some(1);
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .worker(child, vec![calls([("look", json!({}))])])
        .worker(main, vec![calls([("child", json!({}))]), text("It gave up.")])
        .run(json!({}));
    assert_eq!(ran.error(), "`child` used all of its 1 model turns without finishing");
    assert_eq!(ran.output(), &json!("It gave up."));
}

#[test]
fn calls_of_a_worker_and_all_below_it_share_a_limit() {
    let look = |n: u64| calls([("look", json!({"n": n}))]);
    let mut main = worker("main");
    main.limits.max_tool_calls = Some(3);
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .worker(worker_with_tools("child"), (0..9).map(look).collect())
        .worker(main, vec![calls([("child", json!({}))]), text("It gave up.")])
        .run(json!({}));
    assert_eq!(ran.made().len(), 2, "one of the three was the child's");
    assert_eq!(ran.error(), "`main` and its callees used all of their 3 tool calls");
    assert_eq!(ran.output(), &json!("It gave up."), "the caller can still answer");
}

#[test]
fn turns_that_a_worker_states_hold_for_all_below_it() {
    let look = |n: u64| calls([("look", json!({"n": n}))]);
    let tree = |turns: Option<u32>| {
        let mut main = worker("main");
        main.limits.max_turns = turns;
        main.allow_workers = vec!["child".into()];
        let child = (0..60).map(look).collect();
        World::new()
            .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
            .worker(worker_with_tools("child"), child)
            .worker(main, vec![calls([("child", json!({}))]), text("It gave up.")])
            .run(json!({}))
    };
    let ran = tree(Some(4));
    assert_eq!(ran.failure().message, "`main` and its callees used all of their 4 model turns");
    assert_eq!(ran.seen.len(), 4);
    let ran = tree(None);
    assert_eq!(ran.seen.len(), 52, "where none is stated, each conversation has its own fifty");
}

#[test]
fn each_request_is_capped_to_what_is_left_of_the_budget() {
    let script = vec![using(calls([("look", json!({}))]), 600), using(text("done"), 300)];
    let ran = limited(|main| main.limits.max_tokens = Some(1_000), script).run(json!({}));
    let reserved: Vec<u64> = reserved(&ran);
    assert_eq!(reserved[0], 1_000, "input and answer together");
    assert_eq!(reserved[1], 400);
    let caps: Vec<u32> = ran.seen.iter().filter_map(|seen| seen.max_tokens).collect();
    assert!(caps[0] < 1_000 && caps[0] > 800, "what is sent counts too: {caps:?}");
    assert!(caps[1] <= 400, "{caps:?}");
    assert_eq!(ran.outcome.usage.output_tokens, Some(900));
}

/// Tokens reserved for each request, in the order of the journal.
fn reserved(ran: &Ran) -> Vec<u64> {
    let tokens = |record: &Record| match &record.body {
        RecordKind::Reserved(reserved) => Some(reserved.input_tokens? + reserved.output_tokens?),
        _ => None,
    };
    ran.records.iter().filter_map(tokens).collect()
}

#[test]
fn a_used_up_budget_ends_the_run_before_another_request() {
    let script = vec![using(calls([("look", json!({}))]), 1_000)];
    let ran = limited(|main| main.limits.max_tokens = Some(1_000), script).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.failure().message, "`main` and its callees used all of their 1000 tokens");
}

#[test]
fn a_request_that_does_not_fit_is_not_sent() {
    let ran = limited(|main| main.limits.max_tokens = Some(10), Vec::new()).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert!(
        ran.failure().message.starts_with(
            "`main` and its callees have 10 of 10 tokens left, and the next request needs about"
        ),
        "{}",
        ran.failure()
    );
    assert!(ran.seen.is_empty());
}

#[test]
fn children_spend_their_callers_budget() {
    let mut main = worker("main");
    main.limits.max_tokens = Some(1_000);
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .worker(worker("child"), vec![using(text("long"), 700)])
        .worker(
            main,
            vec![
                using(calls([("child", json!({"input": "a"}))]), 200),
                using(calls([("child", json!({"input": "b"}))]), 100),
            ],
        )
        .run(json!({}));
    assert_eq!(reserved(&ran), [1_000, 800, 100]);
    assert_eq!(ran.failure().kind, FailureKind::Limit);
    assert_eq!(ran.outcome.usage.output_tokens, Some(1_000));
}

#[test]
fn children_side_by_side_wait_for_what_others_hold_and_never_overspend() {
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
    assert_eq!(caps, [4_000, 4_000, 4_000], "nobody's answer is cut short");
    let at = |what: fn(&Record) -> bool| {
        ran.records.iter().enumerate().filter(move |(_, record)| record.path.depth() == 1 && what(record))
    };
    let third = at(|record| matches!(record.body, RecordKind::Reserved(_))).nth(2).unwrap().0;
    let first_answer = at(|record| matches!(record.body, RecordKind::ModelAnswered { .. })).next().unwrap().0;
    assert!(first_answer < third, "three at once would not fit: the third waits for an answer");
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
    world.terms.max_output = Some(800_000);
    let ran = world.run(json!({}));
    assert_eq!(ran.results(), [("A".to_owned(), false), ("B".to_owned(), false)]);
    assert!(
        ran.seen.iter().all(|seen| seen.max_tokens == Some(800_000)),
        "each could be as long as the model can"
    );
}

#[test]
fn without_a_known_maximum_no_provider_is_asked_for_a_million_tokens() {
    let mut main = worker("main");
    main.limits.max_tokens = Some(1_000_000);
    let ran = World::new().worker(main, vec![using(text("done"), 1)]).run(json!({}));
    assert!(ran.seen[0].max_tokens.is_some_and(|max| max <= 10_000));
}

/// The price of one dollar for a million tokens sent, and ten for a million produced.
pub(crate) fn price() -> Option<Price> {
    let usd = |amount| Usd::dollars(amount).unwrap();
    Some(Price::flat(usd(1.0), usd(10.0)))
}

fn costing(limit: f64, script: Script) -> World {
    let mut world = limited(|main| main.limits.max_cost_usd = Usd::dollars(limit), script);
    world.terms.price = price();
    world
}

#[test]
fn a_cost_limit_caps_answers_and_ends_the_run() {
    let script =
        vec![using(calls([("look", json!({}))]), 900), using(calls([("look", json!({"n": 1}))]), 100)];
    let ran = costing(0.01, script).run(json!({}));
    assert_eq!(ran.failure().message, "`main` and its callees used all of their 0.0100 USD");
    assert_eq!(ran.seen.len(), 2);
    assert!(ran.seen[1].max_tokens.is_some_and(|max| max <= 100), "{:?}", ran.seen[1].max_tokens);
    assert_eq!(ran.outcome.usage.cost_usd, Usd::dollars(0.01));
}

#[test]
fn an_unknown_price_is_an_error_before_anything_is_sent_and_no_cost_is_made_up() {
    let mut world = costing(0.01, Vec::new());
    world.terms.price = None;
    world.model.defaults = vec!["hosted:test".parse().unwrap()];
    let ran = world.run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    for part in ["`main` can't ask `hosted:test`", "0.0100 USD", "prices: {\"hosted:test\":"] {
        assert!(ran.failure().message.contains(part), "{}", ran.failure());
    }
    assert!(ran.seen.is_empty());
    let ran = limited(|_| {}, vec![using(text("done"), 5)]).run(json!({}));
    assert_eq!(ran.outcome.usage.cost_usd, None);
}

#[test]
fn what_a_provider_does_not_tell_counts_as_reserved() {
    let ran = limited(|main| main.limits.max_tokens = Some(2_000), vec![calls([("look", json!({}))])])
        .run(json!({}));
    assert_eq!(ran.failure().message, "`main` and its callees used all of their 2000 tokens");
    assert_eq!(ran.seen.len(), 1);
}

#[test]
fn a_request_that_broke_off_counts_and_one_that_was_refused_does_not() {
    let failed = |kind| Err(ModelError::new(kind, "no"));
    let tree = |kind| {
        let script = vec![failed(kind), using(text("done"), 1)];
        limited(|main| main.limits.max_tokens = Some(1_500), script).run(json!({}))
    };
    assert_eq!(tree(ModelErrorKind::RateLimited).output(), &json!("done"));
    let broken = tree(ModelErrorKind::Network);
    assert_eq!(broken.failure().message, "`main` and its callees used all of their 1500 tokens");
}
