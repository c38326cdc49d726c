//! Messages about runs, and answers by links and buttons.

use super::{
    client::{Response, Server},
    desk,
    triggers::{bytes_of, hmac, now, wait_until},
};
use crate::scenario::{Scenario, lines};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

const SECRET: &str = "a secret of this test";
const SLACK_SECRET: &str = "a signing secret of this test";

/// A request that a stand-in has got.
#[derive(Clone, Debug)]
struct Got {
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("JSON")
    }
}

/// A service that somebody else runs: it keeps what it gets.
struct StandIn {
    address: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl StandIn {
    /// The first requests are answered with these heads, later ones with a success. An empty head is no answer at all.
    fn start(first: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let kept = Arc::clone(&got);
        thread::spawn(move || {
            let (mut number, mut silent) = (0, Vec::new());
            for stream in listener.incoming().map_while(Result::ok) {
                let mut reader = BufReader::new(stream);
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 {
                    continue;
                }
                let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
                let mut headers = Vec::new();
                loop {
                    let mut line = String::new();
                    reader.read_line(&mut line).expect("a head");
                    let Some((name, value)) = line.trim_end().split_once(": ") else { break };
                    headers.push((name.to_ascii_lowercase(), value.to_owned()));
                }
                let length = headers.iter().find(|(name, _)| name == "content-length");
                let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
                let mut body = vec![0; length];
                reader.read_exact(&mut body).expect("a body");
                let body = String::from_utf8(body).expect("text");
                kept.lock().expect("no panic").push(Got { path, headers, body });
                let head = first.get(number).copied().unwrap_or("HTTP/1.1 200 OK\r\n");
                number += 1;
                if head.is_empty() {
                    silent.push(reader);
                    continue;
                }
                let answer = format!("{head}Content-Length: 0\r\nConnection: close\r\n\r\n");
                let _ = reader.into_inner().write_all(answer.as_bytes());
            }
        });
        Self { address, got }
    }

    fn url(&self) -> String {
        format!("http://{}/hook?key=hidden-in-the-address", self.address)
    }

    fn all(&self) -> Vec<Got> {
        self.got.lock().expect("no panic").clone()
    }

    fn wait_for(&self, count: usize) -> Vec<Got> {
        wait_until(|| Some(self.all()).filter(|got| got.len() >= count))
    }
}

fn with_notifiers(notify: &str, stand_in: &StandIn) -> Scenario {
    desk()
        .home_file("serve.yaml", notify)
        .env("HOOK_URL", stand_in.url())
        .env("HOOK_SECRET", SECRET)
        .env("SLACK_SECRET", SLACK_SECRET)
}

const WEBHOOK: &str = "
notify:
  to:
    - name: team
      when: [waiting, done, failed, cancelled]
      webhook: {url: {env: HOOK_URL}, secret: {env: HOOK_SECRET}}
";

const SLACK: &str = "
notify:
  to:
    - name: team
      when: [waiting]
      slack: {url: {env: HOOK_URL}, signing_secret: {env: SLACK_SECRET}, users: [U01]}
";

fn ask(server: &Server) -> (String, Value) {
    let started = server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send();
    assert_eq!(started.body["state"], "waiting", "{started:?}");
    (started.body["run"].as_str().expect("an ID").to_owned(), started.body["questions"][0].clone())
}

/// The path of the link in a message.
fn link(message: &Got) -> String {
    let answer = message.json()["answer"].as_str().expect("a link").to_owned();
    answer.split_once("/answer/").map(|(_, token)| format!("/answer/{token}")).expect("its path")
}

fn press(server: &Server, path: &str, body: &str) -> Response {
    let asking = server.ask("POST", path, body.to_owned()).without_token();
    asking.header("Content-Type", "application/x-www-form-urlencoded").send()
}

fn answered(scenario: &Scenario, run: &str) -> Value {
    let dir = scenario.runs().into_iter().find(|dir| dir.ends_with(run)).expect("the run");
    let records = lines(&fs::read_to_string(dir.join("journal.jsonl")).expect("a journal"));
    records.into_iter().find(|record| record["kind"] == "answered").expect("an answer")
}

#[test]
fn signed_message_brings_a_link_that_answers_its_question_once() {
    let stand_in = StandIn::start(&["HTTP/1.1 503 Busy\r\n"]);
    let scenario = with_notifiers(WEBHOOK, &stand_in);
    let server = Server::start(&scenario, &[]);
    let (run, question) = ask(&server);
    let got = stand_in.wait_for(2);
    let (first, message) = (&got[0], &got[1]);
    assert_eq!(first.header("webhook-id"), message.header("webhook-id"), "each attempt has the same ID");
    let signed =
        format!("{}.{}.{}", message.header("webhook-id"), message.header("webhook-timestamp"), message.body);
    let signature = STANDARD.encode(bytes_of(&hmac(SECRET.as_bytes(), signed.as_bytes())));
    assert_eq!(message.header("webhook-signature"), format!("v1,{signature}"));
    let body = message.json();
    assert_eq!((&body["type"], &body["run"]), (&json!("run.waiting"), &json!(run)), "{body}");
    assert_eq!(body["question"]["digest"], question["digest"]);
    assert_eq!(body["question"]["preview"]["after"], "noted\n");
    let path = link(message);
    let page = server.get(&path).without_token().send();
    assert_eq!(page.status, 200, "{page:?}");
    assert!(page.text.contains("+noted") && page.text.contains("value=\"approve\""), "{}", page.text);
    assert!(
        page.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    // Looking at it, as programs do for previews, answers nothing.
    assert_eq!(server.get(&format!("/v1/runs/{run}")).send().body["state"], "waiting");
    assert_eq!(press(&server, &path, "answer=give&text=x").status, 400);
    assert_eq!(press(&server, &path, "answer=approve").status, 200);
    let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
    assert_eq!((&done["state"], scenario.read("out/note.txt").as_deref()), (&json!("done"), Some("noted\n")));
    let record = answered(&scenario, &run);
    assert_eq!((&record["by"], &record["via"]), (&json!("team"), &json!("link")), "{record}");
    assert_eq!(record["requester"], json!({"by": "operator", "via": "http"}), "{record}");
    assert_eq!(press(&server, &path, "answer=approve").status, 410, "it was used");
    assert_eq!(server.get(&path).without_token().send().status, 410);
    let ended = stand_in.wait_for(3).pop().expect("a message").json();
    assert_eq!(
        (&ended["type"], &ended["run"], ended.get("answer")),
        (&json!("run.done"), &json!(run), None),
        "{ended}"
    );
    let metrics = server.get("/metrics").send().text;
    assert!(
        metrics.contains("llm_do_notifications_total{notifier=\"team\",outcome=\"delivered\"} 2"),
        "{metrics}"
    );
}

#[test]
fn link_is_good_for_nothing_but_its_question() {
    let stand_in = StandIn::start(&[]);
    let scenario = with_notifiers(WEBHOOK, &stand_in);
    let server = Server::start(&scenario, &[]);
    let (first, question) = ask(&server);
    let (second, other) = ask(&server);
    let path = link(&stand_in.wait_for(1)[0]);
    let token = path.trim_start_matches("/answer/");
    for (method, path) in [
        ("GET", "/v1/runs".to_owned()),
        ("GET", format!("/v1/runs/{first}")),
        ("GET", format!("/v1/runs/{second}")),
        ("GET", "/v1/questions".to_owned()),
        ("POST", format!("/v1/runs/{first}/answers")),
        ("POST", "/v1/session".to_owned()),
    ] {
        assert_eq!(server.ask(method, &path, String::new()).token(token).send().status, 401, "{path}");
    }
    // Another page can't send the form.
    let foreign = server.ask("POST", &path, "answer=approve".into()).without_token();
    assert_eq!(foreign.header("Origin", "https://evil.example").send().status, 403);
    // Somebody else answers first: the link holds no more, also in the next process.
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "deny"});
    assert_eq!(server.post(&format!("/v1/runs/{first}/answers"), &answer).send().status, 204);
    assert_eq!(press(&server, &path, "answer=approve").status, 410);
    let second_path = link(
        &stand_in.all().into_iter().find(|got| got.json()["run"] == second.as_str()).expect("a message"),
    );
    assert_eq!(scenario.read("out/note.txt"), None);
    drop(server);
    // A link survives a kill, and its file does not hold it.
    let kept =
        fs::read_to_string(scenario.home().join("home/.llm-do/serve/notify/links.jsonl")).expect("a file");
    assert!(!kept.contains(second_path.trim_start_matches("/answer/")), "{kept}");
    let server = Server::start(&scenario, &[]);
    server.until(&second, |view| view["questions"][0]["digest"] == other["digest"]);
    assert_eq!(press(&server, &path, "answer=approve").status, 410);
    // One that has expired.
    drop(server);
    let file = scenario.home().join("home/.llm-do/serve/notify/links.jsonl");
    let text = fs::read_to_string(&file).expect("a file");
    let expired: Vec<String> = lines(&text)
        .into_iter()
        .map(|mut line| {
            line["expires_ms"] = (now() * 1000 - 1).into();
            line.to_string() + "\n"
        })
        .collect();
    fs::write(&file, expired.concat()).expect("written");
    let server = Server::start(&scenario, &[]);
    server.until(&second, |view| view["state"] == "waiting");
    assert_eq!(press(&server, &second_path, "answer=approve").status, 410);
    assert_eq!(scenario.read("out/note.txt"), None);
}

#[test]
fn restart_tells_nothing_twice_and_what_was_not_told() {
    let stand_in = StandIn::start(&[]);
    let scenario = with_notifiers(WEBHOOK, &stand_in);
    let server = Server::start(&scenario, &[]);
    let (run, _) = ask(&server);
    stand_in.wait_for(1);
    let said = scenario.home().join("home/.llm-do/serve/notify/team.said");
    wait_until(|| said.exists().then_some(()));
    let ended = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    stand_in.wait_for(2);
    wait_until(|| (fs::read_to_string(&said).expect("a file").lines().count() == 2).then_some(()));
    drop(server);
    let server = Server::start(&scenario, &[]);
    server.until(&run, |view| view["state"] == "waiting");
    drop(server);
    // As if the server was killed before its message about the end.
    let first = fs::read_to_string(&said).expect("a file").lines().next().expect("a line").to_owned() + "\n";
    fs::write(&said, first).expect("written");
    let server = Server::start(&scenario, &[]);
    let got = stand_in.wait_for(3);
    assert_eq!(got[2].json()["run"], ended.body["run"]);
    assert_eq!(got[2].header("webhook-id"), got[1].header("webhook-id"), "the same message has the same ID");
    server.stop();
    assert_eq!(stand_in.all().len(), 3);
}

#[test]
fn hook_that_never_answers_or_redirects_holds_no_run_up_and_is_not_followed() {
    let elsewhere = StandIn::start(&[]);
    let silent = StandIn::start(&["", "", "", "", "", "", "", ""]);
    let scenario = with_notifiers(WEBHOOK, &silent);
    let server = Server::start(&scenario, &[]);
    for _ in 0..3 {
        let done = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
        assert_eq!(done.body["state"], "done", "{done:?}");
    }
    silent.wait_for(1);
    server.stop();
    // A stand-in needs its words for as long as the test.
    let head: &'static str = format!("HTTP/1.1 307 Elsewhere\r\nLocation: {}\r\n", elsewhere.url()).leak();
    let redirecting = StandIn::start(vec![head; 8].leak());
    let scenario = with_notifiers(WEBHOOK, &redirecting);
    let server = Server::start(&scenario, &[]);
    server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    let log = server.logged("was not delivered");
    let line = log.iter().find(|line| line.contains("was not delivered")).expect("a line");
    assert!(line.contains("notify team") && line.contains("status 307"), "{line}");
    assert!(!server.log().concat().contains("hidden-in-the-address"), "addresses are secrets");
    assert_eq!((redirecting.all().len(), elsewhere.all().len()), (1, 0));
}

/// A press of a button, as Slack sends it.
fn slack(server: &Server, secret: &str, time: u64, user: &str, action: &Value) -> Response {
    let payload =
        json!({"type": "block_actions", "user": {"id": user, "username": "ada"}, "actions": [action]});
    let body = format!("payload={}", escaped(&payload.to_string()));
    let signature = hmac(secret.as_bytes(), format!("v0:{time}:{body}").as_bytes());
    server
        .ask("POST", "/v1/notify/slack", body)
        .without_token()
        .header("Content-Type", "application/x-www-form-urlencoded")
        .header("X-Slack-Request-Timestamp", &time.to_string())
        .header("X-Slack-Signature", &format!("v0={signature}"))
        .send()
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

#[test]
fn button_of_slack_answers_for_the_user_who_pressed_it() {
    let stand_in = StandIn::start(&[]);
    let scenario = with_notifiers(SLACK, &stand_in);
    let server = Server::start(&scenario, &[]);
    let (run, _) = ask(&server);
    let message = stand_in.wait_for(1)[0].json();
    let text = message["blocks"][1]["text"]["text"].as_str().expect("a text");
    for fact in ["write_file", "risk: write", "Asked because of", "+noted"] {
        assert!(text.contains(fact), "{fact}: {text}");
    }
    let elements =
        message["blocks"].as_array().and_then(|blocks| blocks.last()).expect("actions")["elements"].clone();
    let approve = &elements[0];
    assert_eq!(approve["action_id"], "approve", "{elements}");
    assert_eq!(slack(&server, "another secret than this", now(), "U01", approve).status, 403, "forged");
    assert_eq!(slack(&server, SLACK_SECRET, now() - 400, "U01", approve).status, 403, "late");
    assert_eq!(slack(&server, SLACK_SECRET, now(), "U02", approve).status, 403, "a user who may not answer");
    let made_up = json!({"action_id": "approve", "value": "0".repeat(64)});
    assert_eq!(slack(&server, SLACK_SECRET, now(), "U01", &made_up).status, 410, "a token that was made up");
    assert_eq!(scenario.read("out/note.txt"), None);
    assert_eq!(slack(&server, SLACK_SECRET, now(), "U01", approve).status, 200);
    server.until(&run, |view| view["state"] == "done");
    let record = answered(&scenario, &run);
    assert_eq!((&record["by"], &record["via"]), (&json!("ada (U01)"), &json!("slack")), "{record}");
    assert_eq!(slack(&server, SLACK_SECRET, now(), "U01", approve).status, 410, "replayed");
    let told = stand_in.wait_for(2)[1].json();
    assert!(told["text"].as_str().is_some_and(|text| text.contains("ada (U01) approved")), "{told}");
}

#[test]
fn message_of_ntfy_has_a_title_and_a_link() {
    let stand_in = StandIn::start(&[]);
    let notify = "
notify:
  url: https://llm.example/
  to:
    - {name: phone, when: [waiting], workers: [writer], ntfy: {url: {env: HOOK_URL}, token: {env: HOOK_SECRET}}}
";
    let scenario = with_notifiers(notify, &stand_in);
    let server = Server::start(&scenario, &[]);
    ask(&server);
    let message = stand_in.wait_for(1).remove(0);
    assert_eq!(message.path, "/hook?key=hidden-in-the-address");
    assert_eq!(
        (message.header("title"), message.header("authorization")),
        ("desk: writer asks", format!("Bearer {SECRET}").as_str())
    );
    assert!(message.header("click").starts_with("https://llm.example/answer/"), "{message:?}");
    assert!(message.body.contains("writer wants to call write_file"), "{message:?}");
}

#[test]
fn notifiers_that_cannot_work_are_errors_at_the_start() {
    let stand_in = StandIn::start(&[]);
    let scenario = with_notifiers("", &stand_in).env("NO_URL", "not an address: hidden");
    for (entry, says) in [
        ("{name: a, when: [waiting]}", "one of `webhook`, `slack` and `ntfy`"),
        ("{name: a, when: [], ntfy: {url: {env: HOOK_URL}}}", "`when` is empty"),
        ("{name: a, when: [waiting], ntfy: {url: {env: NO_SUCH}}}", "NO_SUCH is not set"),
        ("{name: a, when: [waiting], ntfy: {url: {env: NO_URL}}}", "no http:// or https:// address"),
        (
            "{name: a, when: [waiting], programs: [other], ntfy: {url: {env: HOOK_URL}}}",
            "the program `other` is not served",
        ),
        (
            "{name: a, when: [waiting], slack: {url: {env: HOOK_URL}, signing_secret: {env: SLACK_SECRET}}}",
            "`signing_secret` and `users`",
        ),
        ("{name: a, when: [sometimes], ntfy: {url: {env: HOOK_URL}}}", "sometimes"),
    ] {
        fs::write(
            scenario.home().join("home/.llm-do/serve.yaml"),
            format!("notify:\n  to:\n    - {entry}\n"),
        )
        .expect("written");
        let refused = scenario.run(&["serve", ".", "--port", "0"]);
        assert_eq!(refused.code, Some(2), "{entry}: {refused}");
        assert!(refused.stderr.contains(says) && !refused.stderr.contains("hidden"), "{entry}: {refused}");
    }
}
