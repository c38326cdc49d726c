//! A driver that makes every child call in a separate process. It keeps the journal and the state that the calls share.

use crate::wire::{Ask, MARK, ToCall, ToRun, exchanged_to_wire, line, stepped_to_wire};
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use llm_do::{
    core::{
        budget::Reserved,
        call_path::CallPath,
        call_spec::{CallSpec, FrameSpec},
        driver::{Caller, CutOff, Driver, Exchanged, Known, Step, StepName, Stepped},
        engine::{Halt, Outcome},
        event::Event,
        journal::RecordKind,
        origin::UntrustedPlaces,
        question::Question,
        send::BoxFuture,
        shared::Shared,
    },
    runs::LocalDriver,
};
use serde::Serialize;
use serde_json::Value;
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The name of the test that is the other process, and the variable that names the program for it.
const CHILD: &str = "a_process_that_makes_one_call";
pub(crate) const PROGRAM: &str = "LLM_DO_TEST_PROGRAM";

/// A process that makes one call of that program.
pub(crate) fn child(program: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", CHILD, "--nocapture", "--test-threads=1"]).env(PROGRAM, program);
    command
}

pub(crate) struct InProcesses {
    inner: Arc<LocalDriver>,
    /// The program that a child opens.
    program: String,
    started: AtomicUsize,
}

impl InProcesses {
    pub(crate) fn new(inner: Arc<LocalDriver>, program: String) -> Self {
        Self { inner, program, started: AtomicUsize::new(0) }
    }

    /// Returns the number of started processes.
    pub(crate) fn started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    async fn elsewhere(&self, frame: FrameSpec, call: CallSpec) -> Result<Outcome, Halt> {
        self.started.fetch_add(1, Ordering::Relaxed);
        let (process, mut messages) = Process::start(&self.program);
        process.send(&ToCall::Start(Box::new(frame), call));
        let mut ran: HashMap<u64, oneshot::Sender<Box<RecordKind>>> = HashMap::new();
        let mut at_work: FuturesUnordered<BoxFuture<'_, ()>> = FuturesUnordered::new();
        loop {
            let message = tokio::select! {
                message = messages.recv() => message,
                Some(()) = at_work.next() => continue,
            };
            match message {
                None => return Err(Halt::Journal("a process ended without an outcome".into())),
                Some(ToRun::Ended(outcome)) => return outcome,
                Some(ToRun::Ran(id, body)) => {
                    // A step that has timed out waits for nothing any more.
                    if let Some(step) = ran.remove(&id) {
                        let _ = step.send(Box::new(body));
                    }
                }
                Some(ToRun::Ask(id, ask)) => match self.answered(*ask) {
                    Answered::Now(value) => process.reply(id, &value),
                    Answered::Step(step) => {
                        let (sender, receiver) = oneshot::channel();
                        ran.insert(id, sender);
                        at_work.push(Box::pin(self.step_for(&process, id, step, receiver)));
                    }
                    Answered::Later(work) => {
                        let process = &process;
                        at_work.push(Box::pin(async move { process.reply(id, &work.await) }));
                    }
                },
            }
        }
    }

    /// A step of the other process. Its record is made here.
    async fn step_for(
        &self,
        process: &Process,
        id: u64,
        step: Box<WireStep>,
        ran: oneshot::Receiver<Box<RecordKind>>,
    ) {
        let WireStep { path, name, intent, deadline, done } = *step;
        let run = Box::pin(async {
            process.send(&ToCall::Run(id));
            match ran.await {
                Ok(body) => *body,
                Err(_) => std::future::pending().await,
            }
        });
        let cut_off = done.map_or(CutOff::Again, CutOff::Done);
        let step = Step { path: &path, name, intent, deadline, cut_off, run };
        process.reply(id, &stepped_to_wire(self.inner.step(step).await));
    }

    fn answered(&self, ask: Ask) -> Answered<'_> {
        let (driver, shared) = (&*self.inner, self.inner.shared());
        match ask {
            Ask::Step { path, name, intent, deadline, done } => {
                Answered::Step(Box::new(WireStep { path, name, intent, deadline, done }))
            }
            Ask::Record(path, name, body) => now(&driver.record(&path, name, body)),
            Ask::Random(path, name) => now(&driver.random(&path, name)),
            Ask::Now => now(&driver.now_ms()),
            Ask::Begun(path, name) => now(&driver.begun(&path, &name)),
            Ask::ReservedBefore(path, since) => now(&driver.reserved_before(&path, since)),
            Ask::Cancelled => now(&driver.cancelled()),
            Ask::Calls(frame, calls) => later(async move { self.calls(calls, &WrittenDown(*frame)).await }),
            Ask::Exchange(path, name, question, known) => {
                later(async move { exchanged_to_wire(driver.exchange(&path, name, question, known).await) })
            }
            Ask::Sleep(path, name, time) => later(async move { driver.sleep(&path, name, time).await }),
            Ask::Open(account, spent, now_ms) => {
                later(async move { shared.open(&account, spent, now_ms).await })
            }
            Ask::Reserve(account, wanted) => later(async move { shared.reserve(&account, wanted).await }),
            Ask::Settle(account, reserved, used) => {
                later(async move { shared.settle(&account, reserved, used).await })
            }
            Ask::Remaining(account, now_ms) => later(async move { shared.remaining(&account, now_ms).await }),
            Ask::Waited(account, start, end) => {
                later(async move { shared.waited(&account, start, end).await })
            }
            Ask::Left(account) => later(async move { shared.left(&account).await }),
            Ask::ForgetAnswer(id) => later(async move { shared.forget(&id).await }),
            Ask::Remembers(key) => later(async move { shared.remembers(&key).await }),
            Ask::Did(path, effect) => later(async move { shared.did(&path, effect).await }),
            Ask::Undo(path, since) => later(async move { shared.undo(&path, since).await }),
            Ask::Restored(path, since, places) => {
                later(async move { shared.restored(&path, since, places).await })
            }
            Ask::Generate(path, name, arguments) => {
                later(async move { shared.generate(&path, name, arguments).await })
            }
            Ask::Generated(path) => later(async move { shared.generated(&path).await }),
            Ask::KeepResult(path, text) => later(async move { shared.keep_result(&path, &text).await }),
            Ask::Result(path, number) => later(async move { shared.result(&path, number).await }),
            Ask::State(package, name) => later(async move { shared.state(&package, &name).await }),
            Ask::SetState(package, name, value, origins, at_ms) => {
                later(async move { shared.set_state(&package, &name, value, origins, at_ms).await })
            }
            Ask::Forget(path) => later(async move { shared.ended(&path).await }),
        }
    }
}

struct WireStep {
    path: CallPath,
    name: StepName,
    intent: Option<RecordKind>,
    deadline: Option<Duration>,
    done: Option<RecordKind>,
}

enum Answered<'a> {
    Now(Value),
    Later(BoxFuture<'a, Value>),
    Step(Box<WireStep>),
}

fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap()
}

fn now<'a>(value: &impl Serialize) -> Answered<'a> {
    Answered::Now(json(value))
}

fn later<'a, T: Serialize>(work: impl Future<Output = T> + Send + 'a) -> Answered<'a> {
    Answered::Later(Box::pin(async move { json(&work.await) }))
}

/// The caller of the calls that another process requests. It is in that process.
struct WrittenDown(FrameSpec);

impl Caller for WrittenDown {
    fn frame(&self) -> FrameSpec {
        self.0.clone()
    }

    fn make<'a>(&'a self, _: CallSpec) -> BoxFuture<'a, Result<Outcome, Halt>> {
        unreachable!("this driver makes no call itself")
    }
}

/// A process that makes one call; it is ended with its handle.
struct Process {
    child: Mutex<Child>,
    stdin: Mutex<ChildStdin>,
}

impl Process {
    fn start(program: &str) -> (Self, mpsc::UnboundedReceiver<ToRun>) {
        let mut child = child(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, receiver) = mpsc::unbounded_channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let Some(message) = line.unwrap().strip_prefix(MARK).map(serde_json::from_str) else {
                    continue;
                };
                if sender.send(message.unwrap()).is_err() {
                    break;
                }
            }
        });
        (Self { child: Mutex::new(child), stdin: Mutex::new(stdin) }, receiver)
    }

    fn send(&self, message: &ToCall) {
        // A process that has just been ended hears nothing.
        let _ = self.stdin.lock().unwrap().write_all(line(message).as_bytes());
    }

    fn reply(&self, id: u64, value: &impl Serialize) {
        self.send(&ToCall::Reply(id, json(value)));
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Driver for InProcesses {
    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        Box::pin(join_all(calls.into_iter().map(|call| self.elsewhere(caller.frame(), call))))
    }

    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        self.inner.step(step)
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        self.inner.record(path, name, body)
    }

    fn shared(&self) -> &dyn Shared {
        self.inner.shared()
    }

    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        self.inner.untrusted_places()
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        self.inner.exchange(path, name, question, known)
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        self.inner.sleep(path, name, time)
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        self.inner.random(path, name)
    }

    fn settled(&self) -> BoxFuture<'_, Result<(), Halt>> {
        self.inner.settled()
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn begun(&self, path: &CallPath, step: &StepName) -> Option<RecordKind> {
        self.inner.begun(path, step)
    }

    fn reserved_before(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        self.inner.reserved_before(path, since)
    }

    fn cancelled(&self) -> bool {
        self.inner.cancelled()
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        self.inner.cancellation()
    }

    fn emit(&self, event: Event) {
        self.inner.emit(event);
    }
}
