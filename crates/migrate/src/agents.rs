//! `.agent` files: workers under an older extension, known by their `name`.

/// The extension of the files.
pub(super) const EXTENSION: &str = ".agent";
