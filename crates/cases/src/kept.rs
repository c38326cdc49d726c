//! The log of a command `llm-do test`: what the service shows of its cases, also while they run.

use crate::{
    baseline::Comparison,
    options::Options,
    report::{CaseReport, RunReport},
    runner::Cut,
    suite::Suite,
};
use llm_do_core::price::Usd;
use llm_do_program::cases::recorded_folder;
use llm_do_runs::{LogKind, SealKey, SealedLog, log_ids, read_log};
use serde::{Deserialize, Serialize};
use std::{
    cell::{Cell, RefCell},
    io,
    path::Path,
    time::SystemTime,
};

/// A line of the log, which has a seal beside its kind.
#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum LogLine {
    Began { at_ms: u64, cases: Vec<KeptCase> },
    Repeat { case: usize, run: Box<RunReport> },
    Ended(KeptEnd),
}

/// A case of the command, without its results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptCase {
    /// The case, with the repeats that have ended.
    pub report: CaseReport,
    /// The number of repeats that there are to be.
    pub repeats: u32,
    /// The folder of its recordings, relative to the program's root, if the answers come from there or are recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recordings: Option<String>,
}

/// The end of a command.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KeptEnd {
    /// The reason why not all cases ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// The cost of the models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// The file of the baseline, as typed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
    /// The comparison with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
}

/// A log that is being written. Errors are kept until its end: the tests are worth more than their log.
pub struct TestLog {
    log: RefCell<io::Result<SealedLog>>,
    has_repeats: Cell<bool>,
}

impl TestLog {
    /// Begins the log of a suite in the runs folder of its project.
    pub fn begin(
        suite: &Suite,
        chosen: &[usize],
        options: &Options<'_>,
        runs_dir: &Path,
        home: &Path,
    ) -> Self {
        let plan = suite.plan(chosen, options);
        let cases = plan.iter().map(|planned| KeptCase {
            report: planned.report(options),
            repeats: planned.repeats,
            recordings: planned.uses_recordings(options).then(|| recorded_folder(&planned.case.file)),
        });
        let began = LogLine::Began { at_ms: now_ms(), cases: cases.collect() };
        let log = SealKey::of(home).and_then(|key| {
            let mut log = SealedLog::begin(runs_dir, LogKind::Tests, &key)?;
            log.add(&began)?;
            Ok(log)
        });
        Self { log: RefCell::new(log), has_repeats: Cell::new(false) }
    }

    /// Adds a repeat of the case at that position of [`Suite::plan`].
    pub fn repeat(&self, case: usize, run: &RunReport) {
        self.has_repeats.set(true);
        self.add(&LogLine::Repeat { case, run: Box::new(run.clone()) });
    }

    /// Adds the end.
    ///
    /// # Errors
    /// A part of the log could not be written.
    pub fn end(self, end: KeptEnd) -> io::Result<()> {
        self.add(&LogLine::Ended(end));
        self.log.into_inner().map(drop)
    }

    /// Ends the log of a suite that could not run. Without a repeat in it, the log is removed.
    pub fn give_up(self) {
        if let (false, Ok(log)) = (self.has_repeats.get(), self.log.into_inner()) {
            // What stays shows a command that was cut off before its first case, which is true.
            let _ = log.remove();
        }
    }

    fn add(&self, line: &LogLine) {
        let mut log = self.log.borrow_mut();
        if let Ok(open) = &mut *log
            && let Err(error) = open.add(line)
        {
            *log = Err(error);
        }
    }
}

/// A command as its log shows it.
#[derive(Clone, Debug)]
pub struct KeptTest {
    /// The ID.
    pub id: String,
    /// The time of its start, in milliseconds since 1970.
    pub began_ms: u64,
    /// True while the command works.
    pub is_running: bool,
    /// The cases, in the order in which they run.
    pub cases: Vec<KeptCase>,
    /// The end; absent while the command works, and if it was killed.
    pub end: Option<KeptEnd>,
}

impl KeptTest {
    /// Reads the log with that ID. `None`: there is none of this user.
    ///
    /// # Errors
    /// The log can't be read.
    pub fn read(runs_dir: &Path, id: &str, key: &SealKey) -> io::Result<Option<Self>> {
        let Some(log) = read_log(runs_dir, LogKind::Tests, id, key)? else { return Ok(None) };
        let mut this =
            Self { id: id.to_owned(), began_ms: 0, is_running: log.is_running, cases: Vec::new(), end: None };
        for line in &log.lines {
            match serde_json::from_str(line)? {
                LogLine::Began { at_ms, cases } => (this.began_ms, this.cases) = (at_ms, cases),
                LogLine::Repeat { case, run } => {
                    if let Some(case) = this.cases.get_mut(case) {
                        case.report.runs.push(*run);
                    }
                }
                LogLine::Ended(end) => this.end = Some(end),
            }
        }
        let is_over = !this.is_running;
        for case in &mut this.cases {
            case.report = std::mem::take(&mut case.report).counted();
            if is_over {
                case.report.not_run = u64::from(case.repeats).saturating_sub(case.report.of);
            }
        }
        Ok(Some(this))
    }

    /// The IDs of the commands of a project, newest first.
    ///
    /// # Errors
    /// Their folder can't be read.
    pub fn ids(runs_dir: &Path) -> io::Result<Vec<String>> {
        log_ids(runs_dir, LogKind::Tests)
    }
}

impl KeptEnd {
    /// The end of a suite that has run, with its baseline if it has one.
    pub fn of(cut: Option<&Cut>, cost_usd: Option<Usd>, baseline: Option<(&Path, &Comparison)>) -> Self {
        Self {
            cut: cut.map(|cut| match cut {
                Cut::Cost => "--max-cost was reached".into(),
                Cut::Interrupt => "it was interrupted".into(),
                Cut::Budget(what) => what.to_string(),
            }),
            cost_usd,
            baseline: baseline.map(|(path, _)| path.display().to_string()),
            comparison: baseline.map(|(_, comparison)| comparison.clone()),
        }
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
