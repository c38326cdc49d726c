//! Lines of code: the characters as they are, with colours if the language is known.

#[cfg(feature = "highlight")]
use crate::highlight::Highlight;
use crate::line::{self, Line, Span};
use anstyle::{AnsiColor, Style};

/// The style of code without colours of its own, and of code within a text.
pub(crate) const STYLE: Style = AnsiColor::Cyan.on_default();

/// A block of code.
#[derive(Debug)]
pub(crate) struct Code {
    #[cfg(feature = "highlight")]
    highlight: Option<Highlight>,
}

impl Code {
    /// Begins a block in that language, which may be empty or unknown.
    #[cfg_attr(
        not(feature = "highlight"),
        expect(unused_variables, reason = "languages only matter to colours")
    )]
    pub(crate) fn new(language: &str) -> Self {
        Self {
            #[cfg(feature = "highlight")]
            highlight: Highlight::new(language),
        }
    }

    /// Begins a block without a language.
    pub(crate) fn plain() -> Self {
        Self {
            #[cfg(feature = "highlight")]
            highlight: None,
        }
    }

    /// Returns the next line of the block, without a line break.
    pub(crate) fn line(&mut self, text: &str) -> Line {
        if text.is_empty() {
            // The highlighter still sees it: it ends comments and strings of some languages.
            self.spans("");
            return Line::default();
        }
        Line { spans: line::printable_code(self.spans(text)) }
    }

    fn spans(&mut self, text: &str) -> Vec<Span> {
        #[cfg(feature = "highlight")]
        if let Some(highlight) = &mut self.highlight {
            if let Some(spans) = highlight.line(text) {
                return spans;
            }
            self.highlight = None;
        }
        vec![Span { text: text.to_owned(), style: STYLE, link: None }]
    }
}
