//! A program of workers run inside a WebAssembly module.
//!
//! Compiling for `wasm32-unknown-unknown` proves little: code that asks for a clock or a file compiles there and traps.
//! So `run.mjs` hands this module a project, its files and what the models say, as JSON, and gets back the output, the
//! files and the journal. The module imports nothing.

#[cfg(target_arch = "wasm32")]
mod entropy;
#[cfg(target_arch = "wasm32")]
mod exports;
mod script;

use llm_do_core::{
    authority::{Network, Place},
    call_path::CallPath,
    driver::MemoryDriver,
    engine::{Call, Engine, Frame, Outcome, RunContext},
    gate::{Gate, Mode},
    journal::{Ending, Record, RecordKind, conversation_at},
    model::{ModelResponse, ModelSettings},
    redact::NoSecrets,
    toolset::ToolsetRegistry,
    vfs::MemoryFileSystem,
    worker::{self, Limits, ModelChoice},
};
use llm_do_program::{Loaded, Program, Source, Start, source::MemoryTree};
use script::Scripts;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// Where the project lies in memory.
const ROOT: &str = "/project";

/// What is to be run.
#[derive(Deserialize)]
struct Request {
    /// Definition files by path.
    program: BTreeMap<String, String>,
    /// Other files by path.
    files: BTreeMap<String, String>,
    /// What the model of each worker says, in order; each conversation begins at its beginning.
    answers: HashMap<String, Vec<ModelResponse>>,
    /// Input of the entry.
    input: Value,
    /// Files to give back, by path.
    wanted: Vec<String>,
}

/// What came of it.
#[derive(Serialize)]
struct Report {
    ending: Ending,
    journal: Vec<Record>,
    requests: Vec<Rebuilt>,
    files: BTreeMap<String, Option<String>>,
}

/// One request to a model: the digest of what was sent, and of what the journal before it gives.
#[derive(Serialize)]
struct Rebuilt {
    path: CallPath,
    sent: Arc<str>,
    rebuilt: Arc<str>,
}

/// Runs a `Request` in JSON; gives a `Report` in JSON, or `{"error": …}` where there is nothing to run.
pub fn run(request: &str) -> String {
    let report = serde_json::from_str(request).map_err(|error| error.to_string()).and_then(report);
    let json = match report {
        Ok(report) => serde_json::to_string(&report),
        Err(error) => serde_json::to_string(&BTreeMap::from([("error", error)])),
    };
    json.expect("reports have string keys only")
}

fn report(request: Request) -> Result<Report, String> {
    let root = Place::new(ROOT);
    let toolsets = ToolsetRegistry::built_in();
    let source = Source {
        tree: Arc::new(MemoryTree::new(root.clone(), request.program)),
        start: Start::Entry(None),
        manifest: true,
        work: None,
    };
    let host = llm_do_program::LoadOptions { toolsets: toolsets.clone(), ..Default::default() };
    let Loaded { program, .. } = Program::load(source, host).map_err(|errors| errors.to_string())?;

    let files = Arc::new(MemoryFileSystem::new());
    for (path, text) in request.files {
        files.put(&root.join(&path), text.into_bytes());
    }
    let driver = Arc::new(MemoryDriver::new(0, None));
    let engine = Engine::new(RunContext {
        run: "wasm".into(),
        date: "1970-01-01".into(),
        driver: driver.clone(),
        models: Arc::new(Scripts::new(request.answers)),
        model: ModelChoice {
            forced: None,
            default: Some("script:given".parse().expect("it has a provider and a model")),
        },
        settings_override: ModelSettings::default(),
        files: files.clone(),
        definitions: program.clone(),
        toolsets: Arc::new(toolsets),
        gate: Arc::new(Gate {
            mode: Mode::AutoDeny,
            operator: Vec::new(),
            project: program.approval().clone(),
        }),
        redact: Arc::new(NoSecrets),
    });
    let entry = program.entry();
    let frame = Frame::operator(Arc::new(program.authority(&[], Network::Off, &[])));
    let outcome = block_on(engine.call(Call {
        path: CallPath::root(),
        function: &worker::function(entry, &entry.id, false, None),
        input: Arc::new(request.input),
        frame: &frame,
        attachments: &[],
    }));
    let Outcome { end, .. } = outcome?.map_err(|halt| halt.to_string())?;

    let journal = driver.records();
    Ok(Report {
        ending: end.to_ending(),
        requests: rebuild(&journal, &program)?,
        journal,
        files: request
            .wanted
            .into_iter()
            .map(|path| {
                let content = files.get(&root.join(&path));
                (path, content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
            })
            .collect(),
    })
}

fn rebuild(journal: &[Record], program: &Program) -> Result<Vec<Rebuilt>, String> {
    let limits: HashMap<Arc<str>, Limits> =
        program.loaded().iter().map(|worker| (Arc::clone(&worker.id), worker.limits.clone())).collect();
    let mut workers: HashMap<&CallPath, &Arc<str>> = HashMap::new();
    let mut requests = Vec::new();
    for (at, record) in journal.iter().enumerate() {
        match &record.body {
            RecordKind::ConversationStarted { worker, .. } => {
                workers.insert(&record.path, worker);
            }
            RecordKind::ModelRequested { digest, .. } => {
                let limits = workers.get(&record.path).and_then(|worker| limits.get(*worker)).cloned();
                let conversation = conversation_at(&journal[..at], &record.path, limits.unwrap_or_default())
                    .map_err(|error| error.to_string())?;
                requests.push(Rebuilt {
                    path: record.path.clone(),
                    sent: Arc::clone(digest),
                    rebuilt: Arc::clone(conversation.digest()),
                });
            }
            _ => {}
        }
    }
    Ok(requests)
}

/// Polls until it is ready. Nothing here waits for the world, so a future that is still not ready never will be.
fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
    const ENOUGH: usize = 10_000;
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..ENOUGH {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Ok(value);
        }
    }
    Err("the run waits for something that this module does not have".to_owned())
}
