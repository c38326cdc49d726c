//! Runs the cases of a suite, one after another.

use crate::{
    attempt::{Attempt, Repeat, expects_refusal},
    copy::{CopyError, Workspace},
    options::{Answers, Options},
    recording_files::{self, RecordingError},
    report::{CaseReport, FORMAT, RunReport, SuiteReport},
    stopped::Stopped,
    suite::{Suite, SuiteCase},
};
use llm_do::Grant;
use llm_do_core::{
    authority::Access,
    model::{ModelName, Usage},
    price::Usd,
};
use llm_do_program::cases::recorded_folder;
use llm_do_records::Recording;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The end of a suite.
#[derive(Debug)]
pub struct Ended {
    /// The results of the cases.
    pub report: SuiteReport,
    /// The reason why the suite ended before all its cases had run.
    pub cut: Option<Cut>,
}

/// A reason for ending a suite before all its cases have run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// [`Options::max_cost`].
    Cost,
    /// [`Options::canceller`].
    Interrupt,
    /// A budget over time, whose message this is.
    Budget(Arc<str>),
}

/// The recordings of a folder that are kept.
struct Kept<'a> {
    /// A file of cases that has this folder.
    file: &'a str,
    /// Names of cases, each with the number of a repeat.
    recordings: BTreeSet<(String, u32)>,
}

/// A case as it is about to run, with one model of the matrix.
#[derive(Clone, Debug)]
pub struct Planned<'a> {
    /// The case.
    pub case: &'a SuiteCase,
    /// The model of the matrix.
    pub model: Option<&'a ModelName>,
    /// True if the answers come from a recording.
    pub recorded: bool,
    /// The number of repeats.
    pub repeats: u32,
}

impl Planned<'_> {
    /// Returns true if the case has its answers from recordings, or gets some.
    pub(crate) fn uses_recordings(&self, options: &Options<'_>) -> bool {
        self.recorded || options.answers == Answers::Update
    }

    /// Returns the report of the case, before a repeat has run.
    pub fn report(&self, options: &Options<'_>) -> CaseReport {
        CaseReport {
            file: self.case.file.to_string(),
            worker: self.case.worker.to_string(),
            case: self.case.case.name.to_string(),
            model: self.model.filter(|_| options.models.len() > 1).map(ToString::to_string),
            recorded: self.recorded,
            ..CaseReport::default()
        }
    }
}

impl Suite {
    /// Returns true if any of its cases has recordings. A suite with some recordings does not ask a model by accident
    /// when one of its files has none yet.
    pub fn has_recordings(&self) -> bool {
        self.cases.iter().any(|case| recording_files::exist(&self.root, &case.file))
    }

    /// The cases of `chosen`, by their positions, in the order in which they run.
    pub fn plan<'a>(&'a self, chosen: &[usize], options: &'a Options<'_>) -> Vec<Planned<'a>> {
        let has_recordings = self.has_recordings();
        let mut plan = Vec::new();
        for case in chosen.iter().filter_map(|at| self.cases.get(*at)) {
            let recorded = match options.answers {
                Answers::Either => has_recordings || expects_refusal(&case.case),
                Answers::Recorded => true,
                Answers::Live | Answers::Update => false,
            };
            let repeats = options.repeat.unwrap_or(case.case.repeat);
            let of = |model| Planned { case, model, recorded, repeats };
            match (recorded, options.models.as_slice()) {
                (true, _) | (false, []) => plan.push(of(None)),
                (false, models) => plan.extend(models.iter().map(|model| of(Some(model)))),
            }
        }
        plan
    }

    /// Runs the cases of `chosen`, by their positions.
    ///
    /// # Errors
    /// A run can't start, or a file can't be written. An expectation that does not hold is not an error.
    pub async fn run(&self, chosen: &[usize], options: &Options<'_>) -> Result<Ended, Stopped> {
        let grants = (options.settings)().run.grants;
        if let Some(writes) = grants.iter().find(|grant| writes_outside(grant)) {
            return Err(Stopped::WritesOutside(writes.to_string()));
        }
        let mut report =
            SuiteReport { format: FORMAT, cost_usd: Some(Usd::default()), ..SuiteReport::default() };
        let mut spent = Usage::default();
        let mut cut = None;
        let mut kept: BTreeMap<String, Kept<'_>> = BTreeMap::new();
        for (at, planned) in self.plan(chosen, options).into_iter().enumerate() {
            let mut of_case = planned.report(options);
            let Planned { case, model, recorded, repeats } = planned;
            for number in 1..=repeats {
                // A model of unknown price is refused where a limit is set, so that the cost is always known.
                let cost = spent.cost_usd.unwrap_or_default();
                let left = options.max_cost.filter(|_| !recorded).map(|most| most.minus(cost));
                if left == Some(Usd::ZERO) {
                    cut.get_or_insert(Cut::Cost);
                }
                if cut.is_some() {
                    of_case.not_run += 1;
                    continue;
                }
                let run = match self.once(&Repeat { case, model, number, recorded, left }, options).await {
                    Err(Stopped::Interrupted) => Err(Cut::Interrupt),
                    Err(Stopped::Cost) => Err(Cut::Cost),
                    Err(Stopped::Budget(what)) => Err(Cut::Budget(what)),
                    run => Ok(run?),
                };
                let run = match run {
                    Ok(run) => run,
                    Err(why) => {
                        cut = Some(why);
                        of_case.not_run += 1;
                        continue;
                    }
                };
                if !recorded {
                    spent = spent.plus(run.usage);
                }
                let folder = recorded_folder(&case.file);
                let new = || Kept { file: &case.file, recordings: BTreeSet::new() };
                let kept = kept.entry(folder).or_insert_with(new);
                kept.recordings.insert((case.case.name.to_string(), number));
                (options.on_repeat)(at, &run);
                of_case.runs.push(run);
            }
            if of_case.runs.is_empty() {
                report.not_run += 1;
                continue;
            }
            let of_case = of_case.counted();
            (options.on_case)(&of_case);
            report.cases.push(of_case);
        }
        if options.answers == Answers::Update && options.prune && cut.is_none() {
            for Kept { file, recordings } in kept.values() {
                recording_files::prune(&self.root, file, recordings).map_err(|source| {
                    let path = recording_files::folder(&self.root, file);
                    Stopped::Write { path, source }
                })?;
            }
        }
        report.cost_usd = match spent == Usage::default() {
            true => None,
            false => spent.cost_usd,
        };
        Ok(Ended { report, cut })
    }

    async fn once(&self, repeat: &Repeat<'_>, options: &Options<'_>) -> Result<RunReport, Stopped> {
        let Repeat { case: SuiteCase { file, case, .. }, number, recorded, .. } = repeat;
        if options.canceller.is_cancelled() {
            return Err(Stopped::Interrupted);
        }
        let recording = match recorded {
            false => None,
            true => match recording_files::read(&self.root, file, &case.name, *number) {
                Ok(recording) => Some(recording),
                // A call that is refused asks no model, so there is nothing to record.
                Err(RecordingError::Missing(_)) if expects_refusal(case) => Some(Recording::default()),
                Err(error) => {
                    return Ok(RunReport { failures: vec![error.to_string()], ..RunReport::default() });
                }
            },
        };
        let is_cut = || options.canceller.is_cancelled();
        let workspace = match &self.lone {
            None => Workspace::of_project(&self.root, &options.left_out, &is_cut)?,
            Some(_) => Workspace::empty()?,
        };
        match workspace.add(&self.root, file, &case.files, &is_cut) {
            Err(error @ (CopyError::Io { .. } | CopyError::Outside(_))) => {
                let failure = workspace.without_places(format!("files: {error}"));
                return Ok(RunReport { failures: vec![failure], ..RunReport::default() });
            }
            added => added?,
        }
        Attempt::new(self, repeat, options, &workspace, recording).run().await
    }
}

/// Returns true if a grant allows writing to files outside of the copy of a case.
fn writes_outside(grant: &Grant) -> bool {
    matches!(grant, Grant::Place(extent) if extent.access == Access::Write)
}
