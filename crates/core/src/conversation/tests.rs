//! The guarantees of a conversation for any model output, tested without an engine, a tool or a journal.

use super::*;
use crate::model::{Arguments, ToolResult};
use crate::risk::Risk;
use crate::schema::Schema;
use proptest::prelude::*;
use serde_json::json;

fn conversation(adjust: impl FnOnce(&mut Setup)) -> Conversation {
    let mut setup = Setup {
        call: CallPath::root(),
        worker: "clerk".into(),
        limits: Limits::default(),
        output: OutputContract::new(None, false),
        sees: Sees { images: true, pdf: false },
        tools: vec!["add".into(), "look".into()],
        server_tools: false,
        with_user: false,
        user: Origin::Trusted,
        listens: false,
    };
    adjust(&mut setup);
    Conversation::new(setup, Conversation::first_message(vec![Part::text("Begin.")]))
}

fn schema(value: Value) -> Option<Arc<Schema>> {
    Some(Arc::new(Schema::new(value).unwrap()))
}

/// `{"n": integer}`.
fn number() -> Option<Arc<Schema>> {
    schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}))
}

fn call(id: &str, name: &str, arguments: Arguments) -> Part {
    Part::Call(ToolCall { id: id.into(), name: name.into(), arguments })
}

fn with(arguments: Value) -> Arguments {
    Arguments::Json(Arc::new(arguments))
}

/// Data that only the provider understands.
fn opaque() -> Part {
    Part::Opaque { provider: "p".into(), value: json!({"block": {"type": "server_tool_use"}}) }
}

/// Feeds this answer of the model to the conversation; returns the repair message, if one follows.
fn say(conversation: &mut Conversation, parts: Vec<Part>, finish: FinishReason) -> Option<Arc<Message>> {
    let response = ModelResponse { parts, finish, usage: Default::default(), unknown_finish: None };
    let message = conversation.answer_message(&response);
    conversation.answered(message, finish)
}

fn say_text(conversation: &mut Conversation, text: &str) -> Option<Arc<Message>> {
    say(conversation, vec![Part::text(text)], FinishReason::Stop)
}

fn say_calls(conversation: &mut Conversation, calls: Vec<Part>) {
    assert_eq!(say(conversation, calls, FinishReason::ToolCalls), None, "calls need no repair message");
}

fn planned(conversation: &Conversation) -> Vec<PlannedCall> {
    match conversation.next() {
        Next::Call(planned) => planned,
        other => panic!("calls were planned, not {other:?}"),
    }
}

/// Makes the planned calls, each of which returns `output`.
fn make(conversation: &mut Conversation, output: &str) {
    let results = planned(conversation).into_iter().map(|planned| match planned {
        PlannedCall::Answered(result) => result,
        PlannedCall::Make { call, .. } => {
            ToolResult { call_id: call.id, name: call.name, content: output.into(), is_error: false }
        }
    });
    let results = results.collect();
    conversation.results(results, Vec::new());
}

/// The message that the model gets in place of a call's result.
fn told(conversation: &Conversation) -> String {
    match planned(conversation).as_slice() {
        [PlannedCall::Answered(result)] => {
            assert!(result.is_error);
            result.content.to_string()
        }
        other => panic!("one call was answered at once, not {other:?}"),
    }
}

fn failure(conversation: &Conversation) -> Failure {
    match conversation.next() {
        Next::Failed(failure) => failure,
        other => panic!("it has failed, not {other:?}"),
    }
}

fn output(conversation: &Conversation) -> Value {
    match conversation.next() {
        Next::Done(done) => (*done.value).clone(),
        other => panic!("it is done, not {other:?}"),
    }
}

#[test]
fn an_unknown_tool_is_answered_with_those_that_exist() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    say_calls(&mut clerk, vec![call("1", "subtract", with(json!({})))]);
    assert_eq!(told(&clerk), "There is no tool `subtract`. There are: add, look, final_result.");

    let mut bare = conversation(|setup| setup.tools.clear());
    say_calls(&mut bare, vec![call("1", "subtract", with(json!({})))]);
    assert_eq!(told(&bare), "There is no tool `subtract`, and no other tools either. Answer in text.");
}

#[test]
fn calls_of_tools_that_were_not_offered_are_known() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    let parts = vec![
        call("1", "look", with(json!({}))),
        call("2", "functions.look", with(json!({}))),
        call("3", FINAL_TOOL, with(json!({"n": 3}))),
        call("4", "", with(json!({}))),
    ];
    let response = ModelResponse {
        parts: parts.clone(),
        finish: FinishReason::ToolCalls,
        usage: Default::default(),
        unknown_finish: None,
    };
    let unoffered = clerk.unoffered(&clerk.answer_message(&response));
    assert_eq!(unoffered, ["functions.look".into(), "".into()] as [Arc<str>; 2]);
    say_calls(&mut clerk, parts);
}

#[test]
fn broken_arguments_are_quoted_back() {
    let mut clerk = conversation(|_| {});
    say_calls(&mut clerk, vec![call("1", "add", Arguments::parse(r#"{"n": 1,,}"#))]);
    let told = told(&clerk);
    assert!(told.starts_with("The arguments are not valid JSON: "), "{told}");
    assert!(told.ends_with(r#"You wrote: {"n": 1,,}"#), "{told}");

    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![call("1", "add", Arguments::parse(r#"{"text": "once upon"#))], FinishReason::Length);
    assert!(self::told(&clerk).contains("not valid JSON (the answer was cut off)"));
}

#[test]
fn arguments_that_are_no_object_are_refused() {
    let mut clerk = conversation(|_| {});
    say_calls(&mut clerk, vec![call("1", "add", with(json!([1, 2])))]);
    assert_eq!(told(&clerk), "The arguments must be a JSON object, not `[1,2]`.");
}

#[test]
fn a_model_that_quotes_a_megabyte_does_not_get_it_back() {
    let mut clerk = conversation(|_| {});
    say_calls(&mut clerk, vec![call("1", &"x".repeat(1 << 20), Arguments::parse(&"{".repeat(1 << 20)))]);
    assert!(told(&clerk).len() < 1000);
}

#[test]
fn text_beside_a_call_does_not_end_the_conversation() {
    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![Part::text("Let me look."), call("1", "look", with(json!({})))], FinishReason::Stop);
    assert!(matches!(planned(&clerk).as_slice(), [PlannedCall::Make { tool: 1, .. }]));
    make(&mut clerk, "a cat");
    assert_eq!(clerk.next(), Next::Ask);
    say_text(&mut clerk, "It is a cat.");
    assert_eq!(output(&clerk), json!("It is a cat."));
}

#[test]
fn an_empty_answer_is_asked_for_again_and_then_fails() {
    for nothing in [vec![], vec![Part::text(" \n")], vec![Part::Reasoning { text: "hm".into() }]] {
        let mut clerk = conversation(|_| {});
        for _ in 0..2 {
            let repair = say(&mut clerk, nothing.clone(), FinishReason::Stop).expect("it is asked again");
            assert_eq!((repair.role, &*repair.text()), (Role::User, "Your answer was empty. Answer now."));
            assert_eq!(clerk.next(), Next::Ask);
        }
        assert_eq!(say(&mut clerk, nothing, FinishReason::Stop), None);
        let failure = failure(&clerk);
        assert_eq!(failure.kind, FailureKind::InvalidOutput);
        assert!(failure.message.contains("after 3 attempts"), "{failure}");
        assert_eq!(failure.partial, None, "nothing is no partial answer");
    }
}

#[test]
fn a_refusal_is_a_failure_of_its_own_kind() {
    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![Part::text("I won't.")], FinishReason::Refusal);
    assert_eq!(failure(&clerk).kind, FailureKind::Refusal);
    assert_eq!(failure(&clerk).message, "the model declined to answer: I won't.");

    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![], FinishReason::Refusal);
    assert_eq!(failure(&clerk).message, "the model declined to answer");
}

#[test]
fn json_is_found_where_models_put_it() {
    for text in [
        r#"{"n": 3}"#,
        "  {\"n\": 3}\n",
        "```json\n{\"n\": 3}\n```",
        "```\n{\"n\": 3}\n```",
        "```{\"n\": 3}```",
        "Here you are:\n\n```json\n{\n  \"n\": 3\n}\n```\nAnything else?",
        r#"The answer is {"n": 3}, I think."#,
        r#"Not {"m": 1} but {"n": 3}."#,
        r#"As [1] says, {"n": 3}"#,
        "```json\n{\"n\": \"three\"}\n```\nor rather\n```json\n{\"n\": 3}\n```",
    ] {
        let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), false));
        assert_eq!(say_text(&mut clerk, text), None, "{text}");
        assert_eq!(output(&clerk), json!({"n": 3}), "{text}");
    }
}

#[test]
fn a_string_output_needs_no_quotes() {
    let kind = || OutputContract::new(schema(json!({"type": "string", "enum": ["cat", "dog"]})), false);
    for text in ["cat", " cat\n", r#""cat""#] {
        let mut clerk = conversation(|setup| setup.output = kind());
        say_text(&mut clerk, text);
        assert_eq!(output(&clerk), json!("cat"), "{text}");
    }
    let mut clerk = conversation(|setup| setup.output = kind());
    assert!(say_text(&mut clerk, "a cat").is_some());
}

#[test]
fn an_invalid_output_goes_back_with_its_reasons_until_the_retries_are_used_up() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), false));
    let repair = say_text(&mut clerk, r#"{"n": "x"}"#).expect("it is asked again");
    assert!(repair.text().contains("/n:"), "{}", repair.text());
    let repair = say_text(&mut clerk, "three").expect("it is asked again");
    assert!(repair.text().contains(r#""required":["n"]"#), "the schema is told: {}", repair.text());
    assert_eq!(say_text(&mut clerk, r#"{"n": null}"#), None);
    let failure = failure(&clerk);
    assert_eq!(failure.kind, FailureKind::InvalidOutput);
    assert_eq!(failure.partial.as_deref(), Some(&json!(r#"{"n": null}"#)));
}

#[test]
fn a_cut_off_answer_is_told_from_a_finished_one() {
    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![Part::text("Once upon")], FinishReason::Length);
    assert!(matches!(clerk.next(), Next::Done(Completion { truncated: true, .. })));

    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), false));
    let repair =
        say(&mut clerk, vec![Part::text(r#"{"n": 1"#)], FinishReason::Length).expect("it is asked again");
    assert!(repair.text().starts_with("Your answer was cut off"), "{}", repair.text());

    let mut clerk = conversation(|_| {});
    say(&mut clerk, vec![Part::Reasoning { text: "hm, hm".into() }], FinishReason::Length);
    assert_eq!(failure(&clerk).kind, FailureKind::Limit, "asking again would end the same way");
}

#[test]
fn a_typed_answer_that_reached_its_limit_is_none_even_if_it_fits() {
    let contract = |tool| OutputContract::new(number(), tool);
    let mut clerk = conversation(|setup| setup.output = contract(false));
    let repair = say(&mut clerk, vec![Part::text(r#"{"n": 1}"#)], FinishReason::Length);
    assert!(repair.expect("it is asked again").text().starts_with("Your answer was cut off"));

    let mut clerk = conversation(|setup| setup.output = contract(true));
    say(&mut clerk, vec![call("1", FINAL_TOOL, with(json!({"n": 3})))], FinishReason::Length);
    assert!(told(&clerk).starts_with("Your answer was cut off"), "{}", told(&clerk));
    make(&mut clerk, "");
    say_calls(&mut clerk, vec![call("2", FINAL_TOOL, with(json!({"n": 4})))]);
    assert_eq!(output(&clerk), json!({"n": 4}));
}

/// Tests a call that was cut off before the first character of its arguments. It looks like a call without arguments.
#[test]
fn a_call_that_was_cut_off_before_its_arguments_is_not_made() {
    let mut clerk = conversation(|_| {});
    let calls = || vec![call("1", "look", with(json!({}))), call("2", "add", Arguments::parse(""))];
    say(&mut clerk, calls(), FinishReason::Length);
    match planned(&clerk).as_slice() {
        [PlannedCall::Make { .. }, PlannedCall::Answered(result)] => {
            assert!(result.content.contains("cut off"), "{}", result.content);
        }
        other => panic!("{other:?}"),
    }
    let mut clerk = conversation(|_| {});
    say(&mut clerk, calls(), FinishReason::ToolCalls);
    assert!(planned(&clerk).iter().all(|planned| matches!(planned, PlannedCall::Make { .. })));
}

#[test]
fn two_different_values_that_fit_are_asked_about() {
    for (texts, is_one) in [
        (r#"Such as {"n": 1}? No: {"n": 3}"#, false),
        ("```json\n{\"n\": 1}\n```\n```json\n{\"n\": 3}\n```", false),
        (r#"{"n": 3}, that is {"n": 3}"#, true),
        (r#"Not {"m": 1} but {"n": 3}"#, true),
    ] {
        let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), false));
        let repair = say_text(&mut clerk, texts);
        assert_eq!(repair.is_none(), is_one, "{texts}");
        if let Some(repair) = repair {
            assert!(repair.text().contains("several different JSON values"), "{}", repair.text());
        }
    }
}

/// Tests that the object around a value is the form in which the tool takes it, and not a value of its own.
#[test]
fn the_wrapper_of_the_final_tool_may_stand_in_text() {
    let list = || schema(json!({"type": "array", "items": {"type": "integer"}}));
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(list(), true));
    say_text(&mut clerk, r#"{"result": [1, 2]}"#);
    assert_eq!(output(&clerk), json!([1, 2]));
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(list(), false));
    assert!(say_text(&mut clerk, r#"{"result": [1, 2]}"#).is_some());
}

#[test]
fn a_text_that_is_no_json_goes_back_with_its_place() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), false));
    let repair = say_text(&mut clerk, "So:\n{\"n\": three}").expect("it is asked again").text();
    assert!(repair.contains("at line 2 column") && repair.contains(r#""required":["n"]"#), "{repair}");
    let repair = say_text(&mut clerk, r#"{"n": 1, "n": 3}"#).expect("it is asked again").text();
    assert!(repair.contains("the key `n` twice at line 1"), "{repair}");
}

#[test]
fn the_final_tool_gives_the_output() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    say_calls(&mut clerk, vec![call("1", FINAL_TOOL, with(json!({"n": 3})))]);
    assert_eq!(output(&clerk), json!({"n": 3}));

    // A value that is not an object is wrapped in one.
    let list = schema(json!({"type": "array", "items": {"type": "integer"}}));
    let contract = OutputContract::new(list, true);
    assert_eq!(contract.final_tool_input().unwrap()["required"], json!(["result"]));
    let mut clerk = conversation(|setup| setup.output = contract);
    say_calls(&mut clerk, vec![call("1", FINAL_TOOL, with(json!({"result": [1, 2]})))]);
    assert_eq!(output(&clerk), json!([1, 2]));
}

#[test]
fn the_final_tool_beside_other_calls_waits_for_their_results() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    say_calls(
        &mut clerk,
        vec![call("1", "look", with(json!({}))), call("2", FINAL_TOOL, with(json!({"n": 3})))],
    );
    match planned(&clerk).as_slice() {
        [PlannedCall::Make { index: 0, .. }, PlannedCall::Answered(refused)] => {
            assert!(refused.content.contains("Give the final result alone"), "{}", refused.content);
        }
        other => panic!("{other:?}"),
    }
    make(&mut clerk, "four");
    say_calls(&mut clerk, vec![call("3", FINAL_TOOL, with(json!({"n": 4})))]);
    assert_eq!(output(&clerk), json!({"n": 4}));
}

#[test]
fn an_invalid_final_result_is_answered_as_the_call_it_is() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    for attempt in 0..2 {
        say_calls(&mut clerk, vec![call("1", FINAL_TOOL, with(json!({"n": format!("{attempt}")})))]);
        assert!(told(&clerk).contains("/n:"), "{}", told(&clerk));
        make(&mut clerk, "");
    }
    say_calls(&mut clerk, vec![call("1", FINAL_TOOL, with(json!({"n": false})))]);
    assert_eq!(failure(&clerk).kind, FailureKind::InvalidOutput);
    assert_eq!(failure(&clerk).partial.as_deref(), Some(&json!({"n": false})));
}

#[test]
fn text_in_place_of_the_final_tool_counts_if_it_fits() {
    let mut clerk = conversation(|setup| setup.output = OutputContract::new(number(), true));
    let repair = say_text(&mut clerk, "Three.").expect("it is asked again");
    assert!(repair.text().contains("calling the tool `final_result`"), "{}", repair.text());
    say_text(&mut clerk, r#"Three: {"n": 3}"#);
    assert_eq!(output(&clerk), json!({"n": 3}));
}

#[test]
fn turns_are_limited() {
    let mut clerk = conversation(|setup| setup.limits.max_turns = Some(2));
    for n in 0..2 {
        assert_eq!(clerk.next(), Next::Ask);
        say(
            &mut clerk,
            vec![Part::text("On it."), call("1", "add", with(json!({"n": n})))],
            FinishReason::Stop,
        );
        make(&mut clerk, "ok");
    }
    let failure = failure(&clerk);
    assert_eq!(failure.kind, FailureKind::Limit);
    assert!(failure.message.contains("all of its 2 model turns"), "{failure}");
    assert_eq!(failure.partial.as_deref(), Some(&json!("On it.")), "what there was is reported");
}

#[test]
fn the_same_call_over_and_over_is_refused_and_then_ends_the_conversation() {
    let mut clerk = conversation(|setup| setup.limits.max_repeats = 2);
    // Different key order is still the same call.
    for arguments in [r#"{"a": 1, "b": 2}"#, r#"{"b": 2, "a": 1}"#] {
        say_calls(&mut clerk, vec![call("1", "add", Arguments::parse(arguments))]);
        assert!(matches!(planned(&clerk)[0], PlannedCall::Make { .. }));
        make(&mut clerk, "3");
    }
    for _ in 0..2 {
        say_calls(&mut clerk, vec![call("1", "add", with(json!({"a": 1, "b": 2})))]);
        assert!(told(&clerk).contains("gave this same result 2 times"), "{}", told(&clerk));
        make(&mut clerk, "");
    }
    say_calls(&mut clerk, vec![call("1", "add", with(json!({"a": 1, "b": 2})))]);
    assert_eq!(failure(&clerk).kind, FailureKind::Limit);
    assert!(failure(&clerk).message.contains("over and over"));
}

#[test]
fn the_same_unusable_call_over_and_over_ends_the_conversation() {
    for (name, arguments) in [
        ("nosuch", with(json!({"a": 1}))),
        ("add", Arguments::parse(r#"{"n": 1,,}"#)),
        ("add", with(json!([1, 2]))),
    ] {
        let mut clerk = conversation(|setup| setup.limits.max_repeats = 2);
        let same = || call("1", name, arguments.clone());
        // Two for the limit, and two more as for a call that is refused. Equal calls in one answer count once.
        for turn in 0..4 {
            let calls = if turn == 0 { vec![same(), same(), same(), same(), same()] } else { vec![same()] };
            let count = calls.len();
            say_calls(&mut clerk, calls);
            assert!(matches!(planned(&clerk)[0], PlannedCall::Answered(_)), "{name}, turn {turn}");
            assert_eq!(planned(&clerk).len(), count);
            make(&mut clerk, "");
        }
        say_calls(&mut clerk, vec![same()]);
        assert_eq!(failure(&clerk).kind, FailureKind::Limit, "{name}");
        assert!(failure(&clerk).message.contains(&format!("`{name}` over and over")));
    }
    // Other arguments are another call.
    let mut clerk = conversation(|setup| setup.limits.max_repeats = 2);
    for n in 0..20 {
        say_calls(&mut clerk, vec![call("1", "nosuch", with(json!({ "n": n })))]);
        assert!(matches!(planned(&clerk)[0], PlannedCall::Answered(_)), "{n}");
        make(&mut clerk, "");
    }
}

#[test]
fn asking_again_for_what_changes_is_no_loop() {
    let mut clerk = conversation(|setup| setup.limits.max_repeats = 2);
    for n in 0..20 {
        say_calls(&mut clerk, vec![call("1", "look", with(json!({})))]);
        assert!(matches!(planned(&clerk)[0], PlannedCall::Make { .. }), "look {n}");
        make(&mut clerk, &format!("{n} of 20 done"));
    }
}

#[test]
fn calls_get_ids_that_are_unique_in_their_turn() {
    let mut clerk = conversation(|_| {});
    let ids = ["", "call_0_1", "call_0_1", "a", "a", ""];
    say_calls(&mut clerk, ids.iter().map(|id| call(id, "look", with(json!({})))).collect());
    let mut made: Vec<String> = clerk.messages()[1].calls().map(|call| call.id.to_string()).collect();
    make(&mut clerk, "ok");
    assert_eq!(made.len(), 6);
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 6, "{made:?}");
}

#[test]
fn barriers_stand_alone_and_the_rest_goes_side_by_side() {
    let risks = [Risk::Read, Risk::Delegate, Risk::Write, Risk::Write, Risk::Network, Risk::Read, Risk::Exec];
    let tools: Vec<Arc<str>> = (0..risks.len()).map(|n| format!("t{n}").into()).collect();
    let mut clerk = conversation(|setup| setup.tools = tools.clone());
    say_calls(&mut clerk, tools.iter().map(|name| call(name, name, with(json!({})))).collect());
    let planned = planned(&clerk);
    let grouped = |parallel: bool| -> Vec<Vec<usize>> {
        batches(0..planned.len(), |call| match &planned[*call] {
            PlannedCall::Make { tool, .. } => risks[*tool].is_barrier() && !parallel,
            PlannedCall::Answered(_) => panic!("each is to be made"),
        })
    };
    assert_eq!(grouped(false), [vec![0, 1], vec![2], vec![3], vec![4, 5], vec![6]]);
    assert_eq!(grouped(true), [vec![0, 1, 2, 3, 4, 5, 6]], "tools that say they are safe are no barriers");
}

#[test]
fn equal_histories_have_equal_digests_and_others_have_not() {
    let told = |text: &str| {
        let mut clerk = conversation(|_| {});
        say_calls(&mut clerk, vec![call("1", "look", with(json!({})))]);
        make(&mut clerk, text);
        clerk.digest().clone()
    };
    assert_eq!(told("a"), told("a"));
    assert_ne!(told("a"), told("b"));
}

/// Checks the rules of all providers for a history.
fn assert_valid(messages: &[Arc<Message>]) {
    let mut open: Option<Vec<Arc<str>>> = None;
    let mut last = Role::Tool;
    for (at, message) in messages.iter().enumerate() {
        assert_eq!(message.id.0 as usize, at);
        assert!(!message.parts.is_empty(), "no message is empty");
        match message.role {
            Role::User => {
                assert_eq!(open, None, "calls stay unanswered before {message:?}");
                assert!(message.parts.iter().all(|part| matches!(part, Part::Text { .. })));
                assert!(at == 0 || last == Role::Assistant);
            }
            Role::Assistant => {
                assert_eq!(open, None, "calls stay unanswered before {message:?}");
                assert_ne!(last, Role::Assistant, "two answers in a row");
                let says_something = message.parts.iter().any(|part| match part {
                    Part::Text { text } => !text.trim().is_empty(),
                    Part::Call(_) => true,
                    _ => false,
                });
                assert!(says_something, "an assistant message without content: {message:?}");
                assert!(!message.parts.iter().any(|part| matches!(part, Part::Result(_))));
                assert!(
                    message.parts.iter().filter_map(Part::as_text).all(|text| !text.trim().is_empty()),
                    "providers refuse blank text: {message:?}"
                );
                let mut ids: Vec<Arc<str>> = message.calls().map(|call| call.id.clone()).collect();
                open = (!ids.is_empty()).then(|| ids.clone());
                ids.sort();
                ids.dedup();
                assert_eq!(ids.len(), open.as_ref().map_or(0, Vec::len), "ids are unique: {message:?}");
                assert!(ids.iter().all(|id| !id.is_empty()));
            }
            Role::Tool => {
                assert_eq!(last, Role::Assistant);
                let answered: Vec<Arc<str>> = message
                    .parts
                    .iter()
                    .map(|part| match part {
                        Part::Result(result) => result.call_id.clone(),
                        other => panic!("only results: {other:?}"),
                    })
                    .collect();
                assert_eq!(Some(answered), open.take(), "each call is answered once, in order");
            }
        }
        last = message.role;
    }
    assert_eq!(open, None, "no call is open when the model is asked");
    assert_ne!(last, Role::Assistant, "the model is asked after somebody else has spoken");
}

fn any_part() -> impl Strategy<Value = Part> {
    let text =
        prop::sample::select(vec!["", " \n", "Well.", r#"{"n": 1}"#, r#"{"n": "x"}"#, "(empty answer)"]);
    let id = prop::sample::select(vec!["", "a", "b", "call_0_0", "call_0_1", "call_1_1"]);
    let name = prop::sample::select(vec!["add", "look", FINAL_TOOL, "nope", ""]);
    let arguments =
        prop::sample::select(vec!["", "{}", r#"{"n": 1}"#, r#"{"result": 1}"#, "[]", r#"{"n":"#, "null"]);
    let call =
        (id, name, arguments).prop_map(|(id, name, arguments)| call(id, name, Arguments::parse(arguments)));
    prop_oneof![
        4 => call,
        2 => text.prop_map(Part::text),
        1 => Just(Part::Reasoning { text: "hm".into() }),
        1 => Just(Part::Opaque { provider: "p".into(), value: json!({"signature": "x"}) }),
        1 => Just(Part::Result(ToolResult { call_id: "a".into(), name: "add".into(), content: "mine".into(), is_error: false })),
    ]
}

fn any_answer() -> impl Strategy<Value = (Vec<Part>, FinishReason)> {
    use FinishReason as F;
    let finish = prop_oneof![
        6 => Just(F::ToolCalls),
        6 => Just(F::Stop),
        3 => Just(F::Length),
        3 => Just(F::Other),
        1 => Just(F::Refusal),
    ];
    (prop::collection::vec(any_part(), 0..6), finish)
}

proptest! {
    #[test]
    fn whatever_a_model_says_the_history_is_valid_before_each_request(
        answers in prop::collection::vec(any_answer(), 1..16),
        typed in any::<bool>(),
        final_tool in any::<bool>(),
        max_repeats in 1u32..4,
        outputs in prop::collection::vec(prop::sample::select(vec!["", "ok", "no"]), 1..4),
    ) {
        let mut clerk = conversation(|setup| {
            setup.output = OutputContract::new(if typed { number() } else { None }, final_tool);
            setup.limits.max_repeats = max_repeats;
            setup.limits.output_retries = 6;
        });
        let mut again = conversation(|setup| setup.clone_from(&clerk.setup));
        let mut outputs = outputs.iter().cycle();
        for (parts, finish) in answers {
            prop_assert_eq!(clerk.next(), Next::Ask);
            assert_valid(clerk.messages());
            let repair = say(&mut clerk, parts, finish);
            prop_assert_eq!(repair.is_some(), clerk.messages().last().is_some_and(|m| m.role == Role::User));
            if let Next::Call(calls) = clerk.next() {
                prop_assert_eq!(calls.len(), clerk.messages().last().map_or(0, |m| m.calls().count()));
                make(&mut clerk, outputs.next().unwrap());
            }
            // A conversation depends only on the answers and results: equal ones give an equal conversation.
            let answer = clerk.messages().iter().rev().find(|m| m.role == Role::Assistant).unwrap();
            again.answered(Arc::clone(answer), finish);
            if let (Next::Call(_), Some(results)) = (again.next(), clerk.messages().last()) {
                again.results(results.parts.iter().filter_map(|part| match part {
                    Part::Result(result) => Some(result.clone()),
                    _ => None,
                }).collect(), Vec::new());
            }
            prop_assert_eq!(again.digest(), clerk.digest());
            prop_assert_eq!(again.next(), clerk.next());
            if clerk.next() != Next::Ask {
                break;
            }
        }
    }
}

#[test]
fn a_paused_turn_goes_on_with_the_next_request() {
    let mut conversation = conversation(|setup| setup.server_tools = true);
    assert!(conversation.has_server_tools());
    let parts = vec![Part::text("I will look. "), opaque()];
    assert_eq!(say(&mut conversation, parts, FinishReason::Paused), None, "nothing is added to the history");
    assert_eq!(conversation.next(), Next::Ask);
    assert_eq!(say(&mut conversation, vec![opaque()], FinishReason::Paused), None);
    let roles: Vec<Role> = conversation.messages().iter().map(|message| message.role).collect();
    assert_eq!(roles, [Role::User, Role::Assistant, Role::Assistant]);
    assert_eq!(conversation.messages()[2].parts, [opaque()], "it goes back as it came");
    assert_eq!(say_text(&mut conversation, "It is 4."), None);
    let Next::Done(done) = conversation.next() else { panic!("{:?}", conversation.next()) };
    assert_eq!(*done.value, json!("I will look. It is 4."));
}

#[test]
fn a_turn_that_is_paused_for_ever_reaches_the_limit() {
    let mut conversation = conversation(|setup| setup.limits.max_turns = Some(2));
    for _ in 0..2 {
        assert_eq!(conversation.next(), Next::Ask);
        say(&mut conversation, vec![opaque()], FinishReason::Paused);
    }
    let Next::Failed(failure) = conversation.next() else { panic!("{:?}", conversation.next()) };
    assert_eq!(failure.kind, FailureKind::Limit);
}
