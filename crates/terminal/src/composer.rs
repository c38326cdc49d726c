//! The composer: the draft of the next message with its keys, history and completion.
//!
//! | key | does |
//! |---|---|
//! | Enter | sends; behind `\` it breaks the line |
//! | Ctrl-J, Shift-Enter, Alt-Enter | breaks the line |
//! | Up, Down, Ctrl-P, Ctrl-N | a line up or down, at the edges the history |
//! | Ctrl-R | searches the history; again: further back; Ctrl-G: back to the draft |
//! | Tab, arrows | takes a candidate, chooses one; Escape hides them |
//! | Ctrl-A E B F, Alt-B F, Alt-< > | start and end of the line, characters, words, start and end of the draft |
//! | Ctrl-D H, Ctrl-K U W, Alt-D, Alt-Backspace | delete; kill to the end or the start of the line, and words |
//! | Ctrl-Y, Alt-Y | yanks what was killed; what was killed before that |
//! | Ctrl-T, Alt-T, Alt-U L C | swaps characters or words, changes letter case |
//! | Ctrl-_, Ctrl-X Ctrl-U, Alt-_ | takes a change back; does it again |
//! | Ctrl-X Ctrl-E | opens an editor |
//! | Ctrl-C | clears the draft, which Up brings back |
//!
//! With vi's keys, Escape leads to normal mode: counts, `h l j k w b e 0 ^ $ gg G f t ; ,`, the operators `d c y` with
//! them and with the objects `iw i" i(`, and `x s r ~ J p P u`, Ctrl-R, `i a I A o O`.

mod completion;
mod draft;
mod emacs;
pub mod fuzzy;
mod history;
mod vi;
mod view;

pub use completion::{Candidate, Candidates, Completer, NoCompletion};
pub use draft::Draft;
pub use history::History;
pub(crate) use view::draft_rows;

use crate::keys::{Code, Key};
use completion::Menu;
use draft::Way;
use emacs::Did;
use history::Search;
use vi::Vi;

/// Edits a text by a key of Emacs. Keys that lead out of the text do nothing.
pub(crate) fn edit_line(draft: &mut Draft, key: Key) {
    emacs::key(draft, key);
}

/// The keys that edit the draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Editing {
    /// Emacs's, as in most shells.
    #[default]
    Emacs,
    /// vi's keys. The composer starts in insert mode.
    Vi,
}

/// The effect of a key beyond the draft.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The key had no effect beyond the draft.
    Edited,
    /// The draft was sent. It is in the history now, and the composer is empty.
    Submitted(String),
    /// Ctrl-X Ctrl-E: the user wants to write in an editor. [`Composer::set`] takes the result.
    OpenEditor,
    /// Ctrl-C with an empty draft.
    Interrupt,
    /// Ctrl-D with an empty draft.
    End,
    /// Ctrl-Z.
    Suspend,
    /// The key has no meaning here.
    Ignored,
}

/// The draft of the next message. It is never taken away from the user.
pub struct Composer {
    draft: Draft,
    editing: Editing,
    vi: Vi,
    history: History,
    search: Option<Search>,
    menu: Option<Menu>,
    completer: Box<dyn Completer>,
    /// Ctrl-X was typed.
    control_x: bool,
}

impl Composer {
    /// Returns an empty composer.
    pub fn new(editing: Editing, history: History, completer: Box<dyn Completer>) -> Self {
        Self {
            draft: Draft::new(),
            editing,
            vi: Vi::default(),
            history,
            search: None,
            menu: None,
            completer,
            control_x: false,
        }
    }

    /// Returns the draft.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    /// Returns the history. Texts that were cleared with Ctrl-C are in it, too.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns true if a search of the history is open.
    pub fn is_searching(&self) -> bool {
        self.search.is_some()
    }

    /// Replaces the draft, for example with the text from an editor, or with a queued message to be changed.
    pub fn set(&mut self, text: &str) {
        self.search = None;
        self.draft.set(text);
        self.changed();
    }

    /// Inserts pasted text as text, whatever it holds.
    pub fn paste(&mut self, text: &str) {
        self.control_x = false;
        self.accept_search();
        self.draft.insert(text);
        self.draft.rest();
        self.changed();
    }

    /// Applies a key.
    pub fn key(&mut self, key: Key) -> Outcome {
        if std::mem::take(&mut self.control_x) && key.modifiers.control {
            match key.code {
                Code::Char('e') => return Outcome::OpenEditor,
                Code::Char('u') => {
                    self.draft.undo();
                    return self.changed();
                }
                _ => {}
            }
        }
        if self.search.is_some() {
            return self.search_key(key);
        }
        if let Some(outcome) = self.menu_key(key) {
            return outcome;
        }
        match (key.code, key.modifiers.control, key.modifiers.alt, key.modifiers.shift) {
            (Code::Char('c'), true, ..) => self.clear(),
            (Code::Char('d'), true, ..) if self.draft.is_empty() => Outcome::End,
            (Code::Char('z'), true, ..) => Outcome::Suspend,
            (Code::Char('x'), true, ..) => {
                self.control_x = true;
                Outcome::Edited
            }
            (Code::Char('r'), true, ..) if !self.vi_is_normal() => self.search(),
            (Code::Tab, false, false, false) => self.complete(),
            (Code::Enter, _, alt, shift) if alt || shift => self.insert_break(),
            (Code::Enter, ..) => self.enter(),
            _ => self.edit(key),
        }
    }

    fn edit(&mut self, key: Key) -> Outcome {
        let before = self.draft.text().len();
        let caret = self.draft.caret();
        let did = match self.editing {
            Editing::Emacs => emacs::key(&mut self.draft, key),
            Editing::Vi => self.vi.key(&mut self.draft, key),
        };
        match did {
            Did::Nothing => Outcome::Ignored,
            Did::Search => self.search(),
            Did::Left(Way::Back) => {
                let older = self.history.older(self.draft.text()).map(str::to_owned);
                self.show_entry(older)
            }
            Did::Left(Way::Forward) => {
                let newer = self.history.newer();
                self.show_entry(newer)
            }
            Did::Something if (before, caret) == (self.draft.text().len(), self.draft.caret()) => {
                Outcome::Edited
            }
            Did::Something => {
                if before != self.draft.text().len() {
                    self.history.rest();
                }
                self.changed()
            }
        }
    }

    /// Handles Enter: sends the draft. Behind a backslash it makes a line break.
    fn enter(&mut self) -> Outcome {
        let caret = self.draft.caret();
        if self.draft.text()[..caret].ends_with('\\') && !self.vi_is_normal() {
            self.draft.replace(caret - 1..caret, "\n");
            return self.changed();
        }
        if self.draft.text().trim().is_empty() {
            return Outcome::Edited;
        }
        let text = self.draft.take();
        self.draft.forget();
        self.vi.reset();
        self.menu = None;
        self.history.add(&text);
        Outcome::Submitted(text)
    }

    fn insert_break(&mut self) -> Outcome {
        self.draft.insert("\n");
        self.changed()
    }

    /// Handles Ctrl-C: clears the draft, which the history keeps.
    fn clear(&mut self) -> Outcome {
        if self.draft.is_empty() {
            return Outcome::Interrupt;
        }
        let text = self.draft.take();
        self.history.add(&text);
        self.vi.reset();
        self.changed()
    }

    fn show_entry(&mut self, entry: Option<String>) -> Outcome {
        match entry {
            Some(entry) => {
                self.draft.set(&entry);
                self.menu = None;
                Outcome::Edited
            }
            None => Outcome::Ignored,
        }
    }

    /// Updates the candidates after a change of the draft.
    fn changed(&mut self) -> Outcome {
        let (text, caret) = (self.draft.text(), self.draft.caret());
        self.menu = self
            .completer
            .candidates(text, caret)
            .filter(|found| found.replaces.end == caret && text.get(found.replaces.clone()).is_some())
            .and_then(Menu::new);
        Outcome::Edited
    }

    /// Applies a key while candidates are shown. `None`: the key is for the draft.
    fn menu_key(&mut self, key: Key) -> Option<Outcome> {
        let menu = self.menu.as_mut()?;
        let plain = key.modifiers == Key::plain(key.code).modifiers;
        match key.code {
            Code::Down if plain => menu.step(true),
            Code::Up if plain => menu.step(false),
            Code::Tab if key.modifiers.shift => menu.step(false),
            Code::Tab if plain => return Some(self.take_candidate()),
            Code::Enter if plain && menu.chosen => return Some(self.take_candidate()),
            Code::Escape if plain => self.menu = None,
            _ => return None,
        }
        Some(Outcome::Edited)
    }

    fn complete(&mut self) -> Outcome {
        self.changed();
        if self.menu.as_ref().is_some_and(|menu| menu.candidates.list.len() == 1) {
            return self.take_candidate();
        }
        if self.menu.is_some() { Outcome::Edited } else { Outcome::Ignored }
    }

    fn take_candidate(&mut self) -> Outcome {
        let Some(mut menu) = self.menu.take() else { return Outcome::Ignored };
        let candidate = menu.candidates.list.swap_remove(menu.selected);
        self.draft.replace(menu.candidates.replaces, &candidate.text);
        // What was just inserted would only be offered again.
        Outcome::Edited
    }

    /// Begins a search of the history.
    fn search(&mut self) -> Outcome {
        let before = self.draft.text().to_owned();
        self.search = Some(Search { wanted: String::new(), found: None, before });
        Outcome::Edited
    }

    fn search_key(&mut self, key: Key) -> Outcome {
        let Some(search) = &mut self.search else { return Outcome::Ignored };
        let end = match (key.code, key.modifiers.control) {
            (Code::Char('r'), true) => search.found.unwrap_or(usize::MAX),
            (Code::Char('g' | 'c'), true) => {
                let before = std::mem::take(&mut search.before);
                self.search = None;
                self.draft.set(&before);
                return self.changed();
            }
            (Code::Backspace, _) | (Code::Char('h'), true) => {
                search.wanted.pop();
                usize::MAX
            }
            (Code::Enter | Code::Escape | Code::Tab, _) => {
                self.accept_search();
                return Outcome::Edited;
            }
            _ => match key.typed() {
                Some(c) => {
                    search.wanted.push(c);
                    search.found.map_or(usize::MAX, |found| found + 1)
                }
                None => {
                    self.accept_search();
                    return self.key(key);
                }
            },
        };
        if search.wanted.is_empty() {
            search.found = None;
            return Outcome::Edited;
        }
        let found = self.history.search(&search.wanted, end);
        if let Some(found) = found {
            search.found = Some(found);
            self.draft.set(&self.history.entries()[found]);
        }
        Outcome::Edited
    }

    /// Ends the search and keeps the text that it found as the draft.
    fn accept_search(&mut self) {
        self.search = None;
    }

    fn vi_is_normal(&self) -> bool {
        self.editing == Editing::Vi && self.vi.is_normal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Modifiers;

    struct Commands;

    impl Completer for Commands {
        fn candidates(&mut self, text: &str, caret: usize) -> Option<Candidates> {
            let typed = text.get(..caret)?.strip_prefix('/')?;
            let names = ["help", "tools", "model", "compact"];
            let list = fuzzy::rank(typed, names, |name| name)
                .into_iter()
                .map(|name| Candidate { text: format!("/{name} "), note: String::new() })
                .collect();
            (!typed.contains(' ')).then_some(Candidates { replaces: 0..caret, list })
        }
    }

    fn composer() -> Composer {
        Composer::new(Editing::Emacs, History::new(vec!["first".into(), "second".into()]), Box::new(Commands))
    }

    fn typed(composer: &mut Composer, text: &str) {
        for c in text.chars() {
            assert_eq!(composer.key(Key::char(c)), Outcome::Edited);
        }
    }

    const UP: Key = Key::plain(Code::Up);
    const DOWN: Key = Key::plain(Code::Down);

    #[test]
    fn enter_sends_and_three_keys_break_the_line() {
        let mut composer = composer();
        typed(&mut composer, "a");
        composer.key(Key::control('j'));
        typed(&mut composer, "b");
        let shift = Modifiers { shift: true, ..Modifiers::default() };
        composer.key(Key { code: Code::Enter, modifiers: shift });
        typed(&mut composer, "c\\");
        composer.key(Key::ENTER);
        typed(&mut composer, "d");
        assert_eq!(composer.key(Key::ENTER), Outcome::Submitted("a\nb\nc\nd".into()));
        assert!(composer.draft().is_empty());
        assert_eq!(composer.key(Key::ENTER), Outcome::Edited);
    }

    #[test]
    fn control_c_clears_and_up_brings_the_draft_back() {
        let mut composer = composer();
        typed(&mut composer, "draft");
        assert_eq!(composer.key(Key::control('c')), Outcome::Edited);
        assert!(composer.draft().is_empty());
        composer.key(UP);
        assert_eq!(composer.draft().text(), "draft");
        composer.key(Key::control('c'));
        assert_eq!(composer.key(Key::control('c')), Outcome::Interrupt);
        assert_eq!(composer.key(Key::control('d')), Outcome::End);
    }

    #[test]
    fn a_slash_in_normal_mode_searches_the_history() {
        let history = History::new(vec!["find me".into(), "second".into()]);
        let mut composer = Composer::new(Editing::Vi, history, Box::new(Commands));
        composer.key(Key::plain(Code::Escape));
        typed(&mut composer, "/find");
        assert_eq!((composer.draft().text(), composer.is_searching()), ("find me", true));
        composer.key(Key::ENTER);
        assert_eq!((composer.draft().text(), composer.is_searching()), ("find me", false));
        // In insert mode it is a character.
        typed(&mut composer, "A/");
        assert_eq!(composer.draft().text(), "find me/");
    }

    #[test]
    fn pasted_text_is_part_of_what_a_dot_repeats() {
        let mut composer = Composer::new(Editing::Vi, History::default(), Box::new(Commands));
        composer.paste("x");
        composer.key(Key::plain(Code::Escape));
        typed(&mut composer, "A");
        composer.paste("yz");
        composer.key(Key::plain(Code::Escape));
        typed(&mut composer, ".");
        assert_eq!(composer.draft().text(), "xyzyz");
    }

    #[test]
    fn control_d_with_a_draft_deletes() {
        let mut composer = composer();
        typed(&mut composer, "ab");
        composer.key(Key::control('a'));
        assert_eq!(composer.key(Key::control('d')), Outcome::Edited);
        assert_eq!(composer.draft().text(), "b");
    }

    #[test]
    fn arrows_leave_a_draft_only_at_its_edges() {
        let mut composer = composer();
        composer.paste("x\ny");
        composer.key(UP);
        assert_eq!(composer.draft().text(), "x\ny");
        composer.key(UP);
        assert_eq!(composer.draft().text(), "second");
        composer.key(DOWN);
        assert_eq!(composer.draft().text(), "x\ny");
    }

    #[test]
    fn history_is_searched_backwards() {
        let mut composer = composer();
        typed(&mut composer, "draft");
        composer.key(Key::control('r'));
        typed(&mut composer, "s");
        assert_eq!(composer.draft().text(), "second");
        composer.key(Key::control('r'));
        assert_eq!(composer.draft().text(), "first");
        composer.key(Key::control('g'));
        assert_eq!(composer.draft().text(), "draft");
    }

    #[test]
    fn candidates_are_chosen_with_arrows_and_tab() {
        let mut composer = composer();
        typed(&mut composer, "/mo");
        composer.key(Key::plain(Code::Tab));
        assert_eq!(composer.draft().text(), "/model ");
        composer.key(Key::control('c'));
        typed(&mut composer, "/");
        composer.key(DOWN);
        assert_eq!(composer.key(Key::ENTER), Outcome::Edited);
        assert_eq!(composer.draft().text(), "/tools ");
        // Enter sends while nothing was chosen on purpose.
        composer.key(Key::control('c'));
        typed(&mut composer, "/help");
        assert_eq!(composer.key(Key::ENTER), Outcome::Submitted("/help".into()));
    }

    #[test]
    fn pasted_text_is_text() {
        let mut composer = composer();
        let large = "line\n".repeat(20_000);
        composer.paste(&large);
        assert_eq!(composer.draft().text(), large);
        assert_eq!(composer.key(Key::control('_')), Outcome::Edited);
        assert!(composer.draft().is_empty());
    }

    #[test]
    fn the_editor_is_asked_for() {
        let mut composer = composer();
        typed(&mut composer, "x");
        composer.key(Key::control('x'));
        assert_eq!(composer.key(Key::control('e')), Outcome::OpenEditor);
        composer.set("edited");
        assert_eq!(composer.draft().text(), "edited");
    }

    #[test]
    fn vi_begins_in_insert_mode() {
        let mut composer = Composer::new(Editing::Vi, History::default(), Box::new(NoCompletion));
        typed(&mut composer, "one two");
        composer.key(Key::plain(Code::Escape));
        typed(&mut composer, "bdw");
        assert_eq!(composer.draft().text(), "one ");
        assert_eq!(composer.key(Key::ENTER), Outcome::Submitted("one ".into()));
        typed(&mut composer, "x");
        assert_eq!(composer.draft().text(), "x");
    }
}
