//! Workers that call workers: each is a tool with its own signature, and authority and depth only shrink.

use crate::world::{World, calls, rule, text, tool, worker, worker_with_tools};
use llm_do_core::{
    engine::{FailureKind, Principal},
    function::Risk,
    gate::Rule,
    journal::RecordKind,
    model::ModelName,
    question::Answer,
    schema::Schema,
    worker::Parameter,
};
use serde_json::json;
use std::sync::Arc;

const APPROVE: Answer = Answer::Approve { remember: false };

#[test]
fn a_callee_is_a_tool_of_its_own_name_and_returns_its_output() {
    let mut main = worker("main");
    main.allow_workers = vec!["reports/summary".into()];
    let mut summary = worker("reports/summary");
    summary.returns = Some(Arc::new(Schema::new(json!({"type": "object"})).unwrap()));
    let ran = World::new()
        .worker(summary, vec![calls([("final_result", json!({"pages": 3}))])])
        .worker(main, vec![calls([("reports__summary", json!({"input": "Sum up."}))]), text("3 pages")])
        .run(json!({}));
    assert_eq!(ran.first("main").tools, ["reports__summary"]);
    assert_eq!(ran.first("reports/summary").messages[0].text(), "Sum up.");
    assert_eq!(ran.results(), [(r#"{"pages":3}"#.to_owned(), false)]);
}

#[test]
fn every_call_says_on_whose_behalf_it_is_made() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .tool(tool("look", Risk::Read, |_| Ok(json!(1))))
        .worker(worker_with_tools("child"), vec![calls([("look", json!({}))]), text("seen")])
        .worker(main, vec![calls([("child", json!({}))]), text("done")])
        .run(json!({}));
    let principals: Vec<(&str, &Principal)> = ran
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordKind::CallStarted { principal, .. } => Some((record.path.as_str(), principal)),
            _ => None,
        })
        .collect();
    let by = |worker: &str| Principal::Worker(worker.into());
    assert_eq!(
        principals,
        [("0", &Principal::Operator), ("0/0.0", &by("main")), ("0/0.0/0.0", &by("child"))]
    );
}

#[test]
fn extra_instructions_go_into_the_message_and_leave_the_prompt_alone() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .worker(worker("child"), vec![text("ok")])
        .worker(
            main,
            vec![calls([("child", json!({"input": "x", "instructions": "Be brief."}))]), text("ok")],
        )
        .run(json!({}));
    let child = ran.first("child");
    assert_eq!(child.system, "You are child.");
    assert!(child.messages[0].text().contains("Additional instructions for this task: Be brief."));
}

/// The system text and the parts of the first message of a worker with these instructions.
fn first_request(instructions: &str, input: serde_json::Value) -> (String, Vec<String>) {
    let mut main = worker("main");
    main.instructions.text = instructions.into();
    let properties = json!({
        "text": {"type": "string"}, "n": {"type": "integer"}, "style": {"enum": ["short", "long"]},
        "items": {"type": "array"},
    });
    let schema = json!({"type": "object", "properties": properties});
    main.signature.schema = Arc::new(Schema::new(schema).unwrap());
    main.signature.declared = true;
    main.signature.message = Some("text".into());
    let names = ["text", "n", "style", "items"];
    main.signature.parameters = names
        .map(|name| Parameter { name: name.into(), shown_type: "any".into(), required: false, path: None })
        .into();
    let ran = World::new().worker(main, vec![text("ok")]).run(input);
    let request = ran.first("main");
    let parts = request.messages[0].parts.iter().map(|part| part.sent().unwrap().into_owned());
    (request.system.clone(), parts.collect())
}

#[test]
fn what_the_instructions_print_is_sent_once_and_the_system_text_stays_the_same() {
    let story = json!({"text": "A long story.", "n": 2, "style": "short"});
    let rest = |value: serde_json::Value| serde_json::to_string_pretty(&value).unwrap();
    for (instructions, system, message) in [
        // Nothing is printed: all of the input is in the message.
        ("Sum up.", "Sum up.", vec![rest(story.clone())]),
        (
            "{% if n > 1 %}Use {{ run.date[:0] }}many words.{% endif %}",
            "Use many words.",
            vec![rest(story.clone())],
        ),
        // The paragraph of the first parameter, and all after it, is in the message.
        (
            "Rules.\n\nMore.\n\nIn {{ n }} lines:\n{{ text }}\n\nGo.",
            "Rules.\n\nMore.",
            vec!["In 2 lines:\nA long story.\n\nGo.".to_owned(), rest(json!({"style": "short"}))],
        ),
        (
            "Sum up {{ text }} in {{ n }} lines, {{ style }}.",
            "",
            vec!["Sum up A long story. in 2 lines, short.".into()],
        ),
        // A choice has few values, so it may stand in the system text.
        ("Be {{ style }}.\n\n{{ input.text }} {{ n }}", "Be short.", vec!["A long story. 2".into()]),
        ("Be {{ style }}.", "Be short.", vec![rest(json!({"text": "A long story.", "n": 2}))]),
        (
            "Go.\n\n{{ input|tojson }}",
            "Go.",
            vec![r#"{"n": 2, "style": "short", "text": "A long story."}"#.into()],
        ),
    ] {
        let (found, parts) = first_request(instructions, story.clone());
        assert_eq!((found.as_str(), parts), (system, message), "{instructions}");
    }
    let (system, parts) = first_request("Sum up.\n\n{{ text }}", json!({"text": "A story."}));
    assert_eq!((system.as_str(), parts), ("Sum up.", vec!["A story.".to_owned()]));
    let listed = "Count.\n\n{% for item in items %}- {{ item.name }}\n{% endfor %}";
    let items = json!({"items": [{"name": "pear"}, {"name": "fig"}]});
    assert_eq!(first_request(listed, items).1, ["- pear\n- fig"]);
    let items = json!({"items": [{"name": "pear", "price": 2}]});
    assert_eq!(first_request(listed, items.clone()).1, ["- pear".to_owned(), rest(items)]);
}

/// `main` calls `a`, which calls `b`, and so on to the last, which answers.
fn chain(ids: &[&str]) -> World {
    let mut world = World::new();
    for (at, id) in ids.iter().enumerate() {
        let mut here = worker(id);
        let script = match ids.get(at + 1) {
            Some(next) => {
                here.allow_workers = vec![(*next).to_owned()];
                vec![calls([(next, json!({}))]), text(&format!("{id} is done"))]
            }
            None => vec![text("the end")],
        };
        world = world.worker(here, script);
    }
    world
}

#[test]
fn delegation_ends_at_the_depth_limit() {
    let ids = ["main", "a", "b", "c"];
    let mut world = chain(&ids);
    world.delegation.max_depth = 3;
    assert_eq!(world.run(json!({})).results_of("b"), [("the end".to_owned(), false)]);

    let mut world = chain(&ids);
    world.delegation.max_depth = 2;
    let ran = world.run(json!({}));
    let (told, is_error) = &ran.results_of("b")[0];
    assert!(
        *is_error && told.contains("`c` would stand at depth 3 of the call tree; at most 2 is allowed"),
        "{told}"
    );
    assert_eq!(ran.output(), &json!("main is done"), "the others continue");
}

#[test]
fn a_worker_can_limit_the_depth_below_itself() {
    let mut b = worker("b");
    b.allow_workers = vec!["c".into()];
    let mut a = worker("a");
    a.allow_workers = vec!["b".into()];
    a.limits.max_depth = Some(1);
    let mut main = worker("main");
    main.allow_workers = vec!["a".into()];
    let ran = World::new()
        .worker(worker("c"), vec![])
        .worker(b, vec![calls([("c", json!({}))]), text("b alone")])
        .worker(a, vec![calls([("b", json!({}))]), text("a is done")])
        .worker(main, vec![calls([("a", json!({}))]), text("done")])
        .run(json!({}));
    assert!(ran.results_of("b")[0].0.contains("at depth 3"), "{:?}", ran.results_of("b"));
}

#[test]
fn a_worker_at_work_is_not_called_again_unless_recursion_is_allowed() {
    let looped = || {
        let mut a = worker("a");
        a.allow_workers = vec!["main".into()];
        let mut main = worker("main");
        main.allow_workers = vec!["a".into()];
        World::new()
            .worker(a, vec![calls([("main", json!({}))]), text("a is done")])
            .worker(main, vec![calls([("a", json!({}))]), text("done")])
    };
    let ran = looped().run(json!({}));
    assert!(ran.results_of("a")[0].0.contains("already at work in this chain of calls: main → a → main"));

    let mut world = looped();
    world.delegation.allow_recursion = true;
    world.delegation.max_depth = 3;
    let ran = world.run(json!({}));
    assert_eq!(ran.output(), &json!("done"));
    assert_eq!(ran.seen.iter().map(|seen| seen.path.as_str().matches('/').count()).max(), Some(3));
}

fn caller_of_reports(script: crate::world::Script) -> World {
    let mut main = worker("main");
    main.allow_workers = vec!["reports/*".into(), "plain".into()];
    World::new()
        .worker(worker("plain"), vec![text("plain done")])
        .worker(worker("reports/long"), vec![text("long done")])
        .worker(worker("secret"), vec![])
        .worker(main, script)
}

#[test]
fn a_glob_offers_worker_call_and_names_what_it_matches() {
    let ran = caller_of_reports(vec![
        calls([("worker_call", json!({"worker": "reports/long", "input_data": "go"}))]),
        text("ok"),
    ])
    .run(json!({}));
    assert_eq!(ran.first("main").tools, ["plain", "worker_call"]);
    assert_eq!(ran.first("reports/long").messages[0].text(), "go");
    assert_eq!(ran.results(), [("long done".to_owned(), false)]);
    let loaded = ran.records.iter().any(|record| match &record.body {
        RecordKind::Definition(used) => &*used.worker == "reports/long",
        _ => false,
    });
    assert!(loaded, "the journal holds the text of what was loaded late");
}

#[test]
fn worker_call_reaches_only_what_the_allowlist_names() {
    for reference in ["secret", "reports", "nowhere"] {
        let ran = caller_of_reports(vec![calls([("worker_call", json!({"worker": reference}))]), text("ok")])
            .run(json!({}));
        assert_eq!(
            ran.error(),
            format!("`{reference}` is not among the workers you may call: reports/*, plain.")
        );
    }
    let ran =
        caller_of_reports(vec![calls([("worker_call", json!({"worker": "reports/none"}))]), text("ok")])
            .run(json!({}));
    assert_eq!(ran.error(), "there is no worker `reports/none`");
}

#[test]
fn a_delegation_by_wildcard_asks_and_an_allowlisted_one_does_not() {
    let script = || {
        vec![
            calls([
                ("plain", json!({"input": "x"})),
                ("worker_call", json!({"worker": "reports/long", "input_data": "go"})),
            ]),
            text("ok"),
        ]
    };
    let ran = caller_of_reports(script()).asking([APPROVE]).run(json!({}));
    assert_eq!(ran.asks.iter().map(|ask| &*ask.function).collect::<Vec<_>>(), ["reports/long"]);
    assert_eq!(ran.results()[1], ("long done".to_owned(), false));

    let mut world = caller_of_reports(script()).asking([]);
    world.gate.operator = vec![rule("worker_call(reports/*)", Rule::PreApproved)];
    assert_eq!(world.run(json!({})).results()[1], ("long done".to_owned(), false));

    let mut world = caller_of_reports(script());
    world.gate.operator = vec![rule("reports/long", Rule::Blocked)];
    assert!(world.run(json!({})).results()[1].1, "a rule on the callee holds however it is called");
}

#[test]
fn a_child_that_is_denied_is_a_value_for_its_parent() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let mut world = World::new()
        .worker(worker("child"), vec![])
        .worker(main, vec![calls([("child", json!({}))]), text("Then I do it myself.")])
        .asking([Answer::Deny { reason: Some("not today".into()), remember: false }]);
    world.gate.operator = vec![rule("child", Rule::Ask)];
    let ran = world.run(json!({}));
    assert_eq!(ran.error(), "The operator refused `child`: not today");
    assert_eq!(ran.output(), &json!("Then I do it myself."));
    assert!(ran.seen.iter().all(|seen| seen.worker == "main"));
}

#[test]
fn a_childs_denied_tool_does_not_end_child_or_parent() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let ran = World::new()
        .tool(tool("send", Risk::Network, |_| panic!("it is not run")))
        .worker(worker_with_tools("child"), vec![calls([("send", json!({}))]), text("I could not send it.")])
        .worker(main, vec![calls([("child", json!({}))]), text("done")])
        .asking([Answer::Deny { reason: None, remember: false }])
        .run(json!({}));
    assert_eq!(ran.asks[0].chain, ["main".into(), "child".into()], "the operator sees who asks");
    assert_eq!(
        ran.results_of("child")[0].0,
        "The operator refused `send`. Do it another way or say that you can't."
    );
    assert_eq!(ran.results(), [("I could not send it.".to_owned(), false)]);
}

#[test]
fn a_failed_child_tells_its_parent_what_there_was() {
    let mut main = worker("main");
    main.allow_workers = vec!["child".into()];
    let mut child = worker("child");
    child.returns = Some(Arc::new(Schema::new(json!({"type": "integer"})).unwrap()));
    child.limits.output_retries = 0;
    let ran = World::new()
        .worker(child, vec![text("about three")])
        .worker(main, vec![calls([("child", json!({}))]), text("done")])
        .run(json!({}));
    assert!(ran.error().ends_with("What there was so far: about three"), "{}", ran.error());
}

#[test]
fn a_worker_without_a_model_of_its_kind_fails_before_any_request() {
    let mut main = worker("main");
    main.compatible_models = vec!["anthropic:*".into()];
    let ran = World::new().worker(main, vec![]).run(json!({}));
    assert_eq!(ran.failure().kind, FailureKind::Definition);
    assert!(ran.seen.is_empty());
}

#[test]
fn the_names_of_a_provider_are_one_provider() {
    let fits = |model: &str, glob: &str| model.parse::<ModelName>().unwrap().fits(glob);
    assert!(fits("gemini:gemini-2.5-flash", "google:*") && fits("google:gemini-2.5-flash", "gemini:*"));
    assert!(fits("claude:claude-haiku-4-5", "anthropic:claude-*") && fits("aws:x", "{bedrock,openai}:*"));
    assert!(!fits("openai:gpt-5", "openai_resp:*") && !fits("gemini:x", "google:y"));
}

#[test]
fn an_empty_call_is_refused_unless_the_worker_allows_it() {
    let mut main = worker("main");
    main.allow_empty_input = false;
    let ran = World::new().worker(main, vec![]).run(json!({"instructions": "Be brief."}));
    assert_eq!(ran.failure().kind, FailureKind::InvalidInput);
    assert_eq!(ran.failure().message, "`main` needs an input or an attachment");
}

#[test]
fn a_delegation_through_worker_call_is_asked_about_once() {
    let script = || {
        vec![
            calls([("worker_call", json!({"worker": "reports/long", "input_data": "go"}))]),
            calls([("plain", json!({"input": "x"}))]),
            text("ok"),
        ]
    };
    let mut world = caller_of_reports(script()).asking([APPROVE, APPROVE]);
    world.gate.operator = vec![rule("worker.call", Rule::Ask)];
    let ran = world.run(json!({}));
    let asked: Vec<(&str, &str)> = ran.asks.iter().map(|ask| (ask.call.as_str(), &*ask.function)).collect();
    assert_eq!(asked, [("0/0.0/worker", "reports/long"), ("0/1.0", "plain")], "the entry is no delegation");
    assert_eq!(ran.output(), &json!("ok"));

    let mut world = caller_of_reports(script());
    world.gate.operator = vec![rule("worker.call", Rule::Blocked)];
    assert!(world.run(json!({})).error().contains("There is no tool"), "nothing that delegates is offered");
}

#[test]
fn who_starts_a_run_is_not_asked_whether_it_may_start() {
    let mut world = World::new().worker(worker("main"), vec![text("ok")]).asking([]);
    world.gate.project.default = Some(Rule::Ask);
    assert_eq!(world.run(json!({})).output(), &json!("ok"));
}
