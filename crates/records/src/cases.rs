//! Cases: inputs of a worker or tool in recorded runs, with their results.

use llm_do_core::{
    call_path::CallPath,
    engine::Failure,
    journal::{Ending, Record, RecordKind},
    schema::{canonical, sha256},
};
use serde::Serialize;
use serde_json::{Value, json};
use std::{collections::HashMap, sync::Arc};

/// An input with its recorded result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    /// The arguments.
    pub input: Arc<Value>,
    /// The output. Absent if the call failed, or if the case expects no exact output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<Value>>,
    /// The failure. Absent if there was an output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// ID of the run; empty for a case that was written by hand.
    pub run: String,
    /// Place of the call in its tree; for a case that was written by hand its name.
    pub place: CallPath,
    /// The number of recorded calls with this input.
    pub calls: u64,
    /// The number of these calls whose result differs from this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub differing: u64,
}

impl Case {
    /// Returns the case as a line of a file of cases (`docs/reference/cases.md`), without the end of line.
    pub fn line(&self) -> String {
        let mut from = json!({"run": self.run, "call": self.place, "calls": self.calls});
        if self.differing > 0 {
            from["differing"] = self.differing.into();
        }
        let expect = match (&self.output, &self.failure) {
            (Some(output), _) => json!({"output": {"exactly": output}}),
            (None, Some(failure)) => {
                from["failure"] = failure.message.as_str().into();
                json!({"fails": failure.kind})
            }
            (None, None) => json!({}),
        };
        json!({"name": self.name(), "input": self.input, "expect": expect, "from": from}).to_string()
    }

    /// Returns a name that is the same for the same call, and can be the name of a file.
    fn name(&self) -> String {
        let fits = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') { c } else { '_' };
        let name: String = format!("{}-{}", self.run, self.place).chars().map(fits).collect();
        // A call of code has a place as long as its arguments.
        if name.len() <= 100 { name } else { format!("{}-{}", &name[..60], &sha256(name.as_bytes())[..16]) }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Cases of one function, one for each input, in the order in which they were first seen.
#[derive(Clone, Debug, Default)]
pub struct CaseList {
    cases: Vec<Case>,
    by_input: HashMap<String, usize>,
    /// The number of cases that were kept before. They do not change any more.
    kept: usize,
}

impl CaseList {
    /// Makes a list of these cases, one for each input.
    pub fn of(cases: impl IntoIterator<Item = Case>) -> Self {
        let mut list = Self::default();
        cases.into_iter().for_each(|case| list.add(case));
        list
    }

    /// Keeps all cases as they are: later cases don't change them.
    #[must_use]
    pub fn keep(mut self) -> Self {
        self.kept = self.cases.len();
        self
    }

    /// Returns the cases.
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Returns the lines of a file with the cases that were not kept.
    pub fn new_lines(&self) -> String {
        self.cases.iter().skip(self.kept).map(|case| case.line() + "\n").collect()
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
        let mut again = CaseList::of(cases.cases().to_vec()).keep();
        again.add(case(json!({"a": 2}), Some(json!("z")), "0/0.4"));
        assert_eq!(again.cases(), cases.cases());
        again.add(case(json!({"a": 3}), Some(json!("z")), "0/0.5"));
        assert_eq!(again.cases().len(), 3);
        let line = "{\"name\":\"r-0_0.5\",\"input\":{\"a\":3},\"expect\":{\"output\":{\"exactly\":\"z\"}},\"from\":{\"run\":\"r\",\"call\":\"0/0.5\",\"calls\":1}}\n";
        assert_eq!(again.new_lines(), line);
    }
}
