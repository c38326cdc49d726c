//! Writing a run's journal: one line for each record, written completely or not at all. `docs/reference/journal.md`
//! documents the format.

mod fork;

pub use fork::fork;

use crate::{
    blob::BlobDir,
    files::{holder, open_regular, private_dir, private_file, soon, still_named},
    kept::Kept,
    read::{ReadError, read_sealed, run_id_of},
    run_id::{self, NewRunId},
    seal::{Chain, SealKey},
};
use jiff::Timestamp;
use llm_do_core::{
    call_path::CallPath,
    engine::Halt,
    journal::{Record, RecordKind},
    step_name::StepName,
};
use llm_do_host::{EventSink, RunLog, Written};
use llm_do_records::{Journal, Problem, RecordRef, Redactor, parse_line, write_line};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::time::Instant;

/// Name of the journal in a run's folder.
pub const JOURNAL_FILE: &str = "journal.jsonl";
/// Initial size of the buffer for lines: enough for those of most turns.
const BUFFER_BYTES: usize = 1024;
/// The most bytes of records and long values that one run may write. Foreign code decides how much a run records.
const MOST_BYTES: u64 = 2 << 30;

/// The journal of one run while it is written.
///
/// Every record is handed to the kernel before [`JournalWriter::append`] returns, or, while a hold lasts, before
/// anything happens that depends on it. A record whose effects are visible therefore survives the death of the process.
/// Records are not synced to the disk: a power failure may lose the last seconds, while a sync would add milliseconds
/// to each step, and many runs at once would wait for the disk.
///
/// The file is locked while it is written. The lock ends with the process, which distinguishes a running run from one
/// that was cut off.
pub struct JournalWriter {
    id: Arc<str>,
    dir: Arc<Path>,
    /// True if the lines go to a log that other runs share, whose errors name its file.
    shared: bool,
    /// True if the writer has made the folder, and removes it if it ends without a record.
    made: bool,
    redactor: Arc<Redactor>,
    /// The contents of files that its calls have changed.
    kept: Kept,
    clock: Clock,
    /// Time of the last record.
    last_ms: AtomicU64,
    tail: Mutex<Tail>,
}

/// The end of the file. Records are added one at a time.
struct Tail {
    file: Box<dyn Lines>,
    blobs: BlobDir,
    /// The seals for the next record, if the journal is sealed.
    seals: Option<Chain>,
    next: u64,
    /// Bytes up to the end of the last whole line of the file.
    whole: u64,
    /// The most bytes that the run may write, values included.
    most: u64,
    /// Number of the first record that is not in the file.
    unwritten: u64,
    /// The seals for that record.
    unwritten_seals: Option<Chain>,
    /// Whole lines that are not in the file yet.
    lines: Vec<u8>,
    /// True if lines may be gathered before they are written.
    held: bool,
    /// True if an incomplete line is at the end of the file and could not be removed.
    torn: bool,
}

/// The target of the lines: a file, which tests replace by one on a full disk.
trait Lines: Send {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

impl Lines for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = Write::write(self, bytes)?;
        still_named(self)?;
        Ok(written)
    }
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// The target of a journal's lines that has no file of its own: a log that many runs share.
pub trait JournalLog: Send {
    /// Writes these whole lines, completely or not at all.
    ///
    /// # Errors
    /// The lines can't be written. Nothing of them is left. The error names the log's file, which the journal does not
    /// know.
    fn write(&mut self, lines: &[u8]) -> io::Result<()>;
}

/// A shared log, as the target of one journal.
struct Shared(Box<dyn JournalLog>);

impl Lines for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map(|()| bytes.len())
    }
    fn truncate(&mut self, _: u64) -> io::Result<()> {
        // The log has removed what it could not write whole.
        Ok(())
    }
}

/// Wall time that advances with the monotonic clock: if the system's clock is set during a run, no deadline fires early
/// and the times of records never decrease.
struct Clock {
    start_ms: u64,
    start: Instant,
}

impl Clock {
    fn new(now: Timestamp) -> Self {
        Self { start_ms: u64::try_from(now.as_millisecond()).unwrap_or(0), start: Instant::now() }
    }
    fn now_ms(&self) -> u64 {
        self.start_ms + u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX / 2)
    }
}

/// A journal that can't be continued.
#[derive(Debug, thiserror::Error)]
pub enum ReopenError {
    /// A process is writing it.
    #[error("the run is running in {}", holder.map_or("another process".into(), |id| format!("process {id}")))]
    Running {
        /// The process's number, where the system reports it.
        holder: Option<u32>,
    },
    /// The file can't be opened or written.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The journal can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A run's folder that can't be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot record a run under {}: {source}. Make that folder writable.", path.display())]
pub struct CreateError {
    /// The path that could not be created.
    pub path: PathBuf,
    /// The reason.
    pub source: io::Error,
}

impl JournalWriter {
    /// Begins a journal in a new folder under `runs_dir` (`.llm-do/runs`), with an ID that no other run has. The folder
    /// above `runs_dir`, if it is `.llm-do` or new, gets a `.gitignore` that excludes it. A journal without a key can
    /// be read, but its run can't be resumed.
    pub fn create(
        runs_dir: &Path,
        redactor: Arc<Redactor>,
        key: Option<&SealKey>,
    ) -> Result<Self, CreateError> {
        loop {
            let now = Timestamp::now();
            let id = run_id::propose(now);
            let dir = runs_dir.join(&id);
            match new_private_dir(&dir) {
                Ok(()) => {
                    let redactor = Arc::clone(&redactor);
                    if let Some(journal) = Self::begin(id.into(), dir.into(), now, redactor, key)? {
                        return Ok(journal);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => new_runs_dir(runs_dir)?,
                Err(error) => return Err(failed(runs_dir)(error)),
            }
        }
    }

    /// Begins a journal like [`JournalWriter::create`], with the ID that was proposed for it.
    ///
    /// # Errors
    /// See [`JournalWriter::create`]; or a run with that ID exists.
    pub fn create_as(
        id: &NewRunId,
        runs_dir: &Path,
        redactor: Arc<Redactor>,
        key: Option<&SealKey>,
    ) -> Result<Self, CreateError> {
        let dir: Arc<Path> = runs_dir.join(&**id.as_str()).into();
        loop {
            match new_private_dir(&dir) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    new_runs_dir(runs_dir)?;
                    new_private_dir(&dir).map_err(failed(&dir))?;
                }
                made => made.map_err(failed(&dir))?,
            }
            let (id, redactor) = (Arc::clone(id.as_str()), Arc::clone(&redactor));
            if let Some(journal) = Self::begin(id, Arc::clone(&dir), Timestamp::now(), redactor, key)? {
                return Ok(journal);
            }
        }
    }

    /// Begins the journal in that new folder. `None`: another process removed the folder before the journal was locked,
    /// as `runs clean` removes runs that no process writes.
    fn begin(
        id: Arc<str>,
        dir: Arc<Path>,
        now: Timestamp,
        redactor: Arc<Redactor>,
        key: Option<&SealKey>,
    ) -> Result<Option<Self>, CreateError> {
        let path = dir.join(JOURNAL_FILE);
        let file = match private_file(OpenOptions::new().append(true).create_new(true)).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                let _ = fs::remove_dir(&dir);
                return Err(failed(&path)(error));
            }
        };
        // A listing holds the lock for a moment. On a file system without locks the run appears cut off while it is running.
        let locked = soon(|| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
        if !locked || !is_at(&file, &path) {
            return Ok(None);
        }
        let seals = key.map(|key| key.chain(&id));
        let mut journal = Self::over(Box::new(file), id, dir, redactor, seals, Clock::new(now));
        journal.made = true;
        Ok(Some(journal))
    }

    /// Opens the journal in a run's folder to continue it, and returns its records. No process may be writing it, and
    /// it must be sealed with this key. An incomplete line at its end, from a write that was cut off, is removed.
    ///
    /// # Errors
    /// See [`ReopenError`].
    pub fn reopen(
        run_dir: &Path,
        redactor: Arc<Redactor>,
        key: &SealKey,
    ) -> Result<(Self, Vec<Record>), ReopenError> {
        let path = run_dir.join(JOURNAL_FILE);
        let failed = |source| ReopenError::Io { path: path.clone(), source };
        // Opened for reading first, which refuses a pipe or a device in its place before it is opened for writing.
        drop(open_regular(&path).map_err(failed)?);
        let file = private_file(OpenOptions::new().append(true)).open(&path).map_err(failed)?;
        // Not every file system has locks.
        let is_free = || !matches!(file.try_lock(), Err(TryLockError::WouldBlock));
        if !soon(is_free) {
            return Err(ReopenError::Running { holder: holder(&path) });
        }
        let (Journal { records, torn, whole_bytes }, seals) = read_sealed(run_dir, key)?;
        if torn {
            file.set_len(whole_bytes).map_err(failed)?;
        }
        let (id, clock) = (run_id_of(run_dir).into(), Clock::new(Timestamp::now()));
        let journal = Self::over(Box::new(file), id, run_dir.into(), redactor, Some(seals), clock);
        let next = records.len() as u64;
        journal.last_ms.store(records.last().map_or(0, |record| record.at_ms), Ordering::Release);
        {
            let mut tail = journal.tail();
            (tail.next, tail.unwritten, tail.whole) = (next, next, whole_bytes);
            tail.blobs.measure();
        }
        Ok((journal, records))
    }

    /// Opens a journal whose lines go to a log that other runs share, with the records that the log already has of this
    /// run. `lines` are their lines, which must be sealed with this key. Long values are stored in `dir`, which the
    /// runs may share, too.
    ///
    /// # Errors
    /// A line is no record, or is not sealed with this key as the next line of this run.
    pub fn within(
        log: Box<dyn JournalLog>,
        id: Arc<str>,
        dir: Arc<Path>,
        redactor: Arc<Redactor>,
        key: Option<&SealKey>,
        lines: &[Vec<u8>],
    ) -> Result<(Self, Vec<Record>), Problem> {
        let mut seals = key.map(|key| key.chain(&id));
        let mut before = Vec::with_capacity(lines.len());
        for line in lines {
            if !seals.as_mut().is_some_and(|seals| seals.admits(line)) {
                return Err(Problem::Foreign);
            }
            before.push(parse_line(line, &BlobDir::of_run(&*dir))?);
        }
        let mut journal =
            Self::over(Box::new(Shared(log)), id, dir, redactor, seals, Clock::new(Timestamp::now()));
        journal.shared = true;
        {
            let mut tail = journal.tail();
            tail.blobs = BlobDir::of_runs(Arc::clone(&journal.dir), Arc::clone(&journal.id));
            if let Some(last) = before.last() {
                journal.last_ms.store(last.at_ms, Ordering::Release);
                (tail.next, tail.unwritten) = (last.seq + 1, last.seq + 1);
            }
        }
        Ok((journal, before))
    }

    fn over(
        file: Box<dyn Lines>,
        id: Arc<str>,
        dir: Arc<Path>,
        redactor: Arc<Redactor>,
        seals: Option<Chain>,
        clock: Clock,
    ) -> Self {
        let tail = Tail {
            file,
            blobs: BlobDir::of_run(Arc::clone(&dir)),
            unwritten_seals: seals.clone(),
            seals,
            next: 0,
            whole: 0,
            most: MOST_BYTES,
            unwritten: 0,
            lines: Vec::new(),
            held: false,
            torn: false,
        };
        Self {
            id,
            kept: Kept::of_run(Arc::clone(&dir)),
            dir,
            shared: false,
            made: false,
            redactor,
            last_ms: AtomicU64::new(clock.start_ms),
            clock,
            tail: Mutex::new(tail),
        }
    }

    /// Returns the ID of the run.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Returns the run's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the run's folder as a shared path: thousands of runs may wait at once, and a copy of the path takes
    /// memory.
    pub fn shared_dir(&self) -> Arc<Path> {
        Arc::clone(&self.dir)
    }

    /// Returns the redactor of the records.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn let_go(&self) -> io::Result<()> {
        let mut tail = self.tail();
        tail.held = false;
        tail.write()
    }

    fn halt(&self, error: &io::Error) -> Halt {
        Halt::Journal(match self.shared {
            true => error.to_string(),
            false => format!("{}: {error}", self.dir.join(JOURNAL_FILE).display()),
        })
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // A panic between two records leaves the tail consistent: `add` and `write` restore it before they return, and a
        // line is counted only when it is complete.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes the folder of a run without a record, so that a failed start leaves none.
impl Drop for JournalWriter {
    fn drop(&mut self) {
        if self.made && self.tail().unwritten == 0 {
            // Held until here, the lock keeps other processes from beginning to read it.
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

impl RunLog for JournalWriter {
    /// Blocks for one `write`, which copies the lines into the kernel's memory. That takes some microseconds, less than
    /// passing the record to another thread.
    fn append(
        &self,
        path: &CallPath,
        step: &StepName,
        body: RecordKind,
        listener: Option<&dyn EventSink>,
    ) -> Result<Written, Halt> {
        let mut tail = self.tail();
        let seq = tail.next;
        let at_ms = self.now_ms();
        let now = !tail.held || listener.is_some_and(EventSink::wants_written);
        let body = tail
            .add(&self.redactor, seq, at_ms, path, step, body)
            .and_then(|body| if now { tail.write().map(|()| body) } else { Ok(body) })
            .map_err(|error| self.halt(&error))?;
        self.last_ms.store(at_ms, Ordering::Release);
        if let Some(listener) = listener {
            listener.record(RecordRef { seq, at_ms, path, step, body: &body });
        }
        Ok(Written { at_ms, body })
    }

    fn hold(&self) {
        self.tail().held = true;
    }

    fn release(&self) -> Result<(), Halt> {
        self.let_go().map_err(|error| self.halt(&error))
    }

    fn flush(&self) -> Result<(), Halt> {
        self.tail().write().map_err(|error| self.halt(&error))
    }

    fn now_ms(&self) -> u64 {
        self.clock.now_ms().max(self.last_ms())
    }

    fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn keep_content(&self, sha256: &str, content: &[u8]) -> bool {
        self.kept.store(sha256, content)
    }

    fn kept_content(&self, sha256: &str) -> Option<Vec<u8>> {
        self.kept.read(sha256)
    }
}

impl Tail {
    /// Adds a record's line to the buffer.
    fn add(
        &mut self,
        redactor: &Redactor,
        seq: u64,
        at_ms: u64,
        path: &CallPath,
        step: &StepName,
        mut body: RecordKind,
    ) -> io::Result<RecordKind> {
        if self.torn {
            return Err(io::Error::other("an earlier record could not be written and not be taken back"));
        }
        // The end of a run is always recorded.
        if self.whole + self.blobs.bytes() > self.most && !matches!(body, RecordKind::RunEnded { .. }) {
            return Err(io::Error::other(format!(
                "the records of this run have reached {} MiB, the most that a run may write",
                self.most >> 20
            )));
        }
        let start = self.lines.len();
        if start == 0 {
            self.lines.reserve(BUFFER_BYTES);
        }
        let blobs = &mut self.blobs;
        let record = RecordRef { seq, at_ms, path, step, body: &body };
        match write_line(&mut self.lines, record, redactor, &mut |hash, bytes| blobs.store(hash, bytes)) {
            Ok(None) => {}
            Ok(Some(redacted)) => body = redacted,
            Err(error) => {
                self.lines.truncate(start);
                return Err(error);
            }
        }
        if let Some(seals) = &mut self.seals {
            seals.seal(&mut self.lines, start);
        }
        self.lines.push(b'\n');
        self.next += 1;
        Ok(body)
    }

    /// Writes all buffered lines, or none.
    fn write(&mut self) -> io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let written = write_all(&mut *self.file, &self.lines);
        match written {
            Ok(()) => {
                self.whole += self.lines.len() as u64;
                self.unwritten = self.next;
                self.unwritten_seals.clone_from(&self.seals);
            }
            Err(_) => {
                self.torn = self.file.truncate(self.whole).is_err();
                self.next = self.unwritten;
                self.seals.clone_from(&self.unwritten_seals);
            }
        }
        // A waiting run keeps no buffer: there may be thousands of runs.
        self.lines = Vec::new();
        written
    }
}

/// Calls `write` once, or more often if the file takes only a part.
fn write_all(file: &mut dyn Lines, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true if the path still leads to that file.
fn is_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let place = |found: fs::Metadata| (found.dev(), found.ino());
        let places = (file.metadata().map(place), fs::symlink_metadata(path).map(place));
        matches!(places, (Ok(file), Ok(path)) if file == path)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        path.exists()
    }
}

/// Turns an I/O error at that path into a [`CreateError`].
fn failed(path: &Path) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError { path: path.to_owned(), source }
}

/// Makes the folder for all runs of a project or of a user, unless it is there.
pub(crate) fn make_runs_dir(runs_dir: &Path) -> Result<(), CreateError> {
    if runs_dir.is_dir() { Ok(()) } else { new_runs_dir(runs_dir) }
}

/// Makes the folder for all runs, for the first run of a project or of a user.
fn new_runs_dir(runs_dir: &Path) -> Result<(), CreateError> {
    if let Some(home) = runs_dir.parent().filter(|home| !home.as_os_str().is_empty()) {
        // A folder of the user's is not hidden from git.
        let ours = home.ends_with(".llm-do") || !home.exists();
        private_dir(home).map_err(failed(home))?;
        if ours {
            ignore_for_git(home).map_err(failed(home))?;
        }
    }
    private_dir(runs_dir).map_err(failed(runs_dir))
}

fn new_private_dir(dir: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

fn ignore_for_git(dir: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).open(dir.join(".gitignore")) {
        Ok(mut file) => file.write_all(b"*\n"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
