//! Options for running a suite.

use crate::report::{CaseReport, RunReport};
use llm_do::{Canceller, Settings};
use llm_do_core::{journal::Record, model::ModelName, price::Usd};
use std::{collections::BTreeMap, path::PathBuf};

/// The source of the models' answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// Recordings if the program has some, else models.
    #[default]
    Either,
    /// Recordings.
    Recorded,
    /// Models.
    Live,
    /// Models, whose answers are recorded.
    Update,
}

/// The place and the form of the pages of a suite's runs.
pub struct Pages {
    /// The folder, which exists.
    pub folder: PathBuf,
    /// The web app's page of a run; see [`llm_do_records::page`].
    pub template: Option<&'static str>,
}

/// Options for running a suite.
pub struct Options<'a> {
    /// Makes the settings of a run, each time the same.
    pub settings: &'a dyn Fn() -> Settings,
    /// The source of the models' answers.
    pub answers: Answers,
    /// The models of the matrix. If empty, the models that the program names.
    pub models: Vec<ModelName>,
    /// The number of repeats, in place of the cases' own.
    pub repeat: Option<u32>,
    /// The largest cost of all models. Each run may use the part that earlier runs have left.
    pub max_cost: Option<Usd>,
    /// A folder for the page of each run.
    pub pages: Option<Pages>,
    /// Files and folders that no copy of the program contains, absolute and without links: the places where this
    /// command writes its reports.
    pub left_out: Vec<PathBuf>,
    /// Called with each case as soon as it has ended.
    pub on_case: &'a dyn Fn(&CaseReport),
    /// Called with each repeat as soon as it has ended, and with the position of its case in [`Suite::plan`](crate::Suite::plan).
    pub on_repeat: &'a dyn Fn(usize, &RunReport),
    /// True if recordings of cases that no longer exist are removed. All cases of each file are run then.
    pub prune: bool,
    /// Texts in the place of files of the program, by path relative to its root.
    pub texts: BTreeMap<String, String>,
    /// A folder for the runs; without one, they are removed with the copies of their cases.
    pub keep: Option<KeepRuns<'a>>,
    /// Ends the suite: interrupts the current run, and no other begins.
    pub canceller: Canceller,
}

/// A folder in which the runs of a suite stay.
#[derive(Clone)]
pub struct KeepRuns<'a> {
    /// The folder of the journals.
    pub dir: PathBuf,
    /// Called with each run as soon as it has ended.
    pub on_run: &'a dyn Fn(&KeptRun<'_>),
}

/// A run of a case, or of its judge, that stays in [`KeepRuns::dir`].
#[derive(Debug)]
pub struct KeptRun<'r> {
    /// The ID of the run.
    pub run: &'r str,
    /// True for the run of the case itself, false for that of its judge.
    pub is_call: bool,
    /// The records, without the values of secrets.
    pub records: &'r [Record],
}
