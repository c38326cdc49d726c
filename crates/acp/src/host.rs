//! The port to the program that serves the protocol.

use llm_do::{Problem, Session, Settings};
use std::path::Path;

/// The program that serves the protocol: its command line, its environment, and its words.
pub trait Host: Send + Sync + 'static {
    /// Returns the settings of a session in that folder, which is absolute. Relative paths of the settings count from
    /// the folder, but for the program's own.
    ///
    /// # Errors
    /// A description of the problem with the command line, and its solution.
    fn settings(&self, folder: &Path) -> Result<Settings, String>;
    /// Explains a problem: its cause, and its solution.
    fn explain(&self, problem: &Problem) -> String;
    /// Shows the warnings of a program that was opened, away from the protocol.
    fn opened(&self, session: &Session);
    /// Shows a note, away from the protocol.
    fn note(&self, text: &str);
}
