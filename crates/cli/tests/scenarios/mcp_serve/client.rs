//! A client that writes and reads the protocol's lines itself, so that it can also break its rules.

use crate::scenario::{Finished, Scenario};
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

/// The revision and the capabilities of a client.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Speaks {
    /// Revision 2025-06-18, without or with elicitation.
    Older { asks: bool },
    /// Revision 2026-07-28 with elicitation: each request says everything.
    Rounds,
    /// Revision 2026-07-28 with tasks and without elicitation.
    Tasks,
}

pub(super) struct Client {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
    speaks: Speaks,
    next: u64,
    /// Notifications and requests of the server that came while the client waited for an answer.
    pub(super) heard: Vec<Value>,
}

impl Client {
    /// Starts the server with these arguments and connects.
    pub(super) fn start(scenario: &Scenario, arguments: &[&str], speaks: Speaks) -> Self {
        Self::start_at(scenario, ".", arguments, speaks)
    }

    /// The same for another program than that of the scenario's folder.
    pub(super) fn start_at(scenario: &Scenario, target: &str, arguments: &[&str], speaks: Speaks) -> Self {
        let arguments = [&["mcp", "serve", target], arguments].concat();
        let mut command = scenario.command(&arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let stdin = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut client = Self { child, stdin, lines, speaks, next: 0, heard: Vec::new() };
        if let Speaks::Older { asks } = speaks {
            let capabilities = if asks { json!({"elicitation": {}}) } else { json!({}) };
            let hello = client.ask(
                "initialize",
                json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": capabilities,
                    "clientInfo": {"name": "raw", "version": "1"},
                }),
            );
            assert_eq!(hello["result"]["protocolVersion"], "2025-06-18", "{hello}");
            client.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        }
        client
    }

    /// Writes one line.
    pub(super) fn write(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("not closed");
        stdin.write_all(line.as_bytes()).and_then(|()| stdin.write_all(b"\n")).expect("the server reads");
    }

    /// Writes text that is no whole line.
    pub(super) fn write_part(&mut self, text: &str) {
        self.stdin.as_mut().expect("not closed").write_all(text.as_bytes()).expect("the server reads");
    }

    /// The next message.
    pub(super) fn read(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("not the protocol: {error}: {line:?}"))
    }

    /// Sends a request and returns its ID.
    pub(super) fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        let capabilities = match self.speaks {
            Speaks::Older { .. } => None,
            Speaks::Rounds => Some(json!({"elicitation": {"form": {}}})),
            Speaks::Tasks => Some(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})),
        };
        if let Some(capabilities) = capabilities {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
            meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "raw", "version": "1"});
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        }
        let request = json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params});
        self.write(&request.to_string());
        self.next
    }

    /// Waits for the answer to a request.
    pub(super) fn answer(&mut self, id: u64) -> Value {
        let is_answer = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.heard.iter().position(is_answer) {
            return self.heard.remove(at);
        }
        loop {
            let message = self.read();
            if is_answer(&message) {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Waits for a request of the server.
    pub(super) fn asked(&mut self) -> Value {
        loop {
            let message = self.read();
            if message.get("id").is_some() && message.get("method").is_some() {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Answers a request of the server.
    pub(super) fn reply(&mut self, asked: &Value, result: &Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string());
    }

    /// Sends a request and waits for its answer.
    pub(super) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls a tool and waits for the result.
    pub(super) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))["result"].take()
    }

    /// Cancels a request.
    pub(super) fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id, "reason": "enough"});
        self.write(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string(),
        );
    }

    /// Disconnects, and waits for the end of the server. The rest of its stdout must still be the protocol.
    pub(super) fn leave(mut self, scenario: &Scenario) -> Finished {
        drop(self.stdin.take());
        let mut line = String::new();
        while self.lines.read_line(&mut line).expect("a line") > 0 {
            serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            line.clear();
        }
        scenario.finished(self.child.wait_with_output().expect("it ends"))
    }
}

/// The text of a result.
pub(super) fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}
