//! Tests that every example runs with its script, and that its journal is complete.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

use llm_do::{
    Input, Report, Session, Settings,
    core::{
        call_path::CallPath,
        conversation::Next,
        engine::End,
        journal::{RecordKind, RunStatus},
        rebuild::conversation_at,
        worker::Limits,
    },
    program::target::Request,
    runs::read_journal,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

/// A copy, since examples write into their own folders.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn run(home: &Path, target: &Path, script: &str, input: &Input) -> Report {
    let script = examples().join("scripts").join(script);
    let mut settings = Settings::for_target("");
    settings.request = Request { positionals: vec![target.display().to_string()], ..Request::default() };
    settings.around.here = home.to_owned();
    settings.home = home.join("home");
    settings.run.model = Some(format!("script:{}", script.display()).parse().unwrap());
    let session = Session::open(settings).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let run = session.start(input, None, None).unwrap();
    runtime.block_on(run.finish())
}

fn value(report: &Report) -> &Value {
    match &report.end {
        End::Done(value) => value,
        other => panic!("{other:?}"),
    }
}

/// The records alone rebuild every conversation of the run, to its end.
fn journal_is_complete(report: &Report) -> usize {
    let journal = read_journal(&report.dir).unwrap();
    assert!(!journal.torn);
    let mut conversations = 0;
    for record in &journal.records {
        let RecordKind::ConversationStarted { .. } = &record.body else { continue };
        conversations += 1;
        let conversation = conversation_at(&journal.records, &record.path, Limits::default()).unwrap();
        assert!(matches!(conversation.next(), Next::Done(_)), "{} is not at its end", record.path);
        let mut digests =
            journal.records.iter().filter(|r| r.path == record.path).filter_map(|r| match &r.body {
                RecordKind::ModelRequested { digest, head, .. } => Some((digest, *head)),
                _ => None,
            });
        let (_, head) = digests.next_back().unwrap();
        assert!(conversation.head() > head, "the last answer follows the last request");
    }
    let last = journal.records.last().unwrap();
    assert!(matches!(last.body, RecordKind::RunEnded { status: RunStatus::Done, .. }));
    assert_eq!(last.path, CallPath::root());
    conversations
}

#[test]
fn greeter_greets() {
    let home = tempfile::tempdir().unwrap();
    let input = Input { message: Some("Ada".into()), ..Input::default() };
    let report = run(home.path(), &examples().join("greeter.worker"), "greeter.yaml", &input);
    assert_eq!(value(&report), "Hello Ada, how good to see you!");
    assert_eq!(journal_is_complete(&report), 1);
}

#[test]
fn digest_writes_its_report_with_three_children_at_once() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("digest");
    copy(&examples().join("digest"), &project);
    let report = run(home.path(), &project, "digest.yaml", &Input::default());
    assert_eq!(value(&report), "The report covers 3 texts.");
    let text = fs::read_to_string(project.join("output/report.md")).unwrap();
    assert!(text.starts_with("# Digest\n"), "{text}");
    assert_eq!(report.counts.refused, 0);
    assert_eq!(journal_is_complete(&report), 4);
}

#[test]
fn extractor_repairs_its_answer_until_it_fits() {
    let home = tempfile::tempdir().unwrap();
    let project = home.path().join("extractor");
    copy(&examples().join("extractor"), &project);
    let text = fs::read_to_string(project.join("input/invoice.txt")).unwrap();
    let input = Input { message: Some(text), ..Input::default() };
    let report = run(home.path(), &project, "extractor.yaml", &input);
    assert_eq!(value(&report)["total"], json!(614.5));
    assert_eq!(report.counts.requests, 2);
    assert_eq!(journal_is_complete(&report), 1);
}
