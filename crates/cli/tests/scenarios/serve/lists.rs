//! Lists with filters, and the feed of changes.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::{Value, json};

fn runs(server: &Server, query: &str) -> Vec<String> {
    let listed = server.get(&format!("/v1/runs?{query}")).send();
    assert_eq!(listed.status, 200, "{query}: {listed:?}");
    let names = listed.body["runs"].as_array().expect("runs").iter();
    names.map(|run| run["run"].as_str().expect("an ID").to_owned()).collect()
}

fn start(server: &Server, body: &Value) -> String {
    let started = server.post("/v1/runs?wait=60", body).send();
    assert_eq!(started.status, 201, "{started:?}");
    started.body["run"].as_str().expect("an ID").to_owned()
}

#[test]
fn lists_show_failures_and_spare_previews() {
    let scenario =
        desk().file("typed.yaml", "answers:\n  - error: {kind: bad_request, message: \"no such\\nthing\"}\n");
    let server = Server::start(&scenario, &[]);
    start(&server, &json!({"worker": "sorter", "input": {"mail": "to all"}}));
    start(&server, &json!({"worker": "writer", "message": "Write."}));
    let listed = server.get("/v1/runs?previews=false").send().body;
    let message = listed["runs"][1]["failure"]["message"].as_str().expect("a failure");
    assert!(message.contains("no such thing"), "{message}");
    let with = server.get("/v1/questions").send().body;
    let without = server.get("/v1/questions?previews=false").send().body;
    let preview = |list: &Value| list["questions"][0].get("preview").is_some();
    assert!(preview(&with) && !preview(&without), "{with}\n{without}");
    assert_eq!(with["questions"][0]["digest"], without["questions"][0]["digest"]);
    assert!(listed["runs"][0]["questions"][0].get("preview").is_none(), "{listed}");
    assert_eq!(server.get("/v1/questions?previews=perhaps").send().status, 400);
}

#[test]
fn list_is_filtered_by_what_its_runs_are_and_say() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let ada = start(&server, &json!({"input": {"name": "Ada"}}));
    let bob = start(&server, &json!({"input": {"name": "Bob"}}));
    let sorted = start(&server, &json!({"worker": "sorter", "input": {"mail": "Ähnlich"}}));
    let waiting = start(&server, &json!({"worker": "writer", "message": "Write\n it  down."}));
    for (query, expected) in [
        ("", vec![&waiting, &sorted, &bob, &ada]),
        ("worker=greeter", vec![&bob, &ada]),
        ("worker=greeter&limit=1", vec![&bob]),
        ("state=waiting", vec![&waiting]),
        ("state=done,waiting&worker=sorter", vec![&sorted]),
        ("state=failed", vec![]),
        ("program=desk&chat=false", vec![&waiting, &sorted, &bob, &ada]),
        ("program=other", vec![]),
        ("chat=true", vec![]),
        ("q=aDA", vec![&ada]),
        ("q=HELLO", vec![&bob, &ada]),
        ("q=%C3%A4hnlich", vec![&sorted]),
        ("q=urgent", vec![&sorted]),
        ("q=writer", vec![&waiting]),
        ("q=down", vec![&waiting]),
        ("q=nothing+has+this", vec![]),
    ] {
        assert_eq!(runs(&server, query), expected.into_iter().cloned().collect::<Vec<_>>(), "{query}");
    }
    let by_id = runs(&server, &format!("q={}", &bob[9..]));
    assert_eq!(by_id, [bob.as_str()]);
    let listed = server.get("/v1/runs").send().body;
    assert_eq!(listed["runs"][0]["title"], "Write it down.");
    assert_eq!(listed["runs"][3]["title"], "{\"name\":\"Ada\"}");
    assert!(listed["runs"].as_array().expect("runs").iter().all(|run| run["started_ms"].as_u64() > Some(0)));
    assert_eq!(listed.get("next"), None, "{listed}");
    for wrong in ["state=asleep", "chat=perhaps", "limit=0", "colour=red", "before=..%2f"] {
        assert_eq!(server.get(&format!("/v1/runs?{wrong}")).send().status, 400, "{wrong}");
    }
}

#[test]
fn pages_follow_each_other_also_with_a_filter() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let all: Vec<String> =
        (0..5).map(|n| start(&server, &json!({"input": {"name": format!("N{n}")}}))).collect();
    let (mut seen, mut before) = (Vec::new(), String::new());
    loop {
        let page = server.get(&format!("/v1/runs?limit=2&worker=greeter{before}")).send().body;
        let found = page["runs"].as_array().expect("runs").iter();
        seen.extend(found.map(|run| run["run"].as_str().expect("an ID").to_owned()));
        match page["next"].as_str() {
            Some(next) => before = format!("&before={next}"),
            None => break,
        }
    }
    assert_eq!(seen, all.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn feed_tells_changes_of_runs_that_the_token_may_see() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &[]);
    let mut feed = server.listen(server.get("/v1/events"));
    let mut of_ci = server.listen(server.get("/v1/events").token(TOKEN_OF_CI));
    let first = feed.next().expect("an event");
    assert_eq!((first.kind.as_str(), &first.data), ("questions", &json!({"count": 0})));
    let run = start(&server, &json!({"worker": "writer", "message": "Write."}));
    let about = |event: &super::client::Event, state: &str| {
        event.kind == "run" && event.data["run"] == run.as_str() && event.data["state"] == state
    };
    let running = feed.until(|event| about(event, "running"));
    assert_eq!(
        running.data,
        json!({"run": run, "program": "desk", "worker": "writer", "state": "running", "chat": false})
    );
    feed.until(|event| about(event, "waiting"));
    feed.until(|event| event.kind == "questions" && event.data["count"] == 1);
    let question = server.get("/v1/questions").send().body["questions"][0].clone();
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    feed.until(|event| about(event, "done"));
    feed.until(|event| event.kind == "questions" && event.data["count"] == 0);
    // The other token hears of its own runs alone.
    let own =
        server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).token(TOKEN_OF_CI).send().body;
    let heard = of_ci.until(|event| event.kind == "run");
    assert_eq!(heard.data["run"], own["run"]);
    assert_eq!(server.stop(), Some(130), "open streams do not keep it");
    while feed.next().is_some() {}
}
