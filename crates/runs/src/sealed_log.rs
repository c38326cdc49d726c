//! Logs that commands keep beside the runs: sealed lines in one file, which is locked while its command is at work.
//!
//! A log is to a command what a journal is to a run: `llm-do test` and `llm-do map` write what the service shows of them, and
//! `llm-do tune` continues one log over several commands. The seals tell the user's own logs from those that a project brings.

use crate::{
    files::{open_regular, private_file, soon},
    journal::make_runs_dir,
    list::is_locked,
    run_id::{self, is_run_id},
    seal::{Chain, SealKey},
};
use jiff::Timestamp;
use serde::Serialize;
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

/// Logs of a kind that are kept. Older ones are removed when another begins.
const MOST_KEPT: usize = 50;
/// Largest log that is read.
const LARGEST: u64 = 64 << 20;

/// The command of a log. Each has a folder beside the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// `llm-do test`.
    Tests,
    /// `llm-do map`.
    Maps,
}

impl LogKind {
    fn name(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Maps => "maps",
        }
    }

    fn folder(self, runs_dir: &Path) -> PathBuf {
        runs_dir.join(self.name())
    }

    /// The purpose that the seals of a log name.
    fn purpose(self, id: &str) -> String {
        format!("log of {} {id}", self.name())
    }
}

/// A log that is being written.
#[derive(Debug)]
pub struct SealedLog {
    file: File,
    path: PathBuf,
    chain: Chain,
}

impl SealedLog {
    /// Begins a log beside the runs in that folder, and removes the oldest ones beyond those that are kept.
    ///
    /// # Errors
    /// The folder can't be made or written, or is a link.
    pub fn begin(runs_dir: &Path, kind: LogKind, key: &SealKey) -> io::Result<Self> {
        let folder = kind.folder(runs_dir);
        make_runs_dir(runs_dir).map_err(io::Error::other)?;
        make_own(&folder)?;
        for old in log_ids(runs_dir, kind)?.into_iter().skip(MOST_KEPT - 1) {
            let path = path_of(runs_dir, kind, &old);
            if !open_regular(&path).is_ok_and(|file| is_locked(&file)) {
                fs::remove_file(path)?;
            }
        }
        loop {
            let id = run_id::propose(Timestamp::now());
            let path = path_of(runs_dir, kind, &id);
            match private_file(OpenOptions::new().append(true).create_new(true)).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                opened => {
                    let file = opened?;
                    // A reader holds the lock for a moment. On a file system without locks the command appears to have been
                    // cut off while it is at work.
                    soon(|| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
                    return Ok(Self { file, path, chain: key.chain(&kind.purpose(&id)) });
                }
            }
        }
    }

    /// Opens the log `NAME.jsonl` below a folder beside the runs, to continue it, or begins it. Returns the log and the
    /// lines that it has. The unfinished line of a command that was killed is removed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: another command is writing it. [`io::ErrorKind::InvalidData`]: this user's llm-do has
    /// not written it. Otherwise the folder or the file can't be read or written, or is a link.
    pub fn resume(
        runs_dir: &Path,
        folder: &str,
        name: &str,
        key: &SealKey,
    ) -> io::Result<(Self, Vec<String>)> {
        make_runs_dir(runs_dir).map_err(io::Error::other)?;
        let folder = runs_dir.join(folder);
        make_own(&folder)?;
        let path = folder.join(format!("{name}.jsonl"));
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link or no regular file"));
        }
        let mut file = private_file(OpenOptions::new().read(true).append(true).create(true)).open(&path)?;
        // A file system without locks gives none.
        if !soon(|| !matches!(file.try_lock(), Err(TryLockError::WouldBlock))) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let mut chain = key.chain(&format!("continued log {name}"));
        let (mut lines, mut whole) = (Vec::new(), 0);
        for line in text.split_inclusive(|byte| *byte == b'\n') {
            let Some(content) = line.strip_suffix(b"\n") else { break };
            if !chain.admits(content) {
                let foreign = "it was not written by this user's llm-do, or was changed";
                return Err(io::Error::new(io::ErrorKind::InvalidData, foreign));
            }
            whole += line.len() as u64;
            lines.push(String::from_utf8_lossy(content).into_owned());
        }
        file.set_len(whole)?;
        Ok((Self { file, path, chain }, lines))
    }

    /// Adds a line: a JSON object with at least one field.
    ///
    /// # Errors
    /// The line can't be written.
    pub fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        self.chain.seal(&mut bytes, 0);
        bytes.push(b'\n');
        self.file.write_all(&bytes)
    }

    /// Removes a log of a command that has done nothing.
    ///
    /// # Errors
    /// The file can't be removed.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

/// Makes a folder that only its owner may enter.
///
/// # Errors
/// The folder can't be made, or something else has its name. A project may have brought a link: what is written there
/// would be written elsewhere.
fn make_own(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Err(_) if !fs::symlink_metadata(folder)?.is_dir() => Err(io::Error::new(
            io::ErrorKind::NotADirectory,
            format!("{} is a link or a file, not a folder", folder.display()),
        )),
        _ => Ok(()),
    }
}

/// A log as it is now.
#[derive(Clone, Debug)]
pub struct ReadLog {
    /// The whole lines.
    pub lines: Vec<String>,
    /// True while the command works.
    pub is_running: bool,
}

/// Reads the log with that ID. `None`: there is none that this user's llm-do has written.
///
/// # Errors
/// The log can't be read, or is too large.
pub fn read_log(runs_dir: &Path, kind: LogKind, id: &str, key: &SealKey) -> io::Result<Option<ReadLog>> {
    if !is_run_id(id) {
        return Ok(None);
    }
    let file = match open_regular(&path_of(runs_dir, kind, id)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    // Asked for first: a command that ends meanwhile has written its last line.
    let is_running = is_locked(&file);
    let mut text = Vec::new();
    if (&file).take(LARGEST + 1).read_to_end(&mut text)? as u64 > LARGEST {
        return Err(io::Error::other(format!("the log {id} has more than {LARGEST} bytes")));
    }
    let mut chain = key.chain(&kind.purpose(id));
    let mut lines = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        if !chain.admits(line) {
            return Ok(None);
        }
        lines.push(String::from_utf8_lossy(line).into_owned());
    }
    Ok(Some(ReadLog { lines, is_running }))
}

/// The IDs of the logs beside the runs in that folder, newest first.
///
/// # Errors
/// The folder can't be read.
pub fn log_ids(runs_dir: &Path, kind: LogKind) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(kind.folder(runs_dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut ids = Vec::new();
    for entry in entries {
        let name = entry?.file_name().into_string().unwrap_or_default();
        ids.extend(name.strip_suffix(".jsonl").filter(|id| is_run_id(id)).map(str::to_owned));
    }
    ids.sort_unstable_by(|a, b| b.cmp(a));
    Ok(ids)
}

fn path_of(runs_dir: &Path, kind: LogKind, id: &str) -> PathBuf {
    kind.folder(runs_dir).join(format!("{id}.jsonl"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn begun(dir: &Path, key: &SealKey) -> (String, SealedLog) {
        let log = SealedLog::begin(dir, LogKind::Tests, key).unwrap();
        (log.path.file_stem().unwrap().to_str().unwrap().to_owned(), log)
    }

    #[test]
    fn a_log_is_read_while_it_is_written_and_shows_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let (runs, key) = (dir.path().join("runs"), SealKey::from([7; 32]));
        let (id, mut log) = begun(&runs, &key);
        let read = || read_log(&runs, LogKind::Tests, &id, &key).unwrap().unwrap();
        log.add(&json!({"began": 1})).unwrap();
        let now = read();
        assert!(now.is_running);
        assert_eq!(now.lines.len(), 1);
        log.add(&json!({"ended": 2})).unwrap();
        drop(log);
        let path = path_of(&runs, LogKind::Tests, &id);
        let whole = fs::read(&path).unwrap();
        assert!(!read().is_running);
        // The last line of a command that was killed is not whole.
        fs::write(&path, &whole[..whole.len() - 3]).unwrap();
        assert_eq!(read().lines.len(), 1);
    }

    #[test]
    fn logs_of_others_and_changed_logs_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let key = SealKey::from([7; 32]);
        let (id, mut log) = begun(dir.path(), &key);
        log.add(&json!({"began": 1})).unwrap();
        let read = |kind, id: &str, key: &SealKey| read_log(dir.path(), kind, id, key).unwrap();
        assert!(read(LogKind::Tests, &id, &SealKey::from([8; 32])).is_none());
        assert!(read(LogKind::Maps, &id, &key).is_none());
        assert!(read(LogKind::Tests, "../tests/x", &key).is_none());
        let path = path_of(dir.path(), LogKind::Tests, &id);
        let other = path_of(dir.path(), LogKind::Tests, "20000101-000000-0000");
        fs::copy(&path, &other).unwrap();
        assert!(read(LogKind::Tests, "20000101-000000-0000", &key).is_none(), "under another name");
        let text = fs::read_to_string(&path).unwrap().replace("1", "2");
        fs::write(&path, text).unwrap();
        assert!(read(LogKind::Tests, &id, &key).is_none());
    }

    #[test]
    fn a_log_is_continued_after_whatever_a_kill_has_left() {
        let dir = tempfile::tempdir().unwrap();
        let key = SealKey::from([7; 32]);
        let open = |name: &str, key: &SealKey| SealedLog::resume(dir.path(), "tune", name, key);
        let (mut log, lines) = open("w", &key).unwrap();
        assert!(lines.is_empty());
        assert_eq!(open("w", &key).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        log.add(&json!({"a": 1})).unwrap();
        log.add(&json!({"b": 2})).unwrap();
        let path = log.path.clone();
        drop(log);
        let whole = fs::read(&path).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..=whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            let (mut log, lines) = open("w", &key).unwrap();
            assert_eq!(lines.len(), if cut == whole.len() { 2 } else { 1 });
            log.add(&json!({"c": 3})).unwrap();
            drop(log);
            assert_eq!(open("w", &key).unwrap().1.len(), lines.len() + 1, "{cut}");
        }
        // Neither with another key, nor under another name, nor with a changed line.
        let foreign = |name: &str, key: &SealKey| open(name, key).unwrap_err().kind();
        assert_eq!(foreign("w", &SealKey::from([8; 32])), io::ErrorKind::InvalidData);
        fs::copy(&path, path.with_file_name("v.jsonl")).unwrap();
        assert_eq!(foreign("v", &key), io::ErrorKind::InvalidData);
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("\"a\":1", "\"a\":9")).unwrap();
        assert_eq!(foreign("w", &key), io::ErrorKind::InvalidData);
    }

    #[test]
    fn the_oldest_logs_make_room() {
        let dir = tempfile::tempdir().unwrap();
        let key = SealKey::from([7; 32]);
        let (_, log) = begun(dir.path(), &key);
        // Logs that begin in one second have no order, so the oldest one is of another year.
        let oldest = path_of(dir.path(), LogKind::Tests, "20000101-000000-0000");
        fs::copy(&log.path, &oldest).unwrap();
        drop(log);
        for _ in 0..MOST_KEPT {
            drop(begun(dir.path(), &key));
        }
        assert_eq!(log_ids(dir.path(), LogKind::Tests).unwrap().len(), MOST_KEPT);
        assert!(!oldest.exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_link_of_a_project_is_not_written_through() {
        let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(elsewhere.path(), dir.path().join("tests")).unwrap();
        let begun = SealedLog::begin(dir.path(), LogKind::Tests, &SealKey::from([7; 32]));
        assert_eq!(begun.unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    }
}
