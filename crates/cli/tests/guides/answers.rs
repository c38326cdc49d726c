//! The hosted model of a page's reader: a loopback server with both wire formats that answers from `models/PAGE.jsonl`.
//!
//! Each line is an answer with conditions: `model`, `system`, `first` and `last` are texts that the model's name, the instructions,
//! the first and the last message contain, and `turn` is the turn of the conversation. The answer is a `text`, a typed value (`json`) or `calls`.

use llm_do_testserver::{Reply, Role, Script, Seen, TestServer};
use serde_json::Value;
use std::fs;

/// The tool with which a model gives a typed answer where a provider has no schemas.
const FINAL_TOOL: &str = "final_result";

/// Starts the server of this page, if it has answers.
pub(crate) fn server(name: &str) -> Option<TestServer> {
    let path = format!("{}/tests/guides/models/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(path).ok()?;
    let answers: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let route = move |seen: &Seen| match answers.iter().find(|answer| fits(answer, seen)) {
        Some(answer) => reply(answer, seen),
        None => Reply::status(400).body(format!(
            "no answer fits turn {}, instructions {:?}, message {:?}",
            seen.turn(),
            seen.system(),
            last(seen)
        )),
    };
    Some(TestServer::start(Script::route(route).unchecked()))
}

fn last(seen: &Seen) -> String {
    let Some(message) = seen.messages().last() else { return String::new() };
    match message.role {
        Role::Tool => {
            message.tool_results.iter().map(|result| result.text.as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => message.text.clone(),
    }
}

fn fits(answer: &Value, seen: &Seen) -> bool {
    let holds = |key: &str, text: &str| answer[key].as_str().is_none_or(|part| text.contains(part));
    let turn = answer["turn"].as_u64().is_none_or(|turn| turn == seen.turn() as u64);
    turn && holds("model", seen.model())
        && holds("system", seen.system())
        && holds("first", seen.first_user_text())
        && holds("last", &last(seen))
}

fn reply(answer: &Value, seen: &Seen) -> Reply {
    let reply = match (answer["text"].as_str(), &answer["json"]) {
        (Some(text), _) => Reply::text(text),
        (None, Value::Null) => Reply::empty(),
        (None, json) if seen.tool_names().contains(&FINAL_TOOL) => Reply::tool(FINAL_TOOL, json.clone()),
        (None, json) => Reply::text(json.to_string()),
    };
    let calls = answer["calls"].as_array().into_iter().flatten();
    calls
        .fold(reply, |reply, call| reply.and_tool(call[0].as_str().expect("a tool"), call[1].clone()))
        .usage(40, 20)
}
