//! Replaying a recorded run: the program runs again without effects, and its behaviour is compared with the record. See
//! `docs/guides/replay.md`.

use crate::{
    grant::Grant,
    invocation,
    loaded::stored_keys,
    located::Located,
    problem::Problem,
    resume::ResumeError,
    settings::{Input, Settings},
};
use llm_do_core::{
    attachment::Attachment,
    engine::Halt,
    gate::Mode,
    journal::{Record, RecordKind},
    model::{Blob, ModelName},
};
use llm_do_host::{Effects, Invocation, ModelSource, Prepared};
use llm_do_program::target::Request;
use llm_do_records::{Redactor, ReplayDriver, ReplayReport};
use llm_do_runs::{SealKey, read_journal, read_own_journal};
use serde::Deserialize;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The record of a run by an unknown author. Its contents are not trusted, and it causes no effects.
#[derive(Clone, Debug)]
pub struct Recorded {
    dir: PathBuf,
    records: Arc<[Record]>,
    invocation: Invocation,
    /// True if each record is sealed with this user's key.
    own: bool,
    mode: Mode,
    date: Arc<str>,
    run: Arc<str>,
}

impl Recorded {
    /// Reads the run in that folder. `home` is `~/.llm-do`.
    ///
    /// # Errors
    /// The run can't be read, or doesn't record how it was started.
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

    /// Returns the folder of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the ID of the run.
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// Returns the settings for a replay, with the program at its recorded place, or `against` another. `base` provides
    /// those that depend on this machine and the current time, and the grants that the operator gives now. Grants of
    /// the record count only if the record is this user's own, and none of them lets code run unconfined.
    ///
    /// # Errors
    /// The rules or grants of the record can't be read any more.
    pub fn settings(&self, base: Settings, against: Option<&Path>) -> Result<Settings, ResumeError> {
        let (here, given) = (base.around.here.clone(), base.run.grants.clone());
        let mut settings = invocation::settings(&self.invocation, base, &self.dir)?;
        let grants = &mut settings.run.grants;
        if !self.own {
            grants.clear();
        }
        grants.extend(given);
        grants.retain(|grant| !matches!(grant, Grant::Unconfined));
        if let Some(against) = against {
            let target = here.join(against).to_string_lossy().into_owned();
            // Beside a message, if an empty one, a word is never the message.
            let positionals = vec![target, String::new()];
            settings.request = Request { positionals, project: None, ..settings.request };
            settings.around.here = here;
        }
        settings.run.can_ask = self.mode == Mode::Interactive;
        Ok(settings)
    }

    /// Returns the first model that answered a worker, for workers that name none.
    fn model(&self) -> Option<ModelName> {
        self.records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.clone()),
            _ => None,
        })
    }

    /// Returns the input of the run, with its attachments by name alone: their content is part of the record.
    fn input(&self) -> (Input, Vec<Attachment>) {
        let mut input = self.invocation.input.clone();
        let of_path = |path: PathBuf| {
            path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into())
        };
        let named = std::mem::take(&mut input.attachments).into_iter().map(of_path);
        let contents = std::mem::take(&mut input.contents).into_iter().map(|given| given.file.name);
        let names: Vec<Arc<str>> = named.chain(contents).collect();
        let file = |name| Blob { name, media_type: "text/plain".into(), data: Arc::default() };
        (input, names.into_iter().map(|name| file(name).into()).collect())
    }
}

/// Replays the record with the program of the settings, without a model, an operator, a file or a network. The only
/// processes are those that report what Python modules expose, and those of Python code that makes calls. They may
/// change nothing.
///
/// # Errors
/// The program can't be loaded, or can't run for a reason outside of its own behaviour.
pub async fn replay(settings: Settings, recorded: &Recorded) -> Result<ReplayReport, Problem> {
    let stored = stored_keys(&settings.home)?;
    let redactor = Redactor::for_environment(std::env::vars_os(), stored.pairs());
    let driver = Arc::new(ReplayDriver::new(Arc::clone(&recorded.records), Arc::new(redactor)));
    let options = settings.run.clone();
    let models = driver.models();
    let source = ModelSource::Given { models: Arc::clone(&models), default: recorded.model() };
    let loaded = Located::find(settings)?.load(Effects::Denied, &options)?;
    let session = loaded.grant(options, source)?.open()?;
    let (input, attachments) = recorded.input();
    let start = Prepared { attachments, ..session.prepare(&input, false)? };
    let (run, date) = (Arc::clone(&recorded.run), Arc::clone(&recorded.date));
    let context = session.context(run, date, Arc::clone(&driver) as _, models);
    let ended = session.launch(context, start).run().await;
    let report = driver.report();
    match (ended.halt, &report.divergence) {
        (Some(halt @ (Halt::Journal(_) | Halt::Aborted { .. } | Halt::Diverged { .. })), None) => {
            Err(Problem::Resume(ResumeError::Halt(halt)))
        }
        _ => Ok(report),
    }
}
