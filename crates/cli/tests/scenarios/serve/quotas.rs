//! Quotas: no token takes what others need, and a client learns which quota its request exceeds.

use super::{
    client::{Server, TOKEN_OF_CI, ci_token},
    desk,
};
use serde_json::json;
use std::net::TcpStream;

#[test]
fn no_token_takes_all_runs_and_all_uploads() {
    let file = ci_token("[start, read]", "") + "quotas: {all: {uploads: 20, upload_files: 100}}\n";
    let scenario = desk().home_file("serve.yaml", &file);
    let server = Server::start(&scenario, &["--max-runs", "3"]);
    let slow = json!({"worker": "slow", "message": "a"});
    let start = |token: &str| server.post("/v1/runs", &slow).token(token).send();
    assert_eq!([start(TOKEN_OF_CI).status, start(TOKEN_OF_CI).status], [201, 201]);
    let refused = start(TOKEN_OF_CI);
    assert_eq!(
        (refused.status, &refused.body["code"], &refused.body["quota"], refused.header("retry-after")),
        (429, &json!("too_many_runs"), &json!("runs"), Some("5")),
        "{refused:?}"
    );
    let detail = refused.body["detail"].as_str().expect("text");
    assert!(
        detail.contains("of this token: 2 of 2 runs are in use; start another when one has ended"),
        "{detail}"
    );
    assert_eq!(start(&server.token).status, 201, "another token has room");
    let all = start(&server.token);
    assert_eq!((all.status, &all.body["quota"]), (429, &json!("runs")), "{all:?}");

    let upload = |token: &str, bytes: usize| {
        server.ask("POST", "/v1/uploads?name=a.bin", "a".repeat(bytes)).token(token).send()
    };
    assert_eq!(upload(TOKEN_OF_CI, 10).status, 201);
    let refused = upload(TOKEN_OF_CI, 1);
    assert_eq!(
        (refused.status, &refused.body["code"], &refused.body["quota"]),
        (429, &json!("too_many_uploads"), &json!("uploads")),
        "{refused:?}"
    );
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(upload(&server.token, 10).status, 201, "another token has room");
}

#[test]
fn token_and_program_have_quotas_of_their_own() {
    let more = "    quotas: {runs: 1, bodies: 100}\nquotas: {programs: {desk: {runs: 3}}}\n";
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", more));
    let server = Server::start(&scenario, &[]);
    let start = |token: &str, text: &str| {
        server.post("/v1/runs", &json!({"worker": "slow", "message": text})).token(token).send()
    };
    let large = start(TOKEN_OF_CI, &"a".repeat(100));
    assert_eq!(
        (large.status, &large.body["code"], &large.body["quota"]),
        (413, &json!("too_large"), &json!("bodies")),
        "waiting does not help: {large:?}"
    );
    assert_eq!(start(TOKEN_OF_CI, "a").status, 201);
    assert_eq!(start(TOKEN_OF_CI, "a").status, 429);
    assert_eq!([start(&server.token, "a").status, start(&server.token, "a").status], [201, 201]);
    let refused = start(&server.token, "a");
    assert_eq!(refused.status, 429, "{refused:?}");
    let detail = refused.body["detail"].as_str().expect("text");
    assert!(detail.contains("quota `runs` of this program: 3 of 3"), "{detail}");
}

#[test]
fn disk_of_a_token_is_limited() {
    let more = "    quotas: {disk: 1 KiB}\n";
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", more));
    let server = Server::start(&scenario, &[]);
    let start =
        |token: &str| server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).token(token).send();
    assert_eq!(start(&server.token).status, 201);
    drop(server);
    // A server measures what is there when its first run starts, and later again.
    let server = Server::start(&scenario, &[]);
    let start_ci =
        || server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).token(TOKEN_OF_CI).send();
    assert_eq!(start_ci().status, 201, "the runs of others do not count");
    drop(server);
    let server = Server::start(&scenario, &[]);
    let refused = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).token(TOKEN_OF_CI).send();
    assert_eq!((refused.status, &refused.body["quota"]), (507, &json!("disk")), "{refused:?}");
}

#[test]
fn file_of_quotas_is_checked() {
    for (quotas, says) in [
        ("{all: {bodies: 1 MB}}", "64 MiB"),
        ("{all: {runs: 5}}", "runs"),
        ("{programs: {mail: {runs: 5}}}", "the quotas name the program `mail`, which is not served"),
    ] {
        let scenario = desk().home_file("serve.yaml", &format!("quotas: {quotas}\n"));
        let told = scenario.run(&["serve", ".", "--listen", "127.0.0.1:0"]);
        assert_eq!(told.code, Some(2), "{quotas}: {told}");
        assert!(told.stderr.contains(says), "{quotas}: {told}");
    }
}

/// The most memory that a server may keep for bodies that do not end: the quota and the buffers of each connection.
#[cfg(target_os = "linux")]
#[test]
fn bodies_that_do_not_end_have_a_limit_in_sum() {
    let quotas = "quotas: {all: {bodies: 32 MiB}}\n";
    let scenario = desk().home_file("serve.yaml", quotas);
    let server = Server::start(&scenario, &[]);
    let before = server.memory();
    // Fifteen of sixteen million bytes, sixty times.
    let part = "a".repeat(15_000_000);
    let open: Vec<TcpStream> = std::thread::scope(|scope| {
        let part = &part;
        let server = &server;
        let sending: Vec<_> = (0..60)
            .map(|_| {
                scope.spawn(move || {
                    let asking = server.ask("POST", "/v1/uploads?name=a.bin", part.clone());
                    asking.header("Content-Length", "16000000").connect()
                })
            })
            .collect();
        sending.into_iter().map(|sent| sent.join().expect("sent")).collect()
    });
    let grown = server.memory().saturating_sub(before);
    assert!(grown < 160 << 20, "{grown} bytes for {} connections", open.len());
    let metrics = server.get("/metrics").send().text;
    let used = metrics.lines().find_map(|line| line.strip_prefix("llm_do_quota_used{quota=\"bodies\"} "));
    let used: u64 = used.and_then(|used| used.parse().ok()).unwrap_or_else(|| panic!("{metrics}"));
    assert!((1..=32 << 20).contains(&used), "{used}");
    assert!(metrics.contains("llm_do_quota_limit{quota=\"bodies\"} 33554432"), "{metrics}");
    // Requests without a body are answered, and those with one as soon as others have ended.
    assert_eq!(server.get("/v1/workers").send().status, 200);
    drop(open);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let run = server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
        if run.status == 201 {
            break;
        }
        assert_eq!((run.status, &run.body["quota"]), (429, &json!("bodies")), "{run:?}");
        assert!(std::time::Instant::now() < deadline, "{run:?}");
    }
}

#[test]
fn metrics_show_a_token_what_it_may_see() {
    let more = "    programs: [desk]\n    read: all\n";
    let scenario = desk()
        .home_file("serve.yaml", &ci_token("[start, read]", more))
        .file("mail/main.worker", "---\nmodel: script:s.yaml\n---\nHi.\n")
        .file("mail/s.yaml", "answers:\n  - text: Hello!\n");
    let server = Server::start_with(&scenario, &["desk=.", "mail=mail/main.worker"]);
    let start = |body| server.post("/v1/runs?wait=60", &body).send();
    let run = start(json!({"program": "desk", "worker": "greeter", "input": {"name": "Ada"}}));
    assert_eq!(run.status, 201, "{run:?}");
    let run = start(json!({"program": "mail", "message": "Hi."}));
    assert_eq!(run.status, 201, "{run:?}");
    let of_all = server.get("/metrics").send().text;
    for line in ["program=\"mail\"", "program=\"desk\"", "llm_do_http_requests", "token=\"ci\""] {
        assert!(of_all.contains(line), "{line}: {of_all}");
    }
    let of_one = server.get("/metrics").token(TOKEN_OF_CI).send().text;
    assert!(of_one.contains("llm_do_runs_ended_total{program=\"desk\",state=\"done\"} 1"), "{of_one}");
    assert!(of_one.contains("llm_do_quota_limit{quota=\"runs\",token=\"ci\"} 500"), "{of_one}");
    assert!(of_one.ends_with("# EOF\n"), "{of_one}");
    for hidden in ["mail", "operator", "llm_do_http_requests_total", "llm_do_answers_total"] {
        assert!(!of_one.contains(hidden), "{hidden}: {of_one}");
    }
    drop(server);
    let own = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&own, &[]);
    server.post("/v1/runs?wait=60", &json!({"input": {"name": "Ada"}})).send();
    let of_own = server.get("/metrics").token(TOKEN_OF_CI).send().text;
    assert!(of_own.contains("llm_do_quota_used{quota=\"runs\",token=\"ci\"} 0"), "{of_own}");
    assert!(!of_own.contains("program=\"desk\""), "runs of others: {of_own}");
}
