//! The list of places that hold what was written from untrusted words, kept between runs (`docs/reference/origins.md`).

use crate::{
    files::{private_dir, private_file},
    seal::SealKey,
};
use llm_do_core::{
    authority::Place,
    origin::{UntrustedPlaces, UntrustedSet},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

/// Name of the list, beside the folder of the runs.
pub const UNTRUSTED_FILE: &str = "untrusted.jsonl";
/// The seals of the list begin with this instead of a run's ID.
const SEALED_AS: &str = "untrusted";
/// A longer list is not read.
const LONGEST: u64 = 64 * 1024 * 1024;

/// The file of one program's list.
#[derive(Debug)]
pub struct UntrustedFile {
    path: PathBuf,
    /// The folder of the program. Places in it are kept relative to it, so that the program can be moved.
    base: PathBuf,
    key: SealKey,
}

/// The list of one program.
///
/// Each line is sealed like a record of a journal, so that a project from elsewhere can't bring a list, and nothing can
/// take a line out of it. Runs of several processes may add to one list at the same time. A run sees what was listed when it
/// started and what it has listed itself.
#[derive(Debug)]
pub struct UntrustedList {
    at: Arc<UntrustedFile>,
    places: UntrustedSet,
}

/// A list that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedListError {
    /// It can't be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line has no valid seal.
    #[error(
        "line {line} of {} was not written by this user's llm-do, or was changed. It lists the files that untrusted words \
         were written to. Check these files, then remove the list: llm-do trusts them from then on",
        path.display()
    )]
    Seal {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Line {
    place: String,
}

impl UntrustedFile {
    /// The one beside that folder of runs. It need not exist.
    pub fn beside(runs_dir: &Path, key: &SealKey) -> Self {
        let beside = runs_dir.parent().unwrap_or(runs_dir);
        Self {
            path: beside.join(UNTRUSTED_FILE),
            base: beside.parent().unwrap_or(beside).to_owned(),
            key: key.clone(),
        }
    }
}

impl UntrustedList {
    /// What the file holds now. No file is an empty list.
    ///
    /// # Errors
    /// It can't be read, or a line of it has no valid seal.
    pub fn read_from(file: &Arc<UntrustedFile>) -> Result<Self, UntrustedListError> {
        let list = Self { at: Arc::clone(file), places: UntrustedSet::default() };
        match list.open(false) {
            Ok(mut file) => list.read(&mut file).map(drop)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(list.io(error)),
        }
        Ok(list)
    }

    /// A list in memory, for a user whose key can't be read.
    ///
    /// # Errors
    /// There is a list in a file, whose seals can't be checked.
    pub fn none_beside(runs_dir: &Path) -> Result<UntrustedSet, UntrustedListError> {
        let path = runs_dir.parent().unwrap_or(runs_dir).join(UNTRUSTED_FILE);
        match path.try_exists() {
            Ok(false) => Ok(UntrustedSet::default()),
            Ok(true) => {
                let source = io::Error::other("the key that seals it, in ~/.llm-do, can't be read");
                Err(UntrustedListError::Io { path, source })
            }
            Err(source) => Err(UntrustedListError::Io { path, source }),
        }
    }

    /// Opens the file for reading, or also for writing, which creates it. It may have come with the project from anywhere: a
    /// link leads to another place, and opening a pipe never ends.
    fn open(&self, create: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(create).create(create).truncate(false);
        match fs::symlink_metadata(&self.at.path) {
            Ok(found) if !found.is_file() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
            }
            Err(error) if !create && error.kind() == io::ErrorKind::NotFound => Err(error),
            _ => private_file(&mut options).open(&self.at.path),
        }
    }

    /// Reads the whole file into the places. Returns its seals up to its end.
    fn read(&self, file: &mut File) -> Result<crate::seal::Chain, UntrustedListError> {
        let mut bytes = Vec::new();
        file.take(LONGEST).read_to_end(&mut bytes).map_err(|error| self.io(error))?;
        let mut seals = self.at.key.chain(SEALED_AS);
        let whole = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        let lines = whole.split(|byte| *byte == b'\n').filter(|_| !whole.is_empty());
        for (number, line) in (1..).zip(lines) {
            let unsealed = || UntrustedListError::Seal { path: self.at.path.clone(), line: number };
            if !seals.admits(line) {
                return Err(unsealed());
            }
            let Line { place } = serde_json::from_slice(line).map_err(|_| unsealed())?;
            self.places.insert(&Place::new(&self.at.base.join(place).to_string_lossy()));
        }
        Ok(seals)
    }

    fn append(&self, places: &[Place]) -> Result<(), UntrustedListError> {
        if let Some(dir) = self.at.path.parent() {
            private_dir(dir).map_err(|error| self.io(error))?;
        }
        let mut file = self.open(true).map_err(|error| self.io(error))?;
        // The lock ends with the file's handle.
        file.lock().map_err(|error| self.io(error))?;
        let mut seals = self.read(&mut file)?;
        let mut lines = Vec::new();
        for place in places.iter().filter(|place| !self.places.hold(place)) {
            let start = lines.len();
            let line = Line { place: self.relative(place) };
            serde_json::to_writer(&mut lines, &line).map_err(|error| self.io(error.into()))?;
            seals.seal(&mut lines, start);
            lines.push(b'\n');
        }
        // One write, so that the list never ends in half a line unless the disk is full.
        let written = file
            .seek(SeekFrom::End(0))
            .and_then(|end| file.write_all(&lines).inspect_err(|_| drop(file.set_len(end))));
        written.map_err(|error| self.io(error))?;
        self.places.add(places).map_err(|error| self.io(io::Error::other(error)))
    }

    fn relative(&self, place: &Place) -> String {
        let base = Place::new(&self.at.base.to_string_lossy());
        match place.rest(&base) {
            Some(rest) if !rest.is_empty() => rest.to_owned(),
            _ => place.as_str().to_owned(),
        }
    }

    fn io(&self, source: io::Error) -> UntrustedListError {
        UntrustedListError::Io { path: self.at.path.clone(), source }
    }
}

impl UntrustedPlaces for UntrustedList {
    fn hold(&self, place: &Place) -> bool {
        self.places.hold(place)
    }

    fn touch(&self, place: &Place) -> bool {
        self.places.touch(place)
    }

    fn add(&self, places: &[Place]) -> Result<(), String> {
        self.append(places).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(runs: &Path, key: u8) -> Result<UntrustedList, UntrustedListError> {
        UntrustedList::read_from(&Arc::new(UntrustedFile::beside(runs, &SealKey::from([key; 32]))))
    }

    #[test]
    fn a_later_run_finds_the_places_also_after_a_move() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("old"), dir.path().join("new"));
        let runs = old.join(".llm-do/runs");
        let place = |root: &Path, name: &str| Place::new(&root.join(name).to_string_lossy());
        let first = list(&runs, 7).unwrap();
        let second = list(&runs, 7).unwrap();
        first.add(&[place(&old, "out/page.md"), Place::new("/data/mail")]).unwrap();
        second.add(&[place(&old, "notes")]).unwrap();
        assert!(second.hold(&place(&old, "out/page.md")), "read under the lock");
        fs::rename(&old, &new).unwrap();
        let later = list(&new.join(".llm-do/runs"), 7).unwrap();
        for name in ["out/page.md", "notes/deep/x"] {
            assert!(later.hold(&place(&new, name)), "{name}");
        }
        assert!(later.hold(&Place::new("/data/mail/1")) && !later.hold(&place(&new, "out")));
        assert!(later.touch(&place(&new, "out")));
    }

    #[test]
    fn a_list_that_was_changed_or_brought_along_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join(".llm-do/runs");
        list(&runs, 7).unwrap().add(&[Place::new("/a"), Place::new("/b")]).unwrap();
        let file = dir.path().join(".llm-do").join(UNTRUSTED_FILE);
        let text = fs::read_to_string(&file).unwrap();
        let second = text.lines().nth(1).unwrap();
        for changed in
            [format!("{second}\n"), text.replace("/b", "/c"), format!("{text}{{\"place\":\"/d\"}}\n")]
        {
            fs::write(&file, changed).unwrap();
            assert!(matches!(list(&runs, 7), Err(UntrustedListError::Seal { .. })));
        }
        fs::write(&file, &text).unwrap();
        assert!(matches!(list(&runs, 8), Err(UntrustedListError::Seal { line: 1, .. })));
        assert!(list(&runs, 7).is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_place_of_the_list_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (runs, elsewhere) = (dir.path().join(".llm-do/runs"), dir.path().join("elsewhere"));
        let before = list(&runs, 7).unwrap();
        fs::create_dir_all(&runs).unwrap();
        std::os::unix::fs::symlink(&elsewhere, dir.path().join(".llm-do").join(UNTRUSTED_FILE)).unwrap();
        assert!(matches!(list(&runs, 7), Err(UntrustedListError::Io { .. })));
        assert!(before.add(&[Place::new("/a")]).is_err() && !elsewhere.exists());
    }
}
