//! Writes the output and the failures.

use crate::{
    input::Rows,
    key::RowId,
    order::Order,
    published::{Hashed, Published},
    results::{Done, Failed, Results, RowEnd},
    row::{Content, FAILURE, ROW, without_failure},
    state::Places,
};
use llm_do_core::model::Usage;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
};

/// The writer of the two files. They replace those of the last command when they are complete.
pub(crate) struct Publisher {
    places: Places,
    output: Hashed<BufWriter<File>>,
    failures: Hashed<BufWriter<File>>,
    failed: u64,
    /// The number of rows that are written, if they are written in order.
    cursor: u64,
    unordered: bool,
}

const OUTPUT: &str = "output.part";
const FAILURES: &str = "failures.part";
/// The name of the output with the inputs of its rows.
const KEPT: &str = "kept.part";
/// The beginning of a line of the output.
const ROW_FIELD: &[u8] = b"{\"row\":";

/// A line of the output.
#[derive(Serialize)]
struct OutputRow<'a> {
    row: u64,
    output: &'a Value,
    usage: &'a Usage,
    run: String,
}

impl Publisher {
    /// Begins both files.
    pub(crate) fn new(places: &Places, unordered: bool) -> io::Result<Self> {
        let create = |name: &str| {
            let mut options = OpenOptions::new();
            // As the user's other files: what is in it is the result, and no record.
            let file = options.write(true).create(true).truncate(true).mode(0o666).open(places.file(name))?;
            io::Result::Ok(Hashed::new(BufWriter::with_capacity(1 << 16, file)))
        };
        let (output, failures) = (create(OUTPUT)?, create(FAILURES)?);
        Ok(Self { places: places.clone(), output, failures, failed: 0, cursor: 0, unordered })
    }

    /// Writes the rows that had ended before this command, if the output is unordered.
    pub(crate) fn begin(&mut self, order: &Order, results: &Results) -> io::Result<()> {
        if !self.unordered {
            return Ok(());
        }
        for row in 0..order.rows() {
            let id = order.get(row)?.id;
            if let Some(found) = results.find(id)? {
                let end = results.read(found)?;
                self.write(row, id, &end)?;
            }
        }
        Ok(())
    }

    /// Processes a row that has ended: writes it, or all rows whose turn it is.
    pub(crate) fn ended(
        &mut self,
        row: u64,
        id: RowId,
        end: &RowEnd,
        order: &Order,
        results: &Results,
    ) -> io::Result<()> {
        if self.unordered {
            return self.write(row, id, end);
        }
        if row != self.cursor {
            return Ok(());
        }
        self.write(row, id, end)?;
        self.cursor += 1;
        self.advance(order, results)
    }

    /// Writes the rows that have ended, up to the first that has not.
    pub(crate) fn advance(&mut self, order: &Order, results: &Results) -> io::Result<()> {
        while !self.unordered && self.cursor < order.rows() {
            let id = order.get(self.cursor)?.id;
            let Some(found) = results.find(id)? else { break };
            let end = results.read(found)?;
            self.write(self.cursor, id, &end)?;
            self.cursor += 1;
        }
        Ok(())
    }

    /// Writes the buffers to the files, without waiting for the disk.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()?;
        self.failures.flush()
    }

    /// Writes the rest, without the rows that have no end, and moves both files to their places.
    pub(crate) fn finish(
        mut self,
        order: &Order,
        results: &Results,
        published: &mut Published,
        kept: Option<Rows>,
    ) -> io::Result<u64> {
        while !self.unordered && self.cursor < order.rows() {
            self.advance(order, results)?;
            self.cursor += 1;
        }
        if let Some(rows) = kept {
            self.keep(rows)?;
        }
        let failures = (self.failed > 0).then(|| self.failures.fingerprint());
        published.note(self.output.fingerprint(), failures)?;
        let put = |file: Hashed<BufWriter<File>>, from, to| {
            let file = file.into_inner().into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            fs::rename(self.places.file(from), to)
        };
        put(self.output, OUTPUT, &self.places.outputs)?;
        if self.failed > 0 {
            put(self.failures, FAILURES, &self.places.failures)?;
        } else {
            for gone in [self.places.file(FAILURES), self.places.failures.clone()] {
                match fs::remove_file(gone) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(self.failed)
    }

    /// Writes the output again, each line with the input of its row. The lines are in the order of the rows.
    fn keep(&mut self, mut rows: Rows) -> io::Result<()> {
        let changed = || io::Error::other("the input is not what it was when the rows ran");
        self.output.flush()?;
        let lines = BufReader::with_capacity(1 << 16, File::open(self.places.file(OUTPUT))?);
        let mut options = OpenOptions::new();
        let kept =
            options.write(true).create(true).truncate(true).mode(0o666).open(self.places.file(KEPT))?;
        let mut kept = Hashed::new(BufWriter::with_capacity(1 << 16, kept));
        let columns = rows.columns().map(<[String]>::to_vec).unwrap_or_default();
        let mut read = 0;
        for line in lines.split(b'\n') {
            let line = line?;
            let number = line.strip_prefix(ROW_FIELD).unwrap_or_default();
            let digits = number.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let wanted: u64 = std::str::from_utf8(&number[..digits])
                .ok()
                .and_then(|n| n.parse().ok())
                .ok_or_else(changed)?;
            let content = loop {
                let row = rows.next().map_err(|problem| io::Error::other(problem.to_string()))?;
                let row = row.ok_or_else(changed)?;
                read += 1;
                if read == wanted {
                    break row.content.map_err(|_| changed())?;
                }
            };
            kept.write_all(&line[..ROW_FIELD.len() + digits])?;
            kept.write_all(b",\"input\":")?;
            serde_json::to_writer(&mut kept, &input_of(content, &columns))?;
            kept.write_all(&line[ROW_FIELD.len() + digits..])?;
            kept.write_all(b"\n")?;
        }
        kept.flush()?;
        std::fs::rename(self.places.file(KEPT), self.places.file(OUTPUT))?;
        self.output = kept;
        Ok(())
    }

    fn write(&mut self, row: u64, id: RowId, end: &RowEnd) -> io::Result<()> {
        let (row, run) = (row + 1, id.to_string());
        match end {
            RowEnd::Done(Done { output, usage }) => {
                serde_json::to_writer(&mut self.output, &OutputRow { row, output, usage, run })?;
                self.output.write_all(b"\n")
            }
            RowEnd::Failed(failed) => {
                self.failed += 1;
                serde_json::to_writer(&mut self.failures, &failure(row, &run, failed))?;
                self.failures.write_all(b"\n")
            }
        }
    }
}

/// Returns the input of a row: its columns, or the name of its file.
fn input_of(content: Content, columns: &[String]) -> Value {
    match content {
        Content::Fields(fields) => {
            columns.iter().cloned().zip(fields.into_iter().map(Value::from)).collect::<Map<_, _>>().into()
        }
        Content::Json(Value::Object(object)) => without_failure(object).into(),
        Content::Json(value) => value,
        Content::File(file) => json!({"name": file.name}),
    }
}

/// Formats a failed row as input for another map: its parameters, and the failure beside them.
fn failure(row: u64, run: &str, failed: &Failed) -> Value {
    let mut line = match &failed.input {
        Value::Object(object) => object.clone(),
        other => Map::from_iter([(ROW.to_owned(), other.clone())]),
    };
    let what = json!({
        "kind": failed.kind,
        "message": failed.message,
        "row": row,
        "run": run,
        "usage": failed.usage,
    });
    line.insert(FAILURE.to_owned(), what);
    Value::Object(line)
}
