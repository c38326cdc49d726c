//! A running host: an interpreter in its confined process, and the calls that go through it.

use crate::wire::{self, CodeError, FromHost, Module, Op, ToHost};
use llm_do_core::{model::Blob, worker::Language};
use llm_do_sandbox::confine::{Channel, Denial, Denials, Process, Running, Watching};
use serde_json::Value;
use std::{
    collections::HashMap,
    io,
    os::{fd::OwnedFd, unix::net::UnixStream as StdUnixStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixStream, unix::OwnedReadHalf, unix::OwnedWriteHalf},
    sync::{mpsc, watch},
};

/// The source of the Python host, which every Python runs.
pub(crate) const PYTHON: &str = include_str!(concat!(env!("OUT_DIR"), "/host.py"));

/// The source of the Node host.
pub(crate) const NODE: &str = include_str!(concat!(env!("OUT_DIR"), "/host.cjs"));

/// The time that a host may take to start, if no other limit applies.
pub(crate) const START: Duration = Duration::from_secs(30);

/// The time before another interrupt is sent to code that should stop.
const INTERRUPT_AGAIN: Duration = Duration::from_millis(200);

/// The time that a killed process may take to end.
const ENDING: Duration = Duration::from_secs(5);

/// An event of a call.
#[derive(Debug)]
pub(crate) enum Event {
    /// The call returned this value, with images and files.
    Result(Value, Vec<Blob>),
    /// The call failed.
    Failed(CodeError),
    /// The code makes a call or begins a step.
    Callback { cb: u64, op: Op },
    /// The code waits for answers to its calls, as [`Ongoing::ask_idle`] asked.
    Idle(u64),
    /// A step of the code ended.
    StepEnd { cb: u64, value: Value, error: Option<CodeError> },
    /// The code printed text.
    Log(String),
    /// The host ended before the call did.
    Died(Death),
}

/// The end of a host that was serving calls.
#[derive(Clone, Debug)]
pub(crate) struct Death {
    /// The reason.
    pub(crate) reason: Arc<str>,
    /// True if the process ended by itself while it served only the call that gets this event.
    pub(crate) alone: bool,
}

/// Returns the program that runs code of a language, for messages.
fn program(language: Language) -> &'static str {
    match language {
        Language::Python => "Python",
        Language::Script => "Node",
    }
}

/// A running host.
pub(crate) struct Host {
    shared: Arc<Shared>,
    frames: mpsc::UnboundedSender<Vec<u8>>,
    orders: mpsc::UnboundedSender<Order>,
    language: Language,
    next: AtomicU64,
    /// The requests to the network that were refused to its process, if the process has a list of domains.
    denials: Option<Denials>,
}

/// The state that the tasks and the callers of a host share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: HashMap<u64, mpsc::UnboundedSender<Event>>,
    /// Receives the answer to a question that has no ID. There is one such question at a time.
    question: Option<mpsc::UnboundedSender<FromHost>>,
    /// True if the host was killed from this process.
    killed: bool,
    /// The reason why the host ended, after its end.
    ended: Option<Arc<str>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Order {
    Interrupt,
    /// Kills the host, for this reason.
    Kill(Arc<str>),
}

/// A host that could not be started or does not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct HostError(pub(crate) String);

impl Host {
    /// Starts the process and waits for at most `limit` until it is ready. Passes an end of the socket to `process`.
    /// `watching` is held until the process has ended.
    pub(crate) async fn start(
        language: Language,
        process: Process,
        limit: Option<Duration>,
        watching: Option<Watching>,
    ) -> Result<Self, HostError> {
        let program = program(language);
        let failed = |error: io::Error| HostError(format!("the {program} host cannot be started: {error}"));
        let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let process = Process { channel: Some(Channel::Third(OwnedFd::from(theirs))), ..process };
        let mut running = process
            .start()
            .await
            .map_err(|error| HostError(format!("{program} cannot be started: {error}")))?;
        let (mut from, to) = UnixStream::from_std(ours).map_err(failed)?.into_split();
        let printed = (running.stdout(), running.stderr());
        let denials = running.denials();
        let ready = match limit {
            Some(limit) => tokio::time::timeout(limit, wire::read(&mut from)).await.map_err(|_| limit),
            None => Ok(wire::read(&mut from).await),
        };
        match ready {
            Ok(Ok(Some(FromHost::Ready {}))) => {}
            Ok(Ok(None)) => {
                let said = last_output(printed.1).await;
                let exit = running.wait().await;
                return Err(HostError(format!("{program} ended at its start ({exit}): {said}")));
            }
            Ok(Ok(Some(other))) => {
                return Err(HostError(format!("the first message of the {program} host was {other:?}")));
            }
            Ok(Err(error)) => return Err(failed(error)),
            Err(limit) => {
                let seconds = limit.as_secs();
                return Err(HostError(format!("the {program} host was not ready after {seconds} s")));
            }
        }
        let shared = Arc::new(Shared::default());
        let (frames, queue) = mpsc::unbounded_channel();
        let (orders, inbox) = mpsc::unbounded_channel();
        let (gone, exit) = watch::channel(None);
        tokio::spawn(write_frames(to, queue));
        tokio::spawn(supervise(program, running, inbox, gone, watching));
        tokio::spawn(read_frames(program, from, Arc::clone(&shared), exit));
        if let Some(out) = printed.0 {
            tokio::spawn(read_lines(out, Arc::clone(&shared)));
        }
        if let Some(err) = printed.1 {
            tokio::spawn(read_lines(err, Arc::clone(&shared)));
        }
        Ok(Self { shared, frames, orders, language, next: AtomicU64::new(1), denials })
    }

    /// Returns true if the host has ended.
    pub(crate) fn is_gone(&self) -> bool {
        self.shared.lock().ended.is_some()
    }

    /// Begins a call. `message` gets the ID of the call.
    pub(crate) fn begin<'a>(self: &Arc<Self>, message: impl FnOnce(u64) -> ToHost<'a>) -> Ongoing {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, events) = mpsc::unbounded_channel();
        let denied = self.denials.as_ref().map_or(0, Denials::count);
        {
            let mut state = self.shared.lock();
            match &state.ended {
                // The channel closes after this event.
                Some(reason) => {
                    drop(sender.send(Event::Died(Death { reason: Arc::clone(reason), alone: false })));
                }
                None => drop(state.calls.insert(id, sender)),
            }
        }
        self.send(&message(id));
        Ongoing { host: Arc::clone(self), id, events, denied, idle: 0, ended: false }
    }

    /// Asks a question that is not a call: the functions of modules, or the schema of a class. The caller asks one
    /// question at a time.
    pub(crate) async fn ask(&self, message: &ToHost<'_>) -> Result<FromHost, HostError> {
        let (sender, mut answers) = mpsc::unbounded_channel();
        {
            let mut state = self.shared.lock();
            if let Some(reason) = &state.ended {
                return Err(HostError(reason.to_string()));
            }
            state.question = Some(sender);
        }
        self.send(message);
        match answers.recv().await {
            Some(answer) => Ok(answer),
            None => {
                let reason = self.shared.lock().ended.clone();
                Err(HostError(match reason {
                    Some(reason) => reason.to_string(),
                    None => format!("the {} host has ended", program(self.language)),
                }))
            }
        }
    }

    pub(crate) fn send(&self, message: &ToHost<'_>) {
        // This fails only after the host has ended. Its calls get `Event::Died`.
        let _ = self.frames.send(wire::frame(message));
    }

    /// Ends the host and every process that it started, at once. Its calls get the reason.
    pub(crate) fn kill(&self, reason: &str) {
        self.shared.lock().killed = true;
        let _ = self.orders.send(Order::Kill(reason.into()));
    }

    fn interrupt(&self) {
        let _ = self.orders.send(Order::Interrupt);
    }
}

/// A call that has begun.
pub(crate) struct Ongoing {
    host: Arc<Host>,
    id: u64,
    events: mpsc::UnboundedReceiver<Event>,
    /// The number of denials when it began.
    denied: u64,
    /// The number of the last question for [`Event::Idle`].
    idle: u64,
    ended: bool,
}

impl Ongoing {
    /// Returns the next event. No event follows an end.
    pub(crate) async fn next(&mut self) -> Event {
        let event = match self.events.recv().await {
            Some(event) => event,
            None => {
                let reason = format!("the {} host has ended", program(self.host.language));
                Event::Died(Death { reason: reason.into(), alone: false })
            }
        };
        self.ended |= matches!(event, Event::Result(..) | Event::Failed(_) | Event::Died(_));
        event
    }

    /// Answers a callback.
    pub(crate) fn reply(&self, cb: u64, answer: wire::Answer<'_>) {
        self.host.send(&ToHost::Reply { id: self.id, cb, answer });
    }

    /// Returns a handle that answers callbacks while the call itself is borrowed.
    pub(crate) fn replier(&self) -> Replier {
        Replier { host: Arc::clone(&self.host), id: self.id }
    }

    /// Returns the network requests of its process that were refused since the call began. Calls that run beside it may
    /// have caused some.
    pub(crate) fn denials(&self) -> Vec<Denial> {
        self.host.denials.as_ref().map(|denials| denials.since(self.denied)).unwrap_or_default()
    }

    /// Returns true if the code of the call has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Asks for [`Event::Idle`], and returns its number. It comes after everything that earlier answers lead to.
    pub(crate) fn ask_idle(&mut self) -> u64 {
        self.idle += 1;
        self.host.send(&ToHost::Idle { id: self.id, number: self.idle });
        self.idle
    }

    /// Notifies the host that the call is cancelled. Code that is not running ends without being run.
    pub(crate) fn cancel(&self) {
        if !self.ended {
            self.host.send(&ToHost::Cancel { id: self.id });
        }
    }

    /// Interrupts the cancelled code and waits for its end for at most `grace`. Returns true if it has ended.
    pub(crate) async fn stop(&mut self, grace: Duration) -> bool {
        let stopped = async {
            while !self.ended {
                // The host interrupts the code when it reads the cancellation. A signal that arrives just before a system
                // call begins does not interrupt that. The host ignores signals for other calls.
                if tokio::time::timeout(INTERRUPT_AGAIN, self.next()).await.is_err() {
                    self.host.interrupt();
                }
            }
        };
        tokio::time::timeout(grace, stopped).await.is_ok()
    }
}

/// Answers callbacks of one call.
pub(crate) struct Replier {
    host: Arc<Host>,
    id: u64,
}

impl Replier {
    pub(crate) fn reply(&self, cb: u64, answer: wire::Answer<'_>) {
        self.host.send(&ToHost::Reply { id: self.id, cb, answer });
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.host.shared.lock().calls.remove(&self.id);
    }
}

async fn write_frames(mut to: OwnedWriteHalf, mut queue: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(frame) = queue.recv().await {
        if to.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn read_frames(
    program: &str,
    from: OwnedReadHalf,
    shared: Arc<Shared>,
    mut exit: watch::Receiver<Option<Arc<str>>>,
) {
    let mut from = BufReader::new(from);
    let broken = loop {
        match wire::read(&mut from).await {
            Ok(Some(message)) => dispatch(&shared, message),
            Ok(None) => break None,
            // It ended before it had read all messages.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    let reason: Arc<str> = match broken {
        Some(error) => format!("the {program} host sent an invalid message: {error}").into(),
        None => {
            // The socket closes a moment before the process ends, or long before that if the code closed it.
            let waited = exit.wait_for(Option::is_some);
            match tokio::time::timeout(Duration::from_secs(2), waited).await {
                Ok(Ok(reason)) => (*reason).clone().unwrap_or_default(),
                _ => format!("the {program} host closed its connection").into(),
            }
        }
    };
    let mut state = shared.lock();
    let alone = state.calls.len() == 1 && !state.killed;
    for (_, call) in state.calls.drain() {
        let _ = call.send(Event::Died(Death { reason: Arc::clone(&reason), alone }));
    }
    state.question = None;
    state.ended = Some(reason);
}

fn dispatch(shared: &Shared, message: FromHost) {
    let mut state = shared.lock();
    let (id, event) = match message {
        FromHost::Result { id, value, blobs } => (id, Event::Result(value, blobs)),
        FromHost::Error { id: Some(id), error } => (id, Event::Failed(error)),
        FromHost::Callback { id, cb, op } => (id, Event::Callback { cb, op }),
        FromHost::StepEnd { id, cb, value, error } => (id, Event::StepEnd { cb, value, error }),
        FromHost::Idle { id, number } => (id, Event::Idle(number)),
        FromHost::Log { id: Some(id), text } => (id, Event::Log(text)),
        FromHost::Log { id: None, text } => return print(&state, &text),
        answer @ (FromHost::Loaded { .. }
        | FromHost::Schema { .. }
        | FromHost::Parsed { .. }
        | FromHost::Error { id: None, .. }) => {
            if let Some(question) = state.question.take() {
                let _ = question.send(answer);
            }
            return;
        }
        FromHost::Ready { .. } | FromHost::Unknown => return,
    };
    let ends = matches!(event, Event::Result(..) | Event::Failed(_));
    // A call that was given up has no receiver any more.
    if let Some(call) = state.calls.get(&id) {
        let _ = call.send(event);
    }
    if ends {
        state.calls.remove(&id);
    }
}

/// Sends output that does not go through the streams of the language to every running call, because it names no call.
fn print(state: &State, text: &str) {
    for call in state.calls.values() {
        let _ = call.send(Event::Log(text.to_owned()));
    }
}

/// The largest part of a line that is kept of output that does not go through the streams of the language, in bytes.
const LONGEST_LINE: u64 = 16 * 1024;

async fn read_lines(pipe: impl AsyncRead + Unpin, shared: Arc<Shared>) {
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line).await;
        match read {
            Ok(0) | Err(_) => return,
            Ok(_) => print(&shared.lock(), &String::from_utf8_lossy(&line)),
        }
    }
}

async fn last_output(pipe: Option<impl AsyncRead + Unpin>) -> String {
    let mut text = Vec::new();
    if let Some(pipe) = pipe {
        let mut pipe = pipe.take(64 * 1024);
        let _ = tokio::time::timeout(Duration::from_secs(1), pipe.read_to_end(&mut text)).await;
    }
    String::from_utf8_lossy(&text).trim().lines().last().unwrap_or("it printed nothing").to_owned()
}

/// Owns the process, and ends it when this task ends.
async fn supervise(
    program: &str,
    mut running: Running,
    mut orders: mpsc::UnboundedReceiver<Order>,
    gone: watch::Sender<Option<Arc<str>>>,
    watching: Option<Watching>,
) {
    let reason = loop {
        tokio::select! {
            exit = running.wait() => break format!("the {program} host has ended ({exit})"),
            order = orders.recv() => match order {
                Some(Order::Interrupt) => running.interrupt(),
                Some(Order::Kill(reason)) => break reason.to_string(),
                // The host was dropped.
                None => break format!("the {program} host was ended"),
            },
        }
    };
    running.kill();
    let _ = gone.send(Some(reason.into()));
    let _ = tokio::time::timeout(ENDING, running.wait()).await;
    drop((running, watching));
}

/// Converts a module to the form that the host reads.
pub(crate) fn module(
    package: &llm_do_core::worker::CodePackage,
    module: &llm_do_core::worker::CodeModule,
    names: &[Arc<str>],
) -> Module {
    use llm_do_core::worker::CodeModule;
    let root = package.root.as_str().to_owned();
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    // A host may know one module twice: with the tools that it exposes itself, and with tools that are listed by name.
    let key = |of: &str| if names.is_empty() { of.to_owned() } else { format!("{of}#{}", names.join(",")) };
    match module {
        CodeModule::File(place) => Module {
            key: key(place.as_str()),
            path: Some(place.as_str().to_owned()),
            module: None,
            attribute: None,
            text: None,
            root,
            names,
        },
        CodeModule::Installed { module, function } => Module {
            key: key(&format!("{module}:{function}")),
            path: None,
            module: Some(module.to_string()),
            attribute: Some(function.to_string()),
            text: None,
            root,
            names,
        },
    }
}
