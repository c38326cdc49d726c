//! Files of JSON in the user's folder.

use serde::{Serialize, de::DeserializeOwned};
use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// What the file holds, if there is one.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces the file as a whole. It is readable for its owner alone, as temporary files are made.
pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    llm_do_sandbox::private_dir(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
