//! `.agent` files: workers under an older extension, known by their `name`.

/// Their extension.
pub(super) const EXTENSION: &str = ".agent";
