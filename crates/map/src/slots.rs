//! A hash table in a file: the state of ten million rows does not fit into memory.
//!
//! Entries are never removed. The file is temporary: each command makes it from the results, so a process that is
//! killed in the middle of a change leaves nothing to repair.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// The number of bytes of a key, and of a value.
const HALF: usize = 16;
const SLOT: usize = 2 * HALF;
/// The number of slots of an empty table.
const FIRST: u64 = 1 << 10;

/// A table of values of 16 bytes. A key is 16 bytes, which are a part of a hash.
pub(crate) struct Slots {
    file: File,
    path: PathBuf,
    /// The number of slots, a power of two.
    capacity: u64,
    used: u64,
}

impl Slots {
    /// Creates an empty table, which replaces the content of that file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        Self::with_capacity(path, FIRST)
    }

    fn with_capacity(path: &Path, capacity: u64) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        // A hole: only slots that are written take space.
        file.set_len(capacity * SLOT as u64)?;
        Ok(Self { file, path: path.to_owned(), capacity, used: 0 })
    }

    /// Opens the table in that file to read it as it is now. Another process may be writing it.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let capacity = file.metadata()?.len() / SLOT as u64;
        if !capacity.is_power_of_two() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} is no table", path.display()),
            ));
        }
        Ok(Self { file, path: path.to_owned(), capacity, used: 0 })
    }

    /// Returns the value of a key.
    pub(crate) fn get(&self, key: &[u8; HALF]) -> io::Result<Option<[u8; HALF]>> {
        Ok(self.find(key)?.1)
    }

    /// Sets the value of a key.
    pub(crate) fn put(&mut self, key: &[u8; HALF], value: &[u8; HALF]) -> io::Result<()> {
        if self.used * 3 >= self.capacity * 2 {
            self.grow()?;
        }
        let (at, before) = self.find(key)?;
        let mut slot = [0; SLOT];
        slot[..HALF].copy_from_slice(key);
        slot[HALF..].copy_from_slice(value);
        self.file.write_all_at(&slot, at * SLOT as u64)?;
        self.used += u64::from(before.is_none());
        Ok(())
    }

    /// Returns the slot of a key, or the free slot where the key belongs, and its value.
    fn find(&self, key: &[u8; HALF]) -> io::Result<(u64, Option<[u8; HALF]>)> {
        let mut first = [0; 8];
        first.copy_from_slice(&key[..8]);
        let start = u64::from_le_bytes(first) & (self.capacity - 1);
        let mut at = start;
        loop {
            let mut slot = [0; SLOT];
            self.file.read_exact_at(&mut slot, at * SLOT as u64)?;
            if slot == [0; SLOT] {
                return Ok((at, None));
            }
            if slot[..HALF] == *key {
                let mut value = [0; HALF];
                value.copy_from_slice(&slot[HALF..]);
                return Ok((at, Some(value)));
            }
            at = (at + 1) & (self.capacity - 1);
            // A table of llm-do has free slots.
            if at == start {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the table is full"));
            }
        }
    }

    fn grow(&mut self) -> io::Result<()> {
        const PIECE: usize = SLOT * 2048;
        let wider = self.path.with_extension("wider");
        let mut next = Self::with_capacity(&wider, self.capacity * 4)?;
        let mut piece = vec![0; PIECE.min((self.capacity as usize).saturating_mul(SLOT))];
        let mut at = 0;
        while at < self.capacity * SLOT as u64 {
            self.file.read_exact_at(&mut piece, at)?;
            for slot in piece.chunks(SLOT).filter(|slot| slot.iter().any(|byte| *byte != 0)) {
                let (mut key, mut value) = ([0; HALF], [0; HALF]);
                key.copy_from_slice(&slot[..HALF]);
                value.copy_from_slice(&slot[HALF..]);
                next.put(&key, &value)?;
            }
            at += piece.len() as u64;
        }
        fs::rename(&wider, &self.path)?;
        next.path = std::mem::take(&mut self.path);
        *self = next;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RowKey;

    #[test]
    fn every_key_is_found_with_its_last_value_while_the_table_grows() {
        let dir = tempfile::tempdir().unwrap();
        let mut slots = Slots::create(&dir.path().join("index")).unwrap();
        let key = |n: u64| RowKey::of("c", &n.to_string()).0;
        let value = |n: u64| {
            let mut value = [0; 16];
            value[..8].copy_from_slice(&n.to_le_bytes());
            value
        };
        for n in 0..20_000 {
            assert_eq!(slots.get(&key(n)).unwrap(), None);
            slots.put(&key(n), &value(n)).unwrap();
            slots.put(&key(n / 2), &value(n + 1)).unwrap();
        }
        assert_eq!(slots.used, 20_000);
        for n in 0..10_000 {
            assert_eq!(slots.get(&key(n)).unwrap(), Some(value(2 * n + 2)), "{n}");
        }
        for n in 10_000..20_000 {
            assert_eq!(slots.get(&key(n)).unwrap(), Some(value(n)), "{n}");
        }
        assert_eq!(slots.get(&key(20_000)).unwrap(), None);
    }
}
