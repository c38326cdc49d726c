//! The kinds of the words of a file, for highlighting: YAML, Markdown and Jinja.

use super::{
    FileKind,
    jinja::{self, WordKind},
    markdown,
    outline::keys,
};
use crate::yaml::{Data, Node};
use std::ops::Range;

/// The kind of a [`Token`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A key, or an attribute of a variable.
    Property,
    /// Text, quoted or not.
    Text,
    /// A number.
    Number,
    /// `true`, `false`, `null`, and keywords of templates.
    Keyword,
    /// A comment.
    Comment,
    /// A variable of a template.
    Variable,
    /// A filter or test of a template.
    Function,
    /// The name of an argument.
    Parameter,
    /// A delimiter of a template.
    Operator,
    /// A heading of Markdown.
    Heading,
    /// Emphasis of Markdown.
    Emphasis,
    /// Strong emphasis of Markdown.
    Strong,
    /// Code in Markdown, in a line or as a block.
    Code,
    /// A link or an image of Markdown.
    Link,
    /// The marker of an item in a list of Markdown.
    ListMarker,
}

/// A part of one line, with its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The kind of the token.
    pub kind: TokenKind,
    /// The bytes of the token.
    pub range: Range<usize>,
}

/// Returns the tokens of a file in order, none of which overlap.
pub fn tokens(path: &str, text: &str) -> Vec<Token> {
    let Some(kind) = FileKind::of(path) else { return Vec::new() };
    let (yaml, template) = kind.parts(text);
    let mut found = Vec::new();
    if let Some(keys) = keys(path, text) {
        of_node(&keys, &mut found);
    }
    found.sort_by_key(|token: &Token| (token.range.start, token.range.end));
    let comments = comments(text, yaml.clone(), &found);
    let mut all: Vec<Token> = Vec::new();
    // Words of a template lie over the text that they are part of.
    let region = if template.is_empty() { yaml } else { template.clone() };
    let words = jinja::words(text, region).into_iter().map(|word| Token {
        kind: match word.kind {
            WordKind::Delimiter => TokenKind::Operator,
            WordKind::Keyword => TokenKind::Keyword,
            WordKind::Filter | WordKind::Test => TokenKind::Function,
            WordKind::Attribute => TokenKind::Property,
            WordKind::Argument => TokenKind::Parameter,
            WordKind::Variable => TokenKind::Variable,
            WordKind::Text => TokenKind::Text,
            WordKind::Number => TokenKind::Number,
            WordKind::Comment => TokenKind::Comment,
        },
        range: word.range,
    });
    let words: Vec<Token> = match template.is_empty() {
        // In a file that is YAML only, the instructions are a text with several lines.
        true => words
            .filter(|word| !found.iter().any(|token| token.kind != TokenKind::Text && overlap(token, word)))
            .collect(),
        false => words.collect(),
    };
    let below: Vec<Token> =
        found.into_iter().chain(comments).chain(markdown::tokens(text, template)).collect();
    for token in below {
        cut(token, &words, text, &mut all);
    }
    for word in words {
        cut(word, &[], text, &mut all);
    }
    all.sort_by_key(|token| (token.range.start, token.range.end));
    let mut end = 0;
    all.retain(|token| {
        let stays = token.range.start >= end && !token.range.is_empty();
        end = if stays { token.range.end } else { end };
        stays
    });
    all
}

fn overlap(a: &Token, b: &Token) -> bool {
    a.range.start < b.range.end && b.range.start < a.range.end
}

/// Adds the parts of a token that are not covered, one for each line.
fn cut(token: Token, over: &[Token], text: &str, out: &mut Vec<Token>) {
    let mut at = token.range.start;
    let begin = over.partition_point(|word| word.range.end <= at);
    let covering = over[begin..].iter().take_while(|word| word.range.start < token.range.end);
    let gaps =
        covering.map(|word| word.range.clone()).chain(std::iter::once(token.range.end..token.range.end));
    for gap in gaps {
        let mut start = at;
        for line in text.get(at..gap.start.max(at)).unwrap_or_default().split_inclusive('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            let lead = content.len() - content.trim_start().len();
            if lead < content.len() {
                out.push(Token { kind: token.kind, range: start + lead..start + content.len() });
            }
            start += line.len();
        }
        at = gap.end.max(at);
    }
}

fn of_node(node: &Node, found: &mut Vec<Token>) {
    let kind = match &node.data {
        Data::Map(entries) => {
            for entry in entries {
                if let Some(range) = entry.key_span.range() {
                    found.push(Token { kind: TokenKind::Property, range });
                }
                of_node(&entry.value, found);
            }
            return;
        }
        Data::List(items) => return items.iter().for_each(|item| of_node(item, found)),
        Data::Text(_) => TokenKind::Text,
        Data::Number(_) => TokenKind::Number,
        Data::Flag(_) | Data::Null => TokenKind::Keyword,
    };
    if let Some(range) = node.span.range().filter(|range| !range.is_empty()) {
        found.push(Token { kind, range });
    }
}

/// Returns the comments of YAML: from `#` at the start of a line or behind white space, outside of values.
fn comments(text: &str, yaml: Range<usize>, found: &[Token]) -> Vec<Token> {
    let mut comments = Vec::new();
    let mut at = yaml.start;
    for line in text[yaml].split_inclusive('\n') {
        let content = line.trim_end();
        let hash = content.match_indices('#').map(|(hash, _)| hash).find(|hash| {
            let is_first = *hash == 0 || content[..*hash].ends_with([' ', '\t']);
            let place = at + hash;
            let before = found.partition_point(|token| token.range.start <= place);
            let inside =
                before > 0 && found[..before].iter().rev().take(2).any(|token| token.range.end > place);
            is_first && !inside
        });
        if let Some(hash) = hash {
            comments.push(Token { kind: TokenKind::Comment, range: at + hash..at + content.len() });
        }
        at += line.len();
    }
    comments
}
