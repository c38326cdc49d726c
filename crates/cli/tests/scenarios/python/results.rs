//! Results of tools: images, files, long texts in pages, and typed values.

use super::fixture::{
    WORKER, assert_no_process_is_left, call, calling, failure, has_python, holds, output, record, succeed,
};
use crate::scenario::Scenario;
use llm_do_testserver::{Reply, Script, TestServer};
use serde_json::json;

/// The smallest PNG.
const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

#[test]
fn image_result_is_sent_as_an_image() {
    if !has_python() {
        return;
    }
    let tools = format!(
        "import base64\nfrom llm_do import Image\n\nDATA = base64.b64decode('{PNG}')\n\n\
         def draws() -> Image:\n    return Image(DATA, name='dot.png')\n\n\
         def reports() -> dict:\n    return {{'title': 'A dot', 'picture': DATA}}\n"
    );
    for tool in ["draws", "reports"] {
        let server =
            TestServer::start(Script::new().turn(Reply::tool(tool, json!({}))).turn(Reply::text("a dot")));
        let scenario = Scenario::new()
            .file("main.worker", "---\ntoolsets: [custom]\n---\nGo.\n")
            .file("tools.py", &tools)
            .env("OPENAI_BASE_URL", format!("{}/v1", server.url()))
            .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
            .env("LLM_DO_MODEL", "openai:test-model");
        let told = succeed(&scenario, &[".", "go"]);
        assert_eq!(told.stdout, "a dot\n");
        server.assert_valid();
        let requests = server.requests();
        let sent = requests[1].body.to_string();
        assert!(sent.contains(PNG), "{tool}: {sent}");
        assert!(sent.contains("data:image/png;base64,"), "{tool}: {sent}");
    }
}

#[test]
fn file_result_keeps_its_name() {
    if !has_python() {
        return;
    }
    let tools = "from llm_do import File\n\ndef f() -> File:\n    return File('/data/note.txt')\n\n\
                 def g() -> File:\n    return File('/data/none.txt')\n";
    let scenario = calling(tools, &[call("f"), call("g")])
        .file("main.worker", &WORKER.replace("---\nGo", "sandbox: {paths: {data: ./data}}\n---\nGo"))
        .file("data/note.txt", "A note.");
    succeed(&scenario, &["."]);
    assert_eq!(output(&scenario, "0/0.0"), "[text/plain, 7 bytes]");
    let file = &record(&scenario, "0/0.0", "tool_ended")["blobs"][0];
    assert_eq!((&file["name"], &file["media_type"]), (&json!("note.txt"), &json!("text/plain")));
    // The function ran to its end: its call does not look failed.
    holds(&output(&scenario, "0/1.0").to_string(), &["FileNotFoundError", "none.txt"]);
}

#[test]
fn long_result_is_truncated_and_can_be_paged() {
    if !has_python() {
        return;
    }
    let tools = "def f() -> str:\n    return ''.join(f'line {n}\\n' for n in range(20_000)) + 'the end'\n";
    let scenario = calling(tools, &[call("f")])
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [custom, filesystem]\n---\nGo.\n")
        .file(
            "s.yaml",
            &json!({"answers": [
                {"when": {"turn": 0}, "calls": [{"tool": "f", "arguments": {}}]},
                {"when": {"turn": 1, "last": "/results/1"}, "calls": [
                    {"tool": "read_file", "arguments": {"path": "/results/1", "offset": 200_000, "max_chars": 20_000}},
                ]},
                {"when": {"turn": 2}, "text": "{{ last }}"},
            ]})
            .to_string(),
        );
    let told = succeed(&scenario, &["."]);
    holds(&told.stdout, &["the end"]);
    assert_no_process_is_left(&scenario);
}

#[test]
fn typed_values_survive_a_round_trip() {
    if !has_python() {
        return;
    }
    let tools = "from dataclasses import dataclass\nfrom datetime import date\nfrom decimal import Decimal\nfrom enum import Enum\n\
                 from typing import List, Literal, Optional\n\n\
                 class Colour(Enum):\n    RED = 'red'\n    BLUE = 'blue'\n\n\
                 @dataclass\nclass Item:\n    name: str\n    price: Decimal\n    colour: Colour = Colour.RED\n    day: Optional[date] = None\n\n\
                 def cheapest(items: List[Item], order: Literal['up', 'down'] = 'up') -> Item:\n    \"\"\"Finds one.\n\n    Args:\n        \
                 items: What there is.\n    \"\"\"\n    \
                 assert all(isinstance(item, Item) and isinstance(item.price, Decimal) for item in items)\n    \
                 return sorted(items, key=lambda item: item.price, reverse=order == 'down')[0]\n";
    let items = json!([{"name": "a", "price": "2.50"}, {"name": "b", "price": "1.10", "colour": "blue", "day": "2026-01-31"}]);
    let scenario = calling(
        tools,
        &[
            json!({"tool": "cheapest", "arguments": {"items": items}}),
            json!({"tool": "cheapest", "arguments": {"items": items, "order": "sideways"}}),
            json!({"tool": "cheapest", "arguments": {"items": [{"name": "a"}]}}),
        ],
    );
    succeed(&scenario, &["."]);
    let cheapest = output(&scenario, "0/0.0");
    assert_eq!(cheapest, json!({"name": "b", "price": "1.10", "colour": "blue", "day": "2026-01-31"}));
    holds(&failure(&scenario, "0/1.0"), &["/order", "sideways"]);
    holds(&failure(&scenario, "0/2.0"), &["/items/0", "price"]);
}
