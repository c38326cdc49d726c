//! Calls as data: a driver that has every child call made in another process writes the same journal as the local one,
//! and each execution of a run takes the steps of a call in the recorded order.
#![allow(clippy::unwrap_used)] // in a test a panic is the report

mod in_processes;
mod positional;
mod python;
mod relay;
mod remote;
mod wire;

use crate::{
    in_processes::{InProcesses, PROGRAM, child},
    positional::{Positional, order},
    relay::Relay,
    remote::RemoteDriver,
    wire::{MARK, ToCall, ToRun},
};
use llm_do::{
    Input, PastRun, Report, Run, RunOptions, Session, Settings,
    core::{
        call_path::CallPath,
        driver::{Driver, StepName},
        engine::End,
        gate::Mode,
        journal::{Record, RecordKind, RunStatus},
        ledger::Budget,
        operator::{OneAtATime, Operator, Recall},
        question::{Answer, Given, Question, Reply, Waiting},
        send::BoxFuture,
        worker::make_from_spec,
    },
    program::target::Request,
    runs::{JOURNAL_FILE, LocalDriver, read_journal},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, Write},
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A program in which a tree shares everything that it can: a budget, a remembered answer, a generated worker, a long
/// result, and a path that is handed down.
const FILES: &[(&str, &str)] = &[
    ("project.yaml", "name: shared\nsandbox: {paths: {notes: {root: notes, mode: rw}}}\n"),
    ("notes/a.txt", "alpha"),
    (
        "main.worker",
        "---\nallow_workers: [scribe, reader, talker]\ntoolsets: {filesystem: {}, relay: {}, workers: {dynamic: true}}\n\
         limits: {max_turns: 40, max_tokens: 900000, max_tool_calls: 60, timeout: 600s}\n---\nLead.\n",
    ),
    (
        "workers/scribe.worker",
        "---\ntoolsets: {filesystem: {approval: {default: ask}}}\nallow_workers: [talker]\n\
         limits: {max_turns: 9, max_tokens: 200000}\n---\nWrite {{ input }}.\n",
    ),
    (
        "workers/reader.worker",
        "---\nparameters: {text: path}\ntoolsets: {filesystem: {}}\n---\nRead {{ text }}.\n",
    ),
    ("workers/talker.worker", "---\n---\nTalk about {{ input }}.\n"),
];

fn script() -> Value {
    let long = "0123456789".repeat(4_500);
    json!({"answers": [
        {"when": {"worker": "main", "turn": 0}, "calls": [
            {"tool": "scribe", "arguments": {"input": "one"}},
        ]},
        {"when": {"worker": "main", "turn": 1}, "calls": [
            {"tool": "scribe", "arguments": {"input": "one"}},
        ]},
        {"when": {"worker": "main", "turn": 2}, "calls": [
            {"tool": "reader", "arguments": {"text": "/notes/a.txt"}},
            {"tool": "talker", "arguments": {"input": "long"}},
            {"tool": "read_file", "arguments": {"path": "/notes/a.txt"}},
            {"tool": "worker_call", "arguments": {"worker": "talker", "input_data": "short"}},
        ]},
        {"when": {"worker": "main", "turn": 3}, "calls": [
            {"tool": "worker_create", "arguments": {"name": "helper", "instructions": "Help with {{ input }}."}},
        ]},
        {"when": {"worker": "main", "turn": 4}, "calls": [
            {"tool": "worker_call", "arguments": {"worker": "helper", "input_data": "this"}},
            {"tool": "worker_call", "arguments": {"worker": "nobody", "input_data": "this"}},
            {"tool": "relay", "arguments": {}},
            {"tool": "read_file", "arguments": {"path": "/results/1", "offset": 40_000}},
        ]},
        {"when": {"worker": "main"}, "text": "All is done."},
        {"when": {"worker": "scribe", "turn": 0}, "calls": [
            {"tool": "write_file", "arguments": {"path": "/notes/b.txt", "content": "beta"}},
            {"tool": "talker", "arguments": {"input": "short"}},
        ]},
        {"when": {"worker": "scribe"}, "text": "written"},
        {"when": {"worker": "reader", "turn": 0}, "calls": [
            {"tool": "read_file", "arguments": {"path": "/text"}},
            {"tool": "read_file", "arguments": {"path": "/notes/b.txt"}},
        ]},
        {"when": {"worker": "reader"}, "text": "read"},
        {"when": {"worker": "talker", "last": "long"}, "text": long},
        {"when": {"worker": "talker"}, "text": "talked"},
        {"when": {"worker": "helper"}, "text": "helped"},
    ]})
}

/// The program on disk.
struct World {
    home: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self::of(FILES, &script())
    }

    fn of(files: &[(&str, &str)], script: &Value) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = home.path().join("project").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::write(home.path().join("script.yaml"), script.to_string()).unwrap();
        Self { home }
    }

    fn run(&self, over: impl FnOnce(Arc<LocalDriver>) -> Arc<dyn Driver>) -> Outcome {
        let session = Session::open(settings(self.home.path())).unwrap();
        let operator = Arc::new(Approving::default());
        let input = Input { message: Some("go".into()), ..Input::default() };
        let run = session.start(&input, Some(Arc::new(OneAtATime::new(operator.clone()))), None).unwrap();
        finish(run.over(over), &operator)
    }

    /// Runs the program with every call in this process, and then with each in a process of its own. Both run over one
    /// folder, since paths are in the records; `restore` brings it back to its state before the first run. Both write
    /// the same records.
    fn here_and_elsewhere(&self, restore: impl FnOnce()) -> (Outcome, Outcome) {
        let here = self.run(|driver| driver);
        assert_eq!(*here.output(), json!("All is done."));
        assert_eq!(here.report.status, RunStatus::Done);
        restore();
        let program = self.home.path().display().to_string();
        let mut remote = None;
        let elsewhere = self.run(|driver| {
            let driver = Arc::new(InProcesses::new(driver, program));
            remote = Some(Arc::clone(&driver));
            driver
        });
        let (calls, calls_elsewhere) = (here.by_call(), elsewhere.by_call());
        for (path, records) in &calls {
            assert_eq!(calls_elsewhere.get(path), Some(records), "{path}");
        }
        assert_eq!(calls, calls_elsewhere);
        let made = remote.unwrap().started();
        assert_eq!(made, here.calls_made(), "each call but the first has a process of its own");
        (here, elsewhere)
    }

    /// Resumes a run over its records, which were cut off after `kept`.
    fn resume_in_order(&self, dir: &Path, kept: usize) -> Outcome {
        let past = PastRun::open(dir, &self.home.path().join("home")).unwrap();
        let session = Session::open(past.settings(settings(self.home.path())).unwrap()).unwrap();
        let records = read_journal(dir).unwrap().records;
        let operator = Arc::new(Approving::default());
        let run = session.resume(past, Default::default(), Some(operator.clone()), None).unwrap();
        let mut positional = None;
        let run = run.over(|driver| {
            let driver = Arc::new(Positional::new(driver, &records));
            positional = Some(Arc::clone(&driver));
            driver
        });
        let resumed = finish(run, &operator);
        assert_eq!(resumed.report.halt, None, "after {kept} records");
        assert_eq!(*resumed.output(), json!("All is done."), "after {kept} records");
        let recorded: usize = order(&records).values().map(Vec::len).sum();
        let taken = positional.unwrap().matched();
        assert_eq!(taken, recorded, "after {kept} records every step was taken again");
        resumed
    }
}

fn settings(home: &Path) -> Settings {
    let mut settings = Settings::for_target("");
    let project = home.join("project").display().to_string();
    settings.request = Request { positionals: vec![project], ..Request::default() };
    settings.around.here = home.to_owned();
    settings.home = home.join("home");
    settings.toolsets.register(Arc::new(Relay));
    settings.run = RunOptions {
        model: Some(format!("script:{}", home.join("script.yaml").display()).parse().unwrap()),
        mode: Some(Mode::Interactive),
        can_ask: true,
        budget: Budget { max_turns: Some(60), ..Budget::default() },
        ..RunOptions::default()
    };
    settings
}

/// An operator that approves each call, asks to remember that, and gives the same answer to each input.
#[derive(Default)]
struct Approving(AtomicUsize);

impl Operator for Approving {
    fn exchange<'a>(&'a self, waiting: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        self.0.fetch_add(1, Ordering::Relaxed);
        let answer = match waiting.question {
            Question::Approval(_) => Answer::Approve { remember: true },
            Question::Input(_) => Answer::Give { value: Arc::new(json!({"colour": "blue"})) },
            Question::Settlement(_) => panic!("files settle all that was cut off: {waiting:?}"),
        };
        let given = Given::operator(answer, "test");
        Box::pin(async { Reply::Given(given) })
    }
}

/// The parts of a run that the tests examine.
struct Outcome {
    report: Report,
    records: Vec<Record>,
    questions: usize,
}

fn finish(run: Run, operator: &Approving) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(run.finish());
    let records = read_journal(&report.dir).unwrap().records;
    Outcome { report, records, questions: operator.0.load(Ordering::Relaxed) }
}

impl Outcome {
    fn output(&self) -> &Value {
        match &self.report.end {
            End::Done(value) => value,
            other => panic!("{other:?}"),
        }
    }

    /// Returns the number of calls made within the first. A step of code has a path, but is not a call.
    fn calls_made(&self) -> usize {
        let steps = |path: &CallPath| path.to_string().contains("step-");
        self.by_call().keys().filter(|path| path.depth() > 0 && !steps(path)).count()
    }

    /// Returns the records of each call in order, without the parts that differ between any two runs.
    fn by_call(&self) -> BTreeMap<CallPath, Vec<String>> {
        let mut calls: BTreeMap<CallPath, Vec<String>> = BTreeMap::new();
        for Record { path, step, body, .. } in &self.records {
            let body = serde_json::to_string(body).unwrap().replace(&*self.report.run, "RUN");
            calls.entry(path.clone()).or_default().push(format!("{step} {body}"));
        }
        calls
    }
}

#[test]
fn calls_in_other_processes_write_the_same_journal() {
    let world = World::new();
    let (here, elsewhere) = world.here_and_elsewhere(|| {
        fs::remove_file(world.home.path().join("project/notes/b.txt")).unwrap();
    });
    // One for `write_file`, which is remembered, one for `worker_create`, and an input.
    assert_eq!(here.questions, 3, "an answer is remembered across calls");
    let shown = here.records.iter().any(|record| match &record.body {
        RecordKind::ToolEnded { ending, .. } => serde_json::to_string(ending).unwrap().contains("0123456789"),
        _ => false,
    });
    assert!(shown, "the rest of a long result was read");
    assert_eq!(elsewhere.questions, 3);
}

#[test]
fn calls_of_code_in_other_processes_write_the_same_journal() {
    if !python::has_python() {
        return;
    }
    python::install_supervisor();
    let (here, _) = World::of(python::FILES, &python::script()).here_and_elsewhere(|| ());
    for (path, output) in python::outputs() {
        // The last ending is that of the call. A leaf has only the ending of its tool.
        let endings = here.records.iter().filter(|record| record.path.to_string() == path);
        let mut endings = endings.map(|record| serde_json::to_value(&record.body).unwrap());
        let ended = endings.rfind(|body| body.get("ending").is_some());
        assert_eq!(ended.unwrap()["ending"]["output"], output, "{path}");
    }
    let failed = serde_json::to_string(&here.records).unwrap();
    assert!(failed.contains("nothing to read: "), "a function raised an error");
}

/// The processes of the test above are this test, with a program to open. By itself it starts one and gives it no call.
#[test]
fn a_process_that_makes_one_call() {
    if let Ok(program) = std::env::var(PROGRAM) {
        make_one_call(&program);
    }
    let world = World::new();
    let mut idle = child(&world.home.path().display().to_string());
    let ended = idle.stdin(Stdio::null()).output().unwrap();
    assert!(!ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("no call to make"), "{ended:?}");
}

fn make_one_call(program: &str) -> ! {
    // The harness leaves its line unfinished.
    std::io::stdout().write_all(b"\n").unwrap();
    python::install_supervisor();
    let session = Session::open(settings(Path::new(program))).unwrap();
    let mut lines = std::io::stdin().lock().lines();
    let message = |line: std::io::Result<String>| -> ToCall {
        serde_json::from_str(line.unwrap().strip_prefix(MARK).unwrap()).unwrap()
    };
    let Some(ToCall::Start(frame, call)) = lines.next().map(message) else { panic!("no call to make") };
    drop(lines);
    let driver = Arc::new(RemoteDriver::default());
    let listening = Arc::clone(&driver);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            listening.arrived(message(line));
        }
    });
    let date = "the date is in the records of the run";
    let engine = session.engine("RUN".into(), date.into(), driver as _);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = runtime.block_on(make_from_spec(&engine, *frame, call));
    RemoteDriver::send(&ToRun::Ended(outcome));
    std::process::exit(0);
}

#[test]
fn each_execution_takes_the_steps_of_a_call_in_the_recorded_order() {
    let world = World::new();
    let whole = world.run(|driver| driver);
    let journal = whole.report.dir.join(JOURNAL_FILE);
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut settled = 0;
    // Every fourth record, since each resume is a run.
    for kept in (3..lines.len()).step_by(4) {
        keep(&journal, &lines[..kept]);
        let resumed = world.resume_in_order(&whole.report.dir, kept);
        settled += usize::from(resumed.records.iter().any(|record| record.step == StepName::Settle));
        // The run is cut off again before its end.
        let text = fs::read_to_string(&journal).unwrap();
        let again: Vec<&str> = text.lines().collect();
        keep(&journal, &again[..again.len() - 2]);
        world.resume_in_order(&whole.report.dir, kept);
    }
    assert!(settled > 0, "an interrupted tool was settled");
}

fn keep(journal: &Path, lines: &[&str]) {
    fs::write(journal, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
}

/// The check above can fail.
#[test]
fn an_execution_in_another_order_is_refused() {
    let world = World::new();
    let whole = world.run(|driver| driver);
    let mut records = whole.records;
    // The second call of the scribe, as if its verdict had come after its conversation had begun.
    let path = CallPath::root().call(1, 0);
    let place =
        |name: &str| records.iter().position(|r| r.path == path && r.step.to_string() == name).unwrap();
    let (verdict, conversation) = (place("verdict"), place("conversation"));
    records.swap(verdict, conversation);
    let refused = World::new().run(|driver| Arc::new(Positional::new(driver, &records)));
    let halt = refused.report.halt.expect("it stops").to_string();
    assert!(halt.contains("`conversation` comes next in the records"), "{halt}");
}
