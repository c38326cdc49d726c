//! The conversation as labelled lines: for pipes, for screen readers, and for terminals that can only print.

use crate::style::Line;
use std::io::{self, Write};

/// The speaker of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaker<'a> {
    /// The user.
    You,
    /// A worker, by its name.
    Worker(&'a str),
    /// The program itself.
    Note,
    /// The program itself, about something that went wrong.
    Error,
    /// A question to the user.
    Question,
}

/// A writer of labelled lines with printable text: no styles, no cursor movement, and nothing is written twice.
#[derive(Debug)]
pub struct Plain<W> {
    out: W,
}

impl<W: Write> Plain<W> {
    /// Returns a writer of labelled lines to `out`.
    pub fn new(out: W) -> Self {
        Self { out }
    }

    /// Writes lines, the first one behind the label of the speaker.
    ///
    /// # Errors
    /// The writer fails.
    pub fn say(&mut self, speaker: Speaker<'_>, lines: &[Line]) -> io::Result<()> {
        let mut text = label(speaker);
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                text.push('\n');
            }
            text.push_str(&line.text().replace('\t', "    "));
        }
        text.push('\n');
        self.out.write_all(text.as_bytes())?;
        self.out.flush()
    }

    /// Writes the label before the user's input, without a line break.
    ///
    /// # Errors
    /// The writer fails.
    pub fn prompt(&mut self, speaker: Speaker<'_>) -> io::Result<()> {
        self.out.write_all(label(speaker).as_bytes())?;
        self.out.flush()
    }

    /// Returns the writer.
    pub fn get_ref(&self) -> &W {
        &self.out
    }
}

/// Returns true if plain lines are wanted: asked for with a flag, by `ACCESSIBLE=1` or `TERM=dumb`, or because there is
/// no terminal. `variable` returns the value of an environment variable.
pub fn is_wanted(flag: bool, terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
    let accessible = variable("ACCESSIBLE").is_some_and(|value| !matches!(value.as_str(), "" | "0"));
    flag || !terminal || accessible || variable("TERM").is_some_and(|term| term == "dumb")
}

fn label(speaker: Speaker<'_>) -> String {
    match speaker {
        Speaker::You => "you: ".into(),
        Speaker::Worker(name) => format!("{}: ", llm_do_visible::line(name)),
        Speaker::Note => "note: ".into(),
        Speaker::Error => "error: ".into(),
        Speaker::Question => "question: ".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anstyle::AnsiColor;

    #[test]
    fn plain_lines_hold_only_printable_text() {
        let mut plain = Plain::new(Vec::new());
        let lines =
            [Line::styled("a\tb\x1b[2J", AnsiColor::Red.on_default()), Line::plain("c\u{202e}\u{9b}1A")];
        plain.say(Speaker::Worker("main\x07"), &lines).expect("a vector takes everything");
        let text = String::from_utf8(plain.get_ref().clone()).expect("text");
        assert_eq!(text, "main\\x07: a    b\\x1b[2J\nc\\u{202e}\\x9b1A\n");
    }

    #[test]
    fn a_terminal_without_wishes_is_not_plain() {
        let environment = |set: &'static [(&str, &str)]| {
            move |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert!(!is_wanted(false, true, environment(&[("TERM", "xterm"), ("ACCESSIBLE", "0")])));
        assert!(is_wanted(true, true, environment(&[])));
        assert!(is_wanted(false, false, environment(&[])));
        assert!(is_wanted(false, true, environment(&[("ACCESSIBLE", "1")])));
        assert!(is_wanted(false, true, environment(&[("TERM", "dumb")])));
    }
}
