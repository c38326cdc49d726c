//! The conversational terminal: a transcript that scrolls, a few live rows below it, a composer in them.
//!
//! This crate knows terminals, keys and text. It knows no engine, no run and no gate: the command line tells it what to
//! show, and hears what the user wants.
//!
//! - [`Tty`] is the terminal device: its modes, its size, and its [`Events`].
//! - [`Console`] is everything on it: the [`Screen`] with the transcript and, from the top, a [`Question`], the queue,
//!   the [`Composer`] and a status row. [`Console::event`] takes an event and returns the user's [`Action`], if it was one.
//! - [`Prompt`] is one question where there is no conversation, with the same view and keys.
//! - [`Plain`] is the same conversation as labelled lines, for pipes, screen readers and `TERM=dumb`.
//!
//! ```
//! use llm_do_terminal::{Action, Console, Event, Key, Line, Settings, Size};
//!
//! let mut console = Console::new(Vec::new(), Size::new(40, 10), Settings::default());
//! console.print(&[Line::plain("Hello.")])?;
//! for key in [Key::char('h'), Key::char('i')] {
//!     assert_eq!(console.event(Event::Key(key))?, None);
//! }
//! let action = console.event(Event::Key(Key::ENTER))?;
//! assert_eq!(action, Some(Action::Submit("hi".into())));
//! # Ok::<(), std::io::Error>(())
//! ```

mod composer;
mod console;
mod event;
mod keys;
mod osc;
mod plain;
mod prompt;
mod question;
mod screen;
mod style;
mod tty;
mod width;

pub use composer::{
    Candidate, Candidates, Completer, Composer, Draft, Editing, History, NoCompletion, Outcome, fuzzy,
};
pub use console::{Action, Console};
pub use event::Event;
pub use keys::{Code, Decoder, Input, Key, Modifiers};
pub use osc::{Notice, Sequence};
pub use plain::{Plain, Speaker, is_wanted as plain_is_wanted};
pub use prompt::{Heard, Prompt};
pub use question::{Answer, Choice, Field, FieldKind, KeyText, Kind, Question, Rejection};
pub use screen::{Caret, Live, Reflow, Screen, Settings, Size};
pub use style::{Line, Span};
pub use tty::{Events, Stopper, Tty};
pub use width::Ambiguous;
