//! Compares a run with the expectations of its case.

use crate::{copy::Workspace, stand_ins::Stubs};
use llm_do_core::{
    call_path::CallPath,
    function::tool_name,
    gate::{Facts, Rule, Subject, ToolSets},
    journal::{Ending, Record, RecordKind},
    model::{Purpose, Usage},
    outcome::{End, FailureKind},
    template,
};
use llm_do_program::cases::{CallExpected, CaseLimits, Ensured, Expect, ExpectedFile, FileExpected};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};

/// The largest size of a file that is compared, in bytes.
const LARGEST_FILE: u64 = 16 << 20;

/// A run that has ended.
pub(crate) struct Finished<'a> {
    pub(crate) end: &'a End,
    pub(crate) input: &'a Value,
    pub(crate) usage: Usage,
    pub(crate) records: &'a [Record],
    pub(crate) workspace: &'a Workspace,
    pub(crate) stubs: &'a Stubs,
}

/// Returns the expectations that an outcome fails. Judges and functions are evaluated elsewhere.
pub(crate) fn failures(expect: &Expect, run: &Finished<'_>) -> Vec<String> {
    let mut failures = Vec::new();
    ending(expect, run.end, &mut failures);
    if let End::Done(output) = run.end {
        if let Some(matcher) = &expect.output
            && let Err(mismatch) = matcher.check(output)
        {
            failures.push(format!("output: {mismatch}"));
        }
        let values = json!({"input": run.input, "output": output});
        for ensured in &expect.ensures {
            let Ensured::That(that) = ensured else { continue };
            match template::holds(that, &values) {
                Ok(true) => {}
                Ok(false) => failures.push(format!("ensures: `{that}` does not hold")),
                Err(error) => failures.push(format!("ensures: `{that}` cannot be told: {error}")),
            }
        }
    }
    calls(&expect.calls, run.records, &mut failures);
    files(&expect.files, run.workspace, &mut failures);
    limits(&expect.limits, run, &mut failures);
    failures.extend(run.stubs.exhausted().into_iter().map(|message| format!("given: {message}")));
    failures
}

fn ending(expect: &Expect, end: &End, failures: &mut Vec<String>) {
    let name =
        |kind: FailureKind| serde_json::to_value(kind).ok().and_then(|kind| Some(kind.as_str()?.to_owned()));
    match (expect.fails, end) {
        (None, End::Done(_)) => {}
        (Some(kind), End::Failed(failure)) if failure.kind == kind => {}
        (None, End::Failed(failure)) => failures.push(format!("the call failed: {failure}")),
        (Some(kind), End::Failed(failure)) => failures.push(format!(
            "fails: expected {}, and the call failed otherwise ({}): {failure}",
            name(kind).unwrap_or_default(),
            name(failure.kind).unwrap_or_default()
        )),
        (Some(kind), End::Done(_)) => failures
            .push(format!("fails: expected {}, and the call has an output", name(kind).unwrap_or_default())),
        (_, End::Suspended(_)) => failures.push("the call waits for an operator".into()),
    }
}

/// A call that was made.
struct Made<'a> {
    function: &'a str,
    input: &'a Value,
    /// True if the call was refused before it ran.
    refused: bool,
}

fn made(records: &[Record]) -> Vec<Made<'_>> {
    let refused: HashMap<&CallPath, bool> = records
        .iter()
        .filter_map(|record| match &record.body {
            RecordKind::CallEnded { ending: Ending::Failure(failure), .. } => Some((
                &record.path,
                matches!(
                    failure.kind,
                    FailureKind::Blocked
                        | FailureKind::Denied
                        | FailureKind::InvalidInput
                        | FailureKind::Authority
                ),
            )),
            _ => None,
        })
        .collect();
    let started = records.iter().filter_map(|record| match &record.body {
        RecordKind::CallStarted { function, input, .. } if record.path != CallPath::root() => {
            let refused = refused.get(&record.path).copied().unwrap_or_default();
            Some(Made { function, input, refused })
        }
        _ => None,
    });
    started.collect()
}

fn fits(expected: &CallExpected, call: &Made<'_>) -> bool {
    let tool = tool_name(call.function);
    if !expected.calls.pattern.names_one_of(&[call.function, &tool]) {
        return false;
    }
    let argument = || {
        let texts =
            call.input.as_object().into_iter().flat_map(|input| input.values().filter_map(Value::as_str));
        let mut subjects = texts.chain([call.function]).flat_map(|text| {
            let relative = text.trim_start_matches("./").trim_start_matches('/').to_owned();
            [Subject::Path(relative), Subject::Text(text.to_owned())]
        });
        subjects.any(|subject| expected.calls.pattern.fits_arguments(&subject))
    };
    let sets = ToolSets::none();
    let facts = Facts { arguments: call.input, words: None, sets: &sets };
    (!expected.calls.pattern.has_arguments() || argument())
        && expected.calls.conditions.hold(facts, Rule::PreApproved)
}

fn calls(expected: &[CallExpected], records: &[Record], failures: &mut Vec<String>) {
    let made = made(records);
    for never in expected.iter().filter(|expected| expected.never) {
        if let Some(call) = made.iter().find(|call| fits(never, call)) {
            failures.push(format!("calls: `{}` must not be called, and was: {}", never.text, shown(call)));
        }
    }
    let mut left = made.iter().filter(|call| !call.refused);
    for expected in expected.iter().filter(|expected| !expected.never) {
        if left.any(|call| fits(expected, call)) {
            continue;
        }
        let earlier = made.iter().any(|call| !call.refused && fits(expected, call));
        let refused = made.iter().find(|call| call.refused && fits(expected, call));
        failures.push(match (earlier, refused) {
            (true, _) => format!("calls: `{}` was not called in this place of the order", expected.text),
            (false, Some(call)) => format!("calls: `{}` was refused: {}", expected.text, shown(call)),
            (false, None) => {
                let names: BTreeSet<&str> = made.iter().map(|call| call.function).collect();
                let names: Vec<&str> = names.into_iter().collect();
                let others = if names.is_empty() { "nothing".into() } else { names.join(", ") };
                format!("calls: `{}` was not called; called: {others}", expected.text)
            }
        });
        return;
    }
}

fn shown(call: &Made<'_>) -> String {
    let text: String = format!("{}({})", call.function, call.input).chars().take(200).collect();
    text
}

fn files(files: &[ExpectedFile], workspace: &Workspace, failures: &mut Vec<String>) {
    for ExpectedFile { path, expected, .. } in files {
        match (workspace.read(path, LARGEST_FILE), expected) {
            (Err(error), _) => failures.push(format!("files: {error}")),
            (Ok(None), FileExpected::Absent) => {}
            (Ok(None), FileExpected::Text(_)) => failures.push(format!("files: there is no `{path}`")),
            (Ok(Some(_)), FileExpected::Absent) => failures.push(format!("files: there is a file `{path}`")),
            (Ok(Some(text)), FileExpected::Text(matcher)) => {
                if let Err(mismatch) = matcher.check(&Value::String(text)) {
                    failures.push(format!("files: `{path}`: {mismatch}"));
                }
            }
        }
    }
}

/// Returns true if a run asks only models that cost nothing.
fn is_free(records: &[Record]) -> bool {
    records.iter().all(|record| match &record.body {
        RecordKind::ConversationStarted { model, .. } | RecordKind::ModelChosen { model, .. } => {
            model.is_free()
        }
        _ => true,
    })
}

fn limits(limits: &CaseLimits, run: &Finished<'_>, failures: &mut Vec<String>) {
    let usage = run.usage;
    let tokens = usage.input_tokens.unwrap_or(0) + usage.output_tokens.unwrap_or(0);
    if let Some(most) = limits.max_cost_usd {
        match usage.cost_usd {
            Some(cost) if cost > most => failures.push(format!("limits: it cost {cost}, at most {most}")),
            None if tokens > 0 && !is_free(run.records) => {
                failures.push("limits: the cost of its model is not known".into());
            }
            _ => {}
        }
    }
    let mut at_most = |what: &str, most: Option<u64>, count: u64| {
        if let Some(most) = most.filter(|most| count > *most) {
            failures.push(format!("limits: {count} {what}, at most {most}"));
        }
    };
    let turns: BTreeSet<u32> = run
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordKind::ModelRequested { turn, .. }
                if record.path == CallPath::root() && record.step.request() == Some(Purpose::Answer) =>
            {
                Some(*turn)
            }
            _ => None,
        })
        .collect();
    at_most("turns", limits.max_turns, turns.len() as u64);
    at_most("calls", limits.max_tool_calls, made(run.records).len() as u64);
    at_most("tokens", limits.max_tokens, tokens);
}
