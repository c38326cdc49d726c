//! The identity of a row, in this command and in the next.

use sha2::{Digest as _, Sha256};
use std::fmt;

/// The key of equal rows: a hash of everything that determines a row's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RowKey(pub(crate) [u8; 16]);

/// The identity of a row: its key, and the number of equal rows before it. It is also the ID of the row's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RowId(pub(crate) [u8; 16]);

impl RowKey {
    /// Computes the key of an input of that program.
    pub(crate) fn of(closure: &str, canonical: &str) -> Self {
        Self(hash(&[closure.as_bytes(), b"\n", canonical.as_bytes()]))
    }

    /// Returns the identity of the row with that many equal rows before it.
    pub(crate) fn occurrence(self, before: u64) -> RowId {
        RowId(hash(&[&self.0, &before.to_le_bytes()]))
    }
}

impl RowId {
    /// Parses the hexadecimal form of an identity.
    pub(crate) fn parse(hex: &[u8]) -> Option<Self> {
        let digit = |byte: u8| (byte as char).to_digit(16).filter(|_| !byte.is_ascii_uppercase());
        let mut id = [0; 16];
        if hex.len() != 32 {
            return None;
        }
        for (byte, pair) in id.iter_mut().zip(hex.chunks(2)) {
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finalize()[..16]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written_and_nothing_else_is() {
        let id = RowKey::of("c", "{}").occurrence(3);
        assert_eq!(RowId::parse(id.to_string().as_bytes()), Some(id));
        for wrong in ["", "00", &"A".repeat(32), &"g".repeat(32), &"0".repeat(33)] {
            assert_eq!(RowId::parse(wrong.as_bytes()), None, "{wrong}");
        }
        assert_ne!(RowKey::of("c", "{}").occurrence(0), RowKey::of("c", "{}").occurrence(1));
        assert_ne!(RowKey::of("c", "{}"), RowKey::of("d", "{}"));
    }
}
