//! A single question on a terminal without a conversation. It behaves as a question of a [`crate::Console`] that always
//! has the keys.

use crate::{
    event::Event,
    keys::Key,
    question::{Answer, Asking, Question, Rejection, Taken},
    screen::{Live, Screen, Settings, Size},
};
use std::io::{self, Write};

/// The result of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The question was answered. It stays until [`Prompt::leave`].
    Answered(Answer),
    /// Ctrl-C.
    Interrupt,
    /// Ctrl-D where no text is entered.
    End,
    /// The window has kept its size for a moment after a change: text above the question can be shown again.
    Settled,
    /// Stop this process as Ctrl-Z does: [`Prompt::leave`], [`crate::Tty::suspend`], [`Prompt::enter`].
    Suspend,
    /// The terminal is gone.
    Closed,
}

/// A question in the live rows of a terminal.
pub struct Prompt<W> {
    screen: Screen<W>,
    asking: Asking,
}

impl<W: Write> Prompt<W> {
    /// Returns a question on a terminal whose cursor is in the first column of an empty row. `hint` says how to leave
    /// the question. Writes nothing yet.
    pub fn new(out: W, size: Size, settings: Settings, question: Question, hint: &'static str) -> Self {
        Self { screen: Screen::new(out, size, settings), asking: Asking::alone(question, hint) }
    }

    /// Returns the size that is drawn for.
    pub fn size(&self) -> Size {
        self.screen.size()
    }

    /// Returns true if a single key answers, or begins an answer. Otherwise the user enters a text, an option or a
    /// form.
    pub fn is_at_keys(&self) -> bool {
        self.asking.is_at_keys()
    }

    /// Draws the question.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn draw(&mut self) -> io::Result<()> {
        let (size, ambiguous) = (self.screen.size(), self.screen.settings().ambiguous);
        let Live { rows, caret } = self.asking.view(size.live_columns(), ambiguous, size.rows());
        self.screen.live(rows, caret)
    }

    /// Shows why the answer is not usable. The entered text stays.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn reject(&mut self, rejection: impl Into<Rejection>) -> io::Result<()> {
        self.asking.reject(rejection.into());
        self.draw()
    }

    /// Handles an event, draws, and returns the user's request if it is for the caller.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn event(&mut self, event: Event) -> io::Result<Option<Heard>> {
        let mut heard = None;
        match event {
            Event::Key(key) => heard = self.key(key),
            Event::Paste(text) => self.asking.paste(&text),
            Event::Focus(_) => {}
            Event::Resize(size) => self.screen.resize(size)?,
            Event::Settled => heard = Some(Heard::Settled),
            Event::Resumed => self.screen.redraw()?,
            Event::Closed => return Ok(Some(Heard::Closed)),
        }
        self.draw()?;
        Ok(heard)
    }

    /// Removes the live rows.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn leave(&mut self) -> io::Result<()> {
        self.screen.leave()
    }

    /// Draws the live rows again after [`Prompt::leave`], for the size that the terminal has now.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn enter(&mut self, size: Size) -> io::Result<()> {
        self.screen.resize(size)?;
        self.screen.enter()?;
        self.draw()
    }

    fn key(&mut self, key: Key) -> Option<Heard> {
        if key == Key::control('c') {
            return Some(Heard::Interrupt);
        }
        if key == Key::control('z') {
            return Some(Heard::Suspend);
        }
        if key == Key::control('d') && !self.asking.has_draft() {
            return Some(Heard::End);
        }
        match self.asking.key(key) {
            Taken::Answered(answer) => Some(Heard::Answered(answer)),
            Taken::Key => None,
        }
    }
}
