//! JSON, one value a line.

use super::LONGEST_ROW;
use crate::{
    problem::Problem,
    row::{Broken, Content, Place, ROW, Raw, Row},
};
use serde_json::Value;
use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    sync::Arc,
};

/// The lines that are not empty.
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
        let content = serde_json::from_slice::<Value>(self.bytes.trim_ascii_end());
        let raw = || Raw::Line(String::from_utf8_lossy(self.bytes.trim_ascii()).into_owned());
        let content = match content {
            // A row of an earlier map that could not be read, as it was found.
            Ok(Value::Object(object)) if object.contains_key(ROW) => {
                let reason = format!(
                    "it is a row that an earlier map could not read: put an object in place of `{ROW}`"
                );
                Err(Broken { reason, raw: raw() })
            }
            Ok(value) => Ok(Content::Json(value)),
            Err(error) => {
                Err(Broken { reason: format!("it is not JSON: {}", without_line(&error)), raw: raw() })
            }
        };
        Ok(Some(Row { place, content }))
    }
}

/// The message without the line, which counts from the beginning of this text.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} (column {})", error.column()),
        None => text,
    }
}
