//! The definitions of a program with the limits of a run's options (`--set limits.KEY=VALUE`).

use llm_do_core::{
    authority::Mount,
    source::{FunctionId, FunctionSource},
    worker::{DefinitionError, Definitions, Delegation, GivenLimits, WorkerDefinition},
};
use llm_do_program::Program;
use std::sync::Arc;

struct Limited {
    program: Arc<Program>,
    limits: GivenLimits,
}

/// Returns the definitions of a program under these limits.
pub(crate) fn definitions(program: &Arc<Program>, limits: GivenLimits) -> Arc<dyn Definitions> {
    let program = Arc::clone(program);
    if limits == GivenLimits::default() { program } else { Arc::new(Limited { program, limits }) }
}

/// Returns a worker under these limits, if they may replace its own.
pub(crate) fn worker(worker: &Arc<WorkerDefinition>, limits: GivenLimits) -> Arc<WorkerDefinition> {
    if worker.locked || limits == GivenLimits::default() {
        return Arc::clone(worker);
    }
    Arc::new(WorkerDefinition { limits: limits.over(&worker.limits), ..WorkerDefinition::clone(worker) })
}

impl Limited {
    fn limit(&self, found: &Arc<WorkerDefinition>) -> Arc<WorkerDefinition> {
        worker(found, self.limits)
    }
}

impl Definitions for Limited {
    fn worker(
        &self,
        from: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        Definitions::worker(&*self.program, from, reference).map(|found| self.limit(&found))
    }

    fn named_by(
        &self,
        package: &FunctionSource,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        self.program.named_by(package, reference).map(|found| self.limit(&found))
    }

    fn identified(&self, worker: &FunctionId) -> Option<Arc<WorkerDefinition>> {
        self.program.identified(worker).map(|found| self.limit(&found))
    }

    fn mount(&self, worker: &WorkerDefinition, name: &str) -> Option<Mount> {
        self.program.mount(worker, name)
    }

    fn matching(&self, from: &WorkerDefinition, glob: &str) -> Vec<String> {
        self.program.matching(from, glob)
    }

    fn project_name(&self) -> &str {
        self.program.project_name()
    }

    fn delegation(&self) -> Delegation {
        self.program.delegation()
    }
}
