//! Time limits of functions that make calls: the records decide, not a clock.

use super::*;
use crate::python::Settings;
use llm_do_core::worker::Language;
use llm_do_core::{
    authority::{Authority, Bounds, Network, Place, Protection, View},
    call_path::CallPath,
    engine::{Call, Engine, Frame, RunContext},
    function::{Concurrency, Function, FunctionSource, Implementation, Risk},
    gate::Gate,
    ledger::{self, Budget},
    model::{Model, ModelError, ModelName, Models},
    operator::Unattended,
    redact::NoSecrets,
    toolset::ToolsetRegistry,
    vfs::MemoryFileSystem,
    worker::{
        CodeModule, CodePackage, DefinitionError, Definitions, Delegation, ModelChoice, ToolLevel,
        ToolModule, WorkerDefinition,
    },
};
use llm_do_records::History;
use llm_do_runs::{Canceller, JournalWriter, LocalDriver, Machine, SealKey, read_journal};
use llm_do_sandbox::confine::{self, Confinement, Confiner};
use std::{fs, path::PathBuf};
use tempfile::TempDir;

/// A module that sleeps between its steps for as many seconds as the file says.
const CODE: &str = "
import time
from pathlib import Path
from llm_do import ToolContext

def slow(ctx: ToolContext, pace: str) -> str:
    def rest():
        time.sleep(float(Path(pace).read_text()))
    for number in range(2):
        rest()
        ctx.step(f'step {number}', lambda: number)
    rest()
    return 'done'

def slow_end(ctx: ToolContext, pace: str) -> str:
    ctx.step('fast', lambda: None)
    time.sleep(float(Path(pace).read_text()))
    return 'done'

def threads(ctx: ToolContext, pace: str) -> str:
    from concurrent.futures import ThreadPoolExecutor
    seconds = float(Path(pace).read_text())
    def one(number):
        time.sleep(seconds * number)
        ctx.step(f'thread {number}', lambda: number)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))
    return 'done'

def slow_step(ctx: ToolContext, pace: str) -> str:
    ctx.step('slow', lambda: time.sleep(float(Path(pace).read_text())))
    return 'done'
";

/// A program without models and workers.
struct Nothing;

impl Models for Nothing {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        unreachable!("no worker runs")
    }
}

impl Definitions for Nothing {
    fn worker(&self, _: &WorkerDefinition, name: &str) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        Err(DefinitionError { message: name.to_owned() })
    }
    fn matching(&self, _: &WorkerDefinition, _: &str) -> Vec<String> {
        Vec::new()
    }
    fn project_name(&self) -> &str {
        "test"
    }
    fn delegation(&self) -> Delegation {
        Delegation::default()
    }
}

/// A project with one module and the journal of one run.
struct Project {
    root: TempDir,
    python: Arc<Python>,
    journal: Option<PathBuf>,
    /// The limit of the function between two calls.
    limit: Duration,
    /// The limit of the whole run.
    timeout: Option<Duration>,
}

impl Project {
    fn new() -> Self {
        // Cargo puts it beside the folder of the test binary.
        let tests = std::env::current_exe().unwrap();
        let supervisor = tests.parent().unwrap().with_file_name("examples").join("supervisor");
        assert!(supervisor.is_file(), "cargo builds {}", supervisor.display());
        confine::install_binary(supervisor);
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("tools.py"), CODE).unwrap();
        let python = Python::new(Settings {
            project: root.path().to_owned(),
            cache: root.path().join("cache"),
            environment: Arc::new(|name| std::env::var(name).ok()),
            confiner: Arc::new(Confiner::always(Confinement::Unconfined)),
            only_looks: false,
        });
        Self { root, python, journal: None, limit: Duration::from_secs(60), timeout: None }
    }

    /// Makes the code take that many seconds between its calls.
    fn pace(&self, seconds: f64) {
        fs::write(self.root.path().join("pace"), seconds.to_string()).unwrap();
    }

    fn driver(&mut self) -> LocalDriver {
        let key = SealKey::from([7; 32]);
        match &self.journal {
            None => {
                let runs = self.root.path().join("runs");
                let journal = JournalWriter::create(&runs, Arc::default(), Some(&key)).unwrap();
                self.journal = Some(journal.dir().to_owned());
                LocalDriver::new(journal, Machine::ambient(), Arc::new(Unattended))
            }
            Some(journal) => {
                let (journal, records) = JournalWriter::reopen(journal, Arc::default(), &key).unwrap();
                let history = History::of(records);
                LocalDriver::resume(journal, Machine::ambient(), Arc::new(Unattended), history, "test")
                    .unwrap()
            }
        }
    }

    /// Runs the function, or resumes the run of it.
    async fn run(&mut self, name: &str) -> Result<End, Halt> {
        self.run_until(name, |_| {}).await
    }

    async fn run_until(&mut self, name: &str, begun: impl FnOnce(Canceller)) -> Result<End, Halt> {
        let package = Arc::new(CodePackage {
            source: FunctionSource::Program,
            root: Place::new(self.root.path().to_str().unwrap()),
            data: Vec::new(),
        });
        let module =
            ToolModule { module: CodeModule::File(package.root.join("tools.py")), names: vec![name.into()] };
        let level = ToolLevel { name: "test".into(), package, modules: vec![module] };
        let described = self.python.describe(Language::Python, &level).await.unwrap();
        let exposed = described.modules[0].functions[0].clone();
        let driver = Arc::new(self.driver());
        begun(driver.canceller());
        let budget =
            Budget { timeout_ms: self.timeout.map(|time| time.as_millis() as u64), ..Budget::default() };
        let account = ledger::open_run(budget, &*driver).await;
        let engine = Engine::new(RunContext {
            run: "run".into(),
            date: "2030-01-02".into(),
            driver,
            models: Arc::new(Nothing),
            model: ModelChoice::default(),
            settings_override: Default::default(),
            files: Arc::new(MemoryFileSystem::new()),
            definitions: Arc::new(Nothing),
            toolsets: Arc::new(ToolsetRegistry::built_in()),
            client_tools: Arc::default(),
            gate: Arc::new(Gate { mode: Mode::ApproveAll, ..Gate::default() }),
            chat: false,
            attended: false,
            redact: Arc::new(NoSecrets),
            for_client: false,
            stand_ins: None,
            spending: None,
        });
        let meta = FunctionMeta {
            source: FunctionSource::Toolset("custom".into()),
            name: name.into(),
            tool_name: name.into(),
            aliases: &[],
            description: "Works slowly.".into(),
            input: Arc::new(Schema::built_in(exposed.input.clone())),
            output: None,
            risk: Risk::Read,
            concurrency: Concurrency::ByRisk,
            timeout: Some(self.limit),
            contained: false,
            results: llm_do_core::origin::ResultOrigin::Trusted,
            wildcard: false,
            policy: None,
        };
        let reach = Reach::new(Language::Python, &level.package, [&level], None);
        let tool = HostedTool {
            python: Arc::clone(&self.python),
            module: crate::host::module(&level.package, &level.modules[0].module, &level.modules[0].names),
            reach,
            tool: exposed,
            meta: meta.clone(),
            takes: Takes::Arguments,
            work: OWN_WORK,
        };
        let authority = Authority::new(
            Bounds::new(Vec::new(), Network::Off),
            View::new(Vec::new()),
            Arc::new(Protection::new(level.package.root.clone(), [])),
        );
        let function = Function { meta, body: Implementation::Composite(Arc::new(tool)), rule: None };
        let pace = self.root.path().join("pace").to_str().unwrap().to_owned();
        let frame = Frame::operator(Arc::new(authority)).within(account);
        let called = engine.call(Call {
            path: CallPath::root(),
            function: &function,
            input: Arc::new(json!({ "pace": pace })),
            frame: &frame,
            attachments: &[],
            by_operator: true,
        });
        called.await.map(|outcome| outcome.end)
    }

    /// Returns the kinds of records, without those of a resume.
    fn kinds(&self) -> Vec<String> {
        let journal = read_journal(self.journal.as_ref().unwrap()).unwrap();
        let kind = |record| serde_json::to_value(record).unwrap()["kind"].as_str().unwrap().to_owned();
        journal.records.iter().map(kind).filter(|kind| kind != "run_resumed").collect()
    }
}

fn timed_out(end: &Result<End, Halt>) -> bool {
    matches!(end, Ok(End::Failed(failure)) if failure.kind == FailureKind::Timeout)
}

fn done(end: &Result<End, Halt>) -> bool {
    matches!(end, Ok(End::Done(value)) if **value == json!("done"))
}

#[tokio::test(flavor = "multi_thread")]
async fn slower_machine_resumes_to_the_recorded_end() {
    let mut project = Project::new();
    project.pace(0.01);
    let end = project.run("slow").await;
    assert!(done(&end), "{end:?}");
    let recorded = project.kinds();
    // Ten times slower and more: each wait is longer than the limit.
    project.pace(0.6);
    project.limit = Duration::from_millis(300);
    let end = project.run("slow").await;
    assert!(done(&end), "{end:?}");
    assert_eq!(project.kinds(), recorded, "a resume adds no records");
}

#[tokio::test(flavor = "multi_thread")]
async fn interleaving_of_threads_changes_no_records() {
    // The steps of the first run overlap and those of the second do not, and the other way round.
    for (first, second) in [(0.0, 0.6), (0.1, 0.0)] {
        let mut project = Project::new();
        project.pace(first);
        let end = project.run("threads").await;
        assert!(done(&end), "{end:?}");
        let recorded = project.kinds();
        assert_eq!(recorded.iter().filter(|kind| *kind == "worked").count(), 6);
        project.pace(second);
        project.limit = Duration::from_millis(300);
        let end = project.run("threads").await;
        assert!(done(&end), "{end:?}");
        assert_eq!(project.kinds(), recorded);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn faster_machine_resumes_to_the_recorded_timeout() {
    let mut project = Project::new();
    project.pace(20.0);
    project.limit = Duration::from_millis(1500);
    let end = project.run("slow").await;
    assert!(timed_out(&end), "{end:?}");
    project.pace(0.0);
    let again = project.run("slow").await;
    assert_eq!(again, end);
}

#[tokio::test(flavor = "multi_thread")]
async fn limit_applies_from_where_the_records_end() {
    let mut project = Project::new();
    project.pace(20.0);
    let cancel = |canceller: Canceller| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1500)).await;
            canceller.cancel();
        });
    };
    let began = std::time::Instant::now();
    let end = project.run_until("slow_end", cancel).await;
    assert_eq!(end, Err(Halt::Cancelled), "a wait for code ends with the run");
    assert!(began.elapsed() < Duration::from_secs(15));
    project.limit = Duration::from_millis(1500);
    let end = project.run("slow_end").await;
    assert!(timed_out(&end), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn step_of_code_ends_with_the_time_of_the_run() {
    let mut project = Project::new();
    project.timeout = Some(Duration::from_millis(3000));
    project.pace(30.0);
    let end = project.run("slow_step").await;
    assert!(timed_out(&end), "{end:?}");
    project.pace(0.0);
    assert_eq!(project.run("slow_step").await, end);
}
