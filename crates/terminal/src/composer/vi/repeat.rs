//! The command `.`: repeats the last change.

use super::Vi;
use crate::{
    composer::{draft::Draft, emacs::Did},
    keys::Key,
};

/// A recorder of the current change, which also keeps the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    last: Option<Change>,
    /// The keys of the current command. Empty: it can't be repeated.
    keys: Vec<Key>,
    /// The draft before the command, or before the text that is inserted with it.
    before: String,
    /// Position where the command began to insert, in insert mode.
    inserts_at: Option<usize>,
}

/// A change that can be repeated.
#[derive(Clone, Debug, Default)]
struct Change {
    /// The keys of the command.
    keys: Vec<Key>,
    /// The text that was inserted, if the command entered insert mode.
    inserted: String,
}

impl Recorder {
    /// Returns the recorder for the next draft, in which the same change can be made.
    pub(super) fn between_drafts(self) -> Self {
        Self { last: self.last, ..Self::default() }
    }

    /// Starts recording a command.
    pub(super) fn begin(&mut self, draft: &Draft) {
        self.keys.clear();
        draft.text().clone_into(&mut self.before);
    }

    /// Records a key of the command.
    pub(super) fn key(&mut self, key: Key) {
        self.keys.push(key);
    }

    /// Discards the command, because `.` does not repeat it.
    pub(super) fn forget(&mut self) {
        self.keys.clear();
    }

    /// Ends the command.
    pub(super) fn end(&mut self, draft: &Draft) {
        let keys = std::mem::take(&mut self.keys);
        if !keys.is_empty() && draft.text() != self.before {
            self.last = Some(Change { keys, inserted: String::new() });
        }
    }

    /// Records that the command continues in insert mode.
    pub(super) fn entered_insert_mode(&mut self, draft: &Draft) {
        draft.text().clone_into(&mut self.before);
        self.inserts_at = Some(draft.caret());
    }

    /// Records the end of insert mode. Changes elsewhere than at the place where it began can't be repeated.
    pub(super) fn left_insert_mode(&mut self, draft: &Draft) {
        let Some((before, after)) = self.inserts_at.take().and_then(|at| self.before.split_at_checked(at))
        else {
            return;
        };
        let inserted = draft.text().strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        if let Some(inserted) = inserted.map(str::to_owned) {
            self.last = Some(Change { keys: std::mem::take(&mut self.keys), inserted });
        }
    }
}

impl Vi {
    /// Repeats the last change, with another count if one is given.
    pub(super) fn repeat(&mut self, draft: &mut Draft) -> Did {
        let count = self.count.take();
        let Some(mut change) = self.recorder.last.clone() else { return Did::Nothing };
        if let Some(count) = count {
            let is_digit = |key: &&Key| key.typed().is_some_and(|c| c.is_ascii_digit());
            let own = change.keys.iter().take_while(is_digit).count();
            change.keys.splice(..own, count.to_string().chars().map(Key::char));
        }
        draft.rest();
        for key in &change.keys {
            self.normal_key(draft, *key);
        }
        if !self.normal {
            draft.insert(&change.inserted);
            self.end_insert(draft);
        }
        draft.rest();
        self.recorder.last = Some(change);
        Did::Something
    }
}
