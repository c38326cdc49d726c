//! MCP servers of an editor, in a session with a program.

use crate::{
    editor::{Editor, chosen},
    mcp_serve::http::Listening,
    scenario::{Scenario, script},
};
use serde_json::{Value, json};
use std::{fs, io::Read as _};

/// The server, which `server.py` implements.
const SERVER: &str = include_str!("mcp/server.py");

const SECRET: &str = "token-of-the-editor-4711";

/// A project whose entry lists these servers, makes these calls, one in a turn, and has a helper without any servers. The
/// editor's server is in a folder of its own.
fn project(listed: &Value, calls: &[Value]) -> Scenario {
    let mut answers: Vec<Value> = calls.iter().map(|call| json!({"calls": [call]})).collect();
    for (turn, answer) in answers.iter_mut().enumerate() {
        answer["when"] = json!({"turn": turn});
    }
    answers.push(json!({"text": "done"}));
    let head = json!({"model": "script:s.yaml", "toolsets": {"mcp": listed}, "allow_workers": ["helper"]});
    let scenario = Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", &format!("---\n{head}\n---\nUse your tools.\n"))
        .file("s.yaml", &script(&answers))
        .file("workers/helper.worker", "---\nmodel: script:h.yaml\ntoolsets: [filesystem]\n---\nHelp.\n")
        .file("h.yaml", "answers:\n  - text: helped\n");
    let servers = scenario.home().join("servers");
    fs::create_dir(&servers).expect("a folder");
    fs::write(servers.join("server.py"), SERVER).expect("the server");
    scenario
}

/// The editor's server, as the protocol names it.
fn notes(scenario: &Scenario) -> Value {
    let script = scenario.home().join("servers/server.py");
    json!({
        "name": "my notes", "command": "/usr/bin/python3", "args": [script],
        "env": [{"name": "API_TOKEN", "value": SECRET}],
    })
}

fn call(tool: &str, arguments: Value) -> Value {
    json!({"tool": format!("client-my-notes__{tool}"), "arguments": arguments})
}

fn code(code: &str) -> Value {
    call("run", json!({"code": code}))
}

fn start(scenario: &Scenario, arguments: &[&str]) -> Editor {
    Editor::start(scenario.command(&[&["acp"], arguments].concat()))
}

fn opened(editor: &mut Editor, scenario: &Scenario, servers: &Value) -> String {
    let opened = editor.ask("session/new", json!({"cwd": scenario.project(), "mcpServers": servers}));
    opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
}

/// The outputs of the tools, in order.
fn outputs(scenario: &Scenario) -> Vec<String> {
    let journal = scenario.journal();
    let ended = journal.iter().filter(|record| record["kind"] == "tool_ended");
    ended.map(|record| record["ending"]["output"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Returns the agent's log.
fn log(mut editor: Editor) -> String {
    let stderr = editor.child.stderr.take();
    assert_eq!(editor.leave(), Some(0));
    let mut log = String::new();
    stderr.expect("a pipe").read_to_string(&mut log).expect("text");
    log
}

#[test]
fn worker_that_lists_client_gets_the_servers_of_the_editor_and_each_call_asks() {
    let own = "result = os.environ['API_TOKEN'][:5] + ' ' + str(len(os.environ['API_TOKEN']))";
    let calls = [call("echo", json!({"text": "hello"})), code(own), code("result = os.environ['API_TOKEN']")];
    let scenario = project(&json!(["client"]), &calls);
    let mut editor = start(&scenario, &[]);
    let servers = json!([notes(&scenario)]);
    let session = opened(&mut editor, &scenario, &servers);
    let turn = editor.prompt(&session, "go");
    let mut titles = Vec::new();
    for _ in &calls {
        let asked = editor.permission();
        titles.push(asked["params"]["toolCall"]["title"].to_string());
        editor.respond(&asked, chosen("allow"));
    }
    assert_eq!(editor.response(turn)["result"]["stopReason"], "end_turn");
    assert!(titles[0].contains("client-my-notes:echo"), "{titles:?}");
    let outputs = outputs(&scenario);
    assert_eq!(outputs[..2], ["hello".to_owned(), format!("token {}", SECRET.len())]);
    let run = scenario.runs().pop().expect("a run");
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    assert!(!journal.contains(SECRET), "the value of the variable is in a record: {}", outputs[2]);
    let log = log(editor);
    assert!(!log.contains("not used"), "{log}");
}

#[test]
fn server_of_the_editor_is_confined_and_reads_its_own_files() {
    let calls = [
        code("result = len(open(sys.argv[0]).read()) > 100"),
        code("open(sys.argv[0], 'a').write('x')"),
        code("result = open(os.path.join(os.path.dirname(sys.argv[0]), '..', 'canary.txt')).read()"),
        code("result = os.listdir(os.path.join(os.path.dirname(sys.argv[0]), '..', 'home', '.llm-do'))"),
        code("socket.create_connection(('127.0.0.1', 9))"),
        code("result = os.getcwd()"),
    ];
    let scenario = project(&json!(["client"]), &calls);
    fs::write(scenario.home().join("canary.txt"), "canary").expect("a file");
    let mut editor = start(&scenario, &["--approval", "approve_all"]);
    let servers = json!([notes(&scenario)]);
    let session = opened(&mut editor, &scenario, &servers);
    assert_eq!(editor.say(&session, "go"), "end_turn");
    let outputs = outputs(&scenario);
    assert_eq!(outputs[0], "True");
    for (at, output) in outputs.iter().enumerate().skip(1).take(4) {
        assert!(output.contains("Error"), "{at}: {output}");
    }
    let script = fs::read_to_string(scenario.home().join("servers/server.py"));
    assert_eq!(script.expect("the server"), SERVER);
}

#[test]
fn other_workers_get_nothing_of_the_editors_servers() {
    let helper = json!({"tool": "helper", "arguments": {"input": "go"}});
    for (listed, calls, uses) in
        [(json!(["client"]), vec![helper], true), (json!({"servers": {}}), Vec::new(), false)]
    {
        let scenario = project(&listed, &calls);
        let mut editor = start(&scenario, &[]);
        let servers = json!([notes(&scenario)]);
        let session = opened(&mut editor, &scenario, &servers);
        assert_eq!(editor.say(&session, "go"), "end_turn");
        let journal = scenario.journal();
        let begun = journal.iter().filter(|record| record["kind"] == "conversation_started");
        let tools: Vec<String> = begun.map(|record| record["tools"].to_string()).collect();
        assert_eq!(tools[0].contains("client-my-notes"), uses, "{tools:?}");
        assert!(tools[1..].iter().all(|tools| !tools.contains("client-")), "{tools:?}");
        let log = log(editor);
        assert_eq!(log.contains("MCP servers of the editor are not used"), !uses, "{log}");
    }
}

#[test]
fn loaded_session_gets_the_servers_that_the_editor_has_then() {
    let calls = [call("echo", json!({"text": "one"})), call("echo", json!({"text": "two"}))];
    let scenario = project(&json!(["client"]), &calls).file(
        "s.yaml",
        &script(&[
            json!({"when": {"turn": 0}, "calls": [calls[0]]}),
            json!({"when": {"turn": 1}, "text": "first"}),
            json!({"when": {"turn": 2}, "calls": [calls[1]]}),
            json!({"text": "second"}),
        ]),
    );
    for (with_servers, second) in [(true, "two"), (false, "the client of this session has not passed it on")]
    {
        let mut editor = start(&scenario, &["--approval", "approve_all"]);
        let servers = json!([notes(&scenario)]);
        let session = opened(&mut editor, &scenario, &servers);
        assert_eq!(editor.say(&session, "go"), "end_turn");
        assert_eq!(editor.leave(), Some(0));
        let mut editor = start(&scenario, &[]);
        let servers = if with_servers { servers } else { json!([]) };
        let load = json!({"sessionId": session, "cwd": scenario.project(), "mcpServers": servers});
        let loaded = editor.ask("session/load", load);
        assert!(loaded.get("error").is_none(), "{loaded}");
        assert_eq!(editor.say(&session, "again"), "end_turn");
        let journal = scenario.journal();
        let ended = journal.iter().rfind(|record| record["kind"] == "tool_ended").expect("a call");
        assert!(ended["ending"].to_string().contains(second), "{ended}");
        assert_eq!(editor.leave(), Some(0));
    }
}

#[test]
fn server_over_http_is_reached_with_the_headers_of_the_editor() {
    let other = Scenario::new()
        .file("project.yaml", "name: other\nversion: 1.0.0\nexports: [greeter]\nmodel: script:s.yaml\n")
        .file("workers/greeter.worker", "---\nparameters: {name: string}\n---\nGreet {{ name }}.\n")
        .file("s.yaml", "answers:\n  - text: Hello!\n");
    let http = Listening::start(&other);
    let greet = json!({"tool": "client-other__greeter", "arguments": {"name": "Ada"}});
    let scenario = project(&json!(["client"]), &[greet]);
    let mut editor = start(&scenario, &["--approval", "approve_all"]);
    let authorization = format!("Bearer {}", http.token);
    let servers = json!([{
        "type": "http", "name": "other", "url": format!("http://{}/mcp", http.address),
        "headers": [{"name": "Authorization", "value": authorization}],
    }]);
    let session = opened(&mut editor, &scenario, &servers);
    assert_eq!(editor.say(&session, "go"), "end_turn");
    assert_eq!(outputs(&scenario), ["Hello!"]);
    let run = scenario.runs().pop().expect("a run");
    let journal = fs::read_to_string(run.join("journal.jsonl")).expect("a journal");
    assert!(!journal.contains(&http.token), "the token is in a record");
    assert_eq!(editor.leave(), Some(0));
    http.stop();
}

#[test]
fn unusable_servers_are_errors_that_say_why() {
    let scenario = project(&json!(["client"]), &[]);
    let mut editor = start(&scenario, &[]);
    let stdio = |name: &str, command: &str, env: Value| json!({"name": name, "command": command, "args": [], "env": env});
    let sse = json!({"type": "sse", "name": "old", "url": "https://example.org/sse", "headers": []});
    let twins = [stdio("a", "/bin/true", json!([])), stdio("a", "/bin/false", json!([]))];
    for (servers, says) in [
        (json!([sse]), "`old` uses SSE; llm-do supports stdio and streamable HTTP"),
        (json!([stdio("rel", "bin/server", json!([]))]), "`bin/server` is a relative path"),
        (
            json!([stdio("pre", "/bin/true", json!([{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]))]),
            "it sets LD_PRELOAD",
        ),
        (
            json!([stdio("var", "/bin/true", json!([{"name": "A", "value": "${OPENAI_API_KEY}"}]))]),
            "variables are the client's to fill in",
        ),
        (json!(twins), "another one has the name"),
    ] {
        for (method, session) in
            [("session/new", Value::Null), ("session/load", json!("20200101-000000-0000"))]
        {
            let request = json!({"cwd": scenario.project(), "mcpServers": servers, "sessionId": session});
            let refused = editor.ask(method, request);
            let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
            assert!(message.contains(says), "{says}: {message}");
        }
    }
    assert!(scenario.runs().is_empty());
    assert_eq!(editor.leave(), Some(0));
}

#[test]
fn check_knows_client_and_reserves_its_names() {
    let scenario = project(&json!({"servers": ["client"], "tools": ["client-my-notes:echo"]}), &[]);
    let told = scenario.run(&["check"]);
    assert_eq!(told.code, Some(0), "{told}");
    assert!(!told.stderr.contains("client-my-notes"), "{told}");
    for name in ["client", "client-x"] {
        let server = json!({name: {"command": "x"}});
        for (manifest, listed) in [
            (format!("entry: main\nmcp_servers: {server}\n"), json!([])),
            ("entry: main\n".to_owned(), json!({"servers": server})),
        ] {
            let scenario = project(&listed, &[]).file("project.yaml", &manifest);
            let told = scenario.run(&["check"]);
            let says = format!("`{name}` can't be the name of the program's own MCP server");
            assert_ne!(told.code, Some(0), "{told}");
            assert!(format!("{told}").contains(&says), "{told}");
        }
    }
}
