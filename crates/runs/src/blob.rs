//! The files of long values: `blobs/HEX` in a run's folder holds the value whose SHA-256 is `HEX`.

use crate::files::{open_regular, private_dir, private_file};
use llm_do_records::BlobSource;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of a run's long values.
#[derive(Debug)]
pub(crate) struct BlobDir {
    /// The parent folder, shared with everything else that writes there: thousands of runs may wait at once.
    parent: Arc<Path>,
    name: &'static str,
    /// The ID of the run that writes, if other runs write to the folder at the same time.
    run: Option<Arc<str>>,
    /// Bytes of all values that this writer knows of.
    bytes: u64,
}

impl BlobDir {
    /// Makes the folder `blobs` of a run. The first stored value creates it on disk.
    pub(crate) fn of_run(dir: impl Into<Arc<Path>>) -> Self {
        Self::named(dir.into(), "blobs")
    }

    /// Makes another folder of contents named by their hashes.
    pub(crate) fn named(parent: Arc<Path>, name: &'static str) -> Self {
        Self { parent, name, run: None, bytes: 0 }
    }

    /// Makes the folder `blobs` that several runs write to at the same time, for the run with that ID.
    pub(crate) fn of_runs(dir: Arc<Path>, run: Arc<str>) -> Self {
        Self { run: Some(run), ..Self::of_run(dir) }
    }

    fn path(&self) -> PathBuf {
        self.parent.join(self.name)
    }

    /// Returns the bytes of the stored values.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Counts the values that an earlier writer has stored.
    pub(crate) fn measure(&mut self) {
        let entries = fs::read_dir(self.path()).into_iter().flatten().flatten();
        self.bytes = entries.filter_map(|entry| entry.metadata().ok()).map(|found| found.len()).sum();
    }

    /// Stores the whole value or nothing: a file named by a hash has content with that hash.
    pub(crate) fn store(&mut self, hash: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.path();
        let path = folder.join(hash);
        if path.try_exists()? {
            return Ok(());
        }
        private_dir(&folder)?;
        // Something else may have put a link there, and a record must not end up where that leads.
        if !fs::symlink_metadata(&folder)?.is_dir() {
            let message = format!("{} is a link", folder.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, message));
        }
        // A run has one writer, which holds its lock, and writers that share a folder have numbers: this name is unique.
        let unfinished = folder.join(match &self.run {
            None => format!("{hash}.part"),
            Some(run) => format!("{hash}.{run}.part"),
        });
        let written = new_file(&unfinished)
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&unfinished, &path));
        match written {
            Ok(()) => {
                self.bytes += bytes.len() as u64;
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&unfinished);
                Err(error)
            }
        }
    }
}

/// Creates a file that only its owner may read. It replaces a file that a killed process has left, or a link.
fn new_file(path: &Path) -> io::Result<File> {
    let create = || private_file(OpenOptions::new().write(true).create_new(true)).open(path);
    match create() {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        created => created,
    }
}

impl BlobSource for BlobDir {
    fn read(&self, hash: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        open_regular(&self.path().join(hash))?.take(most).read_to_end(&mut content)?;
        Ok(content)
    }
}
