//! The main loop of a chat: what happens, and what follows from it.

mod commands;

use super::{
    command::{self, Typed},
    face::{Face, Status, Wish},
    signal::Signal,
};
use crate::{exit::Exit, opening::NotReady};
use llm_do::{Report, Run, Said, Transcript, output_text};
use llm_do_core::{
    call_path::CallPath,
    engine::End,
    event::Event,
    journal::{Ending, Record, RecordKind, RunStatus},
    model::{Delta, ModelName, Part as ModelPart, Usage},
    question::{Answer, Given, Input, Question, QuestionId, Reply, Turn, Waiting},
};
use llm_do_records::duration;
use llm_do_runs::{Canceller, Stopper};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, mpsc::Receiver},
    thread::JoinHandle,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Through what the user answers, as recorded.
const VIA: &str = "chat";
/// How often the status row counts while something is done.
const TICK: Duration = Duration::from_secs(1);
/// Characters of a call that are shown.
const CALL: usize = 100;
/// Chats are saved under this name unless the user names a file.
const SAVED: &str = "chat.md";

/// Starts runs of the chat.
pub(super) trait Starter {
    /// Starts a run with that first message.
    fn start(&mut self, message: String) -> Result<Started, NotReady>;
}

/// A run that was started, on a thread of its own.
pub(super) struct Started {
    pub(super) id: Arc<str>,
    pub(super) stopper: Stopper,
    pub(super) canceller: Canceller,
    pub(super) thread: JoinHandle<()>,
}

impl Started {
    /// Runs it on a thread. `ended` is called with its report.
    pub(super) fn spawn(
        runtime: tokio::runtime::Runtime,
        run: Run,
        ended: impl FnOnce(Report) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (id, stopper, canceller) = (Arc::clone(run.id()), run.stopper(), run.canceller());
        let finish = move || {
            let report = runtime.block_on(run.finish());
            // A model that is cut off in the middle of its work is not waited for.
            runtime.shutdown_background();
            ended(report);
        };
        let thread = std::thread::Builder::new().name("run".into()).spawn(finish)?;
        Ok(Self { id, stopper, canceller, thread })
    }
}

/// The conversation that waits for the user's next message.
struct Pending {
    id: QuestionId,
    reply: oneshot::Sender<Reply>,
}

/// Why the conversation is left, as soon as it can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leaving {
    /// The chat ends.
    Chat,
    /// Another one begins.
    ForNew,
}

/// A chat.
pub(super) struct Talk<'a> {
    face: &'a mut dyn Face,
    signals: &'a Receiver<Signal>,
    starter: &'a mut dyn Starter,
    /// The entry, for the status row.
    worker: Arc<str>,
    run: Option<Started>,
    pending: Option<Pending>,
    asked: HashMap<QuestionId, (Question, oneshot::Sender<Reply>)>,
    queue: VecDeque<String>,
    /// Conversations with the user, by their call.
    conversations: HashMap<CallPath, Conversation>,
    open: BTreeMap<CallPath, Open>,
    used: BTreeMap<(Arc<str>, String), Usage>,
    leaving: Option<Leaving>,
    since: Option<Instant>,
    status: Status,
    exit: Exit,
}

struct Conversation {
    worker: Arc<str>,
    tools: Vec<(String, String)>,
    transcript: Transcript,
}

/// A call under way.
struct Open {
    function: Arc<str>,
    input: Arc<Value>,
    /// When it began to work, later by the time that it has waited for the user.
    began_ms: u64,
    asked_ms: u64,
    worker: Option<Arc<str>>,
    model: Option<ModelName>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        face: &'a mut dyn Face,
        signals: &'a Receiver<Signal>,
        starter: &'a mut dyn Starter,
        worker: Arc<str>,
    ) -> Self {
        Self {
            face,
            signals,
            starter,
            worker,
            run: None,
            pending: None,
            asked: HashMap::new(),
            queue: VecDeque::new(),
            conversations: HashMap::new(),
            open: BTreeMap::new(),
            used: BTreeMap::new(),
            leaving: None,
            since: None,
            status: Status::default(),
            exit: Exit::Done,
        }
    }

    /// Goes on with a run that was started before, and shows what was said in it.
    pub(super) fn resumed(&mut self, started: Started, records: &[Record]) {
        for record in records {
            self.note_record(record);
        }
        if let Some(conversation) = self.conversations.get(&CallPath::root()) {
            let worker = Arc::clone(&conversation.worker);
            for part in conversation.transcript.parts().to_vec() {
                match part {
                    Said::User(_, text) => self.face.said(&text),
                    Said::Worker(text, cut_off) => self.face.answer(&worker, &text, cut_off),
                }
            }
        }
        self.face.note(&format!("chat {} goes on", started.id));
        self.run = Some(started);
        self.since = Some(Instant::now());
    }

    /// Talks until the user leaves or the run ends. `first` is said first.
    pub(super) fn hold(mut self, first: Option<String>) -> Exit {
        if let Some(first) = first {
            self.say(first);
        }
        loop {
            self.show_status();
            if self.leaving == Some(Leaving::Chat) && self.run.is_none() {
                break;
            }
            let signal = match self.since {
                // The time that something takes is counted only while it does.
                Some(_) => self.signals.recv_timeout(TICK).ok(),
                None => match self.signals.recv() {
                    Ok(signal) => Some(signal),
                    Err(_) => break,
                },
            };
            if let Some(signal) = signal
                && self.handle(signal).is_break()
            {
                break;
            }
        }
        self.end();
        self.exit
    }

    fn handle(&mut self, signal: Signal) -> std::ops::ControlFlow<()> {
        match signal {
            Signal::Event(event) => self.event(&event),
            Signal::Asked(waiting, reply) => self.ask(*waiting, reply),
            Signal::Withdrawn(id) => {
                self.asked.remove(&id);
                self.pending = self.pending.take().filter(|pending| pending.id != id);
                self.face.withdraw(&id);
            }
            Signal::Ended(report) => return self.ended(&report),
            Signal::Terminal(event) => {
                if let Some(wish) = self.face.event(event) {
                    self.wish(wish);
                }
            }
            Signal::Line(line) => {
                if let Some(wish) = self.face.line(line) {
                    self.wish(wish);
                }
            }
            Signal::Interrupt => self.interrupt(),
            Signal::Terminate => {
                self.leaving = Some(Leaving::Chat);
                match &self.run {
                    Some(run) => run.canceller.cancel(),
                    None => return std::ops::ControlFlow::Break(()),
                }
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::Say(line) => self.typed(&line),
            Wish::Stop => self.interrupt(),
            Wish::End => self.leave(Leaving::Chat),
            Wish::Answer(id, answer) => self.answer(&id, Reply::Given(Given::operator(answer, VIA))),
            Wish::Later(id) => self.answer(&id, Reply::Later),
            Wish::EditQueued => {
                if let Some(text) = self.queue.pop_back() {
                    self.face.compose(&text);
                    self.show_queue();
                }
            }
        }
    }

    fn answer(&mut self, id: &QuestionId, reply: Reply) {
        if let Some((_, sender)) = self.asked.remove(id) {
            // A run that is over needs no answer.
            let _ = sender.send(reply);
        }
    }

    /// Stops the answer under way.
    fn interrupt(&mut self) {
        match &self.run {
            Some(run) if self.pending.is_none() => {
                run.stopper.stop();
                // Questions of the calls that are being stopped are withdrawn. Only the user knows what became of a tool
                // that was interrupted: without an answer the run is suspended.
                self.asked.retain(|id, (question, _)| {
                    let settlement = matches!(question, Question::Settlement(_));
                    if settlement {
                        self.face.withdraw(id);
                    }
                    !settlement
                });
            }
            _ => self.face.note("nothing is being done; Ctrl-D or /exit leaves the chat"),
        }
    }

    fn leave(&mut self, leaving: Leaving) {
        if self.face.is_piped()
            && leaving == Leaving::Chat
            && (self.since.is_some() || !self.queue.is_empty())
        {
            // What was piped is answered before the end.
            self.leaving = Some(leaving);
            return;
        }
        self.leaving = Some(leaving);
        self.queue.clear();
        match (self.pending.take(), &self.run) {
            (Some(pending), _) => drop(pending.reply.send(Reply::Later)),
            (None, Some(run)) => run.stopper.stop(),
            (None, None) => {}
        }
    }

    fn typed(&mut self, line: &str) {
        if self.face.is_piped() && self.since.is_some() {
            // Lines of a pipe are taken one after the other, commands among them.
            self.queue.push_back(line.to_owned());
            return;
        }
        match command::parse(line) {
            Typed::Message(text) => self.say(text),
            Typed::Command(command) => self.command(command),
            Typed::Wrong(why) => self.face.problem(&why),
        }
    }

    /// Says something to the worker, or queues it while an answer is made.
    fn say(&mut self, text: String) {
        let Some(Pending { reply, .. }) = self.pending.take() else {
            if self.run.is_some() {
                self.queue.push_back(text);
                self.show_queue();
                return;
            }
            self.face.user(&text);
            match self.starter.start(text.clone()) {
                Ok(started) => {
                    self.run = Some(started);
                    self.since = Some(Instant::now());
                }
                Err(problem) => {
                    self.exit = Exit::Wrong;
                    self.face.problem(&problem.text());
                    self.face.compose(&text);
                    if self.face.is_piped() {
                        self.leaving = Some(Leaving::Chat);
                    }
                }
            }
            return;
        };
        self.face.user(&text);
        self.since = Some(Instant::now());
        let answer = Answer::Give { value: Arc::new(Value::String(text)) };
        let _ = reply.send(Reply::Given(Given::operator(answer, VIA)));
    }

    fn show_queue(&mut self) {
        let queue: Vec<String> = self.queue.iter().cloned().collect();
        self.face.queue(&queue);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Record { record } => {
                self.show_record(record);
                self.note_record(record);
            }
            Event::Delta { path, delta: Delta::Text { text }, .. } => {
                if let Some(conversation) = self.conversations.get(path) {
                    self.face.delta(&conversation.worker, text);
                }
            }
            Event::Delta { .. } => {}
            Event::Discard { path, .. } => {
                if self.conversations.contains_key(path) {
                    self.face.discard();
                }
            }
        }
    }

    /// Keeps what later commands need of a record.
    fn note_record(&mut self, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::CallStarted { function, input, .. } => {
                let (function, input) = (Arc::clone(function), Arc::clone(input));
                let at_ms = record.at_ms;
                let open =
                    Open { function, input, began_ms: at_ms, asked_ms: at_ms, worker: None, model: None };
                self.open.insert(path.clone(), open);
            }
            RecordKind::ConversationStarted { worker, model, tools, with_user, .. } => {
                if let Some(open) = self.open.get_mut(path) {
                    (open.worker, open.model) = (Some(Arc::clone(worker)), Some(model.clone()));
                }
                if *with_user {
                    let tools =
                        tools.iter().map(|tool| (tool.name.to_string(), tool.description.to_string()));
                    let conversation = Conversation {
                        worker: Arc::clone(worker),
                        tools: tools.collect(),
                        transcript: Transcript::default(),
                    };
                    self.conversations.insert(path.clone(), conversation);
                }
            }
            RecordKind::Asked(_) => {
                if let Some(open) = self.open.get_mut(path) {
                    open.asked_ms = record.at_ms;
                }
            }
            RecordKind::Answered(_) => {
                if let Some(open) = self.open.get_mut(path) {
                    open.began_ms += record.at_ms.saturating_sub(open.asked_ms);
                }
            }
            RecordKind::ModelAnswered { usage, .. } => {
                if let Some(Open { worker: Some(worker), model: Some(model), .. }) = self.open.get(path) {
                    let used = self.used.entry((Arc::clone(worker), model.to_string())).or_default();
                    *used = used.plus(*usage);
                }
            }
            RecordKind::ToolEnded { .. } | RecordKind::CallEnded { .. } if *path != CallPath::root() => {
                self.open.remove(path);
            }
            _ => {}
        }
        if let Some(conversation) = self.conversations.get_mut(path) {
            conversation.transcript.record(record);
        }
    }

    /// Shows what a record tells.
    fn show_record(&mut self, record: &Record) {
        let path = &record.path;
        match &record.body {
            RecordKind::ModelAnswered { message, finish, .. } => {
                let Some(conversation) = self.conversations.get(path) else { return };
                let text = message.text();
                let has_text = message
                    .parts
                    .iter()
                    .any(|part| matches!(part, ModelPart::Text { text } if !text.trim().is_empty()));
                if has_text {
                    let cut_off = *finish == llm_do_core::model::FinishReason::Stopped;
                    let worker = Arc::clone(&conversation.worker);
                    self.face.answer(&worker, &text, cut_off);
                }
            }
            RecordKind::ConversationStarted { worker, with_user: true, .. } if *path != CallPath::root() => {
                let above = self.open.iter().filter(|(other, _)| *other != path && path.is_within(other));
                let chain: Vec<&str> = above.filter_map(|(_, open)| open.worker.as_deref()).collect();
                let chain = [chain, vec![worker]].concat().join(" → ");
                self.face.note(&format!("{chain} talks to you; /done ends this conversation"));
            }
            RecordKind::ModelFailed { error } => self.face.note(&format!("↻ {}", error.message)),
            RecordKind::Note { text } => self.face.note(text),
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. }
                if *path != CallPath::root() =>
            {
                let Some(open) = self.open.get(path) else { return };
                let took = duration(record.at_ms.saturating_sub(open.began_ms));
                let what = start(&format!("{}{}", open.function, arguments(&open.input)), CALL);
                let (line, done) = match ending {
                    Ending::Output(_) => (format!("{what}  {took}"), true),
                    Ending::Suspended => return,
                    Ending::Failure(failure) => (format!("{what}  {}", start(&failure.message, CALL)), false),
                };
                self.face.call(path.depth().saturating_sub(1), &line, done);
            }
            _ => {}
        }
    }

    fn ask(&mut self, waiting: Waiting, reply: oneshot::Sender<Reply>) {
        let Question::Input(Input { conversation: Some(turn), .. }) = &waiting.question else {
            self.asked.insert(waiting.id.clone(), (waiting.question.clone(), reply));
            self.face.ask(&waiting);
            if self.face.is_piped()
                && let Some(line) = self.queue.pop_front()
                && let Some(wish) = self.face.line(Some(line))
            {
                self.wish(wish);
            }
            return;
        };
        self.since = None;
        let Turn { failure, .. } = turn;
        if let Some(failure) = failure {
            self.face.problem(&failure.message);
            self.face.notify("the answer failed");
        } else {
            self.face.notify("the answer is ready");
        }
        self.pending = Some(Pending { id: waiting.id, reply });
        self.go_on();
    }

    /// Leaves, or takes what waits, now that the conversation waits for the user.
    fn go_on(&mut self) {
        while self.pending.is_some() && self.leaving != Some(Leaving::ForNew) {
            let Some(next) = self.queue.pop_front() else { break };
            self.show_queue();
            self.typed(&next);
        }
        if self.pending.is_some() && self.leaving.is_some() {
            self.leave_now();
        }
    }

    fn leave_now(&mut self) {
        if let Some(pending) = self.pending.take() {
            let _ = pending.reply.send(Reply::Later);
        }
    }

    fn ended(&mut self, report: &Report) -> std::ops::ControlFlow<()> {
        if let Some(run) = self.run.take() {
            // It has sent its report, so it ends.
            let _ = run.thread.join();
        }
        self.since = None;
        (self.pending, self.open) = (None, BTreeMap::new());
        let left = report.status == RunStatus::Suspended && self.leaving.is_some();
        let interrupted = report.status == RunStatus::Interrupted;
        match &report.end {
            End::Done(value) => self.face.page(&output_text(value, true)),
            End::Failed(failure) if !interrupted => self.face.problem(&failure.message),
            _ => {}
        }
        if left || interrupted || report.status == RunStatus::Suspended {
            self.face.note(&format!("llm-do chat --resume {} goes on with this chat", report.run));
        }
        if self.leaving == Some(Leaving::ForNew) {
            self.leaving = None;
            self.conversations.clear();
            self.used.clear();
            self.face.note("a new chat begins with your next message");
            return std::ops::ControlFlow::Continue(());
        }
        if !left {
            self.exit = Exit::from(report);
        }
        std::ops::ControlFlow::Break(())
    }

    fn show_status(&mut self) {
        let total = self.used.values().fold(Usage::default(), |sum, usage| sum.plus(*usage));
        let model = self.open.get(&CallPath::root()).and_then(|open| open.model.as_ref());
        let mut about = vec![self.worker.to_string()];
        about.extend(model.map(ToString::to_string));
        if total.total() > 0 {
            about.push(used(total));
        }
        let doing = self.since.map(|since| {
            let call = self.open.iter().rfind(|(path, _)| **path != CallPath::root());
            let what = call.map_or("answering".into(), |(_, open)| open.function.to_string());
            format!("{what} {}s", since.elapsed().as_secs())
        });
        let status = Status { doing, about: about.join(" · ") };
        if status != self.status {
            self.face.status(&status);
            self.status = status;
        }
    }

    /// Leaves the terminal as it was. A run that is still under way is interrupted, and can be resumed.
    fn end(&mut self) {
        if let Some(run) = self.run.take() {
            self.pending = None;
            self.asked.clear();
            run.canceller.cancel();
            let _ = run.thread.join();
        }
        self.face.leave();
    }
}

fn used(usage: Usage) -> String {
    let mut said = vec![format!(
        "{} in, {} out",
        usage.input_tokens.map_or("?".into(), llm_do_records::thousands),
        usage.output_tokens.map_or("?".into(), llm_do_records::thousands)
    )];
    said.extend(
        usage
            .cached_tokens
            .filter(|cached| *cached > 0)
            .map(|cached| format!("{} of these cached", llm_do_records::thousands(cached))),
    );
    said.extend(usage.cost_usd.map(|cost| cost.to_string()));
    said.join(", ")
}

/// ` path="notes.txt" offset=3`.
fn arguments(input: &Value) -> String {
    let pairs = input.as_object().into_iter().flatten().map(|(name, value)| format!(" {name}={value}"));
    pairs.collect()
}

fn start(text: &str, most: usize) -> String {
    llm_do::program::visible::start(&llm_do::program::visible::line(text), most).into_owned()
}
