//! Tools that the provider runs: approval, what is sent, records, resume, replay and cost.

use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    thread::JoinHandle,
};

const SEARCHING: &str = "---\nmodel: anthropic:claude-test\nserver_side_tools: [{tool_type: web_search, max_uses: 3}]\n---\nFind out.\n";

/// Serves these whole answers of Anthropic, one to each request; returns the requests.
fn serve(answers: Vec<Value>) -> (String, JoinHandle<Vec<Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let served = std::thread::spawn(move || {
        let mut sent = Vec::new();
        for answer in answers {
            let (stream, _) = listener.accept().expect("a client");
            let mut reader = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a line");
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut request = vec![0; length];
            reader.read_exact(&mut request).expect("a request");
            sent.push(serde_json::from_slice(&request).expect("JSON"));
            let body = answer.to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            reader.into_inner().write_all(format!("{head}{body}").as_bytes()).expect("an answer");
        }
        sent
    });
    (url, served)
}

fn answer(content: Value, stop: &str) -> Value {
    let usage =
        json!({"input_tokens": 100, "output_tokens": 10, "server_tool_use": {"web_search_requests": 1}});
    json!({"type": "message", "content": content, "stop_reason": stop, "usage": usage})
}

/// A search that is paused, and the answer.
fn search() -> Vec<Value> {
    let used =
        json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "rust"}});
    let page = json!({"type": "web_search_result", "url": "https://rust-lang.org/", "title": "Rust", "encrypted_content": "E"});
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": [page]});
    let citation = json!({"type": "web_search_result_location", "url": "https://rust-lang.org/", "title": "Rust", "encrypted_index": "I"});
    vec![
        answer(json!([used]), "pause_turn"),
        answer(json!([result, {"type": "text", "text": "Rust 1.99.", "citations": [citation]}]), "end_turn"),
    ]
}

/// Writes the user's configuration.
fn configured(scenario: &Scenario, config: &str) {
    let home = scenario.home().join("home/.llm-do");
    fs::create_dir_all(&home).expect("a folder");
    fs::write(home.join("config.yaml"), config).expect("a file");
}

fn project(url: &str) -> Scenario {
    Scenario::new()
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "sk-test-0123456789abcdef")
        .file(
            "project.yaml",
            &format!("providers:\n  loop: {{base_url: \"{url}\", api: anthropic, stream: false}}\n"),
        )
        .file("main.worker", &SEARCHING.replace("anthropic:", "loop:"))
}

#[test]
fn a_search_is_approved_sent_recorded_and_replayed() {
    let (url, served) = serve(search());
    let scenario = project(&url);
    let told = scenario.run(&[".", "What is new?", "--allow", "web_search", "--json"]);
    assert_eq!(told.code, Some(0), "{told}");
    let report: Value = serde_json::from_str(&told.stdout).expect("a report");
    assert_eq!(report["output"], "Rust 1.99.");
    assert_eq!(report["usage"]["server_uses"], 2);
    assert!(report["usage"].get("cost_usd").is_none(), "the price of a search is not known");
    let sent = served.join().expect("the server ends");
    assert_eq!(
        sent[0]["tools"],
        json!([{"name": "web_search", "type": "web_search_20250305", "max_uses": 3}])
    );
    assert_eq!(sent[1]["messages"][1]["content"][0]["type"], "server_tool_use", "{}", sent[1]);

    let journal = scenario.journal();
    let judged: Vec<&Value> = journal.iter().filter(|record| record["path"] == "0/server.0").collect();
    assert_eq!(judged[0]["function"], "web_search");
    assert_eq!(judged[0]["input"], json!({"max_uses": 3}));
    let started = journal.iter().find(|record| record["kind"] == "conversation_started").expect("it began");
    assert_eq!(started["server_tools"], json!([{"tool_type": "web_search", "max_uses": 3}]));
    let shown = scenario.run(&["runs", "show", "--call", "0"]).stdout;
    assert!(shown.contains(r#"the provider ran web_search {"query":"rust"}"#), "{shown}");
    assert!(shown.contains("https://rust-lang.org/ (Rust)"), "{shown}");
    let replayed = scenario.run(&["runs", "replay", "last"]);
    assert_eq!(replayed.code, Some(0), "{replayed}");
}

#[test]
fn without_an_approval_the_tool_is_left_out() {
    let (url, served) = serve(vec![answer(json!([{"type": "text", "text": "I can't search."}]), "end_turn")]);
    let scenario = project(&url);
    let told = scenario.run(&[".", "What is new?"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "I can't search.\n"), "{told}");
    assert!(told.stderr.contains("answers without `web_search`"), "the operator hears of it: {told}");
    assert_eq!(served.join().expect("the server ends")[0].get("tools"), None);
}

#[test]
fn a_deferred_question_is_answered_and_kept() {
    let (url, served) = serve(search());
    let scenario = project(&url);
    let told = scenario.run(&[".", "What is new?", "--approval", "defer"]);
    assert_eq!(told.code, Some(5), "{told}");
    let told = scenario.run(&["runs", "resume", "--approve", "0/server.0"]);
    assert_eq!((told.code, told.stdout.as_str()), (Some(0), "Rust 1.99.\n"), "{told}");
    assert_eq!(served.join().expect("the server ends").len(), 2);
}

#[test]
fn a_provider_without_the_tool_is_refused_by_run_and_check_alike() {
    let scenario = Scenario::new()
        .env("OPENAI_API_KEY", "sk-test-0123456789abcdef")
        .file("main.worker", &SEARCHING.replace("anthropic:", "openai:"));
    let why = "`openai` has no `web_search` of its own";
    for arguments in [[".", "What is new?"], ["check", "."]] {
        let told = scenario.run(&arguments);
        assert_eq!(told.code, Some(2), "{told}");
        assert!(format!("{}{}", told.stdout, told.stderr).contains(why), "{told}");
    }
    let shown =
        Scenario::new().file("main.worker", &SEARCHING.replace("anthropic:claude-test", "script:s.yaml"));
    assert!(!shown.run(&["show", "."]).stdout.contains("pure"), "it reaches the network");
    configured(&shown, "approval: {tools: {web_search: preApproved}}\n");
    let shown = shown.file("s.yaml", "answers: [{text: x}]\n").run(&["show", "--prompt", "."]).stdout;
    assert!(shown.contains("tools of the provider (1)"), "{shown}");
}

#[test]
fn a_use_costs_what_the_user_says() {
    let (url, served) = serve(search());
    let scenario = project(&url);
    let refused = scenario.run(&[".", "x", "--allow", "web_search", "--budget", "1usd"]);
    assert!(refused.stderr.contains("server_use"), "{refused}");
    configured(&scenario, "prices:\n  'loop:*': {input: 1, output: 10, server_use: 0.01}\n");
    let told = scenario.run(&[".", "x", "--allow", "web_search", "--budget", "1usd", "--json"]);
    let report: Value = serde_json::from_str(&told.stdout).expect("a report");
    // Two requests of 100 and 10 tokens, and two uses.
    assert_eq!(report["usage"]["cost_usd"], 0.0204, "{told}");
    served.join().expect("the server ends");
}
