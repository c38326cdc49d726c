//! The main loop of a chat: handles signals and runs the commands of the user.

pub(super) mod commands;
mod context;
mod decisions;
mod records;
mod saying;
mod starting;
mod status;

use super::{
    face::{Face, Status, Wish},
    known::Known,
    signal::Signal,
};
use crate::{exit::Exit, questions, render::how_to_answer};
use decisions::Decisions;
use llm_do::{
    FromRun, Replies, Report, Said, Transcript,
    dialogue::{Dialogue, Effect, Extent, Input, Leave, Manner, News, Refusal, Work},
};
use llm_do_core::{
    call_path::CallPath,
    engine::{End, Halt},
    gate::WithheldTool,
    journal::{Record, RecordKind, RunStatus},
    origin::Origin,
    outcome::FailureKind,
    question::{Answer, Question, Turn, Waiting},
    results::show,
    rule::Mode,
    server_tool::ServerTool,
};
use llm_do_records::RunView;
use serde_json::Value;
pub(super) use starting::{Begins, Left, Started, Starter};
use std::{
    collections::HashMap,
    ops::ControlFlow,
    path::Path,
    sync::{Arc, mpsc::Receiver},
    time::{Duration, Instant},
};

/// The channel through which the user answers, as recorded.
const VIA: &str = "chat";
/// Time between two updates of the timer in the status row.
const TICK: Duration = Duration::from_secs(1);
/// The most characters of a call that are shown.
const CALL: usize = 100;

/// Input of the user.
#[derive(Clone, Debug, PartialEq)]
enum Line {
    /// A line of a pipe, which is read as a message or a command when its turn comes.
    Piped(String),
    /// A message.
    Message(String),
}

impl Line {
    fn into_text(self) -> String {
        match self {
            Self::Piped(text) | Self::Message(text) => text,
        }
    }
}

/// A chat: the driver of a [`Dialogue`] over a terminal or lines.
pub(super) struct Talk<'a> {
    face: &'a mut dyn Face,
    signals: &'a Receiver<Signal>,
    starter: &'a mut dyn Starter,
    known: &'a Known,
    /// The entry, for the status row.
    worker: Arc<str>,
    extent: Extent,
    dialogue: Dialogue<Line>,
    run: Option<Started>,
    replies: Replies,
    decisions: Decisions,
    /// Conversations with the user, by their call.
    conversations: HashMap<CallPath, Conversation>,
    view: RunView,
    context: context::Context,
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
        extent: Extent,
    ) -> Self {
        let manner = Manner { extent, in_lines: face.is_piped(), listens: true };
        Self {
            face,
            signals,
            starter,
            known,
            worker,
            extent,
            dialogue: Dialogue::new(manner),
            run: None,
            replies: Replies::new(VIA),
            decisions: Decisions::default(),
            conversations: HashMap::new(),
            view: RunView::new(),
            context: context::Context::default(),
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
        let what = if self.extent == Extent::Chat { "chat" } else { "run" };
        self.face.note(&format!("{what} {} continues", started.id));
        self.began(started);
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
            Begins::Run(started) => self.began(started),
            Begins::Again(started, records) => self.resumed(started, &records),
        }
        loop {
            self.show_status();
            self.face.settle();
            if self.dialogue.is_over() {
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

    fn handle(&mut self, signal: Signal) -> ControlFlow<()> {
        let wish = match signal {
            Signal::Run(FromRun::Event(event)) => {
                self.event(&event);
                None
            }
            Signal::Run(FromRun::Asked(waiting, reply)) => {
                self.replies.keep(waiting.id.clone(), reply);
                self.take(Input::Asked(*waiting));
                None
            }
            Signal::Run(FromRun::Withdrawn(id)) => {
                self.take(Input::Withdrawn(id));
                None
            }
            Signal::Ended(report) => return self.ended(report),
            Signal::Terminal(event) => self.face.event(event),
            Signal::Line(line) => self.face.line(line),
            Signal::Interrupt => Some(Wish::Stop),
            Signal::Terminate => {
                self.take(Input::Terminate);
                None
            }
        };
        if let Some(wish) = wish {
            self.wish(wish);
        }
        ControlFlow::Continue(())
    }

    fn wish(&mut self, wish: Wish) {
        match wish {
            Wish::Say(line) => self.typed(line),
            Wish::Stop => {
                self.take(Input::Stop { talks: self.is_in_conversation() });
            }
            Wish::End => self.leave(Leave::End),
            Wish::Answer(id, answer) => {
                self.take(Input::Answer(id, answer));
            }
            Wish::Later(id) => {
                self.take(Input::Later(id));
            }
            Wish::EditQueued => {
                self.take(Input::EditQueued);
            }
        }
    }

    fn leave(&mut self, to: Leave) {
        self.take(Input::Leave { to, talks: self.is_in_conversation() });
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

    /// Passes an input to the dialogue, and executes the effects. Returns false if the dialogue refused it.
    fn take(&mut self, input: Input<Line>) -> bool {
        let effects = self.dialogue.take(input);
        let refused = effects.iter().any(|effect| matches!(effect, Effect::Refused(_)));
        effects.into_iter().for_each(|effect| self.act(effect));
        !refused
    }

    fn act(&mut self, effect: Effect<Line>) {
        match effect {
            Effect::Start(line, files) => self.start(line.into_text(), &files),
            Effect::Listen => match self.starter.listen() {
                Ok(started) => self.began(started),
                Err(problem) => {
                    let why = problem.text();
                    self.face.problem(&format!("{why}\n  this chat has to begin with your first message"));
                    self.take(Input::NotBegun);
                }
            },
            Effect::Go(Leave::Other(dir)) => self.switch(&dir),
            // A run that was left ends the chat, or is continued by its folder.
            Effect::Continue | Effect::Go(_) | Effect::Ended(_) => {}
            Effect::Deliver(Line::Piped(line)) => self.read(&line),
            Effect::Deliver(Line::Message(text)) => self.deliver(text),
            Effect::Words(id, line) => match self.face.line(Some(line.into_text())) {
                Some(wish) => self.wish(wish),
                // The line is no answer, and the next one may be.
                None => {
                    self.take(Input::InWords { id, queued: true });
                }
            },
            Effect::Interject(path, line) => {
                if let Some(run) = &self.run {
                    run.interjector.say(path, line.into_text());
                }
            }
            Effect::Answer(id, answer) => {
                self.replies.give(&id, answer);
                if self.dialogue.work().is_some() {
                    self.since.get_or_insert_with(Instant::now);
                }
            }
            Effect::Later(id) => {
                self.replies.later(&id);
                self.face.withdraw(&id);
            }
            Effect::Ask(waiting) => {
                self.face.ask(&waiting);
                if self.face.is_piped() {
                    self.take(Input::InWords { id: waiting.id, queued: true });
                }
            }
            Effect::Withdraw(id) => {
                self.replies.later(&id);
                self.face.withdraw(&id);
            }
            Effect::Turn(turn, work) => self.turn(&turn, work),
            Effect::Queued => {
                self.face.queue(self.dialogue.queue().iter().cloned().map(Line::into_text).collect());
            }
            Effect::Return(line) => self.face.compose(&line.into_text()),
            Effect::Undelivered(answers) => {
                if let Some(Answer::Give { value }) = answers.last() {
                    self.face.compose(&show(value));
                }
            }
            Effect::Stop => {
                if let Some(run) = &self.run {
                    run.stopper.stop();
                }
            }
            Effect::Cancel => {
                if let Some(run) = &self.run {
                    run.canceller.cancel();
                }
            }
            Effect::Refused(refusal @ Refusal::NothingToStop) => self.face.note(&refusal.to_string()),
            Effect::Refused(refusal) => self.face.problem(&refusal.to_string()),
            Effect::News(news) => self.face.note(&news.to_string()),
        }
    }

    /// Takes a line that the user typed, or a line of a pipe.
    fn typed(&mut self, line: String) {
        if self.face.is_piped() && self.dialogue.is_running() && self.dialogue.turn().is_none() {
            // Lines of a pipe are taken one after the other, commands among them.
            self.take(Input::Say(Line::Piped(line)));
        } else {
            self.read(&line);
        }
    }

    /// The conversation waits for the user.
    fn turn(&mut self, Turn { failure, context, .. }: &Turn, work: Work) {
        self.since = None;
        let unsaid = self.run.as_ref().map(|run| run.interjector.take_all()).unwrap_or_default();
        self.take(Input::Unsaid(unsaid.into_iter().map(Line::Message).collect()));
        self.takes(*context, failure.is_none());
        match failure {
            // Nothing new was said.
            _ if work != Work::Answer => {}
            Some(failure) => {
                self.face.problem(&failure.message);
                // The model gets the message again with the next one, and may refuse that, too.
                if matches!(failure.kind, FailureKind::Refusal | FailureKind::Model) {
                    self.face.note(
                        "your message stays in the conversation; /undo takes it back, /retry asks again",
                    );
                }
                self.face.notify("the answer failed");
            }
            None => self.face.notify("the answer is ready"),
        }
        self.take_waiting();
    }

    /// Takes the input that waits, as long as the user can speak.
    fn take_waiting(&mut self) {
        loop {
            let effects = self.dialogue.take(Input::Next);
            if effects.is_empty() {
                break;
            }
            effects.into_iter().for_each(|effect| self.act(effect));
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

    fn ended(&mut self, report: Box<Report>) -> ControlFlow<()> {
        self.join_run();
        self.since = None;
        self.replies.clear();
        let interrupted = report.status == RunStatus::Interrupted;
        let suspended = report.status == RunStatus::Suspended;
        let leaving = match self.dialogue.take(Input::Ended { can_continue: suspended || interrupted }).pop()
        {
            Some(Effect::Ended(leaving)) => leaving,
            _ => None,
        };
        if self.extent == Extent::Run {
            self.report = Some(report);
            return ControlFlow::Break(());
        }
        let left = suspended && leaving.is_some();
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
        if left || interrupted || halted || suspended {
            self.face.note(&format!("llm-do chat --resume {} continues this chat", report.run));
        }
        match leaving {
            Some(Leave::Fork) => {
                self.begin_again();
                match self.starter.fork(&report.dir) {
                    Ok(copy) => self.switch(&copy),
                    Err(problem) => {
                        self.face.problem(&format!("not copied: {}", problem.text()));
                        self.switch(&report.dir);
                    }
                }
            }
            Some(Leave::Other(dir)) => {
                self.begin_again();
                self.switch(&dir);
            }
            Some(Leave::New) => {
                self.begin_again();
                self.face.note(&News::Begins.to_string());
            }
            Some(Leave::End) | None => {
                if !left {
                    self.exit = Exit::from(&*report);
                }
                return ControlFlow::Break(());
            }
        }
        // What a pipe has given already.
        self.take_waiting();
        ControlFlow::Continue(())
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
        self.decisions = Decisions::default();
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
            self.replies.clear();
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
