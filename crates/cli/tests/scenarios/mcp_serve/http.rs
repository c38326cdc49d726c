//! Streamable HTTP, by hand: a client can lie about everything.

use super::{desk, end};
use crate::scenario::Scenario;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

/// A server that is listening.
pub(crate) struct Listening {
    child: Child,
    pub(crate) address: String,
    pub(crate) token: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Listening {
    pub(crate) fn start(scenario: &Scenario) -> Self {
        let mut command = scenario.command(&["mcp", "serve", ".", "--http", "127.0.0.1:0"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut after = |what: &str| loop {
            let line = lines.next().expect("a further line").expect("text");
            if let Some((_, rest)) = line.split_once(what) {
                return rest.to_owned();
            }
        };
        let address = after("http://").trim_end_matches("/mcp").to_owned();
        let token = after("token: ");
        // Its notes must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address, token }
    }

    /// Sends these bytes and reads until the server closes the connection.
    fn send(&self, request: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("an answer");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn post(&self, headers: &[(&str, &str)], body: &Value) -> Answer {
        self.post_text(headers, &body.to_string())
    }

    fn post_text(&self, headers: &[(&str, &str)], body: &str) -> Answer {
        let authorization = format!("Bearer {}", self.token);
        let length = body.len().to_string();
        let mut all = vec![
            ("Host", self.address.as_str()),
            ("Authorization", &authorization),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Length", &length),
            ("Connection", "close"),
        ];
        for header in headers {
            all.retain(|(name, _)| name != &header.0);
            all.push(*header);
        }
        let head: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        self.send(&format!("POST /mcp HTTP/1.1\r\n{head}\r\n{body}"))
    }

    pub(crate) fn stop(mut self) -> Option<i32> {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it is there");
        self.child.wait().expect("it ends").code()
    }
}

/// A test that fails leaves no server behind.
impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    /// The JSON-RPC answer in it, be it an event or the body.
    fn message(&self) -> Value {
        let lines = self.body.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        lines
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|value| value.get("result").is_some() || value.get("error").is_some())
            .unwrap_or_else(|| panic!("no answer: {}", self.body))
    }
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
    }})
}

#[test]
fn strangers_are_refused() {
    let scenario = desk();
    let server = Listening::start(&scenario);
    let longer = format!("Bearer {}0", server.token);
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    for (headers, status) in [
        (("Authorization", ""), 401),
        (("Authorization", "Bearer wrong"), 401),
        (("Authorization", longer.as_str()), 401),
        (("Host", "evil.example"), 403),
        (("Host", "127.0.0.1:1"), 403),
        (("Origin", "https://evil.example"), 403),
        (("Origin", "null"), 403),
        (("Content-Type", "text/plain"), 415),
    ] {
        let answer = server.post(&[headers], &hello());
        assert_eq!(answer.status, status, "{headers:?}: {} {}", answer.head, answer.body);
    }
    assert_eq!(server.post(&[("Host", &format!("localhost:{port}"))], &hello()).status, 200);
    assert_eq!(server.post(&[("Origin", &format!("http://127.0.0.1:{port}"))], &hello()).status, 200);
    let elsewhere =
        server.send(&format!("GET / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address));
    assert_eq!(elsewhere.status, 404);
    assert_eq!(server.stop(), Some(130));
    assert!(scenario.runs().is_empty());
}

#[test]
fn sizes_that_are_lies_do_no_harm() {
    let scenario = desk();
    let server = Listening::start(&scenario);
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nConnection: close\r\n",
        server.address, server.token
    );
    let too_long = server.send(&format!("{head}Content-Length: 99999999999\r\n\r\n{{}}"));
    assert_eq!(too_long.status, 413);
    let negative = server.send(&format!("{head}Content-Length: -1\r\n\r\n{{}}"));
    assert_eq!(negative.status, 400);
    let short = server.send(&format!("{head}Content-Length: 1\r\n\r\n{{}}"));
    assert!((400..500).contains(&short.status), "{}", short.head);
    let mut cut = TcpStream::connect(&server.address).expect("it listens");
    cut.write_all(format!("{head}Content-Length: 1000\r\n\r\n{{").as_bytes()).expect("it reads");
    drop(cut);
    assert_eq!(server.post(&[], &hello()).status, 200);
    assert_eq!(server.stop(), Some(130));
}

#[test]
fn session_of_an_older_client_and_requests_of_a_newer_one() {
    let scenario = desk();
    let server = Listening::start(&scenario);
    let opened = server.post(&[], &hello());
    let session = opened
        .head
        .lines()
        .find_map(|line| line.strip_prefix("mcp-session-id: "))
        .expect("a session")
        .to_owned();
    let in_session = [("Mcp-Session-Id", session.as_str()), ("MCP-Protocol-Version", "2025-06-18")];
    server.post(&in_session, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = |name: &str| {
        let params = json!({"name": "greeter", "arguments": {"name": name}});
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})
    };
    let answer = server.post(&in_session, &call("Ada")).message();
    assert_eq!(answer["result"]["content"][0]["text"], "Hello!");
    let large = call("N").to_string().replace("\"N\"", "12345678901234567890123");
    let refused = server.post_text(&in_session, &large).message();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(-32602)), "{refused}");
    assert!(refused["error"]["message"].as_str().is_some_and(|text| text.contains("64 bits")), "{refused}");
    let unknown = [("Mcp-Session-Id", "00000000"), ("MCP-Protocol-Version", "2025-06-18")];
    assert_eq!(server.post(&unknown, &call("Ada")).status, 404);
    let mut newer = call("Bea");
    newer["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers =
        [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", "greeter")];
    let answer = server.post(&headers, &newer).message();
    assert_eq!(answer["result"]["content"][0]["text"], "Hello!", "{answer}");
    assert_eq!(server.stop(), Some(130));
    assert_eq!(scenario.runs().iter().map(|run| end(run)).collect::<Vec<_>>(), ["done", "done"]);
}
