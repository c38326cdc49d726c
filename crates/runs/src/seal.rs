//! The key of the seals of this user's journals, in a file. `llm_do_records` has the seals.

use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
pub(crate) use llm_do_records::Chain;
use llm_do_records::Sealer;
use std::{
    fmt,
    fs::{self, OpenOptions},
    io::{self, Write},
    path::Path,
};

use crate::files::{open_regular, private_dir, private_file};

/// Name of the key's file in the user's folder (`~/.llm-do`).
const KEY_FILE: &str = "journal.key";
/// Most attempts of a process to make the key while other processes try the same.
const ATTEMPTS: usize = 20;

/// The key that authenticates this user's journals.
#[derive(Clone)]
pub struct SealKey(Sealer);

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
    pub fn seal(&self, purpose: &str, object: Vec<u8>) -> Vec<u8> {
        self.0.seal(purpose, object)
    }

    /// Returns true if [`SealKey::seal`] has sealed this object with this key and for this purpose.
    pub fn has_sealed(&self, purpose: &str, object: &[u8]) -> bool {
        self.0.has_sealed(purpose, object)
    }

    /// Begins the seals of a run's records.
    pub(crate) fn chain(&self, run: &str) -> Chain {
        self.0.chain(run)
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
        Self(key.into())
    }
}

/// Writes the type without the key.
impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey")
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
