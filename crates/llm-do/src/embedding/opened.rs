//! State shared by all calls of an opened program.

use super::options::Options;
use llm_do_host::ModelSource;
use std::path::PathBuf;
use tempfile::TempDir;

/// State of an opened program beside its definitions.
pub(super) struct Opened {
    /// Options of all runs.
    pub(super) options: Options,
    /// The user's folder of llm-do.
    pub(super) home: PathBuf,
    /// The current directory when the program was opened.
    pub(super) here: PathBuf,
    pub(super) source: ModelSource,
    /// The folder of the journals, if it is removed with the last handle of the program.
    pub(super) _temporary: Option<TempDir>,
}
