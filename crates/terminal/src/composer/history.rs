//! History of the texts that the user has sent or cleared, newest last.

/// Earlier texts of the user.
#[derive(Clone, Debug, Default)]
pub struct History {
    entries: Vec<String>,
    /// Position of the user in the history, and the draft to which the step after the newest entry returns.
    place: Option<(usize, String)>,
}

/// A search for an older text.
#[derive(Clone, Debug)]
pub(super) struct Search {
    pub(super) wanted: String,
    /// The entry that is shown.
    pub(super) found: Option<usize>,
    /// The draft that the search began with.
    pub(super) before: String,
}

impl History {
    /// Returns a history with these texts, the newest last.
    pub fn new(entries: Vec<String>) -> Self {
        Self { entries, place: None }
    }

    /// Returns the texts, the newest last.
    pub fn entries(&self) -> &[String] {
        &self.entries
    }

    /// Adds a text, unless it is blank or the same as the newest.
    pub fn add(&mut self, text: &str) {
        self.place = None;
        if !text.trim().is_empty() && self.entries.last().is_none_or(|last| last != text) {
            self.entries.push(text.to_owned());
        }
    }

    /// Moves to the text before the one that is shown, and returns it.
    pub(super) fn older(&mut self, draft: &str) -> Option<&str> {
        let (at, below) = match self.place.take() {
            None => (self.entries.len(), draft.to_owned()),
            Some(place) => place,
        };
        let older = at.checked_sub(1);
        self.place = if older.is_none() && at == self.entries.len() {
            None
        } else {
            Some((older.unwrap_or(at), below))
        };
        older.map(|at| self.entries[at].as_str())
    }

    /// Moves to the text after the one that is shown, and returns it; after the newest, the draft.
    pub(super) fn newer(&mut self) -> Option<String> {
        let (at, below) = self.place.take()?;
        match self.entries.get(at + 1) {
            None => Some(below),
            Some(entry) => {
                let entry = entry.clone();
                self.place = Some((at + 1, below));
                Some(entry)
            }
        }
    }

    /// Leaves the history, because the user edits the text that is shown: the next step begins at the newest entry
    /// again.
    pub(super) fn rest(&mut self) {
        self.place = None;
    }

    /// Returns the newest entry before `end` that contains a text. Letter case does not matter.
    pub(super) fn search(&self, wanted: &str, end: usize) -> Option<usize> {
        let wanted = wanted.to_lowercase();
        self.entries[..end.min(self.entries.len())]
            .iter()
            .rposition(|entry| entry.to_lowercase().contains(&wanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_draft_waits_below_the_newest() {
        let mut history = History::new(vec!["a".into(), "b".into()]);
        assert_eq!(history.older("draft"), Some("b"));
        assert_eq!(history.older("b"), Some("a"));
        assert_eq!(history.older("a"), None);
        assert_eq!(history.newer().as_deref(), Some("b"));
        assert_eq!(history.newer().as_deref(), Some("draft"));
        assert_eq!(history.newer(), None);
        assert_eq!(History::default().older("x"), None);
    }

    #[test]
    fn blank_and_repeated_texts_are_not_added() {
        let mut history = History::default();
        ["a", "a", " \n", "b"].iter().for_each(|text| history.add(text));
        assert_eq!(history.entries(), ["a", "b"]);
        assert_eq!(history.search("A", usize::MAX), Some(0));
    }
}
