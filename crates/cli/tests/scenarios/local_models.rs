//! Local models (docs/guides/local-models.md), without downloading any.

use crate::{scenario::Scenario, terminal_session::Session};

fn greeter() -> Scenario {
    Scenario::new().file("x.worker", "---\n---\nHi.\n")
}

#[test]
fn missing_model_without_a_terminal_names_the_pull_command() {
    let told = greeter().run(&["x.worker", "hello"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("`llm-do models pull smollm2-135m-instruct`"), "{told}");
}

#[test]
fn missing_model_on_a_terminal_prompts_once() {
    let scenario = greeter();
    let mut session = Session::start(scenario.command_on_terminal(&["x.worker", "hello"]));
    session.expect("99 MB, licence Apache-2.0");
    session.expect("[y]es  [n]o ");
    session.wait_for_keys();
    session.type_keys("n");
    let (code, shown) = session.end();
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("llm-do models pull"), "{shown}");
}

#[test]
fn models_list_shows_which_models_are_installed() {
    let told = greeter().run(&["models", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(list["models"][0]["name"], "smollm2-135m-instruct");
    assert!(list["models"][0]["installed"].is_null(), "{told}");
    assert_eq!(greeter().run(&["models", "remove", "smollm2-135m-instruct"]).code, Some(2));
    let told = greeter().run(&["models", "pull", "smollm3"]);
    assert!(told.code == Some(2) && told.stderr.contains("smollm2-135m-instruct"), "{told}");
}

#[test]
fn missing_local_model_is_reported_before_the_run() {
    let told = greeter().run(&["x.worker", "hello", "--model", "local:smollm2-135m-instruct"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("llm-do models pull"), "{told}");
    let scenario = greeter().file("model.gguf", "no such format");
    let told = scenario.run(&["x.worker", "hello", "--model", "local:./model.gguf"]);
    assert!(told.code == Some(2) && told.stderr.contains("not a GGUF file"), "{told}");
}

#[test]
fn ctrl_c_at_the_pull_prompt_restores_the_terminal() {
    let scenario = greeter();
    let mut session = Session::start(scenario.command_on_terminal(&["x.worker", "hello"]));
    session.expect("[y]es  [n]o ");
    session.wait_for_keys();
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
}
