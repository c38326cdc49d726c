//! The driver of a process that makes one call of a run which another process holds. Every method is a message.

use crate::wire::{Ask, ToCall, ToRun, WireExchanged, WireStepped, done, line, stepped_from_wire};
use llm_do::core::{
    account::{Account, Amount, Left, Spent, Wanted},
    authority::Place,
    budget::Reserved,
    call_path::CallPath,
    call_spec::CallSpec,
    driver::{Caller, Driver, Exchanged, Known, Step, StepName, Stepped},
    engine::{Halt, Outcome},
    event::Event,
    function::FunctionSource,
    journal::RecordKind,
    origin::{Origins, UntrustedPlaces, UntrustedSet},
    question::{Question, QuestionId},
    send::BoxFuture,
    shared::Shared,
    undo::SideEffect,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    collections::HashMap,
    io::Write,
    sync::{
        Arc, LazyLock, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};
use tokio::sync::mpsc as channel;

/// The reply to a request.
pub(crate) enum Arrived {
    Run,
    Reply(Value),
}

enum Waiting {
    /// The thread of the request is blocked.
    Blocked(mpsc::Sender<Arrived>),
    Future(channel::UnboundedSender<Arrived>),
}

#[derive(Default)]
pub(crate) struct RemoteDriver {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
}

impl RemoteDriver {
    /// Passes a message on to the call that waits for it.
    pub(crate) fn arrived(&self, message: ToCall) {
        let (id, arrived) = match message {
            ToCall::Start(..) => return,
            ToCall::Run(id) => (id, Arrived::Run),
            ToCall::Reply(id, value) => (id, Arrived::Reply(value)),
        };
        let waiting = self.waiting.lock().unwrap();
        match waiting.get(&id) {
            Some(Waiting::Blocked(sender)) => drop(sender.send(arrived)),
            Some(Waiting::Future(sender)) => drop(sender.send(arrived)),
            None => {}
        }
    }

    pub(crate) fn send(message: &ToRun) {
        let mut out = std::io::stdout().lock();
        out.write_all(line(message).as_bytes()).unwrap();
        out.flush().unwrap();
    }

    fn begin(&self, ask: Ask, waiting: Waiting) -> u64 {
        let id = self.last.fetch_add(1, Ordering::Relaxed);
        self.waiting.lock().unwrap().insert(id, waiting);
        Self::send(&ToRun::Ask(id, Box::new(ask)));
        id
    }

    /// Makes a request of a method that can't wait: blocks this process, which has nothing else to do.
    fn now<T: DeserializeOwned>(&self, ask: Ask) -> T {
        let (sender, receiver) = mpsc::channel();
        let id = self.begin(ask, Waiting::Blocked(sender));
        let Ok(Arrived::Reply(value)) = receiver.recv() else { panic!("no reply") };
        self.waiting.lock().unwrap().remove(&id);
        serde_json::from_value(value).unwrap()
    }

    fn ask<'a, T: DeserializeOwned + Send + 'a>(&'a self, ask: Ask) -> BoxFuture<'a, T> {
        let (sender, mut receiver) = channel::unbounded_channel();
        let id = self.begin(ask, Waiting::Future(sender));
        Box::pin(async move {
            let Some(Arrived::Reply(value)) = receiver.recv().await else { panic!("no reply") };
            self.waiting.lock().unwrap().remove(&id);
            serde_json::from_value(value).unwrap()
        })
    }
}

static NOWHERE: LazyLock<UntrustedSet> = LazyLock::new(UntrustedSet::default);

impl Driver for RemoteDriver {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<Stepped, Halt>> {
        let Step { path, name, intent, deadline, cut_off, run } = step;
        let (path, done) = (path.clone(), done(cut_off));
        let (sender, mut receiver) = channel::unbounded_channel();
        let id = self.begin(Ask::Step { path, name, intent, deadline, done }, Waiting::Future(sender));
        Box::pin(async move {
            let reply = match receiver.recv().await {
                Some(Arrived::Run) => {
                    tokio::select! {
                        body = run => {
                            Self::send(&ToRun::Ran(id, body));
                            receiver.recv().await
                        }
                        // It timed out, or the run was cancelled.
                        reply = receiver.recv() => reply,
                    }
                }
                reply => reply,
            };
            self.waiting.lock().unwrap().remove(&id);
            let Some(Arrived::Reply(value)) = reply else { panic!("no reply") };
            stepped_from_wire(serde_json::from_value::<WireStepped>(value).unwrap())
        })
    }

    fn record(&self, path: &CallPath, name: StepName, body: RecordKind) -> Result<(), Halt> {
        self.now(Ask::Record(path.clone(), name, body))
    }

    fn calls<'a>(
        &'a self,
        calls: Vec<CallSpec>,
        caller: &'a dyn Caller,
    ) -> BoxFuture<'a, Vec<Result<Outcome, Halt>>> {
        self.ask(Ask::Calls(Box::new(caller.frame()), calls))
    }

    fn shared(&self) -> &dyn Shared {
        self
    }

    /// The program of these tests has nothing untrusted.
    fn untrusted_places(&self) -> &dyn UntrustedPlaces {
        &*NOWHERE
    }

    fn exchange<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        question: Question,
        known: Known,
    ) -> BoxFuture<'a, Result<Exchanged, Halt>> {
        let reply = self.ask::<WireExchanged>(Ask::Exchange(path.clone(), name, question, known));
        Box::pin(async move { reply.await.map(|(reply, asked, waited)| Exchanged { reply, asked, waited }) })
    }

    fn sleep<'a>(
        &'a self,
        path: &'a CallPath,
        name: StepName,
        time: Duration,
    ) -> BoxFuture<'a, Result<(), Halt>> {
        self.ask(Ask::Sleep(path.clone(), name, time))
    }

    fn random(&self, path: &CallPath, name: StepName) -> Result<u64, Halt> {
        self.now(Ask::Random(path.clone(), name))
    }

    fn now_ms(&self) -> u64 {
        self.now(Ask::Now)
    }

    fn begun(&self, path: &CallPath, step: &StepName) -> Option<RecordKind> {
        self.now(Ask::Begun(path.clone(), step.clone()))
    }

    fn reserved_before(&self, path: &CallPath, since: u32) -> Vec<(Reserved, Option<RecordKind>)> {
        self.now(Ask::ReservedBefore(path.clone(), since))
    }

    fn cancelled(&self) -> bool {
        self.now(Ask::Cancelled)
    }

    fn cancellation(&self) -> BoxFuture<'_, ()> {
        // The process that holds the run ends this one.
        Box::pin(std::future::pending())
    }

    fn emit(&self, _: Event) {}

    fn listens(&self) -> bool {
        false
    }
}

impl Shared for RemoteDriver {
    fn open<'a>(&'a self, account: &'a Account, spent: Spent, now_ms: u64) -> BoxFuture<'a, ()> {
        self.ask(Ask::Open(account.clone(), spent, now_ms))
    }

    fn reserve<'a>(
        &'a self,
        account: &'a Account,
        wanted: Wanted,
    ) -> BoxFuture<'a, Result<Reserved, String>> {
        self.ask(Ask::Reserve(account.clone(), wanted))
    }

    fn settle<'a>(&'a self, account: &'a Account, reserved: Reserved, used: Amount) -> BoxFuture<'a, ()> {
        self.ask(Ask::Settle(account.clone(), reserved, used))
    }

    fn remaining<'a>(&'a self, account: &'a Account, now_ms: u64) -> BoxFuture<'a, Option<Duration>> {
        self.ask(Ask::Remaining(account.clone(), now_ms))
    }

    fn waited<'a>(&'a self, account: &'a Account, start_ms: u64, end_ms: u64) -> BoxFuture<'a, ()> {
        self.ask(Ask::Waited(account.clone(), start_ms, end_ms))
    }

    fn left<'a>(&'a self, account: &'a Account) -> BoxFuture<'a, Left> {
        self.ask(Ask::Left(account.clone()))
    }

    fn remembers<'a>(&'a self, question: &'a str) -> BoxFuture<'a, bool> {
        self.ask(Ask::Remembers(question.to_owned()))
    }

    fn forget<'a>(&'a self, question: &'a QuestionId) -> BoxFuture<'a, bool> {
        self.ask(Ask::ForgetAnswer(question.clone()))
    }

    fn did<'a>(&'a self, call: &'a CallPath, effect: SideEffect) -> BoxFuture<'a, ()> {
        self.ask(Ask::Did(call.clone(), effect))
    }

    fn undo<'a>(&'a self, conversation: &'a CallPath, since: u32) -> BoxFuture<'a, Vec<SideEffect>> {
        self.ask(Ask::Undo(conversation.clone(), since))
    }

    fn restored<'a>(
        &'a self,
        conversation: &'a CallPath,
        since: u32,
        places: Vec<Place>,
    ) -> BoxFuture<'a, ()> {
        self.ask(Ask::Restored(conversation.clone(), since, places))
    }

    fn generate<'a>(
        &'a self,
        creator: &'a CallPath,
        name: Arc<str>,
        arguments: Arc<Value>,
    ) -> BoxFuture<'a, ()> {
        self.ask(Ask::Generate(creator.clone(), name, arguments))
    }

    fn generated<'a>(&'a self, creator: &'a CallPath) -> BoxFuture<'a, Vec<(Arc<str>, Arc<Value>)>> {
        self.ask(Ask::Generated(creator.clone()))
    }

    fn keep_result<'a>(&'a self, conversation: &'a CallPath, text: &'a str) -> BoxFuture<'a, usize> {
        self.ask(Ask::KeepResult(conversation.clone(), text.to_owned()))
    }

    fn result<'a>(&'a self, conversation: &'a CallPath, number: usize) -> BoxFuture<'a, Option<Arc<str>>> {
        self.ask(Ask::Result(conversation.clone(), number))
    }

    fn state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
    ) -> BoxFuture<'a, Option<(Arc<Value>, Origins)>> {
        self.ask(Ask::State(package.clone(), name.to_owned()))
    }

    fn set_state<'a>(
        &'a self,
        package: &'a FunctionSource,
        name: &'a str,
        value: Arc<Value>,
        origins: Origins,
        at_ms: u64,
    ) -> BoxFuture<'a, ()> {
        self.ask(Ask::SetState(package.clone(), name.to_owned(), value, origins, at_ms))
    }

    fn ended<'a>(&'a self, path: &'a CallPath) -> BoxFuture<'a, ()> {
        self.ask(Ask::Forget(path.clone()))
    }
}
