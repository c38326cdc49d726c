//! Requests that must be refused.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use crate::scenario::Scenario;
use serde_json::json;

#[test]
fn strangers_are_refused() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    let longer = format!("Bearer {}0", server.token);
    for (name, value, status) in [
        ("Authorization", "", 401),
        ("Authorization", "Bearer wrong", 401),
        ("Authorization", longer.as_str(), 401),
        ("Authorization", server.token.as_str(), 401),
        ("Host", "evil.example", 403),
        ("Host", "127.0.0.1:1", 403),
        ("Origin", "https://evil.example", 403),
        ("Origin", "null", 403),
    ] {
        let refused = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).header(name, value).send();
        assert_eq!(refused.status, status, "{name}: {value}: {refused:?}");
        assert_eq!(refused.header("content-type"), Some("application/problem+json"));
    }
    // A page that rebinds its name must not even learn that the server is there.
    assert_eq!(server.get("/health").header("Host", "evil.example").send().status, 403);
    assert_eq!(server.get("/v1/workers").header("Host", &format!("localhost:{port}")).send().status, 200);
    let own = format!("http://127.0.0.1:{port}");
    assert_eq!(server.get("/v1/workers").header("Origin", &own).send().status, 200);
    let no_cors = server.ask("OPTIONS", "/v1/runs", String::new()).header("Origin", &own).send();
    assert_eq!(no_cors.header("access-control-allow-origin"), None, "{no_cors:?}");
    assert_eq!(scenario.runs().len(), 0);
}

#[test]
fn what_is_no_request_is_an_error_that_says_why() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    for (path, body, status, says) in [
        ("/v1/runs", json!({}), 400, "either `message` or `input`"),
        ("/v1/runs", json!({"message": "a", "input": {}}), 400, "either `message` or `input`"),
        ("/v1/runs", json!({"input": {"name": "Ada"}, "colour": 1}), 400, "colour"),
        (
            "/v1/runs",
            json!({"worker": "hidden", "message": "a"}),
            404,
            "does not export `hidden`; it exports greeter",
        ),
        ("/v1/runs", json!({"worker": "../greeter", "message": "a"}), 404, "does not export `../greeter`"),
        ("/v1/runs", json!({"program": "../desk", "message": "a"}), 404, "no such program"),
        ("/v1/runs", json!({"input": {"name": 7}}), 422, "name"),
        ("/v1/runs", json!({"input": {}}), 422, "name"),
        ("/v1/runs?wait=301", json!({"input": {"name": "Ada"}}), 400, "300"),
        ("/v1/runs?watch=1", json!({"input": {"name": "Ada"}}), 400, "watch"),
        (
            "/v1/runs/20261123-000000-0000/answers",
            json!({"call": "0", "step": "ask", "digest": "", "answer": "approve"}),
            404,
            "no run",
        ),
        (
            "/v1/runs/..%2f..%2fetc/answers",
            json!({"call": "0", "step": "ask", "digest": "", "answer": "approve"}),
            404,
            "no run",
        ),
        ("/v1/runs/last/cancel", json!({}), 409, "not under way"),
        ("/v2/runs", json!({}), 404, "/openapi.json"),
    ] {
        let refused = server.post(path, &body).send();
        assert_eq!(refused.status, status, "{path} {body}: {refused:?}");
        let detail = refused.body["detail"].as_str().unwrap_or_default();
        assert!(detail.contains(says), "{path} {body}: {refused:?}");
    }
    for wrong in ["{\"message\":", "[]", "\"a\""] {
        let refused =
            server.ask("POST", "/v1/runs", wrong.into()).header("Content-Type", "application/json").send();
        assert_eq!(refused.status, 400, "{wrong}: {refused:?}");
    }
    let kind = server.ask("POST", "/v1/runs", "{}".into()).header("Content-Type", "text/plain").send();
    assert_eq!(kind.status, 400, "{kind:?}");
    assert_eq!(server.ask("DELETE", "/v1/runs", String::new()).send().status, 405);
    let large =
        server.post("/v1/runs", &json!({"message": "x"})).header("Content-Length", "99999999999").send();
    assert_eq!(large.status, 413, "{large:?}");
    assert_eq!(scenario.runs().len(), 0);
}

#[test]
fn token_of_another_program_or_scope_reaches_nothing() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[read]", "    programs: [desk]\n"));
    let server = Server::start(&scenario, &[]);
    let start = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).token(TOKEN_OF_CI).send();
    assert_eq!((start.status, &start.body["code"]), (403, &json!("forbidden")), "{start:?}");
    drop(server);
    let elsewhere = desk().home_file("serve.yaml", &ci_token("[read]", "    programs: [mail]\n"));
    let told = elsewhere.run(&["serve", ".", "--listen", "127.0.0.1:0"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("the token `ci` names the program `mail`, which is not served"), "{told}");
}

#[test]
fn limits_of_runs_hold_and_waiting_runs_count() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--max-runs", "2"]);
    let start = || server.post("/v1/runs", &json!({"worker": "slow", "message": "a"})).send();
    let first = start();
    assert_eq!((first.status, start().status), (201, 201));
    let third = start();
    assert_eq!((third.status, third.header("retry-after")), (429, Some("5")), "{third:?}");
    let run = first.body["run"].as_str().expect("an ID");
    assert_eq!(server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).send().status, 202);
    assert_eq!(server.get(&format!("/v1/runs/{run}?wait=60")).send().body["state"], "cancelled");
    assert_eq!(start().status, 201);
}

#[test]
fn other_addresses_than_loopback_are_refused() {
    let told = desk().run(&["serve", ".", "--listen", "0.0.0.0:0"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("not an address of the loopback interface"), "{told}");
    for command in [&["serve", ".", "--port", "localhost:80"][..], &["mcp", "serve", ".", "--http", "http"]] {
        let told = desk().run(command);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(told.stderr.contains("give a port, or an address with a port, such as 8750"), "{told}");
    }
}

#[test]
fn new_token_is_printed_with_the_entry_that_admits_it() {
    let scenario = desk();
    let told = scenario.run(&["serve", "--new-token", "robot", "--scope", "start", "--scope", "read"]);
    assert_eq!(told.code, Some(0), "{told}");
    let text = |marker: &str| told.stderr.split_once(marker).map(|(_, rest)| rest.to_owned()).expect(marker);
    let token = text("token: ").lines().next().expect("a token").to_owned();
    let entry: String = text("tokens:\n")
        .lines()
        .take_while(|line| line.starts_with("  "))
        .map(|line| format!("{line}\n"))
        .collect();
    let scenario = scenario.home_file("serve.yaml", &format!("tokens:\n{entry}"));
    let server = Server::start(&scenario, &[]);
    assert_eq!(server.get("/v1/workers").token(&token).send().status, 200);
    let bare = scenario.run(&["serve", "--new-token", "robot"]);
    assert_eq!(bare.code, Some(2), "{bare}");
}

/// A worker that lets its user choose between two colours.
fn asks() -> Scenario {
    Scenario::new().file("main.worker", "---\nmodel: script:s.yaml\ninteraction: user\n---\nAsk.\n").file(
        "s.yaml",
        "answers:\n  - when: {turn: 0}\n    calls: [{tool: ask_user, arguments: {question: Which colour?, choices: [red, blue]}}]\n  \
         - text: '{{ last }} noted'\n",
    )
}

#[test]
fn an_answer_that_does_not_fit_spends_no_question_of_a_live_or_a_suspended_run() {
    for restarts in [false, true] {
        let scenario = asks();
        let mut server = Server::start_with(&scenario, &["main.worker"]);
        let started = server.post("/v1/runs", &json!({"message": "go"})).send();
        let run = started.body["run"].as_str().expect("an ID").to_owned();
        let view = server.until(&run, |view| view["state"] == "waiting");
        if restarts {
            server.stop();
            server = Server::start_with(&scenario, &["main.worker"]);
        }
        let question = view["questions"][0].clone();
        let give = |answer: serde_json::Value| {
            let mut body =
                json!({"call": question["call"], "step": question["step"], "digest": question["digest"]});
            body.as_object_mut().expect("fields").extend(answer.as_object().expect("fields").clone());
            server.post(&format!("/v1/runs/{run}/answers"), &body).send()
        };
        for (wrong, says) in [
            (json!({"answer": "give", "value": "green"}), "\"red\" or \"blue\""),
            (json!({"answer": "give", "value": {"answer": "red"}}), "\"red\" or \"blue\""),
            (json!({"answer": "give", "value": null}), "\"red\" or \"blue\""),
            (json!({"answer": "approve"}), "another kind of question"),
        ] {
            let refused = give(wrong.clone());
            let detail = refused.body["detail"].to_string().replace("\\\"", "\"");
            assert!(refused.status == 400 && detail.contains(says), "{restarts} {wrong}: {refused:?}");
        }
        assert_eq!(give(json!({"answer": "give", "value": "red"})).status, 204);
        let view = server.until(&run, |view| view["state"] == "done");
        assert!(view["output"].to_string().contains("red noted"), "{view}");
    }
}
