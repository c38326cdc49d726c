//! A journal that is continued: recorded steps are not executed again, and steps that differ from the record are
//! refused.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    call_path::CallPath,
    driver::{CutOff, Driver, Known, Step, StepEnd},
    engine::Halt,
    function::Risk,
    journal::{Ending, RecordKind},
    operator::{Deferring, Operator, Recall, Unattended},
    question::{Answer, Approval, FILES, Given, Question, QuestionId, Reply, Settlement, Waiting},
    rule::DecidedBy,
    send::BoxFuture,
    step_name::StepName,
};
use llm_do_records::History;
use llm_do_runs::{
    JOURNAL_FILE, JournalWriter, LocalDriver, Machine, ReopenError, Said, SealKey, read_journal,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs::OpenOptions, io::Write, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

struct Approves;

impl Operator for Approves {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        let answer = match waiting.question {
            Question::Approval(_) => Answer::Approve { remember: false },
            _ => return Box::pin(async { Reply::Later }),
        };
        Box::pin(async { Reply::Given(Given::operator(answer, "test")) })
    }
}

/// Returns the key that seals this user's journals.
fn key() -> SealKey {
    SealKey::from([7; 32])
}

struct Run {
    home: TempDir,
    dir: PathBuf,
}

/// Makes a run whose first process did this.
async fn run(first: impl AsyncFnOnce(&LocalDriver)) -> Run {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), Some(&key())).unwrap();
    let dir = journal.dir().to_owned();
    let driver = LocalDriver::new(journal, Machine::ambient(), Arc::new(Deferring(Unattended)));
    first(&driver).await;
    Run { home, dir }
}

impl Run {
    fn resume(&self, decisions: &[(&CallPath, Answer)]) -> LocalDriver {
        let (journal, records) = JournalWriter::reopen(&self.dir, Arc::default(), &key()).unwrap();
        let decided = |(path, answer): &(&CallPath, Answer)| {
            (QuestionId::new(path, &StepName::Settle), Given::operator(answer.clone(), "command line"))
        };
        let decisions: BTreeMap<QuestionId, Given> = decisions.iter().map(decided).collect();
        let history = History::of(records);
        let driver =
            LocalDriver::resume(journal, Machine::ambient(), Arc::new(Approves), history, "test").unwrap();
        driver.decide(decisions).unwrap()
    }
    fn kinds(&self) -> Vec<String> {
        let journal = read_journal(&self.dir).unwrap();
        let kind = |record| serde_json::to_value(record).unwrap()["kind"].as_str().unwrap().to_owned();
        journal.records.iter().map(kind).collect()
    }
    /// Adds an incomplete line, as a write that was cut off leaves it.
    fn tear(&self) {
        let mut file = OpenOptions::new().append(true).open(self.dir.join(JOURNAL_FILE)).unwrap();
        file.write_all(b"{\"seq\":99,\"at_").unwrap();
    }
}

fn started(function: &str, risk: Risk) -> RecordKind {
    RecordKind::ToolStarted { function: function.into(), risk, idempotency_key: "k".into() }
}

fn ended(value: Value) -> RecordKind {
    RecordKind::ToolEnded {
        ending: Ending::Output(Arc::new(value)),
        blobs: Vec::new(),
        log: None,
        origins: Default::default(),
        mixed: false,
    }
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
        cut_off: CutOff::Again,
        run: Box::pin(run),
    }
}

async fn never() -> RecordKind {
    panic!("it was done before")
}

fn ask() -> Question {
    Question::Approval(Approval {
        chain: vec!["main".into()],
        function: "write".into(),
        risk: Risk::Write,
        input: Arc::new(json!({})),
        preview: None,
        rule: DecidedBy::Default(Risk::Write),
        calls: None,
        steering: None,
        rules: Vec::new(),
        expires_ms: None,
        arguments: Default::default(),
    })
}

fn cut_off() -> Question {
    Question::Settlement(Settlement {
        chain: vec!["main".into()],
        function: "write".into(),
        risk: Risk::Write,
        input: Arc::new(json!({})),
    })
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
    // New steps are taken, and recorded at the end.
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
        origins: Default::default(),
    };
    let run = run(async |driver| {
        driver.record(&root, "call".into(), started()).unwrap();
        driver.record(&call(0), "call".into(), started()).unwrap();
    })
    .await;
    let driver = run.resume(&[]);
    driver.record(&root, "call".into(), started()).unwrap();
    let ending = Ending::Output(Arc::new(json!(1)));
    let end = RecordKind::CallEnded {
        ending,
        usage: Default::default(),
        blobs: Vec::new(),
        origins: Default::default(),
        said: Box::default(),
    };
    let halt = driver.record(&root, "end".into(), end.clone()).unwrap_err();
    assert!(halt.to_string().contains("0/0.0"), "{halt}");
    driver.record(&call(0), "call".into(), started()).unwrap();
    driver.record(&root, "end".into(), end).unwrap();
}

#[tokio::test]
async fn an_attempt_that_was_cut_off_is_known_by_its_intent_until_its_end() {
    let place = call(0);
    let run = run(async |driver| {
        // The intent is there, and no end: as after a kill.
        driver.record(&place, StepName::Tool(0), started("write", Risk::Write)).unwrap();
    })
    .await;
    let driver = run.resume(&[]);
    assert_eq!(driver.begun(&place, &StepName::Tool(0)), Some(started("write", Risk::Write)));
    driver.step(step(&place, started("write", Risk::Write), async { ended(json!(1)) })).await.unwrap();
    assert_eq!(run.kinds()[1..], ["run_resumed", "tool_started", "tool_ended"]);
    drop(driver);
    assert_eq!(run.resume(&[]).begun(&place, &StepName::Tool(0)), None);
}

#[tokio::test]
async fn an_attempt_that_counts_as_done_is_recorded_with_its_result_and_not_made() {
    let place = call(0);
    let run = run(async |driver| {
        driver.record(&place, StepName::Tool(0), started("write", Risk::Write)).unwrap();
    })
    .await;
    let driver = run.resume(&[]);
    let cut_off = CutOff::Done(ended(json!("written")));
    let done = Step { cut_off, ..step(&place, started("write", Risk::Write), never()) };
    let stepped = driver.step(done).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == ended(json!("written"))));
    assert_eq!(run.kinds()[1..], ["run_resumed", "tool_ended"]);
}

#[tokio::test]
async fn a_decision_of_the_operator_counts_before_what_the_files_say_and_who_gave_it_is_recorded() {
    let place = call(0);
    let cut = async || {
        run(async |driver| driver.record(&place, StepName::Tool(0), started("write", Risk::Write)).unwrap())
            .await
    };
    let settled = async |driver: &LocalDriver, found: Option<Answer>| {
        let found = found.map(|answer| Known::Answer(Given::operator(answer, FILES)));
        driver.exchange(&place, StepName::Settle, cut_off(), found.unwrap_or_default()).await.unwrap().reply
    };

    let run = cut().await;
    let driver = run.resume(&[(&place, Answer::Again)]);
    let done = Answer::Done { result: Arc::new(json!("written")) };
    let reply = settled(&driver, Some(done.clone())).await;
    assert_eq!(reply, Reply::Given(Given::operator(Answer::Again, "command line")));
    assert_eq!(run.kinds()[2..], ["answered"]);

    let run = cut().await;
    let reply = settled(&run.resume(&[]), Some(done.clone())).await;
    assert_eq!(reply, Reply::Given(Given::operator(done, FILES)));
    assert_eq!(run.kinds()[2..], ["answered"]);

    // Neither tells: the question waits, in the same way as any other.
    let run = cut().await;
    assert_eq!(settled(&run.resume(&[]), None).await, Reply::Later);
    assert_eq!(run.kinds()[2..], ["asked"]);
    let records = read_journal(&run.dir).unwrap().records;
    let waiting: Vec<String> =
        History::of(records).waiting().iter().map(|waiting| waiting.id.to_string()).collect();
    assert_eq!(waiting, ["0/0.0:settle"]);
}

#[tokio::test]
async fn what_was_decided_of_one_attempt_does_not_count_for_the_next() {
    let place = call(0);
    let run = run(async |driver| {
        driver.record(&place, StepName::Tool(0), started("write", Risk::Write)).unwrap();
    })
    .await;
    let driver = run.resume(&[(&place, Answer::Again)]);
    driver.exchange(&place, StepName::Settle, cut_off(), Known::Nothing).await.unwrap();
    let cut = driver.step(step(&place, started("write", Risk::Write), std::future::pending()));
    assert!(futures_util::FutureExt::now_or_never(cut).is_none(), "it is cut off again");
    drop(driver);
    let reply =
        run.resume(&[]).exchange(&place, StepName::Settle, cut_off(), Known::Nothing).await.unwrap().reply;
    assert_eq!(reply, Reply::Later);
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_until_somebody_answers_and_the_wait_counts_for_no_deadline() {
    let place = call(0);
    let run = run(async |driver| {
        let exchanged = driver.exchange(&place, StepName::Ask(0), ask(), Known::Nothing).await.unwrap();
        assert_eq!(exchanged.reply, Reply::Later);
    })
    .await;
    assert_eq!(run.kinds(), ["asked"]);
    // The clock of the journal follows the tests' clock only within one process; between two processes the wall clock counts.
    let driver = run.resume(&[]);
    let before = driver.now_ms();
    let answered = driver.exchange(&place, StepName::Ask(0), ask(), Known::Nothing).await.unwrap();
    let Reply::Given(given) = &answered.reply else { panic!("{:?}", answered.reply) };
    assert_eq!((&given.answer, &*given.via), (&Answer::Approve { remember: false }, "test"));
    assert_eq!(run.kinds(), ["asked", "run_resumed", "answered"]);
    assert!(driver.now_ms() - before < 1000);
    drop(driver);
    let driver = run.resume(&[]);
    let again = driver.exchange(&place, StepName::Ask(0), ask(), Known::Nothing).await.unwrap();
    assert_eq!(again, answered);
}

#[tokio::test]
async fn one_run_is_gone_on_with_by_one_process() {
    let run = run(async |driver| {
        driver.record(&call(0), "note".into(), RecordKind::Note { text: "a".into() }).unwrap();
    })
    .await;
    let _driver = run.resume(&[]);
    let second = JournalWriter::reopen(&run.dir, Arc::default(), &key());
    assert!(
        matches!(second, Err(ReopenError::Running { holder: Some(holder) }) if holder == std::process::id())
    );
}

/// A run can be suspended again before it comes to a question that was answered.
#[tokio::test]
async fn a_decision_is_recorded_before_the_run_comes_to_its_question() {
    let path = CallPath::root();
    let run = run(async |driver| {
        driver.record(&CallPath::root(), "note".into(), RecordKind::Note { text: "begun".into() }).unwrap();
    })
    .await;
    drop(run.resume(&[(&path, Answer::Again)]));
    let (_, records) = JournalWriter::reopen(&run.dir, Arc::default(), &key()).unwrap();
    let id = QuestionId::new(&path, &StepName::Settle);
    let history = History::of(records);
    assert_eq!(history.answer_to(&id).map(|given| &given.answer), Some(&Answer::Again));
}

fn said(text: &str) -> Said {
    Said { text: text.to_owned(), by: "ann".into(), via: "http".into() }
}

/// A message that was accepted is delivered once, by this process or by a later one.
#[tokio::test]
async fn words_that_wait_are_recorded_until_they_are_delivered() {
    let path = CallPath::root();
    let give = |text: &str, step| {
        let given = Given::new(Answer::Give { value: Arc::new(json!(text)) }, "ann".into(), "http");
        (step, RecordKind::Answered(given))
    };
    let run = run(async |driver| {
        driver.queue(said("one"), false).unwrap();
        driver.queue(said("now"), true).unwrap();
        driver.queue(said("and now"), true).unwrap();
        driver.queue(said("two"), false).unwrap();
        driver.queue(said("one"), false).unwrap();
        let (step, body) = give("now\n\nand now", StepName::Now(3));
        driver.record(&CallPath::root(), step, body).unwrap();
        let (step, body) = give("one", StepName::Message(1));
        driver.record(&CallPath::root(), step, body).unwrap();
    })
    .await;
    let waiting = |run: &Run| {
        let journal = read_journal(&run.dir).unwrap();
        let history = History::of(journal.records);
        history.queued(&CallPath::root()).iter().map(|said| said.text.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(waiting(&run), ["two", "one"]);
    let driver = run.resume(&[]);
    driver.queue(said("three"), true).unwrap();
    let (step, body) = give("three", StepName::Message(2));
    driver.record(&path, step, body).unwrap();
    drop(driver);
    assert_eq!(waiting(&run), ["two", "one"], "what was for an answer under way comes first");
}
