//! `llm-do doctor`: missing things, their purpose, and the command that installs them.

use crate::scenario::Scenario;
use serde_json::Value;

fn finding(told: &str, what: &str) -> Value {
    let report: Value = serde_json::from_str(told).expect("JSON");
    let all = report["findings"].as_array().expect("findings").clone();
    all.into_iter().find(|finding| finding["what"] == what).unwrap_or_else(|| panic!("no {what}: {report}"))
}

#[test]
fn missing_things_have_a_reason_and_a_command() {
    let scenario = Scenario::new();
    let told = scenario.run(&["doctor", "--output", "json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let providers = finding(&told.stdout, "providers");
    assert_eq!(providers["state"], "missing", "{providers}");
    assert!(
        providers["command"].as_str().is_some_and(|it| it.starts_with("llm-do keys set anthropic")),
        "{providers}"
    );
    let told = scenario.run(&["doctor"]);
    assert!(told.stdout.contains("needed for hosted models"), "{told}");
    assert!(told.stdout.contains("$ llm-do keys set anthropic"), "{told}");

    let told = scenario.env("ANTHROPIC_API_KEY", "k-secret").run(&["doctor", "--output", "json"]);
    let providers = finding(&told.stdout, "providers");
    assert_eq!((&providers["state"], &providers["command"]), (&"ok".into(), &Value::Null));
    assert!(!told.stdout.contains("k-secret"), "{told}");
}

#[test]
fn every_finding_has_a_reason_and_a_state() {
    let told = Scenario::new().run(&["doctor", "--output", "json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("JSON");
    for finding in report["findings"].as_array().expect("findings") {
        assert!(
            finding["why"].as_str().is_some_and(|why| why.starts_with("for ") || why.starts_with("to ")),
            "{finding}"
        );
        assert_eq!(finding["works"] == true, finding["state"] == "ok", "{finding}");
    }
}

#[test]
fn programs_that_are_not_on_the_path_are_missing_with_their_command() {
    let told = Scenario::new().env("PATH", "/nowhere").run(&["doctor", "--output", "json"]);
    let npm = finding(&told.stdout, "npm");
    assert_eq!(npm["state"], "missing");
    assert!(npm["command"].as_str().is_some_and(|command| command.ends_with(" npm")), "{npm}");
}

#[test]
fn node_is_named_with_its_version_or_with_what_is_missing() {
    let told = Scenario::new().env("PATH", "/nowhere").run(&["doctor", "--output", "json"]);
    let node = finding(&told.stdout, "node");
    assert_eq!(node["state"], "missing", "{node}");
    assert!(node["found"].as_str().is_some_and(|it| it.contains("22.18 or newer")), "{node}");
    assert!(node["command"].as_str().is_some_and(|it| it.contains("LLM_DO_NODE")), "{node}");
    let Some(newer) = crate::typescript::node() else { return };
    let told =
        Scenario::new().env("LLM_DO_NODE", newer.display().to_string()).run(&["doctor", "--output", "json"]);
    let node = finding(&told.stdout, "node");
    assert_eq!(node["state"], "ok", "{node}");
    assert!(node["found"].as_str().is_some_and(|it| it.starts_with("Node 2")), "{node}");
}

#[test]
fn a_folder_that_cannot_be_written_is_found() {
    let scenario = Scenario::new().file("file", "not a folder");
    let told = scenario.run(&["doctor", "--output", "json"]);
    assert_eq!(finding(&told.stdout, "home")["state"], "ok");
    let told = scenario.env("LLM_DO_HOME", "/proc/llm-do").run(&["doctor", "--output", "json"]);
    let home = finding(&told.stdout, "home");
    assert!(home["state"] == "missing" && home["command"].as_str().is_some(), "{home}");
}

#[test]
fn the_default_model_is_that_of_a_run() {
    let default = |scenario: &Scenario| {
        finding(&scenario.run(&["doctor", "--output", "json"]).stdout, "default")["found"].clone()
    };
    let scenario = Scenario::new().home_file("config.yaml", "model: openai:of-config\n");
    assert_eq!(default(&scenario), "openai:of-config, since config.yaml names it");
    let scenario = scenario.env("OPENAI_API_KEY", "k").env("LLM_DO_MODEL", "mistral:of-variable");
    assert_eq!(default(&scenario), "mistral:of-variable, since LLM_DO_MODEL is set");
}

#[test]
fn broken_configuration_home_and_target_are_found() {
    let scenario = Scenario::new()
        .home_file("config.yaml", "modle: x\n")
        .file("broken/project.yaml", "format: [\n")
        .file("file", "not a folder");
    let told = scenario.run(&["doctor", "broken", "--output", "json"]);
    for what in ["config", "program"] {
        assert_eq!(finding(&told.stdout, what)["state"], "missing", "{told}");
    }
    assert!(
        finding(&told.stdout, "config")["found"].as_str().is_some_and(|it| it.contains("modle")),
        "{told}"
    );
    assert_eq!(scenario.run(&["doctor", "nonexistent"]).code, Some(2));
    let file = scenario.project().join("file").display().to_string();
    let told = scenario.env("LLM_DO_HOME", file).run(&["doctor", "--output", "json"]);
    assert_eq!(finding(&told.stdout, "home")["state"], "missing", "{told}");
}

#[test]
#[cfg(not(feature = "local"))]
fn build_without_local_models_names_the_one_with_them() {
    let scenario = Scenario::new().file("main.worker", "---\n---\nGo.\n");
    for arguments in [&["."][..], &["models", "list"], &["models", "pull"]] {
        let told = scenario.run(arguments);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains("`cargo install --locked --path crates/cli "), "{told}");
        assert!(!told.stderr.contains("models pull"), "{told}");
    }
}
