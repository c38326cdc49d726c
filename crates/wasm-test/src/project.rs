//! A project in memory: this module as its host.

use crate::ticks::Ticks;
use llm_do_core::{
    attachment::Attachment, authority::Place, model::Models, toolset::ToolsetRegistry, vfs::FileSystem,
    worker::WorkerDefinition,
};
use llm_do_host::{Ambient, Host, Loaded, MissingGrant, Obstacle, Opening};
use llm_do_program::{
    LoadOptions, Source, Start, UserConfig, manifest::Provider, source::MemoryTree, target::Request,
};
use llm_do_records::Redactor;
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

/// The means that the module gives to a project.
pub(crate) struct Means {
    pub(crate) date: Arc<str>,
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) models: Arc<dyn Models>,
    toolsets: Arc<ToolsetRegistry>,
    user: UserConfig,
    declared: BTreeMap<String, Provider>,
}

/// A reason why a project can't run.
pub(crate) struct Refused(String);

impl From<Obstacle> for Refused {
    fn from(obstacle: Obstacle) -> Self {
        Self(match obstacle {
            Obstacle::Program(found) => found.to_string(),
            other => other.to_string(),
        })
    }
}

impl From<Refused> for String {
    fn from(refused: Refused) -> Self {
        refused.0
    }
}

impl Host for Means {
    type Problem = Refused;

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
        Arc::new(Ticks)
    }

    fn today(&self) -> Arc<str> {
        Arc::clone(&self.date)
    }

    fn user(&self) -> &UserConfig {
        &self.user
    }

    fn current_dir(&self) -> &Path {
        Path::new(ROOT)
    }

    fn real(&self, path: &Path) -> io::Result<Place> {
        real(path)
    }

    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.models)
    }

    fn declared(&self) -> &BTreeMap<String, Provider> {
        &self.declared
    }

    fn grant(&self, _: &Place, _: &[MissingGrant]) -> Result<bool, Refused> {
        Ok(false)
    }

    fn attachment(&self, _: &Path, _: &WorkerDefinition) -> Result<Attachment, String> {
        Err("this module attaches no files".to_owned())
    }
}

const ROOT: &str = "/project";

/// Returns the place of the project in memory.
pub(crate) fn root() -> Place {
    Place::new(ROOT)
}

/// Returns the place of a path. Files in memory have no links.
pub(crate) fn real(path: &Path) -> io::Result<Place> {
    let path = Path::new(ROOT).join(path);
    path.to_str().map(Place::new).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Loads these definition files.
pub(crate) fn load(
    program: BTreeMap<String, String>,
    date: Arc<str>,
    files: Arc<dyn FileSystem>,
    redactor: Arc<Redactor>,
    models: Arc<dyn Models>,
) -> Result<Loaded<Means>, String> {
    let toolsets = ToolsetRegistry::built_in();
    let source = Source {
        tree: Arc::new(MemoryTree::new(root(), program)),
        start: Start::Entry(None),
        manifest: true,
        work: None,
    };
    let load_options = LoadOptions { toolsets: toolsets.clone(), ..Default::default() };
    let opening = Opening { source, load_options, request: Request::default() };
    let loaded = Loaded::load(opening, |program| {
        let declared = program.providers().clone();
        let toolsets = Arc::new(toolsets);
        Ok(Means { date, files, redactor, models, toolsets, user: UserConfig::default(), declared })
    });
    Ok(loaded?)
}

/// Polls a future until it is ready. Nothing here waits for an event from outside, so a future that is still not ready
/// never will be.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> Result<T, String> {
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
