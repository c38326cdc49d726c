//! Seals: each record is authenticated with a key that only this user's llm-do has.
//!
//! A journal holds the operator's input, the approvals and the results of tools, and a resumed run trusts them. A
//! foreign project may contain journals. A run is therefore resumed only from a journal whose every record was written
//! here. The seal of a record is an HMAC-SHA-256 (RFC 2104), cut to 128 bits, over the previous seal (for the first
//! record, the run's ID) and the record's line.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{fmt, sync::Arc};

/// The bytes between a record's last field and its seal.
const FIELD: &[u8] = b",\"seal\":\"";
/// Letters of a seal: 128 bits as Base64 without padding.
const LETTERS: usize = 22;
/// Bytes of the seal at the end of a line.
const TAIL_BYTES: usize = FIELD.len() + LETTERS + 2;

/// Makes and verifies seals with one key. Clones share the key: each journal that is open has two of them.
#[derive(Clone)]
pub struct Sealer(Arc<Hmac<Sha256>>);

impl Sealer {
    /// Adds a seal to a JSON object as its last field. The object must have a field already. `purpose` is the kind of
    /// the object and the place it belongs to: a seal holds for its purpose alone. It must not be the ID of a run.
    pub fn seal(&self, purpose: &str, mut object: Vec<u8>) -> Vec<u8> {
        self.chain(purpose).seal(&mut object, 0);
        object
    }

    /// Returns true if [`Sealer::seal`] has sealed this object with this key and for this purpose.
    pub fn has_sealed(&self, purpose: &str, object: &[u8]) -> bool {
        self.chain(purpose).admits(object)
    }

    /// Begins the seals of a run's records.
    pub fn chain(&self, run: &str) -> Chain {
        Chain { key: self.clone(), before: run.as_bytes().into() }
    }
}

impl From<[u8; 32]> for Sealer {
    fn from(key: [u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "an HMAC takes keys of any length")]
        let hmac = Hmac::new_from_slice(&key).expect("an HMAC takes keys of any length");
        Self(Arc::new(hmac))
    }
}

/// Writes the type without the key.
impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

/// The seals up to a record.
#[derive(Clone, Debug)]
pub struct Chain {
    key: Sealer,
    before: Vec<u8>,
}

impl Chain {
    /// Adds the seal to a record's line, which has no end of line yet, as the last field of its JSON.
    pub fn seal(&mut self, lines: &mut Vec<u8>, start: usize) {
        let mac = self.mac(&lines[start..]);
        // Removes the `}`: the line is a JSON object with at least one field.
        lines.pop();
        lines.extend_from_slice(FIELD);
        self.before.clear();
        let mut letters = [0; LETTERS];
        #[expect(clippy::expect_used, reason = "16 bytes are 22 letters")]
        STANDARD_NO_PAD.encode_slice(mac, &mut letters).expect("16 bytes are 22 letters");
        self.before.extend_from_slice(&letters);
        lines.extend_from_slice(&letters);
        lines.extend_from_slice(b"\"}");
    }

    /// Returns true if the line, without its end of line, is the next line sealed with this key.
    pub fn admits(&mut self, line: &[u8]) -> bool {
        let Some((record, tail)) = line.split_last_chunk::<TAIL_BYTES>() else { return false };
        let Some(letters) = tail.strip_prefix(FIELD).and_then(|rest| rest.strip_suffix(b"\"}")) else {
            return false;
        };
        let Ok(mac) = STANDARD_NO_PAD.decode(letters) else { return false };
        let mut own = Hmac::clone(&self.key.0);
        own.update(&self.before);
        own.update(record);
        own.update(b"}");
        // Compares in constant time.
        let fits = own.verify_truncated_left(&mac).is_ok();
        self.before.clear();
        self.before.extend_from_slice(letters);
        fits
    }

    /// Returns a line without its seal and its last `}`, if it is the next line sealed with this key.
    pub fn admitted<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.admits(line).then(|| line.split_last_chunk::<TAIL_BYTES>()).flatten().map(|(record, _)| record)
    }

    /// The number of bytes that [`Chain::is_end_of`] compares.
    pub const END_BYTES: usize = LETTERS + 3;

    /// Returns true if a file ends with the last line that this chain has sealed or admitted. `end` are its last
    /// [`Chain::END_BYTES`].
    pub fn is_end_of(&self, end: &[u8]) -> bool {
        end.strip_suffix(b"\"}\n").is_some_and(|letters| letters == self.before)
    }

    fn mac(&self, line: &[u8]) -> [u8; 16] {
        let mut mac = Hmac::clone(&self.key.0);
        mac.update(&self.before);
        mac.update(line);
        let whole: [u8; 32] = mac.finalize().into_bytes().into();
        let (cut, _) = whole.split_at(16);
        #[expect(clippy::expect_used, reason = "half of 32 bytes are 16")]
        cut.try_into().expect("half of 32 bytes are 16")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealed(chain: &mut Chain, line: &str) -> Vec<u8> {
        let mut lines = line.as_bytes().to_vec();
        chain.seal(&mut lines, 0);
        lines
    }

    #[test]
    fn a_line_is_admitted_once_in_its_place_with_its_key() {
        let key = Sealer::from([7; 32]);
        let mut chain = key.chain("a");
        let lines = [sealed(&mut chain, r#"{"seq":0}"#), sealed(&mut chain, r#"{"seq":1}"#)];
        assert!(serde_json::from_slice::<serde_json::Value>(&lines[1]).unwrap()["seal"].is_string());
        let mut reading = key.chain("a");
        assert!(reading.admits(&lines[0]) && reading.admits(&lines[1]));
        assert!(!reading.admits(&lines[1]), "twice");
        assert!(!key.chain("a").admits(&lines[1]), "without the first");
        assert!(!key.chain("b").admits(&lines[0]), "in another run");
        assert!(!Sealer::from([8; 32]).chain("a").admits(&lines[0]), "with another key");
        for place in 0..lines[0].len() {
            let mut changed = lines[0].clone();
            changed[place] ^= 1;
            assert!(!key.chain("a").admits(&changed), "byte {place} is changed");
        }
        for bare in [&b"{\"seq\":0}"[..], b"", b"{}", b",\"seal\":\"AAAAAAAAAAAAAAAAAAAAAA\"}"] {
            assert!(!key.chain("a").admits(bare));
        }
    }

    #[test]
    fn an_object_is_sealed_for_one_purpose() {
        let key = Sealer::from([7; 32]);
        let object = key.seal("moves in /p", br#"{"moves":[]}"#.to_vec());
        assert!(key.has_sealed("moves in /p", &object));
        assert!(!key.has_sealed("moves in /q", &object));
        assert!(!Sealer::from([8; 32]).has_sealed("moves in /p", &object));
        assert!(!key.has_sealed("moves in /p", br#"{"moves":[]}"#));
        assert!(serde_json::from_slice::<serde_json::Value>(&object).unwrap()["moves"].is_array());
    }
}
