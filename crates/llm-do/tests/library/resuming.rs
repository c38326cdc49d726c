//! Runs that wait, that were dropped and that are continued.

use crate::Folder;
use llm_do::{
    Error, Mode, Options, Problem, ResumeError, Worker,
    operator::{Answer, Question},
};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const SCRIPT: &str = "
answers:
  - when: {worker: main, turn: 0}
    calls:
      - {tool: write_file, arguments: {path: a.txt, content: a}}
      - {tool: write_file, arguments: {path: b.txt, content: b}}
  - text: '{{ last }}'
";

fn project() -> Folder {
    Folder::new(&[
        ("main.worker", "---\ntoolsets: {filesystem: {}}\n---\nWrite.\n"),
        ("workers/other.worker", "---\n---\nSay.\n"),
    ])
}

fn deferring(folder: &Folder, worker: &str) -> Worker<String> {
    let options = Options::new().mode(Mode::Defer);
    let program = folder.builder(SCRIPT).options(options).open().unwrap();
    program.worker(worker).unwrap().returns().unwrap()
}

async fn suspended(worker: &Worker<String>) -> llm_do::Suspended {
    match worker.call("x").await {
        Err(Error::Suspended(suspended)) => *suspended,
        other => panic!("{other:?}"),
    }
}

fn content(folder: &Folder, file: &str) -> Option<String> {
    fs::read_to_string(Path::new(&folder.program()).join(file)).ok()
}

#[tokio::test]
async fn answers_may_come_one_at_a_time_and_from_another_process() {
    let folder = project();
    let waits = suspended(&deferring(&folder, "main")).await;
    assert!(waits.waiting.iter().all(|waiting| matches!(waiting.question, Question::Approval(_))));
    // Opened again, as another process would.
    let worker = deferring(&folder, "main");
    let first = worker.resume(&*waits.run).waiting().unwrap();
    assert_eq!(first, waits.waiting);
    let again = match worker.resume(&*waits.run).approve(&first[0].id).await {
        Err(Error::Suspended(again)) => again,
        other => panic!("{other:?}"),
    };
    assert_eq!((content(&folder, "a.txt").as_deref(), content(&folder, "b.txt")), (Some("a"), None));
    let said = worker.resume(&*again.run).deny(&again.waiting[0].id, "not b").await.unwrap();
    assert!(said.contains("not b"), "{said}");
    assert_eq!(content(&folder, "b.txt"), None);
    let over = worker.resume(&*again.run).await.err();
    assert!(
        matches!(&over, Some(Error::NotStarted(problem)) if problem.to_string().contains("done")),
        "{over:?}"
    );
}

#[tokio::test]
async fn an_answer_that_does_not_fit_changes_nothing() {
    let folder = project();
    let worker = deferring(&folder, "main");
    let waits = suspended(&worker).await;
    let misfit = worker.resume(&*waits.run).answer(&waits.waiting[0].id, Answer::Again).await.err();
    let Some(Error::NotStarted(problem)) = misfit else { panic!("{misfit:?}") };
    assert!(matches!(*problem, Problem::Resume(ResumeError::NotAccepted { .. })), "{problem:?}");
    let unknown = "0/7.0:ask".parse().unwrap();
    let unknown = worker.resume(&*waits.run).approve(&unknown).await.err();
    assert!(matches!(unknown, Some(Error::NotStarted(_))), "{unknown:?}");
    assert_eq!(worker.resume(&*waits.run).waiting().unwrap(), waits.waiting);
}

#[tokio::test]
async fn only_the_same_worker_with_the_same_files_continues_a_run() {
    let folder = project();
    let waits = suspended(&deferring(&folder, "main")).await;
    let other = deferring(&folder, "other").resume(&*waits.run).await.err().unwrap().to_string();
    assert!(other.contains("a run of the worker `main`, and not of `other`"), "{other}");
    let changed = "---\ntoolsets: {filesystem: {}}\n---\nWrite more.\n";
    fs::write(folder.program().join("main.worker"), changed).unwrap();
    let changed = deferring(&folder, "main").resume(&*waits.run).await.err().unwrap().to_string();
    assert!(changed.contains("has changed since the run began"), "{changed}");
}

#[tokio::test]
async fn no_id_leads_out_of_the_folder_of_journals() {
    let folder = project();
    let worker = deferring(&folder, "main");
    let waits = suspended(&worker).await;
    for id in ["", "..", "../runs", "/etc", "last", &waits.run[..15], &format!("../runs/{}", waits.run)] {
        let error = worker.resume(id).waiting().err().unwrap().to_string();
        assert!(error.contains("is no ID of a run"), "{id}: {error}");
    }
    let missing = worker.resume("20200101-000000-0000").waiting().err();
    assert!(matches!(missing, Some(Error::NotStarted(_))), "{missing:?}");
}

#[tokio::test]
async fn a_resumed_run_keeps_its_options() {
    let folder = project();
    let worker = deferring(&folder, "main");
    let waits = suspended(&worker).await;
    for options in [
        Options::new().allow("write_file"),
        Options::new().budget("1usd"),
        Options::new().mode(Mode::ApproveAll),
    ] {
        let error = worker.resume(&*waits.run).options(options).await.err().unwrap().to_string();
        assert!(error.contains("keeps the options"), "{error}");
    }
    assert_eq!(content(&folder, "a.txt"), None);
}

#[tokio::test]
async fn a_run_that_was_dropped_is_continued() {
    let folder = Folder::of("toolsets: [rust]");
    let steps = Arc::new(AtomicUsize::new(0));
    let open = |delay_ms: u64| {
        let script = format!(
            "answers:\n  - when: {{turn: 0}}\n    calls: [{{tool: step}}]\n  - text: two steps\n    delay_ms: {delay_ms}\n"
        );
        let count = Arc::clone(&steps);
        let step = llm_do::Tool::new("step", "A step.", move |_: llm_do::NoArguments| {
            count.fetch_add(1, Ordering::SeqCst);
            async { Ok::<_, String>("stepped") }
        });
        folder.builder(&script).tool(step.reads()).open().unwrap().entry().unwrap()
    };
    let running = open(3_600_000).call("x").start().unwrap();
    let id = Arc::clone(running.id());
    assert!(tokio::time::timeout(Duration::from_millis(50), running).await.is_err(), "it was dropped");
    assert_eq!(open(0).resume(&*id).await.unwrap(), "two steps");
    assert_eq!(steps.load(Ordering::SeqCst), 1, "a step that is recorded is not repeated");
}
