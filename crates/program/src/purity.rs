//! Workers without effects: their calls only have a cost (`docs/reference/sandbox.md`).

use crate::effective::Effective;
use llm_do_core::toolset::ToolsetRegistry;
use std::{collections::BTreeMap, sync::Arc};

/// Returns true for a worker with no mounts, no tool with an effect and no callee with one.
pub(crate) fn is_pure(
    effective: &Effective,
    workers: &BTreeMap<Arc<str>, Arc<Effective>>,
    kinds: &ToolsetRegistry,
) -> bool {
    let mut waiting = vec![effective];
    let mut seen: Vec<&str> = Vec::new();
    while let Some(worker) = waiting.pop() {
        if seen.contains(&&*worker.definition.id) {
            continue;
        }
        seen.push(&worker.definition.id);
        let definition = &worker.definition;
        let code = !definition.tools.is_empty() || definition.code.is_some();
        let effects = code
            || !definition.server_tools.is_empty()
            || worker.toolsets.keys().any(|name| kinds.get(name).is_none_or(|kind| !kind.delegates()));
        // The callees of a pattern are known only at run time.
        let exact = worker.callees.len() == worker.calls.len();
        if effects || !definition.sandbox.narrowing.mounts.is_empty() || !exact {
            return false;
        }
        for (name, _) in &worker.calls {
            match workers.get(name) {
                Some(callee) => waiting.push(callee),
                None => return false,
            }
        }
    }
    true
}
