//! Runs that start by themselves.

use super::{
    client::{Response, Server},
    desk,
};
use crate::scenario::{Scenario, lines};
use base64::{Engine, engine::general_purpose::STANDARD};
use llm_do::core::schema::sha256;
use serde_json::{Value, json};
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

const SECRET: &str = "a secret of this test";

pub(super) fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// HMAC-SHA256 (RFC 2104), written apart from what the server uses.
pub(super) fn hmac(key: &[u8], message: &[u8]) -> String {
    let mut block = [0_u8; 64];
    block[..key.len()].copy_from_slice(key);
    let padded = |with: u8, rest: &[u8]| [&block.map(|byte| byte ^ with)[..], rest].concat();
    let inner = bytes_of(&sha256(&padded(0x36, message)));
    sha256(&padded(0x5c, &inner))
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// The desk with these triggers, and a worker with typed parameters.
fn with_triggers(triggers: &str) -> Scenario {
    desk()
        .file(
            "project.yaml",
            "name: desk\nversion: 1.0.0\nexports: [greeter, writer, slow, triage, reader]\nmodel: script:s.yaml\n",
        )
        .file(
            "workers/triage.worker",
            "---\nparameters: {title: string, number: integer, team: string}\n---\nSort {{ title }}.\n",
        )
        .file("workers/reader.worker", "---\nparameters: {letter: path}\n---\nRead.\n")
        .home_file("serve.yaml", triggers)
        .env("HOOK_SECRET", SECRET)
}

const ISSUES: &str = "
triggers:
  - name: issues
    webhook: {signature: github, secret: {env: HOOK_SECRET}, max_body: 2 KiB}
    worker: triage
    input: {team: support}
    from: {title: /body/issue/title, number: /body/issue/number}
";

fn deliver(server: &Server, trigger: &str, body: &str, headers: &[(&str, &str)]) -> Response {
    let asking = server.ask("POST", &format!("/v1/triggers/{trigger}"), body.to_owned()).without_token();
    headers.iter().fold(asking, |asking, (name, value)| asking.header(name, value)).send()
}

fn github(server: &Server, body: &str) -> Response {
    let signature = format!("sha256={}", hmac(SECRET.as_bytes(), body.as_bytes()));
    deliver(server, "issues", body, &[("X-Hub-Signature-256", &signature), ("X-GitHub-Delivery", "1")])
}

fn issue(title: &str) -> String {
    json!({"issue": {"title": title, "number": 7}}).to_string()
}

pub(super) fn wait_until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < deadline, "it does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first record of each run.
fn invocations(scenario: &Scenario) -> Vec<Value> {
    let read = |dir: PathBuf| fs::read_to_string(dir.join("journal.jsonl")).ok();
    let first = |text: String| lines(text.lines().next()?).into_iter().next();
    scenario.runs().into_iter().filter_map(read).filter_map(first).collect()
}

fn trigger(server: &Server, name: &str) -> Value {
    let all = server.get("/v1/triggers").send().body;
    let all = all["triggers"].as_array().expect("triggers");
    all.iter().find(|trigger| trigger["name"] == name).cloned().expect("the trigger")
}

#[test]
fn signed_delivery_starts_one_run_with_untrusted_input_whatever_happens_to_the_server() {
    let scenario = with_triggers(ISSUES);
    let server = Server::start(&scenario, &[]);
    let delivered = github(&server, &issue("It rains"));
    assert_eq!((delivered.status, &delivered.body["new"]), (202, &json!(true)), "{delivered:?}");
    let run = delivered.body["run"].as_str().expect("an ID").to_owned();
    let done = server.get(&format!("/v1/runs/{run}?wait=60")).send().body;
    assert_eq!((&done["state"], &done["client"]), (&json!("done"), &json!("trigger:issues")), "{done}");
    let again = github(&server, &issue("It rains"));
    assert_eq!((again.status, &again.body), (200, &json!({"run": run, "new": false})), "a repetition");
    let started = &invocations(&scenario)[0];
    assert_eq!(started["invocation"]["untrusted_input"], true, "{started}");
    assert_eq!(
        started["invocation"]["input"]["json"],
        json!({"team": "support", "title": "It rains", "number": 7}),
        "{started}"
    );
    // Killed, and started with other settings: the delivery has had its run.
    drop(server);
    fs::write(
        scenario.home().join("home/.llm-do/serve.yaml"),
        ISSUES.replace("team: support", "team: sales"),
    )
    .expect("written");
    let server = Server::start(&scenario, &[]);
    assert_eq!(github(&server, &issue("It rains")).body, json!({"run": run, "new": false}));
    let other = github(&server, &issue("It snows"));
    assert_eq!(other.status, 202, "{other:?}");
    assert_eq!(scenario.runs().len(), 2);
    let view = trigger(&server, "issues");
    assert_eq!((&view["kind"], &view["last"]["run"]), (&json!("webhook"), &other.body["run"]), "{view}");
    let metrics = server.get("/metrics").send().text;
    let counted = "llm_do_triggers_total{program=\"desk\",trigger=\"issues\",outcome=\"known\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
}

#[test]
fn delivery_that_is_forged_too_large_or_of_another_shape_starts_nothing() {
    let scenario = with_triggers(ISSUES);
    let server = Server::start(&scenario, &[]);
    let good = format!("sha256={}", hmac(SECRET.as_bytes(), issue("It rains").as_bytes()));
    let of_other = format!("sha256={}", hmac(b"another secret than this", issue("It rains").as_bytes()));
    for (trigger, body, headers) in [
        ("issues", issue("It rains"), vec![]),
        ("issues", issue("It rains"), vec![("X-Hub-Signature-256", of_other.as_str())]),
        ("issues", issue("It snows"), vec![("X-Hub-Signature-256", good.as_str())]),
        ("issues", issue("It rains"), vec![("X-Hub-Signature", good.as_str())]),
        ("nothing", issue("It rains"), vec![("X-Hub-Signature-256", good.as_str())]),
    ] {
        let refused = deliver(&server, trigger, &body, &headers);
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (403, &json!("forbidden")),
            "{headers:?}: {refused:?}"
        );
    }
    // A token is no signature.
    let asked = server.ask("POST", "/v1/triggers/issues", issue("It rains")).send();
    assert_eq!(asked.status, 403, "{asked:?}");
    let large = github(&server, &issue(&"x".repeat(3000)));
    assert_eq!((large.status, &large.body["code"]), (413, &json!("too_large")), "{large:?}");
    for body in ["[]", "no JSON", r#"{"issue": {"title": "It rains", "number": "seven"}}"#] {
        let misfit = github(&server, body);
        assert_eq!((misfit.status, &misfit.body["code"]), (422, &json!("bad_input")), "{body}: {misfit:?}");
    }
    assert_eq!(scenario.runs().len(), 0);
    let view = trigger(&server, "issues");
    assert!(view["problem"].as_str().expect("a problem").contains("number"), "{view}");
}

#[test]
fn signatures_with_a_time_are_refused_when_they_are_late() {
    let scenario = with_triggers(
        "
triggers:
  - name: charges
    webhook: {signature: stripe, secret: {env: HOOK_SECRET}}
    worker: greeter
    from: {name: /body/name}
  - name: others
    webhook: {signature: standard, secret: {env: HOOK_SECRET}}
    worker: greeter
    from: {name: /body/name}
",
    );
    let server = Server::start(&scenario, &[]);
    let stripe = |time: u64, id: &str| {
        let body = json!({"id": id, "name": "Ada"}).to_string();
        let signature = hmac(SECRET.as_bytes(), format!("{time}.{body}").as_bytes());
        deliver(&server, "charges", &body, &[("Stripe-Signature", &format!("t={time},v1={signature}"))])
    };
    let standard = |time: u64, id: &str, signed_id: &str| {
        let body = json!({"name": "Ada"}).to_string();
        let signature = hmac(SECRET.as_bytes(), format!("{signed_id}.{time}.{body}").as_bytes());
        let signature = format!("v1,{}", STANDARD.encode(bytes_of(&signature)));
        let time = time.to_string();
        let headers = [("webhook-id", id), ("webhook-timestamp", &time), ("webhook-signature", &signature)];
        deliver(&server, "others", &body, &headers)
    };
    let first = stripe(now(), "evt_1");
    assert_eq!(first.status, 202, "{first:?}");
    assert_eq!(
        stripe(now() - 100, "evt_1").body["run"],
        first.body["run"],
        "another attempt of the same event"
    );
    assert_eq!(stripe(now() - 400, "evt_2").status, 403, "it is late");
    assert_eq!(stripe(now() + 400, "evt_2").status, 403, "it is of the future");
    assert_eq!(standard(now(), "msg_1", "msg_1").status, 202);
    assert_eq!(standard(now(), "msg_1", "msg_1").status, 200, "a repetition");
    assert_eq!(standard(now() - 400, "msg_2", "msg_2").status, 403, "it is late");
    assert_eq!(standard(now(), "msg_3", "msg_1").status, 403, "the ID is signed");
    assert_eq!(scenario.runs().len(), 2);
}

fn hook(concurrency: &str, worker: &str) -> String {
    format!(
        "
triggers:
  - name: issues
    webhook: {{signature: github, secret: {{env: HOOK_SECRET}}}}
    worker: {worker}
    message: Work.
    concurrency: {concurrency}
"
    )
}

#[test]
fn runs_of_a_trigger_that_queues_are_at_work_one_after_the_other_also_after_a_kill() {
    let scenario = with_triggers(&hook("queue", "writer"));
    let server = Server::start(&scenario, &[]);
    let id = |delivered: Response| delivered.body["run"].as_str().expect("an ID").to_owned();
    let first = id(github(&server, &issue("one")));
    server.until(&first, |view| view["state"] == "waiting");
    let second = id(github(&server, &issue("two")));
    assert_eq!(server.get(&format!("/v1/runs/{second}")).send().body["state"], "queued");
    // Requests of clients do not wait for them.
    let other =
        server.post("/v1/runs?wait=60", &json!({"worker": "greeter", "input": {"name": "Ada"}})).send();
    assert_eq!(other.body["state"], "done", "{other:?}");
    drop(server);
    let server = Server::start(&scenario, &[]);
    let view = server.until(&first, |view| view["state"] == "waiting");
    assert_eq!(server.get(&format!("/v1/runs/{second}")).send().body["state"], "queued");
    let question = &view["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "deny"});
    assert_eq!(server.post(&format!("/v1/runs/{first}/answers"), &answer).send().status, 204);
    server.until(&second, |view| view["state"] == "waiting");
    assert_eq!(scenario.runs().len(), 3);
}

#[test]
fn event_is_skipped_or_replaces_the_run_under_way() {
    let scenario = with_triggers(&hook("skip", "slow"));
    let server = Server::start(&scenario, &[]);
    let first = github(&server, &issue("one")).body;
    let skipped = github(&server, &issue("two"));
    assert_eq!((skipped.status, &skipped.body), (200, &json!({"new": false})), "{skipped:?}");
    assert_eq!(trigger(&server, "issues")["problem"], "skipped: an earlier run is under way");
    drop(server);
    fs::write(scenario.home().join("home/.llm-do/serve.yaml"), hook("replace", "slow")).expect("written");
    let server = Server::start(&scenario, &[]);
    let third = github(&server, &issue("three"));
    assert_eq!(third.status, 202, "{third:?}");
    let first = first["run"].as_str().expect("an ID");
    assert_eq!(server.get(&format!("/v1/runs/{first}?wait=60")).send().body["state"], "cancelled");
    let third = third.body["run"].as_str().expect("an ID").to_owned();
    server.until(&third, |view| view["state"] == "running");
}

fn inbox(scenario: &Scenario, more: &str) -> PathBuf {
    let folder = scenario.project().join("inbox");
    fs::create_dir_all(&folder).expect("a folder");
    let settings = format!(
        "triggers:\n  - name: inbox\n    folder: {{path: {}, settle_s: 1}}\n    worker: reader\n    from: {{letter: /file}}\n{more}",
        folder.display()
    );
    fs::write(scenario.home().join("home/.llm-do/serve.yaml"), settings).expect("written");
    folder
}

#[test]
fn each_file_of_a_folder_is_a_run_once_and_links_and_parts_are_none() {
    let scenario = with_triggers("");
    let folder = inbox(&scenario, "");
    fs::write(folder.join("first.txt"), "one").expect("written");
    fs::write(folder.join(".second.part"), "half").expect("written");
    #[cfg(unix)]
    std::os::unix::fs::symlink(scenario.home().join("home/.llm-do/serve.yaml"), folder.join("link.txt"))
        .expect("a link");
    let server = Server::start(&scenario, &[]);
    wait_until(|| (trigger(&server, "inbox")["last"]["state"] == "done").then_some(()));
    fs::rename(folder.join(".second.part"), folder.join("second.txt")).expect("renamed");
    wait_until(|| (scenario.runs().len() == 2).then_some(()));
    wait_until(|| (trigger(&server, "inbox")["under_way"] == 0).then_some(()));
    drop(server);
    // As if the server was killed between the start of the run and its note.
    fs::write(scenario.home().join("home/.llm-do/serve/triggers/inbox.files"), "").expect("written");
    let server = Server::start(&scenario, &[]);
    fs::write(folder.join("third.txt"), "three").expect("written");
    wait_until(|| (scenario.runs().len() == 3).then_some(()));
    wait_until(|| {
        let noted = fs::read_to_string(scenario.home().join("home/.llm-do/serve/triggers/inbox.files"))
            .expect("a file");
        (noted.lines().count() == 3).then_some(())
    });
    assert_eq!(scenario.runs().len(), 3, "the files of before have had their runs");
    let untrusted = |record: &Value| record["invocation"]["untrusted_input"] == true;
    assert!(invocations(&scenario).iter().all(untrusted), "files are the words of others");
    server.stop();
}

#[test]
fn thousand_files_at_once_are_a_thousand_runs() {
    let most = if super::whole() { 1000 } else { 60 };
    let scenario = with_triggers("");
    let folder = inbox(&scenario, "    at_once: 20\n");
    (0..most).for_each(|number| fs::write(folder.join(format!("{number}.txt")), "text").expect("written"));
    let server = Server::start(&scenario, &["--max-runs", "10", "--max-queue", "20"]);
    wait_until(|| (scenario.runs().len() == most).then_some(()));
    wait_until(|| (trigger(&server, "inbox")["under_way"] == 0).then_some(()));
    let states = server.get("/v1/runs?limit=200&state=done").send().body;
    assert_eq!(states["runs"].as_array().map(Vec::len), Some(most.min(200)), "{states}");
}

#[test]
fn slots_start_runs_and_a_missed_one_starts_one() {
    let cron = |missed: &str| {
        format!(
            "triggers:\n  - name: nightly\n    cron: {{at: \"0 3 * * *\", time_zone: Europe/Berlin, missed: {missed}}}\n    worker: greeter\n    from: {{name: /date}}\n"
        )
    };
    let scenario = with_triggers(&cron("skip"));
    let server = Server::start(&scenario, &[]);
    let next = trigger(&server, "nightly")["next_ms"].as_u64().expect("a time");
    assert!((now() * 1000..(now() + 25 * 3600) * 1000).contains(&next), "{next}");
    let noted = scenario.home().join("home/.llm-do/serve/triggers/nightly.slot");
    wait_until(|| noted.exists().then_some(()));
    server.stop();
    // The server was away for days.
    let away = || fs::write(&noted, "2026-01-05T12:00:00Z\n").expect("written");
    away();
    let server = Server::start(&scenario, &[]);
    server.logged("nightly: missed the slot");
    assert_eq!(scenario.runs().len(), 0);
    server.stop();
    away();
    fs::write(scenario.home().join("home/.llm-do/serve.yaml"), cron("once")).expect("written");
    let server = Server::start(&scenario, &[]);
    let last = wait_until(|| trigger(&server, "nightly").get("last").cloned());
    let run = last["run"].as_str().expect("an ID").to_owned();
    server.until(&run, |view| view["state"] == "done");
    let started = &invocations(&scenario)[0];
    assert_eq!(started["invocation"].get("untrusted_input"), None, "its words are the operator's: {started}");
    // As if the server was killed between the start of the run and its note.
    drop(server);
    away();
    let server = Server::start(&scenario, &[]);
    wait_until(|| (fs::read_to_string(&noted).expect("a file") != "2026-01-05T12:00:00Z\n").then_some(()));
    assert_eq!(scenario.runs().len(), 1, "the slot has had its run");
    server.stop();
}

#[test]
fn slots_of_each_second_start_runs_of_their_own() {
    let scenario = with_triggers(
        "triggers:\n  - {name: often, cron: {at: \"* * * * * *\"}, worker: greeter, from: {name: /slot}, concurrency: queue}\n",
    );
    let server = Server::start(&scenario, &[]);
    wait_until(|| (scenario.runs().len() >= 2).then_some(()));
    server.stop();
    let started = invocations(&scenario);
    let mut slots: Vec<String> =
        started.iter().map(|record| record["invocation"]["input"]["json"]["name"].to_string()).collect();
    let all = slots.len();
    slots.sort();
    slots.dedup();
    assert_eq!(slots.len(), all, "{slots:?}");
}

#[test]
fn settings_that_cannot_work_are_errors_at_the_start_with_their_place() {
    let scenario = with_triggers("");
    let hook = "webhook: {signature: github, secret: {env: HOOK_SECRET}}";
    let long = "name: t, cron: {at: \"0 3 * * *\"";
    for (entry, says) in [
        (format!("{{{long}}}, worker: nobody, message: Hi.}}"), "does not export `nobody`"),
        (format!("{{{long}}}, program: other, message: Hi.}}"), "the program `other` is not served"),
        (
            format!("{{{long}, time_zone: Europe/Berlyn}}, worker: slow, message: Hi.}}"),
            "no time zone `Europe/Berlyn`",
        ),
        ("{name: t, cron: {at: daily}, worker: slow, message: Hi.}".into(), "no cron expression"),
        (format!("{{{long}}}, worker: triage, message: Hi.}}"), "fits none of the parameters"),
        (
            format!("{{{long}}}, worker: triage, input: {{title: a, team: b}}}}"),
            "\"number\" is a required property",
        ),
        (format!("{{{long}}}, worker: triage, input: {{title: a, team: b, number: seven}}}}"), "/number"),
        (
            format!("{{{long}}}, worker: greeter, from: {{name: /body/x}}}}"),
            "begins with one of /slot, /date",
        ),
        (format!("{{{long}}}, worker: greeter, from: {{nome: /date}}}}"), "no parameter `nome`"),
        (
            format!("{{name: t, {hook}, worker: reader, from: {{letter: /body/path}}}}"),
            "a path is the operator's",
        ),
        (
            format!("{{{long}}}, {hook}, worker: slow, message: Hi.}}"),
            "one of `cron`, `webhook` and `folder`",
        ),
        ("{name: t, worker: slow, message: Hi.}".into(), "one of `cron`, `webhook` and `folder`"),
        (
            "{name: t, webhook: {signature: github, secret: {env: NO_SUCH}}, worker: slow, message: Hi.}"
                .into(),
            "NO_SUCH is not set",
        ),
        ("{name: t, folder: {path: inbox}, worker: reader, from: {letter: /file}}".into(), "not absolute"),
        (format!("{{name: \"a b\", {hook}, worker: slow, message: Hi.}}"), "a name has at most 64"),
    ] {
        fs::write(
            scenario.home().join("home/.llm-do/serve.yaml"),
            format!("tokens: []\ntriggers:\n  - {entry}\n"),
        )
        .expect("written");
        let refused = scenario.run(&["serve", ".", "--port", "0"]);
        assert_eq!(refused.code, Some(2), "{entry}: {refused}");
        assert!(refused.stderr.contains("serve.yaml, line 3: the trigger"), "{entry}: {refused}");
        assert!(refused.stderr.contains(says), "{entry}: {refused}");
        assert!(!refused.stderr.contains(SECRET), "{refused}");
    }
    // No token can take the runs of a trigger for its own.
    let hash = sha256(b"0123456789abcdef0123456789abcdef");
    let token = format!("tokens:\n  - {{name: \"trigger:t\", sha256: {hash}, scopes: [read]}}\n");
    fs::write(scenario.home().join("home/.llm-do/serve.yaml"), token).expect("written");
    let refused = scenario.run(&["serve", ".", "--port", "0"]);
    assert!(refused.stderr.contains("can't have the name `trigger:t`"), "{refused}");
}
