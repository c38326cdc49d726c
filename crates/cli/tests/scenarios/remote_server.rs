//! An MCP server over HTTP on a loopback port, with answers that a test defines. It keeps the requests.

use reqwest::Url;
use serde_json::{Value, json};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// The head as it came, in lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Asked {
    /// The message in it; `null` if there is none.
    pub(crate) fn message(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    /// The method of the message.
    pub(crate) fn rpc(&self) -> String {
        self.message()["method"].as_str().unwrap_or_default().to_owned()
    }
}

/// The server's answer to a request.
pub(crate) enum Answer {
    /// A status, further lines of the head, and a body.
    Reply(u16, String, Vec<u8>),
    /// The answer to the message, as JSON.
    Result(Value),
    /// The head of a stream, this much of it, and the end of the connection.
    Stream(String),
    /// A stream with this request of the server, and once it is answered, the result of a tool: that answer as text.
    Question(Value),
    /// Nothing, ever.
    Silence,
    /// An answer with the length of this many bytes.
    Flood(usize),
}

/// A status with these lines in its head, and no body.
pub(crate) fn status(code: u16, lines: &str) -> Answer {
    Answer::Reply(code, lines.to_owned(), Vec::new())
}

/// An event of a stream.
pub(crate) fn event(message: &Value) -> String {
    format!("data: {message}\n\n")
}

/// A server that runs until the test ends.
pub(crate) struct RemoteServer {
    pub(crate) port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl RemoteServer {
    /// Answers requests with `answer`, or with [`usual`] if it returns `None`.
    pub(crate) fn new(answer: impl Fn(&Asked) -> Option<Answer> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (all, answer) = (Arc::clone(&asked), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (all, answer) = (Arc::clone(&all), Arc::clone(&answer));
                thread::spawn(move || {
                    let Some(request) = read(&stream) else { return };
                    let answer = answer(&request).unwrap_or_else(|| usual(&request));
                    lock(&all).push(request.clone());
                    write(stream, &request, answer, &all);
                });
            }
        });
        Self { port, asked }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// Returns the requests so far.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        lock(&self.asked).clone()
    }

    /// Returns the number of requests with that method.
    pub(crate) fn count(&self, rpc: &str) -> usize {
        self.asked().iter().filter(|asked| asked.rpc() == rpc).count()
    }
}

fn lock(asked: &Mutex<Vec<Asked>>) -> MutexGuard<'_, Vec<Asked>> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The answer of a server of revision 2025-11-25 with sessions and the tool `echo`.
pub(crate) fn usual(asked: &Asked) -> Answer {
    let params = &asked.message()["params"];
    match &*asked.rpc() {
        "initialize" => {
            let result = json!({
                "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "remote", "version": "1"},
            });
            let body = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
            Answer::Reply(
                200,
                "Content-Type: application/json\r\nMcp-Session-Id: one\r\n".into(),
                body.to_string().into(),
            )
        }
        "tools/list" => Answer::Result(json!({"tools": [tool("echo")]})),
        "tools/call" => Answer::Result(text(params["arguments"]["text"].as_str().unwrap_or("nothing"))),
        "" if asked.method == "DELETE" => status(200, ""),
        "" if asked.method == "GET" => status(405, ""),
        method if method.starts_with("notifications/") => status(202, ""),
        // The answer to a question.
        "" if asked.method == "POST" => status(202, ""),
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let body = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "error": error});
            Answer::Reply(200, "Content-Type: application/json\r\n".into(), body.to_string().into())
        }
    }
}

/// Returns the raw response that a browser gets at that address.
pub(crate) fn get(url: &Url) -> String {
    let address = (url.host_str().expect("a host"), url.port().expect("a port"));
    let mut stream = TcpStream::connect(address).expect("a connection");
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let target = format!("{}{query}", url.path());
    let host = format!("{}:{}", address.0, address.1);
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("a request");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// A tool that takes a text.
pub(crate) fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Returns the text.", "annotations": {"readOnlyHint": true}, "inputSchema": {
        "type": "object", "properties": {"text": {"type": "string"}},
    }})
}

/// The result of a tool.
pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn read(stream: &TcpStream) -> Option<Asked> {
    let mut lines = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    let mut first = String::new();
    lines.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body).ok()?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Asked { method, path, head, body: String::from_utf8(body).ok()? })
}

fn write(mut stream: TcpStream, asked: &Asked, answer: Answer, all: &Mutex<Vec<Asked>>) {
    let (code, lines, body) = match answer {
        Answer::Reply(code, lines, body) => (code, lines, body),
        Answer::Result(result) => {
            let body = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
            (200, "Content-Type: application/json\r\n".to_owned(), body.to_string().into_bytes())
        }
        Answer::Stream(events) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{events}").as_bytes());
            return;
        }
        Answer::Question(question) => {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{}", event(&question)).as_bytes());
            let answered = || {
                let all = lock(all);
                all.iter()
                    .map(Asked::message)
                    .find(|message| message["id"] == question["id"] && message.get("method").is_none())
            };
            for _ in 0..3000 {
                if let Some(answer) = answered() {
                    let result = text(&answer["result"].to_string());
                    let message = json!({"jsonrpc": "2.0", "id": asked.message()["id"], "result": result});
                    let _ = stream.write_all(event(&message).as_bytes());
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            return;
        }
        Answer::Silence => {
            thread::sleep(Duration::from_secs(600));
            return;
        }
        Answer::Flood(length) => {
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: ";
            let block = vec![b'x'; 1 << 20];
            let _ = stream.write_all(head.as_bytes());
            for _ in 0..length >> 20 {
                if stream.write_all(&block).is_err() {
                    return;
                }
            }
            return;
        }
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {code} Status\r\n{lines}Content-Length: {length}\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}
