//! A recorded run replayed.

use crate::{files::RunFiles, project};
use llm_do_core::{
    call_path::CallPath,
    engine::Halt,
    gate::Mode,
    journal::{Record, RecordKind},
    step_name::StepName,
};
use llm_do_host::{Input, RunOptions};
use llm_do_records::{Compared, NoFiles, Redactor, ReplayDriver, Section, sections};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

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
        let records = self.files.read()?.records;
        let (run, date, mode) = records
            .iter()
            .find_map(|record| match &record.body {
                RecordKind::RunStarted { run, date, approval, .. } => {
                    Some((Arc::clone(run), Arc::clone(date), *approval))
                }
                _ => None,
            })
            .ok_or("the journal has no beginning")?;
        let input = records
            .iter()
            .find_map(|record| match record {
                Record { path, body: RecordKind::CallStarted { input, .. }, .. }
                    if *path == CallPath::root() =>
                {
                    Some(Arc::clone(input))
                }
                _ => None,
            })
            .ok_or("the journal has no call of the entry")?;
        let model = records.iter().find_map(|record| match &record.body {
            RecordKind::ConversationStarted { model, .. } => Some(model.clone()),
            _ => None,
        });
        let redactor = Arc::new(Redactor::new(self.secrets));
        let driver = Arc::new(ReplayDriver::new(records.into(), Arc::clone(&redactor)));
        let options =
            RunOptions { mode: Some(mode), can_ask: mode == Mode::Interactive, ..RunOptions::default() };
        let models = driver.models();
        let session = project::open(
            self.program,
            Arc::clone(&date),
            Arc::new(NoFiles),
            redactor,
            Arc::clone(&models),
            model,
            options,
        )?;
        let input = Input { json: Some((*input).clone()), ..Input::default() };
        let start = session.prepare(&input, false)?;
        let context = session.context(run, date, Arc::clone(&driver) as _, models);
        let ended = project::block_on(session.launch(context, start).run())?;
        let report = driver.report();
        if let (Some(halt @ (Halt::Journal(_) | Halt::Aborted { .. } | Halt::Diverged { .. })), None) =
            (ended.halt, &report.divergence)
        {
            return Err(halt.to_string());
        }
        let divergence = report.divergence.map(|divergence| Diverged {
            sections: sections(&divergence.what),
            path: divergence.path,
            step: divergence.step,
        });
        Ok(Replayed { compared: report.compared, whole: report.whole, divergence })
    }
}
