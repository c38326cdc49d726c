//! Completion of the text at the caret.

use std::ops::Range;

/// Rows of candidates that are shown at once.
const SHOWN: usize = 6;

/// A source of candidates for the text at the caret: commands, files, names.
pub trait Completer: Send {
    /// Returns the candidates for the text before the caret (a position in bytes), the best first, or `None` if there
    /// is nothing to complete. Called after each change, so it has to be quick.
    fn candidates(&mut self, text: &str, caret: usize) -> Option<Candidates>;
}

/// A completer without candidates.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCompletion;

impl Completer for NoCompletion {
    fn candidates(&mut self, _: &str, _: usize) -> Option<Candidates> {
        None
    }
}

/// Candidates for a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// The bytes of the text that a candidate replaces. They end at the caret.
    pub replaces: Range<usize>,
    /// The candidates, the best first.
    pub list: Vec<Candidate>,
}

/// A text that can replace that part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The text that is inserted.
    pub text: String,
    /// A short description of the candidate.
    pub note: String,
}

/// The candidates on the screen, one of them selected.
#[derive(Clone, Debug)]
pub(super) struct Menu {
    pub(super) candidates: Candidates,
    pub(super) selected: usize,
    /// The user has moved the selection.
    pub(super) chosen: bool,
}

impl Menu {
    /// Returns a menu, if there is at least one candidate.
    pub(super) fn new(candidates: Candidates) -> Option<Self> {
        (!candidates.list.is_empty()).then_some(Self { candidates, selected: 0, chosen: false })
    }

    /// Selects the next candidate, or the one before; from the last on it begins again.
    pub(super) fn step(&mut self, forward: bool) {
        let count = self.candidates.list.len();
        self.selected = if forward { self.selected + 1 } else { self.selected + count - 1 } % count;
        self.chosen = true;
    }

    /// Returns the candidates that are shown, each with true if it is selected.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Candidate, bool)> {
        let first = (self.selected + 1).saturating_sub(SHOWN);
        let candidates = self.candidates.list.iter().enumerate().skip(first).take(SHOWN);
        candidates.map(|(number, candidate)| (candidate, number == self.selected))
    }
}
