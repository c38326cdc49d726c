//! Questions of a served run.

use super::client::{Client, Speaks, text};
use crate::scenario::Scenario;
use serde_json::{Value, json};

const ASKS: Speaks = Speaks::Older { asks: true };

/// A worker that writes a file, and says how that went.
pub(super) fn writer() -> Scenario {
    Scenario::new()
        .file("main.worker", "---\nmodel: script:s.yaml\ntoolsets: [filesystem]\nparameters: {topic: string}\n---\nWrite.\n")
        .file(
            "s.yaml",
            "answers:\n  - when: {turn: 0}\n    calls: [{tool: write_file, arguments: {path: a.txt, content: a}}]\n  - text: finished\n",
        )
}

fn call(topic: &str) -> Value {
    json!({"name": "main", "arguments": {"topic": topic}})
}

fn answered(scenario: &Scenario) -> Vec<Value> {
    scenario.journal().into_iter().filter(|record| record["kind"] == "answered").collect()
}

#[test]
fn client_of_an_older_revision_is_asked_within_the_call() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], ASKS);
    let id = client.send("tools/call", call("bees"));
    let asked = client.asked();
    assert_eq!((&asked["method"], &asked["params"]["mode"]), (&json!("elicitation/create"), &json!("form")));
    let message = asked["params"]["message"].as_str().expect("a text");
    for part in ["main wants to call write_file (risk: write)", "+a", "untrusted words", "digest "] {
        assert!(message.contains(part), "{part}: {message}");
    }
    client.reply(&asked, &json!({"action": "accept", "content": {"decision": "approve"}}));
    assert_eq!(text(&client.answer(id)["result"]), "finished");
    client.leave(&scenario);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
    let answered = answered(&scenario);
    assert_eq!((&answered[0]["by"], &answered[0]["via"]), (&json!("operator"), &json!("MCP client raw")));
}

#[test]
fn only_a_plain_approval_approves() {
    let accept = |content: Value| json!({"action": "accept", "content": content});
    for (replies, reason) in [
        (vec![json!({"action": "decline"})], Value::Null),
        (vec![json!({"action": "cancel"})], json!("the user dismissed the question")),
        (vec![accept(json!({"decision": "deny", "reason": "no bees"}))], json!("no bees")),
        (
            vec![
                json!({"action": "accept"}),
                accept(json!({"decision": "yes"})),
                accept(json!({"decision": true})),
            ],
            json!("the client did not answer the question"),
        ),
    ] {
        let scenario = writer();
        let mut client = Client::start(&scenario, &[], ASKS);
        let id = client.send("tools/call", call("bees"));
        for reply in &replies {
            let asked = client.asked();
            client.reply(&asked, reply);
        }
        assert_eq!(text(&client.answer(id)["result"]), "finished");
        client.leave(&scenario);
        assert_eq!(scenario.read("a.txt"), None);
        let answered = answered(&scenario);
        assert_eq!((&answered[0]["answer"], &answered[0]["reason"]), (&json!("deny"), &reason));
    }
}

#[test]
fn newest_revision_is_asked_in_rounds_and_an_answer_counts_once() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Rounds);
    let mut asked = client.ask("tools/call", call("bees"));
    let asked = asked["result"].take();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let state = asked["requestState"].as_str().expect("a state").to_owned();
    assert!(asked["inputRequests"]["0/0.0:ask"]["params"]["requestedSchema"].is_object(), "{asked}");
    let mut retry = |topic: &str, state: &str, decision: &str| {
        let mut params = call(topic);
        params["requestState"] = state.into();
        params["inputResponses"] =
            json!({"0/0.0:ask": {"action": "accept", "content": {"decision": decision}}, "0/9.9:ask": {}});
        client.ask("tools/call", params)
    };
    // Neither another call's state nor an invented one is taken.
    assert_eq!(retry("wasps", &state, "approve")["error"]["code"], -32602);
    let (front, back) = state.split_at(state.len() - 10);
    let other = if back.starts_with('A') { "B" } else { "A" };
    let changed = format!("{front}{other}{}", &back[1..]);
    assert_eq!(retry("bees", &changed, "approve")["error"]["code"], -32602);
    // A form that is wrong leaves the question open.
    assert_eq!(retry("bees", &state, "perhaps")["result"]["resultType"], "input_required");
    assert_eq!(scenario.read("a.txt"), None);
    let first = retry("bees", &state, "approve");
    assert_eq!(text(&first["result"]), "finished", "{first}");
    // A late answer changes nothing, and gets the same result.
    let second = retry("bees", &state, "deny");
    assert_eq!(first["result"], second["result"]);
    client.leave(&scenario);
    assert_eq!(scenario.runs().len(), 1);
    assert_eq!(answered(&scenario).len(), 1);
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}

/// The call again, with an answer to its question.
fn retry(client: &mut Client, state: &str, decision: &str) -> Value {
    let mut params = call("bees");
    params["requestState"] = state.into();
    params["inputResponses"] = json!({"0/0.0:ask": {"action": "accept", "content": {"decision": decision}}});
    client.ask("tools/call", params)
}

#[test]
fn later_server_continues_the_run_that_a_round_is_about() {
    for (decision, written) in [("approve", Some("a")), ("deny", None)] {
        let scenario = writer();
        let mut client = Client::start(&scenario, &[], Speaks::Rounds);
        let asked = client.ask("tools/call", call("bees"));
        let state = asked["result"]["requestState"].as_str().expect("a state").to_owned();
        client.leave(&scenario);
        let mut client = Client::start(&scenario, &[], Speaks::Rounds);
        // A form that is wrong asks again, and another process has the same question.
        let again = retry(&mut client, &state, "perhaps")["result"].take();
        assert_eq!(again["resultType"], "input_required", "{again}");
        let state = again["requestState"].as_str().expect("a state").to_owned();
        client.leave(&scenario);
        let mut client = Client::start(&scenario, &[], Speaks::Rounds);
        let done = retry(&mut client, &state, decision);
        assert_eq!(text(&done["result"]), "finished", "{done}");
        // A late answer gets the same result, also from a third process.
        client.leave(&scenario);
        let mut client = Client::start(&scenario, &[], Speaks::Rounds);
        assert_eq!(text(&retry(&mut client, &state, "approve")["result"]), "finished");
        client.leave(&scenario);
        assert_eq!((scenario.runs().len(), answered(&scenario).len()), (1, 1));
        assert_eq!(scenario.read("a.txt").as_deref(), written);
    }
}

#[test]
fn changed_program_does_not_continue_a_run() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Rounds);
    let asked = client.ask("tools/call", call("bees"));
    let state = asked["result"]["requestState"].as_str().expect("a state").to_owned();
    client.leave(&scenario);
    let worker = scenario.read("main.worker").expect("the worker").replace("Write.", "Write more.");
    let scenario = scenario.file("main.worker", &worker);
    let mut client = Client::start(&scenario, &[], Speaks::Rounds);
    let refused = retry(&mut client, &state, "approve")["result"].take();
    assert_eq!(refused["isError"], true, "{refused}");
    assert!(text(&refused).contains("`main` (main.worker) has changed since the run began"), "{refused}");
    client.leave(&scenario);
    assert_eq!(scenario.read("a.txt"), None);
}

#[test]
fn run_whose_answer_does_not_come_can_be_resumed() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Rounds);
    let asked = client.ask("tools/call", call("bees"));
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    client.leave(&scenario);
    assert_eq!(scenario.journal().last().expect("an end")["status"], "suspended");
    let told = scenario.run(&["runs", "resume", "last", "--approve", "0/0.0"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "finished\n"), "{told}");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}

#[test]
fn without_a_way_to_ask_the_call_is_refused_and_the_result_says_what_to_do() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Older { asks: false });
    let result = client.ask("tools/call", call("bees"))["result"].take();
    assert_eq!((text(&result), &result["isError"]), ("finished", &json!(false)));
    let note = result["content"][1]["text"].as_str().expect("a note");
    assert!(note.contains("1 question was refused") && note.contains("--approval defer"), "{note}");
    client.leave(&scenario);
    assert_eq!(scenario.read("a.txt"), None);

    let mut client = Client::start(&scenario, &["--approval", "defer"], Speaks::Older { asks: false });
    let result = client.ask("tools/call", call("bees"))["result"].take();
    assert_eq!(result["isError"], true);
    let command = text(&result).split("approval: ").nth(1).and_then(|rest| rest.split(" (or").next());
    let command = command.unwrap_or_else(|| panic!("{result}"));
    client.leave(&scenario);
    let words: Vec<&str> = command.split_whitespace().skip(1).map(|word| word.trim_matches('\'')).collect();
    let told = scenario.run(&words);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "finished\n"), "{told}");
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"));
}

#[test]
fn words_of_a_client_are_no_words_of_the_operator() {
    let scenario = writer();
    let rule = ["--allow", "write_file where path from input"];
    let told = scenario.run(&[&[".", "--param", "topic=write a.txt please"], &rule[..]].concat());
    assert_eq!(scenario.read("a.txt").as_deref(), Some("a"), "{told}");
    std::fs::remove_file(scenario.project().join("a.txt")).expect("it is there");
    let mut client = Client::start(&scenario, &rule, ASKS);
    let id = client.send("tools/call", call("write a.txt please"));
    let asked = client.asked();
    client.reply(&asked, &json!({"action": "decline"}));
    client.answer(id);
    client.leave(&scenario);
    assert_eq!(scenario.read("a.txt"), None);
}
