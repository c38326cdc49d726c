//! Calls of one turn: in parallel or in sequence, with results always in the order of the calls.

use crate::world::{World, calls, calls_of, text, tool, worker, worker_with_tools};
use llm_do_core::{
    function::{Concurrency, Risk},
    journal::RecordKind,
};
use serde_json::json;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

#[test]
fn twenty_children_end_in_any_order_and_are_told_in_the_order_of_the_calls() {
    let mut main = worker("main");
    let ids: Vec<String> = (0..20).map(|n| format!("child{n:02}")).collect();
    main.allow_workers.clone_from(&ids);
    let made = calls_of(ids.iter().map(|id| (id.clone(), json!({"input": "go"}))));
    let mut world = World::new().worker(main, vec![made, text("done")]);
    for id in &ids {
        world = world.worker(worker(id), vec![text(&format!("I am {id}"))]);
    }
    // The later a child was called, the sooner it answers.
    world.delay = |path| match path.as_str().rsplit_once('.') {
        Some((_, index)) => 40 - index.parse::<usize>().unwrap(),
        None => 0,
    };
    let ran = world.run(json!({}));
    let told: Vec<String> = ran.results().into_iter().map(|(text, _)| text).collect();
    assert_eq!(told, ids.iter().map(|id| format!("I am {id}")).collect::<Vec<_>>());
    let ended: Vec<&str> = ran
        .records
        .iter()
        .filter(|record| matches!(record.body, RecordKind::CallEnded { .. }))
        .map(|record| record.path.as_str())
        .collect();
    let mut expected: Vec<String> = (0..20).rev().map(|n| format!("0/0.{n}")).collect();
    expected.push("0".into());
    assert_eq!(ended, expected, "they did run side by side");
}

#[test]
fn what_changes_something_waits_for_what_stands_before_it() {
    let step = Arc::new(AtomicUsize::new(0));
    let numbered = |name: &'static str, risk| {
        let step = Arc::clone(&step);
        tool(name, risk, move |_| Ok(json!(step.fetch_add(1, Ordering::Relaxed))))
    };
    let mut main = worker_with_tools("main");
    main.allow_workers = vec!["child".into()];
    let mut child = worker("child");
    child.toolsets = vec![("test".into(), Arc::new(json!({"tools": ["look"]})))];
    let mut world = World::new()
        .tool(numbered("look", Risk::Read))
        .tool(numbered("write", Risk::Write))
        .worker(child, vec![calls([("look", json!({}))]), text("child done")])
        .worker(
            main,
            vec![
                calls([
                    ("child", json!({})),
                    ("look", json!({"n": 1})),
                    ("write", json!({"n": 2})),
                    ("write", json!({"n": 3})),
                    ("look", json!({"n": 4})),
                ]),
                text("done"),
            ],
        );
    world.delay = |path| if path.as_str() == "0" { 0 } else { 9 };
    let ran = world.run(json!({}));
    let told: Vec<String> = ran.results().into_iter().map(|(text, _)| text).collect();
    // The slow child looks second, yet nothing is written before it has.
    assert_eq!(told, ["child done", "0", "2", "3", "4"]);
}

#[test]
fn what_declares_itself_a_barrier_runs_in_order_although_it_only_reads() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let ordered = |name: &'static str, concurrency| {
        let order = Arc::clone(&order);
        let mut tool = tool(name, Risk::Read, move |_| {
            order.lock().unwrap().push(name);
            Ok(json!(name))
        });
        tool.meta.concurrency = concurrency;
        tool
    };
    let mut main = worker_with_tools("main");
    main.allow_workers = vec!["child".into()];
    let made = [("child", json!({})), ("login", json!({})), ("post", json!({}))];
    let mut child = worker("child");
    child.toolsets = vec![("test".into(), Arc::new(json!({"tools": ["beside"]})))];
    let mut world = World::new()
        .tool(ordered("beside", Concurrency::Parallel))
        .tool(ordered("login", Concurrency::Barrier))
        .tool(ordered("post", Concurrency::Barrier))
        .worker(child, vec![calls([("beside", json!({}))]), text("child done")])
        .worker(main, vec![calls(made), text("done")]);
    // The child is slow, and the login slower than the post.
    world.delay = |path| if path.as_str() == "0/0.1" { 9 } else { 5 };
    world.run(json!({}));
    assert_eq!(*order.lock().unwrap(), ["beside", "login", "post"]);
}

#[test]
fn a_name_that_does_not_exist_keeps_its_place_among_the_results() {
    let ran = World::new()
        .tool(tool("look", Risk::Read, |input| Ok(input["n"].clone())))
        .worker(
            worker_with_tools("main"),
            vec![
                calls([("look", json!({"n": 1})), ("see", json!({})), ("look", json!({"n": 2}))]),
                text("done"),
            ],
        )
        .run(json!({}));
    assert_eq!(
        ran.results(),
        [
            ("1".to_owned(), false),
            ("There is no tool `see`. There are: look.".to_owned(), true),
            ("2".to_owned(), false)
        ]
    );
    assert_eq!(ran.made()[1].0, "0/0.2", "a call's path is its place in the model's turn");
}
