//! The port to the program that serves the protocol.

use llm_do::{Problem, Session, Settings};
use std::path::Path;

/// The program that serves the protocol: its command line, its environment, and its words.
pub trait Host: Send + Sync + 'static {
    /// The settings of a session in that folder, which is absolute. Relative paths of the settings count from the folder,
    /// but for the program's own.
    ///
    /// # Errors
    /// What is wrong with the command line, and what to do.
    fn settings(&self, folder: &Path) -> Result<Settings, String>;
    /// What is wrong, and what to do.
    fn explain(&self, problem: &Problem) -> String;
    /// Shows the warnings of a program that was opened, away from the protocol.
    fn opened(&self, session: &Session);
    /// Shows a note, away from the protocol.
    fn note(&self, text: &str);
}
