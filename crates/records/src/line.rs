//! Writing and reading the lines of a journal. Each line is one record.

use crate::{
    blob::{BlobError, BlobSource, StoreBlob, mentions_blob, must_pack, pack_record, unpack_record},
    redactor::Redactor,
};
use llm_do_core::{
    call_path::CallPath,
    journal::{FORMAT, Record, RecordKind},
    step_name::StepName,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::io;

/// [`Record`], borrowed. The field order is that of the lines.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RecordRef<'a> {
    /// See [`Record::seq`].
    pub seq: u64,
    /// See [`Record::at_ms`].
    pub at_ms: u64,
    /// See [`Record::path`].
    pub path: &'a CallPath,
    /// See [`Record::step`].
    pub step: &'a StepName,
    /// See [`Record::body`].
    #[serde(flatten)]
    pub body: &'a RecordKind,
}

impl<'a> From<&'a Record> for RecordRef<'a> {
    fn from(record: &'a Record) -> Self {
        let Record { seq, at_ms, path, step, body } = record;
        Self { seq: *seq, at_ms: *at_ms, path, step, body }
    }
}

impl RecordRef<'_> {
    /// Makes an owned record.
    pub fn to_record(self) -> Record {
        let Self { seq, at_ms, path, step, body } = self;
        Record { seq, at_ms, path: path.clone(), step: step.clone(), body: body.clone() }
    }
}

/// The problem with a line.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The line is not JSON, or not the JSON of a record.
    #[error("not a record: {0}")]
    NotARecord(#[from] serde_json::Error),
    /// A long value is missing or damaged.
    #[error("{0}")]
    Blob(#[from] BlobError),
    /// Lines are missing, doubled or mixed up.
    #[error("record {expected} should stand here, not {found}: lines are missing or doubled")]
    OutOfOrder {
        /// The number that follows.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The line was written by a version with another format.
    #[error("written in journal format {0}; this version of llm-do reads format {FORMAT}")]
    Format(u32),
    /// The line is not sealed with the user's key, or was moved from its place.
    #[error(
        "this record was not written by your llm-do, or was changed since: a run can be resumed only from a journal of your own"
    )]
    Foreign,
    /// The line is longer than any line that llm-do writes.
    #[error("the line is too long for a record")]
    TooLong,
}

/// Adds a record's line, without its end of line: its secrets replaced, its long values stored. Returns the body as it
/// is recorded if that is another one.
///
/// # Errors
/// A long value can't be stored. Part of the line may have been added then.
pub fn write_line(
    lines: &mut Vec<u8>,
    record: RecordRef<'_>,
    redactor: &Redactor,
    store: &mut StoreBlob<'_>,
) -> io::Result<Option<RecordKind>> {
    let start = lines.len();
    let mut body = None;
    serde_json::to_writer(&mut *lines, &record)?;
    if redactor.suspects(&lines[start..]) {
        let record = redacted(redactor, &lines[start..])?;
        lines.truncate(start);
        serde_json::to_writer(&mut *lines, &record)?;
        body = Some(record.body);
    }
    if must_pack(&lines[start..]) {
        let mut record: Value = serde_json::from_slice(&lines[start..])?;
        pack_record(&mut record, store)?;
        lines.truncate(start);
        serde_json::to_writer(&mut *lines, &record)?;
    }
    Ok(body)
}

/// Parses the record in a line, its long values in place.
///
/// # Errors
/// See [`Problem`].
pub fn parse_line(line: &[u8], blobs: &dyn BlobSource) -> Result<Record, Problem> {
    let parsed = if mentions_blob(line) {
        let mut value: Value = serde_json::from_slice(line)?;
        unpack_record(&mut value, blobs)?;
        Record::deserialize(value)
    } else {
        serde_json::from_slice(line)
    };
    match parsed {
        Ok(Record { body: RecordKind::RunStarted { format, .. }, .. }) if format != FORMAT => {
            Err(Problem::Format(format))
        }
        Ok(record) => Ok(record),
        // The first record of another format may have other fields; its format can still be read.
        Err(error) => match serde_json::from_slice::<Value>(line)?["format"].as_u64() {
            Some(format) if format != u64::from(FORMAT) => {
                Err(Problem::Format(u32::try_from(format).unwrap_or(u32::MAX)))
            }
            _ => Err(error.into()),
        },
    }
}

/// Returns a body as a journal with that redactor records it.
///
/// # Errors
/// The body has no form in JSON.
pub fn as_recorded(
    redactor: &Redactor,
    path: &CallPath,
    step: &StepName,
    body: &RecordKind,
) -> io::Result<RecordKind> {
    let line = serde_json::to_vec(&RecordRef { seq: 0, at_ms: 0, path, step, body })?;
    let record =
        if redactor.suspects(&line) { redacted(redactor, &line)? } else { serde_json::from_slice(&line)? };
    Ok(record.body)
}

/// Returns the record without secrets.
fn redacted(redactor: &Redactor, line: &[u8]) -> io::Result<Record> {
    let record: Record = serde_json::from_slice(line)?;
    let sound = |value: &Value| {
        Record::deserialize(value).is_ok_and(|other| {
            // Place and step are not secrets, and no field may be lost because its key was replaced.
            other.path == record.path
                && other.step == record.step
                && serde_json::to_value(&other).is_ok_and(|again| again == *value)
        })
    };
    Ok(Record::deserialize(redactor.redact_value(&serde_json::to_value(&record)?, &sound))?)
}
