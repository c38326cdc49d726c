//! The list of the kinds of toolsets that llm-do adds to the built-in ones.

use crate::{python::wait, settings::Environment};
use llm_do_core::{journal::Runtime, toolset::ToolsetRegistry, worker::WorkerDefinition};
use llm_do_host::Effects;
use llm_do_mcp::{ClientServers, Host, Keyring, Known, Mcp};
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

/// Registers the kinds, and returns the kind of MCP servers. Without `host` their tools can't be made, which is enough
/// for reading programs.
pub(crate) fn register(kinds: &mut ToolsetRegistry, host: Option<&Runners<'_>>) -> Arc<Mcp> {
    let custom = host.map_or_else(Custom::unbound, |host| Custom::new(Arc::clone(host.python)));
    let programs = host.map_or_else(Programs::unbound, |host| Programs::new(Arc::clone(host.python)));
    let shell = host.map_or_else(Shell::unbound, |host| {
        Shell::new(Arc::clone(host.environment), Arc::clone(host.confiner))
    });
    let mcp = match host {
        Some(host) if host.effects == Effects::Allowed => Mcp::new(Host {
            environment: Arc::clone(host.environment),
            confiner: Arc::clone(host.confiner),
            known: Known::of(host.home).with_keyring(Keyring::of(host.environment)),
        })
        .with_client(host.client_servers.clone()),
        Some(host) => Mcp::reading(Known::of(host.home)),
        None => Mcp::unbound(),
    };
    let mcp = Arc::new(mcp);
    kinds.register(Arc::clone(&mcp) as _);
    kinds.register(Arc::new(custom));
    kinds.register(Arc::new(programs));
    kinds.register(Arc::new(shell));
    mcp
}

/// Returns the kinds of toolsets that llm-do has, for reading programs: none of their tools can be called. A
/// [`crate::Session`] provides the means to run them. `home` is the user's folder of llm-do (`~/.llm-do`).
pub fn toolset_kinds(home: &Path) -> ToolsetRegistry {
    reading(ToolsetRegistry::built_in(), home)
}

/// Returns `kinds` with those that llm-do adds for reading programs.
pub(crate) fn reading(mut kinds: ToolsetRegistry, home: &Path) -> ToolsetRegistry {
    register(&mut kinds, None);
    kinds.register(Arc::new(Mcp::reading(Known::of(home))));
    kinds
}

/// Returns the runtimes that run the tools of these workers. A runtime that can't run is reported when a tool needs it.
pub(crate) fn runtimes(kinds: &ToolsetRegistry, workers: &[Arc<WorkerDefinition>]) -> Vec<Runtime> {
    let used = kinds.kinds().filter(|kind| workers.iter().any(|worker| kind.starts_processes(worker)));
    used.flat_map(|kind| wait(kind.runtimes(workers)).unwrap_or_default()).collect()
}
