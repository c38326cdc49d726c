//! The most that a run can do outside of its conversations, for hosts that describe a worker before it runs.

use llm_do_core::{
    authority::{Access, Authority, Network},
    risk::Risk,
    toolset::{Configuration, ToolsetRegistry},
    worker::WorkerDefinition,
};
use std::sync::Arc;

/// The most that a worker and all workers that it may call can do. It is an upper bound: a rule or an operator may still
/// refuse a call.
///
/// It is derived from the definitions: the tools of each worker with their risk, what its sandbox lets it write, and whether
/// its processes have the network. A tool or a callee that is only known in a run counts as one that can do anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Files can be changed or removed, or something like that elsewhere.
    pub changes: bool,
    /// Other machines can be reached, apart from those of the models.
    pub network: bool,
}

impl Reach {
    /// Everything.
    const ANYTHING: Self = Self { changes: true, network: true };

    /// Returns the reach of these workers, which are the entry and all that it may call.
    pub(crate) fn of(
        entry: &WorkerDefinition,
        workers: &[Arc<WorkerDefinition>],
        toolsets: &ToolsetRegistry,
        program: &Authority,
    ) -> Self {
        let handed = |worker: &WorkerDefinition| {
            worker.id == entry.id && worker.signature.parameters.iter().any(|p| p.path == Some(Access::Write))
        };
        let each = workers.iter().map(|worker| of_worker(worker, handed(worker), toolsets, program));
        each.fold(Self::default(), Self::and)
    }

    fn and(self, other: Self) -> Self {
        Self { changes: self.changes || other.changes, network: self.network || other.network }
    }
}

/// Returns the reach of one worker with the authority of the whole program, which no caller can extend.
fn of_worker(
    worker: &WorkerDefinition,
    handed: bool,
    toolsets: &ToolsetRegistry,
    program: &Authority,
) -> Reach {
    // A sandbox that can't be had fails the call.
    let Ok(authority) = program.narrow(&worker.id, &worker.sandbox.narrowing) else {
        return Reach::default();
    };
    let writes = handed || authority.view().mounts().iter().any(|mount| mount.access == Access::Write);
    let online = *authority.bounds().network() != Network::Off;
    let process = Reach { changes: writes || online, network: online };
    let mut reach = Reach { changes: false, network: !worker.server_tools.is_empty() };
    if worker.code.is_some() || toolsets.starts_processes(worker) {
        reach = reach.and(process);
    }
    for (name, whole) in toolsets.of(worker) {
        let Some(kind) = toolsets.get(&name) else { return Reach::ANYTHING };
        let Configuration { own, tools, .. } = Configuration::parse(&whole, &name).unwrap_or_default();
        let offered =
            |tool: &&&str| tools.as_ref().is_none_or(|tools| tools.iter().any(|name| name == **tool));
        reach = reach.and(match (kind.delegates(), kind.runs_code()) {
            // Callees that are named are among the workers. A delegation that may ask is one to others.
            (true, _) if kind.may_ask(worker, &own, tools.as_deref()) => Reach::ANYTHING,
            (true, _) => Reach::default(),
            (_, true) => process,
            _ if !kind.tools_are_known() => Reach::ANYTHING,
            _ => kind.tools().iter().filter(offered).fold(Reach::default(), |reach, tool| {
                reach.and(match kind.risk(tool) {
                    Some(Risk::Read | Risk::Delegate) => Reach::default(),
                    Some(Risk::Write | Risk::Destructive) => Reach { changes: writes, network: false },
                    Some(Risk::Exec) => process,
                    Some(Risk::Network) | None => Reach::ANYTHING,
                })
            }),
        });
    }
    reach
}
