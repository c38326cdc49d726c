//! The list of the kinds of toolsets that llm-do adds to the built-in ones.

use crate::{python::wait, settings::Environment};
use llm_do_core::{journal::Runtime, toolset::ToolsetRegistry, worker::WorkerDefinition};
use llm_do_host::Effects;
use llm_do_mcp::{ClientServers, Host, Keyring, Mcp, ServerFiles};
use llm_do_python::{Custom, Programs, Python};
use llm_do_sandbox::{confine::Confiner, shell::Shell};
use std::{path::Path, sync::Arc};

/// Dependencies of the kinds when they run their tools.
pub(crate) struct Runners<'a> {
    pub(crate) python: &'a Arc<Python>,
    pub(crate) environment: &'a Environment,
    pub(crate) confiner: &'a Arc<Confiner>,
    /// The user's folder of llm-do.
    pub(crate) home: &'a Path,
    pub(crate) effects: Effects,
    /// The MCP servers of the session's client.
    pub(crate) client_servers: ClientServers,
}

/// Registers the kinds with their runtimes, and returns that of MCP servers.
pub(crate) fn register(kinds: &mut ToolsetRegistry, host: &Runners<'_>) -> Arc<Mcp> {
    let mcp = match host.effects {
        Effects::Allowed => Mcp::new(Host {
            environment: Arc::clone(host.environment),
            confiner: Arc::clone(host.confiner),
            known: ServerFiles::of(host.home).with_keyring(Keyring::of(host.environment)),
        })
        .with_client(host.client_servers.clone()),
        _ => Mcp::reading(ServerFiles::of(host.home)),
    };
    let mcp = Arc::new(mcp);
    kinds.register(Arc::clone(&mcp) as _);
    kinds.register(Arc::new(Custom::new(Arc::clone(host.python))));
    kinds.register(Arc::new(Programs::new(Arc::clone(host.python))));
    kinds.register(Arc::new(Shell::new(Arc::clone(host.environment), Arc::clone(host.confiner))));
    mcp
}

/// Returns the kinds of toolsets that llm-do has, for reading programs: none of their tools can be called. A
/// [`crate::Session`] provides the means to run them. `home` is the user's folder of llm-do (`~/.llm-do`).
pub fn toolset_kinds(home: &Path) -> ToolsetRegistry {
    described(ToolsetRegistry::built_in(), home)
}

/// Returns `kinds` with descriptions of those that llm-do adds.
pub(crate) fn described(mut kinds: ToolsetRegistry, home: &Path) -> ToolsetRegistry {
    kinds.describe(Arc::new(Mcp::reading(ServerFiles::of(home))));
    kinds.describe(Arc::new(Custom::unbound()));
    kinds.describe(Arc::new(Programs::unbound()));
    kinds.describe(Arc::new(Shell::unbound()));
    kinds
}

/// Returns the runtimes that run the tools of these workers. A runtime that can't run is reported when a tool needs it.
pub(crate) fn runtimes(kinds: &ToolsetRegistry, workers: &[Arc<WorkerDefinition>]) -> Vec<Runtime> {
    let used = kinds.kinds().filter(|kind| workers.iter().any(|worker| kind.starts_processes(worker)));
    let runtimes = used.filter_map(|kind| kinds.runtime(kind.name()).ok());
    runtimes.flat_map(|kind| wait(kind.runtimes(workers)).unwrap_or_default()).collect()
}
