//! Runs that wait for the operator of the server, as tasks of a client that can't ask its user.

use super::{
    client::{Client, Speaks, text},
    questions::writer,
};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::fs;

fn call() -> Value {
    json!({"name": "main", "arguments": {"topic": "bees"}})
}

/// Calls the worker, whose run then waits, and returns the task's ID.
fn task(client: &mut Client) -> String {
    let mut answer = client.ask("tools/call", call());
    let task = answer["result"].take();
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")), "{task}");
    let id = task["taskId"].as_str().expect("an ID").to_owned();
    let message = task["statusMessage"].as_str().expect("a message");
    for part in ["write_file", &format!("llm-do runs resume {id} "), "--approve 0/0.0"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert!(task["pollIntervalMs"].is_number() && task["createdAt"].is_string(), "{task}");
    id
}

fn get(client: &mut Client, id: &str) -> Value {
    client.ask("tasks/get", json!({"taskId": id}))
}

fn resume(scenario: &Scenario, id: &str, decision: &str) {
    let told = scenario.run(&["runs", "resume", id, decision, "0/0.0"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "finished\n"), "{told}");
}

#[test]
fn run_that_waits_is_a_task_which_the_operator_answers() {
    for (decision, written) in [("--approve", Some("a")), ("--deny", None)] {
        for arguments in [&[][..], &["--approval", "defer"]] {
            let scenario = writer();
            let mut client = Client::start(&scenario, arguments, Speaks::Tasks);
            let id = task(&mut client);
            let waits = get(&mut client, &id)["result"].take();
            assert_eq!((&waits["status"], &waits["taskId"]), (&json!("working"), &json!(id)), "{waits}");
            assert_eq!(waits["resultType"], "complete");
            assert_eq!(scenario.read("a.txt"), None);
            resume(&scenario, &id, decision);
            let done = get(&mut client, &id)["result"].take();
            assert_eq!(done["status"], "completed", "{done}");
            assert_eq!((text(&done["result"]), &done["result"]["isError"]), ("finished", &json!(false)));
            assert_eq!(done["result"]["_meta"]["llm-do/run"], json!(id));
            assert_eq!(scenario.read("a.txt").as_deref(), written);
            client.leave(&scenario);
        }
    }
}

#[test]
fn task_outlives_its_server() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Tasks);
    let id = task(&mut client);
    client.leave(&scenario);
    let mut client = Client::start(&scenario, &[], Speaks::Tasks);
    assert_eq!(get(&mut client, &id)["result"]["status"], "working");
    resume(&scenario, &id, "--approve");
    assert_eq!(get(&mut client, &id)["result"]["status"], "completed");
    client.leave(&scenario);
}

#[test]
fn repeated_call_with_a_key_gets_the_result_of_the_task() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Tasks);
    let mut keyed = call();
    keyed["_meta"]["llm-do/idempotency-key"] = "one".into();
    let id = client.ask("tools/call", keyed.clone())["result"]["taskId"].take();
    let id = id.as_str().expect("an ID");
    assert_eq!(client.ask("tools/call", keyed.clone())["result"]["taskId"], *id);
    resume(&scenario, id, "--approve");
    assert_eq!(text(&client.ask("tools/call", keyed)["result"]), "finished");
    client.leave(&scenario);
    assert_eq!(scenario.runs().len(), 1);
}

#[test]
fn cancelled_task_can_not_be_approved_and_stays_cancelled() {
    let scenario = writer();
    let mut client = Client::start(&scenario, &[], Speaks::Tasks);
    let id = task(&mut client);
    for _ in 0..2 {
        let cancelled = client.ask("tasks/cancel", json!({"taskId": id}));
        assert_eq!(cancelled["result"]["resultType"], "complete", "{cancelled}");
    }
    assert_eq!(get(&mut client, &id)["result"]["status"], "cancelled");
    client.leave(&scenario);
    assert_eq!(scenario.journal().last().expect("an end")["status"], "interrupted");
    assert_eq!(scenario.read("a.txt"), None);
}

#[test]
fn only_runs_of_clients_are_tasks() {
    let scenario = writer();
    let own = scenario.run(&["main.worker", "topic=bees", "--approval", "defer"]);
    assert_eq!(own.code, Some(5), "{own}");
    let own = scenario.runs()[0].file_name().expect("a name").to_string_lossy().into_owned();
    let mut client = Client::start(&scenario, &[], Speaks::Tasks);
    let id = task(&mut client);
    for unknown in [own.as_str(), "", "..", "../runs", &format!("../runs/{id}"), "20200101-000000-0000"] {
        for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
            let answer = client.ask(method, json!({"taskId": unknown, "inputResponses": {}}));
            assert_eq!(answer["error"]["code"], -32602, "{method} {unknown}: {answer}");
        }
    }
    // A journal that was changed by somebody else.
    let journal = scenario.runs()[1].join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    fs::write(&journal, text.replace("write_file", "write_fule")).expect("a journal");
    assert_eq!(get(&mut client, &id)["error"]["code"], -32602);
    client.leave(&scenario);
}

#[test]
fn clients_without_tasks_get_none() {
    for speaks in [Speaks::Older { asks: false }, Speaks::Rounds] {
        let scenario = writer();
        let mut client = Client::start(&scenario, &["--approval", "defer"], speaks);
        let result = client.ask("tools/call", call())["result"].take();
        assert_eq!((result.get("taskId"), &result["isError"]), (None, &json!(true)), "{result}");
        let id = result["_meta"]["llm-do/run"].as_str().expect("a run").to_owned();
        assert!(get(&mut client, &id)["error"].is_object());
        client.leave(&scenario);
    }
}
