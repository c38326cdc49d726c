//! A process opens a program once and runs its workers with different options.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

use llm_do::{
    Grantor, Input, MissingGrant, PastRun, Problem, Report, RunOptions, Session, Settings,
    core::{
        engine::End,
        gate::{Mode, Pattern, Rule, RuleLine},
        journal::{RecordKind, RunStatus},
        ledger::Budget,
    },
    program::target::Request,
    runs::read_journal,
};
use std::{fs, path::Path, sync::Arc};

const SCRIPT: &str = "
answers:
  - when: {worker: main, turn: 0}
    calls:
      - tool: write_file
        arguments: {path: note.txt, content: written}
  - when: {worker: main}
    text: main is done
  - when: {worker: reviewer}
    text: reviewed
";

/// A project with two workers, opened without an operator.
fn settings(home: &Path) -> Settings {
    let project = home.join("project");
    fs::create_dir_all(project.join("workers")).unwrap();
    fs::write(project.join("project.yaml"), "name: two\n").unwrap();
    fs::write(project.join("main.worker"), "---\ntoolsets: {filesystem: {}}\n---\nWrite.\n").unwrap();
    fs::write(project.join("workers/reviewer.worker"), "---\n---\nReview.\n").unwrap();
    fs::write(home.join("script.yaml"), SCRIPT).unwrap();
    let mut settings = Settings::for_target("");
    settings.request = Request { positionals: vec![project.display().to_string()], ..Request::default() };
    settings.around.here = home.to_owned();
    settings.home = home.join("home");
    settings.run.model = Some(format!("script:{}", home.join("script.yaml").display()).parse().unwrap());
    settings
}

fn run(session: &Session) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let input = Input { message: Some("go".into()), ..Input::default() };
    let run = session.start(&input, None, None).unwrap();
    runtime.block_on(run.finish())
}

fn output(report: &Report) -> &str {
    match &report.end {
        End::Done(value) => value.as_str().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_serves_any_worker_of_the_program() {
    let home = tempfile::tempdir().unwrap();
    let session = Session::open(settings(home.path())).unwrap();
    let reviewer = session.worker("reviewer").unwrap();
    assert_eq!(output(&run(&session)), "main is done");
    let report = run(&reviewer);
    assert_eq!(output(&report), "reviewed");
    assert!(matches!(session.worker("nobody"), Err(Problem::Program(_))));

    // The journal names the entry, so that the run can be resumed and replayed.
    let records = read_journal(&report.dir).unwrap().records;
    let RecordKind::RunStarted { entry, definitions, .. } = &records[0].body else { panic!("{records:?}") };
    assert_eq!(&**entry, "reviewer");
    let definitions: Vec<&str> = definitions.iter().map(|definition| &*definition.worker).collect();
    assert_eq!(definitions, ["reviewer", "@project.yaml"]);
    let past = PastRun::open(&report.dir, &home.path().join("home")).unwrap();
    let again = Session::open(past.settings(settings(home.path())).unwrap()).unwrap();
    assert_eq!(&*again.entry().id, "reviewer");
}

#[test]
fn a_lone_file_has_no_other_workers() {
    let home = tempfile::tempdir().unwrap();
    let mut settings = settings(home.path());
    let file = home.path().join("alone.worker");
    fs::write(&file, "---\n---\nSay something.\n").unwrap();
    settings.request.positionals = vec![file.display().to_string()];
    let session = Session::open(settings).unwrap();
    let id = session.entry().id.to_string();
    assert_eq!(session.worker(&id).unwrap().entry().id, session.entry().id);
    assert!(matches!(session.worker("reviewer"), Err(Problem::NoProject { .. })));
}

#[test]
fn mode_rules_and_budget_belong_to_a_run() {
    let home = tempfile::tempdir().unwrap();
    let session = Session::open(settings(home.path())).unwrap();
    assert!(session.denies_unattended());
    let note = home.path().join("project/note.txt");
    let options = session.options().clone();

    run(&session);
    assert!(!note.exists());

    let blocked = RuleLine::new(Pattern::parse("write_file").unwrap(), Rule::Blocked, "the test");
    let all = RunOptions { mode: Some(Mode::ApproveAll), ..options.clone() };
    let blocking = RunOptions { rules: vec![blocked], ..all.clone() };
    run(&session.with_options(blocking).unwrap());
    assert!(!note.exists());

    let deferred = RunOptions { mode: Some(Mode::Defer), ..options.clone() };
    assert_eq!(run(&session.with_options(deferred).unwrap()).status, RunStatus::Suspended);

    let budget = Budget { max_turns: Some(1), ..Budget::default() };
    let limited = RunOptions { budget, ..all.clone() };
    let report = run(&session.with_options(limited).unwrap());
    assert_eq!(report.status, RunStatus::Limit);

    fs::remove_file(&note).ok();
    let report = run(&session.with_options(all).unwrap());
    assert_eq!(output(&report), "main is done");
    assert_eq!(fs::read_to_string(&note).unwrap(), "written");

    // The options of the session itself are as they were.
    fs::remove_file(&note).unwrap();
    run(&session);
    assert!(!note.exists());
}

/// A grantor that grants nothing.
struct Refuses;

impl Grantor for Refuses {
    fn grant(&self, _: &Path, _: &[MissingGrant]) -> Result<bool, llm_do::BadGrantsFile> {
        Ok(false)
    }
}

#[test]
fn a_grant_holds_for_the_runs_that_have_it() {
    let home = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let place = outside.path().canonicalize().unwrap();
    let mut settings = settings(home.path());
    let manifest = format!("name: two\nsandbox:\n  paths:\n    outside: {}\n", place.display());
    fs::write(home.path().join("project/project.yaml"), manifest).unwrap();
    settings.grantor = Arc::new(Refuses);
    let grant = llm_do::parse_grant(&format!("{}:ro", place.display())).unwrap();
    settings.run.grants = vec![grant.clone()];
    let session = Session::open(settings).unwrap();
    let without = RunOptions { grants: Vec::new(), ..session.options().clone() };
    match session.with_options(without) {
        Err(Problem::Grants(missing)) => {
            assert_eq!(missing.into_iter().map(|missing| missing.grant).collect::<Vec<_>>(), [grant]);
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the grant of another run counted"),
    }
    // A session for another worker keeps the options, and so the grant.
    session.worker("reviewer").unwrap();
}
