//! A journal that is gone on with: what stands in it is not done again, and nothing else may happen than it tells.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    driver::{CutOff, Driver, Step, StepEnd},
    engine::Halt,
    function::{Foreseen, Risk},
    journal::{Ending, RecordKind},
    operator::{Answer, Ask, Later, Operator},
    send::BoxFuture,
};
use llm_do_runs::{
    History, JOURNAL_FILE, JournalWriter, LocalDriver, ReopenError, SealKey, Settle, read_journal,
};
use serde_json::{Value, json};
use std::{collections::HashMap, fs::OpenOptions, io::Write, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

struct Approves;

impl Operator for Approves {
    fn answer<'a>(&'a self, _: &'a Ask) -> BoxFuture<'a, Answer> {
        Box::pin(async { Answer::Approve { remember: false } })
    }
}

/// What this user's journals are sealed with.
fn key() -> SealKey {
    SealKey::from([7; 32])
}

struct Run {
    home: TempDir,
    dir: PathBuf,
}

/// A run whose first process did this.
async fn run(first: impl AsyncFnOnce(&LocalDriver)) -> Run {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), Some(&key())).unwrap();
    let dir = journal.dir().to_owned();
    let driver = LocalDriver::new(journal, Arc::new(Later));
    first(&driver).await;
    Run { home, dir }
}

impl Run {
    fn resume(&self, settle: &[(&CallPath, Settle)]) -> LocalDriver {
        let (journal, records) = JournalWriter::reopen(&self.dir, Arc::default(), &key()).unwrap();
        let settle: HashMap<CallPath, Settle> =
            settle.iter().map(|(path, settle)| ((*path).clone(), settle.clone())).collect();
        LocalDriver::resume(journal, Arc::new(Approves), History::of(records, settle), "test").unwrap()
    }
    fn kinds(&self) -> Vec<String> {
        let journal = read_journal(&self.dir).unwrap();
        let kind = |record| serde_json::to_value(record).unwrap()["kind"].as_str().unwrap().to_owned();
        journal.records.iter().map(kind).collect()
    }
    /// Adds half a line, as a write that was cut off leaves it.
    fn tear(&self) {
        let mut file = OpenOptions::new().append(true).open(self.dir.join(JOURNAL_FILE)).unwrap();
        file.write_all(b"{\"seq\":99,\"at_").unwrap();
    }
}

fn started(function: &str, risk: Risk) -> RecordKind {
    RecordKind::ToolStarted { function: function.into(), risk, idempotency_key: "k".into(), foreseen: None }
}

fn ended(value: Value) -> RecordKind {
    RecordKind::ToolEnded { ending: Ending::Output(Arc::new(value)), blobs: Vec::new(), log: None }
}

fn step<'a>(
    path: &'a CallPath,
    intent: RecordKind,
    run: impl Future<Output = RecordKind> + Send + 'a,
) -> Step<'a> {
    Step {
        path,
        name: "tool".into(),
        intent: Some(intent),
        deadline: None,
        cut_off: CutOff::Unknown,
        run: Box::pin(run),
    }
}

async fn never() -> RecordKind {
    panic!("it was done before")
}

fn ask(path: &CallPath) -> Ask {
    Ask {
        call: path.clone(),
        chain: vec!["main".into()],
        function: "write".into(),
        risk: Risk::Write,
        input: Arc::new(json!({})),
        preview: None,
        rule: "test".into(),
    }
}

fn call(index: usize) -> CallPath {
    CallPath::root().call(0, index)
}

#[tokio::test]
async fn what_was_done_is_not_done_again() {
    let place = call(0);
    let run = run(async |driver| {
        driver
            .step(step(&place, started("write", Risk::Write), async { ended(json!("first")) }))
            .await
            .unwrap();
        driver.sleep(&place, "wait".into(), Duration::from_millis(1)).await.unwrap();
        driver.random(&place, "jitter".into()).unwrap();
        driver.record(&place, "note".into(), RecordKind::Note { text: "said".into() }).unwrap();
    })
    .await;
    run.tear();
    let before = run.kinds();
    let driver = run.resume(&[]);
    let stepped = driver.step(step(&place, started("write", Risk::Write), never())).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == ended(json!("first"))));
    driver.sleep(&place, "wait".into(), Duration::from_millis(1)).await.unwrap();
    let drawn = driver.random(&place, "jitter".into()).unwrap();
    driver.record(&place, "note".into(), RecordKind::Note { text: "said".into() }).unwrap();
    assert_eq!(run.kinds(), [&before[..], &["run_resumed".to_owned()]].concat());
    let recorded = read_journal(&run.dir).unwrap().records;
    assert!(recorded.iter().any(|record| record.body == RecordKind::Random { value: drawn }));
    // What is new is done, and recorded behind.
    driver.step(step(&call(1), started("look", Risk::Read), async { ended(json!(2)) })).await.unwrap();
    assert_eq!(run.kinds()[before.len() + 1..], ["tool_started", "tool_ended"]);
    assert!(run.home.path().exists());
}

#[tokio::test]
async fn a_program_that_goes_another_way_is_stopped() {
    let place = call(0);
    let run = run(async |driver| {
        driver.step(step(&place, started("write", Risk::Write), async { ended(json!(1)) })).await.unwrap();
        let limit = RecordKind::Limit { what: "ten".into() };
        driver.record(&place, "limit".into(), limit).unwrap();
    })
    .await;
    let driver = run.resume(&[]);
    let other = driver.step(step(&place, started("send", Risk::Write), never())).await;
    assert!(matches!(other, Err(Halt::Diverged { .. })), "{other:?}");
    let halt =
        driver.record(&place, "limit".into(), RecordKind::Limit { what: "eleven".into() }).unwrap_err();
    assert!(halt.to_string().contains("ten") && halt.to_string().contains("eleven"), "{halt}");
}

#[tokio::test]
async fn a_call_that_is_not_made_any_more_is_noticed_when_its_caller_ends() {
    let root = CallPath::root();
    let started = || RecordKind::CallStarted {
        function: "f".into(),
        source: llm_do_core::function::FunctionSource::Program,
        principal: llm_do_core::engine::Principal::Operator,
        input: Arc::new(json!({})),
    };
    let run = run(async |driver| {
        driver.record(&root, "call".into(), started()).unwrap();
        driver.record(&call(0), "call".into(), started()).unwrap();
    })
    .await;
    let driver = run.resume(&[]);
    driver.record(&root, "call".into(), started()).unwrap();
    let ending = Ending::Output(Arc::new(json!(1)));
    let end = RecordKind::CallEnded { ending, usage: Default::default(), blobs: Vec::new() };
    let halt = driver.record(&root, "end".into(), end.clone()).unwrap_err();
    assert!(halt.to_string().contains("0/0.0"), "{halt}");
    driver.record(&call(0), "call".into(), started()).unwrap();
    driver.record(&root, "end".into(), end).unwrap();
}

#[tokio::test]
async fn what_was_cut_off_is_settled_by_its_risk_or_by_the_operator() {
    let (look, write) = (call(0), call(1));
    let cut = async || {
        run(async |driver| {
            // The intents stand there, and no ends: as after a kill.
            driver.record(&look, "tool".into(), started("look", Risk::Read)).unwrap();
            driver.record(&write, "tool".into(), started("write", Risk::Write)).unwrap();
        })
        .await
    };
    let run = cut().await;
    let driver = run.resume(&[]);
    driver.step(step(&look, started("look", Risk::Read), async { ended(json!(1)) })).await.unwrap();
    let halt = driver.step(step(&write, started("write", Risk::Write), never())).await.unwrap_err();
    assert!(matches!(&halt, Halt::Unsettled { path, .. } if *path == write), "{halt}");

    let run = cut().await;
    let driver = run.resume(&[(&write, Settle::Again)]);
    driver.step(step(&write, started("write", Risk::Write), async { ended(json!(2)) })).await.unwrap();
    assert_eq!(run.kinds()[3..], ["settled", "tool_started", "tool_ended"]);

    let run = cut().await;
    let driver = run.resume(&[(&write, Settle::Given(Arc::new(json!("given"))))]);
    let stepped = driver.step(step(&write, started("write", Risk::Write), never())).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == ended(json!("given"))));
    assert_eq!(run.kinds()[3..], ["settled", "tool_ended"]);
}

#[tokio::test]
async fn what_was_cut_off_and_left_traces_is_settled_by_them() {
    let place = call(0);
    let foreseen = Foreseen { changes: Vec::new(), result: "written".into() };
    let begun = || RecordKind::ToolStarted {
        function: "write".into(),
        risk: Risk::Write,
        idempotency_key: "k".into(),
        foreseen: Some(foreseen.clone()),
    };
    let cut = async || run(async |driver| driver.record(&place, "tool".into(), begun()).unwrap()).await;
    let found = |cut_off, run| Step { cut_off, ..step(&place, started("write", Risk::Write), run) };

    let run = cut().await;
    let driver = run.resume(&[]);
    assert_eq!(driver.begun(&place, "tool"), Some(begun()));
    let done = found(CutOff::Done(ended(json!("written"))), Box::pin(never()) as BoxFuture<'_, RecordKind>);
    assert!(
        matches!(driver.step(done).await.unwrap().end, StepEnd::Done(body) if body == ended(json!("written")))
    );
    assert_eq!(run.kinds()[2..], ["settled", "tool_ended"]);

    let run = cut().await;
    let undone =
        found(CutOff::Undone, Box::pin(async { ended(json!("again")) }) as BoxFuture<'_, RecordKind>);
    run.resume(&[]).step(undone).await.unwrap();
    assert_eq!(run.kinds()[2..], ["settled", "tool_started", "tool_ended"]);

    // What the traces don't tell is the operator's to say, and the operator's word counts before them.
    let run = cut().await;
    let unknown = found(CutOff::Unknown, Box::pin(never()) as BoxFuture<'_, RecordKind>);
    assert!(matches!(run.resume(&[]).step(unknown).await, Err(Halt::Unsettled { .. })));
    let given = found(CutOff::Undone, Box::pin(never()) as BoxFuture<'_, RecordKind>);
    let driver = run.resume(&[(&place, Settle::Given(Arc::new(json!("said"))))]);
    assert!(
        matches!(driver.step(given).await.unwrap().end, StepEnd::Done(body) if body == ended(json!("said")))
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_until_somebody_answers_and_the_wait_counts_for_no_deadline() {
    let place = call(0);
    let run = run(async |driver| {
        let answered = driver.ask(&place, "ask".into(), ask(&place), &()).await.unwrap();
        assert_eq!(answered.answer, Answer::Later);
    })
    .await;
    assert_eq!(run.kinds(), ["asked"]);
    // The clock of the journal goes on with the tests' clock only within one process; between two the wall's counts.
    let driver = run.resume(&[]);
    let before = driver.now_ms();
    let answered = driver.ask(&place, "ask".into(), ask(&place), &()).await.unwrap();
    assert_eq!(answered.answer, Answer::Approve { remember: false });
    assert_eq!(run.kinds(), ["asked", "run_resumed", "answered"]);
    assert!(driver.now_ms() - before < 1000);
    drop(driver);
    let driver = run.resume(&[]);
    let again = driver.ask(&place, "ask".into(), ask(&place), &()).await.unwrap();
    assert_eq!((again.answer, again.waited), (answered.answer, answered.waited));
}

#[tokio::test]
async fn one_run_is_gone_on_with_by_one_process() {
    let run = run(async |driver| {
        driver.record(&call(0), "note".into(), RecordKind::Note { text: "a".into() }).unwrap();
    })
    .await;
    let _driver = run.resume(&[]);
    let second = JournalWriter::reopen(&run.dir, Arc::default(), &key());
    assert!(matches!(second, Err(ReopenError::Running)));
}
