//! A project run with scripted models.

use crate::{
    files::RunFiles,
    project::{Ports, Project},
    script::Scripts,
    ticks::Ticks,
};
use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, Record, RecordKind},
    launch::{RunRecords, RunStart},
    model::ModelResponse,
    operator::Unattended,
    rebuild::conversation_at,
    vfs::MemoryFileSystem,
    worker::Limits,
};
use llm_do_host::{MemoryLog, Recorder};
use llm_do_program::Program;
use llm_do_records::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// ID of the run.
const RUN: &str = "20260101-000000-0000";
/// The date of the run.
const DATE: &str = "2026-01-01";
/// The time at which the run begins, in milliseconds since 1970.
const BEGAN_MS: u64 = 1_767_225_600_000;

/// A request to run a project.
#[derive(Deserialize)]
pub(crate) struct RunRequest {
    /// Definition files by path.
    program: BTreeMap<String, String>,
    /// Other files by path.
    files: BTreeMap<String, String>,
    /// The answers of each worker's model, in order. Each conversation begins with the first.
    answers: HashMap<String, Vec<ModelResponse>>,
    /// Input of the entry.
    input: Arc<Value>,
    /// Values of secrets by name.
    secrets: BTreeMap<String, String>,
    /// Files to report, by path.
    wanted: Vec<String>,
}

/// The result of the run.
#[derive(Serialize)]
pub(crate) struct Report {
    ending: Ending,
    journal: Vec<Record>,
    requests: Vec<Rebuilt>,
    files: BTreeMap<String, Option<String>>,
    recorded: RunFiles,
}

/// The digests of one request to a model: as sent, and as rebuilt from the journal before it.
#[derive(Serialize)]
struct Rebuilt {
    path: CallPath,
    sent: Arc<str>,
    rebuilt: Arc<str>,
}

impl RunRequest {
    pub(crate) fn report(self) -> Result<Report, String> {
        let project = Project::load(self.program)?;
        let program = Arc::clone(&project.program);
        let files = Arc::new(MemoryFileSystem::new());
        for (path, text) in self.files {
            files.put(&Project::root().join(&path), text.into_bytes());
        }
        let redactor = Arc::new(Redactor::new(self.secrets));
        let log = MemoryLog::new(BEGAN_MS, Arc::clone(&redactor));
        let driver = Arc::new(Recorder::new(log, Arc::new(Ticks), Arc::new(Unattended)));
        let host = Ports {
            run: RUN.into(),
            date: DATE.into(),
            mode: Mode::AutoDeny,
            driver: Arc::clone(&driver) as _,
            models: Arc::new(Scripts::new(self.answers)),
            model: "script:given".parse().ok(),
            files: Arc::clone(&files) as _,
            redact: Arc::clone(&redactor) as _,
        };
        let start =
            RunStart { version: env!("CARGO_PKG_VERSION").into(), target: ".".into(), ..RunStart::default() };
        let report = project.launch(host, self.input, RunRecords::New(start))?;
        if let Some(halt) = report.halt {
            return Err(halt.to_string());
        }
        let ending = report.end.to_ending();

        let journal = driver.log().records();
        Ok(Report {
            ending,
            requests: rebuild(&journal, &program)?,
            recorded: RunFiles::write(&journal, &redactor)?,
            journal,
            files: self
                .wanted
                .into_iter()
                .map(|path| {
                    let content = files.get(&Project::root().join(&path));
                    (path, content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
                })
                .collect(),
        })
    }
}

fn rebuild(journal: &[Record], program: &Program) -> Result<Vec<Rebuilt>, String> {
    let limits: HashMap<Arc<str>, Limits> =
        program.loaded().iter().map(|worker| (Arc::clone(&worker.id), worker.limits.clone())).collect();
    let mut workers: HashMap<&CallPath, &Arc<str>> = HashMap::new();
    let mut requests = Vec::new();
    for (at, record) in journal.iter().enumerate() {
        match &record.body {
            RecordKind::ConversationStarted { worker, .. } => {
                workers.insert(&record.path, worker);
            }
            RecordKind::ModelRequested { digest, .. } => {
                let limits = workers.get(&record.path).and_then(|worker| limits.get(*worker)).cloned();
                let conversation = conversation_at(&journal[..at], &record.path, limits.unwrap_or_default())
                    .map_err(|error| error.to_string())?;
                requests.push(Rebuilt {
                    path: record.path.clone(),
                    sent: Arc::clone(digest),
                    rebuilt: Arc::clone(conversation.digest()),
                });
            }
            _ => {}
        }
    }
    Ok(requests)
}
