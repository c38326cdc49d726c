//! Input that is no message: lines that are too long, and clients that lie about sizes.

use crate::{editor::Editor, scenario::Scenario};
use serde_json::json;
use std::io::{Read as _, Write as _};

fn greeter() -> Scenario {
    Scenario::new()
        .file("hi.worker", "---\nmodel: script:s.yaml\n---\nBe friendly.\n")
        .file("s.yaml", "answers:\n  - text: Hello.\n")
}

#[test]
fn line_without_an_end_ends_the_connection_and_the_chat_can_be_resumed() {
    let scenario = greeter();
    let mut editor = Editor::start(scenario.command(&["acp", "hi.worker"]));
    let session = editor.session(&scenario.project());
    assert_eq!(editor.say(&session, "go"), "end_turn");
    let stderr = editor.child.stderr.take();
    let mut stdin = editor.stdin.take().expect("it is connected");
    let part = vec![b'x'; 1 << 20];
    // The agent stops reading at its limit, and never holds more than that.
    let sent = (0..256).take_while(|_| stdin.write_all(&part).is_ok()).count();
    assert!((64..=66).contains(&sent), "{sent} MiB were read");
    assert_eq!(editor.leave(), Some(1));
    let mut log = String::new();
    stderr.expect("a pipe").read_to_string(&mut log).expect("text");
    assert!(log.contains("a line has more than 67108864 bytes"), "{log}");
    assert_eq!(scenario.journal_of_home().last().expect("an end")["status"], "suspended");
}

#[test]
fn claims_about_sizes_mean_nothing() {
    let scenario = greeter();
    let mut editor = Editor::start(scenario.command(&["acp", "hi.worker"]));
    let session = editor.session(&scenario.project());
    // The header of another protocol is no message.
    let stdin = editor.stdin.as_mut().expect("it is connected");
    stdin.write_all(b"Content-Length: 99999999999\r\n\r\n").expect("the agent reads");
    let link = |size: i64| {
        json!([{"type": "text", "text": "See "},
               {"type": "resource_link", "name": "a.txt", "uri": "file:///a.txt", "size": size}])
    };
    for size in [0, i64::MAX] {
        let prompt = json!({"sessionId": session, "prompt": link(size)});
        let answer = editor.ask("session/prompt", prompt);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }
    assert_eq!(editor.leave(), Some(0));
}
