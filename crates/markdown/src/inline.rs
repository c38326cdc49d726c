//! The spans within a block: emphasis, code, links.

use crate::{
    code,
    line::{self, Span},
    link::OpenLink,
};
use anstyle::Style;

/// Collects the spans of a line.
#[derive(Debug, Default)]
pub(crate) struct Inline {
    spans: Vec<Span>,
    /// The style around each open element.
    styles: Vec<Style>,
    links: Vec<OpenLink>,
}

impl Inline {
    /// Adds text in the current style.
    pub(crate) fn text(&mut self, text: &str) {
        self.styled(text, self.style());
    }

    /// Adds code within the text.
    pub(crate) fn code(&mut self, text: &str) {
        let style = code::STYLE.effects(self.style().get_effects());
        self.styled(text, style);
    }

    fn styled(&mut self, text: &str, style: Style) {
        for open in &mut self.links {
            open.label.push_str(text);
        }
        let target = self.links.iter().find_map(|open| open.link.as_deref());
        line::append(&mut self.spans, text, style, target);
    }

    /// Returns the current style of text.
    pub(crate) fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    /// Begins another style, made from the current one, which applies up to [`Inline::end`].
    pub(crate) fn begin(&mut self, change: impl FnOnce(Style) -> Style) {
        self.styles.push(change(self.style()));
    }

    /// Ends the last style that began.
    pub(crate) fn end(&mut self) {
        self.styles.pop();
    }

    /// Begins the text of a link or an image, up to [`Inline::end_link`].
    pub(crate) fn begin_link(&mut self, open: OpenLink) {
        if open.is_image {
            self.text("image: ");
        }
        let is_link = open.link.is_some();
        self.links.push(open);
        self.begin(|style| if is_link { style.underline() } else { style });
    }

    /// Ends the last link or image. The address follows if the reader needs it.
    pub(crate) fn end_link(&mut self) {
        self.end();
        let Some(open) = self.links.pop() else { return };
        if open.shows_address() {
            let style = self.style();
            let before = if open.label.is_empty() { "(" } else { " (" };
            line::append(&mut self.spans, before, style, None);
            let shown = if open.link.is_some() { style.underline() } else { style };
            line::append(&mut self.spans, &open.address, shown, open.link.as_deref());
            line::append(&mut self.spans, ")", style, None);
        }
    }

    /// Returns true if nothing was collected since the last [`Inline::take`].
    pub(crate) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Takes the collected spans, safe to print.
    pub(crate) fn take(&mut self) -> Vec<Span> {
        line::printable(std::mem::take(&mut self.spans))
    }
}
