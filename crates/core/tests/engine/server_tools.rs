//! Tests of tools that a provider runs: each is judged once, before the conversation.

use crate::world::{World, rule, text, worker};
use llm_do_core::{
    engine::{End, FailureKind},
    gate::{DecidedBy, Mode, Rule},
    journal::RecordKind,
    model::Terms,
    question::Answer,
    server_tool::{ServerTool, WebLimits},
};
use serde_json::json;
use std::sync::Arc;

fn searching() -> World {
    let mut main = worker("main");
    main.server_tools = Arc::new([ServerTool::WebSearch(WebLimits::default()), ServerTool::CodeExecution]);
    World::new().worker(main, vec![text("done")])
}

/// The decisions about each tool.
fn decided(ran: &crate::world::Ran) -> Vec<(String, Rule)> {
    let verdicts = ran.records.iter().filter_map(|record| match &record.body {
        RecordKind::Verdict { rule, .. } if record.path.as_str().contains("server") => {
            Some((record.path.to_string(), *rule))
        }
        _ => None,
    });
    verdicts.collect()
}

#[test]
fn each_is_judged_once_before_the_first_request() {
    let mut world = searching();
    world.gate.mode = Mode::AutoDeny;
    world.gate.operator = vec![rule("web_search", Rule::PreApproved)];
    let ran = world.run(json!({}));
    assert_eq!(
        decided(&ran),
        [("0/server.0".to_owned(), Rule::PreApproved), ("0/server.1".to_owned(), Rule::Blocked)]
    );
    let at = |is: fn(&RecordKind) -> bool| ran.records.iter().position(|record| is(&record.body)).unwrap();
    assert!(
        at(|body| matches!(body, RecordKind::ConversationStarted { .. }))
            > at(|body| matches!(body, RecordKind::Verdict { rule: Rule::Blocked, .. }))
    );
    let offered = [ServerTool::WebSearch(WebLimits::default())];
    assert_eq!(ran.first("main").server_tools, offered, "a refused tool is not offered");
    let recorded = ran.records.iter().find_map(|record| match &record.body {
        RecordKind::ConversationStarted { server_tools, .. } => Some(server_tools),
        _ => None,
    });
    assert_eq!(recorded.map(|tools| &**tools), Some(offered.as_slice()));
}

#[test]
fn the_operator_may_narrow_the_options() {
    let edit = Answer::Edit { input: Arc::new(json!({"max_uses": 1, "allowed_domains": ["a.example"]})) };
    let deny = Answer::Deny { reason: None, remember: false };
    let ran = searching().asking([edit, deny]).run(json!({}));
    let limits =
        WebLimits { max_uses: Some(1), allowed_domains: vec!["a.example".into()], ..WebLimits::default() };
    assert_eq!(ran.first("main").server_tools, [ServerTool::WebSearch(limits)]);
}

#[test]
fn all_questions_are_put_before_the_run_waits() {
    let mut world = searching().asking_in_vain();
    world.gate.mode = Mode::Defer;
    world.answers = vec![None, None];
    let ran = world.run(json!({}));
    let End::Suspended(waiting) = &ran.outcome.end else { panic!("{:?}", ran.outcome.end) };
    assert_eq!(waiting.len(), 2);
    assert!(ran.seen.is_empty(), "nothing was sent");
}

#[test]
fn a_provider_without_the_tool_is_refused_before_anything_is_asked() {
    let mut world = searching().asking([]);
    world.server_tools = false;
    let ran = world.run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.failure().message.contains("web_search"), "{}", ran.failure().message);
    assert!(decided(&ran).is_empty());
}

#[test]
fn a_limit_of_cost_needs_the_price_of_a_use() {
    let mut main = worker("main");
    main.server_tools = Arc::new([ServerTool::CodeExecution]);
    main.limits.max_cost_usd = llm_do_core::price::Usd::dollars(1.0);
    let mut world = World::new().worker(main, vec![text("done")]);
    world.terms = Terms { price: crate::limits::price(), ..Terms::default() };
    let ran = world.run(json!({}));
    assert!(ran.failure().message.contains("server_use"), "{}", ran.failure().message);
}

#[test]
fn a_blocked_tool_names_its_rule() {
    let mut world = searching();
    world.gate.operator = vec![rule("web_*", Rule::Blocked)];
    let ran = world.run(json!({}));
    let by = ran.records.iter().find_map(|record| match &record.body {
        RecordKind::Verdict { rule: Rule::Blocked, by, .. } => Some(by.clone()),
        _ => None,
    });
    assert!(matches!(by, Some(DecidedBy::Rule { .. })), "{by:?}");
    assert_eq!(ran.first("main").server_tools, [ServerTool::CodeExecution]);
}
