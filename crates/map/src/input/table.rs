//! CSV and TSV tables.

use super::{
    bounded::Bounded,
    quotes::{Quotes, Watched},
};
use crate::{
    problem::Problem,
    row::{Broken, Content, Place, Raw, Row},
};
use csv::{ByteRecord, ErrorKind, ReaderBuilder};
use std::{
    cell::Cell,
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    rc::Rc,
    sync::Arc,
};

/// A reader of the rows below a header.
pub(crate) struct Table {
    reader: csv::Reader<Watched<Bounded<File>>>,
    read: Rc<Cell<u64>>,
    quotes: Quotes,
    file: Arc<str>,
    columns: Vec<String>,
    record: ByteRecord,
    row: u64,
    /// True if lines end in CR LF. The reader stops at the CR, so it counts the line with the next row.
    crlf: bool,
}

impl Table {
    pub(super) fn new(mut file: File, delimiter: u8, name: Arc<str>) -> Result<Self, Problem> {
        let crlf =
            ends_in_crlf(&mut file).map_err(|source| Problem::Input { path: (*name).into(), source })?;
        let (bounded, read) = Bounded::new(file);
        let (watched, quotes) = Watched::new(bounded, delimiter);
        // Lines with another number of fields are broken rows, of which there may be some. TSV as spreadsheets write it has
        // quotes, too.
        let mut reader = ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(watched);
        let header = reader.byte_headers().map_err(|error| unreadable(&name, error))?.clone();
        if quotes.is_open_at(reader.position().byte()) {
            return Err(Problem::OpenQuote { file: name.to_string(), line: 1 });
        }
        let columns: Result<Vec<String>, _> =
            header.iter().map(|name| String::from_utf8(name.to_vec())).collect();
        let columns = columns.map_err(|_| Problem::Header {
            file: name.to_string(),
            reason: "the names of the columns are not UTF-8 text".into(),
        })?;
        let wrong = |reason: String| Problem::Header { file: name.to_string(), reason };
        if columns.iter().all(String::is_empty) {
            return Err(wrong("the first line has no names of columns".into()));
        }
        for (at, column) in columns.iter().enumerate() {
            if column.is_empty() {
                return Err(wrong(format!("column {} has no name", at + 1)));
            }
            if columns[..at].contains(column) {
                return Err(wrong(format!("two columns are named `{column}`")));
            }
        }
        Ok(Self { reader, read, quotes, file: name, columns, record: ByteRecord::new(), row: 0, crlf })
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, Problem> {
        self.read.set(0);
        let more = self.reader.read_byte_record(&mut self.record);
        if !more.map_err(|error| unreadable(&self.file, error))? {
            return Ok(None);
        }
        self.row += 1;
        let line = self.record.position().map(|at| at.line() + u64::from(self.crlf));
        if self.quotes.is_open_at(self.reader.position().byte()) {
            return Err(Problem::OpenQuote { file: self.file.to_string(), line: line.unwrap_or_default() });
        }
        let place = Place { file: Arc::clone(&self.file), row: self.row, line };
        let lossy = || self.record.iter().map(|field| String::from_utf8_lossy(field).into_owned()).collect();
        let (wanted, found) = (self.columns.len(), self.record.len());
        let content = if found == wanted {
            let fields: Result<Vec<String>, _> =
                self.record.iter().map(|field| String::from_utf8(field.to_vec())).collect();
            fields
                .map(Content::Fields)
                .map_err(|_| Broken { reason: "it is not UTF-8 text".into(), raw: Raw::Fields(lossy()) })
        } else {
            let (s, t) = (if found == 1 { "" } else { "s" }, if wanted == 1 { "" } else { "s" });
            Err(Broken {
                reason: format!("it has {found} field{s}, and the header names {wanted} column{t}"),
                raw: Raw::Fields(lossy()),
            })
        };
        Ok(Some(Row { place, content }))
    }
}

/// Returns true if the first line ends in CR LF. The position in the file does not change.
fn ends_in_crlf(file: &mut File) -> io::Result<bool> {
    let start = file.stream_position()?;
    let mut first = Vec::new();
    file.by_ref().take(1 << 16).read_to_end(&mut first)?;
    file.seek(SeekFrom::Start(start))?;
    let end = first.iter().position(|byte| *byte == b'\n');
    Ok(end.and_then(|end| end.checked_sub(1)).is_some_and(|before| first[before] == b'\r'))
}

fn unreadable(file: &str, error: csv::Error) -> Problem {
    let at = error.position().map(|at| format!(" after line {}", at.line())).unwrap_or_default();
    let source = match error.into_kind() {
        ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    };
    Problem::Input { path: format!("{file}{at}").into(), source }
}
