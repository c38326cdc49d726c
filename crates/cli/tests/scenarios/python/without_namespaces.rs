//! Tools without namespaces: tier B, which confines by Landlock alone (docs/reference/sandbox.md).

use super::fixture::{call, failure, has_python, holds, output, script};
use crate::scenario::{Finished, Scenario};
use serde_json::json;
use std::process::Command;

/// Runs the binary where namespaces cannot be created: in a namespace that forbids more of them. `None`, with a message,
/// where that is not possible. In CI it must be.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn without_namespaces(scenario: &Scenario, arguments: &[&str]) -> Option<Finished> {
    const LIMIT: &str = "echo 0 > /proc/sys/user/max_user_namespaces";
    let can = Command::new("unshare").args(["-Ur", "sh", "-c", LIMIT]).output();
    if !can.is_ok_and(|can| can.status.success()) {
        assert!(std::env::var_os("CI").is_none(), "CI can make namespaces");
        eprintln!("skipped: no namespace can be made here to run without namespaces in");
        return None;
    }
    let plain = scenario.command(arguments);
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", &format!("{LIMIT}; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = plain.get_current_dir() {
        command.current_dir(folder);
    }
    Some(scenario.finished(command.output().expect("it starts")))
}

const TOOLS: &str = "\
import os, socket
from pathlib import Path

def add(a: int, b: int) -> int:
    return a + b

def read(path: Path) -> str:
    return path.read_text()

def read_real(path: str) -> str:
    return open(path).read()

def write(path: str) -> str:
    open(path, 'w').write('x')
    return 'written'

def connect() -> str:
    socket.socket()
    return 'a socket'
";

#[test]
fn tools_are_confined_by_landlock_alone() {
    if !has_python() {
        return;
    }
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\n\
                  sandbox: {paths: {data: ./data, out: {root: ./out, mode: rw}}}\n---\nGo.\n";
    let scenario = Scenario::new();
    let real = |path: &str| scenario.project().join(path).display().to_string();
    let (secret, outside, out) = (real("private/key.txt"), real("new.txt"), real("out/new.txt"));
    let calls = [
        json!({"tool": "add", "arguments": {"a": 2, "b": 3}}),
        json!({"tool": "read", "arguments": {"path": "/data/a.txt"}}),
        json!({"tool": "read_real", "arguments": {"path": secret}}),
        json!({"tool": "write", "arguments": {"path": outside}}),
        json!({"tool": "write", "arguments": {"path": out}}),
        call("connect"),
    ];
    let scenario = scenario
        .file("main.worker", worker)
        .file("tools.py", TOOLS)
        .file("data/a.txt", "here")
        .file("private/key.txt", "secret")
        .file("s.yaml", &script(&calls));
    let Some(told) = without_namespaces(&scenario, &["."]) else { return };
    assert_eq!(told.code, Some(0), "{told}");
    let started = &scenario.journal()[0];
    assert_eq!(started["runtimes"][0]["confinement"], "landlock", "{started}");
    assert_eq!(output(&scenario, "0/0.0"), 5);
    assert_eq!(output(&scenario, "0/1.0"), "here");
    holds(&failure(&scenario, "0/2.0"), &["PermissionError", "sandbox.paths"]);
    holds(&failure(&scenario, "0/3.0"), &["PermissionError", "mode: rw"]);
    assert_eq!((scenario.read("new.txt"), scenario.read("out/new.txt")), (None, Some("x".to_owned())));
    holds(&failure(&scenario, "0/5.0"), &["PermissionError", "grant `network`"]);
}

#[test]
fn mount_with_hidden_files_is_not_visible_and_the_error_says_so() {
    if !has_python() {
        return;
    }
    let scenario = Scenario::new()
        .file("main.worker", super::fixture::WORKER)
        .file("tools.py", TOOLS)
        .file("notes.txt", "here")
        .file(".env", "KEY=1")
        .file("s.yaml", &script(&[json!({"tool": "read", "arguments": {"path": "/notes.txt"}})]));
    let Some(told) = without_namespaces(&scenario, &["."]) else { return };
    assert_eq!(told.code, Some(0), "{told}");
    holds(&failure(&scenario, "0/0.0"), &["/notes.txt", "Not given to processes: `/`"]);
}

#[test]
fn domain_list_is_refused_with_an_alternative() {
    if !has_python() {
        return;
    }
    let worker = "---\nmodel: script:s.yaml\ntoolsets: [custom]\nsandbox: {network_enabled: [example.org]}\n---\nGo.\n";
    let scenario = Scenario::new()
        .file("main.worker", worker)
        .file("tools.py", TOOLS)
        .file("s.yaml", &script(&[json!({"tool": "add", "arguments": {"a": 2, "b": 3}})]));
    let arguments = [".", "--approval", "approve_all", "--grant", "network=example.org"];
    let Some(told) = without_namespaces(&scenario, &arguments) else { return };
    assert_eq!(told.code, Some(0), "{told}");
    holds(&failure(&scenario, "0/0.0"), &["tier A", "network_enabled: true"]);
}
