//! Requests to `llm-do serve`, as bytes of a connection.
//!
//! Only the service uses this module: `crates/serve/tests/corpus.rs` runs the kept corpus.

use llm_do::Settings;
use llm_do_serve::{Host, Http, Limits, NewToken, Service, Tokens};
use serde_json::Value;
use std::{
    env, fs,
    io::{ErrorKind, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process,
    sync::{Arc, OnceLock},
    thread,
    time::Duration,
};

/// The token of the server. An input has it as `{token}`, and the server's address as `{host}`.
const TOKEN: &str = "0123456789abcdef-of-the-fuzzer";
/// Most time to wait for a response. An incomplete request has none, and a fuzzer does not wait for it.
const WAIT: Duration = Duration::from_millis(if cfg!(fuzzing) { 20 } else { 500 });

struct Quiet(PathBuf);

impl Host for Quiet {
    fn settings(&self, _target: &str) -> Result<Settings, String> {
        Err("there is no program".into())
    }

    fn log(&self, _line: &str) {}

    fn home(&self) -> PathBuf {
        self.0.clone()
    }
}

/// A response, as far as it arrived.
struct Response {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }
}

/// Returns the address of a server without programs, which lives as long as the process.
fn server() -> SocketAddr {
    static ADDRESS: OnceLock<SocketAddr> = OnceLock::new();
    *ADDRESS.get_or_init(|| {
        let (told, address) = std::sync::mpsc::channel();
        thread::spawn(move || {
            let home = env::temp_dir().join(format!("llm-do-fuzz-{}", process::id()));
            fs::create_dir_all(&home).expect("a folder");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async move {
                let any = SocketAddr::from(([127, 0, 0, 1], 0));
                let listener = Http::listen(any).await.expect("a port");
                told.send(listener.local_addr().expect("an address")).expect("the caller waits");
                let token = NewToken::given(TOKEN).expect("a token");
                let tokens = Tokens::default().with_editing_operator(&token);
                let limits = Limits {
                    runs: 8,
                    runs_of_token: None,
                    queue: 0,
                    streams: 64,
                    streams_of_token: None,
                    grace: Duration::ZERO,
                    chats_expire: None,
                };
                let service = Service::open(Vec::new(), tokens, limits, Arc::new(Quiet(home))).await;
                let http = Http::new(service.expect("a service"), listener);
                http.serve(std::future::pending()).await.expect("it serves");
            });
        });
        address.recv().expect("a server")
    })
}

/// Sends the bytes and asserts the invariants of every response. Afterwards, the server must serve other requests.
pub fn run(bytes: &[u8]) {
    let address = server();
    let sent = replaced(
        replaced(bytes.to_vec(), b"{host}", address.to_string().as_bytes()),
        b"{token}",
        TOKEN.as_bytes(),
    );
    let has_token = sent.windows(TOKEN.len()).any(|part| part == TOKEN.as_bytes());
    for response in exchanged(address, &sent) {
        hold(&response, has_token);
    }
    let health = format!("GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let after = exchanged(address, health.as_bytes());
    // A slow machine may take longer than the wait; a server that has ended refuses the connection.
    assert!(after.iter().all(|response| response.status == 200), "the server does not serve others");
}

fn replaced(bytes: Vec<u8>, from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = &bytes[..];
    while let Some(at) = rest.windows(from.len()).position(|window| window == from) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(to);
        rest = &rest[at + from.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// Returns the responses to these bytes.
fn exchanged(address: SocketAddr, sent: &[u8]) -> Vec<Response> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(WAIT)).expect("a timeout");
    // A server that refuses a request need not read all of it.
    let _ = stream.write_all(sent);
    let (mut got, mut piece) = (Vec::new(), [0; 8192]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => got.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Nothing more for now, or a connection that the server has reset.
            Err(_) => break,
        }
        // A stream of events has no end.
        if got.windows(17).any(|part| part == b"text/event-stream") {
            break;
        }
    }
    let (mut responses, mut rest) = (Vec::new(), &got[..]);
    while let Some((response, left)) = parsed(rest) {
        rest = left;
        responses.push(response);
    }
    responses
}

/// Returns the first response in these bytes, if its head is whole.
fn parsed(bytes: &[u8]) -> Option<(Response, &[u8])> {
    let end = bytes.windows(4).position(|part| part == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let mut lines = head.split("\r\n");
    let first = lines.next().expect("a status line");
    let status = first.strip_prefix("HTTP/1.1 ").or_else(|| first.strip_prefix("HTTP/1.0 "));
    let status = status.and_then(|rest| rest.get(..3)).and_then(|status| status.parse().ok());
    let headers: Vec<(String, String)> = lines
        .map(|line| {
            assert!(!line.chars().any(char::is_control), "{line:?}");
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let rest = &bytes[end + 4..];
    let mut response = Response { status: status.expect("a status"), headers, body: Vec::new() };
    let length: usize = response.header("content-length").map_or(0, |text| text.parse().expect("a length"));
    // The response to HEAD has a length and no body.
    let length = if rest.starts_with(b"HTTP/1.") { 0 } else { length.min(rest.len()) };
    response.body = rest[..length].to_vec();
    Some((response, &rest[length..]))
}

/// Asserts that no input makes the server fail, and that none without the token reads or changes anything.
fn hold(response: &Response, has_token: bool) {
    let Response { status, body, .. } = response;
    let shown = String::from_utf8_lossy(body);
    assert!((200..500).contains(status) || *status == 507, "{status}: {shown}");
    let json: Option<Value> = serde_json::from_slice(body).ok();
    if *status >= 400 {
        // A request that can't be read as one has an answer without a body.
        if let Some(json) = &json {
            let own = json["status"] == *status && json["code"].is_string() && json["detail"].is_string();
            assert!(
                own || json["error"]["message"].is_string() || json["jsonrpc"] == "2.0",
                "{status}: {shown}"
            );
        }
        assert_eq!(response.header("set-cookie"), None);
    } else if !has_token {
        let of_page = response.header("content-type").is_some_and(|kind| kind.starts_with("text/html"));
        // A description that the end of the connection cut off is no JSON.
        let public =
            json.as_ref().is_some_and(|json| json["status"] == "ok") || shown.starts_with("{\"openapi\":");
        assert!(of_page || public || body.is_empty(), "without a token: {status}: {shown}");
        assert_eq!(response.header("set-cookie"), None, "without a token");
    }
    if !body.is_empty() && response.header("content-type").is_some() {
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{status}: {shown}");
    }
}
