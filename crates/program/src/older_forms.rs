//! The port of a converter of older forms, and the marks that an interrupted change of a program leaves.
//!
//! The front end reads current forms, and some older ones. A converter (the package `llm-do-migrate`) knows all of them,
//! so that an error can name the command that fixes it.

use crate::{diagnostics::Diagnostic, start::Source};

/// Prefix of folders with new files before they are moved. A leftover folder belongs to a killed process.
pub const WAITING: &str = ".llm-do-new-";

/// The moves in progress, as JSON from source to target. If the file is left over, the moves may be partly done. It
/// is in a folder that worker tools cannot reach, because the command that finishes the moves changes definitions.
pub const MOVES: &str = ".llm-do/moves.json";

/// The effect of a conversion on the errors of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cures {
    /// The conversion was not planned: no error is of a kind that it could fix.
    Unasked,
    /// The conversion would change no file.
    Nothing,
    /// The conversion would change files.
    Something,
}

/// A converter of older forms.
pub trait OlderForms: Send + Sync {
    /// Adds the command that converts the program to those errors that it would fix.
    fn add_hints(&self, source: &Source, found: &mut [Diagnostic]) -> Cures;

    /// Returns true if the conversion would not change these files, each by itself. If it would change no file of the
    /// program before these were edited, it would then change none now.
    fn changes_none_of(&self, source: &Source, paths: &[String]) -> bool;
}
