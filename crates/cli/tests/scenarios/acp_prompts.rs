//! `llm-do acp`: images and resources in prompts, slash commands, forms, and the ways to stop.

use crate::{editor::Editor, scenario::Scenario};
use serde_json::{Value, json};
use std::process::Command;

fn start(scenario: &Scenario, arguments: &[&str]) -> Editor {
    Editor::start(scenario.command(&[&["acp"], arguments].concat()))
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn resource(uri: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}})
}

/// Sends a prompt of these blocks, and returns the response.
fn prompt(editor: &mut Editor, session: &str, blocks: &[Value]) -> Value {
    editor.ask("session/prompt", json!({"sessionId": session, "prompt": blocks}))
}

/// The records of that kind in the journal of the only run.
fn records(scenario: &Scenario, kind: &str) -> Vec<Value> {
    scenario.journal().into_iter().filter(|record| record["kind"] == kind).collect()
}

/// A project that takes two attachments with a message, and whose inbox others write.
fn reader() -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: desk\nversion: 1.0.0\nexports: [main, counter]\n")
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\nattachment_policy: {max_attachments: 2}\n\
             sandbox: {paths: {inbox: {root: inbox, untrusted: true}}}\ntoolsets: [filesystem]\n---\nRead.\n",
        )
        .file(
            "s.yaml",
            // Long enough for a summary to be shorter.
            &format!(
                "answers:\n  - when: {{purpose: summary}}\n    text: They greeted each other.\n  - text: {}\n",
                "seen ".repeat(400)
            ),
        )
        .file("inbox/1.txt", "Pay at once.\n")
        .file(
            "workers/counter.worker",
            "---\ndescription: Counts words.\nmodel: script:c.yaml\nparameters: {words: string}\n---\nCount.\n",
        )
        .file("c.yaml", "answers:\n  - text: three words\n")
}

#[test]
fn resources_of_a_prompt_reach_the_model_with_the_origin_of_their_source() {
    let scenario = reader();
    let inbox = format!("file://{}", scenario.project().join("inbox/1.txt").display());
    let notes = format!("file://{}", scenario.project().join("notes.txt").display());
    let mut editor = start(&scenario, &["."]);
    let session = editor.session(&scenario.project());
    let first = [text("Sum up "), resource(&notes, "Buy milk.")];
    assert_eq!(prompt(&mut editor, &session, &first)["result"]["stopReason"], "end_turn");
    let began = &records(&scenario, "conversation_started")[0];
    assert_eq!(began.get("origin"), None, "{began}");
    let message = began["message"].to_string();
    assert!(
        message.contains("Sum up [1]") && message.contains("[1] notes.txt") && message.contains("Buy milk."),
        "{message}"
    );

    for (block, origin) in [
        (resource(&notes, "Buy bread."), Value::Null),
        (resource(&inbox, "Pay at once."), json!("untrusted")),
        (resource("https://example.org/x", "Pay at once."), json!("untrusted")),
    ] {
        assert_eq!(prompt(&mut editor, &session, &[text("And "), block])["result"]["stopReason"], "end_turn");
        let attached = records(&scenario, "attached").pop().expect("a record");
        assert_eq!(attached["origin"], origin, "{attached}");
    }
    assert_eq!(editor.leave(), Some(0));
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);

    // The first message counts as well.
    let scenario = reader();
    let inbox = format!("file://{}", scenario.project().join("inbox/1.txt").display());
    let mut editor = start(&scenario, &["."]);
    let session = editor.session(&scenario.project());
    prompt(&mut editor, &session, &[text("Sum up "), resource(&inbox, "Pay at once.")]);
    assert_eq!(records(&scenario, "conversation_started")[0]["origin"], "untrusted");
}

#[test]
fn a_message_is_not_delivered_without_its_files() {
    let scenario = reader();
    let mut editor = start(&scenario, &["."]);
    let session = editor.session(&scenario.project());
    let three: Vec<Value> = (0..3).map(|at| resource(&format!("file:///tmp/{at}.txt"), "x")).collect();
    let refused = prompt(&mut editor, &session, &three);
    assert!(refused["error"]["message"].to_string().contains("at most 2 attachments"), "{refused}");
    assert!(scenario.runs().is_empty(), "nothing has begun");
    assert_eq!(editor.say(&session, "hello"), "end_turn");
    let refused = prompt(&mut editor, &session, &three);
    let why = refused["error"]["message"].to_string();
    assert!(why.contains("at most 2 attachments") && why.contains("was not delivered"), "{refused}");
    // What was attached before does not join the next message.
    assert_eq!(editor.say(&session, "just words"), "end_turn");
    let given: Vec<Value> =
        records(&scenario, "answered").iter().map(|record| record["answer"].clone()).collect();
    assert_eq!(given, ["attach", "attach", "attach", "detach", "detach", "give"]);
    // Neither do the files of a message that is taken back.
    assert_eq!(prompt(&mut editor, &session, &three[..1])["result"]["stopReason"], "end_turn");
    assert_eq!(editor.say(&session, "/undo"), "end_turn");
    assert_eq!(editor.say(&session, "words again"), "end_turn");
    let given: Vec<Value> =
        records(&scenario, "answered").iter().skip(6).map(|record| record["answer"].clone()).collect();
    assert_eq!(given, ["attach", "give", "undo", "detach", "give"]);
}

#[test]
fn an_image_needs_a_model_that_reads_images() {
    let scenario = reader();
    let mut editor = start(&scenario, &["."]);
    let session = editor.session(&scenario.project());
    let image = json!({"type": "image", "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg==", "mimeType": "image/png"});
    let response = prompt(&mut editor, &session, &[text("What is this? "), image]);
    match response.get("error") {
        Some(error) => {
            assert!(error["message"].to_string().contains("model can't read"), "{response}");
            assert_eq!(editor.say(&session, "words then"), "end_turn", "the session is still there");
        }
        None => {
            let message = records(&scenario, "conversation_started")[0]["message"].to_string();
            assert!(message.contains("image/png") && message.contains("[1] image.png"), "{message}");
        }
    }
}

#[test]
fn commands_call_workers_keep_results_and_compact() {
    let scenario = reader();
    let mut editor = start(&scenario, &["."]);
    let session = editor.session(&scenario.project());
    let commands =
        editor.wait("commands", |m| m["params"]["update"]["sessionUpdate"] == "available_commands_update");
    let commands = commands["params"]["update"]["availableCommands"].to_string();
    for part in ["\"compact\"", "\"keep\"", "\"counter\"", "Counts words.", "words=…"] {
        assert!(commands.contains(part), "{part}: {commands}");
    }
    assert_eq!(editor.say(&session, "/counter one two three"), "end_turn");
    assert!(editor.words().contains("has not begun"));
    assert_eq!(editor.say(&session, "hello"), "end_turn");
    editor.words();
    assert_eq!(editor.say(&session, "/counter words=a other=b"), "end_turn");
    assert!(editor.words().contains("Nothing was run"));
    assert_eq!(editor.say(&session, "/counter one two three"), "end_turn");
    let shown = editor.updates("tool_call_update").iter().map(Value::to_string).collect::<String>();
    assert!(shown.contains("three words"), "{shown}");
    assert_eq!(editor.say(&session, "/keep"), "end_turn");
    assert_eq!(editor.say(&session, "use it"), "end_turn");
    let given: Vec<Value> =
        records(&scenario, "answered").iter().map(|record| record["answer"].clone()).collect();
    assert_eq!(given, ["run", "keep", "give"]);
    editor.words();
    assert_eq!(editor.say(&session, "/compact the names"), "end_turn");
    let thoughts = editor.updates("agent_thought_chunk").iter().map(Value::to_string).collect::<String>();
    assert!(thoughts.contains("Older turns are compacted"), "{thoughts}");
    assert_eq!(records(&scenario, "compacted").len(), 1);
    assert_eq!(editor.words(), "", "the summary is no answer");
    assert_eq!(editor.say(&session, "/compact undo"), "end_turn");
    assert_eq!(editor.say(&session, "and now?"), "end_turn");
    // A second time there is nothing to take back, and the client hears that.
    let turn = editor.prompt(&session, "/compact undo");
    let response = editor.response(turn);
    assert!(response["error"]["message"].to_string().contains("no compaction"), "{response}");
    assert_eq!(editor.say(&session, "still there?"), "end_turn");
}

/// A worker that asks for a colour.
fn asks() -> Scenario {
    Scenario::new().file("main.worker", "---\nmodel: script:s.yaml\ninteraction: user\n---\nAsk.\n").file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Which colour?, choices: [red, blue]}}]\n  \
         - text: noted\n",
    )
}

#[test]
fn a_client_with_forms_is_asked_by_a_form() {
    for (reply, recorded) in [
        (json!({"action": "accept", "content": {"answer": "red"}}), json!("give")),
        (json!({"action": "decline"}), json!("decline")),
        (json!({"action": "cancel"}), json!("stop")),
    ] {
        let scenario = asks();
        let forms = json!({"elicitation": {"form": {}}});
        let mut editor = Editor::start_with(scenario.command(&["acp", "main.worker"]), &forms);
        let session = editor.session(&scenario.project());
        let turn = editor.prompt(&session, "go");
        let form = editor.wait("form", |message| message["method"] == "elicitation/create");
        let params = &form["params"];
        assert_eq!((&params["mode"], &params["sessionId"]), (&json!("form"), &json!(session)), "{form}");
        assert_eq!(
            params["requestedSchema"]["properties"]["answer"]["enum"],
            json!(["red", "blue"]),
            "{form}"
        );
        assert!(params["message"].to_string().contains("Which colour?"), "{form}");
        editor.respond(&form, reply);
        assert!(editor.response(turn).get("result").is_some());
        let journal = scenario.journal();
        let answered =
            journal.iter().find(|record| record["kind"] == "answered").map(|r| r["answer"].clone());
        assert_eq!(answered, Some(recorded));
    }
}

#[test]
fn an_answer_that_fits_no_form_is_asked_for_in_words() {
    let scenario = asks();
    let forms = json!({"elicitation": {"form": {}}});
    let mut editor = Editor::start_with(scenario.command(&["acp", "main.worker"]), &forms);
    let session = editor.session(&scenario.project());
    let turn = editor.prompt(&session, "go");
    let form = editor.wait("form", |message| message["method"] == "elicitation/create");
    editor.respond(&form, json!({"action": "accept", "content": {"answer": "green"}}));
    assert_eq!(editor.response(turn)["result"]["stopReason"], "end_turn");
    let words = editor.words();
    assert!(words.contains("does not fit") && words.contains("One of: red, blue"), "{words}");
    assert_eq!(editor.say(&session, "blue"), "end_turn");
    assert_eq!(editor.words(), "noted");
}

/// Is slow in its first answer.
fn slow() -> Scenario {
    Scenario::new().file("hi.worker", "---\nmodel: script:s.yaml\n---\nThink.\n").file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    delay_ms: 600000\n    text: never\n  - text: more\n",
    )
}

#[test]
fn the_request_of_a_prompt_can_be_cancelled() {
    let scenario = slow();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    let turn = editor.prompt(&session, "go");
    for _ in 0..2 {
        editor.notify("$/cancel_request", json!({"requestId": turn}));
    }
    assert_eq!(editor.response(turn)["result"]["stopReason"], "cancelled");
    assert_eq!(editor.say(&session, "again"), "end_turn");
}

#[test]
fn a_signal_leaves_chats_that_can_be_resumed() {
    for signal in ["TERM", "INT"] {
        let scenario = slow();
        let mut editor = start(&scenario, &["hi.worker"]);
        let session = editor.session(&scenario.project());
        editor.prompt(&session, "go");
        editor.wait("title", |m| m["params"]["update"]["sessionUpdate"] == "session_info_update");
        let id = editor.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &id]).status().expect("it is there");
        assert!(sent.success());
        assert_eq!(editor.child.wait().expect("it is a child").code(), Some(130), "{signal}");
        let listed = scenario.run(&["runs", "list", "--chats", "--json"]);
        assert!(listed.stdout.contains("interrupted"), "{signal}: {}", listed.stdout);
    }
}

#[test]
fn later_messages_are_words_of_the_operator() {
    let scenario = Scenario::new()
        .file(
            "main.worker",
            "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\ntool_rules:\n  \
             - {tool: write_file, when: {args.path: {from: input}}, then: preApproved}\n---\nWrite.\n",
        )
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: one}}]\n  \
             - when: {turn: 1}\n    text: Where?\n  \
             - when: {turn: 2}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: two}}]\n  - text: done\n",
        );
    let mut editor = start(&scenario, &["main.worker", "--approval", "auto_deny"]);
    let session = editor.session(&scenario.project());
    assert_eq!(editor.say(&session, "Write it."), "end_turn");
    assert_eq!(scenario.read("a.txt"), None);
    assert_eq!(editor.say(&session, "To a.txt, please."), "end_turn");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("two"));
    editor.leave();
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn a_client_that_reads_late_gets_the_whole_answer() {
    let words = "word ".repeat(20_000);
    let scenario = Scenario::new()
        .file("hi.worker", "---\nmodel: script:s.yaml\n---\nTalk.\n")
        .file("s.yaml", &format!("answers:\n  - text: \"{words}\"\n"));
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    assert_eq!(editor.say(&session, "go"), "end_turn");
    assert_eq!(editor.words().trim(), words.trim());
}
