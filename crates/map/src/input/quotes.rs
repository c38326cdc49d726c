//! Detects a quote that is never closed. The parser of tables takes the end of a file for the end of the quote, so the
//! rest of the file would be one field.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

/// The place of a reader in a table. The rules are those of the parser: a quote opens a field only at its beginning,
/// and two quotes within a quoted field are a quote of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// The beginning of a field.
    #[default]
    Begin,
    /// A field without quotes, or the text behind a closing quote.
    Plain,
    /// The text between quotes.
    Quoted,
    /// The position behind a quote that closes the field, unless another quote follows.
    Closing,
}

impl Place {
    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::Quoted, b'"') => Self::Closing,
            (Self::Quoted, _) | (Self::Begin | Self::Closing, b'"') => Self::Quoted,
            (_, b'\r' | b'\n') => Self::Begin,
            (_, byte) if byte == delimiter => Self::Begin,
            _ => Self::Plain,
        }
    }
}

/// The state of a table that is partly read.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    place: Place,
    bytes: u64,
    ended: bool,
}

/// A reader that watches the bytes that a parser reads through it.
pub(super) struct Watched<R> {
    inner: R,
    delimiter: u8,
    seen: Rc<Cell<Seen>>,
}

/// The state of the quotes in the part that a [`Watched`] reader has read so far.
pub(super) struct Quotes(Rc<Cell<Seen>>);

impl<R> Watched<R> {
    pub(super) fn new(inner: R, delimiter: u8) -> (Self, Quotes) {
        let seen = Rc::new(Cell::default());
        (Self { inner, delimiter, seen: Rc::clone(&seen) }, Quotes(seen))
    }
}

impl<R: Read> Read for Watched<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let mut seen = self.seen.get();
        seen.place = buffer[..read].iter().fold(seen.place, |place, byte| place.after(*byte, self.delimiter));
        seen.bytes += read as u64;
        seen.ended |= read == 0 && !buffer.is_empty();
        self.seen.set(seen);
        Ok(read)
    }
}

impl Quotes {
    /// Returns true if the row that ends at that byte has an open quote: the file has ended there.
    pub(super) fn is_open_at(&self, byte: u64) -> bool {
        let seen = self.0.get();
        seen.ended && seen.place == Place::Quoted && seen.bytes == byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csv::{ByteRecord, ReaderBuilder};
    use proptest::prelude::*;

    /// Returns true if a quote is open at the end of a text, and the rows that the parser finds in the text.
    fn parsed(text: &[u8]) -> (bool, Vec<Vec<Vec<u8>>>) {
        let (watched, quotes) = Watched::new(text, b',');
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(watched);
        let (mut record, mut rows, mut open) = (ByteRecord::new(), Vec::new(), false);
        while reader.read_byte_record(&mut record).unwrap() {
            open |= quotes.is_open_at(reader.position().byte());
            rows.push(record.iter().map(<[u8]>::to_vec).collect());
        }
        (open, rows)
    }

    #[test]
    fn only_a_quote_that_opens_a_field_and_has_no_end_is_open() {
        for (text, open) in [
            ("a,\"b", true),
            ("a,\"b\n1,2\n", true),
            ("a,\"b\"\"", true),
            ("\"", true),
            ("a,\"b\"", false),
            ("a,\"b\"\n", false),
            ("a,b\"\n", false),
            ("a, \"b\n", false),
            ("\"a\"b,\"\"\n", false),
            ("\"a\"\"b\"\r\n", false),
            ("", false),
        ] {
            assert_eq!(parsed(text.as_bytes()).0, open, "{text:?}");
        }
    }

    proptest! {
        /// Closing an open quote at the end changes no row. If no quote is open, a quote at the end of a further field
        /// opens one.
        #[test]
        fn the_parser_agrees_about_quotes(text in "[a\",\r\n]{0,40}") {
            let (open, rows) = parsed(text.as_bytes());
            if open {
                let (still, closed) = parsed(format!("{text}\"").as_bytes());
                prop_assert!(!still);
                prop_assert_eq!(closed, rows);
            } else {
                let (_, with_more) = parsed(format!("{text}\nz,z").as_bytes());
                prop_assert_eq!(with_more.last().unwrap(), &vec![b"z".to_vec(), b"z".to_vec()]);
            }
        }
    }
}
