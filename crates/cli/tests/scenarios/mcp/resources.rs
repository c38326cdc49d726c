//! Resources of servers as files below `/mcp` (docs/reference/mcp.md).

use super::{GRANT, SERVER, failure, output};
use crate::scenario::{Finished, Scenario};
use serde_json::{Value, json};
use std::fs;

/// The file of the first resource.
const PLAN: &str = "/mcp/s/notes%3A%2F%2Ftoday%2Fplan.md";

/// Returns the resources of the server.
fn served() -> Value {
    json!({"resources": [
        {"uri": "notes://today/plan.md", "name": "plan", "size": 10,
            "contents": [{"uri": "notes://today/plan.md", "text": "Buy milk.\n"}]},
        {"uri": "image:1", "name": "image", "contents": [{"uri": "image:1", "blob": "iVBORw0KGgo="}]},
        {"uri": "parts:1", "name": "parts", "contents": [
            {"uri": "parts:1/a", "text": "first"}, {"uri": "parts:1/b", "text": "second"}]},
        {"uri": "gone:1", "name": "gone", "error": "it was thrown away"},
        {"uri": "empty:1", "name": "empty", "contents": [{"uri": "empty:1", "text": ""}]},
    ]})
}

fn calls(calls: &[(&str, Value)]) -> Value {
    let turns = calls.iter().enumerate();
    let call = |(tool, arguments): &(&str, Value)| json!({"tool": tool, "arguments": arguments});
    let mut answers: Vec<Value> =
        turns.map(|(turn, made)| json!({"when": {"turn": turn}, "calls": [call(made)]})).collect();
    answers.push(json!({"text": "done"}));
    json!({ "answers": answers })
}

fn read(path: &str) -> (&'static str, Value) {
    ("read_file", json!({ "path": path }))
}

/// A project whose worker sees the resources of the server `s`, and makes these calls.
fn project(resources: &Value, made: &[(&str, Value)]) -> Scenario {
    let servers = json!({"s": {"command": "python3", "args": ["server.py"]}});
    let worker = json!({
        "model": "script:s.yaml",
        "toolsets": {"filesystem": {}, "mcp": {"servers": servers, "resources": resources}},
        "sandbox": {"paths": {"app": ".", "out": {"root": "./out", "mode": "rw"}}},
    });
    Scenario::new()
        .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
        .file("s.yaml", &calls(made).to_string())
        .file("server.py", SERVER)
        .file("served.json", &served().to_string())
        .file("out/.keep", "")
}

fn granted(scenario: &Scenario) -> Finished {
    let told = scenario.run(&[".", "--grant", GRANT, "--allow", "copy_file", "--allow", "write_file"]);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

#[test]
fn resources_are_files_that_can_be_read() {
    let made = [
        ("list_files", json!({"path": "/mcp"})),
        read(PLAN),
        ("search_files", json!({"path": "/mcp/s", "pattern": "MILK|milk"})),
        read("/mcp/s/image%3A1"),
        read("/mcp/s/parts%3A1"),
        read("/mcp/s/empty%3A1"),
        ("file_info", json!({"path": PLAN})),
        ("file_exists", json!({"path": "/mcp/s/none%3A1"})),
        ("copy_file", json!({"source": "/mcp/s/image%3A1", "destination": "/out/image.png"})),
        ("list_files", json!({"path": "/mcp/s", "pattern": "*.md"})),
    ];
    let scenario = project(&json!(true), &made);
    granted(&scenario);
    assert_eq!(
        output(&scenario, 0),
        "/mcp/s/\n/mcp/s/empty%3A1\n/mcp/s/gone%3A1\n/mcp/s/image%3A1\n\
         /mcp/s/notes%3A%2F%2Ftoday%2Fplan.md  (10 bytes)\n/mcp/s/parts%3A1"
    );
    assert_eq!(output(&scenario, 1), "Buy milk.\n");
    let found = output(&scenario, 2);
    assert!(found.as_str().expect("a text").starts_with(&format!("{PLAN}:1: Buy milk.")), "{found}");
    let image = output(&scenario, 3);
    assert!(image.as_str().expect("a text").contains("PNG image, 8 bytes"), "{image}");
    assert_eq!(output(&scenario, 4), "parts:1/a:\nfirst\nparts:1/b:\nsecond\n");
    assert_eq!(output(&scenario, 5), "[`/mcp/s/empty%3A1` is empty.]");
    assert_eq!(output(&scenario, 6), json!({"path": PLAN, "kind": "file", "size": 10, "content": "text"}));
    assert_eq!(output(&scenario, 7), false);
    assert_eq!(fs::read(scenario.project().join("out/image.png")).expect("the copy"), b"\x89PNG\r\n\x1a\n");
    assert_eq!(output(&scenario, 9), format!("{PLAN}  (10 bytes)"));
    // Names and contents are the server's words; the folder's name is the program's.
    let origins = super::ending(&scenario, 0)["origins"].clone();
    assert_eq!(origins[0]["lines"], json!([2, 3, 4, 5, 6]), "{origins}");
    assert!(super::ending(&scenario, 1)["origins"].to_string().contains("untrusted"));

    // A replay starts no server: there is none any more.
    fs::remove_file(scenario.project().join("server.py")).expect("the server");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn a_resumed_run_reads_nothing_twice() {
    let scenario = project(&json!(true), &[read(PLAN)]);
    let suspended =
        scenario.run(&[".", "--grant", GRANT, "--approval", "defer", "--ask", "read_file(/mcp/s/*)"]);
    assert_eq!(suspended.code, Some(5), "{suspended}");
    let resumed = scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!((resumed.code, &output(&scenario, 0)), (Some(0), &json!("Buy milk.\n")), "{resumed}");

    let scenario = project(&json!(true), &[read(PLAN), ("delete_file", json!({"path": "/out/.keep"}))]);
    let suspended = scenario.run(&[".", "--grant", GRANT, "--approval", "defer"]);
    assert_eq!(suspended.code, Some(5), "{suspended}");
    fs::remove_file(scenario.project().join("served.json")).expect("what is served");
    let resumed = scenario.run(&["runs", "resume", "last", "--deny", "0/1.0"]);
    assert_eq!((resumed.code, &output(&scenario, 0)), (Some(0), &json!("Buy milk.\n")), "{resumed}");
}

#[test]
fn only_a_worker_that_asks_for_resources_sees_them() {
    for none in [json!(false), json!([]), json!(null)] {
        let scenario = project(&none, &[read(PLAN), ("list_files", json!({}))]);
        granted(&scenario);
        assert!(failure(&scenario, 0).contains("does not exist here"), "{none}");
        assert!(!output(&scenario, 1).to_string().contains("/mcp"), "{none}");
    }
    let scenario = project(&json!(["s"]), &[read(PLAN)]);
    granted(&scenario);
    assert_eq!(output(&scenario, 0), "Buy milk.\n");
    for (wrong, said) in
        [(json!(["t"]), "names the server `t`; the worker has: s"), (json!("s"), "resources")]
    {
        let scenario = project(&wrong, &[]);
        for command in [&["check"][..], &[".", "--grant", GRANT]] {
            let told = scenario.run(command);
            assert_eq!(told.code, Some(2), "{told}");
            assert!(told.to_string().contains(said), "{told}");
        }
    }
}

#[test]
fn faults_of_a_server_are_errors_of_the_call() {
    let made = [
        read("/mcp/s/gone%3A1"),
        read("/mcp/s/notes%3A%2F%2Ftoday%2Fplam.md"),
        read("/mcp/s"),
        ("write_file", json!({"path": "/mcp/s/new", "content": "x"})),
        read("/mcp/s/notes:%2F%2Ftoday%2Fplan.md"),
        read(PLAN),
    ];
    let scenario = project(&json!(true), &made);
    granted(&scenario);
    let gone = failure(&scenario, 0);
    assert!(gone.contains("the MCP server `s`") && gone.contains("it was thrown away"), "{gone}");
    assert!(failure(&scenario, 1).contains(&format!("Did you mean `{PLAN}`?")));
    assert!(failure(&scenario, 2).contains("is a folder"));
    assert!(failure(&scenario, 3).contains("the mount `/mcp/s` is `ro`"), "{}", failure(&scenario, 3));
    assert!(failure(&scenario, 4).contains("does not exist"), "a resource has one name");
    assert_eq!(output(&scenario, 5), "Buy milk.\n");
}

#[test]
fn a_resource_that_is_too_large_is_an_error() {
    let scenario = project(&json!(true), &[read("/mcp/s/large%3A1"), read(PLAN)]);
    let mut all = served();
    all["resources"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"uri": "large:1", "name": "l", "large": 100 << 20}));
    fs::write(scenario.project().join("served.json"), all.to_string()).expect("what is served");
    granted(&scenario);
    assert!(failure(&scenario, 0).contains("more than 32 MiB"), "{}", failure(&scenario, 0));
    assert_eq!(output(&scenario, 1), "Buy milk.\n", "the next call starts it again");
}

#[test]
fn a_server_without_resources_takes_no_files_down() {
    let made = [("list_files", json!({"path": "/mcp/s"})), ("list_files", json!({})), read("/app/out/.keep")];
    let scenario = project(&json!(true), &made);
    fs::remove_file(scenario.project().join("served.json")).expect("what is served");
    granted(&scenario);
    assert!(failure(&scenario, 0).contains("the MCP server `s`: it offers no resources"));
    let listed = output(&scenario, 1);
    let listed = listed.as_str().expect("a text");
    assert!(listed.contains("/app/main.worker"), "{listed}");
    assert!(
        listed.contains("[/mcp/s can't be listed:") && listed.contains("offers no resources"),
        "{listed}"
    );
    assert!(output(&scenario, 2).to_string().contains("is empty"));
}

#[test]
fn check_reports_resources_that_nothing_reads() {
    let servers = json!({"s": {"command": "python3", "args": ["server.py"]}});
    for (other, warnings) in [("workers", 1), ("filesystem", 0)] {
        let worker = json!({"model": "script:s.yaml",
            "toolsets": {other: {}, "mcp": {"servers": servers, "resources": true}}});
        let scenario = Scenario::new()
            .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
            .file("s.yaml", "answers: []")
            .file("server.py", SERVER);
        let told = scenario.run(&["check"]).to_string();
        assert_eq!(told.matches("sees `/mcp/s`, but has no tool or callee").count(), warnings, "{told}");
    }
}

/// A project whose worker calls `child`, a worker with these keys that reads the plan. Only `main` has the server.
fn with_child(child: &Value, arguments: &Value, made: &[(&str, Value)]) -> Scenario {
    let mut worker = json!({"model": "script:child.yaml", "toolsets": {"filesystem": {}}});
    for (key, value) in child.as_object().expect("keys") {
        worker[key] = value.clone();
    }
    let servers = json!({"s": {"command": "python3", "args": ["server.py"]}});
    let main = json!({
        "model": "script:s.yaml",
        "allow_workers": ["child"],
        "toolsets": {"mcp": {"servers": servers, "resources": true}},
    });
    Scenario::new()
        .file("main.worker", &format!("---\n{main}\n---\nGo.\n"))
        .file("workers/child.worker", &format!("---\n{worker}\n---\nRead.\n"))
        .file("s.yaml", &calls(&[("child", arguments.clone())]).to_string())
        .file("child.yaml", &calls(made).to_string())
        .file("server.py", SERVER)
        .file("served.json", &served().to_string())
        .file("own/mine.txt", "mine")
}

/// Returns the end of the child's first call.
fn of_child(scenario: &Scenario) -> String {
    let journal = scenario.journal();
    let ended = journal.iter().rfind(|record| {
        record["path"] == "0/0.0/0.0"
            && ["tool_ended", "call_ended"].contains(&record["kind"].as_str().unwrap_or(""))
    });
    ended.unwrap_or_else(|| panic!("the child's call in {journal:#?}"))["ending"].to_string()
}

#[test]
fn a_callee_sees_resources_of_its_caller_only_in_its_callers_view() {
    let input = json!({"input": "go"});
    for (child, sees) in [
        (json!({}), true),
        (json!({"sandbox": {"restrict": "/mcp/s"}}), true),
        (json!({"sandbox": {"restrict": "/own"}}), false),
        (json!({"sandbox": {"paths": {"own": "./own"}}}), false),
    ] {
        let scenario = with_child(&child, &input, &[read(PLAN)]);
        let checked = scenario.run(&["check"]);
        assert_eq!(checked.code, Some(0), "{checked}");
        assert!(!checked.to_string().contains("`restrict` names"), "{checked}");
        granted(&scenario);
        let ended = of_child(&scenario);
        assert_eq!(ended.contains("Buy milk."), sees, "{child}: {ended}");
    }
}

#[test]
fn a_resource_is_handed_over_as_an_attachment_or_a_path() {
    let attached = json!({"input": "go", "attachments": [PLAN]});
    let own = json!({"sandbox": {"paths": {"own": "./own"}}});
    let name = "/attachments/notes%3A%2F%2Ftoday%2Fplan.md";
    let scenario = with_child(&own, &attached, &[read(name)]);
    granted(&scenario);
    assert!(of_child(&scenario).contains("Buy milk."), "{}", of_child(&scenario));
    let started =
        scenario.journal().into_iter().filter(|record| record["kind"] == "conversation_started").nth(1);
    let started = started.expect("the child's conversation");
    assert!(started["message"].to_string().contains("Buy milk."), "{started}");
    assert_eq!(started["origin"], "untrusted", "{started}");

    let takes = json!({"parameters": {"dir": "path"}});
    for (given, path) in [("/mcp/s", "/dir/notes%3A%2F%2Ftoday%2Fplan.md"), (PLAN, "/dir")] {
        let scenario = with_child(&takes, &json!({ "dir": given }), &[read(path)]);
        granted(&scenario);
        assert!(of_child(&scenario).contains("Buy milk."), "{given}: {}", of_child(&scenario));
    }
    let missing = with_child(&own, &json!({"input": "go", "attachments": ["/mcp/s/none%3A1"]}), &[]);
    granted(&missing);
    assert!(failure(&missing, 0).contains("does not exist"), "{}", failure(&missing, 0));
    let lost = with_child(&own, &json!({"input": "go", "attachments": ["/mcp/s/gone%3A1"]}), &[]);
    granted(&lost);
    assert!(failure(&lost, 0).contains("it was thrown away"), "{}", failure(&lost, 0));
    let origins = super::ending(&lost, 0)["origins"].clone();
    assert_eq!(origins[0]["origin"], "untrusted", "{origins}");
}
