//! A session over a host in memory, whose log is durable only after a wait, as over a network.
#![allow(clippy::unwrap_used, reason = "a test that meets an error has failed")]

use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    call_path::CallPath,
    journal::{RecordKind, RunStatus},
    model::{
        Capabilities, DeltaSink, Model, ModelError, ModelName, ModelRequest, ModelResponse, Models, Sees,
    },
    operator::{Operator, Recall},
    outcome::Halt,
    question::{Answer, Given, Reply, Waiting},
    send::BoxFuture,
    step_name::StepName,
    toolset::ToolsetRegistry,
    vfs::{FileSystem, MemoryFileSystem},
    worker::WorkerDefinition,
};
use llm_do_host::{
    Ambient, EventSink, Host, Input, Loaded, MemoryLog, MissingGrant, ModelSource, Obstacle, Opening, RunLog,
    RunOptions, Written,
};
use llm_do_program::{
    LoadOptions, Source, Start, UserConfig, manifest::Provider, source::MemoryTree, target::Request,
};
use llm_do_records::Redactor;
use serde_json::json;
use std::{
    collections::BTreeMap,
    future::{pending, poll_fn},
    io,
    path::Path,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

/// The numbers of records that were added and that are durable.
#[derive(Default)]
struct Counts {
    added: AtomicUsize,
    durable: AtomicUsize,
    /// True if the log can't be written any more.
    full: AtomicBool,
}

impl Counts {
    fn lag(&self) -> usize {
        self.added.load(Ordering::Acquire) - self.durable.load(Ordering::Acquire)
    }
}

/// A log whose records are durable once a future has waited.
struct Slow {
    inner: MemoryLog,
    counts: Arc<Counts>,
}

impl RunLog for Slow {
    fn append(
        &self,
        path: &CallPath,
        step: &StepName,
        body: RecordKind,
        listener: Option<&dyn EventSink>,
    ) -> Result<Written, Halt> {
        self.counts.added.fetch_add(1, Ordering::AcqRel);
        self.inner.append(path, step, body, listener)
    }

    fn hold(&self) {}

    fn release(&self) -> Result<(), Halt> {
        Ok(())
    }

    fn flush(&self) -> Result<(), Halt> {
        Ok(())
    }

    fn durable(&self) -> Option<BoxFuture<'_, Result<(), Halt>>> {
        let added = self.counts.added.load(Ordering::Acquire);
        let mut waited = false;
        Some(Box::pin(poll_fn(move |context| {
            if !std::mem::replace(&mut waited, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.counts.full.load(Ordering::Acquire) {
                return Poll::Ready(Err(Halt::Journal("the store is full".to_owned())));
            }
            self.counts.durable.fetch_max(added, Ordering::AcqRel);
            Poll::Ready(Ok(()))
        })))
    }

    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn last_ms(&self) -> u64 {
        self.inner.last_ms()
    }

    fn redactor(&self) -> &Arc<Redactor> {
        self.inner.redactor()
    }
}

/// A model that writes a file, and then answers. It may be asked only when everything is durable.
struct Writer(Arc<Counts>);

impl Models for Writer {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::new(Self(Arc::clone(&self.0))))
    }
}

impl Model for Writer {
    fn capabilities(&self) -> Capabilities {
        Capabilities { native_schema: false, tools: true, sees: Sees::default() }
    }

    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a dyn DeltaSink,
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        Box::pin(async move {
            assert_eq!(self.0.lag(), 0, "a request leaves only after the records before it are durable");
            let written = json!({"part": "call", "id": "c", "name": "write_file", "arguments":
                {"json": {"path": "/out/notes.txt", "content": "Hello."}}});
            let answer = match request.messages.len() {
                0 | 1 => json!({"parts": [written], "finish": "tool_calls"}),
                _ => json!({"parts": [{"part": "text", "text": "Done."}], "finish": "stop"}),
            };
            Ok(serde_json::from_value(answer).unwrap())
        })
    }
}

/// An operator that approves. It may be asked only when everything is durable.
struct Approves(Arc<Counts>, Arc<AtomicUsize>);

impl Operator for Approves {
    fn exchange<'a>(&'a self, _: &'a Waiting, _: &'a dyn Recall) -> BoxFuture<'a, Reply> {
        assert_eq!(self.0.lag(), 0, "a question is put only after it is durable");
        self.1.fetch_add(1, Ordering::AcqRel);
        Box::pin(async { Reply::Given(Given::operator(Answer::Approve { remember: false }, "test")) })
    }
}

/// A platform without a clock.
struct Timeless;

impl Ambient for Timeless {
    fn after(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(pending())
    }

    fn random(&self) -> u64 {
        7
    }
}

struct InMemory {
    files: Arc<dyn FileSystem>,
    toolsets: Arc<ToolsetRegistry>,
    redactor: Arc<Redactor>,
    user: UserConfig,
    declared: BTreeMap<String, Provider>,
    models: Arc<dyn Models>,
}

/// The words of an obstacle.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Problem(String);

impl From<Obstacle> for Problem {
    fn from(obstacle: Obstacle) -> Self {
        Self(obstacle.to_string())
    }
}

impl Host for InMemory {
    type Problem = Problem;

    fn toolsets(&self) -> &Arc<ToolsetRegistry> {
        &self.toolsets
    }

    fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn ambient(&self) -> Arc<dyn Ambient> {
        Arc::new(Timeless)
    }

    fn today(&self) -> Arc<str> {
        "2026-11-28".into()
    }

    fn user(&self) -> &UserConfig {
        &self.user
    }

    fn current_dir(&self) -> &Path {
        Path::new("/project")
    }

    fn real(&self, path: &Path) -> io::Result<Place> {
        Ok(Place::new(&Path::new("/project").join(path).to_string_lossy()))
    }

    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.models)
    }

    fn declared(&self) -> &BTreeMap<String, Provider> {
        &self.declared
    }

    fn grant(&self, _: &Place, _: &[MissingGrant]) -> Result<bool, Problem> {
        Ok(false)
    }

    fn attachment(&self, _: &Path, _: &WorkerDefinition) -> Result<Attachment, String> {
        Err("there are no files to attach".to_owned())
    }
}

const WORKER: &str = "---\nmodel: test:writer\ntoolsets: [filesystem]\nsandbox:\n  paths: {out: {root: ./out, mode: rw}}\n---\nWrite.\n";

fn load(worker: &str, models: Arc<dyn Models>) -> Result<Loaded<InMemory>, Problem> {
    let toolsets = ToolsetRegistry::built_in();
    let files = BTreeMap::from([("main.worker".to_owned(), worker.to_owned())]);
    let source = Source {
        tree: Arc::new(MemoryTree::new(Place::new("/project"), files)),
        start: Start::Entry(None),
        manifest: true,
        work: None,
    };
    let load_options = LoadOptions { toolsets: toolsets.clone(), ..LoadOptions::default() };
    let opening = Opening { source, load_options, request: Request::default() };
    Loaded::load(opening, |_| {
        Ok(InMemory {
            files: Arc::new(MemoryFileSystem::new()),
            toolsets: Arc::new(toolsets),
            redactor: Arc::new(Redactor::new(BTreeMap::new())),
            user: UserConfig::default(),
            declared: BTreeMap::new(),
            models,
        })
    })
}

fn run_to_end<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let ready = (0..10_000).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    });
    ready.unwrap()
}

#[test]
fn effects_questions_and_the_outcome_wait_until_their_records_are_durable() {
    for full in [false, true] {
        let (counts, asked) = (Arc::new(Counts::default()), Arc::new(AtomicUsize::default()));
        counts.full.store(full, Ordering::Release);
        let models: Arc<dyn Models> = Arc::new(Writer(Arc::clone(&counts)));
        let options = RunOptions { can_ask: true, ..RunOptions::default() };
        let loaded = load(WORKER, models).unwrap();
        let session = loaded.grant(options, ModelSource::Providers).unwrap().open().unwrap();
        let inner = MemoryLog::new(1000, Arc::clone(session.host().redactor()));
        let log = Slow { inner, counts: Arc::clone(&counts) };
        let operator = Arc::new(Approves(Arc::clone(&counts), Arc::clone(&asked)));
        let input = Input { message: Some("Go on.".to_owned()), ..Input::default() };
        let run = session.start("r".into(), log, &input, Some(operator), None).unwrap();
        let report = run_to_end(run.finish()).report;
        if full {
            // The first request never left.
            assert!(matches!(report.halt, Some(Halt::Journal(_))), "{report:?}");
            assert_eq!(asked.load(Ordering::Acquire), 0);
        } else {
            assert_eq!(report.status, RunStatus::Done, "{report:?}");
            assert_eq!((asked.load(Ordering::Acquire), counts.lag()), (1, 0));
        }
    }
}
