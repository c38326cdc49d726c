//! `examples/helpdesk`, served by the command of its README.

use super::client::{Client, Speaks};
use crate::{recorded_examples::copy, scenario::Scenario};
use serde_json::{Value, json};
use std::{fs, path::Path};

const MAIL: &str = "Invoice 4711 lists ten bees, and we ordered five.";

fn helpdesk() -> (Scenario, String) {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let readme = fs::read_to_string(examples.join("helpdesk/README.md")).expect("the README");
    let command =
        readme.lines().find_map(|line| line.strip_prefix("$ llm-do mcp serve ")).expect("a command");
    let scenario = Scenario::new().env("LLM_DO_MODEL", "script:examples/scripts/helpdesk.yaml");
    for part in ["helpdesk", "scripts"] {
        copy(&examples.join(part), &scenario.project().join("examples").join(part));
    }
    (scenario, command.to_owned())
}

fn reply() -> Value {
    json!({"name": "reply", "arguments": {"mail": MAIL, "name": "invoice-4711"}})
}

#[test]
fn helpdesk_sorts_a_mail_and_asks_before_it_writes_a_draft() {
    let (scenario, target) = helpdesk();
    let mut client = Client::start_at(&scenario, &target, &[], Speaks::Older { asks: true });
    let listed = client.ask("tools/list", json!({}));
    let names: Vec<&Value> =
        listed["result"]["tools"].as_array().into_iter().flatten().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["reply", "sorter"]);
    let sorted = client.call("sorter", json!({"mail": MAIL}));
    assert_eq!(sorted["structuredContent"], json!({"department": "billing", "urgent": false}));
    let id = client.send("tools/call", reply());
    let asked = client.asked();
    let message = asked["params"]["message"].as_str().expect("a text");
    for part in ["reply wants to call write_file", "We cancel invoice 4711"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    client.reply(&asked, &json!({"action": "accept", "content": {"decision": "approve"}}));
    let result = client.answer(id)["result"].take();
    assert!(result["structuredContent"]["draft"].to_string().contains("4711"), "{result}");
    client.leave(&scenario);
    let draft = scenario.read("examples/helpdesk/drafts/invoice-4711.md");
    assert!(draft.is_some_and(|draft| draft.contains("4711")));
}

#[test]
fn settings_of_each_client_start_the_server() {
    let (scenario, target) = helpdesk();
    let folder = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("a folder");
    let settings = scenario.project().join(&target).join("settings");
    for (client, at) in [
        ("claude-desktop", "/mcpServers/helpdesk"),
        ("cursor", "/mcpServers/helpdesk"),
        ("zed", "/context_servers/helpdesk"),
        ("vscode", ""),
    ] {
        let mut command = scenario.command_of(&settings);
        let path = format!("{}:/usr/bin:/bin", folder.display());
        let printed = command.arg(client).env("PATH", path).output().expect("the script starts");
        let settings: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
        let server = settings.pointer(at).unwrap_or_else(|| panic!("{client}: {settings}"));
        assert_eq!(server["command"], env!("CARGO_BIN_EXE_llm-do"), "{client}");
        let args: Vec<&str> =
            server["args"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let [mcp, serve, program] = args[..] else { panic!("{client}: {settings}") };
        assert_eq!((mcp, serve, Path::new(program).is_absolute()), ("mcp", "serve", true), "{client}");
        let mut client = Client::start_at(&scenario, program, &[], Speaks::Older { asks: false });
        assert!(client.ask("tools/list", json!({}))["result"].to_string().contains("sorter"));
        client.leave(&scenario);
    }
}

#[test]
fn helpdesk_writes_no_draft_for_a_client_that_cannot_ask() {
    let (scenario, target) = helpdesk();
    let mut client = Client::start_at(&scenario, &target, &[], Speaks::Older { asks: false });
    let result = client.ask("tools/call", reply())["result"].take();
    assert!(result.to_string().contains("refused"), "{result}");
    client.leave(&scenario);
    assert_eq!(scenario.read("examples/helpdesk/drafts/invoice-4711.md"), None);
}
