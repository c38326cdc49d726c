//! One run: a journal, a driver, an engine, and what came of it.

use crate::{
    resume::{Decisions, PastRun, ResumeError},
    tally::{Counts, Tally},
};
use llm_do_core::{
    authority::Authority,
    call_path::CallPath,
    driver::{Driver, MemoryDriver},
    engine::{Call, End, Engine, Explained, Failure, FailureKind, Frame, Halt, Outcome, RunContext},
    gate::{Gate, Mode},
    journal::{FORMAT, RecordKind, RunStatus, Runtime, UsedDefinition},
    ledger::{Account, Budget, Left},
    model::{
        Blob, Capabilities, DeltaSink, Model, ModelError, ModelErrorKind, ModelName, ModelRequest,
        ModelResponse, ModelSettings, Models, Terms, Usage,
    },
    operator::{Answer, Ask, Later, Operator},
    send::BoxFuture,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::{self, Definitions, ModelChoice, WorkerDefinition},
};
use llm_do_python::Python;
use llm_do_runs::{
    Canceller, CreateError, EventSink, History, JournalWriter, LocalDriver, Redactor, SealKey,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What every run of a session shares.
pub(crate) struct Shared {
    pub(crate) models: Arc<dyn Models>,
    pub(crate) model: ModelChoice,
    pub(crate) settings_override: ModelSettings,
    pub(crate) budget: Budget,
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) definitions: Arc<dyn Definitions>,
    pub(crate) toolsets: Arc<ToolsetRegistry>,
    pub(crate) gate: Arc<Gate>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) entry: Arc<WorkerDefinition>,
    pub(crate) used: Vec<UsedDefinition>,
    pub(crate) runtimes: Vec<Runtime>,
    pub(crate) python: Arc<Python>,
    pub(crate) target: Arc<str>,
    pub(crate) runs_dir: PathBuf,
    pub(crate) home: PathBuf,
    pub(crate) key: OnceLock<Option<SealKey>>,
}

impl Shared {
    /// What its journals are sealed with. Without one, where the user's folder can't be written, runs can't be resumed.
    fn key(&self) -> Option<&SealKey> {
        self.key.get_or_init(|| SealKey::of(&self.home).ok()).as_ref()
    }
}

/// A run that is about to start. Its journal exists.
pub struct Run {
    shared: Arc<Shared>,
    driver: Arc<LocalDriver>,
    tally: Arc<Tally>,
    id: Arc<str>,
    dir: PathBuf,
    start: Start,
    beginning: Beginning,
}

/// Whether a run begins or goes on.
enum Beginning {
    /// It begins, by this word of its host.
    New(Arc<Value>),
    /// It goes on, on the date that it began.
    Resumed(Arc<str>),
}

/// What a run starts with.
pub(crate) struct Start {
    pub(crate) input: Value,
    pub(crate) attachments: Vec<Blob>,
    pub(crate) authority: Authority,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// ID of the run.
    pub run: Arc<str>,
    /// Folder of its journal.
    pub dir: PathBuf,
    /// How it ended.
    pub status: RunStatus,
    /// The output or the failure; for a suspended run the questions it waits for.
    pub end: End,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// From the first record to the last.
    pub took: Duration,
    /// What the journal counts.
    pub counts: Counts,
    /// What is left of the operator's budget, if there is one.
    pub left: Option<Left>,
    /// The journal could not be written to its end, or the run was interrupted.
    pub halt: Option<Halt>,
}

impl Report {
    /// The exit code of SPEC §3.
    pub fn exit_code(&self) -> u8 {
        match self.status {
            RunStatus::Done => 0,
            RunStatus::Failed if self.is_about_the_input() => 2,
            RunStatus::Failed => 1,
            RunStatus::Refused => 3,
            RunStatus::Limit => 4,
            RunStatus::Suspended => 5,
            RunStatus::Interrupted => 130,
        }
    }

    /// Whether a file or the input is wrong and nothing was sent to a model.
    fn is_about_the_input(&self) -> bool {
        use FailureKind as K;
        matches!(&self.end, End::Failed(failure)
            if matches!(failure.kind, K::Definition | K::InvalidInput | K::Authority))
            && self.counts.sent == 0
    }
}

impl Run {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        start: Start,
        invocation: Arc<Value>,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Self, CreateError> {
        let journal = JournalWriter::create(&shared.runs_dir, Arc::clone(&shared.redactor), shared.key())?;
        let operator = shared.operator(operator);
        let begin = |_: &str| Ok(LocalDriver::new(journal, operator));
        Self::over(shared, start, Beginning::New(invocation), events, begin)
    }

    pub(crate) fn resume(
        shared: &Arc<Shared>,
        start: Start,
        past: PastRun,
        decisions: Decisions,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Self, ResumeError> {
        let (journal, records) = JournalWriter::reopen(past.dir(), Arc::clone(&shared.redactor), past.key())?;
        // Read again under the lock: somebody else may have gone on with it in between.
        decisions.admitted_by(&records)?;
        let Decisions { answers, settle } = decisions;
        let operator = Arc::new(Decided { answers, rest: shared.operator(operator) });
        let history = History::of(records, settle);
        let resume = |version: &str| LocalDriver::resume(journal, operator, history, version);
        Ok(Self::over(shared, start, Beginning::Resumed(past.date()), events, resume)?)
    }

    fn over<E>(
        shared: &Arc<Shared>,
        start: Start,
        beginning: Beginning,
        events: Option<Arc<dyn EventSink>>,
        driver: impl FnOnce(&str) -> Result<LocalDriver, E>,
    ) -> Result<Self, E> {
        let tally = Arc::new(Tally::new(events));
        let driver = driver(VERSION)?.with_events(Arc::clone(&tally) as Arc<dyn EventSink>);
        let (id, dir) = (Arc::clone(driver.journal().id()), driver.journal().dir().to_owned());
        Ok(Self { shared: Arc::clone(shared), driver: Arc::new(driver), tally, id, dir, start, beginning })
    }

    /// ID of the run.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// What ends the run from outside.
    pub fn canceller(&self) -> Canceller {
        self.driver.canceller()
    }

    /// Runs it to its end. The journal is closed however that comes about.
    pub async fn finish(self) -> Report {
        let Self { shared, driver, tally, id, dir, start, beginning } = self;
        let started = driver.now_ms();
        let account = Account::of_run(shared.budget, &*driver);
        // In a place of its own: a run waits nearly all of its time in there, and the rest need not be as large.
        let work = Box::pin(call(&shared, &driver, &id, start, beginning, account.clone()));
        let result = driver.gathering(work).await;
        shared.python.end(&id).await;
        let (status, end, usage, halt) = match result {
            Ok(Outcome { end, usage, .. }) => (status_of(&end), end, usage, None),
            Err(halt) => {
                let status = match halt {
                    Halt::Cancelled => RunStatus::Interrupted,
                    Halt::Unsettled { .. } => RunStatus::Suspended,
                    _ => RunStatus::Failed,
                };
                let failure = Failure::new(FailureKind::Tool, halt.to_string());
                (status, End::Failed(failure), tally.counts().usage, Some(halt))
            }
        };
        let ending = end.to_ending();
        // What stopped the run from outside (a full disk, a changed program) can be mended: then it goes on.
        let recorded = match (&halt, status) {
            (Some(_), RunStatus::Failed) => RunStatus::Interrupted,
            _ => status,
        };
        let ended = RecordKind::RunEnded { status: recorded, ending, usage };
        let last = driver.record(&CallPath::root(), "run".into(), ended);
        Report {
            run: id,
            dir,
            status,
            end,
            usage,
            took: Duration::from_millis(driver.now_ms().saturating_sub(started)),
            counts: tally.counts(),
            left: account.map(|account| account.left()),
            halt: halt.or(last.err()),
        }
    }
}

async fn call(
    shared: &Shared,
    driver: &Arc<LocalDriver>,
    run: &Arc<str>,
    start: Start,
    beginning: Beginning,
    account: Option<Arc<Account>>,
) -> Result<Outcome, Halt> {
    let date = match beginning {
        Beginning::Resumed(date) => date,
        Beginning::New(invocation) => {
            let date = today();
            let started = RecordKind::RunStarted {
                format: FORMAT,
                run: Arc::clone(run),
                version: VERSION.into(),
                target: Arc::clone(&shared.target),
                entry: Arc::clone(&shared.entry.id),
                approval: shared.gate.mode,
                date: Arc::clone(&date),
                definitions: shared.used.clone(),
                runtimes: shared.runtimes.clone(),
                invocation: Some(invocation),
            };
            driver.record(&CallPath::root(), "run".into(), started)?;
            date
        }
    };
    let driver = Arc::clone(driver) as Arc<dyn Driver>;
    let engine = shared.engine(Arc::clone(run), date, driver, Arc::clone(&shared.models));
    shared.call(&engine, start, account).await
}

impl Shared {
    /// Who is asked: nobody where the run defers what needs an answer.
    fn operator(&self, operator: Option<Arc<dyn Operator>>) -> Arc<dyn Operator> {
        match operator {
            _ if self.gate.mode == Mode::Defer => Arc::new(Later),
            Some(operator) => operator,
            None => Arc::new(Nobody),
        }
    }

    /// The engine of one run.
    pub(crate) fn engine(
        &self,
        run: Arc<str>,
        date: Arc<str>,
        driver: Arc<dyn Driver>,
        models: Arc<dyn Models>,
    ) -> Engine {
        Engine::new(RunContext {
            run,
            date,
            driver,
            models,
            model: self.model.clone(),
            settings_override: self.settings_override.clone(),
            files: Arc::clone(&self.files),
            definitions: Arc::clone(&self.definitions),
            toolsets: Arc::clone(&self.toolsets),
            gate: Arc::clone(&self.gate),
            redact: Arc::clone(&self.redactor) as _,
        })
    }

    /// Calls the entry.
    pub(crate) async fn call(
        &self,
        engine: &Engine,
        start: Start,
        account: Option<Arc<Account>>,
    ) -> Result<Outcome, Halt> {
        let function = worker::function(&self.entry, &self.entry.id, false, None);
        let Start { input, attachments, authority } = start;
        let frame = Frame::operator(Arc::new(authority)).within(account);
        let call = Call {
            path: CallPath::root(),
            function: &function,
            input: Arc::new(input),
            frame: &frame,
            attachments: &attachments,
        };
        engine.call(call).await
    }

    /// Explains what the gate would say of a call that the entry's model makes.
    pub(crate) async fn explain(
        &self,
        start: Start,
        tool: &str,
        arguments: &Value,
    ) -> Result<Explained, Failure> {
        let driver = Arc::new(MemoryDriver::new(0, None));
        let engine = self.engine("explain".into(), today(), driver as _, Arc::clone(&self.models));
        let frame = Frame::operator(Arc::new(start.authority));
        let input = Arc::new(start.input);
        let explained = worker::explain(&engine, &self.entry, &frame, &input, tool, arguments).await;
        self.python.end(&engine.host().run).await;
        explained.unwrap_or_else(|halt| Err(Failure::new(FailureKind::Tool, halt.to_string())))
    }

    /// Goes as far as the entry's first request and gives back its record instead of sending it. Nothing is written.
    pub(crate) async fn preview(&self, start: Start) -> Result<RecordKind, Failure> {
        let driver = Arc::new(MemoryDriver::new(0, None));
        let models = Arc::new(Silent(Arc::clone(&self.models)));
        let engine = self.engine("preview".into(), today(), Arc::clone(&driver) as _, models);
        let ended = self.call(&engine, start, None).await;
        self.python.end(&engine.host().run).await;
        let begun = driver.records().into_iter().find_map(|record| match record.body {
            body @ RecordKind::ConversationStarted { .. } if record.path == CallPath::root() => Some(body),
            _ => None,
        });
        begun.ok_or_else(|| match ended {
            Ok(Outcome { end: End::Failed(failure), .. }) => failure,
            Ok(_) => Failure::new(FailureKind::Definition, "the entry is refused before its first request"),
            Err(halt) => Failure::new(FailureKind::Tool, halt.to_string()),
        })
    }
}

/// The date in UTC, as templates see it.
fn today() -> Arc<str> {
    jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now()).date().to_string().into()
}

/// Models that can all that the real ones can, and are never asked.
struct Silent(Arc<dyn Models>);

struct SilentModel(Arc<dyn Model>);

impl Models for Silent {
    fn open(&self, name: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(SilentModel(self.0.open(name)?)))
    }

    fn terms(&self, name: &ModelName) -> Terms {
        self.0.terms(name)
    }
}

impl Model for SilentModel {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn refused_settings(&self, settings: &ModelSettings) -> Vec<String> {
        self.0.refused_settings(settings)
    }

    fn respond<'a>(
        &'a self,
        _: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async { Err(ModelError::new(ModelErrorKind::Unsupported, "nothing is sent in a preview")) })
    }
}

/// What the end of the entry's call means for the run (SPEC §3, exit codes).
fn status_of(end: &End) -> RunStatus {
    match end {
        End::Done(_) => RunStatus::Done,
        End::Suspended(_) => RunStatus::Suspended,
        End::Failed(failure) => match failure.kind {
            FailureKind::Limit | FailureKind::Timeout => RunStatus::Limit,
            FailureKind::Blocked | FailureKind::Denied => RunStatus::Refused,
            _ => RunStatus::Failed,
        },
    }
}

/// Gives the answers that the operator gave with the command, and asks for the others.
struct Decided {
    answers: HashMap<CallPath, Answer>,
    rest: Arc<dyn Operator>,
}

impl Operator for Decided {
    fn answer<'a>(&'a self, ask: &'a Ask) -> BoxFuture<'a, Answer> {
        match self.answers.get(&ask.call) {
            Some(answer) => Box::pin(async { answer.clone() }),
            None => self.rest.answer(ask),
        }
    }
    fn takes_several(&self) -> bool {
        self.rest.takes_several()
    }
}

/// Stands where nobody answers.
struct Nobody;

impl Operator for Nobody {
    fn answer<'a>(&'a self, _ask: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Deny { reason: None, remember: false } })
    }
}

/// The text that a command prints for an output: text as it is, anything else as JSON.
pub fn output_text(value: &Value, pretty: bool) -> String {
    match value {
        Value::String(text) => text.clone(),
        value if pretty => format!("{value:#}"),
        value => value.to_string(),
    }
}
