//! The ends of rows: a line for each, found by a table.

use crate::{journal::ResultState, key::RowId, slots::Slots};
use llm_do::runs::still_named;
use llm_do_core::model::Usage;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

/// The end of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowEnd {
    /// The row has an output.
    Done(Done),
    /// The row has failed.
    Failed(Failed),
}

/// The output of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The output.
    pub(crate) output: Arc<Value>,
    /// The tokens and cost of the row.
    pub(crate) usage: Usage,
}

/// The failure of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failed {
    /// The kind of the failure in one word.
    pub(crate) kind: Arc<str>,
    /// The message of the failure.
    pub(crate) message: String,
    /// The tokens and cost of the row.
    pub(crate) usage: Usage,
    /// The row, as input for another map.
    pub(crate) input: Value,
}

/// The [`Failed::kind`] of a row that was interrupted during an effect. Such a row never runs again without a request.
pub(crate) const INTERRUPTED: &str = "interrupted";
/// The [`Failed::kind`] of a row with a call that needs an approval.
pub(crate) const ASKS: &str = "asks";
/// The [`Failed::kind`] of a row that is not a valid input.
pub(crate) const INVALID_INPUT: &str = "invalid_input";

/// The position of a row's end in the file, and its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    offset: u64,
    length: u32,
    /// True if the row has an output.
    pub(crate) done: bool,
    /// True if the row has failed and will be tried again: the row counts as missing.
    retried: bool,
}

impl Found {
    fn to_slot(self) -> [u8; 16] {
        let mut slot = [0; 16];
        slot[..8].copy_from_slice(&self.offset.to_le_bytes());
        slot[8..12].copy_from_slice(&self.length.to_le_bytes());
        (slot[12], slot[13]) = (u8::from(self.done), u8::from(self.retried));
        slot
    }

    fn of_slot(slot: [u8; 16]) -> Self {
        let (mut offset, mut length) = ([0; 8], [0; 4]);
        offset.copy_from_slice(&slot[..8]);
        length.copy_from_slice(&slot[8..12]);
        let (offset, length) = (u64::from_le_bytes(offset), u32::from_le_bytes(length));
        Self { offset, length, done: slot[12] == 1, retried: slot[13] == 1 }
    }
}

/// The part of a line before the end itself: `{"row":"`, 32 digits, `",`.
const BEFORE: &[u8] = b"{\"row\":\"";
const ID: usize = 32;

/// The file of ends, and the table that finds them.
pub(crate) struct Results {
    file: File,
    index: Slots,
    bytes: u64,
    lines: u64,
    /// The first segment of the journal that may have records of rows without an end.
    journal_from: u64,
}

#[derive(Serialize)]
struct EndedRow<'a> {
    row: String,
    #[serde(flatten)]
    end: &'a RowEnd,
}

#[derive(Deserialize)]
struct ReadLine {
    #[serde(flatten)]
    end: RowEnd,
}

impl Results {
    /// Reads the file, or begins it, and makes the table. An incomplete line at the end, left by a killed process, is
    /// removed. `again` chooses failures that count as missing.
    pub(crate) fn open(path: &Path, index: &Path, again: impl Fn(&Failed) -> bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path)?;
        let mut this = Self { file, index: Slots::create(index)?, bytes: 0, lines: 0, journal_from: 0 };
        let mut reader = BufReader::with_capacity(1 << 18, this.file.try_clone()?);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line)?;
            if line.last() != Some(&b'\n') {
                break;
            }
            this.lines += 1;
            this.learn(&line, &again)?;
            this.bytes += read as u64;
        }
        this.file.set_len(this.bytes)?;
        Ok(this)
    }

    /// Adds a line at the end of the known part to the table.
    fn learn(&mut self, line: &[u8], again: &impl Fn(&Failed) -> bool) -> io::Result<()> {
        let bad = |what: &str| {
            let what = format!("line {}: {what}", self.lines);
            io::Error::new(io::ErrorKind::InvalidData, what)
        };
        let Some(rest) = line.strip_prefix(BEFORE) else {
            #[derive(Deserialize)]
            struct From {
                journal_from: u64,
            }
            let from: From = serde_json::from_slice(line).map_err(|_| bad("it was not written by a map"))?;
            self.journal_from = from.journal_from;
            return Ok(());
        };
        let id = rest.get(..ID).and_then(RowId::parse).ok_or_else(|| bad("it has no row"))?;
        let rest = &rest[ID..];
        let done = rest.starts_with(b"\",\"done\":");
        if !done && !rest.starts_with(b"\",\"failed\":") {
            return Err(bad("it has no end of its row"));
        }
        let mut retried = false;
        if !done {
            let read: ReadLine =
                serde_json::from_slice(line).map_err(|_| bad("its failure can't be read"))?;
            retried = matches!(&read.end, RowEnd::Failed(failed) if again(failed));
        }
        let length = u32::try_from(line.len()).map_err(|_| bad("it is too long"))?;
        self.index.put(&id.0, &Found { offset: self.bytes, length, done, retried }.to_slot())
    }

    /// Returns the end of a row, if it has one that counts.
    pub(crate) fn find(&self, id: RowId) -> io::Result<Option<Found>> {
        Ok(self.index.get(&id.0)?.map(Found::of_slot).filter(|found| !found.retried))
    }

    /// Returns the state of a row.
    pub(crate) fn known(&self, id: RowId) -> io::Result<ResultState> {
        Ok(match self.index.get(&id.0)?.map(Found::of_slot) {
            None => ResultState::Missing,
            Some(found) if found.retried => ResultState::Retried,
            Some(_) => ResultState::Ended,
        })
    }

    /// Reads an end.
    pub(crate) fn read(&self, found: Found) -> io::Result<RowEnd> {
        let mut line = vec![0; found.length as usize];
        self.file.read_exact_at(&mut line, found.offset)?;
        let read: ReadLine = serde_json::from_slice(&line)?;
        Ok(read.end)
    }

    /// Adds an end.
    pub(crate) fn add(&mut self, id: RowId, end: &RowEnd) -> io::Result<()> {
        let mut line = serde_json::to_vec(&EndedRow { row: id.to_string(), end })?;
        line.push(b'\n');
        let length = u32::try_from(line.len()).map_err(|_| io::Error::other("an output of 4 GiB"))?;
        let offset = self.append(&line)?;
        let done = matches!(end, RowEnd::Done(_));
        self.index.put(&id.0, &Found { offset, length, done, retried: false }.to_slot())
    }

    /// Returns the first segment of the journal with records of rows without an end.
    pub(crate) fn journal_from(&self) -> u64 {
        self.journal_from
    }

    /// Notes that all rows with records in earlier segments have ended.
    pub(crate) fn set_journal_from(&mut self, segment: u64) -> io::Result<()> {
        if segment > self.journal_from {
            self.append(format!("{{\"journal_from\":{segment}}}\n").as_bytes())?;
            self.journal_from = segment;
        }
        Ok(())
    }

    /// Writes a whole line or nothing, and returns its position.
    fn append(&mut self, line: &[u8]) -> io::Result<u64> {
        let offset = self.bytes;
        if let Err(error) = self.file.write_all(line).and_then(|()| still_named(&self.file)) {
            self.file.set_len(offset)?;
            return Err(error);
        }
        self.bytes += line.len() as u64;
        Ok(offset)
    }
}

/// The ends of rows, read beside the command that may be writing them.
pub(crate) struct FoundEnds {
    file: File,
    index: Slots,
}

impl FoundEnds {
    pub(crate) fn open(path: &Path, index: Slots) -> io::Result<Self> {
        Ok(Self { file: File::open(path)?, index })
    }

    /// The end of a row. A failure that is tried again counts until it has another end.
    pub(crate) fn find(&self, id: RowId) -> io::Result<Option<Found>> {
        Ok(self.index.get(&id.0)?.map(Found::of_slot))
    }

    /// Reads an end. `None`: its line is longer than that.
    pub(crate) fn read(&self, found: Found, longest: u32) -> io::Result<Option<RowEnd>> {
        if found.length > longest {
            return Ok(None);
        }
        let mut line = vec![0; found.length as usize];
        self.file.read_exact_at(&mut line, found.offset)?;
        let read: ReadLine = serde_json::from_slice(&line)?;
        Ok(Some(read.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RowKey;
    use serde_json::json;
    use std::fs;

    fn id(n: u64) -> RowId {
        RowKey::of("c", "{}").occurrence(n)
    }

    fn done(n: u64) -> RowEnd {
        RowEnd::Done(Done { output: Arc::new(json!({ "n": n })), usage: Usage::default() })
    }

    fn failed(kind: &str) -> RowEnd {
        let (message, input) = ("no".into(), json!({"text": "t"}));
        RowEnd::Failed(Failed { kind: kind.into(), message, usage: Usage::default(), input })
    }

    #[test]
    fn ends_survive_a_kill_at_any_byte() {
        let dir = tempfile::tempdir().unwrap();
        let (path, index) = (dir.path().join("results.jsonl"), dir.path().join("index"));
        let open = || Results::open(&path, &index, |failed| &*failed.kind == "model").unwrap();
        let mut results = open();
        for n in 0..3 {
            results.add(id(n), &done(n)).unwrap();
        }
        results.add(id(3), &failed("model")).unwrap();
        results.add(id(4), &failed(INTERRUPTED)).unwrap();
        results.set_journal_from(7).unwrap();
        drop(results);
        let whole = fs::read(&path).unwrap();
        for cut in 0..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let mut results = open();
            let lines = whole[..cut].iter().filter(|byte| **byte == b'\n').count() as u64;
            for n in 0..3 {
                let found = results.find(id(n)).unwrap();
                assert_eq!(found.map(|found| results.read(found).unwrap()), (n < lines).then(|| done(n)));
            }
            assert_eq!(results.find(id(3)).unwrap(), None, "it is to be tried again");
            assert_eq!(results.find(id(4)).unwrap().is_some(), lines >= 5);
            assert_eq!(results.journal_from(), if lines >= 6 { 7 } else { 0 });
            results.add(id(9), &done(9)).unwrap();
            drop(results);
            let again = open();
            assert_eq!(again.read(again.find(id(9)).unwrap().unwrap()).unwrap(), done(9));
        }
    }

    #[test]
    fn a_file_that_no_map_has_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (path, index) = (dir.path().join("results.jsonl"), dir.path().join("index"));
        for wrong in ["hello\n", "{\"row\":\"zz\",\"done\":{}}\n", "{\"row\":\"", "{}\n"] {
            fs::write(&path, wrong).unwrap();
            let opened = Results::open(&path, &index, |_| false);
            assert_eq!(opened.is_ok(), !wrong.ends_with('\n'), "{wrong}");
        }
    }
}
