//! Long values, stored beside the journal under their hash.
//!
//! In a record such a value is `{"$blob": "sha256:HEX", "bytes": N}`; the file `blobs/HEX` holds the text of a string
//! as it is, or with `"json": true` the JSON of anything else. In a user's own object one `$` is put before a key
//! `$blob`, `$$blob`, ..., so that the two can't be mistaken for each other.

use llm_do_core::schema::sha256;
use memchr::memmem;
use serde_json::{Map, Value};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::LazyLock,
};

/// Values whose JSON is longer, in bytes, lie in a file of their own.
pub const INLINE_BYTES: usize = 4096;

/// Most bytes that the long values of one record may come to when it is read: references in a doctored journal could
/// multiply without end.
const MOST_BYTES: u64 = 1 << 28;
/// Deeper than any value a journal holds: JSON nests 128 levels at most, and references are few.
const DEEPEST: usize = 512;

/// A long value that can't be read back.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The reference itself is wrong.
    #[error("`$blob` does not refer to a stored value")]
    BadReference,
    /// The file can't be read.
    #[error("the stored value {hash} cannot be read: {source}")]
    Io {
        /// Its hash.
        hash: String,
        /// Why.
        source: io::Error,
    },
    /// The file is not what was stored.
    #[error("the stored value {hash} has been changed or cut short")]
    Corrupt {
        /// Its hash.
        hash: String,
    },
    /// More than any run records at once.
    #[error("the stored values of one record come to more than {} MB or refer to each other too deeply", MOST_BYTES >> 20)]
    TooLarge,
}

/// The folder of a run's long values.
#[derive(Debug)]
pub(crate) struct Blobs {
    dir: PathBuf,
}

impl Blobs {
    /// The folder `blobs` of a run; made when it is first needed.
    pub(crate) fn of_run(dir: &Path) -> Self {
        Self { dir: dir.join("blobs") }
    }

    /// Whether a record must be packed, or unpacked. False for nearly all: nothing is walked then.
    pub(crate) fn concern(line: &[u8]) -> bool {
        line.len() > INLINE_BYTES || mentions_blob(line)
    }

    /// Stores the long values in a record's fields, innermost first, and puts references in their place.
    pub(crate) fn pack_record(&self, record: &mut Value) -> io::Result<()> {
        match record {
            Value::Object(fields) => fields.values_mut().try_for_each(|value| self.pack(value).map(drop)),
            _ => Ok(()),
        }
    }

    /// Gives the length of the JSON of what is left in place.
    fn pack(&self, value: &mut Value) -> io::Result<usize> {
        let bytes = match value {
            Value::Array(items) => {
                let mut bytes = 2 + items.len().saturating_sub(1);
                for item in items {
                    bytes += self.pack(item)?;
                }
                bytes
            }
            Value::Object(fields) => {
                if fields.keys().any(|key| is_marked(key)) {
                    *fields = renamed(fields, |key| if is_marked(&key) { format!("${key}") } else { key });
                }
                let mut bytes = 2 + fields.len().saturating_sub(1);
                for (key, item) in fields {
                    bytes += string_len(key) + 1 + self.pack(item)?;
                }
                bytes
            }
            Value::String(text) => string_len(text),
            // Numbers are short, and nothing else is left.
            Value::Null | Value::Bool(_) | Value::Number(_) => return Ok(value.to_string().len()),
        };
        if bytes <= INLINE_BYTES {
            return Ok(bytes);
        }
        *value = self.store(value)?;
        Ok(value.to_string().len())
    }

    fn store(&self, value: &Value) -> io::Result<Value> {
        let json;
        let bytes = match value {
            Value::String(text) => text.as_bytes(),
            other => {
                json = other.to_string();
                json.as_bytes()
            }
        };
        let hash = sha256(bytes);
        self.write(&hash, bytes)?;
        let mut reference = Map::new();
        reference.insert("$blob".into(), format!("sha256:{hash}").into());
        reference.insert("bytes".into(), bytes.len().into());
        if !value.is_string() {
            reference.insert("json".into(), true.into());
        }
        Ok(Value::Object(reference))
    }

    /// Whole or not at all: what bears a hash's name has that hash.
    fn write(&self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.dir.join(hash);
        if path.try_exists()? {
            return Ok(());
        }
        private_dir(&self.dir)?;
        // One writer a run, under its lock: the name needs no more to be unique.
        let unfinished = self.dir.join(format!("{hash}.part"));
        let written = private_file(OpenOptions::new().write(true).create(true).truncate(true))
            .open(&unfinished)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, &path));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
    }

    /// Puts the values back in the place of the references, everywhere in a record.
    pub(crate) fn unpack_record(&self, record: &mut Value) -> Result<(), BlobError> {
        self.unpack(record, DEEPEST, &mut { MOST_BYTES })
    }

    fn unpack(&self, value: &mut Value, depth: usize, left: &mut u64) -> Result<(), BlobError> {
        let depth = depth.checked_sub(1).ok_or(BlobError::TooLarge)?;
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.unpack(item, depth, left)),
            Value::Object(fields) if fields.contains_key("$blob") => {
                *value = self.load(fields, left)?;
                // A text is what it is; only a structure can hold further references.
                if value.is_string() { Ok(()) } else { self.unpack(value, depth, left) }
            }
            Value::Object(fields) => {
                if fields.keys().any(|key| is_marked(key)) {
                    *fields = renamed(fields, |key| if is_marked(&key) { key[1..].to_owned() } else { key });
                }
                fields.values_mut().try_for_each(|item| self.unpack(item, depth, left))
            }
            _ => Ok(()),
        }
    }

    fn load(&self, reference: &Map<String, Value>, left: &mut u64) -> Result<Value, BlobError> {
        let hash = reference["$blob"].as_str().and_then(|text| text.strip_prefix("sha256:"));
        let bytes = reference.get("bytes").and_then(Value::as_u64);
        let (Some(hash), Some(bytes)) = (hash, bytes) else { return Err(BlobError::BadReference) };
        if hash.len() != 64 || !hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(BlobError::BadReference);
        }
        *left = left.checked_sub(bytes).ok_or(BlobError::TooLarge)?;
        let corrupt = || BlobError::Corrupt { hash: hash.to_owned() };
        let mut content = Vec::new();
        open_regular(&self.dir.join(hash))
            .and_then(|file| file.take(bytes + 1).read_to_end(&mut content))
            .map_err(|source| BlobError::Io { hash: hash.to_owned(), source })?;
        if content.len() as u64 != bytes || sha256(&content) != hash {
            return Err(corrupt());
        }
        if reference.get("json").and_then(Value::as_bool) == Some(true) {
            serde_json::from_slice(&content).map_err(|_| corrupt())
        } else {
            String::from_utf8(content).map(Value::String).map_err(|_| corrupt())
        }
    }
}

/// Whether a line may hold a reference, or a key that looks like one. Our JSON never escapes `$`.
pub(crate) fn mentions_blob(line: &[u8]) -> bool {
    static MARK: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"$blob\""));
    MARK.find(line).is_some()
}

/// `$blob`, or that with more `$` before it.
fn is_marked(key: &str) -> bool {
    key.starts_with('$') && key.trim_start_matches('$') == "blob"
}

fn renamed(fields: &mut Map<String, Value>, name: impl Fn(String) -> String) -> Map<String, Value> {
    std::mem::take(fields).into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// Length of the text as a JSON string.
fn string_len(text: &str) -> usize {
    let escaped = |b: u8| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0x00..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

/// Makes a folder, and those above it, that only its owner may enter.
pub(crate) fn private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Opens a file to read it, and nothing that would never end or never begin: a run's folder may have come with a
/// project from anywhere.
pub(crate) fn open_regular(path: &Path) -> io::Result<fs::File> {
    if fs::metadata(path)?.is_file() {
        fs::File::open(path)
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// A file that, if it is created, only its owner may read.
pub(crate) fn private_file(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn round_trip(value: &Value) -> (Value, Value) {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_run(dir.path());
        let mut packed = json!({ "value": value });
        blobs.pack_record(&mut packed).unwrap();
        let mut back: Value = serde_json::from_str(&packed.to_string()).unwrap();
        blobs.unpack_record(&mut back).unwrap();
        (packed["value"].take(), back["value"].take())
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>().prop_map(Value::from),
            ("[a\"\n\u{1}é]{1,3}", 1..4000_usize).prop_map(|(s, n)| Value::from(s.repeat(n))),
        ];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text,
        ];
        let key = prop_oneof![Just("$blob".to_owned()), "\\$*blob", "[a-c$]{0,3}", Just("bytes".to_owned())];
        leaf.prop_recursive(5, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]
        #[test]
        fn any_value_comes_back_as_it_was(value in any_json()) {
            let (packed, back) = round_trip(&value);
            prop_assert_eq!(back, value);
            prop_assert!(packed.to_string().len() <= INLINE_BYTES);
        }

        #[test]
        fn lengths_are_those_of_the_json(text in any::<String>()) {
            prop_assert_eq!(string_len(&text), Value::from(text.as_str()).to_string().len());
        }
    }

    #[test]
    fn only_the_innermost_long_value_is_moved() {
        let long = "x".repeat(5000);
        let (packed, _) = round_trip(&json!({ "a": [1, { "b": long }], "c": 2 }));
        let hash = sha256(long.as_bytes());
        assert_eq!(
            packed,
            json!({ "a": [1, { "b": { "$blob": format!("sha256:{hash}"), "bytes": 5000 } }], "c": 2 })
        );
    }

    #[test]
    fn users_objects_that_look_like_references_are_not_followed() {
        for value in [json!({ "$blob": "sha256:00" }), json!({ "$$blob": 1, "$blob": { "$blob": 2 } })] {
            let (packed, back) = round_trip(&value);
            assert_eq!(back, value);
            assert!(packed.get("$blob").is_none());
        }
    }

    #[test]
    fn references_reach_nothing_but_whole_stored_values() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_run(dir.path());
        fs::write(dir.path().join("outside"), "secret").unwrap();
        let read = |blob: Value, bytes: Value| {
            let mut value = json!({ "x": { "$blob": blob, "bytes": bytes } });
            blobs.unpack_record(&mut value).unwrap_err()
        };
        assert!(matches!(read(json!("sha256:../outside"), json!(6)), BlobError::BadReference));
        assert!(matches!(read(json!(7), json!(6)), BlobError::BadReference));
        assert!(matches!(read(json!(format!("sha256:{}", "0".repeat(64))), json!(6)), BlobError::Io { .. }));
        let long = "x".repeat(5000);
        let mut record = json!({ "x": long });
        blobs.pack_record(&mut record).unwrap();
        let hash = sha256(long.as_bytes());
        assert!(matches!(read(json!(format!("sha256:{hash}")), json!(4999)), BlobError::Corrupt { .. }));
        assert!(matches!(read(json!(format!("sha256:{hash}")), json!(u64::MAX)), BlobError::TooLarge));
        fs::write(blobs.dir.join(&hash), "y".repeat(5000)).unwrap();
        assert!(matches!(read(json!(format!("sha256:{hash}")), json!(5000)), BlobError::Corrupt { .. }));
    }

    #[test]
    fn references_that_multiply_are_stopped() {
        let dir = tempfile::tempdir().unwrap();
        let blobs = Blobs::of_run(dir.path());
        let mut value = blobs.store(&Value::from("x".repeat(1 << 20))).unwrap();
        for _ in 0..4 {
            value = blobs.store(&Value::from(vec![value; 40])).unwrap();
        }
        let unpacked = blobs.unpack(&mut value, DEEPEST, &mut (16 << 20));
        assert!(matches!(unpacked, Err(BlobError::TooLarge)));
    }
}
