//! Starts a server as a confined process.

use crate::{configuration::Command, package::Installed, starter::Starter};
use llm_do_core::{
    authority::{Authority, Mount, Narrowing, VirtualPath},
    function::FunctionSource,
    worker::WorkerDefinition,
};
use llm_do_sandbox::confine::{
    Channel, Confinement, Process, ProcessView, Running, Tier, Watching, env_allowlist,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::unix::pipe;

/// All that is needed to start a server.
pub(crate) struct Launch {
    command: Command,
    /// The package that holds the server's program.
    installed: Option<Installed>,
    /// The root of the program or library that defines the server.
    root: PathBuf,
    /// The working directory.
    folder: Option<PathBuf>,
    pub(crate) view: ProcessView,
    /// The authority from which the view was made.
    pub(crate) authority: Arc<Authority>,
    /// The authority of the worker.
    pub(crate) workers: Arc<Authority>,
    pub(crate) confinement: Confinement,
}

/// A server's process.
pub(crate) struct Started {
    pub(crate) running: Running,
    /// The standard input of the process.
    pub(crate) input: pipe::Sender,
    /// A handle that is held until the process has ended.
    pub(crate) watching: Watching,
}

impl Launch {
    /// Determines the places that the server may see.
    ///
    /// # Errors
    /// The server can't be started there.
    pub(crate) async fn prepare(
        command: Command,
        worker: &WorkerDefinition,
        workers: Arc<Authority>,
        starter: &Starter,
    ) -> Result<Self, String> {
        // Workers that are found only during the run were not asked about when it began.
        let line = command.command_line();
        if !workers.bounds().allows_process(&line) {
            return Err(format!(
                "`{line}` was not granted when the run began: add `--grant 'process={line}'`"
            ));
        }
        let (packages, of) = (starter.known.packages(), command.clone());
        let installed = tokio::task::spawn_blocking(move || of.installed(&packages)).await;
        let installed = installed.map_err(|error| error.to_string())??;
        let confinement = starter.confiner.confinement().map_err(|error| error.to_string())?;
        let tier = match confinement {
            Confinement::Tier(tier) => tier,
            Confinement::Unconfined => Tier::Namespaces,
        };
        let authority = Arc::new(with_paths(&command, worker, &workers)?);
        let of = Arc::clone(&authority);
        let view = tokio::task::spawn_blocking(move || ProcessView::of(&of, tier)).await;
        let view = view.map_err(|error| error.to_string())?;
        let mut view =
            view.map_err(|error| format!("the places that it may see can't be searched: {error}"))?;
        let root = Path::new(worker.root.as_str());
        // What its arguments name is relative to the same folder as its command and its `paths`.
        let mut folder = view.leading_to(root.to_owned(), confinement);
        // A folder around the program holds what the library's caller may not see.
        let around = workers.protection().root().is_within(&worker.root);
        if matches!(worker.source, FunctionSource::Library(_)) && !around {
            view = view.with_readable([root.to_owned()]);
            folder = Some(root.to_owned());
        }
        let package = installed.iter().map(|installed| installed.folder.clone());
        view = view.with_readable(package);
        Ok(Self { command, installed, root: root.to_owned(), folder, view, authority, workers, confinement })
    }

    /// Returns a key that is equal for processes that may touch the same places and network.
    pub(crate) fn key(&self) -> String {
        let (view, network) = (self.view.key(), self.workers.bounds().network());
        format!("{} {view} {network:?}", self.root.display())
    }

    /// Starts the server. The process ends when the result is dropped.
    ///
    /// # Errors
    /// The server can't be started.
    pub(crate) async fn start(&self, run: &str, starter: &Starter) -> Result<Started, String> {
        let failed = |error: std::io::Error| format!("it could not be started: {error}");
        let environment = &starter.environment;
        let (theirs, ours) = std::io::pipe().map_err(failed)?;
        let input = pipe::Sender::from_owned_fd(ours.into()).map_err(failed)?;
        let mut env = env_allowlist(|name| environment(name));
        let granted = |name: &str| self.workers.bounds().allows_variable(name);
        env.extend(self.command.environment(granted, |name| environment(name))?);
        let process = Process {
            args: self.command.args.iter().map(Into::into).collect(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: self.folder.clone(),
            network: self.workers.bounds().network().clone(),
            channel: Some(Channel::Input(theirs.into())),
            ..Process::new(self.program(), self.view.clone(), self.confinement)
        };
        let watching = starter.confiner.watch().begin(run, &self.view, &self.authority);
        let running = process.start().await.map_err(|error| error.to_string())?;
        Ok(Started { running, input, watching })
    }

    /// Returns the path of the program: of the package, else a name is looked up in `PATH`, and a path is relative to
    /// the root.
    fn program(&self) -> PathBuf {
        if let Some(installed) = &self.installed {
            return installed.program(&self.command.command);
        }
        match self.command.command.contains('/') {
            true => self.root.join(&self.command.command),
            false => self.command.command.clone().into(),
        }
    }
}

/// Returns the worker's authority, with the places of `paths` in its view.
fn with_paths(
    command: &Command,
    worker: &WorkerDefinition,
    workers: &Authority,
) -> Result<Authority, String> {
    // Workers that are found only during the run were not checked when it began.
    if let Some(problem) = command.problems(worker).into_iter().next() {
        return Err(problem.reason);
    }
    let extents = command.extents(&worker.root)?;
    let mut handed = Vec::new();
    for (number, extent) in extents.into_iter().enumerate() {
        if workers.bounds().covering(&extent.place, extent.access).is_none() {
            return Err(format!(
                "`paths`: {} is outside of what the worker may touch: grant it, or widen the worker's `sandbox`",
                extent.place
            ));
        }
        let at = VirtualPath::root().join(&format!("mcp-paths/{number}"));
        handed.push(Mount::new(at, extent.place, extent.access));
    }
    let narrowing = Narrowing { handed, ..Narrowing::default() };
    workers.narrow("mcp", &narrowing).map_err(|refusal| refusal.to_string())
}
