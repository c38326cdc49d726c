//! A program whose calls are made by Python code: a function that takes a `ToolContext`, a worker that is code, and plain
//! functions that they call. The functions run in different processes and share `ctx.state`.

use llm_do_sandbox::confine;
use serde_json::{Value, json};
use std::path::Path;

pub(crate) const FILES: &[(&str, &str)] = &[
    ("project.yaml", "name: code\nsandbox: {paths: {notes: {root: notes, mode: rw}}}\n"),
    ("notes/a.txt", "alpha"),
    (
        "main.worker",
        "---\nallow_workers: [flow]\ntoolsets: {filesystem: {}, custom: {}}\n\
         limits: {max_tokens: 900000, max_tool_calls: 60}\n---\nLead.\n",
    ),
    ("workers/flow.worker", "---\nparameters: {topic: string}\ncode: flow.py:flow\n---\n"),
    ("workers/talker.worker", "---\n---\nTalk about {{ input }}.\n"),
    (
        "workers/flow.py",
        "from llm_do import ToolContext\n\n\
         def flow(ctx: ToolContext, topic: str) -> list:\n    \
             ctx.state.set('topics', ctx.state.get('topics', []) + [topic])\n    \
             return ctx.call_all([('talker', topic), ('talker', topic)])\n",
    ),
    (
        "tools.py",
        r#"
from llm_do import CallError, ToolContext

def count(words: str) -> int:
    """Counts."""
    return len(words.split())

def gather(ctx: ToolContext, topic: str) -> dict:
    """Asks workers, reads a file and counts."""
    ctx.state.set("topics", ["first"])
    number = ctx.step("take a number", lambda: 7)
    said = ctx.call_all([("talker", topic), ("flow", {"topic": topic})])
    note = ctx.call_tool("read_file", path="/notes/a.txt")
    ctx.log("gathered")
    return {"number": number, "said": said, "note": note, "count": ctx.call_tool("count", words=topic)}

def topics(ctx: ToolContext) -> list:
    """Lists what the workflows were about."""
    return ctx.state.get("topics")

def fail(ctx: ToolContext) -> str:
    """Makes a call that fails, and fails."""
    try:
        ctx.call("read_file", path="/notes/none.txt")
    except CallError as error:
        raise ValueError(f"nothing to read: {error.kind}")
"#,
    ),
];

pub(crate) fn script() -> Value {
    json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": [
            {"tool": "gather", "arguments": {"topic": "two words"}},
        ]},
        {"when": {"worker": "main", "turn": 1}, "calls": [
            {"tool": "flow", "arguments": {"topic": "bees"}},
            {"tool": "fail", "arguments": {}},
            {"tool": "count", "arguments": {"words": "a b c"}},
        ]},
        {"when": {"worker": "main", "turn": 2}, "calls": [{"tool": "topics", "arguments": {}}]},
        {"when": {"worker": "main"}, "text": "All is done."},
        {"when": {"worker": "talker"}, "text": "talked"},
    ]})
}

/// Returns the output of each call of code, by its path. One call fails.
pub(crate) fn outputs() -> [(&'static str, Value); 5] {
    let gathered =
        json!({"number": 7, "said": ["talked", ["talked", "talked"]], "note": "alpha", "count": 2});
    [
        ("0/0.0", gathered),
        ("0/1.0", json!(["talked", "talked"])),
        ("0/1.1", Value::Null),
        ("0/1.2", json!(3)),
        ("0/2.0", json!(["first", "two words", "bees"])),
    ]
}

/// Lets this process start confined ones. A test binary can't supervise them itself.
pub(crate) fn install_supervisor() {
    // Cargo puts the examples beside the folder of the test binary.
    let tests = std::env::current_exe().unwrap();
    let supervisor = tests.parent().unwrap().with_file_name("examples").join("call_supervisor");
    assert!(supervisor.is_file(), "`cargo build -p llm-do --examples` makes {}", supervisor.display());
    confine::install_binary(supervisor);
}

/// Returns true if this machine has Python. In CI it must.
#[allow(clippy::print_stderr, reason = "a test that skips says so")]
pub(crate) fn has_python() -> bool {
    let there = Path::new("/usr/bin/python3").exists();
    assert!(there || std::env::var_os("CI").is_none(), "CI has Python");
    if !there {
        eprintln!("skipped: there is no /usr/bin/python3");
    }
    there
}
