//! JSON Lines: a value in each line.

use super::LONGEST_ROW;
use crate::{
    problem::Problem,
    row::{Broken, Content, Place, ROW, Raw, Row, without_failure},
};
use llm_do_core::json::{self, BadJson, Fault};
use serde_json::{Map, Value};
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    sync::Arc,
};

/// A reader of the lines that are not empty.
pub(crate) struct JsonLines {
    reader: BufReader<File>,
    file: Arc<str>,
    line: u64,
    row: u64,
    bytes: Vec<u8>,
}

impl JsonLines {
    pub(super) fn new(file: File, name: Arc<str>) -> Self {
        let reader = BufReader::with_capacity(1 << 16, file);
        Self { reader, file: name, line: 0, row: 0, bytes: Vec::new() }
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>, Problem> {
        let failed = |source| Problem::Input { path: (*self.file).into(), source };
        loop {
            self.bytes.clear();
            let read = (&mut self.reader).take(LONGEST_ROW + 1).read_until(b'\n', &mut self.bytes);
            let read = read.map_err(failed)?;
            if read == 0 {
                return Ok(None);
            }
            self.line += 1;
            if read as u64 > LONGEST_ROW {
                let what = format!("line {} has more than {} MiB", self.line, LONGEST_ROW >> 20);
                return Err(failed(io::Error::other(what)));
            }
            if self.bytes.iter().any(|byte| !byte.is_ascii_whitespace()) {
                break;
            }
        }
        self.row += 1;
        let place = Place { file: Arc::clone(&self.file), row: self.row, line: Some(self.line) };
        // Without the end of the line, after which an error would have no column.
        if self.line == 1 && self.bytes.starts_with("\u{feff}".as_bytes()) {
            self.bytes.drain(.."\u{feff}".len());
        }
        let content = json::read_bytes(self.bytes.trim_ascii_end());
        let raw = || Raw::Line(String::from_utf8_lossy(self.bytes.trim_ascii()).into_owned());
        let content = match content {
            Ok(Value::Object(object)) if object.contains_key(ROW) => earlier(without_failure(object)),
            Ok(value) => Ok(Content::Json(value)),
            Err(error) => Err(Broken { reason: without_line(&error), raw: raw() }),
        };
        Ok(Some(Row { place, content }))
    }
}

/// Reads a row that an earlier map could not read: an object in the place of the unreadable content repairs it. The
/// parameters that the earlier map gave the row are beside it.
fn earlier(mut object: Map<String, Value>) -> Result<Content, Broken> {
    match object.shift_remove(ROW) {
        Some(Value::Object(mended)) => {
            object.extend(mended);
            Ok(Content::Json(object.into()))
        }
        found => {
            object.extend(found.map(|found| (ROW.to_owned(), found)));
            let reason = format!(
                "an earlier map could not read it: put an object in place of its text, such as {{\"{ROW}\": {{\"PARAMETER\": \"VALUE\"}}}}"
            );
            Err(Broken { reason, raw: Raw::Earlier(object) })
        }
    }
}

/// Formats the message without the line number, which counts from the beginning of this text.
fn without_line(error: &BadJson) -> String {
    let no_json = if error.fault == Fault::Refused { "" } else { "it is not JSON: " };
    format!("{no_json}{} (column {})", error.message, error.column)
}
