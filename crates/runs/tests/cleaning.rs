//! Tests that `runs clean` removes the chosen runs, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    journal::{RecordKind, RunStatus},
};
use llm_do_host::RunLog as _;
use llm_do_records::{OpenRun, RunState};
use llm_do_runs::{Cleaning, JournalWriter, StoredRun, remove_run, stored_runs};
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + 20_000 * DAY
}

/// Makes a run of that many days ago, with a long value of that many bytes.
fn run(runs_dir: &Path, id: &str, days: u32, bytes: usize, end: Option<&str>) -> PathBuf {
    let dir = runs_dir.join(id);
    fs::create_dir_all(dir.join("blobs")).unwrap();
    fs::write(dir.join("blobs/x"), vec![b'x'; bytes]).unwrap();
    let end = end.map(|status| format!(r#","kind":"run_ended","status":"{status}""#)).unwrap_or_default();
    fs::write(dir.join("journal.jsonl"), format!("{{\"at_ms\":1{end}}}\n")).unwrap();
    let journal = File::options().write(true).open(dir.join("journal.jsonl")).unwrap();
    journal.set_modified(now() - days * DAY).unwrap();
    dir
}

/// Makes five runs of 1, 10, 20, 30 and 40 days ago; that of 30 days waits for an approval.
fn five(runs_dir: &Path) {
    run(runs_dir, "20240901-000000-0001", 40, 1000, Some("done"));
    run(runs_dir, "20240911-000000-0002", 30, 1000, Some("suspended"));
    run(runs_dir, "20240921-000000-0003", 20, 1000, None);
    run(runs_dir, "20241001-000000-0004", 10, 1000, Some("failed"));
    run(runs_dir, "20241010-000000-0005", 1, 1000, Some("done"));
}

fn chosen(runs_dir: &Path, cleaning: Cleaning) -> Vec<char> {
    let chosen = cleaning.choose(stored_runs(runs_dir).unwrap(), now());
    chosen.iter().map(|run| run.run.chars().last().unwrap()).collect()
}

#[test]
fn age_size_and_number_choose() {
    let home = tempfile::tempdir().unwrap();
    five(home.path());
    let all = Cleaning::default();
    let of = |cleaning| chosen(home.path(), cleaning);
    assert!(of(all).is_empty(), "without a limit nothing goes");
    assert_eq!(of(Cleaning { older_than: Some(15 * DAY), ..all }), ['1', '3']);
    assert_eq!(of(Cleaning { older_than: Some(15 * DAY), suspended: true, ..all }), ['1', '2', '3']);
    assert_eq!(of(Cleaning { older_than: Some(15 * DAY), keep: Some(3), ..all }), ['1']);
    assert_eq!(of(Cleaning { keep: Some(2), ..all }), ['1', '3']);
    assert!(of(Cleaning { keep: Some(9), ..all }).is_empty());
    assert_eq!(of(Cleaning { keep: Some(0), suspended: true, ..all }), ['1', '2', '3', '4', '5']);
    // Each has 1,000 bytes and a short journal.
    assert_eq!(of(Cleaning { larger_than: Some(4300), ..all }), ['1']);
    assert_eq!(
        of(Cleaning { larger_than: Some(3300), ..all }),
        ['1', '3'],
        "what may not go counts all the same"
    );
    assert!(of(Cleaning { larger_than: Some(10_000), ..all }).is_empty());
    assert_eq!(of(Cleaning { larger_than: Some(0), keep: Some(1), ..all }), ['1', '3', '4']);
    assert_eq!(of(Cleaning { larger_than: Some(4300), older_than: Some(5 * DAY), ..all }), ['1', '3', '4']);
}

#[test]
fn a_damaged_run_is_not_kept_in_place_of_another() {
    let home = tempfile::tempdir().unwrap();
    five(home.path());
    let damage = |id: &str, days: u32| {
        let dir = run(home.path(), id, days, 1000, Some("done"));
        let journal = dir.join("journal.jsonl");
        let text = fs::read_to_string(&journal).unwrap();
        fs::write(&journal, format!("no record\n{text}")).unwrap();
        File::options().write(true).open(journal).unwrap().set_modified(now() - days * DAY).unwrap();
    };
    damage("20241011-000000-0006", 0);
    damage("20240922-000000-0007", 19);
    let keep = |number| chosen(home.path(), Cleaning { keep: Some(number), ..Cleaning::default() });
    assert_eq!(keep(1), ['1', '3', '7', '4']);
    assert_eq!(keep(0), ['1', '3', '7', '4', '5', '6']);
    let stored = stored_runs(home.path()).unwrap();
    assert_eq!(stored[0].state, RunState::Open(OpenRun::Damaged));
    assert!(remove_run(&stored[0]).unwrap());
}

#[test]
fn a_run_that_goes_on_stays() {
    let home = tempfile::tempdir().unwrap();
    let runs_dir = home.path().join("runs");
    let journal = JournalWriter::create(&runs_dir, Arc::default(), None).unwrap();
    let note = RecordKind::Note { text: "begun".into() };
    journal.append(&CallPath::root(), &"note".into(), note, None).unwrap();
    let stored = stored_runs(&runs_dir).unwrap();
    assert_eq!(stored[0].state, RunState::Open(OpenRun::Running));
    let everything = Cleaning { keep: Some(0), suspended: true, ..Cleaning::default() };
    assert!(everything.choose(stored.clone(), SystemTime::now() + 999 * DAY).is_empty());
    // Even if it was not running when it was looked at.
    let taken_for = StoredRun { state: RunState::Open(OpenRun::CutOff), ..stored[0].clone() };
    assert!(!remove_run(&taken_for).unwrap());
    assert!(journal.dir().join("journal.jsonl").exists());
    let dir = journal.dir().to_owned();
    drop(journal);
    assert!(remove_run(&taken_for).unwrap());
    assert!(!dir.exists() && runs_dir.exists());
    // One that has come to wait since stays as well.
    let dir = run(&runs_dir, "20241010-000000-0005", 1, 10, Some("suspended"));
    let mut waits = stored_runs(&runs_dir).unwrap().remove(0);
    assert_eq!(waits.state, RunState::Ended(RunStatus::Suspended));
    waits.state = RunState::Open(OpenRun::CutOff);
    assert!(!remove_run(&waits).unwrap());
    assert!(dir.exists());
}

#[test]
fn only_folders_named_like_runs_go_and_no_link_is_followed() {
    let home = tempfile::tempdir().unwrap();
    let (runs_dir, other) = (home.path().join("runs"), home.path().join("other"));
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("precious"), "x").unwrap();
    five(&runs_dir);
    run(&runs_dir, "notes", 99, 10, Some("done"));
    run(&runs_dir, "20240901-000000-0001-copy", 99, 10, Some("done"));
    fs::write(runs_dir.join("20240101-000000-aaaa"), "a file").unwrap();
    symlink(&other, runs_dir.join("20240101-000000-bbbb")).unwrap();
    let holds_links = run(&runs_dir, "20240101-000000-cccc", 99, 10, Some("done"));
    symlink(&other, holds_links.join("blobs/inside")).unwrap();
    symlink(other.join("precious"), holds_links.join("blobs/file")).unwrap();
    // A run that never got a journal.
    fs::create_dir(runs_dir.join("20240101-000000-dddd")).unwrap();
    let everything = Cleaning { keep: Some(0), suspended: true, ..Cleaning::default() };
    for run in everything.choose(stored_runs(&runs_dir).unwrap(), now()) {
        assert!(remove_run(&run).unwrap());
    }
    let mut left: Vec<String> = fs::read_dir(&runs_dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    left.sort();
    assert_eq!(left, ["20240101-000000-aaaa", "20240101-000000-bbbb", "20240901-000000-0001-copy", "notes"]);
    assert_eq!(fs::read_to_string(other.join("precious")).unwrap(), "x");

    // The folder of the runs may be no link either.
    symlink(&runs_dir, home.path().join("linked")).unwrap();
    assert!(stored_runs(&home.path().join("linked")).is_err());
    assert!(stored_runs(&home.path().join("nowhere")).unwrap().is_empty());
}

#[test]
fn tunings_go_with_their_runs_unless_one_is_under_way() {
    let home = tempfile::tempdir().unwrap();
    let tune = home.path().join("tune");
    let tuning = |name: &str, days: u32| {
        run(&tune.join(name), "20240901-000000-0001", days, 1000, Some("done"));
        fs::write(tune.join(format!("{name}.jsonl")), "{}\n").unwrap();
        let log = File::options().write(true).open(tune.join(format!("{name}.jsonl"))).unwrap();
        log.set_modified(now() - days * DAY).unwrap();
        log
    };
    let (_, locked, _) = (tuning("old-1", 40), tuning("busy-2", 40), tuning("new-3", 1));
    locked.lock().unwrap();
    symlink("old-1.jsonl", tune.join("link-4.jsonl")).unwrap();
    let cleaning = Cleaning { older_than: Some(15 * DAY), ..Cleaning::default() };
    let stored = stored_runs(home.path()).unwrap();
    assert_eq!(stored.len(), 3, "{stored:?}");
    assert!(stored.iter().all(|run| run.bytes > 1000));
    let chosen = cleaning.choose(stored, now());
    assert_eq!(chosen.iter().map(|run| run.run.as_str()).collect::<Vec<_>>(), ["tune/old-1"]);
    assert!(remove_run(&chosen[0]).unwrap());
    assert!(!tune.join("old-1").exists() && !tune.join("old-1.jsonl").exists());
    // One that begins after the list was made is kept.
    let busy = StoredRun { run: "tune/busy-2".into(), dir: tune.join("busy-2"), ..chosen[0].clone() };
    assert!(!remove_run(&busy).unwrap() && tune.join("busy-2").exists());
    locked.unlock().unwrap();
    assert!(remove_run(&busy).unwrap() && !tune.join("busy-2").exists());
    assert!(tune.join("new-3").exists());
}
