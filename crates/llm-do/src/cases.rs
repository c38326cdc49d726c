//! Files of cases: inputs of a worker or tool in recorded runs, with their results (`docs/reference/cases.md`).

use crate::named_path::{check_named, write_named};
use llm_do_core::{call_path::CallPath, engine::Failure};
use llm_do_program::{
    Diagnostic, Diagnostics,
    cases::{self as format, CASES_JSONL},
    span::SourceFile,
};
use llm_do_records::{Case, CaseList};
use llm_do_runs::{ReadError, read_journal};
use llm_do_sandbox::read_regular;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The largest file of cases, in bytes.
const LARGEST: u64 = 1 << 30;
/// Name of the runner beside it.
const RUNNER: &str = "run_cases.py";

/// An error from reading or writing cases.
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
        /// The cause.
        source: io::Error,
    },
    /// A file contains something other than cases.
    #[error("{0}")]
    Wrong(Diagnostics),
    /// A folder has no file of cases, or several.
    #[error("{}: there is not one file `NAME.cases.yaml` or `NAME.cases.jsonl`", .0.display())]
    NotOne(PathBuf),
}

/// Cases of one function, one for each input, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct Cases(CaseList);

impl Cases {
    /// Returns the cases.
    pub fn list(&self) -> &[Case] {
        self.0.cases()
    }

    /// Adds the calls of `function` (a worker's ID, or a tool) that a run has made and that have ended.
    ///
    /// # Errors
    /// The journal of the run can't be read.
    pub fn add_run(&mut self, run_dir: &Path, function: &str) -> Result<(), BadCases> {
        self.0.add_run(&read_journal(run_dir)?.records, function);
        Ok(())
    }

    /// Reads a file of cases, or the only one in a folder.
    ///
    /// # Errors
    /// The file can't be read, or contains something other than cases.
    pub fn read(path: &Path) -> Result<Self, BadCases> {
        let path = if path.is_dir() { only_file(path)? } else { path.to_owned() };
        let io = |source| BadCases::Io { path: path.clone(), source };
        let text = read_regular(&path, LARGEST).map_err(io)?;
        let text =
            String::from_utf8(text).map_err(|error| io(io::Error::new(io::ErrorKind::InvalidData, error)))?;
        let shown = path.to_string_lossy().into_owned();
        let mut found = Vec::new();
        let file = format::parse(&shown, &SourceFile::new(shown.as_str(), text), &mut found);
        found.retain(Diagnostic::is_error);
        match found.is_empty() {
            true => Ok(Self(CaseList::of(file.cases.iter().map(recorded)))),
            false => Err(BadCases::Wrong(Diagnostics(found))),
        }
    }

    /// Reads the cases of a function that a folder already has. [`Cases::write`] does not write them again. Returns
    /// none if the folder has no file of cases.
    ///
    /// # Errors
    /// The same as for [`Cases::read`].
    pub fn kept(folder: &Path, function: &str) -> Result<Self, BadCases> {
        let file = file_of(folder, function);
        check_named(&file).map_err(|source| BadCases::Io { path: file.clone(), source })?;
        if !file.exists() {
            return Ok(Self::default());
        }
        Ok(Self(Self::read(&file)?.0.keep()))
    }

    /// Adds the new cases to the file of the function in a folder, and a runner if there is none. Returns the file with
    /// the cases.
    ///
    /// # Errors
    /// A system error, or a link of a project that leads out of it.
    pub fn write(&self, folder: &Path, function: &str) -> Result<PathBuf, BadCases> {
        let (cases, runner) = (file_of(folder, function), folder.join(RUNNER));
        let io = |source| BadCases::Io { path: cases.clone(), source };
        let mut text = match read_regular(&cases, LARGEST) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read.map_err(io)?,
        };
        text.extend_from_slice(self.0.new_lines().as_bytes());
        write_named(&cases, &text).map_err(io)?;
        if runner.symlink_metadata().is_err() {
            write_named(&runner, include_bytes!("cases/run_cases.py"))
                .map_err(|source| BadCases::Io { path: runner, source })?;
        }
        Ok(cases)
    }
}

/// Returns the path of a function's cases in a folder.
fn file_of(folder: &Path, function: &str) -> PathBuf {
    folder.join(format!("{}{CASES_JSONL}", function.replace(['/', ':'], "__")))
}

fn only_file(folder: &Path) -> Result<PathBuf, BadCases> {
    let io = |source| BadCases::Io { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(io)?.collect::<Result<Vec<_>, _>>().map_err(io)?;
    let files = entries.iter().map(fs::DirEntry::path);
    let mut files = files.filter(|path| path.to_str().is_some_and(format::is_cases_file));
    match (files.next(), files.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(BadCases::NotOne(folder.to_owned())),
    }
}

/// Returns a case in the form of a recorded call, if it expects one exact output or a failure.
fn recorded(case: &format::Case) -> Case {
    let from = case.from.as_ref();
    let failure = case.expect.fails.map(|kind| {
        let said = from.and_then(|from| from.failure.clone());
        Failure::new(kind, said.unwrap_or_else(|| "the case expects a failure".to_owned()))
    });
    Case {
        input: Arc::clone(&case.input),
        output: case
            .expect
            .output
            .as_ref()
            .and_then(|matcher| matcher.exact())
            .map(|value| Arc::new(value.clone())),
        failure,
        run: from.map(|from| from.run.clone()).unwrap_or_default(),
        place: CallPath::typed(from.map_or(&*case.name, |from| from.call.as_str())),
        calls: from.map_or(1, |from| from.calls),
        differing: from.map_or(0, |from| from.differing),
    }
}
