//! `llm-do chat`: a conversation with one worker, which is one run.

mod face;
mod known;
mod past_lines;
mod plain;
mod rich;
mod signal;
mod talk;
mod words;

use crate::{
    args::{ChatArgs, Format},
    commands::run::say,
    exit::{Complaint, Exit},
    meant,
    opening::{Asked, NotReady, asking, given, said, settings, surrounded},
    past_runs,
    program::{home, show_complaint},
    render::{Output, show_report},
};
use face::Face;
use known::Known;
use llm_do::{
    Decisions, FromRun, Input, PastRun, Problem, Run, RunOptions, RunPort, Session, dialogue::Extent,
    program::Diagnostic,
};
use llm_do_core::gate::{Gate, RuleLine};
use llm_do_core::journal::{Record, RecordKind};
use llm_do_core::operator::{OneAtATime, Operator};
use llm_do_core::worker::{ATTACHMENTS, WorkerDefinition, WorkerMode};
use llm_do_runs::EventSink;
use past_lines::PastLines;
use plain::PlainFace;
use rich::RichFace;
use serde_json::{Map, Value};
use signal::Signal;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM},
    iterator::Signals,
};
use std::{
    env,
    io::{self, BufRead as _, IsTerminal as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};
use talk::{Begins, Left, Started, Starter, Talk};

/// Runs the command.
pub(crate) fn run(args: &ChatArgs, output: &Output) -> Exit {
    if args.run.to.is_some() {
        let complaint = Complaint::wrong("a chat has no single result that -o could write to a file");
        return show_complaint(&complaint.hint("`llm-do runs export --html -o FILE` keeps a chat"), output);
    }
    let asked = match Asked::open(None) {
        Ok(asked) => asked,
        Err(complaint) => return show_complaint(&complaint, output),
    };
    match ready(args, &asked, output) {
        Ok(chat) => {
            hold(chat, args.plain, output).unwrap_or_else(|complaint| show_complaint(&complaint, output))
        }
        Err(not_ready) => said(not_ready, output),
    }
}

/// A chat that can begin, or a run in which workers talk to the user.
pub(crate) struct Chat {
    session: Session,
    kind: Extent,
    /// The parts of the input that go with the first message, or the input of the run.
    input: Input,
    /// The run to continue.
    past: Option<PastRun>,
}

impl Chat {
    /// Returns a chat with the entry of a session, which begins with the message of `input` if it has one.
    pub(crate) fn of(session: Session, input: Input) -> Self {
        Self { session, kind: Extent::Chat, input, past: None }
    }

    /// Returns a run in which workers talk to the user.
    pub(crate) fn in_run(session: Session, input: Input) -> Self {
        Self { session, kind: Extent::Run, input, past: None }
    }

    /// Returns a run to be continued.
    pub(crate) fn resumed(session: Session, past: PastRun) -> Self {
        let kind = if past.invocation().chat { Extent::Chat } else { Extent::Run };
        Self { session, kind, input: Input::default(), past: Some(past) }
    }
}

/// Returns true if a worker that a run may call holds conversations with the user.
pub(crate) fn is_held_in(session: &Session) -> bool {
    let workers = session.program().loaded();
    workers.iter().any(|worker| worker.interactive && worker.mode == WorkerMode::Chat)
}

/// Opens the program, and reads its input.
fn ready(args: &ChatArgs, asked: &Asked, output: &Output) -> Result<Chat, NotReady> {
    if args.run.approval.operator.is_some() {
        return Err(Complaint::wrong("--operator is not available for chat: you answer its questions here")
            .hint("a program holds a conversation with `llm-do run --operator` and a worker with `interaction: user`, or with `llm-do acp`")
            .into());
    }
    if let Some(dir) = past(args)? {
        let past = PastRun::open(&dir, &home()).map_err(Problem::from)?;
        if !past.invocation().chat {
            let id = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            return Err(Complaint::wrong(format!("run {id} is no chat"))
                .hint(format!("`llm-do runs resume {id}` continues it"))
                .into());
        }
        past.admits(&Decisions::default()).map_err(Problem::from)?;
        let settings = past.settings(surrounded()?).map_err(Problem::from)?;
        let session = Session::open(asking(settings, asked, output))?;
        return Ok(Chat::resumed(session, past));
    }
    let mut settings = asking(settings(&args.run)?, asked, output);
    settings.run.chat = true;
    let session = Session::open(settings)?;
    if session.entry().code.is_some() {
        return Err(
            Complaint::wrong(format!("`{}` is code, and holds no conversation", session.entry().id)).into()
        );
    }
    // The lines of a pipe or of a file are the turns, and those of a file that others wrote are theirs.
    let session = match meant::stdin_file() {
        Some(file) if session.is_of_others(&file)? => {
            session.with_options(RunOptions { untrusted_input: true, ..session.options().clone() })?
        }
        _ => session,
    };
    let input = given(&args.run, &session, None)?;
    Ok(Chat::of(session, input))
}

/// Returns the folder of the chat to continue.
fn past(args: &ChatArgs) -> Result<Option<PathBuf>, NotReady> {
    let (Some(_) | None, last) = (&args.resume, args.r#continue);
    let project = args.run.program.project.as_deref();
    let target = args.run.first.as_deref();
    let find = || past_runs::folders(target, project);
    Ok(match &args.resume {
        Some(id) => Some(past_runs::find(&find()?, id)?),
        None if last => Some(past_runs::last_chat(&find()?)?),
        None => None,
    })
}

/// Returns true if a person at a terminal can talk with the entry of `llm-do run`.
pub(crate) fn is_wanted(output: &Output) -> bool {
    output.format == Format::Text && io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Holds the chat on this terminal, or over pipes.
pub(crate) fn hold(chat: Chat, plain: bool, output: &Output) -> Result<Exit, Complaint> {
    let Chat { session, kind, mut input, past } = chat;
    let (sender, signals) = channel();
    if past.is_none() {
        say(&session, output);
    }
    listen(&sender).map_err(cannot_start)?;
    let name = Arc::clone(&session.entry().id);
    let known = Arc::new(Known::of(&session));
    let message = input.message.take_if(|_| kind == Extent::Chat);
    let mut starter = OfSession { session, input, sender };
    // Before the terminal is taken over: the first request waits for nothing that it does not need.
    let begins = match (past, kind, message) {
        (Some(past), ..) => {
            let records = past.records().to_vec();
            starter.continue_run(past).map(|started| Begins::Again(started, records))
        }
        (None, Extent::Run, _) => starter.begin().map(Begins::Run),
        (None, Extent::Chat, Some(text)) => {
            let files = known.mentioned(&text);
            Ok(Begins::Said(starter.start(text.clone(), &files), text))
        }
        (None, Extent::Chat, None) => Ok(Begins::WithUser),
    };
    let begins = match begins {
        Ok(begins) => begins,
        Err(problem) => return Ok(said(problem, output)),
    };
    let mut face = match face(&starter, &known, plain, output) {
        Ok(face) => face,
        Err(error) => {
            begins.cancel();
            return Err(cannot_start(error));
        }
    };
    if matches!(begins, Begins::WithUser) {
        face.note(&format!("chat with {name}; /help shows the commands"));
    }
    let talk = Talk::new(&mut *face, &signals, &mut starter, &known, name, kind);
    Ok(match talk.hold(begins) {
        Left::Chat(exit) => exit,
        Left::Run(report) => {
            show_report(output, &report, None);
            Exit::from(&*report)
        }
    })
}

/// Opens the user's side of the chat: the terminal, or plain lines.
fn face(starter: &OfSession, known: &Arc<Known>, plain: bool, output: &Output) -> io::Result<Box<dyn Face>> {
    let OfSession { session, sender, .. } = starter;
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if llm_do_terminal::plain_is_wanted(plain, terminal, |name| env::var(name).ok()) {
        read_lines(sender.clone())?;
        return Ok(Box::new(PlainFace::new(io::stdin().is_terminal(), output.quiet)));
    }
    let title = format!("llm-do: {}", session.entry().id);
    let past_lines = PastLines::of(session);
    let face = RichFace::new(sender.clone(), &title, output.out.is_on(), past_lines, Arc::clone(known))?;
    Ok(Box::new(face))
}

fn cannot_start(error: io::Error) -> Complaint {
    Complaint::failed(format!("cannot start: {error}"))
}

/// Returns a runtime for one run.
fn runtime() -> Result<tokio::runtime::Runtime, Complaint> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot_start)
}

/// A starter of a session's runs.
struct OfSession {
    session: Session,
    input: Input,
    sender: Sender<Signal>,
}

impl OfSession {
    fn run(
        &self,
        start: impl FnOnce(Arc<dyn Operator>, Arc<dyn EventSink>) -> Result<Run, Problem>,
    ) -> Result<Started, NotReady> {
        let runtime = runtime()?;
        let run = {
            let _context = runtime.enter();
            let sender = self.sender.clone();
            let port = Arc::new(RunPort(move |message: FromRun| sender.send(Signal::Run(message)).is_ok()));
            // A person looks at one question at a time.
            start(Arc::new(OneAtATime::new(Arc::clone(&port))), port)?
        };
        let sender = self.sender.clone();
        let ended = move |report| {
            // A main loop that has ended needs no report.
            let _ = sender.send(Signal::Ended(Box::new(report)));
        };
        Ok(Started::spawn(runtime, run, ended).map_err(cannot_start)?)
    }

    fn continue_run(&self, past: PastRun) -> Result<Started, NotReady> {
        self.run(|operator, events| {
            self.session.resume(past, Decisions::default(), Some(operator), Some(events))
        })
    }
}

impl Starter for OfSession {
    fn resume(&mut self, dir: &Path) -> Result<(Started, Vec<Record>), NotReady> {
        let past = PastRun::open(dir, &home()).map_err(Problem::from)?;
        // The run has its own rules, grants and model.
        self.session = Session::open(past.settings(surrounded()?).map_err(Problem::from)?)?;
        let records = past.records().to_vec();
        Ok((self.continue_run(past)?, records))
    }

    fn gate(&self) -> &Gate {
        self.session.gate()
    }

    fn check(&self, rule: &RuleLine) -> Vec<Diagnostic> {
        self.session.program().check_rules(std::slice::from_ref(rule))
    }

    fn check_paths(&self, worker: &WorkerDefinition, input: &Value) -> Result<(), String> {
        self.session.check_paths(worker, input)
    }

    fn preview(&self) -> Result<RecordKind, NotReady> {
        if self.input != Input::default() {
            let why = "the command line gives the worker more than a message, which is sent with it";
            return Err(Complaint::wrong(why).into());
        }
        Ok(runtime()?.block_on(self.session.preview(&self.input))?)
    }

    fn begin(&mut self) -> Result<Started, NotReady> {
        self.run(|operator, events| self.session.start(&self.input, Some(operator), Some(events)))
    }

    fn listen(&mut self) -> Result<Started, NotReady> {
        // What is wrong is known before there is a run.
        self.preview()?;
        self.begin()
    }

    fn fork(&mut self, dir: &Path) -> Result<PathBuf, NotReady> {
        let past = PastRun::open(dir, &home()).map_err(Problem::from)?;
        Ok(self.session.fork(&past)?)
    }

    fn start(&mut self, message: String, files: &[String]) -> Result<Started, NotReady> {
        let mut input = Input { message: Some(message), ..self.input.clone() };
        if !files.is_empty() {
            join(&mut input, self.session.entry(), files);
        }
        self.run(|operator, events| self.session.start(&input, Some(operator), Some(events)))
    }
}

/// Adds files of the program to the first message, as a caller gives them.
fn join(input: &mut Input, entry: &WorkerDefinition, files: &[String]) {
    let mut json = match input.json.take() {
        Some(Value::Object(map)) => map,
        other => {
            input.json = other;
            Map::new()
        }
    };
    if let (Some(name), Some(message)) = (&entry.signature.message, &input.message) {
        json.insert(name.to_string(), message.as_str().into());
        input.message = None;
    }
    json.insert(ATTACHMENTS.to_owned(), files.into());
    input.json = Some(json.into());
}

/// Passes signals to the main loop.
fn listen(sender: &Sender<Signal>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let sender = sender.clone();
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let signal = if signal == SIGINT { Signal::Interrupt } else { Signal::Terminate };
            if sender.send(signal).is_err() {
                break;
            }
        }
    })?;
    Ok(())
}

/// Passes the lines of stdin to the main loop.
fn read_lines(sender: Sender<Signal>) -> io::Result<()> {
    thread::Builder::new().name("lines".into()).spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.send(Signal::Line(Some(line))).is_err() {
                return;
            }
        }
        let _ = sender.send(Signal::Line(None));
    })?;
    Ok(())
}
