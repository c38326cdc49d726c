//! The files of long values: `blobs/HEX` in a run's folder holds the value whose SHA-256 is `HEX`.

use crate::files::{open_regular, private_dir, private_file};
use llm_do_records::BlobSource;
use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// The folder of a run's long values.
#[derive(Debug)]
pub(crate) struct BlobDir(PathBuf);

impl BlobDir {
    /// The folder `blobs` of a run. The first value that is stored creates it.
    pub(crate) fn of_run(dir: &Path) -> Self {
        Self(dir.join("blobs"))
    }

    /// Stores the whole value or nothing: a file named by a hash has content with that hash.
    pub(crate) fn store(&self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.0.join(hash);
        if path.try_exists()? {
            return Ok(());
        }
        private_dir(&self.0)?;
        // A run has one writer, which holds its lock: this name is unique.
        let unfinished = self.0.join(format!("{hash}.part"));
        let written = private_file(OpenOptions::new().write(true).create(true).truncate(true))
            .open(&unfinished)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, &path));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&unfinished);
        })
    }
}

impl BlobSource for BlobDir {
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        open_regular(&self.0.join(hash))?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }
}
