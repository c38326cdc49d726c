//! A recorded run replayed.

use crate::{files::RunFiles, project, script::Scripts};
use llm_do_core::{call_path::CallPath, step_name::StepName};
use llm_do_host::{Past, ResumeError, RunOptions};
use llm_do_records::{Compared, NoFiles, Redactor, Section, sections};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// A request to replay a run.
#[derive(Deserialize)]
pub(crate) struct ReplayRequest {
    /// Definition files by path.
    program: BTreeMap<String, String>,
    /// The files of the run.
    files: RunFiles,
    /// Values of secrets by name.
    #[serde(default)]
    secrets: BTreeMap<String, String>,
}

/// The result of the replay.
#[derive(Serialize)]
pub(crate) struct Replayed {
    compared: Compared,
    whole: bool,
    divergence: Option<Diverged>,
}

/// The first difference.
#[derive(Serialize)]
struct Diverged {
    path: CallPath,
    step: StepName,
    sections: Vec<Section>,
}

impl ReplayRequest {
    pub(crate) fn report(self) -> Result<Replayed, String> {
        let past: Result<Past, ResumeError> = Past::of(self.files.read()?.records);
        let past = past.map_err(|error| error.to_string())?;
        let options: Result<RunOptions, ResumeError> = past.options(RunOptions::default(), &project::real);
        let options = past.replayed(options.map_err(|error| error.to_string())?);
        let redactor = Arc::new(Redactor::new(self.secrets));
        let loaded = project::load(
            self.program,
            Arc::clone(past.date()),
            Arc::new(NoFiles),
            Arc::clone(&redactor),
            Arc::new(Scripts::new(HashMap::new())),
        )?;
        let report = project::block_on(loaded.replay(&past, options, redactor))??;
        let divergence = report.divergence.map(|divergence| Diverged {
            sections: sections(&divergence.what),
            path: divergence.path,
            step: divergence.step,
        });
        Ok(Replayed { compared: report.compared, whole: report.whole, divergence })
    }
}
