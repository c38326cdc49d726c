//! A reader that fails if a row is too long.

use super::LONGEST_ROW;
use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

/// A reader that counts the bytes since the last row began.
pub(super) struct Bounded<R> {
    inner: R,
    read: Rc<Cell<u64>>,
}

impl<R> Bounded<R> {
    /// Returns the reader, and the count, which the caller sets to zero with each row.
    pub(super) fn new(inner: R) -> (Self, Rc<Cell<u64>>) {
        let read = Rc::new(Cell::new(0));
        (Self { inner, read: Rc::clone(&read) }, read)
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read.get() > LONGEST_ROW {
            let what = format!(
                "a row has more than {} MiB; is there a quote that is not closed?",
                LONGEST_ROW >> 20
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        let read = self.inner.read(buffer)?;
        self.read.set(self.read.get() + read as u64);
        Ok(read)
    }
}
