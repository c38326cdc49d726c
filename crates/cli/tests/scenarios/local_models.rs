//! Local models (docs/guides/local-models.md), without downloading any.

use crate::{scenario::Scenario, terminal_session::Session};
use serde_json::json;
use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

/// An address of this machine at which no server listens.
const CLOSED: &str = "http://127.0.0.1:1";
/// Bytes of the file of `a/slow`, which are all zero.
const SLOW: usize = 3_000_000;

/// A hub with the repository `a/m`, in whose only file is `GGUF`. Of `a/slow` half a file comes slowly, and of `a/silent` and
/// `a/dead` nothing: one server says nothing, and the other one closes the connection. `a/half` stops after half of the file,
/// and `a/wrong` gives another one. Anything else is missing, and `a/gated` and the file of `a/listed` are gated.
fn hub() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let file = |size: usize, sha256: &str| {
        json!([{"type": "file", "path": "m-Q4_K_M.gguf", "size": size, "lfs": {"oid": sha256, "size": size}}])
            .to_string()
    };
    let small = file(4, "b83633aa785344791618f2fddf131b010ea04912a60430760b070bad293f65bd");
    let large = file(SLOW, "35bce4eae54ec8e6cc2868baa8d157914d6ae2858811b4cc0c078c94460fa26f");
    thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let Ok(reader) = stream.try_clone() else { continue };
            let lines: Vec<String> = BufReader::new(reader)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            let (status, head, body) = match path {
                "/api/models/a/m"
                | "/api/models/a/slow"
                | "/api/models/a/silent"
                | "/api/models/a/dead"
                | "/api/models/a/half"
                | "/api/models/a/listed"
                | "/api/models/a/wrong" => {
                    (200, "", json!({"sha": "c0ffee", "tags": ["license:mit"]}).to_string())
                }
                "/api/models/a/m/tree/c0ffee?recursive=true"
                | "/api/models/a/half/tree/c0ffee?recursive=true"
                | "/api/models/a/listed/tree/c0ffee?recursive=true"
                | "/api/models/a/wrong/tree/c0ffee?recursive=true" => (200, "", small.clone()),
                path if path.ends_with("/tree/c0ffee?recursive=true") => (200, "", large.clone()),
                "/a/slow/resolve/c0ffee/m-Q4_K_M.gguf" => {
                    thread::spawn(|| slowly(stream));
                    continue;
                }
                "/a/silent/resolve/c0ffee/m-Q4_K_M.gguf" => {
                    silent.push(stream);
                    continue;
                }
                "/a/dead/resolve/c0ffee/m-Q4_K_M.gguf" => continue,
                "/a/half/resolve/c0ffee/m-Q4_K_M.gguf" => {
                    let _ = write!(stream, "HTTP/1.1 200 x\r\ncontent-length: 4\r\n\r\nGG");
                    silent.push(stream);
                    continue;
                }
                "/a/listed/resolve/c0ffee/m-Q4_K_M.gguf" => {
                    (403, "x-error-code: GatedRepo\r\n", String::new())
                }
                "/a/wrong/resolve/c0ffee/m-Q4_K_M.gguf" => (200, "", "FUGG".to_owned()),
                "/a/m/resolve/c0ffee/m-Q4_K_M.gguf" => (200, "", "GGUF".to_owned()),
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

/// Half of the file within three seconds, and then the rest.
fn slowly(mut stream: TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 x\r\ncontent-length: {SLOW}\r\nconnection: close\r\n\r\n")?;
    for _ in 0..30 {
        stream.write_all(&[0; SLOW / 60])?;
        thread::sleep(Duration::from_millis(100));
    }
    stream.write_all(&[0; SLOW / 2])
}

/// A server that takes connections and says nothing.
fn silent_server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// The lines of stderr up to one with this text, and how long that took. The command is ended then.
fn until(scenario: &Scenario, arguments: &[&str], text: &str) -> (Vec<String>, Duration) {
    let began = Instant::now();
    let mut child = scenario.command(arguments).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = Vec::new();
    for line in BufReader::new(child.stderr.take().expect("a pipe")).lines().map_while(Result::ok) {
        lines.push(line);
        if lines.last().is_some_and(|line| line.contains(text)) {
            break;
        }
    }
    let took = began.elapsed();
    child.kill().expect("a kill");
    child.wait().expect("an end");
    (lines, took)
}

/// Checks the output of a fetch without a terminal that has not ended after a moment: one line, and the advice for a
/// machine without a network.
#[test]
fn a_fetch_says_within_two_seconds_how_it_goes_and_what_to_do_offline() {
    let endpoint = hub();
    let host = endpoint.trim_start_matches("http://").to_owned();
    let scenario = greeter().env("HF_ENDPOINT", &endpoint);
    let place = scenario.home().join("home/.llm-do/models/a");
    let offline = |repo: &str| {
        format!(
            "hint: without a network: run `curl -LO {endpoint}/a/{repo}/resolve/c0ffee/m-Q4_K_M.gguf` on another machine, \
             and put the file at {}",
            place.join(format!("{repo}/Q4_K_M.gguf")).display()
        )
    };
    let other =
        "hint: or use another model: `llm-do TARGET --model PROVIDER:MODEL`, or `--model local:PATH.gguf`";

    let (lines, took) = until(&scenario, &["models", "pull", "hf:a/silent"], "or use another model");
    let [.., word, first, second] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(*word, format!("note: `a/silent:Q4_K_M` (3 MB) from {host}: no byte has come yet"));
    assert_eq!(*first, offline("silent"));
    assert!(second.starts_with(other), "{lines:?}");
    // The machine that tests may be busy.
    assert!(took > Duration::from_millis(1400) && took < Duration::from_secs(10), "{took:?}");

    let told = scenario.run(&["models", "pull", "hf:a/slow"]);
    assert_eq!(told.code, Some(0), "{told}");
    let word = told.stderr.lines().find(|line| line.contains("MB are here")).expect("the speed");
    let before = format!("note: `a/slow:Q4_K_M` (3 MB) from {host}: ");
    assert!(word.starts_with(&before) && word.contains(" MB/s, about "), "{told}");
    assert_eq!(told.stderr.matches("hint:").count(), 2, "it is said once: {told}");
    assert_eq!(scenario.run(&["models", "remove", "a/slow:Q4_K_M"]).code, Some(0));

    // Nothing of it with -q, and nothing where a fetch is fast.
    let told = scenario.run(&["-q", "models", "pull", "hf:a/slow"]);
    assert!(told.code == Some(0) && told.stderr.is_empty(), "{told}");
    let told = scenario.run(&["models", "pull", "hf:a/m"]);
    assert!(told.code == Some(0) && !told.stderr.contains("hint:"), "{told}");

    // A fetch that fails ends with the same advice.
    let told = scenario.run(&["models", "pull", "hf:a/dead"]);
    assert!(told.code == Some(1) && told.stderr.contains("could not pull"), "{told}");
    assert!(
        told.stderr.contains(&scenario.steady(&offline("dead"))) && told.stderr.contains(other),
        "{told}"
    );
}

#[test]
fn a_hub_that_does_not_answer_is_named_within_two_seconds() {
    let (_listener, address) = silent_server();
    let scenario = greeter().env("HF_ENDPOINT", format!("http://{address}"));
    let (lines, _) = until(&scenario, &["models", "pull", "qwen3-0.6b"], "or use another model");
    let [word, place, _] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(*word, format!("note: Qwen/Qwen3-0.6B-GGUF (about 639 MB): {address} has not answered yet"));
    assert!(
        place.contains("put the model's GGUF file at") && place.ends_with("Qwen3-0.6B-GGUF/Q8_0.gguf"),
        "{place}"
    );
    // A hub that can't be reached at all.
    let scenario = scenario.env("HF_ENDPOINT", CLOSED);
    let told = scenario.run(&["models", "pull", "qwen3-0.6b"]);
    assert!(told.code == Some(1) && told.stderr.contains("Qwen3-0.6B-GGUF/Q8_0.gguf"), "{told}");
}

#[test]
fn the_first_run_says_how_its_model_comes_while_the_server_says_nothing() {
    let (_listener, address) = silent_server();
    let scenario = greeter().env("HTTPS_PROXY", format!("http://{address}"));
    // Wide, so that no line is broken.
    let mut session = Session::start_in(scenario.command_on_terminal(&["x.worker", "hello"]), 40, 400);
    session.expect("[n] no");
    session.wait_for_keys();
    session.type_keys("y");
    session.expect("fetching `smollm2-135m-instruct` (99 MB) from huggingface.co");
    session.expect("(99 MB) from huggingface.co: no byte has come yet");
    session.expect("hint: without a network: run `curl -LO https://huggingface.co/");
    session.expect("hint: or use another model");
    session.type_keys("\u{3}");
    assert_eq!(session.end().0, Some(130));
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
    let mut session = Session::start(scenario.command_on_terminal(&["models", "pull", "hf:a/half"]));
    session.expect("fetching `a/half:Q4_K_M`");
    let part = scenario.home().join("home/.llm-do/models/a/half/Q4_K_M.gguf.part");
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
    let told = greeter().env("HF_ENDPOINT", CLOSED).run(&["models", "pull", "hf:a/m"]);
    assert!(told.code == Some(1) && told.stderr.contains("cannot be reached"), "{told}");
}
