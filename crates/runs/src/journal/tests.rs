use super::*;
use crate::{
    ambient::{LocalDriver, Machine},
    read::{began_here, is_own, read_journal, read_own_journal},
};
use llm_do_core::journal::{Ending, RunStatus};
use llm_do_core::{driver::Driver, operator::Unattended};
use llm_do_records::History;
use serde_json::json;

fn note(text: &str) -> RecordKind {
    RecordKind::Note { text: text.into() }
}

fn secret(name: &str, value: &str) -> Arc<Redactor> {
    Arc::new(Redactor::new([(name.to_owned(), value.to_owned())]))
}

fn append(journal: &JournalWriter, body: RecordKind) -> Result<Written, Halt> {
    journal.append(&CallPath::root(), &"note".into(), body, None)
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
    JournalWriter::over(Box::new(file), "run".into(), dir.into(), Arc::default(), Some(seals), clock)
}

fn key() -> SealKey {
    SealKey::from([7; 32])
}

#[test]
fn a_run_writes_no_more_than_it_may_and_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let journal = almost_full(dir.path(), 100_000, true);
    journal.tail().most = 20_000;
    let mut written = 0;
    let halt = loop {
        // A long value, which has a file of its own.
        match append(&journal, note(&format!("{written}{}", "x".repeat(5_000)))) {
            Ok(_) => written += 1,
            Err(halt) => break halt,
        }
    };
    assert!(
        matches!(&halt, Halt::Journal(message) if message.contains("the most that a run may write")),
        "{halt:?}"
    );
    assert!((3..=5).contains(&written), "{written}");
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
fn journal_is_own_if_each_of_its_records_is() {
    let dir = tempfile::tempdir().unwrap();
    let journal = almost_full(dir.path(), 9000, true);
    append(&journal, note("first")).unwrap();
    append(&journal, note("second")).unwrap();
    let path = dir.path().join(JOURNAL_FILE);
    let whole = fs::read_to_string(&path).unwrap();
    let is = |text: String| {
        fs::write(&path, text).unwrap();
        (began_here(dir.path(), &key()), is_own(dir.path(), &key()))
    };
    assert_eq!(is(whole.clone()), (true, true));
    assert_eq!(is(format!("{whole}{{\"half")), (true, true), "a write that was cut off");
    assert_eq!(is(whole.replace("second", "forged")), (true, false));
    assert_eq!(is(format!("{whole}{{}}\n")), (true, false), "a record without a seal");
    assert_eq!(is(whole.replace("first", "forged")), (false, false));
    for nothing in ["", "{\"half", "\n", "{}\n"] {
        assert_eq!(is(nothing.into()), (false, false), "{nothing:?}");
    }
    let other = SealKey::from([9; 32]);
    fs::write(&path, whole).unwrap();
    assert!(!began_here(dir.path(), &other) && !is_own(dir.path(), &other));
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
    journal.hold();
    append(&journal, note("two")).unwrap();
    append(&journal, note("three")).unwrap();
    assert_eq!(written(), 1);
    journal.flush().unwrap();
    assert_eq!(written(), 3);
    append(&journal, note("four")).unwrap();
    append(&journal, note(&"x".repeat(700))).unwrap();
    assert!(matches!(journal.release(), Err(Halt::Journal(_))));
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
    let journal =
        JournalWriter::over(Box::new(file), "run".into(), dir.path().into(), Arc::default(), None, clock);
    assert!(matches!(append(&journal, note("any")), Err(Halt::Journal(_))));
}

#[test]
fn what_is_recorded_holds_no_secret_and_is_what_counts() {
    let dir = tempfile::tempdir().unwrap();
    let journal =
        JournalWriter::create(&dir.path().join("runs"), secret("API_KEY", "hunter2hunter2"), None).unwrap();
    let long = format!("{} hunter2hunter2 {}", "x".repeat(5000), "y".repeat(5000));
    let output = json!({ "hunter2hunter2": ["a hunter2hunter2"], "long": long });
    let written = append(
        &journal,
        RecordKind::ToolEnded {
            ending: Ending::Output(Arc::new(output)),
            blobs: Vec::new(),
            log: None,
            origins: Default::default(),
            mixed: false,
        },
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
        let journal = JournalWriter::create(&dir.path().join("runs"), secret("TOKEN", word), None).unwrap();
        append(&journal, note(word)).unwrap();
        let ending = Ending::Output(Arc::new(json!({ word: word })));
        append(
            &journal,
            RecordKind::ToolEnded {
                ending: ending.clone(),
                blobs: Vec::new(),
                log: None,
                origins: Default::default(),
                mixed: false,
            },
        )
        .unwrap();
        let body = RecordKind::RunEnded { status: RunStatus::Done, ending, usage: Default::default() };
        journal.append(&CallPath::from("function"), &"principal".into(), body, None).unwrap();
        let records = read_journal(journal.dir()).unwrap().records;
        assert_eq!(records.len(), 3);
        assert_eq!(records[0].body, note("[secret TOKEN]"));
        for record in &records[1..] {
            let (RecordKind::ToolEnded { ending, .. } | RecordKind::RunEnded { ending, .. }) = &record.body
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
    // A file that is already there stays.
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
    // A run whose start was never recorded leaves no folder behind, so all of them are kept until the end.
    let begin = || (0..50).map(|_| JournalWriter::create(&runs, Arc::default(), None).unwrap());
    let begun: Vec<JournalWriter> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| begin().collect::<Vec<_>>())).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let distinct: std::collections::HashSet<_> = begun.iter().map(|run| run.id().clone()).collect();
    assert_eq!(distinct.len(), 200);
}

#[tokio::test]
async fn time_in_which_nothing_happened_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = File::create_new(dir.path().join(JOURNAL_FILE)).unwrap();
    let an_hour_ago = Timestamp::from_second(Timestamp::now().as_second() - 3600).unwrap();
    let (clock, seals) = (Clock::new(an_hour_ago), key().chain(&run_id_of(dir.path())));
    let dir = dir.path();
    let journal =
        JournalWriter::over(Box::new(file), "run".into(), dir.into(), Arc::default(), Some(seals), clock);
    let at_ms = append(&journal, note("then")).unwrap().at_ms;
    drop(journal);
    let (journal, records) = JournalWriter::reopen(dir, Arc::default(), &key()).unwrap();
    let history = History::of(records);
    let driver =
        LocalDriver::resume(journal, Machine::ambient(), Arc::new(Unattended), history, "test").unwrap();
    driver.record(&CallPath::root(), "more".into(), note("now")).unwrap();
    assert!((at_ms..at_ms + 600_000).contains(&driver.now_ms()), "{} {at_ms}", driver.now_ms());
}

#[test]
fn a_run_without_a_record_leaves_no_folder() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let begin = || JournalWriter::create(&runs, Arc::default(), None).unwrap();
    drop(begin());
    assert_eq!(fs::read_dir(&runs).unwrap().count(), 0);
    let journal = begin();
    append(&journal, note("any")).unwrap();
    let dir = journal.dir().to_owned();
    drop(journal);
    assert!(dir.join(JOURNAL_FILE).exists());
    // What is continued was begun by another.
    let journal = JournalWriter::reopen(&dir, Arc::default(), &key());
    assert!(journal.is_err() && dir.exists());
}

#[test]
fn a_journal_that_was_removed_is_no_longer_in_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(JOURNAL_FILE);
    let file = File::create_new(&path).unwrap();
    assert!(is_at(&file, &path));
    fs::remove_file(&path).unwrap();
    assert!(!is_at(&file, &path));
    File::create_new(&path).unwrap();
    assert!(!is_at(&file, &path), "another file of that name");
}

/// A run that begins has no writer for a moment, and `runs clean` removes runs that no process writes.
#[test]
fn runs_that_begin_are_not_removed_by_a_cleaning() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    fs::create_dir(&runs).unwrap();
    let cleaning = crate::Cleaning { keep: Some(0), suspended: true, ..Default::default() };
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                let Ok(stored) = crate::stored_runs(&runs) else { continue };
                for run in cleaning.choose(stored, std::time::SystemTime::now()) {
                    let _ = crate::remove_run(&run);
                }
            }
        });
        let journals: Vec<JournalWriter> = (0..300)
            .map(|_| {
                let journal = JournalWriter::create(&runs, Arc::default(), None).unwrap();
                append(&journal, note("begun")).unwrap();
                journal
            })
            .collect();
        ends.store(true, Ordering::Relaxed);
        for journal in &journals {
            assert_eq!(read_journal(journal.dir()).unwrap().records.len(), 1);
        }
    });
}

#[test]
fn a_lost_newest_value_counts_as_not_written() {
    let lost = |after: Option<RecordKind>| {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        let journal = JournalWriter::create(&runs, Arc::default(), Some(&key())).unwrap();
        append(&journal, note("first")).unwrap();
        append(&journal, note(&"long".repeat(5000))).unwrap();
        after.into_iter().for_each(|body| drop(append(&journal, body).unwrap()));
        let run = journal.dir().to_owned();
        drop(journal);
        // As a power failure leaves it.
        for entry in fs::read_dir(run.join("blobs")).unwrap() {
            fs::write(entry.unwrap().path(), "").unwrap();
        }
        let reopened = JournalWriter::reopen(&run, Arc::default(), &key());
        reopened.map(|(journal, records)| {
            append(&journal, note("next")).unwrap();
            drop(journal);
            assert_eq!(read_own_journal(&run, &key()).unwrap().records.len(), 2);
            records.len()
        })
    };
    assert_eq!(lost(None).unwrap(), 1);
    assert_eq!(lost(Some(note("then"))).unwrap(), 1);
    let ended = |status| RecordKind::RunEnded {
        status,
        ending: Ending::Output(Arc::new(json!("done"))),
        usage: Default::default(),
    };
    assert_eq!(lost(Some(ended(RunStatus::Suspended))).unwrap(), 1);
    // What followed may have had an effect, or is the end that was reported.
    assert!(lost(Some(ended(RunStatus::Done))).is_err());
    let started = RecordKind::ToolStarted {
        function: "write_file".into(),
        risk: llm_do_core::function::Risk::Write,
        idempotency_key: "k".into(),
    };
    assert!(lost(Some(started)).is_err());
}

#[cfg(unix)]
#[test]
fn nothing_is_recorded_in_a_journal_that_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&dir.path().join("runs"), Arc::default(), Some(&key())).unwrap();
    append(&journal, note("there")).unwrap();
    fs::remove_dir_all(dir.path().join("runs")).unwrap();
    let Halt::Journal(message) = append(&journal, note("gone")).unwrap_err() else { panic!("it halts") };
    assert!(message.contains("was removed"), "{message}");
}
