//! `llm-do acp`: sessions, approvals, questions, cancellation and loading, by a client over pipes and by real clients.

use crate::{
    editor::{Editor, chosen},
    python::fixture::wait_for,
    scenario::Scenario,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{env, fs, io::Write, path::Path, process::Stdio};

/// The agent in the project.
fn start(scenario: &Scenario, arguments: &[&str]) -> Editor {
    Editor::start(scenario.command(&[&["acp"], arguments].concat()))
}

/// Talks, and is slow in the third turn.
fn greeter() -> Scenario {
    Scenario::new().file("hi.worker", "---\nmodel: script:s.yaml\n---\nBe friendly.\n").file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    text: \"Hello **Ann**.\"\n  - when: {turn: 1}\n    text: You are Ann.\n  \
         - when: {turn: 2}\n    delay_ms: 600000\n    text: never\n  - text: more\n",
    )
}

/// A project whose worker writes through a helper, which asks.
fn office() -> Scenario {
    Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:main.yaml\nallow_workers: [writer]\n---\nDelegate.\n")
        .file(
            "main.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: writer, arguments: {input: write it}}]\n  - when: {turn: 1}\n    \
             text: It is done.\n  - when: {turn: 2}\n    calls: [{tool: writer, arguments: {input: write it}}]\n  - text: again\n",
        )
        .file("workers/writer.worker", "---\nmodel: script:writer.yaml\ntoolsets: [filesystem]\n---\nWrite.\n")
        .file(
            "writer.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: \"new\\n\"}}]\n  \
             - text: written\n",
        )
        .file("a.txt", "old\n")
}

#[test]
fn a_session_is_a_chat_with_the_run_of_its_id() {
    let scenario = greeter();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    let commands =
        editor.wait("commands", |m| m["params"]["update"]["sessionUpdate"] == "available_commands_update");
    assert!(commands.to_string().contains("\"undo\""), "{commands}");
    assert_eq!(editor.say(&session, "I am Ann."), "end_turn");
    assert_eq!(editor.words(), "Hello **Ann**.");
    assert_eq!(editor.say(&session, "Who am I?"), "end_turn");
    assert_eq!(editor.words(), "You are Ann.");
    let journal = scenario.journal_of_home();
    assert_eq!((&journal[0]["run"], &journal[0]["chat"]), (&json!(session), &json!(true)));
    let via = journal.iter().find(|record| record["kind"] == "answered").map(|record| record["via"].clone());
    assert_eq!(via, Some(json!("acp")));
    assert_eq!(editor.leave(), Some(0));
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{}{}", replayed.stdout, replayed.stderr);
}

#[test]
fn a_second_prompt_is_refused_and_cancel_stops_the_first() {
    let scenario = greeter();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    editor.say(&session, "one");
    editor.say(&session, "two");
    let slow = editor.prompt(&session, "three");
    let second = editor.prompt(&session, "four");
    let refused = editor.response(second);
    assert!(refused["error"]["message"].to_string().contains("an answer is being made"), "{refused}");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.response(slow)["result"]["stopReason"], "cancelled");
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.words();
    assert_eq!(editor.say(&session, "five"), "end_turn");
    assert_eq!(editor.words(), "more");
}

#[test]
fn an_approval_names_the_chain_and_shows_the_change() {
    let scenario = office();
    let mut editor = start(&scenario, &[]);
    let session = editor.session(&scenario.project());
    let turn = editor.prompt(&session, "go");
    let asked = editor.permission();
    let call = &asked["params"]["toolCall"];
    assert_eq!(call["title"], "main → writer wants to call write_file (risk: write)");
    let diff = json!({
        "type": "diff", "path": scenario.project().join("a.txt").canonicalize().expect("it is there"),
        "oldText": "old\n", "newText": "new\n",
    });
    assert_eq!((&call["kind"], &call["content"][0]), (&json!("edit"), &diff));
    let kinds: Vec<&Value> =
        asked["params"]["options"].as_array().into_iter().flatten().map(|o| &o["kind"]).collect();
    assert_eq!(kinds, ["allow_once", "allow_always", "reject_once", "reject_always"]);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("old\n"));
    editor.respond(&asked, chosen("allow_always"));
    assert_eq!(editor.response(turn)["result"]["stopReason"], "end_turn");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("new\n"));
    assert_eq!(editor.words(), "It is done.");
    let calls = editor.updates("tool_call");
    let titles: Vec<&Value> = calls.iter().map(|call| &call["title"]).collect();
    assert_eq!(titles, ["writer write it", "writer: write_file a.txt"]);
    let ends = editor.updates("tool_call_update");
    let done = ends.iter().filter(|update| update["status"] == "completed");
    assert_eq!(done.count(), 2, "{ends:#?}");
    // The same call is not asked about again.
    assert_eq!(editor.say(&session, "go again"), "end_turn");
}

#[test]
fn denials_and_other_answers_are_told_apart() {
    for (answer, stop, recorded) in [
        (chosen("deny"), "end_turn", json!("deny")),
        (json!({"outcome": {"outcome": "cancelled"}}), "cancelled", json!("stop")),
        (chosen("whatever"), "", json!("stop")),
    ] {
        let scenario = office();
        let mut editor = start(&scenario, &[]);
        let session = editor.session(&scenario.project());
        let turn = editor.prompt(&session, "go");
        let asked = editor.permission();
        editor.respond(&asked, answer);
        let response = editor.response(turn);
        match stop {
            "" => assert!(response["error"]["message"].to_string().contains("not offered"), "{response}"),
            stop => assert_eq!(response["result"]["stopReason"], stop, "{response}"),
        }
        assert_eq!(scenario.read("a.txt").as_deref(), Some("old\n"));
        let journal = scenario.journal();
        let answered =
            journal.iter().find(|record| record["kind"] == "answered").map(|record| record["answer"].clone());
        assert_eq!(answered, Some(recorded));
    }
}

#[test]
fn cancel_during_a_question_decides_nothing_about_the_call() {
    let scenario = office();
    let mut editor = start(&scenario, &[]);
    let session = editor.session(&scenario.project());
    let turn = editor.prompt(&session, "go");
    let asked = editor.permission();
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.respond(&asked, json!({"outcome": {"outcome": "cancelled"}}));
    assert_eq!(editor.response(turn)["result"]["stopReason"], "cancelled");
    let journal = scenario.journal();
    assert!(!journal.iter().any(|record| record["answer"] == "deny"));
    assert!(!journal.iter().any(|record| record["rule"] == "blocked"), "no verdict blocks the call");
    let answered = journal.iter().find(|record| record["kind"] == "answered");
    assert_eq!(
        answered.map(|record| (&record["answer"], &record["via"])),
        Some((&json!("stop"), &json!("stop")))
    );
    assert_eq!(scenario.read("a.txt").as_deref(), Some("old\n"));
    assert_eq!(editor.say(&session, "and now?"), "end_turn");
}

#[test]
fn a_chat_is_loaded_after_the_agent_was_killed_and_asks_again() {
    let scenario = office();
    let mut editor = start(&scenario, &[]);
    let session = editor.session(&scenario.project());
    editor.prompt(&session, "go");
    editor.permission();
    editor.child.kill().expect("it runs");
    drop(editor);

    let mut editor = start(&scenario, &[]);
    let listed = editor.ask("session/list", json!({"cwd": scenario.project()}));
    let listed = &listed["result"]["sessions"];
    assert_eq!((&listed[0]["sessionId"], &listed[0]["title"]), (&json!(session), &json!("go")), "{listed}");
    let params = json!({"sessionId": session, "cwd": scenario.project(), "mcpServers": []});
    let loaded = editor.ask("session/load", params);
    assert!(loaded.get("result").is_some(), "{loaded}");
    let said = editor.updates("user_message_chunk");
    assert_eq!(said[0]["content"]["text"], "go");
    assert_eq!(editor.updates("tool_call").len(), 2);
    let turn = editor.prompt(&session, "and?");
    let asked = editor.permission();
    assert!(asked.to_string().contains("\"oldText\":\"old\\n\""), "{asked}");
    editor.respond(&asked, chosen("allow_always"));
    assert_eq!(editor.response(turn)["result"]["stopReason"], "end_turn");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("new\n"));
    // What was under way, and then the new message.
    assert_eq!(editor.words(), "It is done.again");
}

#[test]
fn a_chat_is_resumed_without_a_replay_and_undone_messages_are_not_replayed() {
    let scenario = greeter();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    editor.say(&session, "one");
    editor.say(&session, "two");
    assert_eq!(editor.say(&session, "/undo"), "end_turn");
    assert_eq!(editor.leave(), Some(0));
    let mut editor = start(&scenario, &["hi.worker"]);
    let params = json!({"sessionId": session, "cwd": scenario.project(), "mcpServers": []});
    editor.ask("session/resume", params.clone());
    assert_eq!(editor.words(), "");
    editor.ask("session/load", params);
    let said = editor.updates("user_message_chunk");
    let said: Vec<&Value> = said.iter().map(|chunk| &chunk["content"]["text"]).collect();
    assert_eq!((said, editor.words().as_str()), (vec![&json!("one")], "Hello **Ann**."));
    editor.ask("session/close", json!({"sessionId": session}));
    let closed = editor.prompt(&session, "three");
    assert!(editor.response(closed)["error"]["message"].to_string().contains("is open"));
}

#[test]
fn questions_are_answered_by_the_next_prompt() {
    let scenario = Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ninteraction: user\n---\nAsk.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Which colour?}}]\n  \
             - text: noted\n",
        );
    let mut editor = start(&scenario, &["main.worker"]);
    let session = editor.session(&scenario.project());
    assert_eq!(editor.say(&session, "go"), "end_turn");
    let words = editor.words();
    assert!(words.contains("main asks:") && words.contains("Which colour?"), "{words}");
    assert_eq!(editor.say(&session, "red"), "end_turn");
    assert_eq!(editor.words(), "noted");
    let journal = scenario.journal();
    assert!(journal.iter().any(|record| record["answer"] == "give" && record["value"] == "red"));
}

#[test]
fn the_folder_of_a_session_is_the_programs_own() {
    let scenario = office().file("other/x.txt", "x");
    let mut editor = start(&scenario, &["."]);
    let other = scenario.project().join("other");
    let missing = scenario.project().join("missing");
    for (folder, why) in [
        (json!(other), "is the project"),
        (json!("other"), "not an absolute path"),
        (json!(missing), "not a folder"),
    ] {
        let refused = editor.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
        assert!(refused["error"]["message"].to_string().contains(why), "{refused}");
    }
    // A lone worker sees the folder that is open.
    drop(editor);
    let scenario = greeter().file("other/x.txt", "x");
    let mut editor = start(&scenario, &["hi.worker"]);
    editor.session(&scenario.project().join("other"));
}

#[test]
fn options_are_chosen_before_the_chat_begins() {
    let scenario = office();
    let mut editor = start(&scenario, &[]);
    let opened = editor.ask("session/new", json!({"cwd": scenario.project(), "mcpServers": []}));
    let options = opened["result"]["configOptions"].as_array().cloned().unwrap_or_default();
    let ids: Vec<&Value> = options.iter().map(|option| &option["id"]).collect();
    assert_eq!(ids, ["worker", "approval"], "{opened}");
    let session = opened["result"]["sessionId"].as_str().unwrap_or_default().to_owned();
    let choose = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "value": value});
    let wrong = editor.ask("session/set_config_option", choose("approval", "sometimes"));
    assert!(wrong["error"]["message"].to_string().contains("has no value"), "{wrong}");
    let chosen = editor.ask("session/set_config_option", choose("approval", "auto_deny"));
    assert_eq!(chosen["result"]["configOptions"][1]["currentValue"], "auto_deny");
    assert_eq!(editor.say(&session, "go"), "end_turn");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("old\n"));
    let late = editor.ask("session/set_config_option", choose("approval", "approve_all"));
    assert!(late["error"]["message"].to_string().contains("the chat has begun"), "{late}");
}

#[test]
fn a_client_that_vanishes_leaves_a_chat_that_can_be_resumed() {
    let scenario = greeter();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    editor.say(&session, "one");
    editor.say(&session, "two");
    editor.prompt(&session, "three");
    assert_eq!(editor.leave(), Some(0));
    let shown = scenario.run(&["runs", "list", "--chats", "--json"]);
    assert!(shown.stdout.contains("interrupted"), "{}", shown.stdout);
}

#[test]
fn bad_messages_get_errors_and_change_nothing() {
    let scenario = greeter();
    let mut editor = start(&scenario, &["hi.worker"]);
    let session = editor.session(&scenario.project());
    let sound = json!([{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}]);
    // What claims to be an image and is none.
    let image = json!([{"type": "image", "data": "AAAA", "mimeType": "image/png"}]);
    for (method, params) in [
        (
            "session/prompt",
            json!({"sessionId": "20260101-000000-0000", "prompt": [{"type": "text", "text": "x"}]}),
        ),
        ("session/prompt", json!({"sessionId": session, "prompt": sound})),
        ("session/prompt", json!({"sessionId": session, "prompt": image})),
        ("session/prompt", json!({"sessionId": session, "prompt": []})),
        ("session/load", json!({"sessionId": "../../etc", "cwd": scenario.project(), "mcpServers": []})),
        ("session/list", json!({})),
        ("session/nothing", json!({})),
    ] {
        let refused = editor.ask(method, params.clone());
        assert!(refused.get("error").is_some(), "{method} {params}: {refused}");
    }
    let stdin = editor.stdin.as_mut().expect("it is connected");
    stdin.write_all(b"{\n\n[]\n\"x\"\n\xff\n").expect("the agent reads");
    assert_eq!(editor.say(&session, "I am Ann."), "end_turn");
}

#[test]
fn a_worker_in_the_middle_talks_until_done() {
    let scenario = Scenario::new()
        .file("project.yaml", "entry: main\n")
        .file("main.worker", "---\nmodel: script:main.yaml\nallow_workers: [interview]\n---\nPlan.\n")
        .file(
            "main.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: interview, arguments: {input: a trip}}]\n  - text: planned\n",
        )
        .file(
            "workers/interview.worker",
            "---\nmodel: script:interview.yaml\nmode: chat\ninteraction: user\nreturns: {city: string}\n---\nAsk.\n",
        )
        .file(
            "interview.yaml",
            "answers:\n  - when: {turn: 0}\n    text: Where to?\n  - when: {turn: 1}\n    text: Really?\n  - calls: \
             [{tool: finish, arguments: {city: Rome}}]\n",
        );
    let mut editor = start(&scenario, &[]);
    let session = editor.session(&scenario.project());
    assert_eq!(editor.say(&session, "Plan a trip."), "end_turn");
    let words = editor.words();
    assert!(words.contains("interview talks to you") && words.contains("Where to?"), "{words}");
    assert_eq!(editor.say(&session, "Rome"), "end_turn");
    assert_eq!(editor.words(), "Really?");
    assert_eq!(editor.say(&session, "/done"), "end_turn");
    assert_eq!(editor.words(), "planned");
}

/// Uses the protocol's own library for Python, in the environment that `LLM_DO_TEST_ACP_PYTHON` names: cancel during
/// the question of a helper, load after `kill -9`, and the delegated approval.
#[test]
fn the_python_library_is_a_client() {
    let Some(python) = env::var_os("LLM_DO_TEST_ACP_PYTHON") else {
        eprintln!("skipped: LLM_DO_TEST_ACP_PYTHON names no Python with agent-client-protocol");
        return;
    };
    let scenario = office().file(
        "main.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: writer, arguments: {input: write it}}]\n  - when: {turn: 1}\n    \
         calls: [{tool: writer, arguments: {input: write it}}]\n  - text: It is done.\n",
    );
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios/acp_client.py");
    let mut command = scenario.command_of(Path::new(&python));
    let command = command.arg("-B").arg(script).arg(env!("CARGO_BIN_EXE_llm-do")).arg(scenario.project());
    let done = scenario.finished(command.output().expect("it starts"));
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "ok\n"), "{}", done.stderr);
}

/// Uses the program acpx, which `LLM_DO_TEST_ACPX` names.
#[test]
fn acpx_is_a_client() {
    let Some(acpx) = env::var_os("LLM_DO_TEST_ACPX") else {
        eprintln!("skipped: LLM_DO_TEST_ACPX names no acpx");
        return;
    };
    // Its exit code says that it denied something.
    for (flag, code, said, left) in
        [("--deny-all", 5, "The operator refused", "old\n"), ("--approve-all", 0, "(completed)", "new\n")]
    {
        let scenario = office();
        let mut command = scenario.command_of(Path::new(&acpx));
        // It runs under node.
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        let agent = format!("{} acp", env!("CARGO_BIN_EXE_llm-do"));
        let command = command.args(["--timeout", "30", "--agent", &agent, flag, "exec", "go"]);
        let done = scenario.finished(command.output().expect("it starts"));
        assert_eq!(done.code, Some(code), "{}{}", done.stdout, done.stderr);
        assert!(done.stdout.contains(said) && done.stdout.contains("It is done."), "{}", done.stdout);
        assert_eq!(scenario.read("a.txt").as_deref(), Some(left));
    }
}

/// Kills the agents that were started in the folder.
fn kill_agents(folder: &Path) {
    let folder = fs::canonicalize(folder).expect("a folder");
    let mut killed = 0;
    for process in fs::read_dir("/proc").expect("procfs").flatten() {
        let path = process.path();
        let words = fs::read(path.join("cmdline")).unwrap_or_default();
        let is_agent = words.starts_with(env!("CARGO_BIN_EXE_llm-do").as_bytes());
        let id = process.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        if let (true, Some(id), Ok(here)) = (is_agent, id, fs::read_link(path.join("cwd")))
            && here == folder
        {
            kill_process(id, Signal::KILL).expect("it runs");
            killed += 1;
        }
    }
    assert_eq!(killed, 1);
}

/// Sessions of acpx, which starts an agent for each prompt: one is killed during its answer, and the next is cancelled.
#[test]
fn acpx_loads_a_session_after_its_agent_was_killed_and_cancels_a_prompt() {
    let Some(acpx) = env::var_os("LLM_DO_TEST_ACPX") else {
        eprintln!("skipped: LLM_DO_TEST_ACPX names no acpx");
        return;
    };
    let scenario = greeter();
    let agent = format!("{} acp hi.worker", env!("CARGO_BIN_EXE_llm-do"));
    let command = |words: &[&str]| {
        let mut command = scenario.command_of(Path::new(&acpx));
        command.env("PATH", env::var_os("PATH").unwrap_or_default());
        command.args(["--timeout", "15", "--ttl", "1", "--agent", &agent]).args(words);
        command
    };
    let run = |words: &[&str]| {
        let done = scenario.finished(command(words).output().expect("it starts"));
        assert_eq!(done.code, Some(0), "{words:?}: {done}");
        done.stdout
    };
    let started = |text: &str| {
        let mut command = command(&["prompt", text]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    // The agent may be in the middle of a line.
    let records = |kind: &str| {
        let runs = fs::read_dir(scenario.home().join("home/.llm-do/runs")).expect("runs").flatten();
        let journals = runs.filter_map(|run| fs::read_to_string(run.path().join("journal.jsonl")).ok());
        journals.map(|text| text.matches(&format!("\"kind\":\"{kind}\"")).count()).sum::<usize>()
    };
    run(&["sessions", "new"]);
    let said = run(&["prompt", "I am Ann."]);
    assert!(said.contains("Hello **Ann**."), "{said}");
    let said = run(&["prompt", "Who am I?"]);
    assert!(said.contains("You are Ann."), "{said}");

    let mut slow = started("Think.");
    wait_for("the third request", || records("model_requested") == 3);
    kill_agents(&scenario.project());
    // Its queue waits for the answer until the timeout, and then takes the next prompt.
    slow.kill().expect("it runs");
    slow.wait().expect("it ends");

    let resumed = records("run_resumed");
    let waiting = started("Are you there?");
    wait_for("the chat to be continued", || records("run_resumed") > resumed);
    run(&["cancel"]);
    let said = scenario.finished(waiting.wait_with_output().expect("it ends"));
    assert!(said.stdout.contains("session/load") && said.stdout.contains("cancelled"), "{said}");
    let said = run(&["prompt", "Go on."]);
    assert!(said.contains("more"), "{said}");
}
