//! The language server of llm-do, over stdin and stdout. See `docs/reference/lsp.md`.
//!
//! The main thread reads messages and keeps the texts of open documents. It never checks anything, so that an edit or a
//! cancellation is noticed at once. A second thread owns the programs with their checkers and answers what depends on them. A
//! third one answers what follows from the text of one document. All language features are those of
//! `llm_do_program::language`; this crate converts them to the protocol.

mod analysis;
mod answers;
mod capabilities;
mod documents;
mod findings;
mod places;
mod programs;
mod progress;
mod server;
mod syntax;

use llm_do::{Settings, host::program::line_index::Columns};
use lsp_server::Connection;
use std::{path::Path, sync::Arc};

/// The host of a language server.
pub trait Host: Send + Sync {
    /// Returns the settings for opening a program from a folder.
    ///
    /// # Errors
    /// The settings are wrong.
    fn settings(&self, folder: &Path) -> Result<Settings, String>;
}

/// The end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client ended it with `shutdown` and `exit`.
    Properly,
    /// The client ended it without `shutdown`, or its end of the connection closed.
    Abruptly,
}

/// The capabilities and settings of the client.
#[derive(Clone, Debug)]
struct Client {
    columns: Columns,
    /// True if the client asks for findings of open documents.
    pulls: bool,
    refreshes_findings: bool,
    shows_progress: bool,
    watches_files: bool,
    renames_files: bool,
    /// True if code of the workspace may be inspected.
    trusted: bool,
}

/// Serves one client over stdin and stdout.
///
/// # Errors
/// The protocol was broken.
pub fn serve(host: Arc<dyn Host>) -> Result<Ended, String> {
    let (connection, threads) = Connection::stdio();
    let ended = server::run(&connection, host);
    // The writer ends when all senders are gone. The reader may still wait for stdin, and ends with the process.
    drop(connection);
    if matches!(ended, Ok(Ended::Properly)) {
        threads.join().map_err(|error| error.to_string())?;
    }
    ended
}
