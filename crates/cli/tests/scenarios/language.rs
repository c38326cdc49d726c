//! Definitions of programs, as a run uses them: inputs that instructions print, model profiles, fixed arguments of callees,
//! commands with declared arguments, and rules about the content of arguments.

use crate::{
    python::fixture::has_python,
    scenario::{Finished, Scenario, script},
    wire_formats::{Way, project},
};
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::{Value, json};

fn succeed(scenario: &Scenario, arguments: &[&str]) -> Finished {
    let told = scenario.run(arguments);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// What each tool call of the run returned, or why it was not made.
fn results(scenario: &Scenario) -> Vec<Value> {
    let results = scenario.journal().into_iter().filter(|record| record["kind"] == "call_ended");
    let results = results.filter(|record| record["path"] != "0");
    results.map(|record| record["ending"].clone()).collect()
}

#[test]
fn an_input_that_the_instructions_print_is_sent_once() {
    const WORKER: &str = "---\nparameters: {text: string, words: integer, note: string?}\n---\n\
                          Sum up a text. Keep every number.\n\nIn {{ words }} words:\n\n{{ text }}\n";
    for way in [Way::OpenAi, Way::Anthropic] {
        let server = TestServer::start(Script::turns([Reply::text("a"), Reply::text("b")]));
        let scenario = project(&server, way).file("main.worker", WORKER);
        let texts = ["The river rose by 3 m.", "The bridge is closed."];
        for (text, words) in texts.iter().zip(["5", "9"]) {
            let text = format!("text={text}");
            succeed(&scenario, &[".", "--param", &text, "--param", &format!("words={words}"), "--param", "note=short"]);
        }
        let requests = server.requests();
        for (request, text) in requests.iter().zip(texts) {
            assert_eq!(request.system(), "Sum up a text. Keep every number.", "{way:?}");
            assert_eq!(request.body.to_string().matches(text).count(), 1, "{way:?}: {}", request.body);
            let first = request.first_user_text();
            assert!(first.contains("words:\n\n") && first.contains("\"note\": \"short\""), "{first}");
            assert!(!first.contains("\"words\""), "{first}");
        }
        server.assert_valid();
    }
}

#[test]
fn a_profile_gives_a_model_its_settings() {
    let server = TestServer::start(Script::turns([Reply::text("a"), Reply::text("b"), Reply::text("c")]));
    let manifest = format!(
        "providers: {{loop: {{base_url: \"{}/v1\", stream: false}}}}\nmodel: careful\n\
         models:\n  careful: {{model: \"loop:large\", settings: {{temperature: 0.5, seed: 7}}}}\n  \
         quick: {{model: \"loop:small\", settings: {{max_tokens: 50}}}}\n\
         model_settings: {{temperature: 0.25, top_p: 0.5}}\n",
        server.url()
    );
    let scenario = Scenario::new()
        .file("project.yaml", &manifest)
        .file("main.worker", "---\nmodel_settings: {seed: 9}\n---\nGo.\n")
        .file("workers/quick.worker", "---\nmodel: quick\n---\nGo.\n");
    let grant = format!("endpoint={}", server.url().trim_start_matches("http://"));
    for arguments in [
        &[".", "go"][..],
        &[".", "go", "--entry", "quick"],
        // Another model does not get the settings of the profile.
        &[".", "go", "--model", "loop:other"],
    ] {
        succeed(&scenario, &[arguments, &["--grant", &grant]].concat());
    }
    let sent: Vec<Value> = server.requests().iter().map(|request| request.body.clone()).collect();
    let of = |body: &Value| ["model", "temperature", "top_p", "seed"].map(|key| body[key].clone());
    assert_eq!(of(&sent[0]), [json!("large"), json!(0.5), json!(0.5), json!(9)]);
    assert_eq!(of(&sent[1]), [json!("small"), json!(0.25), json!(0.5), Value::Null]);
    assert_eq!(sent[1]["max_completion_tokens"].as_u64().or(sent[1]["max_tokens"].as_u64()), Some(50), "{}", sent[1]);
    assert_eq!(of(&sent[2]), [json!("other"), json!(0.25), json!(0.5), json!(9)]);
    let shown = succeed(&scenario, &["show", "main"]).stdout;
    assert!(shown.contains("temperature: 0.5") && shown.contains("project.yaml:4"), "{shown}");
    let wrong = Scenario::new()
        .file("project.yaml", "model: fats\nmodels: {fast: {model: \"openai:gpt-5-mini\"}, \"a:b\": {model: gpt}}\n")
        .file("main.worker", "Go.\n")
        .run(&["check", "."]);
    assert_eq!(wrong.code, Some(2));
    for part in ["did you mean `fast`?", "`a:b` can't be the name of a model profile"] {
        assert!(wrong.stdout.contains(part), "{wrong}");
    }
}

#[test]
fn a_caller_fixes_arguments_of_its_callee() {
    let calls = [
        Reply::tool("reviewer", json!({"text": "one"})),
        Reply::text("fine"),
        Reply::tool("reviewer", json!({"text": "two", "style": "mild"})),
        Reply::text("done"),
    ];
    let server = TestServer::start(Script::turns(calls));
    let scenario = project(&server, Way::OpenAi)
        .file("main.worker", "---\nallow_workers: [{name: reviewer, with: {style: strict}}]\n---\nGo.\n")
        .file("workers/reviewer.worker", "---\nparameters: {text: string, style: [strict, mild]}\n---\nReview.\n");
    succeed(&scenario, &["check", "."]);
    succeed(&scenario, &[".", "go"]);
    let requests = server.requests();
    let tool = requests[0].body["tools"][0].to_string();
    assert!(tool.contains("\"text\"") && !tool.contains("style"), "{tool}");
    assert!(requests[1].first_user_text().contains("\"style\": \"strict\""), "{}", requests[1].body);
    assert!(requests[3].last_user_text().is_empty() || requests.len() == 4);
    let refused = requests[3].tool_results().last().expect("a result").clone();
    assert!(format!("{refused:?}").contains("strict"), "{refused:?}");
    assert_eq!(requests.len(), 4, "the second call did not run");
    for (list, part) in [
        ("[{name: reviewer, with: {stile: strict}}]", "no parameter `stile`"),
        ("[{name: reviewer, with: {style: other}}]", "does not accept this value for `style`"),
        ("[{name: \"rev*\", with: {style: strict}}]", "is a pattern"),
        ("[reviewer, {name: reviewer, with: {style: strict}}]", "is listed twice"),
    ] {
        let scenario = scenario.file("main.worker", &format!("---\nallow_workers: {list}\n---\nGo.\n"));
        for arguments in [&["check", "."][..], &[".", "go"]] {
            let told = scenario.run(arguments);
            assert!(told.code == Some(2) && told.to_string().contains(part), "{list}: {told}");
        }
        return_if_last(list);
        break;
    }
}

fn return_if_last(_: &str) {}
