//! A project run with scripted models.

use crate::{files::RunFiles, project, script::Scripts};
use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, Record, RecordKind},
    model::{ModelResponse, Models},
    rebuild::conversation_at,
    vfs::MemoryFileSystem,
    worker::Limits,
};
use llm_do_host::{Host as _, Input, MemoryLog, ModelSource, RunOptions, RunPorts};
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
    input: Value,
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
        let files = Arc::new(MemoryFileSystem::new());
        for (path, text) in self.files {
            files.put(&project::root().join(&path), text.into_bytes());
        }
        let redactor = Arc::new(Redactor::new(self.secrets));
        let models: Arc<dyn Models> = Arc::new(Scripts::new(self.answers));
        let loaded = project::load(
            self.program,
            DATE.into(),
            Arc::clone(&files) as _,
            Arc::clone(&redactor),
            Arc::clone(&models),
        )?;
        let options = RunOptions { mode: Some(Mode::AutoDeny), ..RunOptions::default() };
        let source = ModelSource::Given { models, default: "script:given".parse().ok() };
        let session = loaded.grant(options, source)?.open()?;
        let program = Arc::clone(session.program());
        let input = Input { json: Some(self.input), ..Input::default() };
        let ports = RunPorts {
            id: RUN.into(),
            date: DATE.into(),
            log: MemoryLog::new(BEGAN_MS, Arc::clone(&redactor)),
            operator: None,
            events: None,
            untrusted: session.host().untrusted_places()?,
        };
        let (run, driver) =
            session.begin(ports, session.prepare(&input, true)?, session.start_record(&input));
        let report = project::block_on(async { run.finish().await.report })?;
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
                    let content = files.get(&project::root().join(&path));
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
