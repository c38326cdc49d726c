//! Colours: on a terminal, unless `--color` or `NO_COLOR` turns them off.

use crate::environment::{NO_COLOR, TERM};
use anstyle::{AnsiColor, Effects, Style};
use llm_do_terminal::Line;
use std::fmt::{self, Display, Write as _};

/// Colouring of the text on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Paint {
    on: bool,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl ColourChoice {
    /// Returns the colouring of a stream that is or isn't a terminal.
    pub(crate) fn paint(self, terminal: bool) -> Paint {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let on = match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => {
                terminal
                    && !set(NO_COLOR.name)
                    && std::env::var_os(TERM.name).is_none_or(|term| term != "dumb")
            }
        };
        Paint { on }
    }
}

/// Text with a style.
pub(crate) struct Painted<T> {
    what: T,
    style: Option<Style>,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => write!(f, "{style}{}{style:#}", self.what),
            None => self.what.fmt(f),
        }
    }
}

impl Paint {
    /// No colours.
    pub(crate) const NEVER: Self = Self { on: false };

    /// Returns true if text is coloured.
    pub(crate) fn is_on(self) -> bool {
        self.on
    }
    fn with<T>(self, what: T, style: Style) -> Painted<T> {
        Painted { what, style: self.on.then_some(style) }
    }
    /// Formats lines in their styles, each with a line break.
    pub(crate) fn lines(self, lines: &[Line]) -> String {
        let mut text = String::new();
        for line in lines {
            for span in line.spans() {
                // Writing to a `String` does not fail.
                let _ = write!(text, "{}", self.with(span.text(), span.style()));
            }
            text.push('\n');
        }
        text
    }
    /// Shows text without a style.
    pub(crate) fn plain<T>(self, what: T) -> Painted<T> {
        Painted { what, style: None }
    }
    /// Dims text of little weight.
    pub(crate) fn dim<T>(self, what: T) -> Painted<T> {
        self.with(what, Style::new().effects(Effects::DIMMED))
    }
    /// Emphasises text that is to be seen first.
    pub(crate) fn bold<T>(self, what: T) -> Painted<T> {
        self.with(what, Style::new().effects(Effects::BOLD))
    }
    /// Marks errors, refusals and removals.
    pub(crate) fn red<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Red.on_default())
    }
    /// Marks the word before an error.
    pub(crate) fn error<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Red.on_default().effects(Effects::BOLD))
    }
    /// Marks the word before a warning.
    pub(crate) fn warning<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Yellow.on_default().effects(Effects::BOLD))
    }
    /// Marks the word before a hint.
    pub(crate) fn hint<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Cyan.on_default().effects(Effects::BOLD))
    }
    /// Marks completed and added things.
    pub(crate) fn green<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Green.on_default())
    }
    /// Marks a name.
    pub(crate) fn cyan<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Cyan.on_default())
    }
    /// Marks text that deserves attention.
    pub(crate) fn yellow<T>(self, what: T) -> Painted<T> {
        self.with(what, AnsiColor::Yellow.on_default())
    }
}
