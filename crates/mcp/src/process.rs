//! Starts a server as a confined process.

use crate::configuration::Server;
use llm_do_core::authority::{Authority, Mount, Narrowing, VirtualPath};
use llm_do_sandbox::confine::{
    Channel, Confinement, Confiner, Process, ProcessView, Running, Tier, Watching, env_allowlist,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::net::unix::pipe;

/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What it takes to start a server.
pub(crate) struct Launch {
    pub(crate) server: Server,
    pub(crate) view: ProcessView,
    /// What the view was made for.
    pub(crate) authority: Arc<Authority>,
    /// The authority of the worker.
    pub(crate) workers: Arc<Authority>,
    pub(crate) confinement: Confinement,
}

/// A server's process.
pub(crate) struct Started {
    pub(crate) running: Running,
    /// Its standard input.
    pub(crate) input: pipe::Sender,
    /// Held until the process has ended.
    pub(crate) watching: Watching,
}

impl Launch {
    /// Looks at the places that the server may see.
    ///
    /// # Errors
    /// Why it can't be started there.
    pub(crate) async fn prepare(
        server: Server,
        workers: Arc<Authority>,
        confiner: &Confiner,
    ) -> Result<Self, String> {
        // Workers that are found only during the run were not asked about when it began.
        let command = server.command_line();
        if !workers.bounds().allows_process(&command) {
            return Err(format!(
                "`{command}` was not granted when the run began: add `--grant 'process={command}'`"
            ));
        }
        let confinement = confiner.confinement().map_err(|error| error.to_string())?;
        let tier = match confinement {
            Confinement::Tier(tier) => tier,
            Confinement::Unconfined => Tier::Namespaces,
        };
        let authority = Arc::new(with_paths(&server, &workers)?);
        let of = Arc::clone(&authority);
        let view = tokio::task::spawn_blocking(move || ProcessView::of(&of, tier)).await;
        let view = view.map_err(|error| error.to_string())?;
        let view = view.map_err(|error| format!("the places that it may see can't be searched: {error}"))?;
        Ok(Self { server, view, authority, workers, confinement })
    }

    /// Equal for servers that are started in the same way and may touch the same.
    pub(crate) fn key(&self) -> String {
        format!("{} {} {:?}", self.server.key(), self.view.key(), self.workers.bounds().network())
    }

    /// Starts it. The process ends with the result.
    ///
    /// # Errors
    /// Why it can't be started.
    pub(crate) async fn start(
        &self,
        run: &str,
        confiner: &Confiner,
        environment: &Environment,
    ) -> Result<Started, String> {
        let failed = |error: std::io::Error| format!("it could not be started: {error}");
        let (theirs, ours) = std::io::pipe().map_err(failed)?;
        let input = pipe::Sender::from_owned_fd(ours.into()).map_err(failed)?;
        let mut env = env_allowlist(|name| environment(name));
        let granted = |name: &str| self.workers.bounds().allows_variable(name);
        env.extend(self.server.environment(granted, |name| environment(name))?);
        let process = Process {
            args: self.server.args.iter().map(Into::into).collect(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: self.view.working_folder(&self.workers, self.confinement),
            network: self.workers.bounds().network().clone(),
            channel: Some(Channel::Input(theirs.into())),
            ..Process::new(self.program(), self.view.clone(), self.confinement)
        };
        let watching = confiner.watch().begin(run, &self.view, &self.authority);
        let running = process.start().await.map_err(|error| error.to_string())?;
        Ok(Started { running, input, watching })
    }

    /// The program: a name is looked up in `PATH`, and a path is relative to the program's root.
    fn program(&self) -> PathBuf {
        let command = Path::new(&self.server.command);
        match self.server.command.contains('/') {
            true => Path::new(self.authority.protection().root().as_str()).join(command),
            false => command.to_owned(),
        }
    }
}

/// The worker's authority, with the places of `paths` in its view.
fn with_paths(server: &Server, workers: &Authority) -> Result<Authority, String> {
    let extents = server.extents(workers.protection().root())?;
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
