//! golem-forge projects: `golem-forge.config.yaml`, workers in `workers/` and `.workers/`, `index.worker` as the entry.

/// Its second workers root.
pub(super) const HIDDEN_ROOT: &str = ".workers";

/// Its entry, where there is no `main.worker`.
pub(super) const ENTRY: &str = "index.worker";

/// Whether a file is below a workers root, including the hidden one.
pub(super) fn is_rooted(path: &str) -> bool {
    path.starts_with("workers/") || path.strip_prefix(HIDDEN_ROOT).is_some_and(|rest| rest.starts_with('/'))
}
