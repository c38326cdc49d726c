//! Snapshots of requests, one file for each model. `UPDATE_EXPECT=1` writes them again.
//!
//! The first ones were compared with the requests that `genai` 0.7.2 made of the same conversations;
//! `docs/decisions.md` lists the differences.

use crate::conversations;
use llm_do_core::{
    call_path::CallPath,
    model::{ModelName, ModelRequest},
};
use llm_do_wire::{Dialect, Form, Wire};
use serde_json::{Map, Value, json};
use std::{env, fs, path::Path};

const MODELS: &[(&str, Wire, Dialect, &[&str])] = &[
    ("openai", Wire::OpenAi, Dialect::Own, &["gpt-4o", "gpt-5-mini"]),
    ("openai_resp", Wire::Responses, Dialect::Own, &["gpt-4o", "gpt-5-mini"]),
    (
        "anthropic",
        Wire::Anthropic,
        Dialect::Own,
        &["claude-sonnet-4-5", "claude-opus-4-5", "claude-opus-4-6", "claude-opus-4-8", "claude-sonnet-5"],
    ),
    ("gemini", Wire::Gemini, Dialect::Own, &["gemini-2.5-flash", "gemini-3-flash", "gemini-2.0-flash"]),
    ("vertex", Wire::Gemini, Dialect::Vertex, &["gemini-2.5-flash", "claude-sonnet-4-5"]),
    (
        "bedrock",
        Wire::Bedrock,
        Dialect::Own,
        &[
            "anthropic.claude-sonnet-4-5-20250929-v1:0",
            "us.anthropic.claude-opus-4-8",
            "us.amazon.nova-2-lite-v1:0",
            "openai.gpt-5.4",
        ],
    ),
    ("ollama", Wire::Ollama, Dialect::Own, &["qwen3"]),
    ("groq", Wire::OpenAi, Dialect::Compatible, &["llama-test"]),
    ("deepseek", Wire::OpenAi, Dialect::DeepSeek, &["deepseek-chat"]),
    ("mistral", Wire::OpenAi, Dialect::Mistral, &["mistral-medium"]),
    ("openrouter", Wire::OpenAi, Dialect::OpenRouter, &["anthropic/claude-sonnet-4.5"]),
    ("fireworks", Wire::OpenAi, Dialect::Fireworks, &["glm-5"]),
];

/// Returns the requests of all conversations, or the reason why there is none.
fn requests(form: &Form, provider: &str, model: &str) -> Value {
    let name: ModelName = format!("{provider}:{model}").parse().unwrap();
    let mut requests = Map::new();
    for it in conversations::all(provider) {
        let request = ModelRequest {
            conversation: &CallPath::root(),
            run: "run",
            worker: "w",
            purpose: Default::default(),
            turn: 0,
            model: &name,
            system: &it.system,
            messages: &it.messages,
            tools: &it.tools,
            server_tools: &it.server_tools,
            settings: &it.settings,
            output: it.output.as_ref(),
        };
        let mut refused = form.refused_settings(&it.settings);
        refused.extend(form.refused_server_tools(&it.server_tools));
        let sent = form.request(&request, true).map(|sent| {
            let body: Value = serde_json::from_slice(&sent.body).unwrap();
            let headers: Map<String, Value> =
                sent.headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
            let query = sent.query.map_or(String::new(), |(name, value)| format!("?{name}={value}"));
            json!({"path": format!("{}{query}", sent.path), "headers": headers, "refused": refused, "body": body})
        });
        requests.insert(it.name.to_owned(), sent.unwrap_or_else(|what| json!(what.0)));
    }
    Value::Object(requests)
}

/// Returns a file with a line for each conversation.
fn lines(requests: &Value) -> String {
    let line = |(name, request): (&String, &Value)| format!("{}: {request}", json!(name));
    let lines: Vec<String> = requests.as_object().unwrap().iter().map(line).collect();
    format!("{{\n{}\n}}\n", lines.join(",\n"))
}

#[test]
fn requests_are_as_they_were_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/bodies");
    for (provider, wire, dialect, models) in MODELS {
        for model in *models {
            let form = Form::new(*wire, *dialect, provider, model);
            let made = lines(&requests(&form, provider, model));
            let file = folder.join(format!("{provider}_{}.json", model.replace(['/', ':'], "-")));
            if env::var_os("UPDATE_EXPECT").is_some() {
                fs::write(&file, made).unwrap();
                continue;
            }
            let expected = fs::read_to_string(&file).unwrap_or_default();
            if made == expected {
                continue;
            }
            let (made, expected): (Value, Value) =
                (serde_json::from_str(&made).unwrap(), serde_json::from_str(&expected).unwrap_or_default());
            for (name, made) in made.as_object().unwrap() {
                assert_eq!(made, &expected[name], "{provider}:{model}, {name}; UPDATE_EXPECT=1 records it");
            }
            panic!("{}: UPDATE_EXPECT=1 records it", file.display());
        }
    }
}
