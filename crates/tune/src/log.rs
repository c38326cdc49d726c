//! The log of a tuning: the result of each run under a key, in one file that is only appended to.
//!
//! A search is a function of these results. After a kill it is repeated over them, and comes to the place where it was.

use crate::problem::Problem;
use llm_do_core::model::Usage;
use llm_do_runs::{SealKey, SealedLog, TUNINGS};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    cell::RefCell,
    collections::{BTreeSet, HashMap},
    io,
    path::{Path, PathBuf},
    rc::Rc,
};

/// A repeat of a case with certain instructions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Trial {
    /// The ID of the run.
    pub(crate) run: Option<String>,
    pub(crate) pass: bool,
    /// True if the limit of the cost ended it, so that it says nothing.
    pub(crate) cut: bool,
    pub(crate) failures: Vec<String>,
    pub(crate) expected: Option<Value>,
    pub(crate) output: Option<Value>,
    pub(crate) trace: String,
    pub(crate) usage: Usage,
}

/// An answer of the proposer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Proposal {
    /// The ID of the run.
    pub(crate) run: Option<String>,
    pub(crate) instructions: Option<String>,
    /// The reason why there are no instructions.
    pub(crate) failure: Option<String>,
    /// True if the limit of the cost ended it.
    pub(crate) cut: bool,
    pub(crate) usage: Usage,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Ran { key: String, trial: Rc<Trial> },
    Proposed { key: String, proposal: Rc<Proposal> },
    Tested { key: String },
}

/// The log, locked for this process.
pub(crate) struct Log {
    path: PathBuf,
    open: RefCell<OpenLog>,
}

struct OpenLog {
    log: SealedLog,
    trials: HashMap<String, Rc<Trial>>,
    proposals: HashMap<String, Rc<Proposal>>,
    tests: BTreeSet<String>,
}

impl Log {
    /// Opens the log of that name beside the runs, or begins it.
    ///
    /// # Errors
    /// Another command uses it, another user wrote it, or the disk fails.
    pub(crate) fn open(runs_dir: &Path, name: &str, key: &SealKey) -> Result<Self, Problem> {
        let path = runs_dir.join(TUNINGS).join(format!("{name}.jsonl"));
        let (log, lines) =
            SealedLog::resume(runs_dir, TUNINGS, name, key).map_err(|source| match source.kind() {
                io::ErrorKind::WouldBlock => Problem::Running(path.clone()),
                io::ErrorKind::InvalidData => Problem::Foreign(path.clone()),
                _ => Problem::State { path: path.clone(), source },
            })?;
        let (trials, proposals, tests) = Default::default();
        let mut open = OpenLog { log, trials, proposals, tests };
        for line in lines {
            // A line of a later version has no meaning here.
            if let Ok(line) = serde_json::from_str(&line) {
                open.take(line);
            }
        }
        Ok(Self { path, open: RefCell::new(open) })
    }

    pub(crate) fn trial(&self, key: &str) -> Option<Rc<Trial>> {
        self.open.borrow().trials.get(key).cloned()
    }

    pub(crate) fn proposal(&self, key: &str) -> Option<Rc<Proposal>> {
        self.open.borrow().proposals.get(key).cloned()
    }

    pub(crate) fn ran(&self, key: String, trial: Trial) -> Result<Rc<Trial>, Problem> {
        let trial = Rc::new(trial);
        self.add(Line::Ran { key, trial: Rc::clone(&trial) })?;
        Ok(trial)
    }

    pub(crate) fn proposed(&self, key: String, proposal: Proposal) -> Result<Rc<Proposal>, Problem> {
        let proposal = Rc::new(proposal);
        self.add(Line::Proposed { key, proposal: Rc::clone(&proposal) })?;
        Ok(proposal)
    }

    /// Notes a use of the test split. Returns the number of different uses.
    pub(crate) fn tested(&self, key: String) -> Result<usize, Problem> {
        if !self.open.borrow().tests.contains(&key) {
            self.add(Line::Tested { key })?;
        }
        Ok(self.tests())
    }

    /// Returns the number of different uses of the test split.
    pub(crate) fn tests(&self) -> usize {
        self.open.borrow().tests.len()
    }

    fn add(&self, line: Line) -> Result<(), Problem> {
        let mut open = self.open.borrow_mut();
        open.log.add(&line).map_err(|source| Problem::State { path: self.path.clone(), source })?;
        open.take(line);
        Ok(())
    }
}

impl OpenLog {
    fn take(&mut self, line: Line) {
        match line {
            Line::Ran { key, trial } => drop(self.trials.insert(key, trial)),
            Line::Proposed { key, proposal } => drop(self.proposals.insert(key, proposal)),
            Line::Tested { key } => drop(self.tests.insert(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_found_again_and_tests_are_counted_once() {
        let dir = tempfile::tempdir().unwrap();
        let key = SealKey::from([1; 32]);
        let trial = Trial { pass: true, trace: "x".into(), ..Trial::default() };
        {
            let log = Log::open(dir.path(), "w", &key).unwrap();
            assert!(matches!(Log::open(dir.path(), "w", &key), Err(Problem::Running(_))));
            log.ran("a".into(), trial.clone()).unwrap();
            log.proposed("p".into(), Proposal::default()).unwrap();
            assert_eq!(log.tested("t".into()).unwrap(), 1);
            assert_eq!(log.tested("t".into()).unwrap(), 1);
            assert_eq!(log.tested("u".into()).unwrap(), 2);
        }
        let log = Log::open(dir.path(), "w", &key).unwrap();
        assert_eq!(log.trial("a").as_deref(), Some(&trial));
        assert!(log.proposal("p").is_some() && log.trial("b").is_none());
        assert_eq!(log.tests(), 2);
        drop(log);
        assert!(matches!(Log::open(dir.path(), "w", &SealKey::from([2; 32])), Err(Problem::Foreign(_))));
    }
}
