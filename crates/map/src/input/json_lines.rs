//! JSON, one value a line.

use super::LONGEST_ROW;
use crate::{
    problem::Problem,
    row::{Broken, Content, Place, ROW, Raw, Row, without_failure},
};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use std::{
    fmt,
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
        let content = serde_json::from_slice::<Unique>(self.bytes.trim_ascii_end());
        let raw = || Raw::Line(String::from_utf8_lossy(self.bytes.trim_ascii()).into_owned());
        let content = match content {
            Ok(Unique(Value::Object(object))) if object.contains_key(ROW) => earlier(without_failure(object)),
            Ok(Unique(value)) => Ok(Content::Json(value)),
            Err(error) => {
                let no_json = if error.is_data() { "" } else { "it is not JSON: " };
                Err(Broken { reason: format!("{no_json}{}", without_line(&error)), raw: raw() })
            }
        };
        Ok(Some(Row { place, content }))
    }
}

/// A row that an earlier map could not read: an object in the place of what it found there mends it. Beside it are the
/// parameters that the earlier map gave it.
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

/// A JSON value whose objects have each key once: of two values, the last one is not more likely to be meant.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!("an object has the key `{key}` twice")));
            }
            let Unique(value) = entries.next_value()?;
            object.insert(key, value);
        }
        Ok(object.into())
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
