//! The text that the user is writing: a caret between graphemes, undo, and killed texts.

use std::ops::Range;
use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation as _};

/// Steps that can be undone.
const UNDO: usize = 500;
/// The most bytes that all kept steps hold together, approximately.
const UNDO_BYTES: usize = 8 * 1024 * 1024;
/// Killed texts that are kept.
const KILLED: usize = 30;

/// Text with a caret in it.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    text: String,
    /// Position of the caret, in bytes; always between two graphemes.
    caret: usize,
    undo: Vec<Change>,
    redo: Vec<Change>,
    /// The next character joins the last step.
    joining: bool,
    killed: Vec<String>,
    /// The range of the text that the last yank inserted, and the index of the killed text.
    yanked: Option<(Range<usize>, usize)>,
    /// The last command was a kill: another one adds to it.
    killing: bool,
}

/// A replacement at a place, and how to take it back.
#[derive(Clone, Debug)]
struct Change {
    at: usize,
    removed: String,
    inserted: String,
    caret: usize,
}

/// A direction in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Back,
    Forward,
}

impl Draft {
    /// Returns an empty draft.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a draft with a text and the caret at its end.
    pub fn of(text: &str) -> Self {
        Self { text: text.to_owned(), caret: text.len(), ..Self::default() }
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the position of the caret, in bytes.
    pub fn caret(&self) -> usize {
        self.caret
    }

    /// Returns true if there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// Puts the caret at a place, or at the nearest one before it that lies between two graphemes.
    pub fn go(&mut self, place: usize) {
        self.caret = self.boundary(place.min(self.text.len()));
        self.rest();
    }

    /// Inserts text at the caret.
    pub fn insert(&mut self, text: &str) {
        let joining = self.joining && text.chars().count() == 1 && !text.starts_with(char::is_whitespace);
        let range = self.caret..self.caret;
        self.replace(range, text);
        if joining {
            self.join();
        }
        self.joining = text.chars().count() == 1;
    }

    /// Replaces everything. It can be undone.
    pub fn set(&mut self, text: &str) {
        self.replace(0..self.text.len(), text);
    }

    /// Takes the text out. It can be undone.
    pub fn take(&mut self) -> String {
        let text = self.text.clone();
        self.set("");
        text
    }

    /// Forgets the undo steps.
    pub(crate) fn forget(&mut self) {
        self.undo.clear();
        self.redo.clear();
        self.rest();
    }

    /// Replaces a range, with the caret behind the inserted text.
    pub(crate) fn replace(&mut self, range: Range<usize>, with: &str) {
        if self.text[range.clone()] == *with {
            return;
        }
        let change = Change {
            at: range.start,
            removed: self.text[range.clone()].to_owned(),
            inserted: with.to_owned(),
            caret: self.caret,
        };
        self.text.replace_range(range.clone(), with);
        self.caret = self.boundary_after(range.start + with.len());
        self.redo.clear();
        self.undo.push(change);
        let mut bytes = 0;
        let keep = self
            .undo
            .iter()
            .rev()
            .take(UNDO)
            .take_while(|change| {
                bytes += change.removed.len() + change.inserted.len();
                bytes <= UNDO_BYTES
            })
            .count();
        self.undo.drain(..self.undo.len() - keep.max(1));
        self.rest();
    }

    /// Makes the last two insertions one step.
    fn join(&mut self) {
        let Some(last) = self.undo.pop() else { return };
        match self.undo.last_mut() {
            Some(before) if before.at + before.inserted.len() == last.at && last.removed.is_empty() => {
                before.inserted.push_str(&last.inserted);
            }
            _ => self.undo.push(last),
        }
    }

    /// Ends the sequences of commands that have a joint effect: typing as one step, killing as one text, the choice of
    /// the text to yank.
    pub(crate) fn rest(&mut self) {
        self.joining = false;
        self.killing = false;
        self.yanked = None;
    }

    /// Takes the last step back. `false`: there is none.
    pub(crate) fn undo(&mut self) -> bool {
        let Some(change) = self.undo.pop() else { return false };
        self.text.replace_range(change.at..change.at + change.inserted.len(), &change.removed);
        self.caret = self.boundary(change.caret.min(self.text.len()));
        self.redo.push(change);
        self.rest();
        true
    }

    /// Does a step again that was taken back. `false`: there is none.
    pub(crate) fn redo(&mut self) -> bool {
        let Some(change) = self.redo.pop() else { return false };
        self.text.replace_range(change.at..change.at + change.removed.len(), &change.inserted);
        self.caret = self.boundary_after(change.at + change.inserted.len());
        self.undo.push(change);
        self.rest();
        true
    }

    /// Removes a range, to be yanked later. Kills in sequence make one text.
    pub(crate) fn kill(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let text = self.text[range.clone()].to_owned();
        let back = range.end == self.caret && range.start < self.caret;
        let killing = self.killing;
        self.replace(range, "");
        match self.killed.last_mut() {
            Some(last) if killing && back => last.insert_str(0, &text),
            Some(last) if killing => last.push_str(&text),
            _ => self.keep(text),
        }
        self.killing = true;
    }

    /// Keeps a text as if it were killed.
    pub(crate) fn keep(&mut self, text: String) {
        self.killed.push(text);
        if self.killed.len() > KILLED {
            self.killed.remove(0);
        }
    }

    /// Returns the text that was killed last.
    pub(crate) fn killed(&self) -> Option<&str> {
        self.killed.last().map(String::as_str)
    }

    /// Inserts the text that was killed last.
    pub(crate) fn yank(&mut self) {
        let Some(last) = self.killed.len().checked_sub(1) else { return };
        self.yank_killed(self.caret..self.caret, last);
    }

    /// Replaces the text of a yank directly before by the text that was killed before it.
    pub(crate) fn yank_older(&mut self) {
        let Some((range, which)) = self.yanked.take() else { return };
        let older = which.checked_sub(1).unwrap_or(self.killed.len() - 1);
        self.yank_killed(range, older);
    }

    fn yank_killed(&mut self, range: Range<usize>, which: usize) {
        let Some(text) = self.killed.get(which).cloned() else { return };
        let start = range.start;
        self.replace(range, &text);
        self.yanked = Some((start..start + text.len(), which));
    }

    /// Returns the place one grapheme further in that direction.
    pub(crate) fn next(&self, from: usize, way: Way) -> usize {
        let mut cursor = GraphemeCursor::new(from, self.text.len(), true);
        let found = match way {
            Way::Forward => cursor.next_boundary(&self.text, 0),
            Way::Back => cursor.prev_boundary(&self.text, 0),
        };
        // The whole text is at hand, so that no more context is ever wanted.
        found.ok().flatten().unwrap_or(match way {
            Way::Forward => self.text.len(),
            Way::Back => 0,
        })
    }

    /// Returns the end of the next word, or the start of the one before.
    pub(crate) fn word(&self, from: usize, way: Way) -> usize {
        let is_word = |text: &str| text.chars().any(char::is_alphanumeric) || text == "_";
        match way {
            Way::Forward => {
                let mut at = from;
                for piece in self.text[from..].split_word_bounds() {
                    at += piece.len();
                    if is_word(piece) {
                        return at;
                    }
                }
                at
            }
            Way::Back => {
                let mut at = from;
                for piece in self.text[..from].split_word_bounds().rev() {
                    at -= piece.len();
                    if is_word(piece) {
                        return at;
                    }
                }
                at
            }
        }
    }

    /// Returns the start of the line that a place is in.
    pub(crate) fn line_start(&self, from: usize) -> usize {
        self.text[..from].rfind('\n').map_or(0, |at| at + 1)
    }

    /// Returns the end of the line that a place is in, before its line break.
    pub(crate) fn line_end(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |at| from + at)
    }

    /// Returns the place with the same grapheme count in the line above or below. `None`: there is no such line.
    pub(crate) fn line_over(&self, from: usize, way: Way) -> Option<usize> {
        let start = self.line_start(from);
        let column = self.text[start..from].graphemes(true).count();
        let line = match way {
            Way::Back => self.line_start(start.checked_sub(1)?),
            Way::Forward => {
                let end = self.line_end(from);
                if end == self.text.len() {
                    return None;
                }
                end + 1
            }
        };
        let end = self.line_end(line);
        Some(self.text[line..end].grapheme_indices(true).nth(column).map_or(end, |(at, _)| line + at))
    }

    /// Swaps the graphemes around the caret.
    pub(crate) fn transpose(&mut self) {
        let at_end = self.caret == self.line_end(self.caret);
        let right_end = if at_end { self.caret } else { self.next(self.caret, Way::Forward) };
        let middle = self.next(right_end, Way::Back);
        if middle == 0 || middle <= self.line_start(right_end) {
            return;
        }
        let left = self.next(middle, Way::Back);
        let swapped = format!("{}{}", &self.text[middle..right_end], &self.text[left..middle]);
        self.replace(left..right_end, &swapped);
    }

    /// Returns the nearest place at or before this one that lies between two graphemes.
    fn boundary(&self, place: usize) -> usize {
        let mut at = place;
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        match GraphemeCursor::new(at, self.text.len(), true).is_boundary(&self.text, 0) {
            Ok(false) => self.next(at, Way::Back),
            Ok(true) | Err(_) => at,
        }
    }

    /// Returns the nearest place at or after this one that lies between two graphemes: a character before a mark forms
    /// one grapheme with it.
    fn boundary_after(&self, place: usize) -> usize {
        match GraphemeCursor::new(place, self.text.len(), true).is_boundary(&self.text, 0) {
            Ok(false) => self.next(place, Way::Forward),
            Ok(true) | Err(_) => place,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn typing_is_undone_by_words_and_redone() {
        let mut draft = Draft::new();
        "one two".chars().for_each(|c| draft.insert(c.encode_utf8(&mut [0; 4])));
        assert!(draft.undo());
        assert_eq!(draft.text(), "one");
        assert!(draft.redo());
        assert_eq!((draft.text(), draft.caret()), ("one two", 7));
    }

    #[test]
    fn the_caret_never_splits_a_grapheme() {
        let mut draft = Draft::of("a👩\u{200d}🔬e\u{301}");
        draft.go(3);
        assert_eq!(draft.caret(), 1);
        let after = draft.next(1, Way::Forward);
        assert_eq!(&draft.text()[1..after], "👩\u{200d}🔬");
    }

    #[test]
    fn kills_in_sequence_are_one_text() {
        let mut draft = Draft::of("one two three");
        draft.kill(8..13);
        draft.kill(4..8);
        assert_eq!((draft.text(), draft.killed()), ("one ", Some("two three")));
        draft.go(0);
        draft.yank();
        assert_eq!(draft.text(), "two threeone ");
    }

    #[test]
    fn graphemes_are_swapped() {
        let mut draft = Draft::of("ae\u{301}");
        draft.transpose();
        assert_eq!((draft.text(), draft.caret()), ("e\u{301}a", 4));
        let mut draft = Draft::of("x");
        draft.transpose();
        assert_eq!(draft.text(), "x");
    }

    proptest! {
        #[test]
        fn undoing_everything_gives_the_beginning(
            start in "[a-z\u{301}🙂\u{200d} \n]{0,12}",
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), "[a-z\u{301}🙂\n]{0,4}"), 0..12),
        ) {
            let mut draft = Draft::of(&start);
            for (from, to, text) in edits {
                draft.go(from.index(draft.text().len() + 1));
                let a = draft.caret();
                draft.go(to.index(draft.text().len() + 1));
                let b = draft.caret();
                draft.replace(a.min(b)..a.max(b), &text);
                prop_assert_eq!(draft.boundary(draft.caret()), draft.caret());
            }
            let end = draft.text().to_owned();
            while draft.undo() {}
            prop_assert_eq!(draft.text(), start);
            while draft.redo() {}
            prop_assert_eq!(draft.text(), end);
        }
    }
}
