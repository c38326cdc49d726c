//! Reading the journals of the page.

use crate::{
    bridge::Bridge,
    message::{Bytes, Done, Effect, EffectError, ErrorKind},
};
use llm_do_core::journal::{Ending, Record, RecordKind, RunStatus};
use llm_do_records::{Chain, History, Journal, RunView, Sealer};
use std::collections::{BTreeSet, HashMap};

/// The largest journal that is read.
const LARGEST: u64 = 512 << 20;
/// The beginning of a reference to a long value.
const REFERENCE: &str = "\"$blob\":\"sha256:";

/// Returns true if a text has the form of a run's ID.
pub(crate) fn is_run_id(text: &str) -> bool {
    let digits = |part: Option<&str>, len: usize| {
        part.is_some_and(|p| {
            p.len() == len && p.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f'))
        })
    };
    let mut parts = text.split('-');
    digits(parts.next(), 8) && digits(parts.next(), 6) && digits(parts.next(), 4) && parts.next().is_none()
}

/// Returns the folder of the runs of a program.
pub(crate) fn runs_of(program: &str) -> String {
    format!("{program}/.llm-do/runs")
}

/// Returns the folder of a run.
pub(crate) fn folder_of(program: &str, run: &str) -> String {
    format!("{}/{run}", runs_of(program))
}

/// A journal that was read.
pub(crate) struct Read {
    pub(crate) records: Vec<Record>,
    /// The size of the file, and the end of its last whole line.
    pub(crate) bytes: u64,
    pub(crate) whole_bytes: u64,
    /// The seals up to the last record, if every record has one of this browser.
    pub(crate) seals: Option<Chain>,
    /// The whole lines of the file.
    pub(crate) lines: Vec<u8>,
}

async fn content(bridge: &Bridge, path: String) -> Result<Vec<u8>, EffectError> {
    let Done { base64, .. } = bridge.perform(|id| Effect::Read { id, path, from: 0, most: LARGEST }).await?;
    let Bytes(content) = base64.unwrap_or_default();
    Ok(content)
}

/// Reads the journal of a run with its long values.
///
/// # Errors
/// There is none, or it can't be read.
pub(crate) async fn read(
    bridge: &Bridge,
    program: &str,
    run: &str,
    sealer: &Sealer,
) -> Result<Read, EffectError> {
    let folder = folder_of(program, run);
    let bytes = content(bridge, format!("{folder}/journal.jsonl")).await?;
    let text = String::from_utf8_lossy(&bytes);
    let named: BTreeSet<&str> = text
        .split(REFERENCE)
        .skip(1)
        .filter_map(|rest| rest.get(..64))
        .filter(|hash| is_hash(hash))
        .collect();
    let reading = named.into_iter().map(|hash| {
        let path = format!("{folder}/blobs/{hash}");
        async move { (hash.to_owned(), content(bridge, path).await) }
    });
    let blobs: HashMap<String, Vec<u8>> = futures_util::future::join_all(reading)
        .await
        .into_iter()
        .filter_map(|(hash, content)| Some((hash, content.ok()?)))
        .collect();
    let wrong = |error: &dyn std::fmt::Display| EffectError {
        kind: ErrorKind::Other,
        message: format!("the journal of {run} can't be read: {error}"),
    };
    let Journal { records, whole_bytes, .. } =
        Journal::parse(&bytes, &blobs).map_err(|error| wrong(&error))?;
    let mut seals = sealer.chain(run);
    let whole = usize::try_from(whole_bytes).unwrap_or(bytes.len()).min(bytes.len());
    let lines = bytes[..whole].to_vec();
    let sealed =
        lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).all(|line| seals.admits(line));
    Ok(Read { records, bytes: bytes.len() as u64, whole_bytes, seals: sealed.then_some(seals), lines })
}

fn is_hash(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// The state of a run that no engine of this page executes, by its records.
pub(crate) fn state_of(records: &[Record]) -> (&'static str, Option<String>) {
    match records.last().map(|record| &record.body) {
        Some(RecordKind::RunEnded { status, ending, .. }) => match (status, ending) {
            (RunStatus::Interrupted, Ending::Failure(failure))
                if failure.message != llm_do_core::outcome::Halt::Cancelled.to_string() =>
            {
                ("cut_off", Some(failure.message.clone()))
            }
            (status, _) => (name_of(*status), None),
        },
        _ if !History::of(records.to_vec()).waiting().is_empty() => ("waiting", None),
        _ => ("cut_off", None),
    }
}

/// The name of the state of a run that ended so.
pub(crate) fn name_of(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Done => "done",
        RunStatus::Failed => "failed",
        RunStatus::Limit => "limit",
        RunStatus::Refused => "refused",
        RunStatus::Suspended => "waiting",
        RunStatus::Interrupted => "cancelled",
    }
}

/// The usage of a run so far.
pub(crate) fn view_of(records: &[Record]) -> RunView {
    RunView::of(records)
}
