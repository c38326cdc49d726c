//! The words of a template's expressions and statements.

use std::ops::Range;

/// The kind of a [`Word`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordKind {
    /// `{{`, `%}` and the like.
    Delimiter,
    /// A keyword of a statement: `for`, `in`, `include`.
    Keyword,
    /// A filter, after `|`.
    Filter,
    /// A test, after `is`.
    Test,
    /// An attribute, after a point.
    Attribute,
    /// The name of an argument, before `=`.
    Argument,
    /// A variable or a function.
    Variable,
    /// Text in quotes.
    Text,
    /// A number.
    Number,
    /// A comment, with its delimiters.
    Comment,
}

/// A part of a template's syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The kind of the word.
    pub kind: WordKind,
    /// The bytes of the word.
    pub range: Range<usize>,
    /// The first keyword of the statement that it is in; empty in an expression.
    pub statement: &'static str,
}

/// Words that are no variables.
const KEYWORDS: &[&str] = &[
    "and",
    "as",
    "autoescape",
    "block",
    "break",
    "call",
    "continue",
    "do",
    "elif",
    "else",
    "endautoescape",
    "endblock",
    "endcall",
    "endfilter",
    "endfor",
    "endif",
    "endmacro",
    "endraw",
    "endset",
    "endwith",
    "extends",
    "filter",
    "for",
    "from",
    "if",
    "ignore",
    "import",
    "in",
    "include",
    "is",
    "loop",
    "macro",
    "missing",
    "not",
    "or",
    "raw",
    "recursive",
    "set",
    "with",
    "without",
    "context",
    "true",
    "false",
    "none",
    "True",
    "False",
    "None",
];

/// Returns the words of a template in these bytes of a text. An expression that is not closed ends with its line.
pub fn words(text: &str, range: Range<usize>) -> Vec<Word> {
    let mut words = Vec::new();
    let mut at = range.start;
    while let Some(found) = text[at..range.end].find('{').map(|found| at + found) {
        let rest = &text[found..range.end];
        if rest.starts_with("{#") {
            let end = rest.find("#}").map_or(range.end, |end| found + end + 2);
            words.push(Word { kind: WordKind::Comment, range: found..end, statement: "" });
            at = end;
        } else if rest.starts_with("{{") || rest.starts_with("{%") {
            at = code(text, found, range.end, &mut words);
            if let Some(end) = raw(&words, text, at, range.end) {
                at = end;
            }
        } else {
            at = found + 1;
        }
    }
    words
}

/// Returns the position of `{% endraw %}` if the last statement was `{% raw %}`.
fn raw(words: &[Word], text: &str, at: usize, end: usize) -> Option<usize> {
    let last = words.iter().rev().find(|word| word.kind != WordKind::Delimiter)?;
    if last.statement != "raw" || &text[last.range.clone()] != "raw" {
        return None;
    }
    let close = text[at..end].find("endraw")?;
    text[at..at + close].rfind("{%").map(|open| at + open)
}

fn code(text: &str, start: usize, end: usize, words: &mut Vec<Word>) -> usize {
    let close = if text[start..].starts_with("{{") { "}}" } else { "%}" };
    let is_statement = close == "%}";
    let mut statement = "";
    let mut at = start + 2;
    if text[at..end].starts_with(['-', '+']) {
        at += 1;
    }
    words.push(Word { kind: WordKind::Delimiter, range: start..at, statement });
    let mut before = '\0';
    let mut after_is = false;
    let mut is_first = true;
    while at < end {
        let rest = &text[at..end];
        let Some(c) = rest.chars().next() else { break };
        if rest.starts_with(close) || (rest.starts_with(['-', '+']) && rest[1..].starts_with(close)) {
            let width = if rest.starts_with(close) { 2 } else { 3 };
            words.push(Word { kind: WordKind::Delimiter, range: at..at + width, statement });
            return at + width;
        }
        if c == '"' || c == '\'' {
            let width = quoted(rest, c);
            words.push(Word { kind: WordKind::Text, range: at..at + width, statement });
            at += width;
            before = c;
        } else if c.is_ascii_digit() {
            let width =
                rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_').unwrap_or(rest.len());
            words.push(Word { kind: WordKind::Number, range: at..at + width, statement });
            at += width;
            before = '0';
        } else if c.is_alphabetic() || c == '_' {
            let width = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let word = &rest[..width];
            let next = rest[width..].trim_start();
            let keyword = KEYWORDS.iter().find(|keyword| **keyword == word);
            let kind = match (before, keyword) {
                ('.', _) => WordKind::Attribute,
                ('|', _) => WordKind::Filter,
                (_, Some(keyword)) => {
                    if is_statement && is_first {
                        statement = keyword;
                    }
                    WordKind::Keyword
                }
                _ if after_is => WordKind::Test,
                _ if next.starts_with('=') && !next.starts_with("==") && matches!(before, '(' | ',') => {
                    WordKind::Argument
                }
                _ => WordKind::Variable,
            };
            after_is = word == "is" || (after_is && word == "not");
            words.push(Word { kind, range: at..at + width, statement });
            at += width;
            before = 'a';
            is_first = false;
        } else if rest.starts_with("{{") || rest.starts_with("{%") {
            // The code before it is not closed.
            return at;
        } else {
            if !c.is_whitespace() {
                before = c;
                after_is = false;
            }
            at += c.len_utf8();
        }
    }
    at
}

/// Returns the width of a text in quotes. One that is not closed ends with its line.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '\n' => return at,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<(&str, WordKind)> {
        words(text, 0..text.len()).into_iter().map(|word| (&text[word.range], word.kind)).collect()
    }

    #[test]
    fn words_have_kinds() {
        use WordKind::*;
        assert_eq!(
            seen("Hi {{ a.b | join(', ', attribute=c) }} {# x #}"),
            [
                ("{{", Delimiter),
                ("a", Variable),
                ("b", Attribute),
                ("join", Filter),
                ("', '", Text),
                ("attribute", Argument),
                ("c", Variable),
                ("}}", Delimiter),
                ("{# x #}", Comment),
            ]
        );
        assert_eq!(
            seen("{%- if a is not defined %}{% include \"x\" %}"),
            [
                ("{%-", Delimiter),
                ("if", Keyword),
                ("a", Variable),
                ("is", Keyword),
                ("not", Keyword),
                ("defined", Test),
                ("%}", Delimiter),
                ("{%", Delimiter),
                ("include", Keyword),
                ("\"x\"", Text),
                ("%}", Delimiter),
            ]
        );
    }

    #[test]
    fn broken_templates_have_words() {
        for text in
            ["{{", "{{ a", "{% if", "{{ 'a", "{{ a {{ b }}", "{#", "{% raw %}{{ x }}", "{{ ü |", "{{-"]
        {
            for end in 0..=text.len() {
                if text.is_char_boundary(end) {
                    words(text, 0..end);
                }
            }
        }
        let raw = seen("{% raw %}{{ x }}{% endraw %}{{ y }}");
        assert!(raw.iter().all(|(word, _)| *word != "x") && raw.iter().any(|(word, _)| *word == "y"));
    }
}
