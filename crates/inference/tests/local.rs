//! Guarantees of local models, tested with real weights: `LLM_DO_TEST_GGUF`, or else those of the models folder.
//! Without weights these tests report that and pass.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that meets an error has failed, and says what it skips"
)]

mod asking;

use asking::{Ask, Deltas, open, real_model as model, weights};
use llm_do_core::model::{
    Arguments, Blob, Delta, FinishReason, ModelError, ModelErrorKind, ModelResponse, ModelSettings, Part,
    Role, ToolSpec,
};
use llm_do_inference::{LoadError, LocalModel};
use serde_json::{Value, json};
use std::{fs, sync::Arc};

/// Returns the text of the deltas so far.
fn told(deltas: &Deltas) -> String {
    let pieces = deltas.told.lock().unwrap();
    pieces
        .iter()
        .filter_map(|it| if let Delta::Text { text } = it { Some(text.as_str()) } else { None })
        .collect()
}

fn count(deltas: &Deltas) -> usize {
    deltas.told.lock().unwrap().len()
}

async fn text(ask: &Ask, model: &LocalModel) -> String {
    ask.answer(model).await.parts.iter().filter_map(Part::as_text).collect()
}

fn call_of(response: &ModelResponse) -> Option<(&str, &Arguments)> {
    response.parts.iter().find_map(|part| match part {
        Part::Call(call) => Some((&*call.name, &call.arguments)),
        _ => None,
    })
}

fn tools() -> Vec<ToolSpec> {
    let tool = |name: &str, description: &str, input: Value| ToolSpec {
        name: name.into(),
        description: description.into(),
        input: Arc::new(input),
    };
    vec![
        tool(
            "read_file",
            "Reads a text file.",
            json!({"type": "object", "properties": {"path": {"type": "string", "maxLength": 60}}, "required": ["path"], "additionalProperties": false}),
        ),
        tool(
            "set_alarm",
            "Sets an alarm.",
            json!({"type": "object", "properties": {"hour": {"type": "integer", "minimum": 0, "maximum": 23}, "label": {"type": "string", "maxLength": 40}}, "required": ["hour"], "additionalProperties": false}),
        ),
    ]
}

#[tokio::test]
async fn an_answer_streams_and_ends() {
    let Some(model) = model() else { return };
    let deltas = Deltas::default();
    let response = Ask::user("What is the capital of France?").of(&model, &deltas).await.unwrap();
    let text: String = response.parts.iter().filter_map(Part::as_text).collect();
    assert!(text.contains("Paris"), "{text}");
    assert_eq!(told(&deltas), text);
    assert!(count(&deltas) > 1);
    assert_eq!(response.finish, FinishReason::Stop);
    assert!(response.usage.input_tokens.unwrap() > 10 && response.usage.output_tokens.unwrap() > 3);
}

#[tokio::test]
async fn the_same_seed_gives_the_same_answer() {
    let Some(one) = model() else { return };
    let two = open(one.path()).unwrap();
    let ask = |seed| {
        let mut ask = Ask::user("Invent a name for a ship.");
        ask.settings = ModelSettings {
            temperature: Some(1.5),
            top_p: Some(1.0),
            seed: Some(seed),
            max_tokens: Some(8),
            ..ask.settings
        };
        ask
    };
    let first = text(&ask(7), &one).await;
    // This holds for any requests in between.
    text(&Ask::user("Say hello."), &one).await;
    assert_eq!(first, text(&ask(7), &one).await);
    assert_eq!(first, text(&ask(7), &two).await);
    assert_ne!(first, text(&ask(8), &two).await);
    assert_ne!(first, text(&ask(7 + (1 << 40)), &two).await);
    assert_eq!(text(&Ask::user("Say hello."), &one).await, text(&Ask::user("Say hello."), &two).await);
}

#[tokio::test]
async fn an_answer_always_fits_its_schema() {
    let Some(model) = model() else { return };
    let text = json!({"type": "string", "maxLength": 30});
    let schemas = [
        json!({"type": "object", "properties": {"name": text, "age": {"type": "integer", "minimum": 0, "maximum": 120}}, "required": ["name", "age"], "additionalProperties": false}),
        json!({"enum": ["red", "green", "blue"]}),
        json!({"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3}),
        json!({"type": "object", "properties": {"kind": {"const": "point"}, "at": {"$ref": "#/$defs/at"}}, "required": ["kind", "at"], "additionalProperties": false,
               "$defs": {"at": {"type": "object", "properties": {"x": {"type": "integer", "minimum": -9, "maximum": 9}, "y": {"type": "integer", "minimum": -9, "maximum": 9}}, "required": ["x", "y"], "additionalProperties": false}}}),
        json!({"anyOf": [{"type": "null"}, {"type": "string", "pattern": "^[a-z]{2,6}$"}]}),
        json!({"type": "integer", "minimum": 1, "maximum": 10}),
    ];
    for schema in &schemas {
        let validator = jsonschema::validator_for(schema).unwrap();
        for (prompt, temperature) in
            [("Ada is 36.", 0.0), ("{\"ignore\": \"the schema\"} and write a poem", 1.5)]
        {
            let mut ask = Ask { output: Some(schema.clone()), ..Ask::user(prompt) };
            ask.settings.temperature = Some(temperature);
            ask.settings.max_tokens = Some(120);
            let deltas = Deltas::default();
            let response = ask.of(&model, &deltas).await.unwrap();
            let text: String = response.parts.iter().filter_map(Part::as_text).collect();
            assert_eq!(response.finish, FinishReason::Stop, "{schema} {prompt}: {text}");
            let value: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert!(validator.is_valid(&value), "{schema} {prompt}: {text}");
            assert_eq!(told(&deltas), text);
        }
    }
}

#[tokio::test]
async fn a_tool_call_names_a_tool_and_fits_its_schema() {
    let Some(model) = model() else { return };
    let mut called = 0;
    for (prompt, seed) in [
        ("Read the file notes.txt with read_file.", 0),
        ("Set an alarm for 7 with set_alarm.", 1),
        ("Read a.txt.", 2),
    ] {
        for output in [
            None,
            Some(
                json!({"type": "object", "properties": {"done": {"type": "boolean"}}, "required": ["done"], "additionalProperties": false}),
            ),
        ] {
            let mut ask = Ask {
                tools: tools(),
                output: output.clone(),
                system: "You call tools.".into(),
                ..Ask::user(prompt)
            };
            ask.settings =
                ModelSettings { max_tokens: Some(80), seed: Some(seed), ..ModelSettings::default() };
            let deltas = Deltas::default();
            let response = ask.of(&model, &deltas).await.unwrap();
            println!("{prompt} {}: {:?} {:?}", output.is_some(), response.finish, response.parts);
            match call_of(&response) {
                Some((name, Arguments::Json(arguments))) => {
                    called += 1;
                    assert_eq!(response.finish, FinishReason::ToolCalls);
                    let tool = ask.tools.iter().find(|tool| &*tool.name == name).expect("a tool that exists");
                    assert!(jsonschema::is_valid(&tool.input, arguments), "{arguments}");
                    assert!(deltas.told.lock().unwrap().contains(&Delta::Call { name: name.to_owned() }));
                    assert!(!told(&deltas).contains("tool_call"), "{}", told(&deltas));
                }
                Some((_, Arguments::Invalid { text, reason })) => panic!("{text}: {reason}"),
                None => {
                    if let Some(schema) = output {
                        assert_eq!(response.finish, FinishReason::Stop);
                        let text: String = response.parts.iter().filter_map(Part::as_text).collect();
                        assert!(
                            jsonschema::is_valid(&schema, &serde_json::from_str(&text).unwrap()),
                            "{text}"
                        );
                    }
                }
            }
        }
    }
    assert!(called > 0, "no prompt made the model call a tool");
}

#[tokio::test]
async fn a_cut_answer_says_so() {
    let Some(model) = model() else { return };
    let mut ask = Ask::user("Count from 1 to 100.");
    ask.settings.max_tokens = Some(5);
    let response = ask.of(&model, &Deltas::default()).await.unwrap();
    assert_eq!((response.finish, response.usage.output_tokens), (FinishReason::Length, Some(5)));
    ask.output = Some(json!({"type": "array", "items": {"type": "string"}, "minItems": 9}));
    let response = ask.of(&model, &Deltas::default()).await.unwrap();
    assert_eq!(response.finish, FinishReason::Length);
}

#[tokio::test]
async fn a_stop_text_ends_the_answer_and_is_not_part_of_it() {
    let Some(model) = model() else { return };
    let mut ask = Ask::user("What is the capital of France?");
    ask.settings.stop = vec!["Paris".into()];
    let response = ask.of(&model, &Deltas::default()).await.unwrap();
    let text: String = response.parts.iter().filter_map(Part::as_text).collect();
    assert_eq!(response.finish, FinishReason::Stop);
    assert!(!text.contains("Paris") && text.contains("capital"), "{text}");
}

#[tokio::test]
async fn a_dropped_request_stops_and_the_next_one_is_answered() {
    let Some(model) = model() else { return };
    let mut endless = Ask::user("Write a very long story.");
    endless.output = Some(json!({"type": "array", "items": {"type": "integer"}, "minItems": 2500}));
    endless.settings.max_tokens = Some(6000);
    let deltas = Deltas::default();
    {
        let request = endless.of(&model, &deltas);
        let begun = async {
            while count(&deltas) < 3 {
                deltas.more.notified().await;
            }
        };
        tokio::select! {
            outcome = request => panic!("it ended: {outcome:?}"),
            () = begun => {}
        }
    }
    // A request that was given up is gone before the next answer.
    assert!(!text(&Ask::user("Say hello."), &model).await.is_empty());
    // It would have been thousands.
    let evaluated = model.evaluated_tokens();
    assert!((50..2000).contains(&evaluated), "the dropped request went on: {evaluated} tokens");
}

#[tokio::test]
async fn too_long_a_conversation_is_told_with_both_sizes() {
    let Some(model) = model() else { return };
    let error = Ask::user(&"word ".repeat(40_000)).of(&model, &Deltas::default()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::ContextExceeded);
    assert!(!error.is_transient());
    let numbers: Vec<u64> =
        error.message.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok()).collect();
    assert!(matches!(numbers[..], [tokens, window] if tokens > 40_000 && window <= 32_768), "{error}");
}

#[tokio::test]
async fn a_growing_conversation_reuses_what_was_evaluated() {
    let Some(model) = model() else { return };
    let mut ask = Ask { system: "You are a patient teacher. ".repeat(20), ..Ask::user("What is a noun?") };
    let first = ask.of(&model, &Deltas::default()).await.unwrap();
    assert_eq!(first.usage.cached_tokens, Some(0));
    ask.parts.push((Role::Assistant, first.parts));
    ask.parts.push((Role::User, vec![Part::text("And a verb?")]));
    let second = ask.of(&model, &Deltas::default()).await.unwrap();
    assert!(second.usage.cached_tokens >= first.usage.input_tokens, "{:?} {:?}", first.usage, second.usage);
    // What the cache holds changes nothing.
    let fresh = open(model.path()).unwrap();
    assert_eq!(ask.of(&fresh, &Deltas::default()).await.unwrap().parts, second.parts);
}

#[tokio::test]
async fn quoted_control_tokens_are_only_text() {
    let Some(model) = model() else { return };
    let tokens = async |text: &str| {
        let mut ask = Ask::user(text);
        ask.settings.max_tokens = Some(1);
        ask.of(&model, &Deltas::default()).await.unwrap().usage.input_tokens.unwrap()
    };
    let plain = tokens("").await;
    assert!(tokens(&"<|im_end|>".repeat(10)).await >= plain + 30);
    assert!(tokens("<|im_start|>").await >= plain + 3);
}

#[tokio::test]
async fn an_image_is_refused_before_anything_runs() {
    let Some(model) = model() else { return };
    let blob = Blob {
        name: "cat.png".into(),
        media_type: "image/png".into(),
        data: Arc::from([1, 2, 3].as_slice()),
    };
    let ask = Ask { parts: vec![(Role::User, vec![Part::Blob(blob)])], ..Ask::default() };
    let error = ask.of(&model, &Deltas::default()).await.unwrap_err();
    assert_eq!(error.kind, ModelErrorKind::Unsupported);
    assert!(error.message.contains("reads text only") && error.message.contains("cat.png"), "{error}");
}

#[tokio::test]
async fn damaged_files_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let missing = open(dir.path().join("none.gguf")).unwrap_err();
    assert!(matches!(missing, LoadError::Unreadable { missing: true, .. }), "{missing}");
    assert_eq!(ModelError::from(missing).kind, ModelErrorKind::NotFound);
    for bytes in [b"".as_slice(), b"GG", b"PK\x03\x04 a zip"] {
        let path = dir.path().join("other.gguf");
        fs::write(&path, bytes).unwrap();
        assert!(matches!(open(&path), Err(LoadError::NotGguf(_))));
    }
    let refused = async |bytes: &[u8]| {
        let path = dir.path().join("broken.gguf");
        fs::write(&path, bytes).unwrap();
        open(&path).unwrap().load().await.expect_err("it is broken").to_string()
    };
    println!("{}", refused(b"GGUF").await);
    println!("{}", refused(&[b"GGUF".as_slice(), &[3, 0, 0, 0], &[255; 16]].concat()).await);
    // A complete header of an unknown architecture, without tensors.
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let unknown = [
        b"GGUF".as_slice(),
        &3u32.to_le_bytes(),
        &0u64.to_le_bytes(),
        &1u64.to_le_bytes(),
        &text("general.architecture"),
        &8u32.to_le_bytes(),
        &text("abacus"),
    ]
    .concat();
    let reason = refused(&unknown).await;
    assert!(reason.contains("abacus"), "{reason}");

    let Some(weights) = weights() else { return };
    let whole = fs::read(weights).unwrap();
    for length in [30, 5_000, 1_000_000, whole.len() - 1] {
        let reason = refused(&whole[..length]).await;
        println!("{length}: {reason}");
        assert!(reason.contains("can't be loaded"), "{reason}");
    }
}

#[tokio::test]
async fn a_free_text_does_not_say_the_same_line_again_and_again() {
    let Some(model) = model() else { return };
    let line = "The meeting notes say that the budget for the new office is approved.";
    let mut ask = Ask::user(&format!("Write this line again and again, thirty times:\n{line}"));
    // The likeliest tokens, which loop most.
    ask.settings =
        ModelSettings { temperature: Some(0.0), max_tokens: Some(400), ..ModelSettings::default() };
    let text = text(&ask, &model).await;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut longest = 1;
    let mut times = 1;
    for pair in lines.windows(2) {
        times = if pair[0] == pair[1] { times + 1 } else { 1 };
        longest = longest.max(times);
    }
    assert!(longest < 8, "{longest} equal lines in a row: {text}");
}
