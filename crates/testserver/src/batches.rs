//! A server that speaks the batch interfaces of OpenAI and Anthropic.
//!
//! It works on a batch after a given number of requests for the batch's state, and answers in another order than that
//! of the requests. It checks its input: names must be unique, and requests must be valid for the interface.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use bytes::Bytes;
use futures_util::future::select;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::net;

/// The outcome of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// The request is answered with this text.
    Text(String),
    /// The request fails with this error type and message.
    Error(String, String),
    /// The request is not worked on before its batch expires.
    Expired,
}

type Answers = dyn Fn(&Value) -> Fate + Send + Sync;

/// A server of batches on a loopback port, on a thread of its own. It stops when dropped.
pub struct BatchServer {
    url: String,
    state: Arc<Served>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Served {
    answers: Box<Answers>,
    /// The number of requests for its state after which a batch ends.
    polls: usize,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    files: BTreeMap<String, String>,
    batches: BTreeMap<String, Batch>,
    violations: Vec<String>,
    number: usize,
    /// True while no further batch is worked on.
    held: bool,
    /// The number of further batches of OpenAI's interface that are taken and then fail as a whole, because the queue
    /// is full.
    full: usize,
}

#[derive(Clone)]
struct Batch {
    requests: Vec<(String, Value)>,
    polls: usize,
    metadata: Value,
    anthropic: bool,
    full: bool,
    output: Option<String>,
    errors: Option<String>,
}

impl BatchServer {
    /// Starts a server that decides about each request by its body. A batch ends after `polls` requests for its state.
    ///
    /// # Panics
    /// The machine has no loopback port or thread left.
    pub fn start(polls: usize, answers: impl Fn(&Value) -> Fate + Send + Sync + 'static) -> Self {
        let state = Arc::new(Served { answers: Box::new(answers), polls, log: Mutex::default() });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
        let listener = {
            let _context = runtime.enter();
            net::listen().expect("a loopback port is free")
        };
        let address = listener.local_addr().expect("a bound socket has an address");
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&state);
        let thread = std::thread::Builder::new().name("batches".into()).spawn(move || {
            runtime.block_on(async {
                let serve = net::accept(listener, || {
                    let state = Arc::clone(&served);
                    move |request| answer(Arc::clone(&state), request)
                });
                select(pin!(serve), stopped).await;
            });
        });
        let thread = Some(thread.expect("a thread starts"));
        Self { url: format!("http://{address}"), state, stop: Some(stop), thread }
    }

    /// Returns the server's root, without a slash at its end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Works on no batch until [`BatchServer::release`].
    pub fn hold(&self) {
        self.state.log().held = true;
    }

    /// Works on batches again.
    pub fn release(&self) {
        self.state.log().held = false;
    }

    /// Takes the next batches of OpenAI's interface, and then fails them because too many tokens are enqueued.
    pub fn be_full(&self, batches: usize) {
        self.state.log().full = batches;
    }

    /// Returns the names of the requests of each batch, in the order of arrival.
    pub fn batches(&self) -> Vec<Vec<String>> {
        let log = self.state.log();
        let names = |batch: &Batch| batch.requests.iter().map(|(name, _)| name.clone()).collect();
        log.batches.values().map(names).collect()
    }

    /// # Panics
    /// A request was not valid for its interface.
    pub fn assert_valid(&self) {
        let log = self.state.log();
        assert!(log.violations.is_empty(), "the batch server refused:\n  {}", log.violations.join("\n  "));
    }
}

impl Drop for BatchServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // Its panic has been printed.
            let _ = thread.join();
        }
    }
}

impl Served {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(state: Arc<Served>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let path = head.uri.path().trim_start_matches('/').to_owned();
    let parts: Vec<&str> = path.split('/').collect();
    let has_key = head.headers.contains_key("authorization") || head.headers.contains_key("x-api-key");
    let found = match (&head.method, parts.as_slice()) {
        _ if !has_key => Err((401, "no key".to_owned())),
        (&Method::POST, ["v1", "files"]) => state.upload(&body),
        (&Method::GET, ["v1", "files", file, "content"]) => state.content(file),
        (&Method::POST, ["v1", "batches"]) => state.create(&body),
        (&Method::GET, ["v1", "batches"]) => Ok(state.list()),
        (&Method::GET, ["v1", "batches", batch]) => state.ask(batch),
        (&Method::POST, ["v1", "messages", "batches"]) => state.create_messages(&body),
        (&Method::GET, ["v1", "messages", "batches", batch]) => state.ask(batch),
        (&Method::GET, ["v1", "messages", "batches", batch, "results"]) => state.results(batch),
        _ => Err((404, format!("no such endpoint: {} /{path}", head.method))),
    };
    let (status, text) = match found {
        Ok(text) => (200, text),
        Err((status, message)) => {
            state.log().violations.push(message.clone());
            (status, json!({"error": {"type": "invalid_request_error", "message": message}}).to_string())
        }
    };
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    Ok(response)
}

type Answered = Result<String, (u16, String)>;

fn wrong(what: impl Into<String>) -> (u16, String) {
    (400, what.into())
}

impl Served {
    fn upload(&self, body: &[u8]) -> Answered {
        let text = String::from_utf8_lossy(body);
        let marks = ["name=\"purpose\"\r\n\r\nbatch\r\n", "name=\"file\"; filename="];
        if !marks.iter().all(|mark| text.contains(mark)) {
            return Err(wrong("a form with a purpose and a file belongs here"));
        }
        let (_, file) =
            text.rsplit_once("application/jsonl\r\n\r\n").ok_or_else(|| wrong("no file of lines"))?;
        let (lines, _) = file.rsplit_once("\r\n--").ok_or_else(|| wrong("the form has no end"))?;
        let mut log = self.log();
        log.number += 1;
        let id = format!("file-{}", log.number);
        log.files.insert(id.clone(), lines.to_owned());
        Ok(json!({"id": id, "object": "file"}).to_string())
    }

    fn content(&self, file: &str) -> Answered {
        self.log().files.get(file).cloned().ok_or_else(|| (404, format!("no file {file}")))
    }

    fn create(&self, body: &[u8]) -> Answered {
        let body: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        if body["endpoint"] != "/v1/chat/completions" || body["completion_window"] != "24h" {
            return Err(wrong("an endpoint and a window belong here"));
        }
        let lines = self.content(body["input_file_id"].as_str().unwrap_or_default())?;
        let mut requests = Vec::new();
        for line in lines.lines() {
            let mut line: Value = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            if line["method"] != "POST" || line["url"] != body["endpoint"] {
                return Err(wrong("a line is for another endpoint"));
            }
            requests.push((line["custom_id"].as_str().unwrap_or_default().to_owned(), line["body"].take()));
        }
        self.add(requests, body["metadata"].clone(), false)
    }

    fn create_messages(&self, body: &[u8]) -> Answered {
        let mut body: Value = serde_json::from_slice(body).map_err(|error| wrong(error.to_string()))?;
        let mut requests = Vec::new();
        for request in body["requests"].as_array_mut().into_iter().flatten() {
            let id = request["custom_id"].as_str().unwrap_or_default().to_owned();
            if request["params"]["max_tokens"].as_u64().is_none() {
                return Err(wrong(format!("{id}: max_tokens: field required")));
            }
            requests.push((id, request["params"].take()));
        }
        self.add(requests, Value::Null, true)
    }

    fn add(&self, requests: Vec<(String, Value)>, metadata: Value, anthropic: bool) -> Answered {
        let names: BTreeSet<&String> = requests.iter().map(|(name, _)| name).collect();
        if requests.is_empty() || names.len() < requests.len() {
            return Err(wrong("a batch needs requests with names that are there once"));
        }
        for (name, body) in &requests {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
            if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
                return Err(wrong(format!("`{name}` is no custom_id")));
            }
            let has_messages = body["messages"].as_array().is_some_and(|messages| !messages.is_empty());
            if body["model"].as_str().is_none() || !has_messages || body["stream"] == true {
                return Err(wrong(format!("{name}: a model and messages belong here, and no stream")));
            }
        }
        let mut log = self.log();
        log.number += 1;
        let id = format!("batch_{:06}", log.number);
        let full = !anthropic && log.full > 0;
        log.full -= usize::from(full);
        let batch = Batch { requests, polls: 0, metadata, anthropic, full, output: None, errors: None };
        let told = told(&id, &batch, false);
        log.batches.insert(id, batch);
        Ok(told)
    }

    fn list(&self) -> String {
        let log = self.log();
        let told: Vec<Value> = log
            .batches
            .iter()
            .map(|(id, batch)| serde_json::from_str(&told(id, batch, false)).unwrap_or_default())
            .collect();
        json!({ "data": told }).to_string()
    }

    fn ask(&self, id: &str) -> Answered {
        let mut log = self.log();
        let held = log.held;
        let Some(batch) = log.batches.get_mut(id) else { return Err((404, format!("no batch {id}"))) };
        if !held {
            batch.polls += 1;
        }
        let ended = batch.polls >= self.polls;
        let mut batch = batch.clone();
        if ended && !batch.anthropic && !batch.full && batch.output.is_none() {
            let lines = |errors: bool| {
                let lines = batch.requests.iter().rev().filter_map(|(name, body)| {
                    let fate = (self.answers)(body);
                    ((fate == Fate::Expired) == errors).then(|| openai_line(name, &fate) + "\n")
                });
                lines.collect::<String>()
            };
            let (output, errors) = (lines(false), lines(true));
            let mut keep = |text: String| {
                log.number += 1;
                let file = format!("file-{}", log.number);
                (!text.is_empty()).then(|| {
                    log.files.insert(file.clone(), text);
                    file
                })
            };
            (batch.output, batch.errors) = (keep(output), keep(errors));
            log.batches.insert(id.to_owned(), batch.clone());
        }
        Ok(told(id, &batch, ended))
    }

    fn results(&self, id: &str) -> Answered {
        let log = self.log();
        let Some(batch) = log.batches.get(id) else { return Err((404, format!("no batch {id}"))) };
        let line = |(name, body): &(String, Value)| anthropic_line(name, &(self.answers)(body)) + "\n";
        Ok(batch.requests.iter().rev().map(line).collect())
    }
}

fn told(id: &str, batch: &Batch, ended: bool) -> String {
    let count = batch.requests.len();
    if batch.anthropic {
        let counts =
            if ended { json!({"processing": 0, "succeeded": count}) } else { json!({"processing": count}) };
        let status = if ended { "ended" } else { "in_progress" };
        return json!({"id": id, "type": "message_batch", "processing_status": status, "request_counts": counts}).to_string();
    }
    if ended && batch.full {
        let error = json!({"code": "token_limit_exceeded", "message": "Enqueued token limit reached"});
        return json!({"id": id, "object": "batch", "status": "failed", "errors": {"data": [error]}})
            .to_string();
    }
    let status = match (ended, &batch.errors) {
        (false, _) => "in_progress",
        (true, None) => "completed",
        (true, Some(_)) => "expired",
    };
    json!({
        "id": id,
        "object": "batch",
        "status": status,
        "metadata": batch.metadata,
        "output_file_id": batch.output,
        "error_file_id": batch.errors,
        "request_counts": {"total": count, "completed": if ended { count } else { 0 }, "failed": 0},
    })
    .to_string()
}

fn openai_line(name: &str, fate: &Fate) -> String {
    let usage = json!({"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110});
    let (response, error) = match fate {
        Fate::Text(text) => {
            let message = json!({"role": "assistant", "content": text});
            let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
            let body =
                json!({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage});
            (json!({"status_code": 200, "request_id": "r", "body": body}), Value::Null)
        }
        Fate::Error(kind, message) => {
            let body = json!({"error": {"type": kind, "message": message}});
            (json!({"status_code": 400, "request_id": "r", "body": body}), Value::Null)
        }
        Fate::Expired => (
            Value::Null,
            json!({"code": "batch_expired", "message": "This request could not be executed in time."}),
        ),
    };
    json!({"id": format!("r-{name}"), "custom_id": name, "response": response, "error": error}).to_string()
}

fn anthropic_line(name: &str, fate: &Fate) -> String {
    let result = match fate {
        Fate::Text(text) => {
            let usage = json!({"input_tokens": 100, "output_tokens": 10});
            let content = json!([{"type": "text", "text": text}]);
            let message = json!({
                "id": "msg_1", "type": "message", "role": "assistant", "content": content,
                "stop_reason": "end_turn", "usage": usage,
            });
            json!({"type": "succeeded", "message": message})
        }
        Fate::Error(kind, message) => {
            let inner = json!({"type": kind, "message": message});
            json!({"type": "errored", "error": {"type": "error", "error": inner}})
        }
        Fate::Expired => json!({"type": "expired"}),
    };
    json!({"custom_id": name, "result": result}).to_string()
}
