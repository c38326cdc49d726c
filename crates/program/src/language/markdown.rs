//! The parts of Markdown, for highlighting.

use super::{Token, TokenKind};
use pulldown_cmark::{Event, Options, Parser, Tag};
use std::ops::Range;

/// Returns the tokens of Markdown in these bytes, in order, none of which overlap. Of nested parts, the inner one counts.
pub(super) fn tokens(text: &str, range: Range<usize>) -> Vec<Token> {
    let begin = range.start;
    let Some(markdown) = text.get(range) else { return Vec::new() };
    let mut painter = Painter::default();
    for (event, bytes) in Parser::new_ext(markdown, Options::ENABLE_STRIKETHROUGH).into_offset_iter() {
        let bytes = begin + bytes.start..begin + bytes.end;
        let kind = match event {
            Event::Start(Tag::Heading { .. }) => TokenKind::Heading,
            Event::Start(Tag::Emphasis) => TokenKind::Emphasis,
            Event::Start(Tag::Strong) => TokenKind::Strong,
            Event::Start(Tag::Link { .. } | Tag::Image { .. }) => TokenKind::Link,
            Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => TokenKind::Code,
            Event::Start(Tag::Item) => {
                let marker = text[bytes.clone()].find(char::is_whitespace).unwrap_or(bytes.len());
                painter.part(TokenKind::ListMarker, bytes.start..bytes.start + marker);
                continue;
            }
            _ => continue,
        };
        painter.part(kind, bytes);
    }
    painter.end(usize::MAX);
    painter.tokens
}

/// Divides nested parts into tokens.
#[derive(Default)]
struct Painter {
    /// The parts that the position is in, the innermost last, with their ends.
    open: Vec<(TokenKind, usize)>,
    at: usize,
    tokens: Vec<Token>,
}

impl Painter {
    /// Begins a part. Parts come in the order of their starts.
    fn part(&mut self, kind: TokenKind, range: Range<usize>) {
        self.end(range.start);
        if let Some((outer, _)) = self.open.last() {
            self.token(*outer, range.start);
        }
        self.at = range.start.max(self.at);
        self.open.push((kind, range.end));
    }

    /// Ends the parts that are over at an offset.
    fn end(&mut self, offset: usize) {
        while let Some((kind, end)) = self.open.pop_if(|(_, end)| *end <= offset) {
            self.token(kind, end);
        }
    }

    fn token(&mut self, kind: TokenKind, end: usize) {
        if self.at < end {
            self.tokens.push(Token { kind, range: self.at..end });
            self.at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_kinds_and_inner_ones_count() {
        let text = "---\nx: *y*\n---\n# A *b* c\n\n- one **two _three_**\n  2. `four` [five](six)\n\n```py\n*no*\n```\n😀 *é*";
        let begin = text.rfind("---\n").unwrap() + 4;
        let found: Vec<(TokenKind, &str)> = tokens(text, begin..text.len())
            .into_iter()
            .map(|it| (it.kind, text[it.range].trim_end()))
            .collect();
        assert_eq!(
            found,
            [
                (TokenKind::Heading, "# A"),
                (TokenKind::Emphasis, "*b*"),
                (TokenKind::Heading, " c"),
                (TokenKind::ListMarker, "-"),
                (TokenKind::Strong, "**two"),
                (TokenKind::Emphasis, "_three_"),
                (TokenKind::Strong, "**"),
                (TokenKind::ListMarker, "2."),
                (TokenKind::Code, "`four`"),
                (TokenKind::Link, "[five](six)"),
                (TokenKind::Code, "```py\n*no*\n```"),
                (TokenKind::Emphasis, "*é*"),
            ]
        );
    }

    #[test]
    fn tokens_of_every_prefix_are_in_order_and_within_the_text() {
        let text = "> # a\n> - *b* `c\n\n1) [d](e) **f\n\n    g\n\n~~~\nh\n# i\n- \n![j](<k> \"l\")\n\n***\n_m_**n**";
        for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
            let mut at = 0;
            for token in tokens(&text[..end], 0..end) {
                assert!(token.range.start >= at && text.get(token.range.clone()).is_some(), "{token:?}");
                at = token.range.end;
            }
        }
    }
}
