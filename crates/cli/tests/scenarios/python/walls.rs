//! Failures of ordinary code in a confined process: each failure names the key that permits the operation.

use super::fixture::{call, calling, failure, has_python, holds, succeed};
use crate::scenario::Scenario;

const TOOLS: &str = "\
import os, sqlite3, urllib.request

def resolves():
    return urllib.request.urlopen('http://example.org/').read().decode()

def relative():
    return open('notes.txt').read()

def declared():
    return open('/data/old.txt').read()

def database():
    sqlite3.connect('mail.db').execute('create table t(a)')

def readonly():
    sqlite3.connect('data/mail.db').execute('create table t(a)')

def variable():
    return os.environ['MAIL_TOKEN']

def other_key():
    return {}['MAIL_TOKEN']
";

const NAMES: [&str; 7] =
    ["resolves", "relative", "declared", "database", "readonly", "variable", "other_key"];

fn walls(mounts: &str) -> Scenario {
    let tools = TOOLS.replace("():\n", "() -> str:\n");
    let worker = format!(
        "---\nmodel: script:s.yaml\ntoolsets: [custom]\nsandbox: {{paths: {{{mounts}}}}}\n---\nGo.\n"
    );
    calling(&tools, &NAMES.map(call))
        .file("main.worker", &worker)
        .file("data/old.txt", "old")
        .file("project.yaml", "{}\n")
}

#[test]
fn common_walls_name_the_key_that_opens_them() {
    if !has_python() {
        return;
    }
    let scenario = walls("data: {root: ./data, mode: ro}");
    succeed(&scenario, &["."]);
    let told = |at: usize| failure(&scenario, &format!("0/{at}.0"));
    holds(&told(0), &["network_enabled: [HOST]", "--grant network=HOST"]);
    holds(
        &told(1),
        &["'notes.txt'", "the mounts of its worker (data, ro)", "data: {root: ./data, mode: rw}"],
    );
    holds(&told(2), &["In Python it is `data` in the working directory: open `data/old.txt`"]);
    assert!(!told(2).contains("Declare the place"), "it is declared: {}", told(2));
    for at in [3, 4] {
        holds(&told(at), &["unable to open database file", "mode: rw", "sqlite3.connect(\"data/NAME.db\")"]);
    }
    holds(&told(5), &["sandbox: {env: [MAIL_TOKEN]}", "--grant env=MAIL_TOKEN"]);
    assert!(!told(6).contains("--grant"), "{}", told(6));
}

/// The same code as the hints would have it.
#[test]
fn what_the_hints_name_opens_the_walls() {
    if !has_python() {
        return;
    }
    let scenario = walls("data: {root: ./data, mode: rw}")
        .env("MAIL_TOKEN", "token-0123456")
        .file(
            "tools.py",
            "import os, sqlite3\n\ndef f() -> str:\n    sqlite3.connect('data/mail.db').execute('create table t(a)')\n    return open('data/old.txt').read() + str(len(os.environ['MAIL_TOKEN']))\n",
        )
        .file("s.yaml", "answers:\n  - when: {turn: 0}\n    calls: [{tool: f}]\n  - text: '{{ last }}'\n");
    let worker = scenario
        .read("main.worker")
        .expect("a worker")
        .replace("sandbox: {", "sandbox: {env: [MAIL_TOKEN], ");
    let scenario = scenario.file("main.worker", &worker);
    let told = succeed(&scenario, &[".", "--grant", "env=MAIL_TOKEN"]);
    assert_eq!(told.stdout, "old13\n", "{told}");
}
