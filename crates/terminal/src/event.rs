//! Events of a terminal.

use crate::{keys::Key, screen::Size};

/// An event of a terminal.
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
    /// The process was stopped and continued: other programs may have written to the terminal.
    Resumed,
    /// The terminal is gone, or has no more input.
    Closed,
}
