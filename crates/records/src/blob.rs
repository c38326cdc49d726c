//! Long values, stored beside the journal under their hash.
//!
//! In a record such a value is `{"$blob": "sha256:HEX", "bytes": N}`. The bytes stored under `HEX` are the text of a
//! string as it is, or, with `"json": true`, the JSON of any other value. A key `$blob`, `$$blob`, ... in a user's own
//! object gets one more `$`, so that no such object is mistaken for a reference.

use llm_do_core::schema::sha256;
use memchr::memmem;
use serde_json::{Map, Value};
use std::{collections::HashMap, hash::BuildHasher, io, sync::LazyLock};

/// Values whose JSON is longer, in bytes, are stored beside the journal.
pub const INLINE_BYTES: usize = 4096;

/// Most bytes of long values that are read for one record: in a manipulated journal, references could multiply without
/// bound.
const MOST_BYTES: u64 = 1 << 28;
/// Most nesting of values. It is deeper than any value in a journal: JSON nests 128 levels at most, and references are
/// few.
const DEEPEST: usize = 512;

/// A long value that can't be read back.
#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    /// The reference itself is wrong.
    #[error("`$blob` does not refer to a stored value")]
    BadReference,
    /// The value can't be read.
    #[error("the stored value {hash} cannot be read: {source}")]
    Io {
        /// The value's hash.
        hash: String,
        /// The reason.
        source: io::Error,
    },
    /// The stored bytes are not the value that was stored.
    #[error("the stored value {hash} has been changed or cut short")]
    Corrupt {
        /// The value's hash.
        hash: String,
    },
    /// The file of the value is empty, as a power failure leaves it.
    #[error("the stored value {hash} was lost: its file is empty")]
    Lost {
        /// The value's hash.
        hash: String,
    },
    /// The values are larger or nested deeper than any that llm-do writes.
    #[error("the stored values of one record come to more than {} MB or refer to each other too deeply", MOST_BYTES >> 20)]
    TooLarge,
}

/// The stored values of one run.
pub trait BlobSource {
    /// Returns the bytes stored under `hash`, which has the form of a SHA-256 in hexadecimal. Of a longer value only
    /// the first `most` bytes are needed.
    ///
    /// # Errors
    /// The value does not exist, or it can't be read.
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>>;
}

/// Values in memory, by their hashes.
impl<S: BuildHasher> BlobSource for HashMap<String, Vec<u8>, S> {
    fn read(&self, hash: &str, _: u64) -> io::Result<Vec<u8>> {
        self.get(hash).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Takes a long value: its hash and its bytes.
pub type StoreBlob<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

/// Returns true if the values of a record may have to be packed. False for nearly all records: their values are not
/// visited then.
pub(crate) fn must_pack(line: &[u8]) -> bool {
    line.len() > INLINE_BYTES || mentions_blob(line)
}

/// Stores the long values in a record's fields, innermost first, and puts references in their place.
pub(crate) fn pack_record(record: &mut Value, store: &mut StoreBlob<'_>) -> io::Result<()> {
    match record {
        Value::Object(fields) => fields.values_mut().try_for_each(|value| pack(value, store).map(drop)),
        _ => Ok(()),
    }
}

/// Returns the length of the JSON that is left in place.
fn pack(value: &mut Value, store: &mut StoreBlob<'_>) -> io::Result<usize> {
    let bytes = match value {
        Value::Array(items) => {
            let mut bytes = 2 + items.len().saturating_sub(1);
            for item in items {
                bytes += pack(item, store)?;
            }
            bytes
        }
        Value::Object(fields) => {
            if fields.keys().any(|key| is_marked(key)) {
                *fields = renamed(fields, |key| if is_marked(&key) { format!("${key}") } else { key });
            }
            let mut bytes = 2 + fields.len().saturating_sub(1);
            for (key, item) in fields {
                bytes += string_len(key) + 1 + pack(item, store)?;
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
    *value = stored(value, store)?;
    Ok(value.to_string().len())
}

fn stored(value: &Value, store: &mut StoreBlob<'_>) -> io::Result<Value> {
    let json;
    let bytes = match value {
        Value::String(text) => text.as_bytes(),
        other => {
            json = other.to_string();
            json.as_bytes()
        }
    };
    let hash = sha256(bytes);
    store(&hash, bytes)?;
    let mut reference = Map::new();
    reference.insert("$blob".into(), format!("sha256:{hash}").into());
    reference.insert("bytes".into(), bytes.len().into());
    if !value.is_string() {
        reference.insert("json".into(), true.into());
    }
    Ok(Value::Object(reference))
}

/// Puts the values back in the place of the references, everywhere in a record.
pub(crate) fn unpack_record(record: &mut Value, blobs: &dyn BlobSource) -> Result<(), BlobError> {
    unpack(record, blobs, DEEPEST, &mut { MOST_BYTES })
}

fn unpack(value: &mut Value, blobs: &dyn BlobSource, depth: usize, left: &mut u64) -> Result<(), BlobError> {
    let depth = depth.checked_sub(1).ok_or(BlobError::TooLarge)?;
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| unpack(item, blobs, depth, left)),
        Value::Object(fields) if fields.contains_key("$blob") => {
            *value = load(fields, blobs, left)?;
            // Only a structure can hold further references.
            if value.is_string() { Ok(()) } else { unpack(value, blobs, depth, left) }
        }
        Value::Object(fields) => {
            if fields.keys().any(|key| is_marked(key)) {
                *fields = renamed(fields, |key| if is_marked(&key) { key[1..].to_owned() } else { key });
            }
            fields.values_mut().try_for_each(|item| unpack(item, blobs, depth, left))
        }
        _ => Ok(()),
    }
}

fn load(reference: &Map<String, Value>, blobs: &dyn BlobSource, left: &mut u64) -> Result<Value, BlobError> {
    let hash = reference["$blob"].as_str().and_then(|text| text.strip_prefix("sha256:"));
    let bytes = reference.get("bytes").and_then(Value::as_u64);
    let (Some(hash), Some(bytes)) = (hash, bytes) else { return Err(BlobError::BadReference) };
    if hash.len() != 64 || !hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(BlobError::BadReference);
    }
    *left = left.checked_sub(bytes).ok_or(BlobError::TooLarge)?;
    let corrupt = || BlobError::Corrupt { hash: hash.to_owned() };
    let content =
        blobs.read(hash, bytes + 1).map_err(|source| BlobError::Io { hash: hash.to_owned(), source })?;
    if content.is_empty() && bytes > 0 {
        return Err(BlobError::Lost { hash: hash.to_owned() });
    }
    if content.len() as u64 != bytes || sha256(&content) != hash {
        return Err(corrupt());
    }
    if reference.get("json").and_then(Value::as_bool) == Some(true) {
        serde_json::from_slice(&content).map_err(|_| corrupt())
    } else {
        String::from_utf8(content).map(Value::String).map_err(|_| corrupt())
    }
}

/// Returns true if a line may hold a reference, or a key that looks like one. Our JSON never escapes `$`.
pub(crate) fn mentions_blob(line: &[u8]) -> bool {
    static MARK: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"$blob\""));
    MARK.find(line).is_some()
}

/// Returns true if a key is `$blob`, or that with more `$` before it.
fn is_marked(key: &str) -> bool {
    key.starts_with('$') && key.trim_start_matches('$') == "blob"
}

fn renamed(fields: &mut Map<String, Value>, name: impl Fn(String) -> String) -> Map<String, Value> {
    std::mem::take(fields).into_iter().map(|(key, value)| (name(key), value)).collect()
}

/// Returns the length of the text as a JSON string.
fn string_len(text: &str) -> usize {
    let escaped = |b: u8| match b {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 1,
        0x00..0x20 => 5,
        _ => 0,
    };
    2 + text.len() + text.bytes().map(escaped).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    type Blobs = HashMap<String, Vec<u8>>;

    fn into(blobs: &mut Blobs) -> impl FnMut(&str, &[u8]) -> io::Result<()> {
        |hash, bytes| {
            blobs.insert(hash.to_owned(), bytes.to_owned());
            Ok(())
        }
    }

    fn round_trip(value: &Value) -> (Value, Value) {
        let mut blobs = HashMap::new();
        let mut packed = json!({ "value": value });
        pack_record(&mut packed, &mut into(&mut blobs)).unwrap();
        let mut back: Value = serde_json::from_str(&packed.to_string()).unwrap();
        unpack_record(&mut back, &blobs).unwrap();
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
        let mut blobs = Blobs::from([("../outside".to_owned(), b"secret".to_vec())]);
        let long = "x".repeat(5000);
        let mut record = json!({ "x": long });
        pack_record(&mut record, &mut into(&mut blobs)).unwrap();
        let read = |blobs: &Blobs, blob: Value, bytes: Value| {
            let mut value = json!({ "x": { "$blob": blob, "bytes": bytes } });
            unpack_record(&mut value, blobs).unwrap_err()
        };
        assert!(matches!(read(&blobs, json!("sha256:../outside"), json!(6)), BlobError::BadReference));
        assert!(matches!(read(&blobs, json!(7), json!(6)), BlobError::BadReference));
        let missing = json!(format!("sha256:{}", "0".repeat(64)));
        assert!(matches!(read(&blobs, missing, json!(6)), BlobError::Io { .. }));
        let hash = sha256(long.as_bytes());
        let stored = json!(format!("sha256:{hash}"));
        assert!(matches!(read(&blobs, stored.clone(), json!(4999)), BlobError::Corrupt { .. }));
        assert!(matches!(read(&blobs, stored.clone(), json!(u64::MAX)), BlobError::TooLarge));
        blobs.insert(hash, "y".repeat(5000).into_bytes());
        assert!(matches!(read(&blobs, stored, json!(5000)), BlobError::Corrupt { .. }));
    }

    #[test]
    fn references_that_multiply_are_stopped() {
        let mut blobs = HashMap::new();
        let mut value = stored(&Value::from("x".repeat(1 << 20)), &mut into(&mut blobs)).unwrap();
        for _ in 0..4 {
            value = stored(&Value::from(vec![value; 40]), &mut into(&mut blobs)).unwrap();
        }
        let unpacked = unpack(&mut value, &blobs, DEEPEST, &mut (16 << 20));
        assert!(matches!(unpacked, Err(BlobError::TooLarge)));
    }
}
