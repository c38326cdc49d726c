//! The journal of a run, read from its bytes.

use crate::{
    blob::BlobSource,
    line::{Problem, parse_line},
};
use llm_do_core::journal::Record;

/// The content of a journal.
#[derive(Debug, Default)]
pub struct Journal {
    /// The records, with long values in place.
    pub records: Vec<Record>,
    /// True if the last line is incomplete, because a write was cut off. That line counts as not written.
    pub torn: bool,
    /// Bytes up to the end of the last whole line.
    pub whole_bytes: u64,
}

/// A line that is not the next record.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: u64,
    /// The problem with the line.
    pub problem: Problem,
}

impl Journal {
    /// Reads the journal in these bytes, without a check of its author.
    ///
    /// # Errors
    /// A line is not the next record, or one of its long values can't be read.
    pub fn parse(bytes: &[u8], blobs: &dyn BlobSource) -> Result<Self, LineError> {
        let mut journal = Self::default();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            if !line.ends_with(b"\n") {
                journal.torn = true;
                break;
            }
            let number = journal.records.len() as u64 + 1;
            parse_line(line, blobs)
                .and_then(|record| journal.push(record, line.len() as u64))
                .map_err(|problem| LineError { line: number, problem })?;
        }
        Ok(journal)
    }

    /// Adds the record of a line that has so many bytes, its end included.
    ///
    /// # Errors
    /// The record is not the next one.
    pub fn push(&mut self, record: Record, bytes: u64) -> Result<(), Problem> {
        let expected = self.records.len() as u64;
        if record.seq != expected {
            return Err(Problem::OutOfOrder { expected, found: record.seq });
        }
        self.records.push(record);
        self.whole_bytes += bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn note(seq: u64) -> String {
        format!(r#"{{"seq":{seq},"at_ms":9,"path":"0","step":"n","kind":"note","text":"t"}}"#) + "\n"
    }

    fn parse(text: &str) -> Result<Journal, LineError> {
        Journal::parse(text.as_bytes(), &HashMap::new())
    }

    #[test]
    fn half_a_line_counts_as_not_written() {
        let (first, second) = (note(0), note(1));
        for cut in 1..second.len() {
            let journal = parse(&format!("{first}{}", &second[..cut])).unwrap();
            assert_eq!((journal.records.len(), journal.torn), (1, true));
            assert_eq!(journal.whole_bytes, first.len() as u64);
        }
        let journal = parse(&format!("{first}{second}")).unwrap();
        assert_eq!((journal.records.len(), journal.torn), (2, false));
        let nothing = parse("").unwrap();
        assert_eq!((nothing.records.len(), nothing.torn), (0, false));
    }

    #[test]
    fn a_wrong_line_is_named() {
        let wrong = |text: String| parse(&text).unwrap_err();
        let doubled = wrong(note(0) + &note(0));
        assert!(matches!(doubled.problem, Problem::OutOfOrder { expected: 1, found: 0 }));
        assert_eq!(doubled.line, 2);
        let other = wrong(note(0) + &note(1) + "{}\n");
        assert!(matches!(other.problem, Problem::NotARecord(_)));
        assert_eq!(other.line, 3);
        let reference = format!(r#"{{"$blob":"sha256:{}","bytes":5000}}"#, "0".repeat(64));
        let missing = wrong(note(0).replace(r#""t""#, &reference));
        assert!(matches!(missing.problem, Problem::Blob(_)));
    }
}
