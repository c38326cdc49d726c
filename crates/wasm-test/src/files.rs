//! The files of a run, in memory.

use llm_do_core::journal::Record;
use llm_do_records::{Journal, RecordRef, Redactor, write_line};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The contents of a run's folder.
#[derive(Default, Deserialize, Serialize)]
pub(crate) struct RunFiles {
    /// The lines of the journal.
    journal: String,
    /// The long values by their hashes.
    #[serde(default)]
    blobs: BTreeMap<String, String>,
}

impl RunFiles {
    /// Writes these records as a host with a disk would.
    pub(crate) fn write(records: &[Record], redactor: &Redactor) -> Result<Self, String> {
        let mut files = Self::default();
        let mut lines = Vec::new();
        for Record { seq, at_ms, path, step, body } in records {
            let record = RecordRef { seq: *seq, at_ms: *at_ms, path, step, body };
            let mut store = |hash: &str, bytes: &[u8]| {
                files.blobs.insert(hash.to_owned(), String::from_utf8_lossy(bytes).into_owned());
                Ok(())
            };
            write_line(&mut lines, record, redactor, &mut store).map_err(|error| error.to_string())?;
            lines.push(b'\n');
        }
        files.journal = String::from_utf8(lines).map_err(|error| error.to_string())?;
        Ok(files)
    }

    /// Returns the journal in the files.
    pub(crate) fn read(self) -> Result<Journal, String> {
        let blobs: HashMap<String, Vec<u8>> =
            self.blobs.into_iter().map(|(hash, text)| (hash, text.into_bytes())).collect();
        Journal::parse(self.journal.as_bytes(), &blobs).map_err(|error| error.to_string())
    }
}
