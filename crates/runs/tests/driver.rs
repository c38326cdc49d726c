//! Guarantees of a driver: intents first, deadlines and cancellation as records, asks one at a time.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    authority::{Access, Authority, Bounds, Extent, Mount, Network, Place, Protection, View, VirtualPath},
    call_path::CallPath,
    call_spec::{CallSpec, Callee, FrameSpec},
    driver::{Attempt, Caller, CutOff, Driver, Known, Step, StepEnd},
    engine::{End, Halt, Outcome},
    event::Event,
    function::{Implementation, LeafCall, Risk},
    journal::{Ending, FORMAT, Record, RecordKind},
    launch::RunStart,
    ledger::Reserved,
    model::Delta,
    operator::{OneAtATime, Operator, Recall},
    question::{
        Answer, Approval, EXPIRED, Given, Input, MEMORY, OPERATOR, Question, QuestionId, Reply, Requester,
        STOPPED, Turn, Waiting,
    },
    rule::DecidedBy,
    send::BoxFuture,
    shared::Results,
    step_name::StepName,
    toolsets::filesystem::Filesystem,
    vfs::MemoryFileSystem,
};
use llm_do_records::Redactor;
use llm_do_runs::{EventSink, JournalWriter, LocalDriver, Machine, Stopper, read_journal};
use serde_json::json;
use std::{
    future::pending,
    path::PathBuf,
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};
use tempfile::TempDir;

/// Approves after a second, and notes the calls that ask.
#[derive(Default)]
struct Slow(Mutex<Vec<CallPath>>);

impl Operator for Slow {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            self.0.lock().unwrap().push(waiting.id.call.clone());
            tokio::time::sleep(Duration::from_secs(1)).await;
            Reply::Given(Given::operator(Answer::Approve { remember: true }, "test"))
        })
    }
}

#[derive(Default)]
struct Events(Mutex<Vec<Event>>);

impl EventSink for Events {
    fn event(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

struct Run {
    driver: LocalDriver,
    operator: Arc<Slow>,
    events: Arc<Events>,
    dir: PathBuf,
    _home: TempDir,
}

fn run_with(redactor: Redactor) -> Run {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::new(redactor), None).unwrap();
    let (operator, events) = (Arc::new(Slow::default()), Arc::new(Events::default()));
    let dir = journal.dir().to_owned();
    let driver = LocalDriver::new(journal, Machine::ambient(), Arc::new(OneAtATime::new(operator.clone())))
        .with_events(events.clone());
    Run { driver, operator, events, dir, _home: home }
}

fn run() -> Run {
    run_with(Redactor::default())
}

impl Run {
    fn records(&self) -> Vec<Record> {
        read_journal(&self.dir).unwrap().records
    }
    fn kinds(&self) -> Vec<String> {
        let kind =
            |record: &Record| serde_json::to_value(record).unwrap()["kind"].as_str().unwrap().to_owned();
        self.records().iter().map(kind).collect()
    }
}

fn started() -> RecordKind {
    RecordKind::ToolStarted { function: "read_file".into(), risk: Risk::Read, idempotency_key: "k".into() }
}

fn ended() -> RecordKind {
    RecordKind::ToolEnded {
        ending: Ending::Output(Arc::new(json!("text"))),
        blobs: Vec::new(),
        log: None,
        origins: Default::default(),
        mixed: false,
    }
}

fn step<'a>(path: &'a CallPath, run: impl Future<Output = RecordKind> + Send + 'a) -> Step<'a> {
    Step {
        path,
        name: "tool".into(),
        intent: Some(started()),
        deadline: None,
        cut_off: CutOff::Again,
        run: Box::pin(run),
    }
}

fn ask() -> Question {
    Question::Approval(Approval {
        chain: vec!["main".into()],
        function: "write_file".into(),
        risk: Risk::Write,
        input: Arc::new(json!({ "path": "a" })),
        preview: None,
        rule: DecidedBy::Default(Risk::Write),
        calls: None,
        steering: None,
        rules: Vec::new(),
        expires_ms: None,
        arguments: Default::default(),
    })
}

#[tokio::test(start_paused = true)]
async fn an_intent_is_on_disk_before_the_step_runs() {
    let run = run();
    let path = CallPath::root();
    let body = async {
        assert_eq!(run.kinds(), ["tool_started"]);
        tokio::time::sleep(Duration::from_millis(250)).await;
        ended()
    };
    let stepped = run.driver.step(step(&path, body)).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == ended()));
    let records = run.records();
    assert_eq!(run.kinds(), ["tool_started", "tool_ended"]);
    assert!(records.iter().all(|record| record.path == path && record.step == StepName::Tool(0)));
    // The engine learns the time from the records.
    assert_eq!(stepped.took, Duration::from_millis(records[1].at_ms - records[0].at_ms));
    assert_eq!((stepped.took, stepped.at_ms), (Duration::from_millis(250), records[1].at_ms));
    assert_eq!(run.driver.now_ms(), stepped.at_ms);
}

#[tokio::test]
async fn gathered_records_are_on_disk_before_a_step_runs_and_before_the_run_waits() {
    let runs = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(runs.path(), Arc::new(Redactor::default()), None).unwrap();
    let driver = LocalDriver::new(journal, Machine::ambient(), Arc::new(Slow::default()));
    let on_disk = || read_journal(driver.log().dir()).unwrap().records.len();
    let path = CallPath::root();
    let note = |text: &str| {
        driver.record(&path, "note".into(), RecordKind::Note { text: text.into() }).unwrap();
        on_disk()
    };
    let run = async {
        assert_eq!([note("one"), note("two")], [0, 0]);
        let body = async {
            assert_eq!(on_disk(), 3);
            ended()
        };
        driver.step(step(&path, body)).await?;
        assert_eq!(note("three"), 3);
        tokio::task::yield_now().await;
        assert_eq!(on_disk(), 5);
        assert_eq!(note("four"), 5);
        Ok(())
    };
    driver.gathering(run).await.unwrap();
    assert_eq!(on_disk(), 6);
    assert_eq!(note("five"), 7, "outside of it each record is written at once");
}

#[tokio::test]
async fn what_changes_nothing_outside_is_on_disk_with_the_next_request_or_before_the_run_waits() {
    let runs = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(runs.path(), Arc::new(Redactor::default()), None).unwrap();
    let driver = LocalDriver::new(journal, Machine::ambient(), Arc::new(Slow::default()));
    let on_disk = || read_journal(driver.log().dir()).unwrap().records.len();
    let path = CallPath::root();
    let harmless = |name: StepName, waits: bool| {
        let run = async move {
            assert_eq!(on_disk(), 0);
            if waits {
                tokio::task::yield_now().await;
                assert_eq!(on_disk(), 2);
            }
            RecordKind::Reserved(Reserved::default())
        };
        driver.step(Step { name, intent: None, ..step(&path, run) })
    };
    let run = async {
        harmless(StepName::Conversation, false).await?;
        harmless(StepName::Reserve(Attempt { turn: 0, attempt: 0 }), false).await?;
        assert_eq!(on_disk(), 0);
        harmless(StepName::Reserve(Attempt { turn: 1, attempt: 0 }), true).await?;
        assert_eq!(on_disk(), 2);
        let request = async {
            assert_eq!(on_disk(), 4);
            ended()
        };
        driver.step(step(&path, request)).await
    };
    driver.gathering(run).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_a_record_and_drops_the_work() {
    struct Dropped<'a>(&'a Mutex<bool>);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            *self.0.lock().unwrap() = true;
        }
    }
    let run = run();
    let dropped = Mutex::new(false);
    let guard = Dropped(&dropped);
    let path = CallPath::root();
    let body = async move {
        let _guard = guard;
        pending().await
    };
    let late = Step { deadline: Some(Duration::from_secs(5)), ..step(&path, body) };
    let stepped = run.driver.step(late).await.unwrap();
    assert!(matches!(stepped.end, StepEnd::TimedOut));
    assert!(*dropped.lock().unwrap());
    assert_eq!(run.records()[1].body, RecordKind::TimedOut { after_ms: 5000 });
}

#[tokio::test(start_paused = true)]
async fn cancelling_ends_a_step_an_ask_and_a_wait_with_a_record() {
    for what in ["step", "ask", "sleep"] {
        let run = run();
        let path = CallPath::root();
        let canceller = run.driver.canceller();
        let cancel = async {
            tokio::time::sleep(Duration::from_millis(10)).await;
            canceller.cancel();
        };
        let work = async {
            match what {
                "step" => run.driver.step(step(&path, pending())).await.map(drop),
                "ask" => run.driver.exchange(&path, StepName::Ask(0), ask(), Known::Nothing).await.map(drop),
                _ => run.driver.sleep(&path, "wait.0.0".into(), Duration::from_secs(9)).await,
            }
        };
        let (halt, ()) = tokio::join!(work, cancel);
        assert_eq!(halt, Err(Halt::Cancelled), "{what}");
        assert!(run.driver.cancelled());
        assert_eq!(run.records().last().unwrap().body, RecordKind::Cancelled, "{what}");
        let before = run.records().len();
        // Nothing new begins, and what ends the run can still be recorded.
        assert!(matches!(run.driver.step(step(&path, async { ended() })).await, Err(Halt::Cancelled)));
        assert!(run.driver.exchange(&path, StepName::Ask(0), ask(), Known::Nothing).await.is_err());
        assert!(run.driver.sleep(&path, "wait".into(), Duration::ZERO).await.is_err());
        assert_eq!(run.records().len(), before);
        run.driver.record(&path, "end".into(), ended()).unwrap();
        assert_eq!(run.records().len(), before + 1);
    }
}

/// An operator that gives no answer.
struct Silent;

impl Operator for Silent {
    fn exchange<'a>(&'a self, _: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(pending())
    }
}

/// Stops an answer that has just ended, with a message.
struct Late(OnceLock<Stopper>);

impl Operator for Late {
    fn exchange<'a>(&'a self, _: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        self.0.get().unwrap().stop();
        let answer = Answer::Give { value: Arc::new(json!("and now?")) };
        Box::pin(async { Reply::Given(Given::operator(answer, "test")) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_questions_of_the_answer_without_deciding_them() {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), None).unwrap();
    let driver = LocalDriver::new(journal, Machine::ambient(), Arc::new(Silent));
    let path = CallPath::root();
    let stopper = driver.stopper();
    let asked = driver.exchange(&path, StepName::Ask(0), ask(), Known::Nothing);
    let (asked, ()) = tokio::join!(asked, async { stopper.stop() });
    assert_eq!(asked.unwrap().reply, Reply::Given(Given::operator(Answer::Stop, STOPPED)));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_comes_after_the_answer_does_not_stop_the_next_one() {
    let home = tempfile::tempdir().unwrap();
    let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), None).unwrap();
    let late = Arc::new(Late(OnceLock::new()));
    let driver = LocalDriver::new(journal, Machine::ambient(), late.clone());
    late.0.set(driver.stopper()).unwrap();
    let turn = Turn { number: 1, cut_off: false, failure: None, context: None };
    let prompt = "Hello.".into();
    let listen = Question::Input(Input {
        chain: Vec::new(),
        prompt,
        schema: None,
        changes: Vec::new(),
        conversation: Some(turn),
        expires_ms: None,
    });
    driver.exchange(&CallPath::root(), StepName::Message(1), listen, Known::Nothing).await.unwrap();
    let stopped = tokio::time::timeout(Duration::from_secs(1), driver.stopped()).await;
    assert!(stopped.is_err(), "the next answer is stopped");
}

#[tokio::test]
async fn a_file_tool_at_work_is_cancelled_in_the_middle() {
    let run = run();
    let root = Place::new("/program");
    let mount = Mount::new(VirtualPath::root(), root.clone(), Access::Read);
    let extent = Extent { place: root.clone(), access: Access::Read };
    let authority = Arc::new(Authority::new(
        Bounds::new(vec![extent], Network::Off),
        View::new(vec![mount]),
        Arc::new(Protection::new(root.clone(), [])),
    ));
    let files = MemoryFileSystem::new();
    files.put(&root.join("long.txt"), "nothing to be found here\n".repeat(100_000).as_bytes());
    let tools = Filesystem::made_for(&authority, None);
    let search = tools.iter().find(|tool| &*tool.meta.name == "search_files").unwrap();
    let Implementation::Leaf(leaf) = &search.body else { panic!("it is a leaf") };
    let input = json!({"pattern": "gold"});
    let places = [authority.locate("/", Access::Read).unwrap()];
    let call = LeafCall {
        redact: &llm_do_core::redact::NoSecrets,
        run: "run",
        input: &input,
        places: &places,
        authority: &authority,
        files: &files,
        results: Results::default(),
        untrusted: &llm_do_core::origin::UntrustedSet::default(),
        idempotency_key: "k",
    };
    let path = CallPath::root();
    let (step, canceller) =
        (step(&path, async { leaf.run(call).await.map(|_| ended()).unwrap() }), run.driver.canceller());
    // Both on one thread: the search must let go of it before its end.
    let (halt, ()) = tokio::join!(run.driver.step(step), async { canceller.cancel() });
    assert!(matches!(halt, Err(Halt::Cancelled)), "{halt:?}");
    assert_eq!(run.kinds(), ["tool_started", "cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn asks_are_answered_one_at_a_time_in_order_of_arrival() {
    let run = run();
    // Fifty, and not in the order of their places.
    let paths: Vec<CallPath> = (0..50).map(|index| CallPath::root().call(0, index * 7 % 50)).collect();
    let asks = paths.iter().map(|path| run.driver.exchange(path, StepName::Ask(0), ask(), Known::Nothing));
    let answers = futures_util::future::join_all(asks).await;
    let waited: Vec<u64> = answers.into_iter().map(|answer| answer.unwrap().waited.as_secs()).collect();
    assert_eq!(waited, (1..=50).collect::<Vec<u64>>());
    assert_eq!(*run.operator.0.lock().unwrap(), paths);
    // All questions are recorded when they arise, not when their turn comes.
    assert!(run.kinds()[..50].iter().all(|kind| kind == "asked"));
}

#[tokio::test(start_paused = true)]
async fn a_question_whose_answer_is_known_when_its_turn_comes_is_not_put() {
    let run = run();
    let [one, two] = [0, 1].map(|index| CallPath::root().call(0, index));
    let known = Known::Remembered("the same call".into());
    let first = run.driver.exchange(&one, StepName::Ask(0), ask(), known.clone());
    let second = run.driver.exchange(&two, StepName::Ask(0), ask(), known);
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first.unwrap(), second.unwrap());
    for (reply, by_way_of) in [(&first.reply, "test"), (&second.reply, MEMORY)] {
        let Reply::Given(given) = reply else { panic!("{reply:?}") };
        assert_eq!((&given.answer, &*given.via), (&Answer::Approve { remember: true }, by_way_of));
    }
    assert_eq!((first.waited.as_secs(), second.waited.as_secs()), (1, 1));
    assert_eq!(*run.operator.0.lock().unwrap(), [one]);
    assert_eq!(run.kinds(), ["asked", "asked", "answered", "answered"]);
}

#[tokio::test(start_paused = true)]
async fn waits_and_random_numbers_are_recorded() {
    let run = run();
    let path = CallPath::root();
    run.driver.sleep(&path, "wait.0.0".into(), Duration::from_millis(1500)).await.unwrap();
    let value = run.driver.random(&path, "jitter.0.0".into()).unwrap();
    let bodies: Vec<RecordKind> = run.records().into_iter().map(|record| record.body).collect();
    assert_eq!(bodies, [RecordKind::Slept { ms: 1500 }, RecordKind::Random { value }]);
    assert!(run.records()[1].at_ms >= run.records()[0].at_ms);
}

/// Makes calls that end in the reverse of their order. One halts.
struct Sleeper;

impl Caller for Sleeper {
    fn frame(&self) -> FrameSpec {
        unreachable!("this driver makes calls here")
    }

    fn make<'a>(&'a self, call: CallSpec) -> BoxFuture<'a, Result<Outcome, Halt>> {
        Box::pin(async move {
            let index = call.input.as_u64().unwrap();
            tokio::time::sleep(Duration::from_millis(100 - index)).await;
            if index == 7 { Err(Halt::Cancelled) } else { Ok(Outcome::free(End::Done(call.input))) }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_keeps_its_order_and_its_halts() {
    let run = run();
    let calls = (0..50_u64).map(|index| CallSpec {
        path: CallPath::root().call(0, index as usize),
        callee: Callee::Code,
        input: Arc::new(index.into()),
    });
    let results = run.driver.calls(calls.collect(), &Sleeper).await;
    assert_eq!(results.len(), 50);
    for (index, result) in results.into_iter().enumerate() {
        match result {
            Ok(outcome) => assert_eq!(outcome.end, End::Done(Arc::new(index.into()))),
            Err(halt) => assert_eq!((index, halt), (7, Halt::Cancelled)),
        }
    }
    assert!(run.driver.calls(Vec::new(), &Sleeper).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn steps_side_by_side_are_numbered_without_gaps() {
    let run = Arc::new(run());
    let tasks: Vec<_> = (0..50)
        .map(|index| {
            let run = run.clone();
            tokio::spawn(async move {
                let path = CallPath::root().call(0, index);
                let body = async {
                    tokio::task::yield_now().await;
                    ended()
                };
                run.driver.step(step(&path, body)).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let records = run.records();
    assert_eq!(records.len(), 100);
    assert!(records.iter().zip(0..).all(|(record, seq)| record.seq == seq));
    assert!(records.is_sorted_by_key(|record| record.at_ms));
    for index in 0..50 {
        let path = CallPath::root().call(0, index);
        let of_call: Vec<_> =
            records.iter().filter(|record| record.path == path).map(|r| r.body.clone()).collect();
        assert_eq!(of_call, [started(), ended()]);
    }
    // A screen sees exactly the journal, in its order.
    let shown: Vec<Record> = run
        .events
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|event| match event {
            Event::Record { record } => (**record).clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(shown, records);
}

#[tokio::test]
async fn no_secret_reaches_record_engine_operator_or_screen() {
    let run = run_with(Redactor::new([("API_KEY".to_owned(), "hunter2hunter2".to_owned())]));
    let path = CallPath::root();
    let body = async {
        RecordKind::ToolEnded {
            ending: Ending::Output(Arc::new(json!("key=hunter2hunter2"))),
            blobs: Vec::new(),
            log: None,
            origins: Default::default(),
            mixed: false,
        }
    };
    let stepped = run.driver.step(step(&path, body)).await.unwrap();
    let clean = RecordKind::ToolEnded {
        ending: Ending::Output(Arc::new(json!("key=[secret API_KEY]"))),
        blobs: Vec::new(),
        log: None,
        origins: Default::default(),
        mixed: false,
    };
    assert!(matches!(stepped.end, StepEnd::Done(body) if body == clean));
    assert_eq!(run.records()[1].body, clean);
    run.driver.emit(Event::Delta {
        path,
        turn: 0,
        delta: Delta::Text { text: "it is hunter2hunter2.".to_owned() },
    });
    let shown = serde_json::to_string(&*run.events.0.lock().unwrap()).unwrap();
    assert!(!shown.contains("hunter2") && shown.contains("it is [secret API_KEY]."), "{shown}");
}

#[tokio::test]
async fn deltas_are_made_only_for_those_who_want_them() {
    struct RecordsOnly;
    impl EventSink for RecordsOnly {
        fn event(&self, _event: Event) {}
        fn wants_deltas(&self) -> bool {
            false
        }
    }
    let home = tempfile::tempdir().unwrap();
    let driver = || {
        let journal = JournalWriter::create(&home.path().join("runs"), Arc::default(), None).unwrap();
        LocalDriver::new(journal, Machine::ambient(), Arc::new(Slow::default()))
    };
    assert!(!driver().listens());
    assert!(!driver().with_events(Arc::new(RecordsOnly)).listens());
    assert!(run().driver.listens());
}

/// Returns no answer.
struct Away;

impl Operator for Away {
    fn exchange<'a>(&'a self, _: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        Box::pin(pending())
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_expires_is_denied_and_the_answer_says_so() {
    let home = tempfile::tempdir().unwrap();
    let redactor = Arc::new(Redactor::default());
    let journal = JournalWriter::create(&home.path().join("runs"), redactor, None).unwrap();
    let dir = journal.dir().to_owned();
    let hour = Duration::from_secs(3600);
    let driver =
        LocalDriver::new(journal, Machine::ambient(), Arc::new(Away)).with_questions_expiring(Some(hour));
    let path = CallPath::root();
    let exchanged = driver.exchange(&path, StepName::Ask(0), ask(), Known::Nothing).await.unwrap();
    assert!(exchanged.waited >= hour, "{exchanged:?}");
    let Reply::Given(given) = exchanged.reply else { panic!("no answer") };
    assert!(matches!(given.answer, Answer::Deny { remember: false, .. }), "{given:?}");
    assert_eq!((&*given.via, &given.digest), (EXPIRED, &None));
    let records = read_journal(&dir).unwrap().records;
    let [
        Record { body: RecordKind::Asked(asked), at_ms, .. },
        Record { body: RecordKind::Answered(given), .. },
    ] = &records[..]
    else {
        panic!("{records:?}")
    };
    let expires_ms = asked.expires_ms().expect("an expiry");
    assert!(expires_ms - at_ms <= 3_600_000, "{records:?}");
    assert_eq!(given.expires_ms, Some(expires_ms));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_recorded_with_the_requester_and_the_digest_of_what_was_shown() {
    let run = run();
    let (path, requester) = (CallPath::root(), Requester { by: "ci".into(), via: "http".into() });
    let start = RunStart { requester: Some(requester.clone()), ..RunStart::default() };
    run.driver.record(&path, StepName::Run, first_record(start)).unwrap();
    run.driver.exchange(&path, StepName::Ask(0), ask(), Known::Nothing).await.unwrap();
    let records = run.records();
    let Some(Record { path, step, body: RecordKind::Asked(question), .. }) = records.get(1) else {
        panic!("{records:?}")
    };
    let digest = Waiting { id: QuestionId::new(path, step), question: question.clone() }.digest();
    let Some(Record { body: RecordKind::Answered(given), .. }) = records.get(2) else {
        panic!("{records:?}")
    };
    assert_eq!((&*given.by, &*given.via), (OPERATOR, "test"));
    assert_eq!((&given.requester, given.digest.as_deref()), (&Some(requester), Some(&*digest)));
}

fn first_record(start: RunStart) -> RecordKind {
    let RunStart { version, target, definitions, runtimes, invocation, requester } = start;
    RecordKind::RunStarted {
        format: FORMAT,
        run: "r".into(),
        version,
        target,
        entry: "main".into(),
        chat: false,
        approval: Default::default(),
        date: "2026-01-01".into(),
        definitions,
        runtimes,
        invocation,
        requester,
    }
}
