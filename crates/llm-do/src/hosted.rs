//! Runs whose records a host stores itself, many runs in one log (`docs/reference/map.md`).

use crate::{problem::Problem, resume::ResumeError, run::Run, session::Session, settings::Input};
use llm_do_core::{
    journal::RecordKind,
    launch::{RunRecords, RunStart},
    model::{ModelError, ModelName},
    operator::Operator,
    origin::UntrustedPlaces,
    schema::{canonical, sha256},
    template::{Origin, TemplateSource, confine, inspect},
    worker::WorkerDefinition,
};
use llm_do_host::{Host as _, RunPorts, VERSION};
use llm_do_models::BatchModel;
use llm_do_records::History;
use llm_do_runs::{JournalLog, JournalWriter, ReadError};
use serde_json::{Value, json};
use std::{collections::BTreeMap, path::Path, sync::Arc};

/// The log of one run in a host's storage, with the records that it already has.
pub struct RunLog {
    /// ID of the run.
    pub id: Arc<str>,
    /// The folder of the log. Long values are stored below it.
    pub dir: Arc<Path>,
    /// The log that takes the lines.
    pub log: Box<dyn JournalLog>,
    /// The lines that the log has of the run so far. With any, the run continues. They must be sealed with the user's key.
    pub before: Vec<Vec<u8>>,
    /// The date, as templates see it.
    pub date: Arc<str>,
    /// The places that earlier runs of the program wrote untrusted words to ([`Session::untrusted_places`]).
    pub untrusted: Arc<dyn UntrustedPlaces>,
}

impl Session {
    /// Prepares a run as [`Session::start`] does, or continues it, with its records in that log instead of a folder of its
    /// own. The records hold neither the definitions nor the command: the host keeps both once for all its runs.
    ///
    /// # Errors
    /// As [`Session::start`] and [`Session::resume`]; [`ResumeError::Read`] if a line was not written by this user's llm-do.
    pub fn start_in(
        &self,
        log: RunLog,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
    ) -> Result<Run, Problem> {
        let RunLog { id, dir, log, before, date, untrusted } = log;
        let redactor = Arc::clone(self.host().redactor());
        let key = Some(self.host().seal_key()?);
        let read = JournalWriter::within(log, Arc::clone(&id), Arc::clone(&dir), redactor, key, &before);
        let (journal, before) = read.map_err(|problem| {
            Problem::Resume(ResumeError::Read(ReadError::Line { path: dir.to_path_buf(), line: 1, problem }))
        })?;
        let has_begun = before.iter().any(|record| matches!(record.body, RecordKind::RunStarted { .. }));
        let has_talked =
            before.iter().any(|record| matches!(record.body, RecordKind::ConversationStarted { .. }));
        let start = self.prepare(input, !has_talked)?;
        let ports = RunPorts { id, date, log: journal, operator, events: None, untrusted };
        let (run, driver) = match has_begun {
            true => {
                let resumed = self.resumed(ports, start, History::of(before), BTreeMap::new());
                resumed.map_err(|halt| Problem::Resume(halt.into()))?
            }
            false => {
                let start_record = RunStart { version: VERSION.into(), ..RunStart::default() };
                self.begin(ports, start, RunRecords::New(start_record))
            }
        };
        Ok(Run::new(run, driver))
    }

    /// Opens a model behind its provider's batch interface. Nothing is sent.
    ///
    /// # Errors
    /// The provider has no such interface, is not granted, or can't be used.
    pub fn batches(&self, name: &ModelName) -> Result<BatchModel, ModelError> {
        self.model(name)?;
        self.host().providers.batches(name)
    }

    /// Returns a hash of all data that decides about a run beside its input: the definitions of the workers that the
    /// entry can call, with their templates and the hashes of their code, their models and settings, and the options of
    /// this session.
    pub fn closure_sha256(&self) -> String {
        let options = self.options();
        let mut workers: Vec<Value> =
            self.program().loaded().iter().map(|worker| self.closure_of(worker)).collect();
        workers.sort_by_cached_key(Value::to_string);
        let rules: Vec<String> = options.rules.iter().map(|rule| format!("{rule:?}")).collect();
        let whole = json!({
            "entry": self.entry().id,
            "workers": workers,
            "sets": self.program().set_files(),
            "model": options.model.as_ref().map(ModelName::as_str),
            "set": options.set,
            "limits": options.limits,
            "mode": self.gate().mode,
            "rules": rules,
        });
        sha256(canonical(&whole).as_bytes())
    }

    fn closure_of(&self, worker: &WorkerDefinition) -> Value {
        let mut templates = BTreeMap::new();
        let instructions = &worker.instructions;
        texts(&instructions.text, &*instructions.templates, &mut templates);
        let model = self.model_of(worker);
        json!({
            "id": worker.id,
            "text": worker.text,
            "code": worker.code_sha256,
            "templates": templates,
            "model": model.as_ref().map(ModelName::as_str),
            "settings": model.as_ref().map(|model| worker.settings_for(model)),
            "limits": format!("{:?}", worker.limits),
            "toolsets": worker.toolsets,
            "returns": worker.returns.as_ref().map(|schema| schema.value()),
        })
    }
}

/// Adds the texts that a template includes, and those that these include. A name that is computed during the rendering is
/// unknown before it.
fn texts(template: &str, source: &dyn TemplateSource, found: &mut BTreeMap<String, String>) {
    let Ok(facts) = inspect(template, &Origin::file("template")) else { return };
    for (references, is_template) in [(facts.templates, true), (facts.files, false)] {
        for name in references.into_iter().filter_map(|reference| reference.name) {
            if found.contains_key(&name) {
                continue;
            }
            let Ok(known) = confine(&name) else { continue };
            let text = if is_template { source.template(&known) } else { source.file(&known) };
            let Ok(Some(text)) = text else { continue };
            found.insert(name, sha256(text.text.as_bytes()));
            if is_template {
                texts(&text.text, source, found);
            }
        }
    }
}
