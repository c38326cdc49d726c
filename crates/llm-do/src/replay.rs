//! Running a program again over the record of a run (SPEC §12): nothing is done, and what it does is compared.

use crate::{
    grant::Grant,
    resume::{Invocation, ResumeError},
    session::{Input, Problem, Session, Settings},
};
use llm_do_core::{
    authority::Located,
    driver::Driver,
    engine::Halt,
    gate::Mode,
    journal::{Record, RecordKind},
    ledger::Account,
    model::{Blob, Message, ModelName, Models, Part, Role},
    send::BoxFuture,
    vfs::{Entry, FileSystem, FsError},
};
use llm_do_program::target::Request;
use llm_do_runs::{Compared, Difference, Divergence, ReplayDriver, SealKey, read_journal, read_own_journal};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The record of a run, whoever has made it: nothing that it says is believed, and nothing is done for it.
#[derive(Clone, Debug)]
pub struct Recorded {
    dir: PathBuf,
    records: Arc<[Record]>,
    invocation: Invocation,
    /// Whether each record is sealed with this user's key.
    own: bool,
    mode: Mode,
    date: Arc<str>,
    run: Arc<str>,
}

impl Recorded {
    /// Reads the run in that folder. `home` is `~/.llm-do`.
    ///
    /// # Errors
    /// It can't be read, or doesn't tell how it was started.
    pub fn open(dir: &Path, home: &Path) -> Result<Self, ResumeError> {
        let sealed = SealKey::read(home).ok().and_then(|key| read_own_journal(dir, &key).ok());
        let own = sealed.is_some();
        let records = match sealed {
            Some(journal) => journal.records,
            None => read_journal(dir)?.records,
        };
        let Some(Record { body: RecordKind::RunStarted { invocation, approval, date, run, .. }, .. }) =
            records.first()
        else {
            return Err(ResumeError::Unknown("it was cut off before its first record".into()));
        };
        let invocation = Invocation::deserialize(invocation.as_deref().cloned().unwrap_or_default())
            .map_err(|error| ResumeError::Unknown(error.to_string()))?;
        let (mode, date, run) = (*approval, Arc::clone(date), Arc::clone(run));
        Ok(Self { dir: dir.to_owned(), records: records.into(), invocation, own, mode, date, run })
    }

    /// Its folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// ID of the run.
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// The settings for a replay, with the program where it was recorded, or `against` another. `base` gives what
    /// belongs to this machine and moment, and the grants that the operator gives now. Those of the record count only if
    /// it is this user's own, and none of them lets code run unconfined.
    ///
    /// # Errors
    /// Its rules or grants can't be read any more.
    pub fn settings(&self, base: Settings, against: Option<&Path>) -> Result<Settings, ResumeError> {
        let (here, given) = (base.around.here.clone(), base.grants.clone());
        let mut settings = self.invocation.settings(base)?;
        if !self.own {
            settings.grants.clear();
        }
        settings.grants.extend(given);
        settings.grants.retain(|grant| !matches!(grant, Grant::Unconfined));
        if let Some(against) = against {
            let target = here.join(against).to_string_lossy().into_owned();
            // Beside a message, if an empty one, a word is never the message.
            let positionals = vec![target, String::new()];
            settings.request = Request { positionals, project: None, ..settings.request };
            settings.around.here = here;
        }
        settings.can_ask = self.mode == Mode::Interactive;
        Ok(settings)
    }

    /// The first model that answered a worker, for those that name none.
    fn model(&self) -> Option<ModelName> {
        self.records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.clone()),
            _ => None,
        })
    }

    /// What the run was given, with its attachments by name alone: what they hold is part of the record.
    fn input(&self) -> (Input, Vec<Blob>) {
        let mut input = self.invocation.input.clone();
        let names = std::mem::take(&mut input.attachments).into_iter().map(|path| Blob {
            name: path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into()),
            media_type: "text/plain".into(),
            data: Arc::default(),
        });
        let names = names.collect();
        (input, names)
    }
}

/// What makes a session one over a record.
pub(crate) struct OverRecord {
    /// The models, which answer nothing.
    pub(crate) models: Arc<dyn Models>,
    /// The model of workers that name none.
    pub(crate) model: Option<ModelName>,
}

/// What came of a replay.
#[derive(Clone, Debug)]
pub struct ReplayReport {
    /// What was compared.
    pub compared: Compared,
    /// Whether the record goes to the end of the run. If not, it was compared as far as it goes.
    pub whole: bool,
    /// Where the program does something else first.
    pub divergence: Option<Divergence>,
}

/// Runs the program again over the record: without a model, an operator, a file, a network, and without any process but
/// those that say what Python modules expose and those of Python code that makes calls, which may change nothing.
///
/// # Errors
/// The program can't be loaded, or something other than its own doing keeps it from running.
pub async fn replay(settings: Settings, recorded: &Recorded) -> Result<ReplayReport, Problem> {
    let redactor = llm_do_runs::Redactor::for_environment(Vec::new());
    let driver = Arc::new(ReplayDriver::new(Arc::clone(&recorded.records), Arc::new(redactor)));
    let over = OverRecord { models: driver.models(), model: recorded.model() };
    let session = Session::open_for(settings, Some(&over))?;
    let (input, attachments) = recorded.input();
    let mut start = session.prepare(&input, false)?;
    start.attachments = attachments;
    let shared = session.shared();
    let date = Arc::clone(&recorded.date);
    let engine =
        shared.engine(Arc::clone(&recorded.run), date, Arc::clone(&driver) as Arc<dyn Driver>, over.models);
    let account = Account::of_run(shared.budget, &*driver);
    let ended = shared.call(&engine, start, account).await;
    shared.python.end(&recorded.run).await;
    let (compared, divergence, whole) = driver.compared();
    match (ended, &divergence) {
        (Err(halt @ (Halt::Journal(_) | Halt::Unsettled { .. } | Halt::Diverged { .. })), None) => {
            Err(Problem::Resume(ResumeError::Halt(halt)))
        }
        _ => Ok(ReplayReport { compared, whole, divergence }),
    }
}

/// One thing of which record and program say something else, as texts that can be compared line by line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Section {
    /// What it is: `instructions`, `message`, `tool read_file`, `arguments`.
    pub name: String,
    /// What the record says; empty if it says nothing.
    pub recorded: String,
    /// What the program says now; empty if it says nothing.
    pub now: String,
}

/// What a divergence shows, in sections.
pub fn sections(what: &Difference) -> Vec<Section> {
    match what {
        Difference::Changed { recorded, now } => fields(&json_of(recorded), &json_of(now)),
        Difference::Sent { recorded, now } => {
            vec![Section { name: "messages".into(), recorded: told(recorded), now: told(now) }]
        }
        Difference::Added { now: Some(now) } => fields(&Value::Null, &json_of(now)),
        Difference::Added { now: None } => Vec::new(),
        Difference::Gone { recorded, .. } => fields(&json_of(recorded), &Value::Null),
    }
}

fn json_of(body: &RecordKind) -> Value {
    serde_json::to_value(body).unwrap_or_default()
}

/// The fields of two records that differ, each as a text.
fn fields(recorded: &Value, now: &Value) -> Vec<Section> {
    let none = Map::new();
    let one_sided = recorded.is_null() || now.is_null();
    let (recorded, now) = (recorded.as_object().unwrap_or(&none), now.as_object().unwrap_or(&none));
    let names: BTreeSet<&String> = recorded.keys().chain(now.keys()).collect();
    let mut sections = Vec::new();
    let shown = |name: &str| match name {
        // Who answers is not compared, and what a call uses follows from what it does.
        "model" | "usage" => false,
        // Of what only one side does, what it does is enough.
        "kind" | "source" | "principal" | "digest" | "head" | "idempotency_key" => !one_sided,
        _ => true,
    };
    let names = names.into_iter().filter(|name| shown(name));
    for name in names {
        let (recorded, now) = (recorded.get(name), now.get(name));
        if recorded == now {
            continue;
        }
        if name == "tools" {
            sections.extend(tools(recorded, now));
            continue;
        }
        let shown = match name.as_str() {
            "system" => "instructions",
            "input" => "arguments",
            "kind" => "what happens",
            other => other,
        };
        let show = |value: Option<&Value>| match value {
            Some(value) if name == "message" => serde_json::from_value::<Message>(value.clone())
                .map_or_else(|_| text(value), |message| told(&[Arc::new(message)])),
            Some(value) => text(value),
            None => String::new(),
        };
        sections.push(Section { name: shown.into(), recorded: show(recorded), now: show(now) });
    }
    sections
}

/// The tools that differ, one by one, as far as their names tell which is which.
fn tools(recorded: Option<&Value>, now: Option<&Value>) -> Vec<Section> {
    let list = |tools: Option<&Value>| tools.and_then(Value::as_array).cloned().unwrap_or_default();
    let (recorded, now) = (list(recorded), list(now));
    let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
    let names: BTreeSet<String> = recorded.iter().chain(&now).map(name).collect();
    let of = |tools: &[Value], wanted: &str| {
        tools.iter().find(|tool| name(tool) == wanted).map(text).unwrap_or_default()
    };
    let sections = names.iter().map(|name| Section {
        name: format!("tool {name}"),
        recorded: of(&recorded, name),
        now: of(&now, name),
    });
    sections.filter(|section| section.recorded != section.now).collect()
}

/// A text as it is, anything else as indented JSON; with an end of line.
fn text(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        value => format!("{value:#}"),
    };
    if text.ends_with('\n') { text } else { format!("{text}\n") }
}

/// Messages as a text that people read.
fn told(messages: &[Arc<Message>]) -> String {
    let mut out = String::new();
    for message in messages {
        let who = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tools",
        };
        for part in &message.parts {
            let said = match part {
                Part::Text { text } => text.to_string(),
                Part::Reasoning { text } => format!("(thinks) {text}"),
                Part::Call(call) => {
                    let arguments = serde_json::to_value(&call.arguments).unwrap_or_default();
                    format!("calls {} {}", call.name, arguments.get("json").unwrap_or(&arguments))
                }
                Part::Result(result) => format!("{} gives: {}", result.name, result.content),
                Part::Blob(blob) => {
                    format!("[{}: {}, {} bytes]", blob.name, blob.media_type, blob.data.len())
                }
                Part::Opaque { .. } => continue,
            };
            out.push_str(&format!("[{} {who}]\n{said}\n", message.id.0));
        }
    }
    out
}

/// No files: a replay reads none and changes none. What it reads of one is nothing, since what was read stands in the record.
#[derive(Debug)]
pub(crate) struct NoFiles;

fn refused<'a, T: Send + 'a>(at: &Located) -> BoxFuture<'a, Result<T, FsError>> {
    let error = FsError::Io { path: at.path.clone(), reason: "a replay touches no files".into() };
    Box::pin(async { Err(error) })
}

impl FileSystem for NoFiles {
    fn read<'a>(&'a self, _: &'a Located, _: u64, _: u64) -> BoxFuture<'a, Result<(Vec<u8>, u64), FsError>> {
        Box::pin(async { Ok((Vec::new(), 0)) })
    }
    fn write<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn append<'a>(&'a self, at: &'a Located, _: &'a [u8]) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn delete<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn rename<'a>(&'a self, at: &'a Located, _: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn copy<'a>(&'a self, at: &'a Located, _: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
    fn stat<'a>(&'a self, _: &'a Located) -> BoxFuture<'a, Result<Option<Entry>, FsError>> {
        Box::pin(async { Ok(None) })
    }
    fn walk<'a>(&'a self, _: &'a Located, _: usize) -> BoxFuture<'a, Result<Vec<Entry>, FsError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn make_directory<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<(), FsError>> {
        refused(at)
    }
}
