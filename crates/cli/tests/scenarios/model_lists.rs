//! Lists of models: the next one answers in the place of one that is unavailable (`docs/guides/models.md`).

use crate::scenario::Scenario;
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::{Value, json};

/// A project with two providers at two servers.
fn project(first: &TestServer, second: &TestServer, model: &str) -> Scenario {
    Scenario::new()
        .env("OPENAI_BASE_URL", format!("{}/v1", first.url()))
        .env("OPENAI_API_KEY", "sk-first-0123456789")
        .env("ANTHROPIC_BASE_URL", second.url())
        .env("ANTHROPIC_API_KEY", "sk-second-0123456789")
        .file("project.yaml", "models: {fast: {model: \"anthropic:two\", settings: {temperature: 0.5}}}\n")
        .file(
            "main.worker",
            &format!(
                "---\nmodel: {model}\ntoolsets: [filesystem]\nreturns: {{said: string}}\n\
                 limits: {{request_retries: 0}}\n---\nWrite.\n"
            ),
        )
}

const ANSWER: &str = "{\"said\":\"done\"}";

#[test]
fn another_provider_finishes_what_one_has_begun() {
    let write = Reply::tool("write_file", json!({"path": "a.txt", "content": "a"}));
    let first = TestServer::start(Script::turns([write, Reply::status(503)]));
    let second = TestServer::start(Script::turns([Reply::tool("final_result", json!({"said": "done"}))]));
    let scenario = project(&first, &second, "[\"openai:one\", fast]");
    let told = scenario.run(&[".", "go", "--approval", "approve_all"]);
    assert_eq!((told.code, told.stdout.trim()), (Some(0), ANSWER), "{told}");
    assert!(told.stderr.contains("anthropic:two answers from here on"), "{told}");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
    // It gets the whole history and the settings of its own profile.
    let asked = &second.requests()[0].body;
    assert_eq!((asked["model"].as_str(), asked["temperature"].as_f64()), (Some("two"), Some(0.5)));
    assert!(asked["messages"].to_string().contains("a.txt"), "{asked}");
    assert!(first.requests()[0].body.get("temperature").is_none());

    let shown = scenario.run(&["runs", "show", "last", "--call", "0"]);
    assert!(shown.stdout.contains("anthropic:two answers from here on"), "{shown}");
    let exported = scenario.run(&["runs", "export", "--otel", "-", "last"]);
    let mut models: Vec<_> = exported.stdout.match_indices("\"chat one\"").collect();
    models.extend(exported.stdout.match_indices("\"chat two\""));
    models.sort_unstable();
    let models: Vec<&str> = models.into_iter().map(|(_, name)| name).collect();
    assert_eq!(models, ["\"chat one\"", "\"chat one\"", "\"chat two\""], "{exported}");
}

#[test]
fn a_model_without_a_key_is_left_out_and_reported() {
    let (first, second) =
        (TestServer::start(Script::turns([])), TestServer::start(Script::turns([Reply::text(ANSWER)])));
    let scenario = project(&first, &second, "[groq:one, fast]");
    let told = scenario.run(&[".", "go"]);
    assert_eq!((told.code, told.stdout.trim()), (Some(0), ANSWER), "{told}");
    assert!(
        told.stderr.contains("groq:one is left out of its list of models")
            && told.stderr.contains("GROQ_API_KEY"),
        "{told}"
    );
    // Alone, it is an error before anything is sent.
    let told = project(&first, &second, "[groq:one, \"xai:two\"]").run(&[".", "go"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("GROQ_API_KEY"), "{told}");
}

#[test]
fn mistakes_in_a_list_are_found_before_a_run() {
    let (first, second) = (TestServer::start(Script::turns([])), TestServer::start(Script::turns([])));
    for (model, said) in [
        ("[\"openai:one\", \"opnai:two\"]", "unknown provider `opnai`"),
        ("[\"openai:one\", quick]", "neither a model name nor one of the manifest's `models`"),
        ("[\"openai:one\", \"openai:one\"]", "is listed twice"),
        ("[]", "the list of models is empty"),
    ] {
        let scenario = project(&first, &second, model);
        for command in [&["check", "."][..], &[".", "go"]] {
            let told = scenario.run(command);
            assert_ne!(told.code, Some(0), "{model}: {told}");
            assert!(format!("{told}").contains(said), "{model}: {told}");
        }
    }
    assert!(first.requests().is_empty() && second.requests().is_empty());
}

#[test]
fn the_user_names_models_that_stand_in_everywhere() {
    let first = TestServer::start(Script::turns([Reply::status(503)]));
    let second = TestServer::start(Script::turns([Reply::text(ANSWER)]));
    let scenario = project(&first, &second, "\"openai:one\"")
        .home_file("config.yaml", "fallback: [\"anthropic:two\"]\n");
    let told = scenario.run(&[".", "go", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let told: Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(told["output"], json!({"said": "done"}));
}
