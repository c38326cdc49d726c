//! Files of JSON in the user's folder.

use serde::{Serialize, de::DeserializeOwned};
use std::{fs, io, path::Path};

/// Returns the content of the file, if it exists.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file as a whole. Only its owner can read it.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    llm_do_sandbox::write_private(path, &serde_json::to_vec(value)?)
}
