//! The main loop of a chat: handles signals and runs the commands of the user.

pub(super) mod commands;
mod context;
mod decisions;
mod records;
mod saying;
mod starting;
mod status;

use super::{
    Kind,
    face::{Face, Status, Wish},
    known::Known,
    signal::Signal,
};
use crate::{exit::Exit, questions, render::how_to_answer};
use commands::Typed;
use decisions::Decisions;
use llm_do::{Report, Said, Transcript};
use llm_do_core::{
    call_path::CallPath,
    engine::{End, Halt},
    gate::WithheldTool,
    journal::{Record, RecordKind, RunStatus},
    origin::Origin,
    outcome::FailureKind,
    question::{Answer, Given, Input, Question, QuestionId, Reply, Turn, Waiting},
    rule::Mode,
    server_tool::ServerTool,
};
use llm_do_records::RunView;
use serde_json::Value;
pub(super) use starting::{Begins, Left, Started, Starter};
use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// The channel through which the user answers, as recorded.
const VIA: &str = "chat";
/// The message of a command that changes the conversation when the conversation does not wait for the user.
const NOT_YOUR_TURN: &str = "this needs your turn: wait for it, or stop the answer with Ctrl-C";
/// Time between two updates of the timer in the status row.
const TICK: Duration = Duration::from_secs(1);
/// The most characters of a call that are shown.
const CALL: usize = 100;

/// The conversation that waits for the user's next message.
struct Pending {
    id: QuestionId,
    reply: oneshot::Sender<Reply>,
}

/// The reason for leaving the conversation, as soon as that is possible.
#[derive(Clone, PartialEq, Eq)]
enum Leaving {
    /// The chat ends.
    Chat,
    /// Another chat begins.
    ForNew,
    /// A copy of the chat is continued.
    ForFork,
    /// The chat in that folder is continued.
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
    kind: Kind,
    run: Option<Started>,
    pending: Option<Pending>,
    asked: HashMap<QuestionId, (Question, oneshot::Sender<Reply>)>,
    queue: VecDeque<String>,
    /// Answers that follow the last one before any other input is taken.
    next: VecDeque<Answer>,
    /// The files that join the first message.
    first_files: Vec<String>,
    decisions: Decisions,
    /// True if the last answer was about the next message and not a message.
    aside: bool,
    /// A message that was taken back and is sent again, before those of the queue.
    again: Option<String>,
    /// Conversations with the user, by their call.
    conversations: HashMap<CallPath, Conversation>,
    view: RunView,
    context: context::Context,
    leaving: Option<Leaving>,
    /// True if no more input comes. The chat is left when all input is answered.
    over: bool,
    since: Option<Instant>,
    /// The time since which a question other than the one for the next message waits.
    asked_since: Option<Instant>,
    status: Status,
    exit: Exit,
    /// The report of a run that is no chat.
    report: Option<Box<Report>>,
}

struct Conversation {
    worker: Arc<str>,
    /// The origin of the worker's input.
    origin: Origin,
    tools: Vec<(String, String)>,
    withheld: Vec<WithheldTool>,
    /// Tools that the provider runs.
    server_tools: Vec<&'static str>,
}

impl Conversation {
    /// Returns the conversation that begins with that record, or `None` if none begins or it is not one with the user.
    fn begun(record: &RecordKind) -> Option<Self> {
        let RecordKind::ConversationStarted {
            worker,
            tools,
            withheld,
            server_tools,
            with_user: true,
            origin,
            ..
        } = record
        else {
            return None;
        };
        let tools = tools.iter().map(|tool| (tool.name.to_string(), tool.description.to_string()));
        Some(Self {
            worker: Arc::clone(worker),
            origin: *origin,
            tools: tools.collect(),
            withheld: withheld.clone(),
            server_tools: server_tools.iter().map(ServerTool::name).collect(),
        })
    }
}

impl<'a> Talk<'a> {
    pub(super) fn new(
        face: &'a mut dyn Face,
        signals: &'a Receiver<Signal>,
        starter: &'a mut dyn Starter,
        known: &'a Known,
        worker: Arc<str>,
        kind: Kind,
    ) -> Self {
        Self {
            face,
            signals,
            starter,
            known,
            worker,
            kind,
            run: None,
            pending: None,
            asked: HashMap::new(),
            queue: VecDeque::new(),
            next: VecDeque::new(),
            first_files: Vec::new(),
            decisions: Decisions::default(),
            aside: false,
            again: None,
            conversations: HashMap::new(),
            view: RunView::new(),
            context: context::Context::default(),
            leaving: None,
            over: false,
            since: None,
            asked_since: None,
            status: Status::default(),
            exit: Exit::Done,
            report: None,
        }
    }

    /// Continues a run that was started before, and shows its conversation.
    fn resumed(&mut self, started: Started, records: &[Record]) {
        for record in records {
            self.view.fold(record.into());
            self.note_record(record);
        }
        let is_open = |path: &&CallPath| self.view.call_under_way(path).is_some();
        let mut open: Vec<CallPath> = self.conversations.keys().filter(is_open).cloned().collect();
        open.sort();
        for path in open {
            let Some(conversation) = self.conversations.get(&path) else { continue };
            let (worker, origin) = (Arc::clone(&conversation.worker), conversation.origin);
            let parts = Transcript::of(&self.view, &path, &records::ended_line).into_parts();
            let is_root = path == CallPath::root();
            if !is_root {
                self.introduce(&path, &worker, origin);
            }
            self.show_parts(parts, &worker, is_root);
        }
        let what = if self.kind == Kind::Chat { "chat" } else { "run" };
        self.face.note(&format!("{what} {} continues", started.id));
        self.run = Some(started);
        self.since = Some(Instant::now());
    }

    /// Shows earlier parts of a conversation.
    fn show_parts(&mut self, parts: Vec<Said>, worker: &str, is_root: bool) {
        for part in parts {
            match part {
                // The first message of a conversation in the middle of a run is its caller's.
                Said::User(0, ..) if !is_root => {}
                Said::User(_, text, _) | Said::Meanwhile(text) => self.face.said(&text),
                Said::Worker(text, _) if text.trim().is_empty() => {}
                Said::Worker(text, cut_off) => self.face.answer(worker, &text, cut_off),
                Said::Called(called) => self.face.call(&called),
                Said::Held(held) => self.show_parts(held.parts, &held.worker, false),
                Said::Compacted(compacted) => self.face.note(&compacted.what),
            }
        }
    }

    /// Talks until the user leaves or the run ends.
    pub(super) fn hold(mut self, begins: Begins) -> Left {
        match begins {
            Begins::WithUser => {}
            Begins::Said(started, text) => self.said_first(&text, started),
            Begins::Run(started) => {
                self.run = Some(started);
                self.working();
            }
            Begins::Again(started, records) => self.resumed(started, &records),
        }
        loop {
            self.show_status();
            self.face.settle();
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
        self.report.map_or(Left::Chat(self.exit), Left::Run)
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
            Signal::Ended(report) => return self.ended(report),
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

    /// Stops the current answer.
    fn interrupt(&mut self) {
        match &self.run {
            // Without a conversation there is no answer to stop.
            Some(run) if self.kind == Kind::Run && !self.is_in_conversation() => run.canceller.cancel(),
            Some(run) if self.pending.is_none() => {
                run.stopper.stop();
                // Questions of the calls that are being stopped are withdrawn. Only the user knows what became of a tool
                // that was interrupted: without an answer the run is suspended.
                self.asked.retain(|id, (question, _)| {
                    let settlement = matches!(question, Question::Settlement(_));
                    if settlement {
                        self.face.withdraw(id);
                    }
                    if id.step.is_restore() {
                        self.face.note("the files stay as they are: /undo took back the messages alone");
                    }
                    !settlement
                });
            }
            _ => self.face.note("nothing is being done; Ctrl-D or /exit leaves the chat"),
        }
    }

    /// Returns the innermost current conversation with the user.
    fn under_way(&self) -> Option<&CallPath> {
        let under_way = self.conversations.keys().filter(|path| self.view.call_under_way(path).is_some());
        under_way.max_by_key(|path| path.depth())
    }

    /// Returns true if a conversation with the user is under way.
    fn is_in_conversation(&self) -> bool {
        self.under_way().is_some()
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
        let in_conversation = self.is_in_conversation();
        match (self.pending.take(), &self.run) {
            (Some(pending), _) => drop(pending.reply.send(Reply::Later)),
            (None, Some(run)) if self.kind == Kind::Run && !in_conversation => run.canceller.cancel(),
            (None, Some(run)) => run.stopper.stop(),
            (None, None) => {}
        }
    }

    fn typed(&mut self, line: &str) {
        let is_busy = self.since.is_some() || self.run.is_some() && self.pending.is_none();
        if self.face.is_piped() && is_busy {
            // Lines of a pipe are taken one after the other, commands among them.
            self.queue.push_back(line.to_owned());
            return;
        }
        match commands::parse(line) {
            Typed::Message(text) => self.say(text),
            Typed::Command(command, arguments) => {
                self.face.command(line);
                self.command(command, &arguments);
            }
            Typed::Other(name, arguments) => {
                self.face.command(line);
                self.worker_or_wrong(&name, &arguments);
            }
            Typed::Wrong(why) => {
                self.face.command(line);
                self.face.problem(&why);
            }
        }
    }

    /// Shows that work is in progress.
    fn working(&mut self) {
        self.since = Some(Instant::now());
    }

    fn show_queue(&mut self) {
        self.face.queue(&self.queue);
    }

    fn ask(&mut self, waiting: Waiting, reply: oneshot::Sender<Reply>) {
        let Question::Input(Input { conversation: Some(turn), .. }) = &waiting.question else {
            self.asked.insert(waiting.id.clone(), (waiting.question.clone(), reply));
            self.face.ask(&waiting);
            if self.face.is_piped() {
                self.answer_from_pipe(&waiting.id);
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
            // The model gets the message again with the next one, and may refuse that, too.
            if matches!(failure.kind, FailureKind::Refusal | FailureKind::Model) {
                self.face
                    .note("your message stays in the conversation; /undo takes it back, /retry asks again");
            }
            self.face.notify("the answer failed");
        } else {
            self.face.notify("the answer is ready");
        }
        self.take_waiting();
    }

    /// Answers the question with the next piped line that is an answer. At the end of the pipe, the question stays
    /// open.
    fn answer_from_pipe(&mut self, id: &QuestionId) {
        while self.asked.contains_key(id) {
            let line = self.queue.pop_front();
            if line.is_none() && self.leaving.is_none() {
                return;
            }
            if let Some(wish) = self.face.line(line) {
                self.wish(wish);
            }
        }
    }

    /// Leaves the chat or takes the next waiting input, when the conversation waits for the user.
    fn take_waiting(&mut self) {
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

    /// Shows the deferred approvals. A chat that continues does not ask about them, so that the command line decides
    /// first. `--quiet` does not hide this, because the chat can't continue without a decision.
    fn tell_deferred(&mut self, run: &str, waiting: &[Waiting]) {
        if self.starter.gate().mode != Mode::Defer {
            return;
        }
        let approvals = waiting.iter().filter(|waiting| matches!(waiting.question, Question::Approval(_)));
        let approvals: Vec<Waiting> = approvals.cloned().collect();
        for waiting in &approvals {
            self.face.page(&format!("deferred: {}", questions::summary(&waiting.question).text()));
        }
        for how in how_to_answer(run, &approvals) {
            self.face.page(&how);
        }
    }

    fn ended(&mut self, report: Box<Report>) -> std::ops::ControlFlow<()> {
        if self.kind == Kind::Run {
            self.join_run();
            self.report = Some(report);
            return std::ops::ControlFlow::Break(());
        }
        self.join_run();
        self.since = None;
        self.pending = None;
        let left = report.status == RunStatus::Suspended && self.leaving.is_some();
        let interrupted = report.status == RunStatus::Interrupted;
        match &report.end {
            End::Done(value) => {
                let worker = Arc::clone(&self.worker);
                self.show_output(&worker, value);
            }
            End::Failed(failure) if !interrupted => self.face.problem(&failure.message),
            _ => {}
        }
        if let End::Suspended(waiting) = &report.end {
            self.tell_deferred(&report.run, waiting);
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
            self.exit = Exit::from(&*report);
        }
        std::ops::ControlFlow::Break(())
    }

    /// Joins the thread of the run that has sent its report, so that it ends.
    fn join_run(&mut self) {
        if let Some(run) = self.run.take() {
            let _ = run.thread.join();
        }
    }

    /// Discards the state of the run that was left.
    fn begin_again(&mut self) {
        self.conversations.clear();
        self.view = RunView::new();
        self.context = context::Context::default();
        self.next.clear();
        self.decisions = Decisions::default();
        self.aside = false;
    }

    /// Continues the chat in that folder.
    fn switch(&mut self, dir: &Path) {
        match self.starter.resume(dir) {
            Ok((started, records)) => self.resumed(started, &records),
            Err(problem) => self.face.problem(&problem.text()),
        }
    }

    /// Restores the terminal. A run that is still active is interrupted, and can be resumed.
    fn end(&mut self) {
        if let Some(run) = self.run.take() {
            self.pending = None;
            self.asked.clear();
            run.cancel();
        }
        self.face.leave();
    }
}

/// Formats arguments as ` path="notes.txt" offset=3`.
fn arguments(input: &Value) -> String {
    let pairs = input.as_object().into_iter().flatten().map(|(name, value)| format!(" {name}={value}"));
    pairs.collect()
}

fn start(text: &str, most: usize) -> String {
    llm_do::program::visible::start(&llm_do::program::visible::line(text), most).into_owned()
}
