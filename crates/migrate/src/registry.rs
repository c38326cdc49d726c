//! The flat registry: a folder of workers that runs found by name on `LLM_DO_PATH`, without a project.

use crate::{golem, inventory::Inventory};
use llm_do_program::manifest_names;

/// Returns true if a tree is a flat registry: it has no manifest, no entry and no workers root.
pub(super) fn is_flat(inventory: &Inventory) -> bool {
    let entry = |path: &str| {
        matches!(path, "main.worker" | "main.agent" | "main.yaml" | "main.yml") || path == golem::ENTRY
    };
    let worker = |path: &str| [".worker", ".agent", ".yaml", ".yml"].iter().any(|e| path.ends_with(e));
    let project = |path: &String| {
        entry(path)
            || path == "lib.yaml"
            || manifest_names::is_named_so(path)
            || (golem::is_rooted(path) && worker(path))
    };
    !inventory.files.iter().any(project)
}
