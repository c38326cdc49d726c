//! The scripted server.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::{pending, select};
use futures_util::stream::{BoxStream, StreamExt, unfold};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response};
use serde_json::Value;
use tokio::sync::oneshot;

use crate::invariants::{self, Histories};
use crate::net;
use crate::script::{Break, Content, Reply, Script, Usage};
use crate::seen::{Seen, Wire};
use crate::{anthropic, openai};

/// Most time that [`TestServer::wait_for_requests`] and similar methods wait: so long that only a hanging program
/// reaches it, on any machine.
const PATIENCE: Duration = Duration::from_secs(300);

/// A model server on a loopback port, on a thread of its own. It stops when dropped.
pub struct TestServer {
    url: String,
    state: Arc<ServerState>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct ServerState {
    script: Script,
    log: Mutex<Log>,
    changed: Condvar,
}

#[derive(Default)]
struct Log {
    requests: Vec<Seen>,
    violations: Vec<String>,
    histories: Histories,
    connections: usize,
    in_flight: usize,
    most_in_flight: usize,
    abandoned: usize,
    /// The number of the last request, from 1.
    serial: u64,
}

impl TestServer {
    /// Starts a server that follows `script`.
    ///
    /// # Panics
    /// The machine has no loopback port or thread left.
    pub fn start(script: Script) -> Self {
        let state = Arc::new(ServerState { script, log: Mutex::default(), changed: Condvar::new() });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let listener = {
            let _context = runtime.enter();
            net::listen().expect("a loopback port is free")
        };
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let served = state.clone();
        let thread = std::thread::Builder::new().name("testserver".into()).spawn(move || {
            runtime.block_on(async {
                let serve = net::accept(listener, || {
                    served.log().connections += 1;
                    let state = served.clone();
                    move |request| answer(state.clone(), request)
                });
                select(pin!(serve), stopped).await;
            });
        });
        Self {
            url: format!("http://{address}"),
            state,
            stop: Some(stop),
            thread: Some(thread.expect("a thread starts")),
        }
    }

    /// Returns the server's root, without a slash at its end: `http://127.0.0.1:PORT`. Both wires are served under any
    /// path below it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns every request to a known path so far, in order of arrival, refused ones included.
    pub fn requests(&self) -> Vec<Seen> {
        self.state.log().requests.clone()
    }

    /// Returns the errors of the requests so far; each was answered with status 400 (404 for an unknown path, 500 where
    /// the script had no reply).
    pub fn violations(&self) -> Vec<String> {
        self.state.log().violations.clone()
    }

    /// # Panics
    /// A request was not valid. The message has all errors.
    pub fn assert_valid(&self) {
        let violations = self.violations();
        assert!(violations.is_empty(), "the model server refused requests:\n  {}", violations.join("\n  "));
    }

    /// Returns the number of requests: as many as [`TestServer::requests`] has, unless they are not recorded.
    pub fn request_count(&self) -> u64 {
        self.state.log().serial
    }

    /// Returns the number of unused replies of the script's common queue.
    pub fn unused(&self) -> usize {
        self.state.script.left()
    }

    /// Returns the number of connections that were opened.
    pub fn connections(&self) -> usize {
        self.state.log().connections
    }

    /// Returns the number of requests that are being answered now.
    pub fn in_flight(&self) -> usize {
        self.state.log().in_flight
    }

    /// Returns the most requests that were ever answered at the same time.
    pub fn most_in_flight(&self) -> usize {
        self.state.log().most_in_flight
    }

    /// Returns the number of answers that the client did not wait for: it hung up before their end.
    pub fn abandoned(&self) -> usize {
        self.state.log().abandoned
    }

    /// Waits until `count` requests have arrived since the start.
    ///
    /// # Panics
    /// After five minutes.
    pub fn wait_for_requests(&self, count: usize) {
        self.wait(&format!("{count} requests"), |log| log.serial >= count as u64);
    }

    /// Waits until clients have hung up on `count` answers.
    ///
    /// # Panics
    /// After five minutes.
    pub fn wait_for_abandoned(&self, count: usize) {
        self.wait(&format!("{count} answers abandoned"), |log| log.abandoned >= count);
    }

    fn wait(&self, what: &str, met: impl Fn(&Log) -> bool) {
        let (log, _) = self
            .state
            .changed
            .wait_timeout_while(self.state.log(), PATIENCE, |log| !met(log))
            .unwrap_or_else(PoisonError::into_inner);
        assert!(met(&log), "waited in vain for {what}: {:?}", *log);
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic on that thread (in a script's closure) has been printed already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for TestServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestServer").field("url", &self.url).field("log", &*self.state.log()).finish()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("requests", &self.serial)
            .field("violations", &self.violations)
            .field("connections", &self.connections)
            .field("in_flight", &self.in_flight)
            .field("abandoned", &self.abandoned)
            .finish_non_exhaustive()
    }
}

impl ServerState {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a request that is being answered. Dropping it ends the count, wherever that happens.
struct InFlight {
    state: Arc<ServerState>,
    done: bool,
}

impl InFlight {
    fn new(state: &Arc<ServerState>) -> Self {
        let mut log = state.log();
        log.in_flight += 1;
        log.most_in_flight = log.most_in_flight.max(log.in_flight);
        Self { state: state.clone(), done: false }
    }

    fn finish(mut self) {
        self.done = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let mut log = self.state.log();
        log.in_flight -= 1;
        log.abandoned += usize::from(!self.done);
        self.state.changed.notify_all();
    }
}

/// The connection must be closed in the middle of an answer.
#[derive(Debug)]
struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cut as scripted")
    }
}

impl std::error::Error for Cut {}

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Cut>>>;

async fn answer(state: Arc<ServerState>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let in_flight = InFlight::new(&state);
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let wire = match path.rsplit('/').next() {
        Some("messages") => Wire::Anthropic,
        _ => Wire::OpenAi,
    };
    let refused = |status, what: &str| (status, format!("{} {path}", head.method), vec![what.to_owned()]);
    if wire == Wire::OpenAi && !path.ends_with("/chat/completions") {
        return refuse(in_flight, wire, refused(404, "no such endpoint"));
    }
    if head.method != Method::POST {
        return refuse(in_flight, wire, refused(405, "this endpoint takes POST"));
    }
    let Ok(bytes) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
        return refuse(in_flight, wire, refused(400, "the request's body broke off"));
    };
    let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
        return refuse(in_flight, wire, refused(400, "the request's body is not JSON"));
    };
    let mut wrong = Vec::new();
    let conversation = match wire {
        Wire::OpenAi => openai::read(&body, &mut wrong),
        Wire::Anthropic => anthropic::read(&body, &mut wrong),
    };
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let seen = Seen { at: Instant::now(), wire, path, body, body_bytes: bytes.len(), headers, conversation };

    let (serial, wrong) = admit(&state, &seen, wrong);
    let which = format!("request {serial} (model {:?}, turn {})", seen.model(), seen.turn());
    if !wrong.is_empty() {
        return refuse(in_flight, wire, (400, which, wrong));
    }
    let wrong = match catch_unwind(AssertUnwindSafe(|| state.script.reply(&seen))) {
        Ok(Some(reply)) => return send(in_flight, &seen, reply, serial).await,
        Ok(None) => "the script has no reply left".into(),
        // Else the client would see a closed connection, and the test nothing.
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            format!("the script panicked: {text}")
        }
    };
    refuse(in_flight, wire, (500, which, vec![wrong]))
}

/// Records a request. Returns its number, from 1, and all its errors.
fn admit(state: &ServerState, seen: &Seen, mut wrong: Vec<String>) -> (u64, Vec<String>) {
    if seen.wire == Wire::Anthropic && seen.header("anthropic-version").is_none() {
        wrong.push("anthropic-version: header is required".into());
    }
    invariants::check(&seen.conversation, &mut wrong);
    let mut log = state.log();
    log.serial += 1;
    if !state.script.unrecorded {
        log.requests.push(seen.clone());
    }
    state.changed.notify_all();
    if state.script.unchecked {
        return (log.serial, Vec::new());
    }
    if wrong.is_empty() && !state.script.rewrites {
        wrong.extend(log.histories.check(seen));
    }
    (log.serial, wrong)
}

/// Remembers the errors of a request, and sends them to the client under this status.
fn refuse(
    mut in_flight: InFlight,
    wire: Wire,
    (status, which, wrong): (u16, String, Vec<String>),
) -> Result<Response<Body>, Cut> {
    let body = error(wire, status, &wrong.join("; "));
    let violations = wrong.into_iter().map(|what| format!("{which}: {what}"));
    in_flight.state.log().violations.extend(violations);
    in_flight.done = true;
    let mut response = Response::new(stream(in_flight, vec![body.into()], Duration::ZERO, Break::End));
    *response.status_mut() = hyper::StatusCode::from_u16(status).expect("a status of ours is one");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Sends a reply in the format of its wire, with its faults.
async fn send(in_flight: InFlight, seen: &Seen, reply: Reply, serial: u64) -> Result<Response<Body>, Cut> {
    if let Some(gate) = &reply.gate {
        gate.passed().await;
    }
    tokio::time::sleep(reply.delay).await;
    let mut streamed = false;
    let (status, mut chunks) = match &reply.content {
        Content::Nothing => pending().await,
        Content::HangUp => {
            in_flight.finish();
            return Err(Cut);
        }
        Content::Status { code, body } => {
            let body = body.clone().unwrap_or_else(|| error(seen.wire, *code, "an error as scripted"));
            (*code, vec![body.into_bytes()])
        }
        Content::Answer(answer) => {
            let tokens = |bytes: usize| bytes as u64 / 4 + 1;
            let estimate = Usage { input: tokens(seen.body_bytes), output: tokens(answer.len()), cached: 0 };
            let usage = answer.usage.unwrap_or(estimate);
            streamed = seen.streamed();
            let chunks = match (seen.wire, streamed) {
                (Wire::OpenAi, true) => openai::events(seen, answer, usage, serial),
                (Wire::Anthropic, true) => anthropic::events(seen, answer, usage, serial),
                (Wire::OpenAi, false) => halves(&openai::body(seen, answer, usage, serial)),
                (Wire::Anthropic, false) => halves(&anthropic::body(seen, answer, usage, serial)),
            };
            (200, chunks)
        }
    };
    reply.edits.iter().for_each(|edit| edit(&mut chunks));
    let whole: usize = chunks.iter().map(Vec::len).sum();
    let mut end = Break::End;
    if let Some((after, what)) = reply.breaks {
        chunks.truncate(after);
        match what {
            Break::Bytes(bytes) => chunks.push(bytes),
            Break::Error(kind) => chunks.push(match seen.wire {
                Wire::OpenAi => openai::error_event(&kind),
                Wire::Anthropic => anthropic::error_event(&kind),
            }),
            other => end = other,
        }
    }
    // A body cut short still announces its whole length.
    let length = match end {
        Break::Close | Break::Hang => whole,
        _ => chunks.iter().map(Vec::len).sum(),
    };
    let mut response = Response::builder().status(status);
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    let usual = if streamed { "text/event-stream; charset=utf-8" } else { "application/json" };
    response = response.header(CONTENT_TYPE, reply.content_type.as_deref().unwrap_or(usual));
    if !streamed {
        response = response.header(CONTENT_LENGTH, length);
    }
    let body = stream(in_flight, chunks, reply.gap, end);
    Ok(response.body(body).expect("a script's status and headers are valid"))
}

fn error(wire: Wire, status: u16, message: &str) -> String {
    match wire {
        Wire::OpenAi => openai::error(status, message),
        Wire::Anthropic => anthropic::error(status, message),
    }
    .to_string()
}

fn halves(body: &Value) -> Vec<Vec<u8>> {
    let bytes = body.to_string().into_bytes();
    let (head, tail) = bytes.split_at(bytes.len() / 2);
    vec![head.to_vec(), tail.to_vec()]
}

/// Returns the chunks as a body, each written separately, and then the end.
fn stream(in_flight: InFlight, chunks: Vec<Vec<u8>>, gap: Duration, end: Break) -> Body {
    let first = (VecDeque::from(chunks), false, in_flight);
    let frames = unfold(first, move |(mut chunks, begun, mut in_flight)| {
        let end = end.clone();
        async move {
            if !begun {
            } else if gap.is_zero() || chunks.is_empty() {
                // While this waits the connection writes out what it holds.
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(gap).await;
            }
            if let Some(chunk) = chunks.pop_front() {
                // A body with a content length is not read beyond it.
                in_flight.done = chunks.is_empty() && !matches!(end, Break::Hang);
                return Some((Ok(Frame::data(chunk.into())), (chunks, true, in_flight)));
            }
            match end {
                Break::Hang => pending().await,
                Break::Close => {
                    in_flight.done = true;
                    tokio::task::yield_now().await;
                    Some((Err(Cut), (chunks, true, in_flight)))
                }
                _ => {
                    in_flight.finish();
                    None
                }
            }
        }
    });
    StreamBody::new(frames.boxed())
}
