//! The identities of the input's rows, in the order of the input.

use crate::key::{RowId, RowKey};
use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
};

/// A row: the key of its content, and its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered {
    pub(crate) key: RowKey,
    pub(crate) id: RowId,
}

const BYTES: u64 = 32;

/// A writer of the list.
pub(crate) struct OrderWriter(BufWriter<File>);

/// A reader of the list.
pub(crate) struct Order {
    file: File,
    rows: u64,
}

impl OrderWriter {
    /// Creates an empty list, which replaces the content of that file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(true).open(path)?;
        Ok(Self(BufWriter::with_capacity(1 << 16, file)))
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: Ordered) -> io::Result<()> {
        self.0.write_all(&row.key.0)?;
        self.0.write_all(&row.id.0)
    }

    /// Completes the list.
    pub(crate) fn finish(self) -> io::Result<Order> {
        let file = self.0.into_inner().map_err(io::IntoInnerError::into_error)?;
        let rows = file.metadata()?.len() / BYTES;
        Ok(Order { file, rows })
    }
}

impl Order {
    /// Opens the list in that file, which a command has written.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let rows = file.metadata()?.len() / BYTES;
        Ok(Self { file, rows })
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the row with that many rows before it.
    pub(crate) fn get(&self, row: u64) -> io::Result<Ordered> {
        let (mut both, mut key, mut id) = ([0; BYTES as usize], [0; 16], [0; 16]);
        self.file.read_exact_at(&mut both, row * BYTES)?;
        key.copy_from_slice(&both[..16]);
        id.copy_from_slice(&both[16..]);
        Ok(Ordered { key: RowKey(key), id: RowId(id) })
    }
}
