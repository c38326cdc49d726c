//! A journal in memory. Its clock advances only when a test says so.

use llm_do_core::{call_path::CallPath, journal::RecordKind};
use llm_do_records::{Journal, RecordRef, Redactor, write_line};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
};

/// The run that the journal is of.
pub(crate) const RUN: &str = "20261121-221530-4f2a";

/// A journal to which records are added.
pub(crate) struct Written {
    lines: RefCell<Vec<u8>>,
    blobs: RefCell<HashMap<String, Vec<u8>>>,
    next: Cell<u64>,
    now_ms: Cell<u64>,
}

impl Written {
    pub(crate) fn new() -> Self {
        Self {
            lines: RefCell::default(),
            blobs: RefCell::default(),
            next: Cell::default(),
            now_ms: Cell::new(1_795_299_330_000),
        }
    }

    /// Adds a record.
    pub(crate) fn tell(&self, path: &str, step: &str, body: &RecordKind) {
        let seq = self.next.replace(self.next.get() + 1);
        let path = CallPath::from(path);
        let record = RecordRef { seq, at_ms: self.now_ms.get(), path: &path, step: &step.into(), body };
        let lines = &mut *self.lines.borrow_mut();
        let mut store = |hash: &str, bytes: &[u8]| {
            self.blobs.borrow_mut().insert(hash.to_owned(), bytes.to_owned());
            Ok(())
        };
        write_line(lines, record, &Redactor::default(), &mut store).unwrap();
        lines.push(b'\n');
    }

    /// Advances the clock.
    pub(crate) fn pass(&self, ms: u64) {
        self.now_ms.set(self.now_ms.get() + ms);
    }

    /// The journal read back.
    pub(crate) fn journal(&self) -> Journal {
        Journal::parse(&self.lines.borrow(), &*self.blobs.borrow()).unwrap()
    }
}
