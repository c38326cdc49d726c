//! What happens at a terminal.

use crate::{keys::Key, screen::Size};

/// What happens at a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A key.
    Key(Key),
    /// Pasted text, as it is. Its line breaks are `\n`; control characters may be in it.
    Paste(String),
    /// The window got the focus (`true`) or lost it.
    Focus(bool),
    /// The terminal has another size.
    Resize(Size),
    /// The size has stayed the same for a moment after [`Event::Resize`]: text that depends on it can be shown again.
    Settled,
    /// The process was stopped and continued: others may have written to the terminal.
    Resumed,
    /// The terminal is gone, or nothing is to be read from it any more.
    Closed,
}
