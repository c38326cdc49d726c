//! A server of the real binary, and a client of a few lines.

use crate::scenario::Scenario;
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Lines, Read, Write},
    net::TcpStream,
    process::{Child, ChildStderr, Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// A token that `serve.yaml` can hold.
pub(super) const TOKEN_OF_CI: &str = "0123456789abcdef0123456789abcdef";

/// The content of `serve.yaml` with that token.
pub(super) fn ci_token(scopes: &str, more: &str) -> String {
    let hash = llm_do::core::schema::sha256(TOKEN_OF_CI.as_bytes());
    format!("tokens:\n  - name: ci\n    sha256: {hash}\n    scopes: {scopes}\n{more}")
}

/// A server that is listening. It is killed when dropped.
pub(super) struct Server {
    child: Child,
    log: Arc<Log>,
    pub(super) address: String,
    pub(super) token: String,
}

/// The lines that a server has logged since its start.
#[derive(Default)]
struct Log {
    lines: Mutex<Vec<String>>,
    /// Notified of each line.
    grew: Condvar,
}

/// The credentials of a page's session.
pub(super) struct Page {
    pub(super) cookie: String,
    pub(super) secret: String,
}

/// A request that is about to be sent.
pub(super) struct Asking<'a> {
    server: &'a Server,
    method: &'static str,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
}

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    head: String,
    pub(super) text: String,
    /// The body, if it is JSON.
    pub(super) body: Value,
}

/// An event of a stream.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) kind: String,
    pub(super) id: Option<u64>,
    pub(super) data: Value,
}

/// A stream of events that is read one by one.
pub(super) struct Listening {
    reader: BufReader<TcpStream>,
}

impl Listening {
    /// The next event. `None`: the stream has ended.
    pub(super) fn next(&mut self) -> Option<Event> {
        let mut kind = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).expect("a stream") == 0 {
                return None;
            }
            match line.trim_end().split_once(": ") {
                Some(("event", name)) => kind = name.to_owned(),
                Some(("data", data)) => {
                    let data = serde_json::from_str(data).expect("data of an event is JSON");
                    return Some(Event { kind, id: None, data });
                }
                _ => {}
            }
        }
    }

    /// The next event that fits.
    pub(super) fn until(&mut self, fits: impl Fn(&Event) -> bool) -> Event {
        loop {
            let event = self.next().expect("a further event");
            if fits(&event) {
                return event;
            }
        }
    }
}

impl Server {
    /// The project of the scenario, with these options.
    pub(super) fn start(scenario: &Scenario, options: &[&str]) -> Self {
        Self::start_with(scenario, &[&["."], options].concat())
    }

    pub(super) fn start_with(scenario: &Scenario, arguments: &[&str]) -> Self {
        Self::launched(scenario, arguments, None)
    }

    /// The project of the scenario, whose operator has this token.
    pub(super) fn start_given(scenario: &Scenario, options: &[&str], token: &str) -> Self {
        Self::launched(scenario, &[&["."], options].concat(), Some(token))
    }

    /// The project of the scenario, whose server logs in JSON.
    pub(super) fn start_json(scenario: &Scenario, options: &[&str]) -> Self {
        let all = [&["serve", ".", "--log-format", "json", "--listen", "127.0.0.1:0"], options].concat();
        let mut child = scenario.command(&all).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let serving: Value = loop {
            let line = lines.next().expect("a further line").expect("text");
            let entry: Value = serde_json::from_str(&line).expect("JSON on each line");
            if entry["event"] == "serving" {
                break entry;
            }
        };
        let part = |text: &str, after: &str| text.split_once(after).expect("the rest").1.to_owned();
        let address = part(serving["url"].as_str().expect("an address"), "http://");
        let token = part(serving["open"].as_str().expect("a link"), "#token=");
        Self::kept(child, lines, address, token)
    }

    fn kept(child: Child, lines: Lines<BufReader<ChildStderr>>, address: String, token: String) -> Self {
        // Its notes must not fill the pipe.
        let log = Arc::<Log>::default();
        let kept = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                kept.lines.lock().expect("no panic").push(line);
                kept.grew.notify_all();
            }
        });
        Self { child, log, address, token }
    }

    fn launched(scenario: &Scenario, arguments: &[&str], given: Option<&str>) -> Self {
        let all = [&["serve"], arguments, &["--port", "0"]].concat();
        Self::of(scenario.command(&all), given)
    }

    /// The server that a command becomes.
    pub(super) fn of(mut command: Command, given: Option<&str>) -> Self {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut after = |what: &str| loop {
            let line = lines.next().expect("a further line").expect("text");
            if let Some((_, rest)) = line.split_once(what) {
                return rest.to_owned();
            }
        };
        let address = after("http://");
        let token = match given {
            Some(token) => {
                assert_eq!(after("open http://"), format!("{address}/"), "the token is not in the link");
                token.to_owned()
            }
            None => {
                let token = after("token: ");
                assert_eq!(after("open http://"), format!("{address}/#token={token}"));
                token
            }
        };
        Self::kept(child, lines, address, token)
    }

    pub(super) fn get(&self, path: &str) -> Asking<'_> {
        self.ask("GET", path, String::new())
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Asking<'_> {
        self.ask("POST", path, body.to_string()).header("Content-Type", "application/json")
    }

    pub(super) fn ask(&self, method: &'static str, path: &str, body: String) -> Asking<'_> {
        let headers = vec![
            ("Host".to_owned(), self.address.clone()),
            ("Authorization".to_owned(), format!("Bearer {}", self.token)),
            ("Content-Length".to_owned(), body.len().to_string()),
            ("Connection".to_owned(), "close".to_owned()),
        ];
        Asking { server: self, method, path: path.to_owned(), headers, body }
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Asking<'_> {
        self.ask("PUT", path, body.to_string()).header("Content-Type", "application/json")
    }

    /// A page of the server that signs in with that token.
    pub(super) fn sign_in(&self, token: &str) -> Page {
        let own = format!("http://{}", self.address);
        let signed_in =
            self.ask("POST", "/v1/session", String::new()).token(token).header("Origin", &own).send();
        assert_eq!(signed_in.status, 201, "{signed_in:?}");
        let cookie = signed_in.header("set-cookie").expect("a cookie");
        let cookie = cookie.split_once('=').and_then(|(_, rest)| rest.split_once(';')).expect("a value").0;
        let secret = signed_in.body["secret"].as_str().expect("a secret");
        Page { cookie: cookie.to_owned(), secret: secret.to_owned() }
    }

    /// The port that it listens on.
    pub(super) fn port(&self) -> &str {
        self.address.rsplit_once(':').map_or("", |(_, port)| port)
    }

    /// Opens a stream of events.
    pub(super) fn listen(&self, asking: Asking<'_>) -> Listening {
        let mut reader = BufReader::new(asking.connect());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        Listening { reader }
    }

    /// Reads the events of a run until they end.
    pub(super) fn follow(&self, run: &str, after: Option<u64>) -> JoinHandle<Vec<Event>> {
        let mut asking = self.get(&format!("/v1/runs/{run}/events"));
        if let Some(after) = after {
            asking = asking.header("Last-Event-ID", &after.to_string());
        }
        let mut reader = BufReader::new(asking.connect());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).expect("a head"), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        std::thread::spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("a stream");
            // Of a chunked body: the sizes of chunks are lines of hexadecimal digits.
            let lines = text
                .lines()
                .filter(|line| !line.bytes().all(|byte| byte.is_ascii_hexdigit()) || line.is_empty());
            let (mut events, mut kind, mut id) = (Vec::new(), String::new(), None);
            for line in lines {
                match line.split_once(": ") {
                    Some(("event", name)) => kind = name.to_owned(),
                    Some(("id", number)) => id = number.parse().ok(),
                    Some(("data", data)) => {
                        let data = serde_json::from_str(data).expect("data of an event is JSON");
                        events.push(Event { kind: kind.clone(), id: None, data });
                    }
                    _ => {}
                }
                if let (Some(number), Some(last)) = (id, events.last_mut())
                    && last.id.is_none()
                    && last.kind == "record"
                {
                    last.id = Some(number);
                    id = None;
                }
            }
            events
        })
    }

    /// Waits until a run looks like that.
    pub(super) fn until(&self, run: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let view = self.get(&format!("/v1/runs/{run}")).send().body;
            if fits(&view) {
                return view;
            }
            assert!(Instant::now() < deadline, "{view}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns the ID of the server's process.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the memory of the server, in bytes.
    #[cfg(target_os = "linux")]
    pub(super) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its size");
        line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
    }

    /// Returns the lines that the server has logged since its start.
    pub(super) fn log(&self) -> Vec<String> {
        self.log.lines.lock().expect("no panic").clone()
    }

    /// Waits for a line of its log that contains these words, and returns all lines so far. What the server has written
    /// before it answers may be read after the answer.
    pub(super) fn logged(&self, words: &str) -> Vec<String> {
        let lacks = |log: &mut Vec<String>| !log.iter().any(|line| line.contains(words));
        let log = self.log.lines.lock().expect("no panic");
        let (log, waited) =
            self.log.grew.wait_timeout_while(log, Duration::from_secs(60), lacks).expect("no panic");
        assert!(!waited.timed_out(), "{words}: {log:?}");
        log.clone()
    }

    /// Ends it in order.
    pub(super) fn stop(mut self) -> Option<i32> {
        self.terminate();
        self.child.wait().expect("it ends").code()
    }

    /// Sends it SIGTERM.
    pub(super) fn terminate(&self) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it is there");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Asking<'_> {
    pub(super) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sends the request as a page of the server does: with the session's cookie and the page's secret in the place of
    /// the token.
    pub(super) fn page(self, page: &Page) -> Self {
        let secret = page.secret.clone();
        self.cookie(&page.cookie).header("Llm-Do-Session", &secret)
    }

    /// Sends the request with a session's cookie alone in the place of the token.
    pub(super) fn cookie(self, secret: &str) -> Self {
        let port = self.server.port();
        self.without_token().header("Cookie", &format!("other=1; llm-do-session-{port}={secret}"))
    }

    pub(super) fn token(self, token: &str) -> Self {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    pub(super) fn without_token(mut self) -> Self {
        self.headers.retain(|(name, _)| name != "Authorization");
        self
    }

    /// Sends it, and leaves the connection open.
    pub(super) fn connect(&self) -> TcpStream {
        let mut stream = TcpStream::connect(&self.server.address).expect("it listens");
        let head: String = self.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("{} {} HTTP/1.1\r\n{head}\r\n{}", self.method, self.path, self.body);
        // A server that refuses a request need not read all of it.
        let _ = stream.write_all(text.as_bytes());
        stream
    }

    pub(super) fn send(self) -> Response {
        let mut bytes = Vec::new();
        let _ = self.connect().read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        let body = body.to_owned();
        Response {
            status,
            head: head.to_owned(),
            body: serde_json::from_str(&body).unwrap_or(Value::Null),
            text: body,
        }
    }
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
