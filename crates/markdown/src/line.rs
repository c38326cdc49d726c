//! Lines and the spans that they consist of.

use anstyle::Style;
use std::borrow::Cow;
use unicode_width::UnicodeWidthStr as _;

/// A piece of a line in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Printable text. In code it may hold tabs; it never holds another control character.
    pub text: String,
    /// Colours and effects.
    pub style: Style,
    /// The address that the text leads to: `http`, `https` or `mailto`, in printable ASCII without spaces.
    pub link: Option<String>,
}

/// A logical line, of any length: the terminal wraps it. A blank line has no spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The text, from left to right.
    pub spans: Vec<Span>,
}

impl Line {
    /// Returns the text of all spans.
    pub fn text(&self) -> String {
        self.spans.iter().map(|span| span.text.as_str()).collect()
    }
}

/// Appends text to the last span if it has the same style and link, or else as a new span.
pub(crate) fn append(spans: &mut Vec<Span>, text: &str, style: Style, link: Option<&str>) {
    if text.is_empty() {
        return;
    }
    match spans.last_mut() {
        Some(last) if last.style == style && last.link.as_deref() == link => last.text.push_str(text),
        _ => spans.push(Span { text: text.to_owned(), style, link: link.map(str::to_owned) }),
    }
}

/// Makes spans of prose safe to print, without line breaks or tabs.
pub(crate) fn printable(mut spans: Vec<Span>) -> Vec<Span> {
    for span in &mut spans {
        if span.text.contains(['\n', '\t']) {
            span.text = span.text.replace(['\n', '\t'], " ");
        }
        escape(&mut span.text);
    }
    spans
}

/// Makes a line of code safe to print. Tabs stay.
pub(crate) fn printable_code(mut spans: Vec<Span>) -> Vec<Span> {
    for span in &mut spans {
        escape(&mut span.text);
    }
    spans
}

fn escape(text: &mut String) {
    if let Cow::Owned(escaped) = llm_do_visible::prose(text) {
        *text = escaped;
    }
}

/// Removes white space at the end of the spans.
pub(crate) fn trim_end(spans: &mut Vec<Span>) {
    while let Some(last) = spans.last_mut() {
        last.text.truncate(last.text.trim_end().len());
        if !last.text.is_empty() {
            break;
        }
        spans.pop();
    }
}

/// Returns the columns that spans take on a terminal.
pub(crate) fn width(spans: &[Span]) -> usize {
    spans.iter().map(|span| span.text.width()).sum()
}
