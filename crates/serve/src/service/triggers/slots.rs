//! The slots of a schedule that have been dealt with. Runs are found by their keys; this also knows of slots that were skipped.

use jiff::Timestamp;
use llm_do::{private_dir, write_below};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// The time until which the slots of a schedule have been dealt with, in a file.
#[derive(Debug)]
pub(crate) struct Slots {
    folder: PathBuf,
    file: String,
}

impl Slots {
    /// # Errors
    /// The folder can't be made.
    pub(crate) fn open(folder: &Path, trigger: &str) -> io::Result<Self> {
        private_dir(folder)?;
        Ok(Self { folder: folder.to_owned(), file: format!("{trigger}.slot") })
    }

    /// `None`: no server has seen the trigger, or what it wrote can't be read.
    pub(crate) fn until(&self) -> Option<Timestamp> {
        fs::read_to_string(self.folder.join(&self.file)).ok()?.trim().parse().ok()
    }

    /// # Errors
    /// It can't be written. The slot's run has its key all the same.
    pub(crate) fn set(&self, until: Timestamp) -> io::Result<()> {
        write_below(&self.folder, Path::new(&self.file), format!("{until}\n").as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_known_to_the_next_process() {
        let home = tempfile::tempdir().expect("a folder");
        let slots = Slots::open(home.path(), "nightly").expect("opened");
        assert_eq!(slots.until(), None);
        let slot = "2026-06-10T01:00:00Z".parse().expect("a time");
        slots.set(slot).expect("written");
        assert_eq!(Slots::open(home.path(), "nightly").expect("opened").until(), Some(slot));
    }
}
