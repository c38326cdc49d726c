//! The other interfaces of `llm-do serve`: requests of their clients, and the answers.

mod ag_ui;
mod browser;
mod client_tools;
mod frameworks;
mod mcp;
mod official_clients;
mod openai;

use crate::scenario::{Scenario, script};
use serde_json::json;

/// A program whose workers read, write, ask, talk and wait.
fn desk() -> Scenario {
    let worker = |script: &str, more: &str| format!("---\nmodel: script:{script}.yaml\n{more}---\nAnswer.\n");
    let usage = json!({"input_tokens": 30, "output_tokens": 5});
    let write = |name: &str| json!({"tool": "write_file", "arguments": {"path": format!("out/{name}.txt"), "content": "noted\n"}});
    Scenario::new()
        .file(
            "project.yaml",
            "name: desk\nversion: 1.0.0\nexports: [reader, sorter, writer, two, talker, asker, looker, slow, failing, echo]\n",
        )
        .file("notes/today.txt", "Buy milk.\n")
        .file(
            "workers/reader.worker",
            &worker("reader", "description: Reads a note.\nsandbox: {paths: {notes: {root: ./notes, mode: ro}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n"),
        )
        .file(
            "reader.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "text": "I look.", "usage": usage, "calls": [{"tool": "read_file", "arguments": {"path": "notes/today.txt"}}]}),
                json!({"text": "The note says: buy milk.", "usage": usage, "stream": {"chars": 4}}),
            ]),
        )
        .file(
            "workers/sorter.worker",
            &worker("sorter", "returns: {type: object, properties: {urgent: {type: boolean}}, required: [urgent]}\n"),
        )
        .file("sorter.yaml", &script(&[json!({"json": {"urgent": true}})]))
        .file("workers/writer.worker", &worker("writer", WRITES))
        .file(
            "writer.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [write("note")]}),
                json!({"when": {"last": "not today"}, "text": "Left it."}),
                json!({"text": "Written."}),
            ]),
        )
        .file("workers/two.worker", &worker("two", WRITES))
        .file(
            "two.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [write("one"), write("other")]}),
                json!({"text": "Both written."}),
            ]),
        )
        .file("workers/talker.worker", &worker("talker", "mode: chat\n"))
        .file("talker.yaml", &script(&[json!({"text": "You said: {{ last }}", "stream": {"chars": 3}})]))
        .file("workers/asker.worker", &worker("asker", "interaction: user\n"))
        .file(
            "asker.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [{"tool": "ask_user", "arguments": {"question": "Which colour?", "choices": ["red", "blue"]}}]}),
                json!({"text": "Painted: {{ last }}"}),
            ]),
        )
        .file("workers/looker.worker", &worker("looker", "attachment_policy: {max_total_bytes: 20000}\n"))
        .file("looker.yaml", &script(&[json!({"text": "Seen: {{ last }}"})]))
        .file("workers/slow.worker", &worker("slow", ""))
        .file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 600000\n")
        .file("workers/failing.worker", &worker("failing", ""))
        .file("failing.yaml", "answers:\n  - error: {status: 400, message: no such luck}\n")
        .file("workers/echo.worker", &worker("echo", ""))
        .file("echo.yaml", &script(&[json!({"text": "{{ last }}"})]))
}

const WRITES: &str =
    "sandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [write_file]}}\n";
