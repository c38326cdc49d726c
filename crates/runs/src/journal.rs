//! Writing a run's journal: one line a record, whole or not at all (SPEC §12).

use crate::{
    blob::{Blobs, open_regular, private_dir, private_file},
    driver::EventSink,
    read::{Journal, ReadError, read_own_journal, run_id_of},
    redactor::Redactor,
    run_id,
    seal::{Chain, SealKey},
};
use jiff::Timestamp;
use llm_do_core::{
    call_path::CallPath,
    engine::Halt,
    journal::{Record, RecordKind},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
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
/// Room for the lines that are gathered at once, which is enough for those of most turns.
const BUFFER_BYTES: usize = 1024;

/// The journal of one run while it is written.
///
/// Every record is handed to the kernel before [`JournalWriter::append`] returns, or, while a hold lasts, before
/// anything happens that follows from it: so nothing that anybody could have seen is lost when the process is killed. It
/// is not forced to the disk: a power cut may cost the last seconds, and forcing costs milliseconds that many runs at
/// once would spend waiting for the disk.
///
/// The file stays locked while it is written; the lock goes with the process, and so tells a run that goes on from one
/// that was cut off.
pub struct JournalWriter {
    id: Arc<str>,
    dir: PathBuf,
    redactor: Arc<Redactor>,
    clock: Clock,
    /// Time of the last record.
    last_ms: AtomicU64,
    tail: Mutex<Tail>,
}

/// The end of the file, to which records are added one at a time.
struct Tail {
    file: Box<dyn Lines>,
    blobs: Blobs,
    /// What seals the next record, if the journal is sealed.
    seals: Option<Chain>,
    next: u64,
    /// Bytes up to the end of the last whole line of the file.
    whole: u64,
    /// Number of the first record that is not in the file.
    unwritten: u64,
    /// What seals that one.
    unwritten_seals: Option<Chain>,
    /// Whole lines that are not in the file yet.
    lines: Vec<u8>,
    /// Whether lines may wait for others.
    held: bool,
    /// Half a line stands at the end and could not be removed.
    torn: bool,
}

/// What lines are written to: a file, which tests replace by a full one.
trait Lines: Send {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
}

impl Lines for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }
    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Wall time that advances with the monotonic clock: when somebody sets the clock in the middle of a run, no deadline
/// comes early and no record stands before the one it follows.
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

/// [`Record`], borrowed. The field order is that of the lines.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RecordRef<'a> {
    /// See [`Record::seq`].
    pub seq: u64,
    /// See [`Record::at_ms`].
    pub at_ms: u64,
    /// See [`Record::path`].
    pub path: &'a CallPath,
    /// See [`Record::step`].
    pub step: &'a str,
    /// See [`Record::body`].
    #[serde(flatten)]
    pub body: &'a RecordKind,
}

impl RecordRef<'_> {
    /// A record that can be kept.
    pub fn to_record(self) -> Record {
        let Self { seq, at_ms, path, step, body } = self;
        Record { seq, at_ms, path: path.clone(), step: step.to_owned(), body: body.clone() }
    }
}

/// What has been recorded.
#[derive(Debug)]
pub struct Written {
    /// When.
    pub at_ms: u64,
    /// The body as recorded: without secrets. What happens next may only follow from this, or a resumed run would go
    /// another way.
    pub body: RecordKind,
}

/// A journal that can't be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum ReopenError {
    /// A process is writing it.
    #[error("the run is going on in another process")]
    Running,
    /// The file can't be opened or written.
    #[error("cannot open {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// A run's folder that can't be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot record a run under {}: {source}. Make that folder writable.", path.display())]
pub struct CreateError {
    /// What was to be created.
    pub path: PathBuf,
    /// Why it can't be.
    pub source: io::Error,
}

impl JournalWriter {
    /// Begins a journal in a new folder under `runs_dir` (`.llm-do/runs`), with an ID that no other run has. The folder
    /// above `runs_dir`, if it is `.llm-do` or new, is made to ignore itself for git. Without a key it can be looked at
    /// afterwards, but not gone on with.
    pub fn create(
        runs_dir: &Path,
        redactor: Arc<Redactor>,
        key: Option<&SealKey>,
    ) -> Result<Self, CreateError> {
        let (now, id, dir) = loop {
            let now = Timestamp::now();
            let id = run_id::propose(now);
            let dir = runs_dir.join(&id);
            match new_private_dir(&dir) {
                Ok(()) => break (now, id, dir),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => new_runs_dir(runs_dir)?,
                Err(error) => return Err(failed(runs_dir)(error)),
            }
        };
        let path = dir.join(JOURNAL_FILE);
        let file = private_file(OpenOptions::new().append(true).create_new(true))
            .open(&path)
            .map_err(failed(&path))?;
        // Where the file system has no locks the run does without: it only looks cut off while it goes on.
        let _ = file.try_lock();
        let seals = key.map(|key| key.chain(&id));
        Ok(Self::over(Box::new(file), id.into(), dir, redactor, seals, Clock::new(now)))
    }

    /// Goes on with the journal in a run's folder, which no process may be writing and which was sealed with this key,
    /// and gives back what it holds. Half a line at its end, from a write that was cut off, is removed.
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
        // Looked at by its own rules first, so that a link or a pipe in its place is not opened for writing.
        drop(open_regular(&path).map_err(failed)?);
        let file = private_file(OpenOptions::new().append(true)).open(&path).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(ReopenError::Running),
            // Where the file system has no locks the run does without.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let Journal { records, torn, whole_bytes, seals } = read_own_journal(run_dir, key)?;
        if torn {
            file.set_len(whole_bytes).map_err(failed)?;
        }
        let (id, clock) = (run_id_of(run_dir).into(), Clock::new(Timestamp::now()));
        let journal = Self::over(Box::new(file), id, run_dir.to_owned(), redactor, seals, clock);
        let next = records.len() as u64;
        journal.last_ms.store(records.last().map_or(0, |record| record.at_ms), Ordering::Release);
        {
            let mut tail = journal.tail();
            (tail.next, tail.unwritten, tail.whole) = (next, next, whole_bytes);
        }
        Ok((journal, records))
    }

    fn over(
        file: Box<dyn Lines>,
        id: Arc<str>,
        dir: PathBuf,
        redactor: Arc<Redactor>,
        seals: Option<Chain>,
        clock: Clock,
    ) -> Self {
        let tail = Tail {
            file,
            blobs: Blobs::of_run(&dir),
            unwritten_seals: seals.clone(),
            seals,
            next: 0,
            whole: 0,
            unwritten: 0,
            lines: Vec::new(),
            held: false,
            torn: false,
        };
        Self { id, dir, redactor, last_ms: AtomicU64::new(clock.start_ms), clock, tail: Mutex::new(tail) }
    }

    /// ID of the run.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// The run's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// What keeps secrets out of it.
    pub fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    /// Time of the last record in milliseconds since 1970; before the first, of the beginning.
    pub fn last_ms(&self) -> u64 {
        self.last_ms.load(Ordering::Acquire)
    }

    /// The time that a record would have now.
    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms().max(self.last_ms())
    }

    /// Adds a record and shows it to the listener, in the order of the journal. A record that can't be written leaves
    /// nothing behind.
    ///
    /// Blocks for the time of one `write`, which for a file is a copy into the kernel's memory: some microseconds,
    /// less than handing it to another thread and back.
    pub fn append(
        &self,
        path: &CallPath,
        step: &str,
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

    /// From here on records wait for each other, so that those that follow from each other with nothing in between go to
    /// the kernel in one write instead of one each. Whoever holds them must [`flush`](Self::flush) before anything happens
    /// outside, and let go before it waits.
    pub(crate) fn hold(&self) -> Hold<'_> {
        self.tail().held = true;
        Hold { journal: self }
    }

    /// Hands all records to the kernel. Those that it does not take leave nothing behind.
    pub(crate) fn flush(&self) -> Result<(), Halt> {
        self.tail().write().map_err(|error| self.halt(&error))
    }

    fn let_go(&self) -> io::Result<()> {
        let mut tail = self.tail();
        tail.held = false;
        tail.write()
    }

    fn halt(&self, error: &io::Error) -> Halt {
        Halt::Journal(format!("{}: {error}", self.dir.join(JOURNAL_FILE).display()))
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // A panic between two records leaves the tail whole: `add` and `write` restore it before they return, and a line
        // is only counted once it stands.
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records wait for each other while this lasts.
pub(crate) struct Hold<'a> {
    journal: &'a JournalWriter,
}

impl Hold<'_> {
    /// Lets go of the records.
    pub(crate) fn release(self) -> Result<(), Halt> {
        let journal = self.journal;
        // Not by `drop`, which has nobody to tell of an error.
        std::mem::forget(self);
        journal.let_go().map_err(|error| journal.halt(&error))
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        // After a panic, which the error must not hide.
        let _ = self.journal.let_go();
    }
}

impl Tail {
    /// Adds a record's line to those that are to be written.
    fn add(
        &mut self,
        redactor: &Redactor,
        seq: u64,
        at_ms: u64,
        path: &CallPath,
        step: &str,
        mut body: RecordKind,
    ) -> io::Result<RecordKind> {
        if self.torn {
            return Err(io::Error::other("an earlier record could not be written and not be taken back"));
        }
        let start = self.lines.len();
        if start == 0 {
            self.lines.reserve(BUFFER_BYTES);
        }
        let mut line = || {
            serde_json::to_writer(&mut self.lines, &RecordRef { seq, at_ms, path, step, body: &body })?;
            if redactor.suspects(&self.lines[start..]) {
                let record = redacted(redactor, &self.lines[start..])?;
                self.lines.truncate(start);
                serde_json::to_writer(&mut self.lines, &record)?;
                body = record.body;
            }
            if Blobs::concern(&self.lines[start..]) {
                let mut record: Value = serde_json::from_slice(&self.lines[start..])?;
                self.blobs.pack_record(&mut record)?;
                self.lines.truncate(start);
                serde_json::to_writer(&mut self.lines, &record)?;
            }
            Ok(())
        };
        if let Err(error) = line() {
            self.lines.truncate(start);
            return Err(error);
        }
        if let Some(seals) = &mut self.seals {
            seals.seal(&mut self.lines, start);
        }
        self.lines.push(b'\n');
        self.next += 1;
        Ok(body)
    }

    /// Writes the lines, all of them or none.
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
        // A run that waits keeps no buffer: there may be thousands.
        self.lines = Vec::new();
        written
    }
}

/// One call of `write`, unless the file takes only a part.
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

/// What a body would be in the journal of that redactor.
pub(crate) fn as_recorded(
    redactor: &Redactor,
    path: &CallPath,
    step: &str,
    body: &RecordKind,
) -> io::Result<RecordKind> {
    let line = serde_json::to_vec(&RecordRef { seq: 0, at_ms: 0, path, step, body })?;
    let record =
        if redactor.suspects(&line) { redacted(redactor, &line)? } else { serde_json::from_slice(&line)? };
    Ok(record.body)
}

/// The record without secrets.
fn redacted(redactor: &Redactor, line: &[u8]) -> io::Result<Record> {
    let record: Record = serde_json::from_slice(line)?;
    let sound = |value: &Value| {
        Record::deserialize(value).is_ok_and(|other| {
            // Where it stands is not a secret, and nothing may get lost because a key has another name now.
            other.path == record.path
                && other.step == record.step
                && serde_json::to_value(&other).is_ok_and(|again| again == *value)
        })
    };
    Ok(Record::deserialize(redactor.redact_value(&serde_json::to_value(&record)?, &sound))?)
}

/// Makes a failure there one to make a run's folder.
fn failed(path: &Path) -> impl FnOnce(io::Error) -> CreateError {
    move |source| CreateError { path: path.to_owned(), source }
}

/// The first run of a project or of a user makes the folder for all of them.
fn new_runs_dir(runs_dir: &Path) -> Result<(), CreateError> {
    if let Some(home) = runs_dir.parent().filter(|home| !home.as_os_str().is_empty()) {
        // Somebody else's folder is not ours to hide from git.
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
mod tests {
    use super::*;
    use crate::{driver::LocalDriver, history::History, read::read_journal};
    use llm_do_core::journal::{Ending, RunStatus};
    use llm_do_core::{driver::Driver, operator::Later};
    use serde_json::json;
    use std::collections::HashMap;

    fn note(text: &str) -> RecordKind {
        RecordKind::Note { text: text.into() }
    }

    fn secret(name: &str, value: &str) -> Arc<Redactor> {
        Arc::new(Redactor::new([(name.to_owned(), value.to_owned())]))
    }

    fn append(journal: &JournalWriter, body: RecordKind) -> Result<Written, Halt> {
        journal.append(&CallPath::root(), "note", body, None)
    }

    /// A file on a disk that has room for so many bytes more.
    struct AlmostFull {
        file: File,
        room: usize,
        can_truncate: bool,
    }

    impl Lines for AlmostFull {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let written = Write::write(&mut self.file, &bytes[..bytes.len().min(self.room)])?;
            self.room -= written;
            Ok(written)
        }
        fn truncate(&mut self, bytes: u64) -> io::Result<()> {
            if !self.can_truncate {
                return Err(io::ErrorKind::Other.into());
            }
            let freed = self.file.metadata()?.len() - bytes;
            self.room += usize::try_from(freed).unwrap();
            self.file.set_len(bytes)
        }
    }

    fn almost_full(dir: &Path, room: usize, can_truncate: bool) -> JournalWriter {
        let file = OpenOptions::new().append(true).create_new(true).open(dir.join(JOURNAL_FILE)).unwrap();
        let file = AlmostFull { file, room, can_truncate };
        let (clock, seals) = (Clock::new(Timestamp::now()), key().chain(&run_id_of(dir)));
        JournalWriter::over(Box::new(file), "run".into(), dir.to_owned(), Arc::default(), Some(seals), clock)
    }

    fn key() -> SealKey {
        SealKey::from([7; 32])
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_halts() {
        let dir = tempfile::tempdir().unwrap();
        let journal = almost_full(dir.path(), 300, true);
        append(&journal, note("fits")).unwrap();
        let halt = append(&journal, note(&"x".repeat(300))).unwrap_err();
        let Halt::Journal(message) = halt else { panic!("{halt:?}") };
        assert!(message.contains(JOURNAL_FILE), "{message}");
        let read = read_journal(dir.path()).unwrap();
        assert_eq!((read.records.len(), read.torn), (1, false));
        // The failed record took no number, and no seal.
        assert_eq!(journal.tail().next, 1);
        append(&journal, note("fits too")).unwrap();
        assert_eq!(read_own_journal(dir.path(), &key()).unwrap().records.len(), 2);
    }

    #[test]
    fn nothing_follows_half_a_line_that_could_not_be_removed() {
        let dir = tempfile::tempdir().unwrap();
        let journal = almost_full(dir.path(), 300, false);
        append(&journal, note("fits")).unwrap();
        append(&journal, note(&"x".repeat(300))).unwrap_err();
        append(&journal, note("would be garbled")).unwrap_err();
        let read = read_journal(dir.path()).unwrap();
        assert_eq!((read.records.len(), read.torn), (1, true));
        assert!(read.whole_bytes < 300);
    }

    #[test]
    fn held_records_are_written_together_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let journal = almost_full(dir.path(), 700, true);
        let written = || read_journal(dir.path()).unwrap().records.len();
        append(&journal, note("at once")).unwrap();
        let hold = journal.hold();
        append(&journal, note("two")).unwrap();
        append(&journal, note("three")).unwrap();
        assert_eq!(written(), 1);
        journal.flush().unwrap();
        assert_eq!(written(), 3);
        append(&journal, note("four")).unwrap();
        append(&journal, note(&"x".repeat(700))).unwrap();
        assert!(matches!(hold.release(), Err(Halt::Journal(_))));
        assert_eq!((written(), read_journal(dir.path()).unwrap().torn), (3, false));
        // Those that could not be written took no number, and nothing is held any more.
        let tail = journal.tail();
        assert_eq!((tail.next, tail.held, tail.lines.len()), (3, false, 0));
        drop(tail);
        append(&journal, note("four")).unwrap();
        assert_eq!(read_own_journal(dir.path(), &key()).unwrap().records.len(), 4);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_that_is_full_halts() {
        let dir = tempfile::tempdir().unwrap();
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let clock = Clock::new(Timestamp::now());
        let journal = JournalWriter::over(
            Box::new(file),
            "run".into(),
            dir.path().to_owned(),
            Arc::default(),
            None,
            clock,
        );
        assert!(matches!(append(&journal, note("any")), Err(Halt::Journal(_))));
    }

    #[test]
    fn what_is_recorded_holds_no_secret_and_is_what_counts() {
        let dir = tempfile::tempdir().unwrap();
        let journal =
            JournalWriter::create(&dir.path().join("runs"), secret("API_KEY", "hunter2hunter2"), None)
                .unwrap();
        let long = format!("{} hunter2hunter2 {}", "x".repeat(5000), "y".repeat(5000));
        let output = json!({ "hunter2hunter2": ["a hunter2hunter2"], "long": long });
        let written = append(
            &journal,
            RecordKind::ToolEnded { ending: Ending::Output(Arc::new(output)), blobs: Vec::new(), log: None },
        )
        .unwrap();
        let read = read_journal(journal.dir()).unwrap();
        assert_eq!(read.records[0].body, written.body);
        let RecordKind::ToolEnded { ending: Ending::Output(value), .. } = written.body else { panic!() };
        assert_eq!(value["[secret API_KEY]"], json!(["a [secret API_KEY]"]));
        assert!(value["long"].as_str().unwrap().contains("x [secret API_KEY] y"));
        let mut files = vec![journal.dir().join(JOURNAL_FILE)];
        files.extend(fs::read_dir(journal.dir().join("blobs")).unwrap().map(|entry| entry.unwrap().path()));
        assert_eq!(files.len(), 2);
        for file in files {
            assert!(!fs::read_to_string(file).unwrap().contains("hunter2"));
        }
    }

    #[test]
    fn a_secret_that_is_a_word_of_the_format_leaves_records_readable() {
        for word in ["run_ended", "function", "tool_ended", "note_for_me", "max_tokens", "principal"] {
            let dir = tempfile::tempdir().unwrap();
            let journal =
                JournalWriter::create(&dir.path().join("runs"), secret("TOKEN", word), None).unwrap();
            append(&journal, note(word)).unwrap();
            let ending = Ending::Output(Arc::new(json!({ word: word })));
            append(&journal, RecordKind::ToolEnded { ending: ending.clone(), blobs: Vec::new(), log: None })
                .unwrap();
            let body = RecordKind::RunEnded { status: RunStatus::Done, ending, usage: Default::default() };
            journal.append(&CallPath::from("function"), "principal", body, None).unwrap();
            let records = read_journal(journal.dir()).unwrap().records;
            assert_eq!(records.len(), 3);
            assert_eq!(records[0].body, note("[secret TOKEN]"));
            for record in &records[1..] {
                let (RecordKind::ToolEnded { ending, .. } | RecordKind::RunEnded { ending, .. }) =
                    &record.body
                else {
                    panic!()
                };
                assert_eq!(*ending, Ending::Output(Arc::new(json!({ "[secret TOKEN]": "[secret TOKEN]" }))));
            }
        }
    }

    #[test]
    fn files_are_their_owners_and_ignored_by_git() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join(".llm-do");
        let journal = JournalWriter::create(&home.join("runs"), Arc::default(), None).unwrap();
        append(&journal, note(&"x".repeat(5000))).unwrap();
        assert_eq!(fs::read_to_string(home.join(".gitignore")).unwrap(), "*\n");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode(&home), 0o700);
            assert_eq!(mode(journal.dir()), 0o700);
            assert_eq!(mode(&journal.dir().join(JOURNAL_FILE)), 0o600);
            let blob = fs::read_dir(journal.dir().join("blobs")).unwrap().next().unwrap().unwrap().path();
            assert_eq!(mode(&blob), 0o600);
        }
        // What somebody has put there stays.
        fs::write(home.join(".gitignore"), "runs/\n").unwrap();
        JournalWriter::create(&home.join("runs"), Arc::default(), None).unwrap();
        assert_eq!(fs::read_to_string(home.join(".gitignore")).unwrap(), "runs/\n");
        // A folder that was there before is not ours, whatever lies in it.
        JournalWriter::create(&dir.path().join("runs"), Arc::default(), None).unwrap();
        assert!(!dir.path().join(".gitignore").exists());
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "").unwrap();
        let error = JournalWriter::create(&dir.path().join("file/runs"), Arc::default(), None).err().unwrap();
        assert!(error.to_string().contains("file/runs"), "{error}");
    }

    #[test]
    fn runs_begun_at_once_have_different_ids() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let begin =
            || (0..50).map(|_| JournalWriter::create(&runs, Arc::default(), None).unwrap().id().clone());
        let ids: Vec<Arc<str>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| begin().collect::<Vec<_>>())).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let distinct: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(distinct.len(), 200);
    }

    #[tokio::test]
    async fn time_in_which_nothing_happened_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::create_new(dir.path().join(JOURNAL_FILE)).unwrap();
        let an_hour_ago = Timestamp::from_second(Timestamp::now().as_second() - 3600).unwrap();
        let (clock, seals) = (Clock::new(an_hour_ago), key().chain(&run_id_of(dir.path())));
        let dir = dir.path();
        let journal = JournalWriter::over(
            Box::new(file),
            "run".into(),
            dir.to_owned(),
            Arc::default(),
            Some(seals),
            clock,
        );
        let at_ms = append(&journal, note("then")).unwrap().at_ms;
        drop(journal);
        let (journal, records) = JournalWriter::reopen(dir, Arc::default(), &key()).unwrap();
        let history = History::of(records, HashMap::new());
        let driver = LocalDriver::resume(journal, Arc::new(Later), history, "test").unwrap();
        driver.record(&CallPath::root(), "more".into(), note("now")).unwrap();
        assert!((at_ms..at_ms + 600_000).contains(&driver.now_ms()), "{} {at_ms}", driver.now_ms());
    }
}
