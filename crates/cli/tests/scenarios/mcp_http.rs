//! MCP servers over HTTP (docs/guides/mcp.md): grants, headers, sessions, faults on the way.

use crate::{
    remote_server::{Answer, Asked, RemoteServer, event, status, text, tool},
    scenario::{Finished, Scenario},
};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

const KEY: &str = "a-very-secret-key";

/// A project whose model calls tools of the server `s`, one after another.
fn project(server: &Value, calls: &[Value]) -> Scenario {
    let turns = calls.iter().enumerate();
    let mut answers: Vec<Value> =
        turns.map(|(turn, call)| json!({"when": {"turn": turn}, "calls": [call]})).collect();
    answers.push(json!({"text": "done"}));
    let worker = json!({"model": "script:s.yaml", "toolsets": {"mcp": {"servers": {"s": server}}}});
    Scenario::new()
        .file("main.worker", &format!("---\n{worker}\n---\nGo.\n"))
        .file("s.yaml", &json!({ "answers": answers }).to_string())
        .env("A_KEY", KEY)
}

fn at(server: &RemoteServer, calls: &[Value]) -> Scenario {
    project(&json!({"url": server.url()}), calls)
}

fn echo(text: &str) -> Value {
    json!({"tool": "s__echo", "arguments": {"text": text}})
}

/// Runs it with the server granted and everything allowed.
fn allowed(scenario: &Scenario, server: &RemoteServer) -> Finished {
    let grant = format!("network=127.0.0.1:{}", server.port);
    let told = scenario.run(&[".", "--grant", &grant, "--grant", "env=A_KEY", "--allow", "s:*"]);
    assert_eq!(told.code, Some(0), "{told}");
    told
}

/// Returns the end of that turn's call.
fn ending(scenario: &Scenario, turn: usize) -> Value {
    let path = format!("0/{turn}.0");
    let journal = scenario.journal();
    let ended = |record: &&Value| record["path"] == json!(path) && record["kind"] == "tool_ended";
    journal.iter().rfind(ended).unwrap_or_else(|| panic!("call {turn} in {journal:#?}"))["ending"].clone()
}

fn output(scenario: &Scenario, turn: usize) -> Value {
    ending(scenario, turn)["output"].clone()
}

fn failure(scenario: &Scenario, turn: usize) -> String {
    let ending = ending(scenario, turn);
    ending["failure"]["message"].as_str().unwrap_or_else(|| panic!("{ending}")).to_owned()
}

fn is_call(asked: &Asked) -> bool {
    asked.rpc() == "tools/call"
}

#[test]
fn a_server_over_http_needs_a_grant_for_its_host() {
    let server = RemoteServer::new(|_| None);
    let scenario = at(&server, &[echo("hello")]);
    let refused = scenario.run(&["."]);
    assert_eq!(refused.code, Some(3), "{refused}");
    let host = format!("127.0.0.1:{}", server.port);
    assert!(refused.stderr.contains(&format!("to exchange data with the server {host}")), "{refused}");
    assert!(refused.stderr.contains(&format!("--grant network={host}")), "{refused}");
    let other = scenario.run(&[".", "--grant", "network=127.0.0.1:9"]);
    assert_eq!(other.code, Some(3), "{other}");
    assert!(server.asked().is_empty(), "{:?}", server.asked());
    assert_eq!(scenario.run(&["check"]).code, Some(0));

    allowed(&scenario, &server);
    assert_eq!(output(&scenario, 0), "hello");
    let journal = json!(scenario.journal()).to_string();
    assert!(journal.contains("untrusted"), "its results are untrusted");
    // The session ended with the run.
    let last = server.asked().last().cloned().expect("a request");
    assert_eq!((&*last.method, last.head.contains("mcp-session-id: one")), ("DELETE", true), "{last:?}");

    let before = server.asked().len();
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
    assert_eq!(server.asked().len(), before, "a replay asks no server");
}

#[test]
fn a_server_of_the_new_revision_has_no_session() {
    let server = RemoteServer::new(|asked| {
        let result = match &*asked.rpc() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            "tools/list" => {
                json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"})
            }
            "tools/call" => {
                json!({"resultType": "complete", "content": [{"type": "text", "text": "modern"}]})
            }
            _ => return None,
        };
        Some(Answer::Result(result))
    });
    let scenario = at(&server, &[echo("hello")]);
    allowed(&scenario, &server);
    assert_eq!(output(&scenario, 0), "modern");
    assert_eq!(server.count("initialize"), 0);
    let call = server.asked().into_iter().find(is_call).expect("a call");
    assert!(call.head.contains("mcp-protocol-version: 2026-07-28"), "{}", call.head);
    assert!(call.head.contains("mcp-method: tools/call"), "{}", call.head);
}

#[test]
fn a_header_holds_a_granted_variable_and_no_record_shows_it() {
    let server = RemoteServer::new(|asked| {
        let authorized = asked.head.contains(&format!("authorization: bearer {KEY}"));
        match (authorized, &*asked.rpc()) {
            (false, _) => Some(status(401, "WWW-Authenticate: Bearer\r\n")),
            (true, "tools/call") => Some(Answer::Result(text(&format!("you sent {}", asked.head)))),
            _ => None,
        }
    });
    let headers = json!({"url": server.url(), "headers": {"Authorization": "Bearer ${A_KEY}"}});
    let scenario = project(&headers, &[echo("hello")]);
    let grant = format!("network=127.0.0.1:{}", server.port);
    let refused = scenario.run(&[".", "--grant", &grant]);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(refused.stderr.contains("--grant env=A_KEY"), "{refused}");
    let told = allowed(&scenario, &server);
    assert!(output(&scenario, 0).as_str().is_some_and(|text| text.starts_with("you sent")), "{told}");
    let everything = format!("{told}{}", json!(scenario.journal()));
    assert!(!everything.contains(KEY), "{everything}");

    let without = at(&server, &[]);
    let told = allowed(&without, &server);
    assert!(told.stderr.contains("HTTP 401"), "{told}");
}

#[test]
fn what_goes_wrong_on_the_way_is_an_error_for_the_model() {
    let elsewhere = RemoteServer::new(|_| None);
    let there = elsewhere.url();
    let turn = AtomicUsize::new(0);
    let server = RemoteServer::new(move |asked| {
        if !is_call(asked) {
            return None;
        }
        Some(match turn.fetch_add(1, Ordering::Relaxed) {
            0 => status(500, ""),
            1 => status(429, "Retry-After: 7\r\n"),
            2 => status(403, ""),
            3 => Answer::Reply(200, "Content-Type: text/html\r\n".into(), b"<p>Welcome</p>".into()),
            4 => Answer::Reply(200, "Content-Type: application/json\r\n".into(), b"{\"jsonrpc\"".into()),
            5 => status(307, &format!("Location: {there}\r\n")),
            6 => Answer::Stream(event(
                &json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}),
            )),
            7 => Answer::Flood(100 << 20),
            8 => status(302, "Location: /mcp\r\n"),
            9 => status(
                403,
                "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"notes:write\"\r\n",
            ),
            10 => Answer::Stream("data: {\"jsonrpc\":\"2.0\",\"result\":{\"v\":NaN}}\n\n".into()),
            _ => return None,
        })
    });
    let calls: Vec<Value> = (0..12).map(|turn| echo(&format!("call {turn}"))).collect();
    let scenario = at(&server, &calls);
    allowed(&scenario, &server);
    let expected = [
        ("HTTP 500", "may have had its effect"),
        ("HTTP 429", "did not take the call"),
        ("HTTP 403", ""),
        ("text/html", "may have had its effect"),
        ("not of this protocol", "may have had its effect"),
        ("redirects to http://127.0.0.1:", "did not take the call"),
        ("broke before the answer was complete", "may have had its effect"),
        ("too long", "may have had its effect"),
        ("which is not followed", "did not take the call"),
        ("/mcp --scope notes:write`", "did not take the call"),
        ("its answer can't be read", "may have had its effect"),
    ];
    for (turn, (what, effect)) in expected.into_iter().enumerate() {
        let failure = failure(&scenario, turn);
        assert!(failure.contains(what) && failure.contains(effect), "call {turn}: {failure}");
    }
    assert!(elsewhere.asked().is_empty(), "nothing follows a redirect to another server");
    assert_eq!(output(&scenario, 11), "call 11", "the server is used again");
}

#[test]
fn a_redirect_within_the_server_is_followed() {
    let server =
        RemoteServer::new(|asked| (asked.path == "/mcp").then(|| status(307, "Location: /mcp/\r\n")));
    let scenario = at(&server, &[echo("hello")]);
    allowed(&scenario, &server);
    assert_eq!(output(&scenario, 0), "hello");
}

#[test]
fn a_session_that_the_server_has_lost_is_begun_again() {
    let lost = AtomicUsize::new(0);
    let server = RemoteServer::new(move |asked| {
        (is_call(asked) && lost.fetch_add(1, Ordering::Relaxed) == 0).then(|| status(404, ""))
    });
    let scenario = at(&server, &[echo("hello")]);
    allowed(&scenario, &server);
    assert_eq!(output(&scenario, 0), "hello");
    assert_eq!(server.count("initialize"), 2);
}

#[test]
fn a_server_that_never_answers_delays_nothing_but_its_own_calls() {
    let calls = AtomicUsize::new(0);
    let silent = RemoteServer::new(move |asked| {
        (is_call(asked) && calls.fetch_add(1, Ordering::Relaxed) == 0).then_some(Answer::Silence)
    });
    let server = json!({"url": silent.url(), "timeout": 0.3});
    let scenario = project(&server, &[echo("hello"), echo("still here")]);
    allowed(&scenario, &silent);
    let ended = failure(&scenario, 0);
    assert!(ended.contains("did not answer within 0.3 s") && ended.contains("may have had"), "{ended}");
    assert_eq!(output(&scenario, 1), "still here");
    assert_eq!(silent.count("notifications/cancelled"), 1);

    let dead = RemoteServer::new(|_| Some(Answer::Silence));
    let told = allowed(&at(&dead, &[]), &dead);
    assert!(told.stderr.contains("left out of this conversation"), "{told}");
}

#[test]
fn a_server_over_http_takes_only_what_has_an_effect() {
    for (server, wrong) in [
        (json!({"url": "https://mcp.example/", "paths": ["."]}), "paths"),
        (json!({"url": "https://mcp.example/", "command": "x"}), "command"),
        (json!({"command": "x", "headers": {"A": "b"}}), "headers"),
        (json!({"url": "ftp://mcp.example/"}), "url"),
    ] {
        let told = project(&server, &[]).run(&["check"]);
        assert_eq!(told.code, Some(2), "{server}: {told}");
        assert!(format!("{told}").contains(wrong), "{server}: {told}");
    }
    for (server, wrong) in [
        (json!({"url": "https://me:word@mcp.example/"}), "password"),
        (json!({"url": "http://mcp.example/", "headers": {"X-Key": "${A_KEY}"}}), "`https` address"),
        (json!({"url": "https://mcp.example/", "headers": {"Host": "other.example"}}), "can't set Host"),
    ] {
        let told = project(&server, &[]).run(&["."]);
        assert_eq!(told.code, Some(2), "{server}: {told}");
        assert!(told.stderr.contains(wrong), "{server}: {told}");
    }
}

/// A form with a name.
fn form() -> Value {
    json!({"mode": "form", "message": "Who are you?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"],
    }})
}

/// A server of the new revision that wants to know a name before it answers.
fn curious() -> RemoteServer {
    RemoteServer::new(|asked| {
        let params = &asked.message()["params"];
        let result = match &*asked.rpc() {
            "server/discover" => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "ttlMs": 0, "cacheScope": "private",
            }),
            "tools/list" => {
                json!({"resultType": "complete", "tools": [tool("echo")], "ttlMs": 0, "cacheScope": "private"})
            }
            "tools/call" if params.get("inputResponses").is_some() => {
                let said = format!("{} {}", params["inputResponses"]["who"], params["requestState"]);
                json!({"resultType": "complete", "content": [{"type": "text", "text": said}]})
            }
            "tools/call" => json!({
                "resultType": "input_required", "requestState": "sealed",
                "inputRequests": {"who": {"method": "elicitation/create", "params": form()}},
            }),
            _ => return None,
        };
        Some(Answer::Result(result))
    })
}

/// Runs it until it waits for an answer.
fn suspended(scenario: &Scenario, server: &RemoteServer) -> Finished {
    let grant = format!("network=127.0.0.1:{}", server.port);
    let told = scenario.run(&[".", "--grant", &grant, "--allow", "s:*", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    told
}

const ANSWER: &str = "0/0.0:input.0={\"name\": \"Ada\"}";

#[test]
fn a_question_of_a_server_waits_for_the_operator_and_is_asked_once() {
    let server = curious();
    let scenario = at(&server, &[echo("hello")]);
    suspended(&scenario, &server);
    let journal = scenario.journal();
    let of = |kind: &str| {
        journal.iter().find(|record| record["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
    };
    assert!(of("tool_asked")["origins"].to_string().contains("untrusted"), "{}", of("tool_asked"));
    let prompt = of("asked")["prompt"].as_str().expect("a question").to_owned();
    assert!(prompt.starts_with("The MCP server `s` asks:\n> Who are you?"), "{prompt}");

    let resumed = scenario.run(&["runs", "resume", "last", "--answer", ANSWER]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_eq!(output(&scenario, 0), "{\"action\":\"accept\",\"content\":{\"name\":\"Ada\"}} \"sealed\"");
    assert_eq!(server.count("tools/call"), 2, "each round is asked once");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!((replayed.code, server.count("tools/call")), (Some(0), 2), "{replayed}");
}

#[test]
fn an_unattended_run_declines_the_questions_of_servers() {
    let server = curious();
    let scenario = at(&server, &[echo("hello")]);
    allowed(&scenario, &server);
    assert_eq!(output(&scenario, 0), "{\"action\":\"decline\"} \"sealed\"");

    let earlier = earlier();
    let scenario = at(&earlier, &[echo("hello")]);
    allowed(&scenario, &earlier);
    assert_eq!(output(&scenario, 0), "{\"action\":\"decline\"}");
}

/// A server of an earlier revision that asks during the call.
fn earlier() -> RemoteServer {
    RemoteServer::new(|asked| {
        let question =
            json!({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": form()});
        is_call(asked).then_some(Answer::Question(question))
    })
}

#[test]
fn a_question_of_an_earlier_revision_ends_with_the_process() {
    let server = earlier();
    let scenario = at(&server, &[echo("hello")]);
    suspended(&scenario, &server);
    let resumed = scenario.run(&["runs", "resume", "last", "--answer", ANSWER]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    let failure = failure(&scenario, 0);
    assert!(failure.contains("no longer does") && failure.contains("may have had its effect"), "{failure}");
    assert_eq!(server.count("tools/call"), 1, "the call is not made again");
}
