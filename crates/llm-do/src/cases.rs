//! Files of cases: inputs of a worker or tool in recorded runs, with their results (`docs/guides/replay.md`).

use llm_do_records::{Case, CaseError, CaseList};
use llm_do_runs::{ReadError, read_journal};
use llm_do_sandbox::read_regular;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Name of the file with the cases.
const CASES: &str = "cases.jsonl";
/// Largest file of cases, in bytes.
const LARGEST: u64 = 1 << 30;
/// Name of the runner beside it.
const RUNNER: &str = "run_cases.py";

/// Cases that can't be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum BadCases {
    /// A journal can't be read.
    #[error(transparent)]
    Journal(#[from] ReadError),
    /// A file can't be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is no case.
    #[error("{}:{line}: not a case: {source}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Why.
        source: serde_json::Error,
    },
}

/// Cases of one function, one for each input, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct Cases(CaseList);

impl Cases {
    /// The cases.
    pub fn list(&self) -> &[Case] {
        self.0.cases()
    }

    /// Adds the calls of `function` (a worker's ID, or a tool) that a run has made and that have ended.
    ///
    /// # Errors
    /// Its journal can't be read.
    pub fn add_run(&mut self, run_dir: &Path, function: &str) -> Result<(), BadCases> {
        self.0.add_run(&read_journal(run_dir)?.records, function);
        Ok(())
    }

    /// Reads a file of cases, or the one in a folder.
    ///
    /// # Errors
    /// It can't be read, or a line is no case.
    pub fn read(path: &Path) -> Result<Self, BadCases> {
        let path = if path.is_dir() { path.join(CASES) } else { path.to_owned() };
        let io = |source| BadCases::Io { path: path.clone(), source };
        let text = read_regular(&path, LARGEST).map_err(io)?;
        let text =
            String::from_utf8(text).map_err(|error| io(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let cases = CaseList::parse(&text);
        cases.map(Self).map_err(|CaseError { line, source }| BadCases::Line { path, line, source })
    }

    /// Those that a folder holds already, which stand as they are; none if it holds no file of cases.
    ///
    /// # Errors
    /// As [`Cases::read`].
    pub fn kept(folder: &Path) -> Result<Self, BadCases> {
        if !folder.join(CASES).exists() {
            return Ok(Self::default());
        }
        Ok(Self(Self::read(folder)?.0.keep()))
    }

    /// Writes the cases, and a runner where there is none, into a folder. Gives back the file with the cases.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, BadCases> {
        let (cases, runner) = (folder.join(CASES), folder.join(RUNNER));
        let io = |source| BadCases::Io { path: cases.clone(), source };
        let text = self.0.lines().map_err(|error| io(error.into()))?;
        fs::create_dir_all(folder).and_then(|()| fs::write(&cases, text)).map_err(io)?;
        if !runner.exists() {
            fs::write(&runner, include_str!("cases/run_cases.py"))
                .map_err(|source| BadCases::Io { path: runner, source })?;
        }
        Ok(cases)
    }
}
