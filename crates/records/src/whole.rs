//! A run with its whole journal, by call.

use crate::{
    journal::Journal,
    steps::{Step, steps},
    tree::{CallNode, RunTree},
};
use llm_do_core::{
    call_path::CallPath,
    journal::{Ending, Record, RecordKind},
    model::Blob,
};
use serde::Serialize;
use serde_json::Value;
use std::{collections::HashMap, sync::Arc};

/// A run in full.
#[derive(Debug)]
pub struct WholeRun {
    tree: RunTree,
    journal: Journal,
    /// Numbers of the records of each call.
    by_call: HashMap<CallPath, Vec<usize>>,
}

/// A call in full.
#[derive(Clone, Debug, Serialize)]
pub struct WholeCall<'a> {
    /// The call's node in the tree, with the calls below it.
    #[serde(flatten)]
    pub node: &'a CallNode,
    /// The output of the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<&'a Arc<Value>>,
    /// Files that it returned with the output.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub blobs: &'a [Blob],
    /// All its records, in order, without the records of the run itself.
    pub records: Vec<&'a Record>,
}

impl WholeRun {
    /// Makes the run of these records. `running`: a process is writing the journal.
    pub fn of(run: &str, journal: Journal, running: bool) -> Self {
        let mut by_call: HashMap<CallPath, Vec<usize>> = HashMap::new();
        for (number, record) in journal.records.iter().enumerate() {
            if !is_of_run(&record.body) {
                by_call.entry(record.path.clone()).or_default().push(number);
            }
        }
        Self { tree: RunTree::of(run, &journal, running), journal, by_call }
    }

    /// Returns the calls of the run as a tree.
    pub fn tree(&self) -> &RunTree {
        &self.tree
    }

    /// Returns the records of the run.
    pub fn records(&self) -> &[Record] {
        &self.journal.records
    }

    /// Returns the steps of the run that took time.
    pub fn steps(&self) -> Vec<Step<'_>> {
        steps(&self.journal.records)
    }

    /// Returns the call at that place.
    pub fn call(&self, path: &CallPath) -> Option<WholeCall<'_>> {
        let mut left: Vec<&CallNode> = self.tree.calls.iter().collect();
        while let Some(node) = left.pop() {
            if node.path == *path {
                return Some(self.whole(node));
            }
            left.extend(&node.calls);
        }
        None
    }

    /// Returns a call of this run's tree in full.
    pub fn whole<'a>(&'a self, node: &'a CallNode) -> WholeCall<'a> {
        let numbers = self.by_call.get(&node.path).map(Vec::as_slice).unwrap_or_default();
        let records: Vec<&Record> = numbers.iter().map(|&number| &self.journal.records[number]).collect();
        let mut ended = records.iter().rev().filter_map(|record| match &record.body {
            RecordKind::ToolEnded { ending, blobs, .. } | RecordKind::CallEnded { ending, blobs, .. } => {
                Some((ending, blobs.as_slice()))
            }
            _ => None,
        });
        let (output, blobs) = match ended.next() {
            Some((Ending::Output(value), blobs)) => (Some(value), blobs),
            Some((_, blobs)) => (None, blobs),
            None => (None, &[][..]),
        };
        WholeCall { node, output, blobs, records }
    }
}

/// Returns true if a record belongs to the run and not to a call, although its place is the root.
fn is_of_run(body: &RecordKind) -> bool {
    matches!(
        body,
        RecordKind::RunStarted { .. } | RecordKind::RunResumed { .. } | RecordKind::RunEnded { .. }
    )
}
