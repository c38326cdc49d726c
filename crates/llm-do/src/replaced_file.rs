//! Files in the user's folder that are replaced as a whole.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

/// Makes the folder of a file, and takes the lock beside it. The lock is held until the result is dropped.
///
/// # Errors
/// The folder can't be made, or the lock can't be taken.
pub(crate) fn lock_to_replace(file: &Path) -> io::Result<File> {
    llm_do_sandbox::private_dir(file.parent().unwrap_or(Path::new(".")))?;
    let lock = file.with_extension("lock");
    let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock)?;
    lock.lock()?;
    Ok(lock)
}
