//! Files that clients give to runs, and those that runs have.

use super::client::{Server, TOKEN_OF_CI, ci_token};
use crate::scenario::{Scenario, script};
use serde_json::{Value, json};

/// A worker that reads a document that it is handed, and one that answers about attachments.
fn office() -> Scenario {
    Scenario::new()
        .file("project.yaml", "name: office\nversion: 1.0.0\nexports: [reader, looker, keeper]\n")
        .file(
            "workers/reader.worker",
            "---\nparameters: {document: path}\nmodel: script:reads.yaml\nsandbox: {paths: {in: {root: ./in, mode: ro}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nRead.\n",
        )
        .file(
            "workers/looker.worker",
            "---\nmodel: script:looks.yaml\nsandbox: {paths: {in: {root: ./in, mode: ro}}}\n---\nLook.\n",
        )
        .file(
            "workers/keeper.worker",
            "---\nmodel: script:asks.yaml\nsandbox: {paths: {in: {root: ./in, mode: ro}, mails: {root: ./mails, mode: ro, untrusted: true}}}\ntoolsets: {filesystem: {tools: [read_file]}}\n---\nKeep.\n",
        )
        .file("in/a.txt", "first line\n")
        .file("in/deep/b.bin", "\u{0}binary")
        .file("in/.env", "SECRET=1\n")
        .file("mails/m.txt", "from others\n")
        .file(
            "reads.yaml",
            &script(&[
                json!({"when": {"turn": 0}, "calls": [{"tool": "read_file", "arguments": {"path": "/document"}}]}),
                json!({"text": "read"}),
            ]),
        )
        .file("looks.yaml", "answers:\n  - text: seen\n")
        .file("asks.yaml", "answers:\n  - text: kept\n")
}

fn start(server: &Server, body: &Value) -> Value {
    server.post("/v1/runs?wait=60", body).send().body
}

fn upload(server: &Server, name: &str, content: &str) -> String {
    let uploaded = server.ask("POST", &format!("/v1/uploads?name={name}"), content.to_owned()).send();
    assert_eq!(uploaded.status, 201, "{uploaded:?}");
    assert_eq!(uploaded.body["bytes"], content.len());
    uploaded.body["upload"].as_str().expect("an ID").to_owned()
}

fn uploads(scenario: &Scenario) -> usize {
    std::fs::read_dir(scenario.home().join("home/.llm-do/serve/uploads")).map_or(0, Iterator::count)
}

#[test]
fn path_parameter_is_an_upload_or_a_path_in_the_view() {
    let scenario = office();
    let server = Server::start(&scenario, &[]);
    let id = upload(&server, "mail.txt", "uploaded words\n");
    let given = json!({"worker": "reader", "input": {"document": format!("upload:{id}")}});
    let done = start(&server, &given);
    assert_eq!((&done["state"], &done["output"]), (&json!("done"), &json!("read")), "{done}");
    let journal: Vec<String> = scenario.journal().iter().map(Value::to_string).collect();
    assert!(journal.iter().any(|record| record.contains("uploaded words")), "{journal:?}");
    server.until(done["run"].as_str().expect("an ID"), |_| uploads(&scenario) == 0);

    let seen = start(&server, &json!({"worker": "reader", "input": {"document": "/in/a.txt"}}));
    assert_eq!(seen["output"], "read", "{seen}");
    let journal: Vec<String> = scenario.journal().iter().map(Value::to_string).collect();
    assert!(journal.iter().any(|record| record.contains("first line")), "{journal:?}");
}

#[cfg(unix)]
#[test]
fn client_hands_over_nothing_that_the_worker_does_not_see() {
    let scenario = office();
    std::os::unix::fs::symlink("../../private.txt", scenario.project().join("in/link.txt")).expect("a link");
    std::fs::write(scenario.home().join("private.txt"), "private\n").expect("written");
    let server = Server::start(&scenario, &[]);
    let private = scenario.home().join("private.txt").display().to_string();
    for path in [
        private.as_str(),
        "/etc/passwd",
        "private.txt",
        "../private.txt",
        "/in/../private.txt",
        "/in/link.txt",
        "/in/.env",
        "/in/none.txt",
        "upload:00000000000000000000000000000000",
        "upload:../../../etc/passwd",
    ] {
        let refused =
            server.post("/v1/runs", &json!({"worker": "reader", "input": {"document": path}})).send();
        assert_eq!(refused.status, 422, "{path}: {refused:?}");
        let refused = server
            .post("/v1/runs", &json!({"worker": "looker", "message": "Look.", "attachments": [path]}))
            .send();
        assert_eq!(refused.status, 422, "{path}: {refused:?}");
        assert!(!refused.text.contains("root:"), "{refused:?}");
    }
    let all = scenario
        .runs()
        .into_iter()
        .map(|dir| std::fs::read_to_string(dir.join("journal.jsonl")).unwrap_or_default());
    assert!(all.into_iter().all(|journal| !journal.contains("private\\n")), "nothing of it was read");
}

#[test]
fn attachments_are_uploads_or_files_that_the_worker_sees() {
    let scenario = office();
    let server = Server::start(&scenario, &[]);
    let id = upload(&server, "note.txt", "attached words");
    let body =
        json!({"worker": "looker", "message": "Look.", "attachments": [format!("upload:{id}"), "/in/a.txt"]});
    let done = start(&server, &body);
    assert_eq!(done["output"], "seen", "{done}");
    let journal: Vec<String> = scenario.journal().iter().map(Value::to_string).collect();
    for words in ["attached words", "first line"] {
        assert!(journal.iter().any(|record| record.contains(words)), "{words}: {journal:?}");
    }
    let again = server.post("/v1/runs", &body).send();
    assert!([409, 422].contains(&again.status), "an upload is used once: {again:?}");
}

#[test]
fn uploads_belong_to_their_tokens_and_have_names_of_files() {
    let scenario = office().home_file("serve.yaml", &ci_token("[start]", ""));
    let server = Server::start(&scenario, &[]);
    let id = upload(&server, "own.txt", "own");
    let body = json!({"worker": "looker", "message": "Look.", "attachments": [format!("upload:{id}")]});
    assert_eq!(server.post("/v1/runs", &body).token(TOKEN_OF_CI).send().status, 422);
    for name in ["", "..", "a%2fb", "a%5cb", ".env", "a%00b", "a%0ab"] {
        let refused = server.ask("POST", &format!("/v1/uploads?name={name}"), "x".into()).send();
        assert_eq!(refused.status, 400, "{name}: {refused:?}");
    }
    assert_eq!(server.ask("POST", "/v1/uploads", "x".into()).send().status, 400, "without a name");
    let large =
        server.ask("POST", "/v1/uploads?name=a", "x".into()).header("Content-Length", "99999999999").send();
    assert_eq!(large.status, 413, "{large:?}");
    assert_eq!(uploads(&scenario), 1);
}

#[cfg(unix)]
#[test]
fn files_of_a_run_are_those_of_its_workers_view() {
    let scenario = office().home_file("serve.yaml", &ci_token("[read]", ""));
    std::os::unix::fs::symlink("../../private.txt", scenario.project().join("in/link.txt")).expect("a link");
    std::fs::write(scenario.home().join("private.txt"), "private\n").expect("written");
    let server = Server::start(&scenario, &[]);
    let run = start(&server, &json!({"worker": "keeper", "message": "Keep."}));
    let files = format!("/v1/runs/{}/files", run["run"].as_str().expect("an ID"));
    let root = server.get(&files).send().body;
    let entries = root["entries"].as_array().expect("entries");
    for entry in [
        json!({"name": "in", "kind": "folder"}),
        json!({"name": "mails", "kind": "folder", "untrusted": true}),
    ] {
        assert!(entries.contains(&entry), "{root}");
    }
    assert!(
        entries.iter().all(|entry| !entry["name"].as_str().unwrap_or_default().starts_with('.')),
        "{root}"
    );
    let within = server.get(&format!("{files}?path=/in")).send().body;
    assert_eq!(
        within,
        json!({"path": "/in", "entries": [{"name": "a.txt", "kind": "file", "bytes": 11}, {"name": "deep", "kind": "folder"}]}),
        "neither what is invisible nor a link that leads out"
    );
    let mails = server.get(&format!("{files}?path=/mails")).send().body;
    assert_eq!(mails["entries"], json!([{"name": "m.txt", "kind": "file", "bytes": 12, "untrusted": true}]));
    let content = |path: &str| server.get(&format!("{files}/content?path={path}")).send();
    let text = content("/in/a.txt");
    assert_eq!((text.status, text.text.as_str()), (200, "first line\n"), "{text:?}");
    assert_eq!(text.header("content-type"), Some("text/plain; charset=utf-8"));
    assert_eq!(
        text.header("content-disposition"),
        Some("attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt")
    );
    assert_eq!(text.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(content("/in/deep/b.bin").header("content-type"), Some("application/octet-stream"));
    for path in ["/private.txt", "/in/.env", "/in/none", "/etc/passwd", "/.llm-do/runs"] {
        assert_eq!(content(path).status, 404, "{path}");
    }
    for path in ["/in/../private.txt", "/in/link.txt", "/in", "/in/a%00", "..", "%2e%2e/private.txt"] {
        assert!([400, 404].contains(&content(path).status), "{path}: {:?}", content(path));
    }
    assert_eq!(server.get(&files).token(TOKEN_OF_CI).send().status, 404, "the run of another");
}

#[test]
fn export_is_one_page_that_is_saved_and_not_shown() {
    let scenario = office();
    let server = Server::start(&scenario, &[]);
    let run = start(&server, &json!({"worker": "keeper", "message": "</script><script>alert(1)</script>"}));
    let id = run["run"].as_str().expect("an ID");
    let page = server.get(&format!("/v1/runs/{id}/export")).send();
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert_eq!(
        page.header("content-disposition"),
        Some(format!("attachment; filename=\"{id}.html\"; filename*=UTF-8''{id}.html").as_str())
    );
    assert!(
        page.text.starts_with("<!doctype html>") && !page.text.contains("<script>alert(1)"),
        "{}",
        page.text
    );
}
