//! The whole screen, and the routing of keys.

use crate::{
    composer::{Composer, Editing, History, NoCompletion, Outcome},
    event::Event,
    keys::{Code, Key},
    osc::Sequence,
    question::{Answer, Asking, FOCUS, Question, Rejection, Taken},
    screen::{Caret, Live, Screen, Settings, Size},
    style::Line,
};
use anstyle::{Effects, Style};
use std::io::{self, Write};

/// The most queued messages that are shown; further ones are counted.
const QUEUED: usize = 3;
/// The most rows of an unfinished answer that are shown.
const TAIL: usize = 6;
const DIM: Style = Style::new().effects(Effects::DIMMED);
/// Shown after Ctrl-C where there is nothing to clear and nothing to stop.
const HINT: &str = "Ctrl-D ends the chat";

/// A request of the user to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send this message, or queue it while an answer runs.
    Submit(String),
    /// Stop the answer that runs.
    Interrupt,
    /// End the conversation.
    End,
    /// Open an editor with this draft. [`Composer::set`] takes the edited text. The terminal must be left while the
    /// editor runs ([`Console::leave`], [`crate::Tty::leave`]).
    OpenEditor(String),
    /// Take the last message out of the queue and put it into the composer.
    EditQueued,
    /// A question was answered. It is not shown any more; [`Console::reject`] brings it back.
    Answered {
        /// [`Question::id`].
        id: String,
        /// The answer.
        answer: Answer,
    },
    /// The window has kept its size for a moment after a change: a question in the transcript can be shown again.
    Settled,
    /// Stop this process as Ctrl-Z does: [`Console::leave`], [`crate::Tty::suspend`], [`Console::enter`].
    Suspend,
    /// The terminal is gone.
    Closed,
}

/// A conversation on a terminal: the transcript, and in the live rows the end of an unfinished answer, a question, the
/// queue, the composer and a status row.
///
/// The setters do not draw. [`Console::draw`], [`Console::print`] and [`Console::event`] draw, and write only the
/// differences.
pub struct Console<W> {
    screen: Screen<W>,
    /// A function that asks the terminal for its size.
    measure: Option<Box<dyn Fn() -> Size>>,
    composer: Composer,
    question: Option<Asking>,
    /// The question that was answered last, in case the caller rejects the answer.
    answered: Option<Asking>,
    tail: Vec<Line>,
    queue: Vec<String>,
    status: Line,
    hint: bool,
    busy: bool,
    /// True if the window has the focus; `None` if the terminal does not report it.
    window: Option<bool>,
    title: String,
}

impl<W: Write> Console<W> {
    /// Returns a console with an empty composer. Writes nothing yet.
    pub fn new(out: W, size: Size, settings: Settings) -> Self {
        Self {
            screen: Screen::new(out, size, settings),
            measure: None,
            composer: Composer::new(Editing::Emacs, History::default(), Box::new(NoCompletion)),
            question: None,
            answered: None,
            tail: Vec::new(),
            queue: Vec::new(),
            status: Line::new(),
            hint: false,
            busy: false,
            window: None,
            title: String::new(),
        }
    }

    /// Returns the console with another composer.
    #[must_use]
    pub fn with_composer(mut self, composer: Composer) -> Self {
        self.composer = composer;
        self
    }

    /// Returns the console with a function that measures the terminal before each change: rows that are drawn for
    /// another width stay in the transcript.
    #[must_use]
    pub fn measured(mut self, size: impl Fn() -> Size + 'static) -> Self {
        self.measure = Some(Box::new(size));
        self
    }

    /// Returns the composer.
    pub fn composer(&self) -> &Composer {
        &self.composer
    }

    /// Returns the composer, to change its draft.
    pub fn composer_mut(&mut self) -> &mut Composer {
        &mut self.composer
    }

    /// Returns the size that is drawn for.
    pub fn size(&self) -> Size {
        self.screen.size()
    }

    /// Returns the settings.
    pub fn settings(&self) -> Settings {
        self.screen.settings()
    }

    /// Returns the writer.
    pub fn get_ref(&self) -> &W {
        self.screen.get_ref()
    }

    /// Sets whether an answer runs: Ctrl-C stops it.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Sets the status row. An empty line: none.
    pub fn set_status(&mut self, status: Line) {
        self.status = status;
    }

    /// Sets the messages that wait, the oldest first.
    pub fn set_queue(&mut self, queue: Vec<String>) {
        self.queue = queue;
    }

    /// Sets the lines of the answer that are not finished, so that they may still change. Finished ones are printed.
    pub fn set_tail(&mut self, tail: Vec<Line>) {
        self.tail = tail;
    }

    /// Shows a question in place of the one before. It has no focus.
    pub fn ask(&mut self, question: Question) {
        self.question = Some(Asking::new(question));
    }

    /// Removes a question, for example because another operator has answered it. Keys go to the composer again.
    pub fn withdraw(&mut self, id: &str) {
        self.question = self.question.take().filter(|asking| asking.id() != id);
        self.answered = self.answered.take().filter(|asking| asking.id() != id);
    }

    /// Shows the question again that was answered last, with the entered text, and the reason why the answer is not
    /// usable. Does nothing if another question has come in the meantime.
    pub fn reject(&mut self, id: &str, rejection: impl Into<Rejection>) {
        if self.question.is_none()
            && let Some(mut asking) = self.answered.take().filter(|asking| asking.id() == id)
        {
            asking.reject(rejection.into());
            self.question = Some(asking);
        }
    }

    /// Shows the question again that was answered last, because the answer was a request to see more.
    pub fn ask_again(&mut self, id: &str) {
        if self.question.is_none()
            && let Some(mut asking) = self.answered.take().filter(|asking| asking.id() == id)
        {
            asking.take_focus();
            self.question = Some(asking);
        }
    }

    /// Returns true if keys go to a question.
    pub fn is_question_focused(&self) -> bool {
        self.question.as_ref().is_some_and(Asking::is_focused)
    }

    /// Writes lines to the end of the transcript, and draws.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn print(&mut self, lines: &[Line]) -> io::Result<()> {
        if let Some(measure) = &self.measure {
            self.screen.resize(measure())?;
        }
        let live = self.layout();
        self.screen.update(lines, live)
    }

    /// Draws the current state.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn draw(&mut self) -> io::Result<()> {
        self.print(&[])
    }

    /// Handles an event, draws, and returns the user's request if it is for the caller.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn event(&mut self, event: Event) -> io::Result<Option<Action>> {
        let mut action = None;
        match event {
            Event::Key(key) => action = self.key(key),
            Event::Paste(text) => match self.focused() {
                Some(asking) => asking.paste(&text),
                None => self.composer.paste(&text),
            },
            Event::Focus(focused) => self.window = Some(focused),
            Event::Resize(size) => self.screen.resize(size)?,
            Event::Settled => action = Some(Action::Settled),
            Event::Resumed => self.screen.redraw()?,
            Event::Closed => return Ok(Some(Action::Closed)),
        }
        self.draw()?;
        Ok(action)
    }

    /// Removes the live rows, so that another program can use the terminal, or at the end.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn leave(&mut self) -> io::Result<()> {
        self.screen.leave()
    }

    /// Draws the live rows again after [`Console::leave`], for the size that the terminal has now.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn enter(&mut self, size: Size) -> io::Result<()> {
        self.screen.resize(size)?;
        self.screen.enter()?;
        self.draw()
    }

    /// Sets the title of the window, if it is another one.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn set_title(&mut self, title: &str) -> io::Result<()> {
        if title == self.title {
            return Ok(());
        }
        title.clone_into(&mut self.title);
        self.screen.control(&Sequence::title(title))
    }

    /// Notifies the user if the window is known not to have the focus. `true`: it has been done.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn notify(&mut self, text: &str) -> io::Result<bool> {
        if self.window != Some(false) {
            return Ok(false);
        }
        self.screen.control(&Sequence::notification(text, self.screen.settings().notice))?;
        Ok(true)
    }

    /// Puts a text into the clipboard of the terminal. `false`: it is larger than terminals accept.
    ///
    /// # Errors
    /// The terminal can't be written to.
    pub fn copy(&mut self, text: &str) -> io::Result<bool> {
        match Sequence::copy(text) {
            Some(sequence) => self.screen.control(&sequence).map(|()| true),
            None => Ok(false),
        }
    }

    fn focused(&mut self) -> Option<&mut Asking> {
        self.question.as_mut().filter(|asking| asking.is_focused())
    }

    fn key(&mut self, key: Key) -> Option<Action> {
        self.hint = false;
        if let Some(asking) = self.focused() {
            return match asking.key(key) {
                Taken::Key => None,
                Taken::Answered(answer) => {
                    let id = asking.id().to_owned();
                    self.answered = self.question.take();
                    Some(Action::Answered { id, answer })
                }
            };
        }
        if key == FOCUS
            && !self.composer.is_searching()
            && let Some(asking) = &mut self.question
        {
            asking.take_focus();
            return None;
        }
        if key == Key::plain(Code::Up) && !self.queue.is_empty() && self.composer.draft().is_empty() {
            return Some(Action::EditQueued);
        }
        match self.composer.key(key) {
            Outcome::Edited | Outcome::Ignored => None,
            Outcome::Submitted(text) => Some(Action::Submit(text)),
            Outcome::OpenEditor => Some(Action::OpenEditor(self.composer.draft().text().to_owned())),
            Outcome::Interrupt if self.busy => Some(Action::Interrupt),
            Outcome::Interrupt => {
                self.hint = true;
                None
            }
            Outcome::End => Some(Action::End),
            Outcome::Suspend => Some(Action::Suspend),
        }
    }

    /// Returns the live rows from the top. If there is little room, the composer comes before everything else.
    fn layout(&self) -> Live {
        let size = self.screen.size();
        let ambiguous = self.screen.settings().ambiguous;
        let columns = size.live_columns();
        let composer = self.composer.view(size, ambiguous, (size.rows() / 2).max(1));
        let status = if self.hint { Line::styled(HINT, DIM) } else { self.status.clone() };
        let status = (!status.is_empty() && size.rows() > 1).then_some(status);
        let mut room = size.rows().saturating_sub(composer.rows.len() + usize::from(status.is_some()));
        let queue = self.queue_rows(room.saturating_sub(1));
        room -= queue.len();
        let question = self.question.as_ref().map(|asking| asking.view(columns, ambiguous, room));
        let question = question.unwrap_or_default();
        room = room.saturating_sub(question.rows.len());
        let tail: Vec<Line> = self.tail.iter().flat_map(|line| line.wrapped(columns, ambiguous)).collect();
        let shown = tail.len().min(TAIL).min(room);

        let mut live = Live { rows: tail[tail.len() - shown..].to_vec(), caret: None };
        let mut stack = |rows: Vec<Line>, caret: Option<Caret>| {
            if let Some(caret) = caret {
                live.caret = Some(Caret { row: caret.row + live.rows.len(), ..caret });
            }
            live.rows.extend(rows);
        };
        let focused = question.caret;
        stack(question.rows, question.caret);
        stack(queue, None);
        stack(composer.rows, composer.caret.filter(|_| focused.is_none()));
        stack(status.into_iter().collect(), None);
        live
    }

    fn queue_rows(&self, most: usize) -> Vec<Line> {
        let shown = if self.queue.len() > QUEUED { QUEUED - 1 } else { self.queue.len() };
        let mut rows: Vec<Line> = self.queue[..shown]
            .iter()
            .map(|text| {
                let first = text.lines().next().unwrap_or_default();
                let more = if text.lines().nth(1).is_some() { " …" } else { "" };
                // Only the beginning is ever seen.
                let first: String = first.chars().take(500).collect();
                Line::styled(&format!("queued: {first}{more}"), DIM)
            })
            .collect();
        if self.queue.len() > shown {
            rows.push(Line::styled(&format!("queued: {} more", self.queue.len() - shown), DIM));
        }
        rows.truncate(most);
        rows
    }
}
