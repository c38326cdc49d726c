//! Writing HTML in which only our own words can be markup: names and fragments are `&'static str`; all other text is
//! escaped, in content and in attributes.

/// A page being written.
#[derive(Default)]
pub(super) struct Markup {
    out: String,
}

/// Attributes of an element. A value of `None` leaves the attribute out.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

impl Markup {
    /// Adds markup of our own.
    pub(super) fn ours(&mut self, fragment: &'static str) {
        self.out.push_str(fragment);
    }

    /// Adds markup that was written separately.
    pub(super) fn add(&mut self, other: &Self) {
        self.out.push_str(&other.out);
    }

    /// Returns the markup that was written so far.
    pub(super) fn as_str(&self) -> &str {
        &self.out
    }

    /// Writes an element with attributes, and its content by `inside`.
    pub(super) fn with(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.start(name, attributes);
        inside(self);
        self.end(name);
    }

    /// Writes an element of a class, and its content by `inside`.
    pub(super) fn class(&mut self, name: &'static str, class: &'static str, inside: impl FnOnce(&mut Self)) {
        self.with(name, &[("class", class)], inside);
    }

    /// Writes an element of a class that holds a text.
    pub(super) fn worded(&mut self, name: &'static str, class: &'static str, text: &str) {
        self.class(name, class, |m| m.text(text));
    }

    /// Writes the start of an element.
    pub(super) fn start(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(name);
        for (attribute, value) in attributes {
            self.out.push(' ');
            self.out.push_str(attribute);
            self.out.push_str("=\"");
            escape(value, &mut self.out);
            self.out.push('"');
        }
        self.out.push('>');
    }

    /// Writes the end of an element, except of those whose end follows from the next tag
    /// (<https://html.spec.whatwg.org/#optional-tags>).
    pub(super) fn end(&mut self, name: &'static str) {
        if ["dt", "dd", "li"].contains(&name) {
            return;
        }
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// Writes any text. Characters that would be invisible or reorder others are shown as escapes.
    pub(super) fn text(&mut self, text: &str) {
        let mut rest = text;
        while let Some(at) = rest.find(is_hidden) {
            escape(&rest[..at], &mut self.out);
            let hidden = rest[at..].chars().next().unwrap_or_default();
            self.out.push_str("<span class=\"hidden-char\">");
            self.out.extend(hidden.escape_unicode());
            self.out.push_str("</span>");
            rest = &rest[at + hidden.len_utf8()..];
        }
        escape(rest, &mut self.out);
    }

    /// Returns the page.
    pub(super) fn finish(self) -> String {
        self.out
    }
}

fn escape(text: &str, out: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<', '>', '"', '\'', '`', '\r', '\0']) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            b'\'' => "&#39;",
            b'`' => "&#96;",
            b'\r' => "&#13;",
            _ => "&#xfffd;",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

/// Characters that a page does not show, or that change the order of others, except the joiners and selectors that
/// emoji and many scripts need.
fn is_hidden(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_a_text_or_an_attribute() {
        let attack = "</script><script>x</script><!-- \" ' ` onerror=x> &lt;";
        let mut m = Markup::default();
        m.with("p", &[("title", attack)], |m| m.text(attack));
        let page = m.finish();
        assert_eq!(page.matches('<').count(), 2, "{page}");
        assert_eq!(page.matches('>').count(), 2, "{page}");
        assert_eq!(page.matches('"').count(), 2, "{page}");
        assert!(!page.contains('\'') && !page.contains('`') && page.contains("&amp;lt;"), "{page}");
    }

    #[test]
    fn hidden_characters_are_seen() {
        let mut m = Markup::default();
        m.text("a\u{202e}b\u{1b}[2J\u{e0041}c\r\nd\te");
        let page = m.finish();
        assert!(!page.chars().any(is_hidden), "{page:?}");
        assert!(
            page.contains("\\u{202e}") && page.contains("\\u{e0041}") && page.contains("\nd\te"),
            "{page}"
        );
        let mut m = Markup::default();
        m.text("👩\u{200d}💻 ❤\u{fe0f}");
        assert_eq!(m.finish(), "👩\u{200d}💻 ❤\u{fe0f}");
    }
}
