//! `llm-do keys`: keys of providers in a file of the user's, and `llm-do ask`, which needs no file.

use crate::{
    scenario::{Scenario, script},
    terminal_session::Session,
};
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt};

const KEY: &str = "sk-stored-0123456789";

fn stored(scenario: &Scenario, provider: &str) {
    let told = scenario.run_with_stdin(&["keys", "set", provider], &format!("{KEY}\n"));
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert!(!told.stderr.contains(KEY) && told.stderr.contains(".llm-do-keys.json"), "{told}");
}

#[test]
fn a_stored_key_is_used_listed_and_removed_and_never_shown() {
    let server = TestServer::start(Script::turns([Reply::text("forty-two"), Reply::text("again")]));
    let scenario = Scenario::new().env("OPENAI_BASE_URL", format!("{}/v1", server.url()));
    stored(&scenario, "openai");
    let file = scenario.home().join("home/.llm-do/.llm-do-keys.json");
    assert_eq!(fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);

    let told = scenario.run(&["ask", "What", "is it?"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "forty-two\n"), "{told}");
    assert!(told.stderr.contains("using openai:gpt-5-mini, because a key of openai is stored"), "{told}");
    assert_eq!(server.requests()[0].header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert!(server.requests()[0].body.to_string().contains("What is it?"));

    let listed = scenario.run(&["keys", "list", "--json"]);
    let keys: Value = serde_json::from_str(&listed.stdout).expect("JSON");
    assert_eq!(
        keys["keys"][0],
        json!({"provider": "openai, openai_resp", "variable": "OPENAI_API_KEY", "source": "file"})
    );
    let doctor = scenario.run(&["doctor"]);
    assert!(doctor.stdout.contains("openai (stored by `llm-do keys`)"), "{doctor}");
    assert!(!format!("{listed}{doctor}").contains(KEY));

    // The environment takes precedence.
    let scenario = scenario.env("OPENAI_API_KEY", "sk-environment-1");
    let told = scenario.run(&["ask", "-m", "openai:gpt-5-mini", "What?", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&told.stdout).expect("JSON")["output"], "again", "{told}");
    assert_eq!(server.requests()[1].header("authorization"), Some("Bearer sk-environment-1"));
    let told = scenario.run(&["keys", "list"]);
    assert!(told.stdout.contains("not used: the environment has a key"), "{told}");

    let told = scenario.run(&["keys", "remove", "openai"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!file.exists() && told.stderr.contains("OPENAI_API_KEY still holds a key"), "{told}");
    assert_eq!(scenario.run(&["keys", "remove", "openai"]).code, Some(2));
}

#[test]
fn a_key_that_can_not_be_one_is_refused() {
    let scenario = Scenario::new();
    for (provider, key, said) in [
        ("openai", "", "the key is empty"),
        ("openai", "short\n", "shorter than 8 bytes"),
        ("openai", "two words here\n", "white space"),
        ("opneai", "sk-0123456789\n", "did you mean `openai`?"),
        ("ollama", "sk-0123456789\n", "takes no key"),
    ] {
        let told = scenario.run_with_stdin(&["keys", "set", provider], key);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains(said), "{told}");
    }
    assert!(!scenario.home().join("home/.llm-do/.llm-do-keys.json").exists());
    // A key is no argument: other users see those.
    assert_eq!(scenario.run(&["keys", "set", "openai", "sk-0123456789"]).code, Some(2));
    let missing = scenario.run(&["ask", "-m", "anthropic:claude-haiku-4-5", "hello"]);
    assert!(missing.stderr.contains("`llm-do keys set anthropic` stores one"), "{missing}");
}

#[test]
fn a_key_that_is_typed_is_not_shown() {
    let scenario = Scenario::new();
    let mut session = Session::start(scenario.command_on_terminal(&["keys", "set", "anthropic"]));
    session.expect("Key of anthropic (not shown): ");
    session.wait_for_keys();
    session.type_keys(&format!("wrong\u{15}{KEY}x\u{7f}\r"));
    let (code, shown) = session.end();
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("sk-"), "{shown}");
    let stored =
        fs::read_to_string(scenario.home().join("home/.llm-do/.llm-do-keys.json")).expect("the file");
    assert!(stored.contains(&format!("\"{KEY}\"")), "{stored}");

    let mut session = Session::start(scenario.command_on_terminal(&["keys", "set", "openai"]));
    session.expect("not shown");
    session.wait_for_keys();
    session.type_keys("sk-012345\u{3}");
    let (code, shown) = session.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("nothing is stored"), "{shown}");
}

/// The key must stay out of code, of files that workers read, of journals and of outputs.
#[test]
fn a_stored_key_reaches_no_tool_and_no_record() {
    let scenario = Scenario::new();
    stored(&scenario, "openai");
    let home = scenario.home().join("home/.llm-do").display().to_string();
    let grant = format!("{home}:ro");
    let scenario = scenario
        .file(
            "main.worker",
            &format!(
                "---\nmodel: script:s.yaml\ntoolsets: [filesystem, custom]\nsandbox:\n  paths:\n    own: {{root: {home}, mode: ro}}\n---\nGo.\n"
            ),
        )
        .file(
            "tools.py",
            "import os\n\ndef leak(path: str) -> str:\n    \"\"\"Tells what it can find.\"\"\"\n    try:\n        text = open('/own/.llm-do-keys.json').read()\n    except OSError as error:\n        text = str(error)\n    return text + str(dict(os.environ)) + str(os.listdir('/own'))\n",
        )
        .file(
            "s.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [
                    {"tool": "read_file", "arguments": {"path": "own/.llm-do-keys.json"}},
                    {"tool": "list_files", "arguments": {"path": "own"}},
                    {"tool": "leak", "arguments": {"path": "x"}},
                ]}),
                // A model that has got it from elsewhere.
                json!({"text": format!("the key is {KEY}")}),
            ]),
        );
    let told =
        scenario.run(&[".", "--grant", &grant, "--approval", "approve_all", "--output", "stream-json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let journal = serde_json::to_string(&scenario.journal()).expect("JSON");
    for text in [&told.stdout, &told.stderr, &journal] {
        assert!(!text.contains(KEY), "{told}");
    }
    assert!(journal.contains("the key is [secret OPENAI_API_KEY]"), "{journal}");
    assert!(!journal.contains("llm-do-keys.json\\n") && journal.contains("tool_started"), "{journal}");
}

#[test]
fn a_file_of_keys_that_others_may_read_is_refused() {
    let scenario = Scenario::new();
    stored(&scenario, "openai");
    let file = scenario.home().join("home/.llm-do/.llm-do-keys.json");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode");
    let told = scenario.run(&["ask", "-m", "openai:gpt-5-mini", "hello"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("other users may read it; run `chmod 600`"), "{told}");
    assert!(scenario.run(&["doctor"]).stdout.contains("other users may read it"));
}

#[test]
fn ask_takes_its_prompt_from_standard_input_and_is_recorded() {
    let server = TestServer::start(Script::turns([Reply::text("one"), Reply::text("two")]));
    let scenario = Scenario::new()
        .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
        .env("OPENAI_API_KEY", "sk-environment-1");
    let told = scenario.run_with_stdin(&["ask", "-o", "answer.txt"], "only this");
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), ""), "{told}");
    assert_eq!(scenario.read("answer.txt").as_deref(), Some("one\n"));
    let told = scenario.run_with_stdin(&["ask", "first"], "and this");
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "two\n"), "{told}");
    let asked = server.requests()[1].body.to_string();
    assert!(asked.contains("first\\n\\nand this"), "{asked}");
    assert!(asked.find("tools").is_none(), "{asked}");
    let journal = scenario.journal_of_home();
    assert!(journal.iter().any(|record| record["kind"] == "run_ended"));
    let shown = scenario.run(&["runs", "show", "last"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("ask"), "{shown}");
}
