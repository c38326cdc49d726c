//! Cases: what a worker or tool was given in recorded runs, and what it gave back (SPEC §12, hardening).

use llm_do_core::{
    call_path::CallPath,
    engine::Failure,
    journal::{Ending, Record, RecordKind},
    schema::canonical,
};
use llm_do_runs::{ReadError, read_journal};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Name of the file with the cases.
const CASES: &str = "cases.jsonl";
/// Name of the runner beside it.
const RUNNER: &str = "run_cases.py";

/// One input, and what came of it when it was first seen. A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The arguments.
    pub input: Arc<Value>,
    /// The output. Absent if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// The failure. Absent if there was an output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// ID of the run.
    pub run: String,
    /// Place of the call in its tree.
    pub place: CallPath,
    /// How many recorded calls had this input.
    pub calls: u64,
    /// How many of them gave something else than this one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub differing: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

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
pub struct Cases {
    cases: Vec<Case>,
    by_input: HashMap<String, usize>,
    /// How many were kept before: they stand as they are.
    kept: usize,
}

impl Cases {
    /// The cases.
    pub fn list(&self) -> &[Case] {
        &self.cases
    }

    /// Adds the calls of `function` (a worker's ID, or a tool) that a run has made and that have ended.
    ///
    /// # Errors
    /// Its journal can't be read.
    pub fn add_run(&mut self, run_dir: &Path, function: &str) -> Result<(), BadCases> {
        let records = read_journal(run_dir)?.records;
        let run = match records.first() {
            Some(Record { body: RecordKind::RunStarted { run, .. }, .. }) => run.to_string(),
            _ => return Ok(()),
        };
        let ends: HashMap<&CallPath, &Ending> = records
            .iter()
            .filter_map(|record| match &record.body {
                RecordKind::CallEnded { ending, .. } | RecordKind::ToolEnded { ending, .. } => {
                    Some((&record.path, ending))
                }
                _ => None,
            })
            .collect();
        for record in &records {
            let RecordKind::CallStarted { function: called, input, .. } = &record.body else { continue };
            if **called != *function {
                continue;
            }
            let (output, failure) = match ends.get(&record.path) {
                Some(Ending::Output(output)) => (Some(Arc::clone(output)), None),
                Some(Ending::Failure(failure)) => (None, Some(failure.clone())),
                Some(Ending::Suspended) | None => continue,
            };
            self.add(Case {
                input: Arc::clone(input),
                output,
                failure,
                run: run.clone(),
                place: record.path.clone(),
                calls: 1,
                differing: 0,
            });
        }
        Ok(())
    }

    /// The first of an input stands, unless it is a failure and a later one is none.
    fn add(&mut self, case: Case) {
        let Some(&known) = self.by_input.get(&canonical(&case.input)) else {
            self.by_input.insert(canonical(&case.input), self.cases.len());
            return self.cases.push(case);
        };
        if known < self.kept {
            return;
        }
        let known = &mut self.cases[known];
        known.calls += case.calls;
        match (&known.output, &case.output) {
            (Some(before), Some(now)) if before != now => known.differing += case.calls,
            (None, Some(_)) => {
                *known = Case { calls: known.calls, differing: known.differing, ..case };
            }
            _ => known.differing += case.differing,
        }
    }

    /// Reads a file of cases, or the one in a folder.
    ///
    /// # Errors
    /// It can't be read, or a line is no case.
    pub fn read(path: &Path) -> Result<Self, BadCases> {
        let path = if path.is_dir() { path.join(CASES) } else { path.to_owned() };
        let text = fs::read_to_string(&path).map_err(|source| BadCases::Io { path: path.clone(), source })?;
        let mut cases = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let case = serde_json::from_str(line).map_err(|source| BadCases::Line {
                path: path.clone(),
                line: number + 1,
                source,
            })?;
            cases.add(case);
        }
        Ok(cases)
    }

    /// Those that a folder holds already, which stand as they are; none if it holds no file of cases.
    ///
    /// # Errors
    /// As [`Cases::read`].
    pub fn kept(folder: &Path) -> Result<Self, BadCases> {
        if !folder.join(CASES).exists() {
            return Ok(Self::default());
        }
        let mut cases = Self::read(folder)?;
        cases.kept = cases.cases.len();
        Ok(cases)
    }

    /// Writes the cases, and a runner where there is none, into a folder. Gives back the file with the cases.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, BadCases> {
        let lines = self.cases.iter().map(|case| serde_json::to_string(case).map(|line| line + "\n"));
        let (cases, runner) = (folder.join(CASES), folder.join(RUNNER));
        let io = |source| BadCases::Io { path: cases.clone(), source };
        let text: String = lines.collect::<Result<_, _>>().map_err(|error| io(error.into()))?;
        fs::create_dir_all(folder).and_then(|()| fs::write(&cases, text)).map_err(io)?;
        if !runner.exists() {
            fs::write(&runner, include_str!("cases/run_cases.py"))
                .map_err(|source| BadCases::Io { path: runner, source })?;
        }
        Ok(cases)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(input: Value, output: Option<Value>, place: &str) -> Case {
        Case {
            input: Arc::new(input),
            output: output.map(Arc::new),
            failure: None,
            run: "r".into(),
            place: CallPath::typed(place),
            calls: 1,
            differing: 0,
        }
    }

    #[test]
    fn one_case_stands_for_an_input() {
        let mut cases = Cases::default();
        cases.add(case(json!({"a": 1, "b": 2}), None, "0/0.0"));
        cases.add(case(json!({"b": 2, "a": 1}), Some(json!("x")), "0/0.1"));
        cases.add(case(json!({"a": 1, "b": 2}), Some(json!("y")), "0/0.2"));
        cases.add(case(json!({"a": 1, "b": 2}), Some(json!("x")), "0/0.3"));
        cases.add(case(json!({"a": 2}), Some(json!("z")), "0/0.4"));
        let [first, second] = cases.list() else { panic!("two inputs") };
        assert_eq!((first.output.as_deref(), first.calls, first.differing), (Some(&json!("x")), 4, 1));
        assert_eq!((second.calls, second.differing), (1, 0));
        let folder = tempfile::tempdir().unwrap();
        cases.write(folder.path()).unwrap();
        // Once more, nothing is counted twice.
        let mut again = Cases::kept(folder.path()).unwrap();
        again.add(case(json!({"a": 2}), Some(json!("z")), "0/0.4"));
        assert_eq!(again.list(), cases.list());
        again.add(case(json!({"a": 3}), Some(json!("z")), "0/0.5"));
        assert_eq!(again.list().len(), 3);
    }
}
