//! Definitions that are read, checked and changed over HTTP.

use super::{
    client::{Response, Server, TOKEN_OF_CI, ci_token},
    desk,
};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::{
    thread::sleep,
    time::{Duration, Instant},
};

const CONTENT: &str = "/v1/programs/desk/files/content";

fn read(server: &Server, path: &str) -> Response {
    server.get(&format!("{CONTENT}?path={path}")).send()
}

fn save(server: &Server, path: &str, text: &str, was: &Value) -> Response {
    server.put(CONTENT, &json!({"path": path, "text": text, "sha256": was})).send()
}

#[test]
fn saved_definition_counts_for_later_runs_and_waiting_ones_keep_theirs() {
    let scenario = desk().file("workers/main.worker", "---\n---\nHello.\n");
    let server = Server::start(&scenario, &["--edit"]);
    let files = server.get("/v1/programs/desk/files").send().body;
    let paths: Vec<_> = files["files"].as_array().expect("files").iter().map(|file| &file["path"]).collect();
    for path in ["project.yaml", "workers/writer.worker"] {
        assert!(paths.contains(&&json!(path)), "{files}");
    }
    assert!(!paths.contains(&&json!("s.yaml")), "a script is no definition: {files}");
    let before = read(&server, "workers/writer.worker").body;
    assert_eq!(before["text"], scenario.read("workers/writer.worker").expect("a file"));
    let start = || server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send();
    let waiting = start().body;
    assert_eq!(waiting["state"], "waiting", "{waiting}");

    let text = before["text"].as_str().expect("text").replace("Write.", "Write it all down.");
    let saved = save(&server, "workers/writer.worker", &text, &before["sha256"]);
    assert_eq!(saved.status, 200, "{saved:?}");
    assert_eq!(saved.body["sha256"], read(&server, "workers/writer.worker").body["sha256"]);
    assert_eq!(scenario.read("workers/writer.worker").as_deref(), Some(text.as_str()));
    let again = save(&server, "workers/writer.worker", "---\n---\nOther.\n", &before["sha256"]);
    assert_eq!((again.status, &again.body["code"]), (409, &json!("file_changed")), "{again:?}");

    let question = &waiting["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let run = waiting["run"].as_str().expect("an ID");
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    assert_eq!(server.get(&format!("/v1/runs/{run}?wait=60")).send().body["output"], "written");
    start();
    let journal = scenario.journal();
    assert!(journal[0].to_string().contains("Write it all down."), "{}", journal[0]);
}

#[test]
fn code_of_every_exported_worker_is_a_definition() {
    let scenario = Scenario::new()
        .file("project.yaml", "name: desk\nentry: greeter\nexports: [greeter, flow]\nmodel: script:s.yaml\n")
        .file("workers/greeter.worker", "---\n---\nGreet.\n")
        .file("s.yaml", "answers:\n  - text: Hello!\n")
        .file("workers/flow.worker", "---\ncode: flow.py:run\n---\n")
        .file("flow.py", "def run(n: int) -> int:\n    return n\n")
        .file("notes.py.txt", "no code\n");
    let server = Server::start(&scenario, &["--edit"]);
    let files = server.get("/v1/programs/desk/files").send().body;
    let paths: Vec<_> = files["files"].as_array().expect("files").iter().map(|file| &file["path"]).collect();
    assert!(paths.contains(&&json!("flow.py")), "{files}");
    assert!(!paths.contains(&&json!("notes.py.txt")), "{files}");
    let before = read(&server, "flow.py").body;
    let text = before["text"].as_str().expect("text").replace("return n", "return n + 1");
    assert_eq!(save(&server, "flow.py", &text, &before["sha256"]).status, 200);
    assert_eq!(scenario.read("flow.py").as_deref(), Some(text.as_str()));
}

#[test]
fn run_whose_definition_was_edited_is_changed_after_a_restart_until_the_edit_is_taken_back() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--edit"]);
    let waiting =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
    let run = waiting["run"].as_str().expect("an ID").to_owned();
    let before = read(&server, "workers/writer.worker").body;
    let old = before["text"].as_str().expect("text");
    let text = old.replace("Write.", "Write everything.");
    assert_eq!(save(&server, "workers/writer.worker", &text, &before["sha256"]).status, 200);
    assert_eq!(server.get(&format!("/v1/runs/{run}")).send().body["state"], "waiting", "it goes on");
    assert_eq!(server.stop(), Some(130));
    let server = Server::start(&scenario, &["--edit"]);
    let view = server.get(&format!("/v1/runs/{run}")).send().body;
    assert_eq!(view["state"], "changed", "{view}");
    assert!(
        view["reason"].as_str().unwrap_or_default().contains("has changed since the run began"),
        "{view}"
    );
    let listed = server.get("/v1/runs?state=changed").send().body;
    assert_eq!(listed["runs"][0]["run"], run.as_str(), "{listed}");
    let now = read(&server, "workers/writer.worker").body;
    assert_eq!(save(&server, "workers/writer.worker", old, &now["sha256"]).status, 200);
    let view = server.until(&run, |view| view["state"] == "waiting");
    assert_eq!(view["questions"][0]["digest"], waiting["questions"][0]["digest"]);
}

#[test]
fn program_that_does_not_load_starts_no_run_and_what_runs_goes_on() {
    let scenario = desk();
    let server = Server::start(&scenario, &["--edit"]);
    let waiting =
        server.post("/v1/runs?wait=60", &json!({"worker": "writer", "message": "Write."})).send().body;
    let before = read(&server, "workers/greeter.worker").body;
    let broken =
        save(&server, "workers/greeter.worker", "---\nmodle: script:s.yaml\n---\nHi.\n", &before["sha256"]);
    assert_eq!(broken.status, 200, "{broken:?}");
    assert!(broken.body["diagnostics"].to_string().contains("modle"), "{broken:?}");
    let refused = server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send();
    assert_eq!((refused.status, &refused.body["code"]), (409, &json!("program_broken")), "{refused:?}");
    assert!(refused.body["diagnostics"][0]["message"].is_string(), "{refused:?}");
    let errors = &server.get("/v1/programs").send().body["programs"][0]["findings"]["errors"];
    assert!(errors.as_u64() > Some(0), "{errors}");
    let question = &waiting["questions"][0];
    let answer = json!({"call": question["call"], "step": question["step"], "digest": question["digest"], "answer": "approve"});
    let run = waiting["run"].as_str().expect("an ID");
    assert_eq!(server.post(&format!("/v1/runs/{run}/answers"), &answer).send().status, 204);
    assert_eq!(server.get(&format!("/v1/runs/{run}?wait=60")).send().body["output"], "written");
    let now = read(&server, "workers/greeter.worker").body;
    let text = before["text"].as_str().expect("text");
    assert_eq!(save(&server, "workers/greeter.worker", text, &now["sha256"]).status, 200);
    assert_eq!(server.post("/v1/runs", &json!({"input": {"name": "Ada"}})).send().status, 201);
}

#[test]
fn unsaved_texts_are_checked_and_nothing_is_written() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let check = |files: Value| server.post("/v1/programs/desk/check", &json!({"files": files})).send();
    let before = scenario.read("workers/greeter.worker");
    let found = check(json!({"workers/greeter.worker": "---\nmodle: x\n---\nHi.\n"}));
    assert_eq!(found.status, 200, "{found:?}");
    assert!(found.body["diagnostics"].to_string().contains("modle"), "{found:?}");
    assert!(!check(json!({})).body["diagnostics"].to_string().contains("modle"));
    let outside = check(json!({"../outside.worker": "---\nmodle: x\n---\n", "/etc/x.worker": "x"}));
    assert!(!outside.body["diagnostics"].to_string().contains("modle"), "{outside:?}");
    assert_eq!(scenario.read("workers/greeter.worker"), before);
}

#[test]
fn each_edit_is_checked_and_other_changes_of_files_show_soon() {
    let scenario = desk();
    let server = Server::start(&scenario, &[]);
    let found = |files: Value| {
        let checked = server.post("/v1/programs/desk/check", &json!({"files": files})).send();
        assert_eq!(checked.status, 200, "{checked:?}");
        checked.body["diagnostics"].to_string()
    };
    let text = scenario.read("workers/greeter.worker").expect("a file");
    for n in 0..3 {
        let found = found(json!({"workers/greeter.worker": format!("{text}{{{{ nothing_{n} }}}}\n")}));
        let seen = [0, 1, 2].map(|other| found.contains(&format!("nothing_{other}")));
        assert_eq!(seen, [0, 1, 2].map(|other| other == n), "{found}");
    }
    assert!(!found(json!({})).contains("nothing_"));
    let other = scenario.project().join("workers/writer.worker");
    std::fs::write(other, "---\nmodle: x\n---\nHi.\n").expect("written");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !found(json!({})).contains("modle") {
        assert!(Instant::now() < deadline, "a change of a file never shows");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn editing_needs_its_scope_and_its_program() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start]", ""));
    let server = Server::start(&scenario, &[]);
    let before = read(&server, "workers/greeter.worker").body;
    let refused = save(&server, "workers/greeter.worker", "x", &before["sha256"]);
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("forbidden")),
        "--edit was not given: {refused:?}"
    );
    for path in ["/v1/programs/desk/files", &format!("{CONTENT}?path=project.yaml")] {
        assert_eq!(server.get(path).token(TOKEN_OF_CI).send().status, 403, "{path}");
    }
    assert_eq!(server.get("/v1/programs/other/files").send().status, 404);
    drop(server);
    let only_edits = desk().home_file("serve.yaml", &ci_token("[edit]", ""));
    let server = Server::start(&only_edits, &[]);
    let hash = server.get(&format!("{CONTENT}?path=workers/greeter.worker")).token(TOKEN_OF_CI).send();
    assert_eq!(hash.status, 200, "{hash:?}");
    let body = json!({"path": "workers/new.worker", "text": "---\n---\nNew.\n", "sha256": null});
    assert_eq!(server.put(CONTENT, &body).token(TOKEN_OF_CI).send().status, 200);
    assert!(only_edits.read("workers/new.worker").is_some());
    assert_eq!(server.put(CONTENT, &body).token(TOKEN_OF_CI).send().status, 409, "it is there now");
    assert_eq!(server.get("/v1/runs").token(TOKEN_OF_CI).send().status, 403);
}

#[cfg(unix)]
#[test]
fn only_definitions_inside_the_program_are_read_or_written() {
    let scenario = desk()
        .file(".env", "SECRET=1\n")
        .file(".git/config", "[core]\n")
        .file(".github/workflows/x.yaml", "on: push\n")
        .file("data/notes.txt", "private\n");
    let outside = tempfile::tempdir().expect("a folder");
    std::fs::write(outside.path().join("x.worker"), "outside").expect("written");
    std::os::unix::fs::symlink(outside.path(), scenario.project().join("workers/away")).expect("a link");
    std::os::unix::fs::symlink(
        outside.path().join("x.worker"),
        scenario.project().join("workers/link.worker"),
    )
    .expect("a link");
    let server = Server::start(&scenario, &["--edit"]);
    for path in [
        ".env",
        ".ENV",
        "workers/.env.worker",
        ".git/config",
        ".GIT/hooks/pre-commit.worker",
        ".Git/x.worker",
        ".llm-do/runs/x.worker",
        ".github/workflows/x.yaml",
        ".github/x.worker",
        "hooks/x.worker",
        "data/notes.txt",
        "s.yaml",
        "workers/away/x.worker",
        "workers/link.worker",
        "../outside.worker",
        "workers/../../outside.worker",
        "/etc/x.worker",
        "workers/a\u{0}.worker",
        "workers\\x.worker",
        "node_modules/x.worker",
        "",
    ] {
        let escaped: String = path.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let seen = read(&server, &escaped);
        assert!([400, 403].contains(&seen.status), "{path:?}: {seen:?}");
        let written = save(&server, path, "---\n---\nPlanted.\n", &Value::Null);
        assert!([400, 403].contains(&written.status), "{path:?}: {written:?}");
    }
    let files = server.get("/v1/programs/desk/files").send().body;
    let shown = files.to_string();
    for hidden in [".env", ".git", "link.worker", "away", "notes.txt"] {
        assert!(!shown.contains(hidden), "{hidden}: {shown}");
    }
    assert_eq!(std::fs::read_to_string(outside.path().join("x.worker")).expect("a file"), "outside");
    assert_eq!(std::fs::read_dir(outside.path()).expect("a folder").count(), 1);
    let large = "x".repeat(2 << 20);
    assert_eq!(save(&server, "workers/large.worker", &large, &Value::Null).status, 413);
}

#[test]
fn a_prompt_is_rendered_also_with_texts_that_are_not_saved_for_tokens_that_edit() {
    let scenario = desk().home_file("serve.yaml", &ci_token("[start, read]", ""));
    let server = Server::start(&scenario, &["--edit"]);
    let at = "/v1/programs/desk/prompt";
    let saved = json!({"worker": "greeter", "input": {"name": "Ada"}});
    for response in [server.post(at, &saved).send(), server.post(at, &saved).token(TOKEN_OF_CI).send()] {
        assert_eq!((response.status, &response.body["message"]), (200, &json!("Greet Ada.")), "{response:?}");
    }
    let text = "---\nparameters: {name: string}\n---\n{% if name %}Praise {{ name }}.{% endif %}\n";
    let unsaved = json!({
        "worker": "greeter", "input": {"name": "Ada"}, "files": {"workers/greeter.worker": text},
    });
    let edited = server.post(at, &unsaved).send();
    assert_eq!((edited.status, &edited.body["message"]), (200, &json!("Praise Ada.")), "{edited:?}");
    assert_eq!(server.post(at, &unsaved).token(TOKEN_OF_CI).send().status, 403);
    // Runs have what is saved, and nothing was started.
    assert_eq!(server.post(at, &saved).send().body["message"], "Greet Ada.");
    assert_eq!(server.get("/v1/runs").send().body["runs"], json!([]));
    // A worker that clients can't start is for those who edit.
    let hidden = json!({"worker": "hidden", "message": "Go."});
    assert_eq!(server.post(at, &hidden).send().status, 200);
    assert_eq!(server.post(at, &hidden).token(TOKEN_OF_CI).send().status, 404);
    let broken = json!({
        "worker": "greeter", "input": {"name": "Ada"}, "files": {"workers/greeter.worker": "---\nmodle: x\n---\n"},
    });
    let broken = server.post(at, &broken).send();
    assert_eq!(broken.status, 409, "{broken:?}");
    assert!(broken.body["diagnostics"][0]["message"].is_string(), "{broken:?}");
    assert_eq!(server.post(at, &json!({"worker": "greeter", "input": {"name": 1}})).send().status, 422);
}
