//! `llm-do serve`, over plain HTTP: a client can lie about everything.

mod acknowledged;
mod budgets;
mod chats;
mod client;
mod costs;
mod editing;
mod faces;
mod files;
mod full_disk;
mod generated_client;
mod language;
mod lists;
mod notify;
mod observation;
mod pressure;
mod queue;
mod quotas;
mod refusals;
mod restart;
mod results;
mod schemathesis;
mod sign_in;
mod triggers;

use crate::scenario::{Scenario, lines, script};
use client::{Server, TOKEN_OF_CI, ci_token};
use llm_do_core::partial::Growth;
use serde_json::json;

/// `scripts/prove service` sends as much as the issue of the service names.
fn whole() -> bool {
    std::env::var_os("LLM_DO_TEST_WHOLE").is_some()
}

/// A project with a worker that answers, one that asks, one that is slow, and one that is not exported.
fn desk() -> Scenario {
    Scenario::new()
        .file(
            "project.yaml",
            "name: desk\nversion: 1.0.0\nexports: [greeter, sorter, writer, slow]\nmodel: script:s.yaml\n",
        )
        .file(
            "workers/greeter.worker",
            "---\ndescription: Greets somebody.\nparameters: {name: string}\n---\nGreet {{ name }}.\n",
        )
        .file(
            "workers/sorter.worker",
            "---\nparameters: {mail: string}\nreturns: {type: object, properties: {urgent: {type: boolean}}, required: [urgent]}\nmodel: script:typed.yaml\n---\nSort.\n",
        )
        .file(
            "workers/writer.worker",
            "---\nmodel: script:writes.yaml\nsandbox: {paths: {out: {root: ./out, mode: rw}}}\ntoolsets: {filesystem: {tools: [write_file]}}\n---\nWrite.\n",
        )
        .file("workers/slow.worker", "---\nmodel: script:slow.yaml\n---\nThink.\n")
        .file("workers/hidden.worker", "---\n---\nHide.\n")
        .file("s.yaml", "answers:\n  - text: Hello!\n")
        .file("typed.yaml", "answers:\n  - json: {urgent: true}\n")
        .file(
            "writes.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [{"tool": "write_file", "arguments": {"path": "out/note.txt", "content": "noted\n"}}]}),
                json!({"text": "written"}),
            ]),
        )
        .file("slow.yaml", "answers:\n  - text: late\n    delay_ms: 600000\n")
}

#[test]
fn wrong_inputs_are_explained_without_flags_of_the_command_line() {
    let scenario = desk()
        .file(
            "project.yaml",
            "name: desk\ndescription: Answers mail.\nexports: [greeter, picker]\nmodel: script:s.yaml\n",
        )
        .file(
            "workers/picker.worker",
            "---\nparameters:\n  type: object\n  required: [kind, who]\n  properties:\n    kind: {enum: [mail, phone]}\n    who:\n      oneOf:\n        - {type: object, required: [mail]}\n        - {type: object, required: [phone]}\n---\nPick.\n",
        );
    let server = Server::start(&scenario, &[]);
    let programs = server.get("/v1/programs").send().body;
    assert_eq!(programs["programs"][0]["description"], "Answers mail.", "{programs}");
    let refused = |body| {
        let response = server.post("/v1/runs", &body).send();
        assert_eq!((response.status, &response.body["code"]), (422, &json!("bad_input")), "{response:?}");
        response.body["detail"].as_str().expect("a text").to_owned()
    };
    let message = refused(json!({"worker": "picker", "message": "Hi"}));
    assert!(message.contains("fits none of the parameters") && !message.contains("--"), "{message}");
    assert!(message.contains("picker(kind: [mail, phone], who: object)"), "{message}");
    let choice = refused(json!({"worker": "picker", "input": {"kind": "mail", "who": {}}}));
    assert!(choice.contains("1: \"mail\" is a required property; 2: \"phone\" is"), "{choice}");
    let on_the_command_line = scenario.run(&["--project", ".", "--entry", "picker", "-m", "Hi"]);
    let said = on_the_command_line.stderr;
    assert!(said.contains("hint: write `--param NAME=VALUE`"), "{said}");
}

#[test]
fn run_is_started_and_its_output_is_the_answer() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let health = server.get("/health").without_token().send();
    assert_eq!((health.status, &health.body["status"]), (200, &json!("ok")), "{health:?}");
    let workers = server.get("/v1/workers").send().body;
    let names: Vec<_> =
        workers["workers"].as_array().expect("workers").iter().map(|w| &w["worker"]).collect();
    assert_eq!(names, ["greeter", "sorter", "writer", "slow"]);
    assert_eq!(workers["workers"][0]["default"], true);
    assert_eq!(workers["workers"][0]["input"]["required"], json!(["name"]));
    assert_eq!(workers["workers"][1]["output"]["required"], json!(["urgent"]));

    let started =
        server.post("/v1/runs?wait=60", &json!({"worker": "sorter", "input": {"mail": "to all"}})).send();
    assert_eq!(started.status, 201, "{started:?}");
    assert_eq!(started.body["state"], "done");
    assert_eq!(started.body["output"], json!({"urgent": true}));
    assert_eq!(started.body["client"], "operator");
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    assert_eq!(started.header("location"), Some(format!("/v1/runs/{run}").as_str()));
    assert_eq!(server.get(&format!("/v1/runs/{run}")).send().body, started.body);
    let listed = server.get("/v1/runs").send().body;
    assert_eq!(listed["runs"][0]["run"], json!(run));
    assert_eq!(listed["runs"][0].get("output"), None, "lists hold no outputs");
    let metrics = server.get("/metrics").send().text;
    assert!(metrics.contains("llm_do_runs_ended_total{program=\"desk\",state=\"done\"} 1"), "{metrics}");
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn approval_is_answered_by_whoever_holds_the_digest_and_the_first_answer_stands() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let started =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write it down."})).send();
    assert_eq!(started.body["state"], "waiting", "{started:?}");
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    let question = started.body["questions"][0].clone();
    assert_eq!((&question["question"], &question["function"]), (&json!("approval"), &json!("write_file")));
    assert_eq!(question["preview"]["after"], "noted\n");
    let all = server.get("/v1/questions").send().body;
    assert_eq!(all["questions"][0]["digest"], question["digest"]);
    assert_eq!(all["questions"][0]["run"], json!(run));

    let answers = format!("/v1/runs/{run}/answers");
    let answer = |digest: &str, answer: &str| json!({"call": question["call"], "step": question["step"], "digest": digest, "answer": answer});
    let digest = question["digest"].as_str().expect("a digest");
    let unseen = server.post(&answers, &answer("0000000000000000", "approve")).send();
    assert_eq!((unseen.status, &unseen.body["code"]), (409, &json!("question_changed")), "{unseen:?}");
    let misfit = server.post(&answers, &answer(digest, "again")).send();
    assert_eq!((misfit.status, &misfit.body["code"]), (400, &json!("bad_request")), "{misfit:?}");
    assert_eq!(scenario.read("out/note.txt"), None);
    assert_eq!(server.post(&answers, &answer(digest, "approve")).send().status, 204);
    let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
    assert_eq!((&done["state"], &done["output"]), (&json!("done"), &json!("written")), "{done}");
    assert_eq!(scenario.read("out/note.txt").as_deref(), Some("noted\n"));
    let late = server.post(&answers, &answer(digest, "deny")).send();
    assert_eq!((late.status, &late.body["by"]), (409, &json!("operator")), "{late:?}");
}

#[test]
fn events_are_those_of_the_journal_and_continue_after_any_of_them() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let started =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write it down."})).send();
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    let following = server.follow(&run, None);
    let question = started.body["questions"][0].clone();
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    let events = following.join().expect("the reader ends with the run");
    let records: Vec<_> = events.iter().filter(|event| event.kind == "record").collect();
    let ids: Vec<u64> = records.iter().map(|event| event.id.expect("a record has a number")).collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
    let recorded = scenario.journal();
    assert_eq!(ids.len(), recorded.len());
    for (event, record) in records.iter().zip(&recorded) {
        assert_eq!(event.data["record"]["kind"], record["kind"]);
    }
    let middle = ids[ids.len() / 2];
    let rest = server.follow(&run, Some(middle)).join().expect("events");
    assert_eq!(rest.first().and_then(|event| event.id), Some(middle + 1));
    assert_eq!(rest.len(), ids.len() - middle as usize - 1);
}

#[test]
fn deltas_are_streamed_while_the_model_answers() {
    let scenario = Scenario::new()
        .file("talker.worker", "---\nmodel: script:s.yaml\nmode: chat\n---\nTalk.\n")
        .file("s.yaml", "answers:\n  - when: {turn: 0}\n    text: first\n  - text: second answer\n");
    let server = Server::start_with(&scenario, &["talker.worker"]);
    let started = server.post("/v1/runs?wait=60", &json!({"message": "Hi.", "chat": true})).send();
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    assert_eq!(started.body["questions"][0]["prompt"], "first", "{started:?}");
    let following = server.follow(&run, None);
    let sent = server.post(&format!("/v1/runs/{run}/messages"), &json!({"text": "More."})).send();
    assert_eq!((sent.status, &sent.body["delivered"]), (202, &json!(true)), "{sent:?}");
    server.until(&run, |view| view["questions"][0]["prompt"] == "second answer");
    assert_eq!(server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().status, 202);
    let events = following.join().expect("events");
    let text: String = events
        .iter()
        .filter(|event| event.kind == "delta")
        .filter_map(|event| event.data["text"].as_str())
        .collect();
    assert_eq!(text, "second answer");
    assert_eq!(server.get(&format!("/v1/runs/{run}?wait=60")).send().body["state"], "cancelled");
}

#[test]
fn a_typed_answer_is_streamed_as_it_grows() {
    let output = json!({"title": "long ".repeat(6), "n": 12});
    let stream = json!({"chars": 4, "pause_ms": 1});
    let scenario = Scenario::new()
        .file("project.yaml", "name: desk\nversion: 1.0.0\nexports: [typed, asks]\nmodel: script:s.yaml\n")
        .file(
            "workers/typed.worker",
            "---\nreturns: {type: object, properties: {title: {type: string}, n: {type: integer}}, required: [title, n]}\n---\nGo.\n",
        )
        .file(
            "workers/asks.worker",
            "---\nallow_workers: [typed]\nmodel: script:asks.yaml\ntool_rules: [{tool: worker_call, then: ask}]\n---\nAsk.\n",
        )
        .file(
            "asks.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [{"tool": "typed", "arguments": {"input": "Go."}}]}),
                json!({"text": "Done."}),
            ]),
        )
        .file(
            "s.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "text": "{\"title\": \"wrong\"}", "stream": stream}),
                json!({"text": output.to_string(), "stream": stream}),
            ]),
        );
    let server = Server::start(&scenario, &[]);
    // The reader is there before the answer begins.
    let started = server.post("/v1/runs?wait=60", &json!({"worker": "asks", "message": "Go."})).send();
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    let following = server.follow(&run, None);
    let question = started.body["questions"][0].clone();
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    let events = following.join().expect("the reader ends with the run");
    let (mut value, mut discarded) = (None, 0);
    for event in &events {
        match event.kind.as_str() {
            "partial" => {
                let growth: Vec<Growth> =
                    serde_json::from_value(event.data["growth"].clone()).expect("growth");
                growth.into_iter().for_each(|growth| growth.apply(&mut value));
            }
            "discard_partial" => {
                assert_eq!(value.take(), Some(json!({"title": "wrong"})));
                discarded += 1;
            }
            _ => continue,
        }
        assert_eq!((event.id, &event.data["path"]), (None, &json!("0/0.0")));
    }
    assert_eq!((value, discarded), (Some(output.clone()), 1));

    let asked =
        json!({"threadId": "t", "runId": "r", "messages": [{"id": "1", "role": "user", "content": "Go."}]});
    let mut events = server.listen(server.post("/v1/ag-ui/desk/typed", &asked));
    let (mut value, mut discarded) = (None, 0);
    while let Some(event) = events.next() {
        match event.data["name"].as_str() {
            Some("partial") => {
                let growth: Vec<Growth> =
                    serde_json::from_value(event.data["value"].clone()).expect("growth");
                growth.into_iter().for_each(|growth| growth.apply(&mut value));
            }
            Some("discard_partial") => {
                assert_eq!(value.take(), Some(json!({"title": "wrong"})));
                discarded += 1;
            }
            _ => {}
        }
    }
    assert_eq!((value, discarded), (Some(output), 1));
}

#[test]
fn repeated_request_finds_the_run_of_the_first() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let ask = |key: &str, name: &str| {
        server
            .post("/v1/runs?wait=60", &json!({"input": {"name": name}}))
            .header("Idempotency-Key", key)
            .send()
    };
    let first = ask("order-1", "Ada");
    assert_eq!((first.status, &first.body["output"]), (201, &json!("Hello!")), "{first:?}");
    let again = ask("order-1", "Ada");
    assert_eq!((again.status, &again.body), (200, &first.body));
    let other = ask("order-1", "Bob");
    assert_eq!((other.status, &other.body["code"]), (409, &json!("key_reused")), "{other:?}");
    assert_ne!(ask("order-2", "Ada").body["run"], first.body["run"]);
    assert_eq!(scenario.runs().len(), 2);
}

#[test]
fn request_tightens_and_never_loosens() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let write = |more: serde_json::Value| {
        let mut body = json!({"worker": "writer", "message": "Write."});
        body.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
        server.post("/v1/runs?wait=60", &body).send()
    };
    let denied = write(json!({"approval": "auto_deny"}));
    assert_eq!((denied.status, &denied.body["state"]), (201, &json!("done")), "{denied:?}");
    assert_eq!(scenario.read("out/note.txt"), None);
    assert_eq!(write(json!({"deny": ["write_file"]})).body["state"], "done");
    assert_eq!(scenario.read("out/note.txt"), None);
    assert_eq!(write(json!({"approval": "approve_all"})).status, 403);
    for wrong in [
        json!({"allow": ["write_file"]}),
        json!({"grant": ["network"]}),
        json!({"model": "script:other.yaml"}),
        json!({"deny": ["write_file where content in @/etc/passwd#/a"]}),
        json!({"budget": ["much"]}),
    ] {
        let refused = write(wrong.clone());
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
    assert_eq!(write(json!({"budget": ["1turns"]})).body["state"], "waiting");
}

#[test]
fn token_sees_its_own_runs_and_may_not_answer_without_that_scope() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let of_operator = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send().body;
    let started = server
        .post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."}))
        .token(TOKEN_OF_CI)
        .send();
    assert_eq!((started.status, &started.body["client"]), (201, &json!("ci")), "{started:?}");
    let run = started.body["run"].as_str().expect("an ID");
    let listed = server.get("/v1/runs").token(TOKEN_OF_CI).send().body;
    assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
    let other = of_operator["run"].as_str().expect("an ID");
    for path in [format!("/v1/runs/{other}"), format!("/v1/runs/{other}/events")] {
        assert_eq!(server.get(&path).token(TOKEN_OF_CI).send().status, 404, "{path}");
    }
    let question = &started.body["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let path = format!("/v1/runs/{run}/answers");
    let refused = server.post(&path, &answer).token(TOKEN_OF_CI).send();
    assert_eq!((refused.status, &refused.body["code"]), (403, &json!("forbidden")), "{refused:?}");
    assert_eq!(server.post(&path, &answer).send().status, 204, "the operator may");
    let journals = scenario.runs().into_iter().map(|dir| std::fs::read_to_string(dir.join("journal.jsonl")));
    let started: Vec<_> = journals
        .map(|journal| {
            lines(journal.expect("a journal").lines().next().expect("a record"))[0]["invocation"].clone()
        })
        .collect();
    assert!(
        started
            .iter()
            .any(|invocation| invocation["client"]["name"] == "ci" && invocation["untrusted_input"] == true)
    );
    assert!(started.iter().any(|invocation| invocation["client"]["name"] == "operator"
        && invocation.get("untrusted_input").is_none()));
}

/// The first record of that kind in the journal of the only run.
fn recorded(scenario: &Scenario, kind: &str) -> serde_json::Value {
    let runs = scenario.runs();
    let journal = std::fs::read_to_string(runs[0].join("journal.jsonl")).expect("a journal");
    let records = lines(&journal);
    records
        .into_iter()
        .find(|record| record["kind"] == kind)
        .unwrap_or_else(|| panic!("no {kind}: {journal}"))
}

#[test]
fn approval_says_who_asked_and_who_approved_and_the_call_keeps_the_authority_of_who_asked() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let started = server
        .post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."}))
        .token(TOKEN_OF_CI)
        .send();
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    let asked = &server.get("/v1/questions").send().body["questions"][0];
    assert_eq!(asked["client"], "ci", "the approver sees who asks: {asked}");
    let question = &started.body["questions"][0];
    let path = format!("/v1/runs/{run}/answers");
    // The approver could write there. The run could not, and the arguments of the approver are those of the run.
    let edited = json!({"call": question["call"], "step": question["step"], "digest": question["digest"],
        "answer": "edit", "input": {"path": "/workers/hidden.worker", "content": "taken over\n"}});
    assert_eq!(server.post(&path, &edited).send().status, 204);
    let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
    assert_eq!(done["state"], "done", "{done}");
    assert_eq!(scenario.read("workers/hidden.worker").as_deref(), Some("---\n---\nHide.\n"));
    let requester = json!({"by": "ci", "via": "http"});
    assert_eq!(recorded(&scenario, "run_started")["requester"], requester);
    let answered = recorded(&scenario, "answered");
    assert_eq!((&answered["by"], &answered["via"]), (&json!("operator"), &json!("http")));
    assert_eq!((&answered["requester"], &answered["digest"]), (&requester, &question["digest"]));
    server.stop();
    let shown = scenario.run(&["runs", "show", "last"]);
    assert!(shown.stdout.contains("for ci (http)"), "{shown}");
    let call = question["call"].as_str().expect("a call");
    let shown = scenario.run(&["runs", "show", "last", "--call", call]);
    let digest = question["digest"].as_str().expect("a digest");
    for said in ["the operator (http) approved", "requested by ci (http)", &format!("shown as {digest}")] {
        assert!(shown.stdout.contains(said), "{said}: {shown}");
    }
}

#[test]
fn question_that_expires_is_denied_and_takes_no_answer() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--questions-expire", "1ms"]);
    let started = server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send();
    let run = started.body["run"].as_str().expect("an ID").to_owned();
    let done = server.until(&run, |run| run["state"] == "done");
    assert_eq!((&done["output"], scenario.read("out/note.txt")), (&json!("written"), None), "{done}");
    let (asked, answered) = (recorded(&scenario, "asked"), recorded(&scenario, "answered"));
    assert!(asked["expires_ms"].is_u64(), "{asked}");
    assert_eq!((&answered["answer"], &answered["via"]), (&json!("deny"), &json!("expiry")), "{answered}");
    assert_eq!(answered["expires_ms"], asked["expires_ms"]);
    let late = json!({"call": asked["path"], "step": asked["step"], "digest": "0000000000000000", "answer": "approve"});
    let refused = server.post(&format!("/v1/runs/{run}/answers"), &late).send();
    assert_eq!((refused.status, &refused.body["code"]), (410, &json!("question_expired")), "{refused:?}");
}
