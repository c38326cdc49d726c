//! The service over a pair of pipes, for the one client that owns the process and is its operator
//! (`docs/reference/stdio.md`).

mod follow;
mod lines;
mod rpc;

use crate::{
    error::ApiError,
    listing::Filter,
    program::{BadPrograms, Host, Served},
    quotas::Limits,
    service::{Begun, LARGEST_PAGE, Page, Service},
    token::Token,
    views::{GiveAnswer, Questions, SendMessage, StartRun},
};
use follow::{Followed, Hears};
use lines::{Line, LineSender};
use llm_do::{Session, program::stubs::stale};
use rpc::{Request, RequestId, RpcError, response};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};
use std::{
    collections::HashMap,
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, BufReader},
    sync::watch,
    task::spawn_blocking,
    time::timeout,
};

/// The version of the interface. Within one, methods and fields are only ever added.
pub const PROTOCOL: u32 = 1;
/// Interval at which the process checks that its parent still exists. The end of stdin shows it at once, unless another
/// process has inherited the pipe.
const PARENT_WITHIN: Duration = Duration::from_secs(1);
/// The time in which a client must read its last answers when the runs have ended.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The limits of the service.
#[derive(Clone, Copy, Debug)]
pub struct StdioLimits {
    /// Most runs at once. Calls beyond them wait.
    pub runs: usize,
    /// Time that runs may take to end after the client has disconnected.
    pub grace: Duration,
}

/// The service of one program over a pair of pipes.
#[derive(Clone)]
pub struct Stdio(Arc<Inner>);

struct Inner {
    service: Service,
    token: Arc<Token>,
    session: Session,
    target: String,
    requests: Mutex<HashMap<RequestId, watch::Sender<bool>>>,
    /// True if the log has the warning that calls are denied.
    said_unattended: AtomicBool,
}

/// The parameters of `hello`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hello {
    protocol: u32,
}

/// The answer to `hello`.
#[derive(Serialize)]
struct Welcome {
    protocol: u32,
    version: &'static str,
    program: String,
    target: String,
    /// The worker that calls without a name start.
    entry: Arc<str>,
    workers: Vec<WorkerOf>,
    /// The workers that can't be loaded, with the reasons.
    broken: Vec<Broken>,
    /// The hash of all signatures.
    signatures: String,
    /// Types for other languages in the program's folder that are out of date.
    stale_stubs: Vec<StaleStub>,
}

#[derive(Serialize)]
struct WorkerOf {
    worker: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// True if the worker declares parameters. Otherwise it takes any `input`.
    declared: bool,
    input: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Arc<Value>>,
    signature: String,
}

#[derive(Serialize)]
struct StaleStub {
    file: String,
    language: &'static str,
}

#[derive(Serialize)]
struct Broken {
    worker: String,
    reason: String,
}

/// The parameters that name a run, which may have ended.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfRun {
    run: String,
}

/// The parameters of `cancel`: a request of this client, or a run.
#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum Cancel {
    Request { request: RequestId },
    Run { run: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PageOf {
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
}

impl Stdio {
    /// Creates the service of a program. `sessions` are those of its workers, as [`Session::open_exported`] returns
    /// them for `target`.
    ///
    /// # Errors
    /// There is no worker.
    pub fn new(
        target: String,
        sessions: Vec<Session>,
        limits: StdioLimits,
        host: Arc<dyn Host>,
    ) -> Result<Self, BadPrograms> {
        let first = sessions.first().ok_or_else(|| BadPrograms::Name(target.clone()))?;
        let session = first.clone();
        let served = Served::of_owner(target.clone(), sessions);
        // Only the runs at once are limited: what waits is the client's own.
        let of_service = Limits {
            runs: limits.runs,
            runs_of_token: None,
            queue: usize::MAX,
            streams: usize::MAX,
            streams_of_token: None,
            grace: limits.grace,
            // A client that owns the process ends its chats itself.
            chats_expire: None,
        };
        Ok(Self(Arc::new(Inner {
            service: Service::of_owner(served, of_service, host)?,
            token: Arc::new(Token::of_owner()),
            session,
            target,
            requests: Mutex::default(),
            said_unattended: AtomicBool::new(false),
        })))
    }

    /// Answers requests until the client closes its end, its process has ended, or `stopped` is ready. Then it ends the
    /// runs: runs that wait for an answer are suspended, other runs are cancelled.
    ///
    /// # Errors
    /// A pipe can't be read, or a thread can't be started.
    pub async fn serve(
        &self,
        reader: impl AsyncRead + Unpin,
        writer: impl Write + Send + 'static,
        stopped: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let (lines, written) = LineSender::to(writer)?;
        let mut reader = BufReader::new(reader);
        let read = async {
            while let Some(line) = lines::next(&mut reader).await? {
                self.take(line, &lines).await;
            }
            Ok(())
        };
        let read = tokio::select! {
            read = read => read,
            () = stopped => Ok(()),
            () = orphaned() => Ok(()),
        };
        self.0.service.end().await;
        // The requests under way get their answers now.
        drop(lines);
        let _ = timeout(ANSWER_WITHIN, written).await;
        read
    }

    async fn take(&self, line: Line, lines: &LineSender) {
        let request = match line {
            Line::Whole(line) => Request::read(&line),
            Line::TooLong => Err((None, RpcError::invalid_request("it is longer than 16 MiB"))),
        };
        let Request { id, method, params } = match request {
            Ok(request) => request,
            Err((id, error)) => {
                lines.send(response(id.as_ref(), Err(error))).await;
                return;
            }
        };
        // Without an ID nothing could be answered. Only taking back a request makes sense so.
        let Some(id) = id else {
            if method == "cancel" {
                // A notification has no answer, and what it names may be over.
                let _ = read(params).and_then(|cancel| self.cancel(&cancel));
            }
            return;
        };
        let (sender, cancelled) = watch::channel(false);
        let taken = {
            let mut requests = self.requests();
            let is_new = !requests.contains_key(&id);
            if is_new {
                requests.insert(id.clone(), sender);
            }
            is_new
        };
        if !taken {
            let error = RpcError::invalid_request("its `id` is that of a request under way");
            lines.send(response(None, Err(error))).await;
            return;
        }
        let (this, lines) = (self.clone(), lines.clone());
        tokio::spawn(async move {
            let result = this.answer(&id, &method, params, &lines, cancelled).await;
            this.requests().remove(&id);
            lines.send(response(Some(&id), result)).await;
        });
    }

    async fn answer(
        &self,
        id: &RequestId,
        method: &str,
        params: Map<String, Value>,
        lines: &LineSender,
        cancelled: watch::Receiver<bool>,
    ) -> Result<Value, RpcError> {
        let Inner { service, token, .. } = &*self.0;
        match method {
            "hello" => self.hello(read(params)?).await,
            "call" => self.call(id, params, lines, cancelled).await,
            "follow" => {
                let (mut params, hears) = hears(params)?;
                let after = params.remove("after").map(serde_json::from_value).transpose();
                let after = after.map_err(RpcError::params)?;
                let OfRun { run } = read(params)?;
                service.run(token, &run).await?;
                let reader = match hears.events {
                    true => Some(service.reader(token, &run, after).await?),
                    false => None,
                };
                let followed = Followed { service, token, lines, request: id, hears, id: run.into() };
                followed.to_the_end(reader, cancelled).await
            }
            "answer" => {
                let mut params = params;
                let run = text(&mut params, "run")?;
                service.answer(token, &run, read::<GiveAnswer>(params)?).await?;
                Ok(json!({}))
            }
            "message" => {
                let mut params = params;
                let run = text(&mut params, "run")?;
                value(&service.message(token, &run, read::<SendMessage>(params)?).await?)
            }
            "stop" => {
                service.stop(token, &read::<OfRun>(params)?.run)?;
                Ok(json!({}))
            }
            "cancel" => self.cancel(&read(params)?).map(|()| json!({})),
            "run" => value(&service.run(token, &read::<OfRun>(params)?.run).await?),
            "runs" => {
                let PageOf { before, limit } = read(params)?;
                let limit = limit.unwrap_or(LARGEST_PAGE).clamp(1, LARGEST_PAGE);
                value(
                    &service
                        .runs(token, Page { before, limit, filter: Filter::default(), previews: true })
                        .await?,
                )
            }
            "questions" => {
                read::<Nothing>(params)?;
                value(&Questions { questions: service.questions(token, true) })
            }
            other => Err(RpcError::no_method(other)),
        }
    }

    async fn hello(&self, hello: Hello) -> Result<Value, RpcError> {
        if hello.protocol != PROTOCOL {
            return Err(RpcError::params(format!(
                "the client speaks version {} of this protocol, and llm-do {VERSION} speaks version {PROTOCOL}: install \
                 the client and llm-do in the same version",
                hello.protocol
            )));
        }
        let Inner { session, target, service, token, .. } = &*self.0;
        let program = Arc::clone(session.program());
        // Reads the files of all workers.
        let found = spawn_blocking(move || {
            let signatures = program.signatures();
            let hash = signatures.hash();
            let stale = stale(program.tree().as_ref(), || hash.clone());
            (signatures, hash, stale)
        });
        let (found, signatures, stale) = found.await.map_err(ApiError::internal)?;
        let workers = found.workers.into_iter().map(|it| WorkerOf {
            worker: it.worker,
            description: it.description,
            declared: it.declared,
            input: it.input,
            output: it.output,
            signature: it.hash,
        });
        let broken = found.broken.into_iter().map(|(worker, reason)| Broken { worker, reason });
        value(&Welcome {
            protocol: PROTOCOL,
            version: VERSION,
            program: service.only_program(token).unwrap_or_default(),
            target: target.clone(),
            entry: Arc::clone(&session.entry().id),
            workers: workers.collect(),
            broken: broken.collect(),
            signatures,
            stale_stubs: stale
                .into_iter()
                .map(|stub| StaleStub { file: stub.path, language: stub.language.name() })
                .collect(),
        })
    }

    async fn call(
        &self,
        id: &RequestId,
        params: Map<String, Value>,
        lines: &LineSender,
        mut cancelled: watch::Receiver<bool>,
    ) -> Result<Value, RpcError> {
        let Inner { service, token, said_unattended, .. } = &*self.0;
        let (params, hears) = hears(params)?;
        let request: StartRun = read(params)?;
        let room = tokio::select! {
            room = service.own_room(token) => room?,
            _ = cancelled.wait_for(|cancelled| *cancelled) => return Err(RpcError::cancelled()),
        };
        let begun = service.start_own(token, request, room, hears.questions, hears.events).await?;
        let Begun { live, reader, denies_unattended } = begun;
        if denies_unattended && !said_unattended.swap(true, Ordering::Relaxed) {
            service.log(
                "calls that need an approval are denied, because this client takes no questions: give it an operator, or \
                 start with --allow or --approval",
            );
        }
        let followed = Followed { service, token, lines, request: id, hears, id: Arc::clone(&live.id) };
        followed.started().await;
        followed.to_the_end(reader, cancelled).await
    }

    fn cancel(&self, cancel: &Cancel) -> Result<(), RpcError> {
        let Inner { service, token, .. } = &*self.0;
        match cancel {
            Cancel::Run { run } => Ok(service.cancel(token, run).map(drop)?),
            Cancel::Request { request } => {
                if let Some(sender) = self.requests().get(request) {
                    sender.send_replace(true);
                }
                // A request that has its answer can't be taken back any more, which its client knows by then.
                Ok(())
            }
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestId, watch::Sender<bool>>> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// No parameters.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

fn read<T: DeserializeOwned>(params: Map<String, Value>) -> Result<T, RpcError> {
    serde_json::from_value(Value::Object(params)).map_err(RpcError::params)
}

fn text(params: &mut Map<String, Value>, name: &str) -> Result<String, RpcError> {
    match params.remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(RpcError::params(format!("`{name}` must be a text"))),
    }
}

/// Splits the client's choice of notifications off the parameters.
fn hears(mut params: Map<String, Value>) -> Result<(Map<String, Value>, Hears), RpcError> {
    let names = ["events", "questions"];
    let taken = names.into_iter().filter_map(|name| Some((name.to_owned(), params.remove(name)?)));
    let hears = read(taken.collect())?;
    Ok((params, hears))
}

fn value(result: &impl Serialize) -> Result<Value, RpcError> {
    serde_json::to_value(result).map_err(|error| ApiError::internal(error).into())
}

/// Waits until the parent of this process has ended.
async fn orphaned() {
    #[cfg(unix)]
    {
        let parent = std::os::unix::process::parent_id();
        while std::os::unix::process::parent_id() == parent {
            tokio::time::sleep(PARENT_WITHIN).await;
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}
