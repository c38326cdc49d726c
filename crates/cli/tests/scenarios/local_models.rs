//! Local models (docs/guides/local-models.md), without downloading any.

use crate::{scenario::Scenario, terminal_session::Session};
use serde_json::json;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

/// A hub with the repository `a/m`, in whose only file is `GGUF`. Anything else is missing, `a/gated` and `a/listed` are gated,
/// `a/wrong` gives another file, and `a/slow` half of it.
fn hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    // Of the four bytes.
    let sha256 = "b83633aa785344791618f2fddf131b010ea04912a60430760b070bad293f65bd";
    let file = json!({"type": "file", "path": "m-Q4_K_M.gguf", "size": 4, "lfs": {"oid": sha256, "size": 4}});
    thread::spawn(move || {
        let mut open = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Ok(reader) = stream.try_clone() else { continue };
            let lines: Vec<String> = BufReader::new(reader)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            if path == "/a/slow/resolve/c0ffee/m-Q4_K_M.gguf" {
                let _ = write!(stream, "HTTP/1.1 200 x\r\ncontent-length: 4\r\n\r\nGG");
                open.push(stream);
                continue;
            }
            let (status, head, body) = match path {
                "/api/models/a/m" => (200, "", json!({"sha": "c0ffee", "tags": ["license:mit"]}).to_string()),
                "/api/models/a/m/tree/c0ffee?recursive=true" => (200, "", json!([file]).to_string()),
                "/a/m/resolve/c0ffee/m-Q4_K_M.gguf" => (200, "", "GGUF".to_owned()),
                "/api/models/a/listed" | "/api/models/a/wrong" | "/api/models/a/slow" => {
                    (200, "", json!({"sha": "c0ffee"}).to_string())
                }
                "/api/models/a/listed/tree/c0ffee?recursive=true"
                | "/api/models/a/wrong/tree/c0ffee?recursive=true"
                | "/api/models/a/slow/tree/c0ffee?recursive=true" => (200, "", json!([file]).to_string()),
                "/a/listed/resolve/c0ffee/m-Q4_K_M.gguf" => {
                    (403, "x-error-code: GatedRepo\r\n", String::new())
                }
                "/a/wrong/resolve/c0ffee/m-Q4_K_M.gguf" => (200, "", "FUGG".to_owned()),
                "/api/models/a/gated" => (403, "x-error-code: GatedRepo\r\n", String::new()),
                _ => (404, "", String::new()),
            };
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status} x\r\n{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    endpoint
}

fn greeter() -> Scenario {
    Scenario::new().file("x.worker", "---\n---\nHi.\n")
}

#[test]
fn missing_model_without_a_terminal_names_the_pull_command() {
    let told = greeter().run(&["x.worker", "hello"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("`llm-do models pull smollm2-135m-instruct`"), "{told}");
}

#[test]
fn missing_model_on_a_terminal_prompts_once() {
    let scenario = greeter();
    let mut session = Session::start(scenario.command_on_terminal(&["x.worker", "hello"]));
    session.expect("99 MB, licence Apache-2.0");
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys("n");
    let (code, shown) = session.end();
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("llm-do models pull"), "{shown}");
}

#[test]
fn models_list_shows_which_models_are_installed() {
    let told = greeter().run(&["models", "list", "--json"]);
    let list: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
    assert_eq!(list["models"][0]["name"], "smollm2-135m-instruct");
    assert!(list["models"][0]["installed"].is_null(), "{told}");
    assert_eq!(greeter().run(&["models", "remove", "smollm2-135m-instruct"]).code, Some(2));
    let told = greeter().run(&["models", "pull", "smollm3"]);
    assert!(told.code == Some(2) && told.stderr.contains("smollm2-135m-instruct"), "{told}");
}

#[test]
fn missing_local_model_is_reported_before_the_run() {
    let told = greeter().run(&["x.worker", "hello", "--model", "local:smollm2-135m-instruct"]);
    assert_eq!(told.code, Some(2), "{told}");
    assert!(told.stderr.contains("llm-do models pull"), "{told}");
    let scenario = greeter().file("model.gguf", "no such format");
    let told = scenario.run(&["x.worker", "hello", "--model", "local:./model.gguf"]);
    assert!(told.code == Some(2) && told.stderr.contains("not a GGUF file"), "{told}");
}

#[test]
fn ctrl_c_at_the_pull_prompt_restores_the_terminal() {
    let scenario = greeter();
    let mut session = Session::start(scenario.command_on_terminal(&["x.worker", "hello"]));
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
}

#[test]
fn a_model_of_the_hub_is_pulled_used_and_removed() {
    let scenario = greeter().env("HF_ENDPOINT", hub());
    let told = scenario.run(&["models", "pull", "hf:a/m"]);
    assert!(told.code == Some(0), "{told}");
    assert!(told.stderr.contains("m-Q4_K_M.gguf of a/m, 1 MB, licence mit; it needs about 301 MB"), "{told}");
    assert!(told.stderr.contains("run it with `--model local:a/m:Q4_K_M`"), "{told}");
    let told = scenario.run(&["models", "list"]);
    assert!(told.stdout.contains("a/m:Q4_K_M  1 MB  installed"), "{told}");
    // A file, and so no longer "not installed"; these four bytes are no model.
    let told = scenario.run(&["x.worker", "hello", "--model", "local:a/m:Q4_K_M"]);
    assert!(!told.stderr.contains("not installed"), "{told}");
    assert_eq!(scenario.run(&["models", "remove", "a/m:Q4_K_M"]).code, Some(0));
    let told = scenario.run(&["x.worker", "hello", "--model", "local:a/m:Q4_K_M"]);
    assert!(told.stderr.contains("run `llm-do models pull hf:a/m:Q4_K_M`"), "{told}");
}

#[test]
fn ctrl_c_in_a_download_keeps_what_has_arrived_and_says_so() {
    let scenario = greeter().env("HF_ENDPOINT", hub());
    let mut session = Session::start(scenario.command_on_terminal(&["models", "pull", "hf:a/slow"]));
    session.expect("fetching `a/slow:Q4_K_M`");
    let part = scenario.home().join("home/.llm-do/models/a/slow/Q4_K_M.gguf.part");
    let deadline = Instant::now() + Duration::from_secs(120);
    while fs::read(&part).ok().as_deref() != Some(b"GG") {
        assert!(Instant::now() < deadline, "nothing arrives");
        thread::sleep(Duration::from_millis(20));
    }
    session.type_keys("\u{3}");
    let (code, shown) = session.end();
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("note: interrupted; the same command continues the download\n"), "{shown}");
    assert_eq!(fs::read(&part).ok().as_deref(), Some(&b"GG"[..]));
}

#[test]
fn a_program_names_models_of_the_hub_without_a_grant() {
    let scenario = Scenario::new().file("x.worker", "---\nmodel: local:a/m:Q4_K_M\n---\nHi.\n");
    let told = scenario.run(&["x.worker", "hello"]);
    assert!(told.stderr.contains("run `llm-do models pull hf:a/m:Q4_K_M`"), "{told}");
    // The name never means a file of the project.
    let scenario = scenario.file("a/m:Q4_K_M.gguf", "GGUF").file("a/m:Q4_K_M", "GGUF");
    let told = scenario.run(&["x.worker", "hello"]);
    assert!(told.stderr.contains("run `llm-do models pull hf:a/m:Q4_K_M`"), "{told}");
    let scenario = scenario.file("x.worker", "---\nmodel: local:a/m:Q4_K_M.gguf\n---\nHi.\n");
    let told = scenario.run(&["x.worker", "hello"]);
    assert!(told.stderr.contains("weights="), "{told}");
}

#[test]
fn refusals_of_the_hub_say_what_to_do() {
    let scenario = greeter().env("HF_ENDPOINT", hub());
    for (name, wanted) in [
        ("hf:a/gated", "accept its conditions at"),
        // Anybody may see the list of its files.
        ("hf:a/listed", "accept its conditions at"),
        ("hf:a/wrong", "nothing of another file was kept"),
        ("hf:a/nothing", "set HF_TOKEN to a token that may read it"),
        ("hf:a/m:Q8_0", "there is: Q4_K_M (1 MB)"),
        ("hf:a", "is not OWNER/REPO"),
        ("a/m", "llm-do models pull hf:a/m"),
    ] {
        let told = scenario.run(&["models", "pull", name]);
        assert!(told.code != Some(0) && told.stderr.contains(wanted), "{name}: {told}");
    }
    let told = greeter().env("HF_ENDPOINT", "http://hub.example").run(&["models", "pull", "hf:a/m"]);
    assert!(told.code == Some(2) && told.stderr.contains("HF_ENDPOINT"), "{told}");
    let closed = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    let told = greeter().env("HF_ENDPOINT", format!("http://{closed}")).run(&["models", "pull", "hf:a/m"]);
    assert!(told.code == Some(1) && told.stderr.contains("cannot be reached"), "{told}");
}
