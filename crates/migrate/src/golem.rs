//! golem-forge projects: `golem-forge.config.yaml`, workers in `workers/` and `.workers/`, `index.worker` as the entry.

/// The second workers root of a golem-forge project.
pub(super) const HIDDEN_ROOT: &str = ".workers";

/// The entry of a golem-forge project without a `main.worker`.
pub(super) const ENTRY: &str = "index.worker";

/// Returns true if a file is below a workers root, including the hidden one.
pub(super) fn is_rooted(path: &str) -> bool {
    path.starts_with("workers/") || path.strip_prefix(HIDDEN_ROOT).is_some_and(|rest| rest.starts_with('/'))
}
