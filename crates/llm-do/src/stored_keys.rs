//! The user's keys of providers in a file that only the user can read (`docs/guides/models.md`).

use crate::replaced_file::lock_to_replace;
use llm_do_sandbox::read_regular;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fmt, fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// Name of the file in the user's folder. Names with this beginning are invisible to every worker and process.
const FILE: &str = ".llm-do-keys.json";
/// The largest file that is read, in bytes.
const LARGEST: u64 = 1 << 20;
/// The permissions of other users on the file, none of which it may have.
const OTHERS: u32 = 0o077;

/// Keys of providers that `llm-do keys set` has stored, each under the variable that would hold it.
///
/// Only requests to providers use them. They are no environment variables: no tool, process or MCP server can get one.
#[derive(Clone, Default)]
pub struct StoredKeys {
    keys: BTreeMap<String, String>,
}

/// A file of keys that can't be read or written.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct BadKeysFile {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub reason: String,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    keys: BTreeMap<String, String>,
}

impl StoredKeys {
    /// Returns the path of the file in the user's folder (`~/.llm-do`).
    pub fn file(home: &Path) -> PathBuf {
        home.join(FILE)
    }

    /// Reads the keys. A file that does not exist contains none.
    ///
    /// # Errors
    /// The file can't be read, is no file of keys, or other users may read it.
    pub fn read(home: &Path) -> Result<Self, BadKeysFile> {
        let path = Self::file(home);
        let bad = |reason: String| BadKeysFile { path: path.clone(), reason };
        let found = match fs::metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(bad(error.to_string())),
        };
        if found.is_file() && found.permissions().mode() & OTHERS != 0 {
            return Err(bad("other users may read it; run `chmod 600` on it, and consider new keys".into()));
        }
        let text = read_regular(&path, LARGEST).map_err(|error| bad(error.to_string()))?;
        let Document { keys } = serde_json::from_slice(&text)
            // The reason of the parser could quote a key.
            .map_err(|error| bad(format!("line {} is not what `llm-do keys` writes", error.line())))?;
        Ok(Self { keys })
    }

    /// Stores a key under that variable, in place of an earlier one.
    ///
    /// # Errors
    /// The file can't be read or written; it is left as it was.
    pub fn set(home: &Path, variable: &str, key: &str) -> Result<(), BadKeysFile> {
        change(home, |keys| drop(keys.insert(variable.to_owned(), key.to_owned())))
    }

    /// Removes the keys under those variables, and returns the variables that had one.
    ///
    /// # Errors
    /// The same as for [`StoredKeys::set`].
    pub fn remove(home: &Path, variables: &[&str]) -> Result<Vec<String>, BadKeysFile> {
        let mut removed = Vec::new();
        change(home, |keys| {
            removed
                .extend(variables.iter().filter_map(|name| keys.remove_entry(*name)).map(|(name, _)| name));
        })?;
        Ok(removed)
    }

    /// Returns the variables that have a key, sorted.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// Returns the variables and their keys.
    pub fn pairs(&self) -> impl Iterator<Item = (String, String)> {
        self.keys.iter().map(|(name, key)| (name.clone(), key.clone()))
    }
}

/// Does not show the keys.
impl fmt::Debug for StoredKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.keys.keys()).finish()
    }
}

/// Replaces the file as a whole, under a lock.
fn change(home: &Path, change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<(), BadKeysFile> {
    let path = StoredKeys::file(home);
    let bad = |error: io::Error| BadKeysFile { path: path.clone(), reason: error.to_string() };
    let _alone = lock_to_replace(&path).map_err(bad)?;
    let StoredKeys { mut keys } = StoredKeys::read(home)?;
    change(&mut keys);
    if keys.is_empty() {
        return match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(bad(error)),
            _ => Ok(()),
        };
    }
    let json = serde_json::to_vec_pretty(&Document { keys }).map_err(|error| bad(error.into()))?;
    llm_do_sandbox::write_private(&path, &json).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_stored_replaced_and_removed_in_a_file_of_their_owner() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().join("new");
        assert_eq!(StoredKeys::read(&home).unwrap().variables().count(), 0);
        StoredKeys::set(&home, "A_API_KEY", "first-key").unwrap();
        StoredKeys::set(&home, "B_API_KEY", "other-key").unwrap();
        StoredKeys::set(&home, "A_API_KEY", "second-key").unwrap();
        let mode = fs::metadata(StoredKeys::file(&home)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let read = StoredKeys::read(&home).unwrap();
        assert_eq!(read.pairs().next(), Some(("A_API_KEY".into(), "second-key".into())));
        assert!(!format!("{read:?}").contains("key\""), "{read:?}");
        assert_eq!(StoredKeys::remove(&home, &["A_API_KEY", "C_API_KEY"]).unwrap(), ["A_API_KEY"]);
        assert_eq!(StoredKeys::remove(&home, &["B_API_KEY"]).unwrap(), ["B_API_KEY"]);
        assert!(!StoredKeys::file(&home).exists());
    }

    #[test]
    fn a_file_that_others_may_read_or_that_is_no_file_of_keys_is_refused_without_its_content() {
        let home = tempfile::tempdir().unwrap();
        StoredKeys::set(home.path(), "A_API_KEY", "first-key").unwrap();
        let file = StoredKeys::file(home.path());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(StoredKeys::read(home.path()).unwrap_err().reason.contains("chmod 600"));
        // Nothing replaces what can't be read.
        assert!(StoredKeys::set(home.path(), "B_API_KEY", "other-key").is_err());
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&file, "{\"keys\": {\"A_API_KEY\": first-key}}").unwrap();
        let reason = StoredKeys::read(home.path()).unwrap_err().reason;
        assert!(!reason.contains("first"), "{reason}");
    }
}
