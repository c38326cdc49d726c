//! Control sequences that reach beyond the text: the window's title, a notification, the clipboard.

use base64::{Engine as _, engine::general_purpose::STANDARD};

/// The most characters of a title or a notification, for which terminals have few columns. Longer ones are cut.
const LONGEST: usize = 200;
/// The most bytes of a text for the clipboard. Terminals refuse larger ones.
const LARGEST_COPY: usize = 74_994;

/// The sequence with which a terminal notifies the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notice {
    /// OSC 9, as most terminals know it.
    #[default]
    Osc9,
    /// OSC 99, as kitty and foot know it.
    Osc99,
}

impl Notice {
    /// Returns the sequence of a terminal, by its `TERM`.
    pub fn of(term: Option<&str>) -> Self {
        match term {
            Some(term) if term == "xterm-kitty" || term == "foot" || term.starts_with("foot-") => Self::Osc99,
            _ => Self::Osc9,
        }
    }
}

/// A complete control sequence. It shows nothing and moves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence(String);

impl Sequence {
    /// Sets the title of the window (OSC 2).
    pub fn title(text: &str) -> Self {
        Self(format!("\x1b]2;{}\x1b\\", clean(text)))
    }

    /// Asks the desktop to notify the user, for when the window has no focus.
    pub fn notification(text: &str, notice: Notice) -> Self {
        if notice == Notice::Osc99 {
            return Self(format!("\x1b]99;;{}\x1b\\", clean(text)));
        }
        // `OSC 9;4;…` and other numbers are commands of some terminals.
        let space = if text.starts_with(|c: char| c.is_ascii_digit()) { " " } else { "" };
        Self(format!("\x1b]9;{space}{}\x1b\\", clean(text)))
    }

    /// Puts a text into the clipboard (OSC 52). `None` if it is larger than terminals accept.
    pub fn copy(text: &str) -> Option<Self> {
        (text.len() <= LARGEST_COPY).then(|| Self(format!("\x1b]52;c;{}\x1b\\", STANDARD.encode(text))))
    }

    /// Returns the sequence as written to a terminal.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns one line without characters that could end the sequence.
fn clean(text: &str) -> String {
    llm_do_visible::line(text).chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_cannot_end_a_sequence() {
        assert_eq!(Sequence::title("a\x1b\\\x07b\u{9c}").as_str(), "\x1b]2;a\\x1b\\\\x07b\\x9c\x1b\\");
        assert_eq!(Sequence::notification("4;1;50", Notice::Osc9).as_str(), "\x1b]9; 4;1;50\x1b\\");
        let notice = Notice::of(Some("xterm-kitty"));
        assert_eq!(Sequence::notification("a\x1bb", notice).as_str(), "\x1b]99;;a\\x1bb\x1b\\");
    }

    #[test]
    fn copies_have_a_limit() {
        assert_eq!(Sequence::copy("hi").expect("small").as_str(), "\x1b]52;c;aGk=\x1b\\");
        assert_eq!(Sequence::copy(&"x".repeat(80_000)), None);
    }
}
