//! Budgets over time, above the budgets of a run.

use crate::world::{World, calls, text, tool, using, worker_with_tools};
use futures_util::FutureExt as _;
use llm_do_core::{
    engine::FailureKind,
    function::Risk,
    model::{ModelError, ModelErrorKind, Terms},
    price::{Price, Usd},
    send::BoxFuture,
    spending::{Held, Spending, WantedRequest},
};
use serde_json::json;
use std::sync::{Arc, Mutex};

/// A budget of tokens in memory.
#[derive(Default)]
struct Tokens {
    most: u64,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    held: u64,
    /// Usage of each settled request.
    settled: Vec<u64>,
}

struct Hold {
    state: Arc<Mutex<State>>,
    tokens: u64,
    output: u64,
}

impl Spending for Tokens {
    fn cost_limit(&self) -> Option<(String, Usd)> {
        None
    }

    fn reserve<'a>(&'a self, wanted: WantedRequest<'a>) -> BoxFuture<'a, Result<Box<dyn Held>, String>> {
        let mut state = self.state.lock().unwrap();
        let left = self.most.saturating_sub(state.used + state.held + wanted.input).min(wanted.output);
        let reserved = match left >= wanted.least {
            true => {
                state.held += wanted.input + left;
                let hold = Hold { state: Arc::clone(&self.state), tokens: wanted.input + left, output: left };
                Ok(Box::new(hold) as Box<dyn Held>)
            }
            false => Err(format!("the budget `all` has {left} tokens left")),
        };
        std::future::ready(reserved).boxed()
    }

    fn refusal(&self) -> Option<Arc<str>> {
        None
    }

    fn take_over<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<Box<dyn Held>>, String>> {
        std::future::ready(Ok(None)).boxed()
    }
}

impl Held for Hold {
    fn output_tokens(&self) -> u64 {
        self.output
    }

    fn settle(self: Box<Self>, tokens: u64, _: Usd) -> BoxFuture<'static, ()> {
        let mut state = self.state.lock().unwrap();
        state.held -= self.tokens;
        state.used += tokens;
        state.settled.push(tokens);
        std::future::ready(()).boxed()
    }
}

/// A worker with a tool, whose model has a price.
fn world(most: u64, script: crate::world::Script) -> (World, Arc<Mutex<State>>) {
    let budget = Tokens { most, ..Tokens::default() };
    let state = Arc::clone(&budget.state);
    let usd = |amount| Usd::dollars(amount).unwrap();
    let mut world = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!("a cat"))))
        .worker(worker_with_tools("main"), script);
    world.terms = Terms { price: Some(Price::flat(usd(1.0), usd(4.0))), ..Terms::default() };
    world.spending = Some(Arc::new(budget));
    (world, state)
}

#[test]
fn a_request_is_capped_to_what_a_budget_over_time_leaves_and_settled_with_its_usage() {
    let script = vec![using(calls([("look", json!({}))]), 600), using(text("done"), 300)];
    let (world, state) = world(1_000, script);
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!("done"));
    let caps: Vec<u32> = ran.seen.iter().filter_map(|seen| seen.max_tokens).collect();
    assert!(caps[0] < 1_000 && caps[0] > 800, "what is sent counts too: {caps:?}");
    assert!(caps[1] <= 400, "{caps:?}");
    let state = state.lock().unwrap();
    assert_eq!((state.held, state.settled.len()), (0, 2), "{state:?}");
}

#[test]
fn a_used_up_budget_over_time_ends_the_run_with_its_own_words_before_another_request() {
    let (world, state) = world(1_000, vec![using(calls([("look", json!({}))]), 1_000)]);
    let ran = world.run(json!({}));
    let failure = ran.failure();
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("the budget `all`"), "{}", failure.message);
    assert_eq!(ran.seen.len(), 1);
    assert_eq!(state.lock().unwrap().held, 0);
}

#[test]
fn the_budget_of_the_run_gets_back_what_a_budget_over_time_does_not_leave() {
    let script = vec![using(calls([("look", json!({}))]), 100), using(text("done"), 100)];
    let (mut world, state) = world(2_000, script);
    let mut main = worker_with_tools("main");
    main.limits.max_tokens = Some(2_500);
    world = world.worker(main, vec![using(calls([("look", json!({}))]), 100), using(text("done"), 100)]);
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!("done"));
    let caps: Vec<u32> = ran.seen.iter().filter_map(|seen| seen.max_tokens).collect();
    // The run's own budget would leave more, and does not wait for what it got back.
    assert!(caps.iter().all(|cap| *cap < 2_000), "{caps:?}");
    assert_eq!(state.lock().unwrap().held, 0);
}

#[test]
fn a_request_that_the_provider_rejects_costs_nothing_and_one_without_an_answer_all_of_it() {
    for (kind, counts) in [(ModelErrorKind::BadRequest, false), (ModelErrorKind::Timeout, true)] {
        let (world, state) = world(5_000, Vec::new());
        let mut main = worker_with_tools("main");
        main.limits.request_retries = 0;
        let ran = world.worker(main, vec![Err(ModelError::new(kind, "no"))]).run(json!({}));
        assert_eq!(ran.failure().kind, FailureKind::Model);
        let state = state.lock().unwrap();
        assert_eq!((state.held, state.used > 0), (0, counts), "{kind:?}: {state:?}");
    }
}

#[test]
fn a_model_that_costs_nothing_is_not_counted() {
    let (mut world, state) = world(1, vec![using(text("done"), 300)]);
    world.terms = Terms::default();
    assert_eq!(world.run(json!({})).output(), &json!("done"));
    assert!(state.lock().unwrap().settled.is_empty());
}
