//! Journals read back: whole ones, damaged ones, long ones, lists of them.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    gate::Mode,
    journal::{Ending, FORMAT, RecordKind, RunStatus},
    model::Usage,
};
use llm_do_host::RunLog as _;
use llm_do_records::{OpenRun, Problem, RunState};
use llm_do_runs::{
    FindError, JOURNAL_FILE, JournalWriter, ReadError, find_run, list_runs, newest_and_unfinished,
    read_journal, read_tree,
};
use serde_json::json;
use std::{
    fs::{self, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};

fn run_started(run: &str) -> RecordKind {
    RecordKind::RunStarted {
        format: FORMAT,
        run: run.into(),
        version: "0.1.0".into(),
        target: "examples/report".into(),
        chat: false,
        entry: "main".into(),
        approval: Mode::Interactive,
        date: "2026-11-21".into(),
        definitions: Vec::new(),
        runtimes: Vec::new(),
        invocation: None,
        requester: None,
    }
}

fn run_ended() -> RecordKind {
    let usage = Usage { input_tokens: Some(10), output_tokens: Some(2), ..Usage::default() };
    RecordKind::RunEnded { status: RunStatus::Done, ending: Ending::Output(Arc::new(json!("ok"))), usage }
}

fn note(text: &str) -> RecordKind {
    RecordKind::Note { text: text.into() }
}

fn append(journal: &JournalWriter, body: RecordKind) {
    journal.append(&CallPath::root(), &"step".into(), body, None).unwrap();
}

/// Makes the folder of a finished run.
fn whole_run(runs: &Path) -> PathBuf {
    let journal = JournalWriter::create(runs, Arc::default(), None).unwrap();
    append(&journal, run_started(journal.id()));
    append(&journal, note(&"long ".repeat(2000)));
    append(&journal, run_ended());
    journal.dir().to_owned()
}

fn add(dir: &Path, bytes: &[u8]) {
    OpenOptions::new().append(true).open(dir.join(JOURNAL_FILE)).unwrap().write_all(bytes).unwrap();
}

/// Returns the number of the one bad line, and its problem.
fn problem(dir: &Path) -> (u64, Problem) {
    match read_journal(dir).unwrap_err() {
        ReadError::Line { line, problem, .. } => (line, problem),
        other => panic!("{other}"),
    }
}

#[test]
fn a_torn_last_line_is_told_and_left_out() {
    let runs = tempfile::tempdir().unwrap();
    let dir = whole_run(runs.path());
    let whole = fs::read(dir.join(JOURNAL_FILE)).unwrap();
    assert!(!read_journal(&dir).unwrap().torn);
    // Cut anywhere in the last line, even just before its end.
    let before_last = whole[..whole.len() - 1].iter().rposition(|&b| b == b'\n').unwrap() + 1;
    for length in before_last + 1..whole.len() {
        fs::write(dir.join(JOURNAL_FILE), &whole[..length]).unwrap();
        let journal = read_journal(&dir).unwrap();
        assert!(journal.torn);
        assert_eq!((journal.records.len(), journal.whole_bytes), (2, before_last as u64));
    }
    assert!(read_tree(&dir).unwrap().torn);
}

#[test]
fn anything_else_that_is_wrong_names_the_line() {
    let runs = tempfile::tempdir().unwrap();
    for (line, expect) in [
        ("{\"half\": \n", "not a record"),
        ("\n", "not a record"),
        ("{\"seq\":3,\"at_ms\":1,\"path\":\"0\",\"step\":\"s\",\"kind\":\"of_tomorrow\"}\n", "of_tomorrow"),
        (
            "{\"seq\":5,\"at_ms\":1,\"path\":\"0\",\"step\":\"s\",\"kind\":\"cancelled\"}\n",
            "record 3 should stand here",
        ),
    ] {
        let dir = whole_run(runs.path());
        add(&dir, line.as_bytes());
        let (number, problem) = problem(&dir);
        assert_eq!(number, 4);
        assert!(problem.to_string().contains(expect), "{problem}");
    }
}

#[test]
fn another_format_says_so() {
    let runs = tempfile::tempdir().unwrap();
    let dir = whole_run(runs.path());
    for first in [
        r#"{"seq":0,"at_ms":1,"path":"0","step":"run","kind":"run_started","format":1,"shape":"old"}"#,
        r#"{"number":0,"format":99}"#,
    ] {
        fs::write(dir.join(JOURNAL_FILE), format!("{first}\n")).unwrap();
        assert!(matches!(problem(&dir), (1, Problem::Format(1 | 99))));
    }
}

#[test]
fn a_missing_or_changed_long_value_is_an_error() {
    let runs = tempfile::tempdir().unwrap();
    let dir = whole_run(runs.path());
    let blob = fs::read_dir(dir.join("blobs")).unwrap().next().unwrap().unwrap().path();
    fs::write(&blob, "something else").unwrap();
    assert!(matches!(problem(&dir), (2, Problem::Blob(_))));
    fs::remove_file(&blob).unwrap();
    assert!(matches!(problem(&dir), (2, Problem::Blob(_))));
}

#[test]
#[cfg(unix)]
fn what_is_no_file_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("20260101-000000-dead");
    fs::create_dir(&dir).unwrap();
    std::os::unix::fs::symlink("/dev/zero", dir.join(JOURNAL_FILE)).unwrap();
    assert!(matches!(read_journal(&dir), Err(ReadError::Io { .. })));
    assert!(list_runs(home.path(), 10).unwrap().is_empty());
}

#[test]
fn a_long_journal_is_read_whole() {
    let runs = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(runs.path(), Arc::default(), None).unwrap();
    for _ in 0..100_000 {
        append(&journal, note("one of many"));
    }
    let records = read_journal(journal.dir()).unwrap().records;
    assert_eq!(records.len(), 100_000);
}

#[test]
fn lists_are_newest_first_and_know_who_is_running() {
    let home = tempfile::tempdir().unwrap();
    let runs = home.path().join("runs");
    assert!(list_runs(&runs, 10).unwrap().is_empty());
    let done = whole_run(&runs);
    let running = JournalWriter::create(&runs, Arc::default(), None).unwrap();
    append(&running, run_started(running.id()));
    let cut_off = {
        let journal = JournalWriter::create(&runs, Arc::default(), None).unwrap();
        append(&journal, run_started(journal.id()));
        append(&journal, note("then the power went"));
        journal.dir().to_owned()
    };
    // A process that was killed before its first record leaves this.
    let empty = runs.join("20260102-000000-dead");
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("journal.jsonl"), "").unwrap();
    fs::create_dir(runs.join("notes of mine")).unwrap();
    fs::create_dir(runs.join("20260101-000000-dead")).unwrap();

    let listed = list_runs(&runs, 10).unwrap();
    assert!(listed.is_sorted_by(|a, b| a.run > b.run));
    let of = |dir: &Path| {
        let name = dir.file_name().unwrap().to_str().unwrap();
        listed.iter().find(|summary| summary.run == name).unwrap()
    };
    assert_eq!(listed.len(), 4);
    let summary = of(&done);
    assert_eq!(summary.state, RunState::Ended(RunStatus::Done));
    assert_eq!((&*summary.entry, &*summary.target), ("main", "examples/report"));
    assert_eq!(summary.usage.unwrap().total(), 12);
    assert!(summary.started_ms.is_some() && summary.took_ms.is_some());
    assert_eq!(of(running.dir()).state, RunState::Open(OpenRun::Running));
    assert_eq!(of(&cut_off).state, RunState::Open(OpenRun::CutOff));
    assert_eq!((of(&empty).started_ms, of(&empty).state), (None, RunState::Open(OpenRun::CutOff)));
    assert_eq!(list_runs(&runs, 2).unwrap(), listed[..2]);

    // A torn last line hides nothing that came before it.
    add(&done, b"{\"seq\":3,\"at_");
    let listed = list_runs(&runs, 10).unwrap();
    let name = done.file_name().unwrap().to_str().unwrap();
    let state = listed.iter().find(|summary| summary.run == name).unwrap().state;
    assert_eq!(state, RunState::Ended(RunStatus::Done));
}

#[test]
fn a_last_line_longer_than_the_first_look_is_found() {
    let home = tempfile::tempdir().unwrap();
    let runs = home.path().join("runs");
    let journal = JournalWriter::create(&runs, Arc::default(), None).unwrap();
    append(&journal, run_started(journal.id()));
    append(&journal, note(&"\u{1}".repeat(600)));
    append(
        &journal,
        RecordKind::RunEnded {
            status: RunStatus::Failed,
            // Many short values: the line itself is long.
            ending: Ending::Output(Arc::new(json!([
                ["x".repeat(1500), "y".repeat(1500)],
                ["z".repeat(900)]
            ]))),
            usage: Usage::default(),
        },
    );
    assert_eq!(list_runs(&runs, 1).unwrap()[0].state, RunState::Ended(RunStatus::Failed));
}

#[test]
fn older_runs_that_can_be_continued_are_listed_beside_the_newest() {
    let runs = tempfile::tempdir().unwrap();
    // More than are read at once, so that the older ones come after enough newer ones.
    let id = |number: usize| format!("20260101-000000-{number:04x}");
    for number in 0..3000 {
        let status = match number {
            0 => Some("suspended"),
            1 => Some("interrupted"),
            2 => None,
            _ => Some("done"),
        };
        let start = json!({"seq": 0, "at_ms": number, "path": "0", "step": "run", "kind": "run_started", "entry": "main"});
        let mut lines = format!("{start}\n");
        if let Some(status) = status {
            let end = json!({"seq": 1, "at_ms": number, "path": "0", "step": "run", "kind": "run_ended", "status": status});
            lines += &format!("{end}\n");
        }
        let dir = runs.path().join(id(number));
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join(JOURNAL_FILE), lines).unwrap();
    }
    let found: Vec<String> =
        newest_and_unfinished(runs.path(), 10, |_| true).unwrap().into_iter().map(|run| run.run).collect();
    let (newest, older) = found.split_at(found.len() - 3);
    assert!(newest.len() >= 10 && newest.len() < 2000, "{}", newest.len());
    assert!(newest.iter().rev().eq((3000 - newest.len()..3000).map(id).collect::<Vec<_>>().iter()));
    assert_eq!(older, [id(2), id(1), id(0)]);
    let none = newest_and_unfinished(runs.path(), 10, |run| run.run == id(1)).unwrap();
    assert_eq!(none.len(), 1, "only those that are kept count");
}

#[test]
fn runs_are_found_by_what_is_short_to_type() {
    let home = tempfile::tempdir().unwrap();
    for id in ["20261121-221530-4f2a", "20261121-221531-0001", "20261122-000000-beef"] {
        fs::create_dir(home.path().join(id)).unwrap();
    }
    let find = |text: &str| find_run(home.path(), text);
    for text in ["20261122-000000-beef", "20261122", "beef", "last"] {
        assert_eq!(find(text).unwrap(), home.path().join("20261122-000000-beef"));
    }
    assert_eq!(find("20261121-221530").unwrap(), home.path().join("20261121-221530-4f2a"));
    assert!(matches!(find("20261121"), Err(FindError::Several { runs, .. }) if runs.len() == 2));
    for text in ["", "..", "../x", "cafe", "/", "20261121-221530-4f2a/"] {
        assert!(matches!(find(text), Err(FindError::None { .. })), "{text}");
    }
    assert!(matches!(find_run(&home.path().join("none"), "last"), Err(FindError::None { .. })));
}

#[test]
fn a_killed_process_leaves_every_record_it_was_told_of() {
    const NAME: &str = "a_killed_process_leaves_every_record_it_was_told_of";
    // Run again as the process that is killed: it says the number of each record that it has been told is written.
    if let Some(runs) = std::env::var_os("LLM_DO_TEST_RUNS_DIR") {
        let journal = JournalWriter::create(Path::new(&runs), Arc::default(), None).unwrap();
        append(&journal, run_started(journal.id()));
        for seq in 1.. {
            append(&journal, note(&"long ".repeat(seq % 7 * 300)));
            println!("\nwritten {seq}");
        }
    }
    let home = tempfile::tempdir().unwrap();
    let runs = home.path().join("runs");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([NAME, "--exact", "--nocapture"])
        .env("LLM_DO_TEST_RUNS_DIR", &runs)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .filter_map(|line| line.unwrap().strip_prefix("written ")?.parse::<usize>().ok());
    assert_eq!(told.find(|seq| *seq == 200), Some(200));
    assert_eq!(list_runs(&runs, 1).unwrap()[0].state, RunState::Open(OpenRun::Running));
    child.kill().unwrap();
    child.wait().unwrap();
    let last = told.last().unwrap_or(200);
    let journal = read_journal(&find_run(&runs, "last").unwrap()).unwrap();
    assert!(journal.records.len() > last, "{} records, told of {last}", journal.records.len());
    assert_eq!(list_runs(&runs, 1).unwrap()[0].state, RunState::Open(OpenRun::CutOff));
}
