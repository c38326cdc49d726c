//! Seals: each record is authenticated with a key that only this user's llm-do has.
//!
//! A journal holds the operator's input, the approvals and the results of tools, and a resumed run trusts them. A
//! foreign project may contain journals. A run is therefore resumed only from a journal whose every record was written
//! here. The seal of a record is an HMAC-SHA-256 (RFC 2104), cut to 128 bits, over the previous seal (for the first
//! record, the run's ID) and the record's line.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
    sync::Arc,
};

use crate::files::{open_regular, private_dir, private_file};

/// Name of the key's file in the user's folder (`~/.llm-do`).
const KEY_FILE: &str = "journal.key";
/// Most attempts of a process to make the key while other processes try the same.
const ATTEMPTS: usize = 20;
/// The bytes between a record's last field and its seal.
const FIELD: &[u8] = b",\"seal\":\"";
/// Letters of a seal: 128 bits as Base64 without padding.
const LETTERS: usize = 22;
/// Bytes of the seal at the end of a line.
const TAIL_BYTES: usize = FIELD.len() + LETTERS + 2;

/// The key that authenticates this user's journals. Clones share it: each journal that is open has two of them.
#[derive(Clone)]
pub struct SealKey(Arc<Hmac<Sha256>>);

impl SealKey {
    /// Returns the key in the user's folder (`~/.llm-do`). Creates it if there is none.
    ///
    /// # Errors
    /// The key can't be read or created, or the file holds no key.
    pub fn of(home: &Path) -> io::Result<Self> {
        match Self::read(home) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(home),
            read => read,
        }
    }

    /// Returns the key in the user's folder.
    ///
    /// # Errors
    /// The key does not exist, it can't be read, or the file holds no key.
    pub fn read(home: &Path) -> io::Result<Self> {
        let path = home.join(KEY_FILE);
        let (file, mut text) = (open_regular(&path)?, String::new());
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::nlink(&file.metadata()?) > 1 {
            remove_unfinished(home);
        }
        io::Read::read_to_string(&mut io::Read::take(file, 100), &mut text)?;
        let bytes =
            STANDARD_NO_PAD.decode(text.trim()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self::from).ok_or_else(|| {
            io::Error::other(format!("{} is not a key; remove it, and a new one is made", path.display()))
        })
    }

    fn make(home: &Path) -> io::Result<Self> {
        private_dir(home)?;
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        // Linked to its name only when it is complete, and never over the key that another process created first.
        let path = home.join(KEY_FILE);
        for left in (0..ATTEMPTS).rev() {
            remove_unfinished(home);
            let new = home.join(format!("{KEY_FILE}.{}.{:08x}", std::process::id(), fastrand::u32(..)));
            let mut file = private_file(OpenOptions::new().write(true).create_new(true)).open(&new)?;
            let linked =
                writeln!(file, "{}", STANDARD_NO_PAD.encode(bytes)).and_then(|()| fs::hard_link(&new, &path));
            let _ = fs::remove_file(&new);
            match linked {
                // Another process has taken the new file for an unfinished one.
                Err(error) if error.kind() == io::ErrorKind::NotFound && left > 0 => {}
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => break,
            }
        }
        Self::read(home)
    }

    /// Adds a seal to a JSON object as its last field. The object must have a field already. `purpose` is the kind of
    /// the object and the place it belongs to: a seal holds for its purpose alone. It must not be the ID of a run.
    pub fn seal(&self, purpose: &str, mut object: Vec<u8>) -> Vec<u8> {
        self.chain(purpose).seal(&mut object, 0);
        object
    }

    /// Returns true if [`SealKey::seal`] has sealed this object with this key and for this purpose.
    pub fn has_sealed(&self, purpose: &str, object: &[u8]) -> bool {
        self.chain(purpose).admits(object)
    }

    /// Begins the seals of a run's records.
    pub(crate) fn chain(&self, run: &str) -> Chain {
        Chain { key: self.clone(), before: run.as_bytes().into() }
    }
}

/// Removes the unfinished files of processes that were killed while they made the key.
fn remove_unfinished(home: &Path) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let is_unfinished =
            |name: &str| name.strip_prefix(KEY_FILE).is_some_and(|rest| rest.starts_with('.'));
        if entry.file_name().to_str().is_some_and(is_unfinished) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

impl From<[u8; 32]> for SealKey {
    fn from(key: [u8; 32]) -> Self {
        #[expect(clippy::expect_used, reason = "an HMAC takes keys of any length")]
        let hmac = Hmac::new_from_slice(&key).expect("an HMAC takes keys of any length");
        Self(Arc::new(hmac))
    }
}

/// Writes the type without the key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
    }
}

/// The seals up to a record.
#[derive(Clone, Debug)]
pub(crate) struct Chain {
    key: SealKey,
    before: Vec<u8>,
}

impl Chain {
    /// Adds the seal to a record's line, which has no end of line yet, as the last field of its JSON.
    pub(crate) fn seal(&mut self, lines: &mut Vec<u8>, start: usize) {
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
    pub(crate) fn admits(&mut self, line: &[u8]) -> bool {
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
    pub(crate) fn admitted<'a>(&mut self, line: &'a [u8]) -> Option<&'a [u8]> {
        self.admits(line).then(|| line.split_last_chunk::<TAIL_BYTES>()).flatten().map(|(record, _)| record)
    }

    /// The number of bytes that [`Chain::is_end_of`] compares.
    pub(crate) const END_BYTES: usize = LETTERS + 3;

    /// Returns true if a file ends with the last line that this chain has sealed or admitted. `end` are its last
    /// [`Chain::END_BYTES`].
    pub(crate) fn is_end_of(&self, end: &[u8]) -> bool {
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
    fn the_next_use_removes_what_a_kill_left_of_the_key() {
        let home = tempfile::tempdir().unwrap();
        let (path, left) = (home.path().join(KEY_FILE), home.path().join("journal.key.7.0000abcd"));
        let names = || fs::read_dir(home.path()).unwrap().flatten().map(|entry| entry.file_name());
        // Killed before the file had the key's name.
        fs::write(&left, "half").unwrap();
        SealKey::of(home.path()).unwrap();
        assert_eq!(names().collect::<Vec<_>>(), [KEY_FILE]);
        let key = fs::read(&path).unwrap();
        // Killed after it.
        fs::hard_link(&path, &left).unwrap();
        SealKey::of(home.path()).unwrap();
        assert_eq!(names().collect::<Vec<_>>(), [KEY_FILE]);
        assert_eq!(fs::read(&path).unwrap(), key);
    }

    #[test]
    fn many_processes_make_one_key() {
        let home = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(|| SealKey::of(home.path()).unwrap())).collect();
            let sealed =
                makers.into_iter().map(|maker| maker.join().unwrap().seal("x", b"{\"a\":1}".to_vec()));
            let sealed: Vec<_> = sealed.collect();
            assert!(sealed.windows(2).all(|pair| pair[0] == pair[1]));
        });
    }

    #[test]
    fn a_line_is_admitted_once_in_its_place_with_its_key() {
        let key = SealKey::from([7; 32]);
        let mut chain = key.chain("a");
        let lines = [sealed(&mut chain, r#"{"seq":0}"#), sealed(&mut chain, r#"{"seq":1}"#)];
        assert!(serde_json::from_slice::<serde_json::Value>(&lines[1]).unwrap()["seal"].is_string());
        let mut reading = key.chain("a");
        assert!(reading.admits(&lines[0]) && reading.admits(&lines[1]));
        assert!(!reading.admits(&lines[1]), "twice");
        assert!(!key.chain("a").admits(&lines[1]), "without the first");
        assert!(!key.chain("b").admits(&lines[0]), "in another run");
        assert!(!SealKey::from([8; 32]).chain("a").admits(&lines[0]), "with another key");
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
        let key = SealKey::from([7; 32]);
        let object = key.seal("moves in /p", br#"{"moves":[]}"#.to_vec());
        assert!(key.has_sealed("moves in /p", &object));
        assert!(!key.has_sealed("moves in /q", &object));
        assert!(!SealKey::from([8; 32]).has_sealed("moves in /p", &object));
        assert!(!key.has_sealed("moves in /p", br#"{"moves":[]}"#));
        assert!(serde_json::from_slice::<serde_json::Value>(&object).unwrap()["moves"].is_array());
    }

    #[test]
    fn the_key_is_made_once_and_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("new");
        assert_eq!(SealKey::read(&folder).unwrap_err().kind(), io::ErrorKind::NotFound);
        let seals: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let made: Vec<_> = (0..8).map(|_| scope.spawn(|| SealKey::of(&folder).unwrap())).collect();
            made.into_iter().map(|made| sealed(&mut made.join().unwrap().chain("a"), "{}")).collect()
        });
        assert!(seals.iter().all(|seal| *seal == seals[0]), "all have the same key");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = fs::metadata(folder.join(KEY_FILE)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        fs::write(folder.join(KEY_FILE), "short").unwrap();
        assert!(SealKey::of(&folder).is_err());
    }
}
