//! The main loop of a chat: what happens, and what follows from it.

pub(super) mod commands;
mod context;
mod records;
mod saying;

use super::{
    face::{Face, Status, Wish},
    known::Known,
    signal::Signal,
};
use crate::{exit::Exit, opening::NotReady};
use commands::Typed;
use llm_do::{Report, Run, Said, Transcript, output_text};
use llm_do_core::{
    call_path::CallPath,
    engine::{End, Halt},
    gate::Gate,
    journal::{Record, RunStatus},
    model::{ModelName, Usage},
    origin::Origin,
    question::{Answer, Given, Input, Question, QuestionId, Reply, Turn, Waiting},
};
use llm_do_runs::{Canceller, Interjector, Stopper};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    path::{Path, PathBuf},
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

/// Starts runs of the chat.
pub(super) trait Starter {
    /// Starts a run with that first message and these files of the program.
    fn start(&mut self, message: String, files: &[String]) -> Result<Started, NotReady>;
    /// Goes on with the chat in that folder. Also gives its records.
    fn resume(&mut self, dir: &Path) -> Result<(Started, Vec<Record>), NotReady>;
    /// The rules of the run, beside those of its workers.
    fn gate(&self) -> &Gate;
    /// Copies the chat in that folder, which waits. Gives the folder of the copy.
    fn fork(&mut self, dir: &Path) -> Result<PathBuf, NotReady>;
}

/// A run that was started, on a thread of its own.
pub(super) struct Started {
    pub(super) id: Arc<str>,
    pub(super) stopper: Stopper,
    pub(super) canceller: Canceller,
    pub(super) interjector: Interjector,
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
        let interjector = run.interjector();
        let finish = move || {
            let report = runtime.block_on(run.finish());
            // A model that is cut off in the middle of its work is not waited for.
            runtime.shutdown_background();
            ended(report);
        };
        let thread = std::thread::Builder::new().name("run".into()).spawn(finish)?;
        Ok(Self { id, stopper, canceller, interjector, thread })
    }
}

/// The conversation that waits for the user's next message.
struct Pending {
    id: QuestionId,
    reply: oneshot::Sender<Reply>,
}

/// Why the conversation is left, as soon as it can be.
#[derive(Clone, PartialEq, Eq)]
enum Leaving {
    /// The chat ends.
    Chat,
    /// Another one begins.
    ForNew,
    /// A copy of it goes on.
    ForFork,
    /// The one in that folder goes on.
    For(PathBuf),
}

/// A chat.
pub(super) struct Talk<'a> {
    face: &'a mut dyn Face,
    signals: &'a Receiver<Signal>,
    starter: &'a mut dyn Starter,
    known: &'a Known,
    /// The entry, for the status row.
    worker: Arc<str>,
    run: Option<Started>,
    pending: Option<Pending>,
    asked: HashMap<QuestionId, (Question, oneshot::Sender<Reply>)>,
    queue: VecDeque<String>,
    /// Answers that follow the one that was just given, before anything else is taken.
    next: VecDeque<Answer>,
    /// The files that join the first message.
    first_files: Vec<String>,
    /// The calls whose answers are remembered, each in a line.
    remembered: Vec<String>,
    /// The answer that was just given is about the next message: nothing new was said.
    aside: bool,
    /// A message that was taken back and is said once more, before those of the queue.
    again: Option<String>,
    /// Conversations with the user, by their call.
    conversations: HashMap<CallPath, Conversation>,
    open: BTreeMap<CallPath, Open>,
    used: BTreeMap<(Arc<str>, String), Usage>,
    context: context::Context,
    leaving: Option<Leaving>,
    /// No more input comes: the chat is left when all of it is answered.
    over: bool,
    since: Option<Instant>,
    status: Status,
    exit: Exit,
}

struct Conversation {
    worker: Arc<str>,
    /// Of what it was given at its beginning.
    origin: Origin,
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
        known: &'a Known,
        worker: Arc<str>,
    ) -> Self {
        Self {
            face,
            signals,
            starter,
            known,
            worker,
            run: None,
            pending: None,
            asked: HashMap::new(),
            queue: VecDeque::new(),
            next: VecDeque::new(),
            first_files: Vec::new(),
            remembered: Vec::new(),
            aside: false,
            again: None,
            conversations: HashMap::new(),
            open: BTreeMap::new(),
            used: BTreeMap::new(),
            context: context::Context::default(),
            leaving: None,
            over: false,
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
        let is_open = |path: &&CallPath| self.open.contains_key(*path);
        let mut open: Vec<CallPath> = self.conversations.keys().filter(is_open).cloned().collect();
        open.sort();
        for path in open {
            let Some(conversation) = self.conversations.get(&path) else { continue };
            let (worker, origin) = (Arc::clone(&conversation.worker), conversation.origin);
            let parts = conversation.transcript.parts().to_vec();
            let is_root = path == CallPath::root();
            if !is_root {
                self.introduce(&path, &worker, origin);
            }
            for part in parts {
                match part {
                    // The first message of a conversation in the middle of a run is its caller's.
                    Said::User(0, ..) if !is_root => {}
                    Said::User(_, text, _) => self.face.said(&text),
                    Said::Worker(text, cut_off) => self.face.answer(&worker, &text, cut_off),
                }
            }
        }
        self.face.note(&format!("chat {} continues", started.id));
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
            Wish::End => {
                self.over = self.face.is_piped();
                self.leave(Leaving::Chat);
            }
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
            // Messages from a pipe are answered before the end.
            self.leaving = Some(leaving);
            return;
        }
        self.leaving = Some(leaving);
        if !self.face.is_piped() {
            self.queue.clear();
        }
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
        match commands::parse(line) {
            Typed::Message(text) => self.say(text),
            Typed::Command(command, arguments) => self.command(command, &arguments),
            Typed::Other(name, arguments) => self.worker_or_wrong(&name, &arguments),
            Typed::Wrong(why) => self.face.problem(&why),
        }
    }

    /// Shows that something is being done.
    fn working(&mut self) {
        self.since = Some(Instant::now());
    }

    fn show_queue(&mut self) {
        let queue: Vec<String> = self.queue.iter().cloned().collect();
        self.face.queue(&queue);
    }

    fn ask(&mut self, waiting: Waiting, reply: oneshot::Sender<Reply>) {
        let Question::Input(Input { conversation: Some(turn), .. }) = &waiting.question else {
            self.asked.insert(waiting.id.clone(), (waiting.question.clone(), reply));
            self.face.ask(&waiting);
            if self.face.is_piped() {
                self.answer_from_pipe();
            }
            return;
        };
        self.since = None;
        self.pending = Some(Pending { id: waiting.id, reply });
        if !self.next.is_empty() {
            self.working();
            self.give_next();
            return;
        }
        let unsaid = self.run.as_ref().map(|run| run.interjector.take_all()).unwrap_or_default();
        unsaid.into_iter().rev().for_each(|text| self.queue.push_front(text));
        let Turn { failure, context, .. } = turn;
        self.takes(*context, failure.is_none());
        if std::mem::take(&mut self.aside) {
            // Nothing new was said.
        } else if let Some(failure) = failure {
            self.face.problem(&failure.message);
            self.face.notify("the answer failed");
        } else {
            self.face.notify("the answer is ready");
        }
        self.go_on();
    }

    /// Answers the question with the next piped line. A pipe that is at its end leaves it unanswered.
    fn answer_from_pipe(&mut self) {
        let line = self.queue.pop_front();
        if line.is_none() && self.leaving.is_none() {
            return;
        }
        if let Some(wish) = self.face.line(line) {
            self.wish(wish);
        }
    }

    /// Leaves, or takes what waits, now that the conversation waits for the user.
    fn go_on(&mut self) {
        while self.pending.is_some() && self.leaving.as_ref().is_none_or(|why| *why == Leaving::Chat) {
            if let Some(text) = self.again.take() {
                self.say(text);
                break;
            }
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
        // The user can remove the cause of a halt, such as a full disk.
        let halted = matches!(report.halt, Some(Halt::Journal(_)));
        if left || interrupted || halted || report.status == RunStatus::Suspended {
            self.face.note(&format!("llm-do chat --resume {} continues this chat", report.run));
        }
        let next = self.leaving.take();
        if let Some(next @ (Leaving::ForNew | Leaving::ForFork | Leaving::For(_))) = next {
            self.begin_again();
            match next {
                Leaving::ForFork => match self.starter.fork(&report.dir) {
                    Ok(copy) => self.switch(&copy),
                    Err(problem) => {
                        self.face.problem(&format!("not copied: {}", problem.text()));
                        self.switch(&report.dir);
                    }
                },
                Leaving::For(dir) => self.switch(&dir),
                Leaving::ForNew | Leaving::Chat => {
                    self.face.note("a new chat begins with your next message");
                }
            }
            // What a pipe has given already.
            while self.run.is_none()
                && let Some(line) = self.queue.pop_front()
            {
                self.typed(&line);
            }
            self.leaving = self.over.then_some(Leaving::Chat);
            return std::ops::ControlFlow::Continue(());
        }
        self.leaving = next;
        if !left {
            self.exit = Exit::from(report);
        }
        std::ops::ControlFlow::Break(())
    }

    /// Forgets the run that was left.
    fn begin_again(&mut self) {
        self.conversations.clear();
        self.used.clear();
        self.context = context::Context::default();
        self.next.clear();
        self.remembered.clear();
        self.aside = false;
    }

    /// Goes on with the chat in that folder.
    fn switch(&mut self, dir: &Path) {
        match self.starter.resume(dir) {
            Ok((started, records)) => self.resumed(started, &records),
            Err(problem) => self.face.problem(&problem.text()),
        }
    }

    fn show_status(&mut self) {
        let total = self.used.values().fold(Usage::default(), |sum, usage| sum.plus(*usage));
        let model = self.open.get(&CallPath::root()).and_then(|open| open.model.as_ref());
        let mut about = vec![self.worker.to_string()];
        about.extend(model.map(ToString::to_string));
        if total.total() > 0 {
            about.push(used(total));
        }
        about.extend(self.context.short());
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
