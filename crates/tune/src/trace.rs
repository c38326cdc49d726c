//! The records of a run, as far as a proposer reads them.

use llm_do_core::{
    call_path::CallPath,
    journal::{Ending, Record, RecordKind},
    outcome::{Failure, FailureKind},
};
use std::collections::HashMap;

/// The longest excerpt of a value, in characters.
const EXCERPT: usize = 500;
/// The largest number of calls in a trace.
const CALLS: usize = 20;

/// Returns the end of the top-level call.
pub(crate) fn ending(records: &[Record]) -> Option<&Ending> {
    records.iter().find_map(|record| match &record.body {
        RecordKind::CallEnded { ending, .. } if record.path == CallPath::root() => Some(ending),
        _ => None,
    })
}

/// Returns the failure of the model that ended a run.
pub(crate) fn model_failure(records: &[Record]) -> Option<&Failure> {
    match ending(records) {
        Some(Ending::Failure(failure)) if failure.kind == FailureKind::Model => Some(failure),
        _ => None,
    }
}

/// Formats the calls that a run made, one a line: `lookup({"item":"pear"}) -> {"price":0.5}`.
pub(crate) fn trace(records: &[Record]) -> String {
    let ends: HashMap<&CallPath, &Ending> = records
        .iter()
        .filter_map(|record| match &record.body {
            // The end of a tool is that of its call, unless the call's own end follows.
            RecordKind::ToolEnded { ending, .. } | RecordKind::CallEnded { ending, .. } => {
                Some((&record.path, ending))
            }
            _ => None,
        })
        .collect();
    let mut lines = Vec::new();
    for record in records.iter().filter(|record| record.path != CallPath::root()) {
        let RecordKind::CallStarted { function, input, .. } = &record.body else { continue };
        let end = match ends.get(&record.path) {
            Some(Ending::Output(output)) => excerpt(&output.to_string()),
            Some(Ending::Failure(failure)) => format!("failed: {}", excerpt(&failure.to_string())),
            Some(Ending::Suspended) | None => "did not end".into(),
        };
        lines.push(format!("{function}({}) -> {end}", excerpt(&input.to_string())));
    }
    if lines.len() > CALLS {
        let more = lines.len() - CALLS;
        lines.truncate(CALLS);
        lines.push(format!("… and {more} more calls"));
    }
    lines.join("\n")
}

/// Shortens a text.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
