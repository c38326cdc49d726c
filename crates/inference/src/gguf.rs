//! The parts of a GGUF file's header that are read without loading the model.

use std::io::{self, BufReader, Read};

/// Bytes of the header that are read. The keys of the architecture precede the vocabulary, which is long.
const START: u64 = 1 << 20;
/// Maximum length of a key, in bytes.
const KEY: u64 = 256;
/// The types of values that have a size of their own.
const STRING: u32 = 8;
const ARRAY: u32 = 9;
/// The types of whole numbers that a context length may have.
const U32: u32 = 4;
const U64: u32 = 10;

/// Returns the size of the model's context window in tokens, from `ARCHITECTURE.context_length`. `file` is positioned
/// after the magic number. `None` if the beginning of the header does not have that key.
pub(crate) fn context_length(file: impl Read) -> Option<u64> {
    Header(BufReader::new(file.take(START))).context_length().ok().flatten()
}

struct Header<R>(BufReader<R>);

impl<R: Read> Header<R> {
    fn context_length(&mut self) -> io::Result<Option<u64>> {
        let _version = self.u32()?;
        let _tensors = self.u64()?;
        let keys = self.u64()?;
        for _ in 0..keys {
            let length = self.u64()?;
            if length > KEY {
                return Ok(None);
            }
            let mut key = Vec::new();
            self.0.by_ref().take(length).read_to_end(&mut key)?;
            let kind = self.u32()?;
            match kind {
                U32 if key.ends_with(b".context_length") => return Ok(Some(self.u32()?.into())),
                U64 if key.ends_with(b".context_length") => return Ok(Some(self.u64()?)),
                kind => self.skip(kind)?,
            }
        }
        Ok(None)
    }

    fn skip(&mut self, kind: u32) -> io::Result<()> {
        match kind {
            STRING => {
                let length = self.u64()?;
                self.skip_bytes(length)
            }
            ARRAY => {
                let kind = self.u32()?;
                let count = self.u64()?;
                match kind {
                    STRING => (0..count).try_for_each(|_| self.skip(STRING)),
                    kind => self.skip_bytes(size(kind)?.saturating_mul(count)),
                }
            }
            kind => self.skip_bytes(size(kind)?),
        }
    }

    fn skip_bytes(&mut self, count: u64) -> io::Result<()> {
        match io::copy(&mut self.0.by_ref().take(count), &mut io::sink())? {
            skipped if skipped == count => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn u32(&mut self) -> io::Result<u32> {
        let mut bytes = [0; 4];
        self.0.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn u64(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Returns the size of a number or a flag in bytes.
fn size(kind: u32) -> io::Result<u64> {
    match kind {
        0 | 1 | 7 => Ok(1),
        2 | 3 => Ok(2),
        4..=6 => Ok(4),
        10..=12 => Ok(8),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a header with these keys, each with its type and the bytes of its value.
    fn header(keys: &[(&str, u32, &[u8])]) -> Vec<u8> {
        let mut bytes = [3u32.to_le_bytes().as_slice(), &[0; 8]].concat();
        bytes.extend((keys.len() as u64).to_le_bytes());
        for (key, kind, value) in keys {
            bytes.extend((key.len() as u64).to_le_bytes());
            bytes.extend(key.as_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend(*value);
        }
        bytes
    }

    fn text(text: &str) -> Vec<u8> {
        [(text.len() as u64).to_le_bytes().as_slice(), text.as_bytes()].concat()
    }

    #[test]
    fn the_length_is_found_behind_other_keys() {
        let list = [STRING.to_le_bytes().as_slice(), &2u64.to_le_bytes(), &text("en"), &text("de")].concat();
        let bytes = header(&[
            ("general.architecture", STRING, &text("llama")),
            ("general.languages", ARRAY, &list),
            ("llama.rope.freq_base", 6, &[0; 4]),
            ("llama.context_length", U32, &8192u32.to_le_bytes()),
        ]);
        assert_eq!(context_length(&*bytes), Some(8192));
        for cut in 0..bytes.len() {
            assert_eq!(context_length(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn what_a_hostile_file_claims_costs_nothing() {
        let endless = [STRING.to_le_bytes().as_slice(), &u64::MAX.to_le_bytes()].concat();
        for bytes in [
            header(&[("a", ARRAY, &endless)]),
            header(&[("a", STRING, &u64::MAX.to_le_bytes())]),
            header(&[("a", 99, &[])]),
            [3u32.to_le_bytes().as_slice(), &[255; 30]].concat(),
        ] {
            assert_eq!(context_length(&*bytes), None);
        }
    }
}
