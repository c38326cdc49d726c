//! `replay:RUN`: the provider whose models give the answers of recorded runs.

use llm_do_core::model::{Model, ModelError, ModelErrorKind, ModelName};
use llm_do_models::Providers;
use llm_do_records::{OpenRun, RecordedAnswers, RunState};
use llm_do_runs::{JOURNAL_FILE, RunSummary, find_run, list_runs, read_journal};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// The name of the provider, before the colon.
const PROVIDER: &str = "replay";

/// The most runs that are searched for the last one.
const MOST_RUNNING: usize = 1000;

/// The folders to search for the run that a model names.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRuns {
    /// The program's runs.
    pub(crate) runs_dir: PathBuf,
    /// The current directory.
    pub(crate) here: PathBuf,
}

impl RecordedRuns {
    /// Adds the provider to `providers`.
    pub(crate) fn among(self, providers: Providers) -> Providers {
        providers.with(PROVIDER, move |name| {
            let dir = self.find(name.model())?;
            let journal = read_journal(&dir)
                .map_err(|error| ModelError::new(ModelErrorKind::NotFound, format!("replay: {error}")))?;
            let run = dir.file_name().unwrap_or_default().to_string_lossy();
            Ok(Arc::new(RecordedAnswers::of(&run, journal.records)) as Arc<dyn Model>)
        })
    }

    /// Replaces `replay:last` by the current last run, because this run must not find itself when it is resumed later.
    pub(crate) fn settled(&self, name: ModelName) -> ModelName {
        if name.provider() != PROVIDER || name.model() != "last" {
            return name;
        }
        let found = self.find("last").ok();
        let id = found.as_deref().and_then(Path::file_name).and_then(|id| id.to_str());
        id.and_then(|id| format!("{PROVIDER}:{id}").parse().ok()).unwrap_or(name)
    }

    /// Returns the folder of the run: by its ID, a part of it, `last`, or the folder itself.
    fn find(&self, run: &str) -> Result<PathBuf, ModelError> {
        let missing = |message: String| ModelError::new(ModelErrorKind::NotFound, message);
        let named = self.here.join(run);
        if named.join(JOURNAL_FILE).is_file() {
            return Ok(named);
        }
        if run == "last" {
            // Not one that is running: it may be this one. A run of a replay has no answers of its own.
            let is_replay = |run: &RunSummary| {
                run.invocation["model"].as_str().is_some_and(|name| name.starts_with(PROVIDER))
            };
            let runs = list_runs(&self.runs_dir, MOST_RUNNING).map_err(|error| {
                missing(format!("replay:last: cannot read {}: {error}", self.runs_dir.display()))
            })?;
            let last = runs
                .into_iter()
                .filter(|run| !is_replay(run))
                .find(|run| !matches!(run.state, RunState::Open(OpenRun::Running | OpenRun::Damaged)));
            return last.map(|last| self.runs_dir.join(last.run)).ok_or_else(|| {
                missing(format!("replay:last: no run has ended in {}", self.runs_dir.display()))
            });
        }
        find_run(&self.runs_dir, run).map_err(|error| missing(format!("replay:{run}: {error}")))
    }
}
