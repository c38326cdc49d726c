//! The operator's terminal: `/dev/tty`, wherever stdin, stdout and stderr are redirected. Asks questions when no chat
//! has the terminal.

mod lines;

use crate::{
    paint::Paint,
    questions::{choice, keys, line},
    visible,
};
use lines::Line;
use llm_do_terminal::{
    Ambiguous, Answer, Code, Event, Events, Heard, Key, Kind, Notice, Prompt, Question, Rejection, Settings,
    Stopper, Tty, plain_is_wanted,
};
use rustix::{
    process::{Signal, kill_current_process_group},
    termios::{QueueSelector, tcflush},
};
use std::{
    env,
    fs::File,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// The controlling terminal. It is in another mode during a question; [`Terminal::restore`] resets it from any thread,
/// so that every way of ending the process does.
pub(crate) struct Terminal(Arc<Tty>);

impl Terminal {
    /// Opens the terminal of this process, if it has one that can be read.
    pub(crate) fn open() -> Option<Arc<Self>> {
        Tty::open().ok().map(|tty| Arc::new(Self(tty)))
    }

    /// Shows text. Does nothing if the terminal is gone.
    fn show(&self, text: &str) {
        let _ = (&*self.0).write_all(text.as_bytes());
    }

    /// Restores the terminal's mode.
    pub(crate) fn restore(&self) {
        self.0.leave();
    }

    /// Asks a question that is answered with one of these keys, and shows the word of that key. `None`: the terminal is
    /// gone, or the user pressed Ctrl-D.
    pub(crate) fn choose(
        self: &Arc<Self>,
        text: impl Fn(usize) -> String + Send + 'static,
        keys: &[(char, &str)],
        paint: Paint,
    ) -> Option<char> {
        self.choose_while(text, keys, paint, |_| {})
    }

    /// Asks like [`Terminal::choose`], with a question that may be withdrawn: the result is then `None`, too.
    pub(crate) fn choose_while(
        self: &Arc<Self>,
        text: impl Fn(usize) -> String + Send + 'static,
        keys: &[(char, &str)],
        paint: Paint,
        asked: impl FnOnce(Withdrawal),
    ) -> Option<char> {
        let kind = Kind::Keys(keys.iter().map(|(key, word)| choice(*key, word)).collect());
        let mut dialogue = Dialogue::begin(self, kind, "Ctrl-D: no", paint, Box::new(text)).ok()?;
        asked(dialogue.withdrawal());
        let entered = dialogue.next();
        let chosen = match &entered {
            Entered::Answer(Answer::Key(chosen, _)) => Some(*chosen),
            _ => None,
        };
        let word = keys.iter().find(|(key, _)| Some(*key) == chosen);
        let without = if matches!(entered, Entered::Gone) { "no answer" } else { "no" };
        dialogue.finish(word.map_or(without, |(_, word)| word));
        chosen
    }
}

impl Terminal {
    /// Asks for a secret, which is not shown. `None`: Ctrl-C, Ctrl-D, or the terminal is gone.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn hidden(&self, label: &str) -> io::Result<Option<String>> {
        let mut events = self.0.events()?;
        // What is typed as soon as the label stands there must not be shown either.
        self.0.enter()?;
        self.show(label);
        let mut text = String::new();
        let entered = loop {
            match events.next(None) {
                Some(Event::Key(key)) => match key {
                    Key::ENTER => break Some(text),
                    key if [Key::control('c'), Key::control('d')].contains(&key) => break None,
                    key if key == Key::control('u') => text.clear(),
                    key if key.code == Code::Backspace => drop(text.pop()),
                    key => text.extend(key.typed()),
                },
                Some(Event::Paste(pasted)) => text.push_str(&pasted),
                None | Some(Event::Closed) => break None,
                Some(_) => {}
            }
        };
        self.restore();
        self.show("\n");
        Ok(entered)
    }
}

/// An entry of the user.
pub(crate) enum Entered {
    /// An answer, which may not fit yet.
    Answer(Answer),
    /// The user pressed Ctrl-D.
    End,
    /// Nothing was entered: the question was withdrawn, or the terminal is gone.
    Gone,
}

/// A question on the terminal, until dropped.
pub(crate) struct Dialogue {
    terminal: Arc<Terminal>,
    /// The rows above the keys, for a number of columns.
    text: Box<dyn Fn(usize) -> String + Send>,
    withdrawn: Arc<AtomicBool>,
    face: Face,
}

enum Face {
    /// A prompt in live rows that reads single keys.
    Keys {
        prompt: Box<Prompt<File>>,
        events: Events,
        /// Columns for which the text was shown.
        columns: usize,
    },
    /// Lines, on a terminal that can't move its cursor, or for a screen reader.
    Lines(Kind),
}

/// A handle that withdraws a question, from any thread.
pub(crate) struct Withdrawal {
    withdrawn: Arc<AtomicBool>,
    stopper: Option<Stopper>,
}

impl Withdrawal {
    pub(crate) fn withdraw(&self) {
        self.withdrawn.store(true, Ordering::Release);
        if let Some(stopper) = &self.stopper {
            stopper.stop();
        }
    }
}

impl Dialogue {
    /// Shows a question. Earlier input is dropped, so that no key typed ahead answers a question that was not read.
    /// `hint` describes the keys that are no answers.
    ///
    /// # Errors
    /// The terminal is gone.
    pub(crate) fn begin(
        terminal: &Arc<Terminal>,
        kind: Kind,
        hint: &'static str,
        paint: Paint,
        text: Box<dyn Fn(usize) -> String + Send>,
    ) -> io::Result<Self> {
        let tty = &terminal.0;
        let face = if plain_is_wanted(false, true, |name| env::var(name).ok()) {
            Face::Lines(kind)
        } else {
            let settings = Settings {
                colour: paint.is_on(),
                links: false,
                reflow: Tty::reflow(|name| env::var(name).ok()),
                ambiguous: Ambiguous::default(),
                notice: Notice::of(env::var("TERM").ok().as_deref()),
            };
            let question = Question { id: String::new(), text: Vec::new(), kind };
            let prompt = Prompt::new(tty.handle()?, tty.size(), settings, question, hint);
            Face::Keys { prompt: Box::new(prompt), events: tty.events()?, columns: 0 }
        };
        let mut dialogue = Self { terminal: Arc::clone(terminal), text, withdrawn: Arc::default(), face };
        dialogue.enter()?;
        dialogue.show_text()?;
        Ok(dialogue)
    }

    /// Returns a handle that withdraws the question.
    pub(crate) fn withdrawal(&self) -> Withdrawal {
        let stopper = match &self.face {
            Face::Keys { events, .. } => Some(events.stopper()),
            Face::Lines(_) => None,
        };
        Withdrawal { withdrawn: Arc::clone(&self.withdrawn), stopper }
    }

    /// Returns the next entry. Blocks its thread.
    pub(crate) fn next(&mut self) -> Entered {
        self.wait().unwrap_or(Entered::Gone)
    }

    /// Shows why an answer is not usable.
    pub(crate) fn reject(&mut self, rejection: Rejection) {
        match &mut self.face {
            // A terminal that is gone is noticed by the next read.
            Face::Keys { prompt, .. } => {
                let _ = prompt.reject(rejection).and_then(|()| prompt.enter(self.terminal.0.size()));
            }
            Face::Lines(_) => self.terminal.show(&format!("{}\n> ", visible::line(&rejection.problem))),
        }
    }

    /// Shows another text of the same question.
    pub(crate) fn show_instead(&mut self, text: Box<dyn Fn(usize) -> String + Send>) {
        self.text = text;
        let _ = self.show_text();
    }

    /// Gives the terminal to another program, which ends if the flag says that the question was withdrawn.
    /// [`Dialogue::reject`] shows the keys again.
    pub(crate) fn away<T>(&mut self, work: impl FnOnce(&File, &AtomicBool) -> T) -> io::Result<T> {
        self.leave();
        let done = work(&self.terminal.0.handle()?, &self.withdrawn);
        self.enter()?;
        Ok(done)
    }

    /// Ends the question, with a word about its end.
    pub(crate) fn finish(self, word: &str) {
        let terminal = Arc::clone(&self.terminal);
        drop(self);
        terminal.show(&format!("{word}\n"));
    }

    fn enter(&mut self) -> io::Result<()> {
        let tty = &self.terminal.0;
        // What can't be dropped was not typed.
        let _ = tcflush(&tty.handle()?, QueueSelector::IFlush);
        match (&self.face, self.withdrawn.load(Ordering::Acquire)) {
            (Face::Keys { .. }, false) => tty.enter(),
            _ => Ok(()),
        }
    }

    fn leave(&mut self) {
        if let Face::Keys { prompt, .. } = &mut self.face {
            let _ = prompt.leave();
        }
        self.terminal.restore();
    }

    /// Shows the text, with the keys below it.
    fn show_text(&mut self) -> io::Result<()> {
        let size = self.terminal.0.size();
        match &mut self.face {
            Face::Keys { prompt, columns, .. } => {
                prompt.leave()?;
                *columns = size.columns();
                // If the terminal needs more columns for a row, it shows less of the row instead of continuing in the first
                // column of the next.
                self.terminal.show(&format!("\x1b[?7l{}\x1b[?7h", (self.text)(*columns)));
                prompt.enter(size)
            }
            Face::Lines(kind) => {
                self.terminal.show(&format!("{}{}\n> ", (self.text)(size.columns()), keys(kind)));
                Ok(())
            }
        }
    }

    /// Returns true if the terminal is narrower than the text was shown for.
    fn is_narrower(&self) -> bool {
        match &self.face {
            Face::Keys { prompt, columns, .. } => prompt.size().columns() < *columns,
            Face::Lines(_) => false,
        }
    }

    fn wait(&mut self) -> io::Result<Entered> {
        loop {
            let heard = match &mut self.face {
                Face::Lines(kind) => match lines::read(&self.terminal.0.handle()?, &self.withdrawn)? {
                    Line::Text(text) => match line(kind, &text) {
                        Ok(answer) => return Ok(Entered::Answer(answer)),
                        Err(problem) => {
                            self.terminal.show(&format!("{problem}\n> "));
                            continue;
                        }
                    },
                    Line::End => return Ok(Entered::End),
                    Line::Gone => return Ok(Entered::Gone),
                },
                Face::Keys { prompt, events, .. } => hear(prompt, events)?,
            };
            match heard {
                // Terminals wrap what they show when they become narrower.
                Some(Heard::Settled) if self.is_narrower() => self.show_text()?,
                None | Some(Heard::Settled) => {}
                Some(Heard::Answered(answer)) => return Ok(Entered::Answer(answer)),
                Some(Heard::End) => return Ok(Entered::End),
                Some(Heard::Closed) => return Ok(Entered::Gone),
                // As the terminal itself does where keys are not read one by one.
                Some(Heard::Interrupt) => kill_current_process_group(Signal::INT)?,
                Some(Heard::Suspend) => {
                    if let Face::Keys { prompt, .. } = &mut self.face {
                        prompt.leave()?;
                        self.terminal.0.suspend()?;
                        prompt.enter(self.terminal.0.size())?;
                    }
                }
            }
        }
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Takes an event and those that came with it. Several characters at once were not typed as answers (text that is
/// pasted without marks, for example), so none of them is an answer.
fn hear(prompt: &mut Prompt<File>, events: &mut Events) -> io::Result<Option<Heard>> {
    let mut came: Vec<Event> = events.next(None).into_iter().collect();
    while !matches!(came.last(), Some(Event::Closed))
        && let Some(event) = events.next(Some(Duration::ZERO))
    {
        came.push(event);
    }
    let types = |event: &Event| matches!(event, Event::Key(key) if key.typed().is_some());
    if prompt.is_at_keys() && came.iter().filter(|event| types(event)).count() > 1 {
        came.retain(|event| !types(event));
    }
    let mut settled = None;
    for event in came {
        match prompt.event(event)? {
            // The events that came with it are taken as well.
            Some(Heard::Settled) => settled = Some(Heard::Settled),
            None => {}
            heard => return Ok(heard),
        }
    }
    Ok(settled)
}
