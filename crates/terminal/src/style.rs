//! Styled text. A [`Line`] contains no characters that move the cursor, hide or reorder text: its constructors escape
//! them.

use crate::width::{Ambiguous, cells};
use anstyle::Style;
use std::{borrow::Cow, sync::Arc};
use unicode_segmentation::UnicodeSegmentation as _;

/// Columns between the tab stops of a live row. The transcript leaves tabs to the terminal.
const TAB: usize = 4;
/// The most code points of one character. Those of a longer one are escaped, because stacked marks cover other rows.
const MOST_MARKS: usize = 16;
/// The longest address of a link. Longer ones are shown without being links.
const LONGEST_LINK: usize = 2_000;

/// A logical line: the text between two line breaks, however many rows it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    spans: Vec<Span>,
}

/// A part of a line with one style.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    text: String,
    style: Style,
    link: Option<Arc<str>>,
}

impl Span {
    /// Returns the text of the span: printable text on one line. A tab is the only control character in it.
    pub fn text(&self) -> &str {
        &self.text
    }
    /// Returns the style of the span.
    pub fn style(&self) -> Style {
        self.style
    }
    /// Returns the address that the span links to: printable ASCII.
    pub fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }
    /// Returns the address, shared.
    pub(crate) fn shared_link(&self) -> Option<Arc<str>> {
        self.link.clone()
    }
}

impl Line {
    /// Returns an empty line.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a line without style. Control characters and hidden ones are escaped, as by [`Line::push`].
    pub fn plain(text: &str) -> Self {
        Self::styled(text, Style::new())
    }

    /// Returns a line in one style.
    pub fn styled(text: &str, style: Style) -> Self {
        Self::new().with(text, style)
    }

    /// Returns each line of a longer text.
    pub fn split(text: &str, style: Style) -> impl Iterator<Item = Self> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        text.split('\n').map(move |line| Self::styled(line.strip_suffix('\r').unwrap_or(line), style))
    }

    /// Returns the line with more text at its end.
    #[must_use]
    pub fn with(mut self, text: &str, style: Style) -> Self {
        self.push(text, style);
        self
    }

    /// Appends text. Control characters (a line break too), characters that reorder text, and hidden ones are escaped:
    /// `\x1b`, `\u{202e}`. Tabs, and the joiners that emoji and some scripts need, stay.
    pub fn push(&mut self, text: &str, style: Style) {
        self.push_span(text, style, None);
    }

    /// Appends text that links to an address. Only `http`, `https` and `mailto` become links; from any other address
    /// the text remains.
    pub fn push_link(&mut self, text: &str, style: Style, address: &str) {
        self.push_span(text, style, link(address));
    }

    /// Appends the spans of another line.
    pub fn extend(&mut self, other: Self) {
        self.spans.extend(other.spans);
    }

    fn push_span(&mut self, text: &str, style: Style, link: Option<Arc<str>>) {
        let text = tamed(llm_do_visible::words(text));
        if text.is_empty() {
            return;
        }
        match self.spans.last_mut() {
            Some(last) if last.style == style && last.link == link => last.text.push_str(&text),
            _ => self.spans.push(Span { text: text.into_owned(), style, link }),
        }
    }

    /// Returns the spans of the line.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Returns the text of the line without styles.
    pub fn text(&self) -> Cow<'_, str> {
        match self.spans.as_slice() {
            [] => Cow::Borrowed(""),
            [span] => Cow::Borrowed(&span.text),
            spans => spans.iter().map(|span| span.text.as_str()).collect::<String>().into(),
        }
    }

    /// Returns true if the line has no text.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Columns of the line in a live row.
    pub fn width(&self, ambiguous: Ambiguous) -> usize {
        let mut column = 0;
        for span in &self.spans {
            for (_, width) in row_cells(&span.text, ambiguous) {
                column += width.columns(column);
            }
        }
        column
    }

    /// Wraps the line into rows of at most `columns` columns. Returns at least one row. Graphemes stay whole.
    pub fn wrapped(&self, columns: usize, ambiguous: Ambiguous) -> Vec<Self> {
        let columns = columns.max(1);
        let mut rows = vec![Self::new()];
        let mut column = 0;
        for span in &self.spans {
            for (text, width) in row_cells(&span.text, ambiguous) {
                let mut width = width.columns(column);
                if column > 0 && column + width > columns {
                    rows.push(Self::new());
                    column = 0;
                    width = width.min(columns);
                }
                column += width;
                if let Some(row) = rows.last_mut() {
                    row.push_span(&text, span.style, span.link.clone());
                }
            }
        }
        rows
    }
}

/// Columns of a grapheme in a live row.
#[derive(Clone, Copy)]
pub(crate) enum Columns {
    Fixed(usize),
    Tab,
}

impl Columns {
    /// Returns the number of columns if the grapheme begins at this column.
    pub(crate) fn columns(self, column: usize) -> usize {
        match self {
            Self::Fixed(width) => width,
            Self::Tab => TAB - column % TAB,
        }
    }
}

/// Returns the graphemes of a text in a live row.
pub(crate) fn row_cells(text: &str, ambiguous: Ambiguous) -> impl Iterator<Item = (Cow<'_, str>, Columns)> {
    cells(text, ambiguous).map(|(grapheme, width)| {
        if grapheme == "\t" { (grapheme, Columns::Tab) } else { (grapheme, Columns::Fixed(width)) }
    })
}

/// Returns the text with characters of too many code points escaped.
fn tamed(text: Cow<'_, str>) -> Cow<'_, str> {
    let overloaded = |grapheme: &str| grapheme.chars().nth(MOST_MARKS).is_some();
    if text.is_ascii() || !text.graphemes(true).any(overloaded) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for grapheme in text.graphemes(true) {
        if overloaded(grapheme) {
            out.extend(grapheme.chars().flat_map(char::escape_unicode));
        } else {
            out.push_str(grapheme);
        }
    }
    Cow::Owned(out)
}

/// Returns an address that may become a link, with everything but printable ASCII percent-encoded.
fn link(address: &str) -> Option<Arc<str>> {
    let scheme = address.split(':').next()?.to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https" | "mailto") || address.len() > LONGEST_LINK {
        return None;
    }
    let mut out = String::with_capacity(address.len());
    for byte in address.bytes() {
        if byte.is_ascii_graphic() {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_reaches_a_line_as_a_command() {
        let line = Line::plain("a\x1b[2J\u{9b}1A\rb\u{202e}c\u{200b}\u{e0041}\nd");
        assert_eq!(line.text(), "a\\x1b[2J\\x9b1A\\rb\\u{202e}c\\u{200b}\\u{e0041}\\nd");
        let mut linked = Line::new();
        linked.push_link("x", Style::new(), "https://a/\x1b\\\u{7}ü");
        assert_eq!(linked.spans()[0].link(), Some("https://a/%1B\\%07%C3%BC"));
        let mut linked = Line::new();
        linked.push_link("x", Style::new(), "javascript:alert(1)");
        assert_eq!(linked.spans()[0].link(), None);
    }

    #[test]
    fn heaps_of_marks_are_escaped() {
        let heap = format!("ae{}b", "\u{301}".repeat(30));
        let text = Line::plain(&heap).text().into_owned();
        assert!(text.starts_with("a\\u{65}\\u{301}") && text.ends_with("\\u{301}b"), "{text}");
        let family = "👩🏽\u{200d}❤\u{fe0f}\u{200d}💋\u{200d}👨🏽";
        assert_eq!(Line::plain(family).text(), family);
    }

    #[test]
    fn rows_keep_graphemes_whole() {
        let line = Line::plain("ab水c👩\u{200d}🔬e\u{301}");
        let rows: Vec<_> =
            line.wrapped(3, Ambiguous::Narrow).iter().map(|row| row.text().into_owned()).collect();
        assert_eq!(rows, ["ab", "水c", "👩\u{200d}🔬e\u{301}"]);
        assert_eq!(line.width(Ambiguous::Narrow), 8);
        assert_eq!(Line::plain("a\tb").width(Ambiguous::Narrow), 5);
    }
}
