//! A project in memory, and the engine that runs it.

use llm_do_core::{
    authority::{Network, Place},
    driver::Driver,
    engine::RunContext,
    gate::{Gate, Mode},
    launch::{Launch, LaunchReport, RunRecords},
    ledger::Budget,
    model::{ModelName, ModelSettings, Models},
    origin::{Origin, Origins},
    redact::Redact,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::ModelChoice,
};
use llm_do_program::{LoadOptions, Loaded, Program, Source, Start, source::MemoryTree};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// A loaded project.
pub(crate) struct Project {
    pub(crate) program: Arc<Program>,
    toolsets: ToolsetRegistry,
}

/// The ports that a host gives to a run.
pub(crate) struct Ports {
    pub(crate) run: Arc<str>,
    pub(crate) date: Arc<str>,
    pub(crate) mode: Mode,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) model: Option<ModelName>,
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) redact: Arc<dyn Redact>,
}

impl Project {
    /// Returns the place of the project in memory.
    pub(crate) fn root() -> Place {
        Place::new("/project")
    }

    /// Loads these definition files.
    pub(crate) fn load(files: BTreeMap<String, String>) -> Result<Self, String> {
        let toolsets = ToolsetRegistry::built_in();
        let source = Source {
            tree: Arc::new(MemoryTree::new(Self::root(), files)),
            start: Start::Entry(None),
            manifest: true,
            work: None,
        };
        let options = LoadOptions { toolsets: toolsets.clone(), ..Default::default() };
        let Loaded { program, .. } = Program::load(source, options).map_err(|errors| errors.to_string())?;
        Ok(Self { program, toolsets })
    }

    /// Launches the entry. `records` determines the records around its call.
    pub(crate) fn launch(
        self,
        host: Ports,
        input: Arc<Value>,
        records: RunRecords,
    ) -> Result<LaunchReport, String> {
        let Ports { run, date, mode, driver, models, model, files, redact } = host;
        let Self { program, toolsets } = self;
        let context = RunContext {
            run,
            date,
            driver,
            models,
            model: ModelChoice { defaults: model.into_iter().collect(), ..ModelChoice::default() },
            settings_override: ModelSettings::default(),
            files,
            definitions: program.clone(),
            toolsets: Arc::new(toolsets),
            client_tools: Arc::default(),
            gate: Arc::new(Gate { mode, project: program.approval().clone(), ..Gate::default() }),
            chat: false,
            attended: false,
            redact,
            for_client: false,
            stand_ins: None,
            spending: None,
        };
        let launch = Launch {
            context,
            entry: Arc::clone(program.entry()),
            input,
            input_origins: Origins::TRUSTED,
            user: Origin::Trusted,
            attachments: Vec::new(),
            authority: program.authority(&[], Network::Off, &[]),
            budget: Budget::default(),
            records,
            held: None,
            tally: Arc::default(),
        };
        block_on(launch.run())
    }
}

/// Polls a future until it is ready. Nothing here waits for an event from outside, so a future that is still not ready
/// never will be.
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
