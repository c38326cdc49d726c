//! The list of places with content that was written from untrusted words, kept between runs
//! (`docs/reference/origins.md`).
//!
//! The time to add a place does not depend on the length of the list. A process keeps what it has read, and the
//! position. Under the file's lock it reads and verifies only the lines that other processes have added since then, and
//! appends its own.

use crate::{
    files::{private_dir, private_file},
    seal::{Chain, SealKey},
};
use llm_do_core::{
    authority::Place,
    origin::{UntrustedPlaces, UntrustedSet},
};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// Name of the list, beside the folder of the runs.
pub const UNTRUSTED_FILE: &str = "untrusted.jsonl";
/// The purpose of the seals of the list, in place of a run's ID.
const SEALED_AS: &str = "untrusted";
/// Most bytes of a line. llm-do writes no longer one. The file may have come with a project, and must not fill the
/// memory.
const LONGEST_LINE: u64 = 64 * 1024;

/// The file of one program's list, as far as this process has read it.
#[derive(Debug)]
pub struct UntrustedFile {
    path: PathBuf,
    /// The folder of the program. Places in it are kept relative to it, so that the program can be moved.
    base: PathBuf,
    key: SealKey,
    known: Mutex<ReadPart>,
}

/// The part of the file that this process has read or written.
#[derive(Debug)]
struct ReadPart {
    /// The places of the lines up to `end`.
    places: Arc<UntrustedSet>,
    /// The number of these lines.
    lines: usize,
    /// The seals up to `end`.
    seals: Chain,
    /// The position after the last of these lines, in bytes.
    end: u64,
}

/// The list of one program.
///
/// Each line is sealed like a record of a journal, so that a project from elsewhere can't bring a list, and nothing can
/// take a line out of it. Runs of several processes may add to one list at the same time. A run sees the list as it was
/// when the run started, what the runs of its process have added, and what other processes had added at its own last
/// addition.
#[derive(Debug)]
pub struct UntrustedList {
    at: Arc<UntrustedFile>,
    /// The places of the file that was there when the run started. Another file in its place does not take them away.
    places: Arc<UntrustedSet>,
}

/// A list that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum UntrustedListError {
    /// The list can't be read or written.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
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
struct PlaceLine {
    place: String,
}

impl UntrustedFile {
    /// Returns the list beside that folder of runs. The file need not exist.
    pub fn beside(runs_dir: &Path, key: &SealKey) -> Self {
        let beside = runs_dir.parent().unwrap_or(runs_dir);
        Self {
            path: beside.join(UNTRUSTED_FILE),
            base: beside.parent().unwrap_or(beside).to_owned(),
            key: key.clone(),
            known: Mutex::new(ReadPart::nothing(key)),
        }
    }

    /// Opens the file for reading, or also for writing, which creates it. Only a regular file is opened, since it may
    /// have come with the project from anywhere: a link leads to another place, and opening a pipe never ends.
    fn open(&self, create: bool) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(create).create(create).truncate(false);
        match fs::symlink_metadata(&self.path) {
            Ok(found) if !found.is_file() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
            }
            Err(error) if !create && error.kind() == io::ErrorKind::NotFound => Err(error),
            _ => private_file(&mut options).open(&self.path),
        }
    }

    /// Reads the lines after the known ones. A file that does not continue those is another one: it is read from its
    /// beginning.
    fn catch_up(&self, known: &mut ReadPart, file: &mut File) -> Result<(), UntrustedListError> {
        let continues = known.is_begun_by(file).map_err(|error| self.io(error))?;
        if continues && known.read_on(file, &self.base).map_err(|error| self.io(error))? {
            return Ok(());
        }
        *known = ReadPart::nothing(&self.key);
        if known.read_on(file, &self.base).map_err(|error| self.io(error))? {
            return Ok(());
        }
        Err(UntrustedListError::Seal { path: self.path.clone(), line: known.lines + 1 })
    }

    /// Adds the places that are not listed. Returns the set of the file that they were added to.
    fn append(&self, places: &[Place]) -> Result<Arc<UntrustedSet>, UntrustedListError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(dir) = self.path.parent() {
            private_dir(dir).map_err(|error| self.io(error))?;
        }
        let mut file = self.open(true).map_err(|error| self.io(error))?;
        // The lock ends with the file's handle.
        file.lock().map_err(|error| self.io(error))?;
        self.catch_up(&mut known, &mut file)?;
        let mut seals = known.seals.clone();
        let (mut lines, mut count) = (Vec::new(), 0);
        for place in places.iter().filter(|place| !known.places.hold(place)) {
            let start = lines.len();
            let line = PlaceLine { place: self.relative(place) };
            serde_json::to_writer(&mut lines, &line).map_err(|error| self.io(error.into()))?;
            seals.seal(&mut lines, start);
            lines.push(b'\n');
            count += 1;
        }
        // A writer that was killed may have left a part of a line. It had not begun to write its file.
        let end = known.end;
        let written = file
            .set_len(end)
            .and_then(|()| file.seek(SeekFrom::Start(end)))
            .and_then(|_| file.write_all(&lines).inspect_err(|_| drop(file.set_len(end))));
        written.map_err(|error| self.io(error))?;
        known.places.add(places).map_err(|error| self.io(io::Error::other(error)))?;
        (known.seals, known.lines) = (seals, known.lines + count);
        known.end += lines.len() as u64;
        Ok(Arc::clone(&known.places))
    }

    fn relative(&self, place: &Place) -> String {
        let base = Place::new(&self.base.to_string_lossy());
        match place.rest(&base) {
            Some(rest) if !rest.is_empty() => rest.to_owned(),
            _ => place.as_str().to_owned(),
        }
    }

    fn io(&self, source: io::Error) -> UntrustedListError {
        UntrustedListError::Io { path: self.path.clone(), source }
    }
}

impl ReadPart {
    fn nothing(key: &SealKey) -> Self {
        Self { places: Arc::default(), lines: 0, seals: key.chain(SEALED_AS), end: 0 }
    }

    /// Returns true if the file has the last of the known lines at its known position.
    fn is_begun_by(&self, file: &mut File) -> io::Result<bool> {
        let Some(from) = self.end.checked_sub(Chain::END_BYTES as u64) else { return Ok(self.end == 0) };
        let mut end = [0; Chain::END_BYTES];
        file.seek(SeekFrom::Start(from))?;
        match file.read_exact(&mut end) {
            Ok(()) => Ok(self.seals.is_end_of(&end)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the lines after `end`. Returns false if a line is not the next one that was sealed with this key. A last
    /// line without a line end is incomplete, and is ignored.
    fn read_on(&mut self, file: &mut File, base: &Path) -> io::Result<bool> {
        file.seek(SeekFrom::Start(self.end))?;
        let (mut reader, mut line) = (BufReader::new(file), Vec::new());
        loop {
            line.clear();
            let read = Read::by_ref(&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
            let Some(whole) = line.strip_suffix(b"\n") else { return Ok((read as u64) < LONGEST_LINE) };
            if !self.seals.admits(whole) {
                return Ok(false);
            }
            let Ok(PlaceLine { place }) = serde_json::from_slice(whole) else { return Ok(false) };
            self.places.insert(&Place::new(&base.join(place).to_string_lossy()));
            (self.lines, self.end) = (self.lines + 1, self.end + read as u64);
        }
    }
}

impl UntrustedList {
    /// Reads the present content of the file. A file that does not exist is an empty list.
    ///
    /// # Errors
    /// The file can't be read, or a line of it has no valid seal.
    pub fn read_from(file: &Arc<UntrustedFile>) -> Result<Self, UntrustedListError> {
        let mut known = file.known.lock().unwrap_or_else(PoisonError::into_inner);
        match file.open(false) {
            Ok(mut opened) => file.catch_up(&mut known, &mut opened)?,
            // The operator has removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => *known = ReadPart::nothing(&file.key),
            Err(error) => return Err(file.io(error)),
        }
        Ok(Self { at: Arc::clone(file), places: Arc::clone(&known.places) })
    }

    /// Returns an empty list in memory, for a user whose key can't be read.
    ///
    /// # Errors
    /// A list exists in a file. Its seals can't be checked.
    pub fn none_beside(runs_dir: &Path) -> Result<UntrustedSet, UntrustedListError> {
        let path = runs_dir.parent().unwrap_or(runs_dir).join(UNTRUSTED_FILE);
        match path.try_exists() {
            Ok(false) => Ok(UntrustedSet::default()),
            Ok(true) => {
                let source = io::Error::other(
                    "the key that seals it, journal.key in the home of llm-do, can't be read",
                );
                Err(UntrustedListError::Io { path, source })
            }
            Err(source) => Err(UntrustedListError::Io { path, source }),
        }
    }
}

impl UntrustedPlaces for UntrustedList {
    fn hold(&self, place: &Place) -> bool {
        self.places.hold(place)
    }

    fn touch(&self, place: &Place) -> bool {
        self.places.touch(place)
    }

    fn within(&self, place: &Place) -> Vec<Place> {
        self.places.within(place)
    }

    fn add(&self, places: &[Place]) -> Result<(), String> {
        let added_to = self.at.append(places).map_err(|error| error.to_string())?;
        if Arc::ptr_eq(&added_to, &self.places) { Ok(()) } else { self.places.add(places) }
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

    fn one(file: &Arc<UntrustedFile>) -> UntrustedList {
        UntrustedList::read_from(file).unwrap()
    }

    fn file_of(dir: &Path) -> (Arc<UntrustedFile>, PathBuf) {
        let file = UntrustedFile::beside(&dir.join(".llm-do/runs"), &SealKey::from([7; 32]));
        let path = file.path.clone();
        (Arc::new(file), path)
    }

    #[test]
    fn an_addition_reads_no_line_that_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = file_of(dir.path());
        let list = one(&file);
        let place = |number: u32| Place::new(&format!("/data/{number}"));
        (0..500).for_each(|number| list.add(&[place(number)]).unwrap());
        // The beginning is made unreadable: whoever read it again would refuse the list.
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, &bytes).unwrap();
        list.add(&[place(500)]).unwrap();
        assert!(list.hold(&place(0)) && list.hold(&place(500)));
        assert!(one(&file).hold(&place(499)), "another run of this process");
        let (another, _) = file_of(dir.path());
        let refused = UntrustedList::read_from(&another);
        assert!(matches!(refused, Err(UntrustedListError::Seal { line: 1, .. })), "{refused:?}");
    }

    #[test]
    fn processes_that_add_at_the_same_time_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let place = |writer: u32, number: u32| Place::new(&format!("/data/{writer}/{number}"));
        std::thread::scope(|scope| {
            for writer in 0..4 {
                // A file of its own is what another process has.
                let (file, _) = file_of(dir.path());
                scope.spawn(move || {
                    (0..50).for_each(|number| one(&file).add(&[place(writer, number)]).unwrap());
                });
            }
        });
        let (file, path) = file_of(dir.path());
        let list = one(&file);
        assert!((0..4).all(|writer| (0..50).all(|number| list.hold(&place(writer, number)))));
        assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 200);
    }

    #[test]
    fn a_line_that_was_not_written_to_its_end_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = file_of(dir.path());
        one(&file).add(&[Place::new("/a"), Place::new("/b")]).unwrap();
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (fresh, _) = file_of(dir.path());
            let list = one(&fresh);
            assert!(list.hold(&Place::new("/a")) && !list.hold(&Place::new("/b")), "cut at {cut}");
            list.add(&[Place::new("/c")]).unwrap();
            let (fresh, _) = file_of(dir.path());
            let list = one(&fresh);
            assert!(list.hold(&Place::new("/a")) && list.hold(&Place::new("/c")), "cut at {cut}");
            // A process that had read both lines sees that the second was never written.
            assert!(!one(&file).hold(&Place::new("/b")), "cut at {cut}");
            fs::write(&path, &whole).unwrap();
            assert!(one(&file).hold(&Place::new("/b")));
        }
    }

    #[test]
    fn a_list_that_was_removed_begins_again() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = file_of(dir.path());
        let before = one(&file);
        before.add(&[Place::new("/a"), Place::new("/b")]).unwrap();
        fs::remove_file(&path).unwrap();
        let after = one(&file);
        assert!(!after.hold(&Place::new("/a")), "the operator trusts it");
        after.add(&[Place::new("/c")]).unwrap();
        assert!(before.hold(&Place::new("/a")), "a run keeps what it has read");
        before.add(&[Place::new("/d")]).unwrap();
        let (fresh, _) = file_of(dir.path());
        let found: Vec<bool> =
            ["/a", "/b", "/c", "/d"].map(|path| one(&fresh).hold(&Place::new(path))).to_vec();
        assert_eq!(found, [false, false, true, true]);
        // Another list of the same length.
        fs::write(&path, b"").unwrap();
        let (fresh, _) = file_of(dir.path());
        one(&fresh).add(&[Place::new("/x"), Place::new("/y")]).unwrap();
        assert!(one(&file).hold(&Place::new("/x")) && !one(&file).hold(&Place::new("/d")));
    }

    #[test]
    fn lines_that_others_add_are_refused_by_a_process_that_knows_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let (file, path) = file_of(dir.path());
        let list = one(&file);
        list.add(&[Place::new("/a")]).unwrap();
        let own = fs::read(&path).unwrap();
        let foreign = SealKey::from([8; 32]).seal(SEALED_AS, br#"{"place":"/x"}"#.to_vec());
        for forged in [&b"{\"place\":\"/x\"}\n"[..], &[&foreign[..], b"\n"].concat(), &own] {
            fs::write(&path, [&own[..], forged].concat()).unwrap();
            assert!(list.add(&[Place::new("/b")]).is_err());
            let refused = UntrustedList::read_from(&file);
            assert!(matches!(refused, Err(UntrustedListError::Seal { line: 2, .. })), "{refused:?}");
        }
        fs::write(&path, [&own[..], &vec![b'x'; 70_000]].concat()).unwrap();
        assert!(matches!(UntrustedList::read_from(&file), Err(UntrustedListError::Seal { line: 2, .. })));
    }
}
