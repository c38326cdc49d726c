//! Prompts of servers in templates: `file("mcp:SERVER/PROMPT", ARGUMENT=…)` (docs/reference/mcp.md).

use super::{GRANT, SERVER, failure, output};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::fs;

/// Returns the prompts of the server.
fn served() -> Value {
    let said = |role: &str, text: &str| json!({"role": role, "content": {"type": "text", "text": text}});
    let day = json!([{"name": "day", "required": true}, {"name": "mood"}]);
    json!({"prompts": [
        {"name": "style", "messages": [said("user", "Write short sentences. {{ input }}")]},
        {"name": "standup", "arguments": day, "messages": [said("user", "Report on ARGUMENTS.")]},
        {"name": "talk", "messages": [said("user", "Hello."), said("assistant", "Hi.")]},
        {"name": "team/review", "messages": [said("user", "Review it.")]},
        {"name": "picture", "messages": [
            {"role": "user", "content": {"type": "image", "data": "aGk=", "mimeType": "image/png"}}]},
        {"name": "lost", "error": "the prompt was thrown away"},
    ]})
}

/// A project whose worker has the server `s` and these instructions.
fn project(instructions: &str) -> Scenario {
    let servers = json!({"s": {"command": "python3", "args": ["server.py"]}});
    let worker = json!({
        "model": "script:s.yaml",
        "parameters": {"day": "string?", "count": {"type": "integer", "default": 3}},
        "toolsets": {"mcp": {"servers": servers}},
        "sandbox": {"paths": {"app": "."}},
    });
    Scenario::new()
        .file("main.worker", &format!("---\n{worker}\n---\n{instructions}\n"))
        .file("s.yaml", "answers: [{text: done}]")
        .file("server.py", SERVER)
        .file("served.json", &served().to_string())
}

fn started(scenario: &Scenario) -> Value {
    let journal = scenario.journal();
    journal.into_iter().find(|record| record["kind"] == "conversation_started").expect("a conversation")
}

const PARAMETERS: &[&str] = &[".", "--grant", GRANT, "--param", "day=monday"];

#[test]
fn a_prompt_is_inserted_as_it_is() {
    let scenario = project(
        "{{ file('mcp:s/style') }}\n{{ file('mcp:s/standup', day=day, mood=count) }}\n\
         {{ file('mcp:s/standup', day='friday') }}\n{{ file('mcp:s/talk') }}\n{{ file('mcp:s/team/review') }}\n\
         {% set again = file('mcp:s/style') %}{{ again == file('mcp:s/style') }}",
    );
    let told = scenario.run(PARAMETERS);
    assert_eq!(told.code, Some(0), "{told}");
    let started = started(&scenario);
    assert_eq!(
        started["system"],
        "Write short sentences. {{ input }}\nReport on monday 3.\nReport on friday.\nUser: Hello.\n\n\
         Assistant: Hi.\nReview it.\nTrue"
    );
    assert_eq!(started["origin"], "untrusted", "{started}");
    assert_eq!(scenario.run(&["check"]).code, Some(0));

    // A replay starts no server: there is none any more.
    fs::remove_file(scenario.project().join("server.py")).expect("the server");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn a_resumed_run_fetches_no_prompt_again() {
    let scenario = project("{{ file('mcp:s/style') }}");
    let call = json!({"tool": "s__echo", "arguments": {"text": "hello"}});
    let script = json!({"answers": [{"when": {"turn": 0}, "calls": [call]}, {"text": "done"}]});
    fs::write(scenario.project().join("s.yaml"), script.to_string()).expect("the script");
    let suspended = scenario.run(&[".", "--grant", GRANT, "--approval", "defer"]);
    assert_eq!(suspended.code, Some(5), "{suspended}");
    fs::remove_file(scenario.project().join("served.json")).expect("what is served");
    let resumed = scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!((resumed.code, output(&scenario, 0)), (Some(0), json!("hello")), "{resumed}");
    assert_eq!(started(&scenario)["system"], "Write short sentences. {{ input }}");
}

#[test]
fn a_prompt_that_can_not_be_had_is_an_error_with_its_place() {
    for (inserted, said) in [
        ("file('mcp:s/nothing')", "it has no prompt `nothing`; it has: style, standup"),
        ("file('mcp:s/standup')", "the prompt needs the argument `day`"),
        ("file('mcp:s/standup', day=1, hour=2)", "the prompt has no argument `hour`; it has: day, mood"),
        ("file('mcp:s/style', day=1)", "the prompt takes no arguments"),
        ("file('mcp:s/picture')", "something that is no text"),
        ("file('mcp:s/lost')", "the prompt was thrown away"),
        ("file('mcp:s/standup', day=[1])", "`day` of `file()` must be a text"),
    ] {
        let scenario = project(&format!("Read this:\n{{{{ {inserted} }}}}"));
        let told = scenario.run(PARAMETERS);
        assert_ne!(told.code, Some(0), "{told}");
        assert!(told.stderr.contains(said) && told.stderr.contains("main.worker:5:"), "{inserted}: {told}");
    }
    let scenario = project("{{ file('mcp:s/style') }}");
    fs::remove_file(scenario.project().join("served.json")).expect("what is served");
    let told = scenario.run(PARAMETERS);
    assert!(told.stderr.contains("the MCP server `s`: it offers no prompts"), "{told}");
    fs::write(scenario.project().join("server.py"), "import sys; sys.exit('no licence')")
        .expect("the server");
    let told = scenario.run(PARAMETERS);
    assert!(told.stderr.contains("no licence"), "{told}");
}

#[test]
fn check_and_run_agree_about_names_of_prompts() {
    for (inserted, said) in [
        ("file('mcp:t/style')", "the worker has no MCP server `t`; it has: s"),
        ("file('mcp:style')", "a prompt is named `mcp:SERVER/PROMPT`"),
    ] {
        let scenario = project(&format!("{{{{ {inserted} }}}}"));
        for command in [&["check"][..], PARAMETERS] {
            let told = scenario.run(command);
            assert_eq!(told.code, Some(2), "{told}");
            assert!(told.to_string().contains(said), "{told}");
        }
    }
    let without = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\n---\n{{ file('mcp:s/style') }}\n")
        .file("s.yaml", "answers: [{text: done}]");
    for command in ["check", "."] {
        let told = without.run(&[command]);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.to_string().contains("`main` does not have the toolset `mcp`"), "{told}");
    }
    let computed = project("{{ file('mcp:' + day + '/style') }}");
    let told = computed.run(PARAMETERS);
    assert!(told.stderr.contains("the worker has no MCP server `monday`"), "{told}");
}

#[test]
fn a_callee_that_fails_by_a_prompt_returns_untrusted_words() {
    let scenario = project("{{ file('mcp:s/lost') }}");
    fs::create_dir(scenario.project().join("workers")).expect("a folder");
    let main = scenario.project().join("main.worker");
    fs::rename(&main, scenario.project().join("workers/child.worker")).expect("the child");
    fs::write(&main, "---\nmodel: script:m.yaml\nallow_workers: [child]\n---\nGo.\n").expect("the caller");
    let call = json!({"tool": "child", "arguments": {"day": "monday"}});
    let script = json!({"answers": [{"when": {"turn": 0}, "calls": [call]}, {"text": "done"}]});
    fs::write(scenario.project().join("m.yaml"), script.to_string()).expect("the script");
    let told = scenario.run(&[".", "--grant", GRANT]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(failure(&scenario, 0).contains("the prompt was thrown away"));
    let origins = super::ending(&scenario, 0)["origins"].clone();
    assert_eq!(origins[0]["origin"], "untrusted", "{origins}");
}
