//! An editor: a client of `llm-do acp` over pipes, which speaks the protocol in its plainest form.

use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// An editor.
pub(crate) struct Editor {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    /// Messages that came while the test waited for another.
    pub(crate) came: VecDeque<Value>,
    next: u64,
}

impl Editor {
    /// Starts the agent, and initialises the connection.
    pub(crate) fn start(agent: Command) -> Self {
        Self::start_with(agent, &json!({}))
    }

    /// The same for a client with these capabilities.
    pub(crate) fn start_with(agent: Command, capabilities: &Value) -> Self {
        let mut editor = Self::connect(agent);
        let hello = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        let initialized = editor.ask("initialize", hello);
        assert_eq!(initialized["result"]["protocolVersion"], 1, "{initialized}");
        editor
    }

    fn connect(mut agent: Command) -> Self {
        let pipes = agent.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("it starts");
        let (sender, lines) = channel();
        let stdout = child.stdout.take().expect("a pipe");
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take();
        Self { child, stdin, lines, came: VecDeque::new(), next: 0 }
    }

    pub(crate) fn write(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("it is connected");
        writeln!(stdin, "{message}").expect("the agent reads");
    }

    /// Sends a request, and returns its ID.
    pub(crate) fn send(&mut self, method: &str, params: Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    pub(crate) fn notify(&mut self, method: &str, params: Value) {
        self.write(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn respond(&mut self, to: &Value, result: Value) {
        self.write(&json!({"jsonrpc": "2.0", "id": to["id"], "result": result}));
    }

    /// The next message that fits. Others are kept.
    pub(crate) fn wait(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.came.iter().position(&fits) {
            return self.came.remove(at).expect("it is there");
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|_| panic!("no {what}; what came: {:#?}", self.came));
            let message: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("stdout has {line:?}"));
            if fits(&message) {
                return message;
            }
            self.came.push_back(message);
        }
    }

    pub(crate) fn response(&mut self, id: u64) -> Value {
        self.wait("response", |message| message["id"] == id && message.get("method").is_none())
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    /// A new session in that folder.
    pub(crate) fn session(&mut self, folder: &Path) -> String {
        let opened = self.ask("session/new", json!({"cwd": folder, "mcpServers": []}));
        opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    }

    pub(crate) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", json!({"sessionId": session, "prompt": prompt}))
    }

    /// Says something, and returns why the turn ended.
    pub(crate) fn say(&mut self, session: &str, text: &str) -> String {
        let id = self.prompt(session, text);
        let response = self.response(id);
        response["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{response}")).to_owned()
    }

    /// The updates so far of that kind.
    pub(crate) fn updates(&mut self, kind: &str) -> Vec<Value> {
        let (taken, kept): (VecDeque<Value>, _) =
            std::mem::take(&mut self.came).into_iter().partition(|message| {
                message["method"] == "session/update" && message["params"]["update"]["sessionUpdate"] == kind
            });
        self.came = kept;
        taken.into_iter().map(|message| message["params"]["update"].clone()).collect()
    }

    /// The agent's words so far.
    pub(crate) fn words(&mut self) -> String {
        let chunks = self.updates("agent_message_chunk");
        chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
    }

    pub(crate) fn permission(&mut self) -> Value {
        self.wait("request for permission", |message| message["method"] == "session/request_permission")
    }

    /// Disconnects, and waits for the agent's end.
    pub(crate) fn leave(mut self) -> Option<i32> {
        self.stdin = None;
        let deadline = Instant::now() + PATIENCE;
        // Its end closes its stdout.
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("the agent goes on without a client"),
            }
        }
        self.child.wait().expect("it is a child").code()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The user's choice, as the response to a request for permission.
pub(crate) fn chosen(option: &str) -> Value {
    json!({"outcome": {"outcome": "selected", "optionId": option}})
}
