//! Cases: inputs of a worker or tool in recorded runs, with their results.

use llm_do_core::{
    call_path::CallPath,
    engine::Failure,
    journal::{Ending, Record, RecordKind},
    schema::canonical,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

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

/// A line that is not a case.
#[derive(Debug)]
pub struct CaseError {
    /// Number of the line, from 1.
    pub line: usize,
    /// Why.
    pub source: serde_json::Error,
}

/// Cases of one function, one for each input, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct CaseList {
    cases: Vec<Case>,
    by_input: HashMap<String, usize>,
    /// How many were kept before: they stay as they are.
    kept: usize,
}

impl CaseList {
    /// The cases in the lines of a file.
    ///
    /// # Errors
    /// A line is not a case.
    pub fn parse(text: &str) -> Result<Self, CaseError> {
        let mut cases = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            cases.add(serde_json::from_str(line).map_err(|source| CaseError { line: number + 1, source })?);
        }
        Ok(cases)
    }

    /// The same cases. Those that are added later don't change them.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.kept = self.cases.len();
        self
    }

    /// The cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// The lines of a file with the cases.
    ///
    /// # Errors
    /// A case has no form in JSON.
    pub fn lines(&self) -> Result<String, serde_json::Error> {
        self.cases.iter().map(|case| serde_json::to_string(case).map(|line| line + "\n")).collect()
    }

    /// Adds the calls of `function` (a worker's ID, or a tool) in a run that have ended.
    pub fn add_run(&mut self, records: &[Record], function: &str) {
        let run = match records.first() {
            Some(Record { body: RecordKind::RunStarted { run, .. }, .. }) => run.to_string(),
            _ => return,
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
        for record in records {
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
    }

    /// Adds a case. The first case of an input stays, unless it is a failure and a later one is not.
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
    fn an_input_has_one_case() {
        let mut cases = CaseList::default();
        cases.add(case(json!({"a": 1, "b": 2}), None, "0/0.0"));
        cases.add(case(json!({"b": 2, "a": 1}), Some(json!("x")), "0/0.1"));
        cases.add(case(json!({"a": 1, "b": 2}), Some(json!("y")), "0/0.2"));
        cases.add(case(json!({"a": 1, "b": 2}), Some(json!("x")), "0/0.3"));
        cases.add(case(json!({"a": 2}), Some(json!("z")), "0/0.4"));
        let [first, second] = cases.cases() else { panic!("two inputs") };
        assert_eq!((first.output.as_deref(), first.calls, first.differing), (Some(&json!("x")), 4, 1));
        assert_eq!((second.calls, second.differing), (1, 0));
        // Read back and kept, nothing is counted twice.
        let mut again = CaseList::parse(&cases.lines().unwrap()).unwrap().keep();
        again.add(case(json!({"a": 2}), Some(json!("z")), "0/0.4"));
        assert_eq!(again.cases(), cases.cases());
        again.add(case(json!({"a": 3}), Some(json!("z")), "0/0.5"));
        assert_eq!(again.cases().len(), 3);
    }
}
