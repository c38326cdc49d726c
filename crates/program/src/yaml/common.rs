//! Reads documents of the common forms from the parser's events.
//!
//! `serde-saphyr` asks for each value through several layers of serde, and again for each of its two places, which
//! takes three quarters of the time of reading a file. Almost all documents have only maps, lists, and scalars whose
//! type is unambiguous, and those follow from the events of its parser alone. Everything else (anchors, tags, merges,
//! numbers that are not plain digits, errors of any kind) is left to `serde-saphyr`, which alone decides if a document
//! is valid. A test compares the two.

use super::{Data, Entry, Node, whole};
use crate::span::{SourceFile, Span};
use serde_saphyr::granit_parser::{Event, Parser, ScalarStyle, Span as EventSpan, StrInput, options};
use std::{ops::Range, sync::Arc};

/// The depth of a document from which on it may exceed a limit, and its size.
const DEEPEST: usize = 32;
const LONGEST: usize = 64 * 1024;

/// Returns the tree of a document, if it has only common forms. `range` is the range of its bytes in the file.
pub(super) fn read(file: &Arc<SourceFile>, range: Range<usize>) -> Option<Node> {
    let text = file.text().get(range.clone()).filter(|text| text.len() <= LONGEST)?;
    let events = Parser::new_from_str_with_options(text, options! { emit_comments: false });
    let mut composer = Composer { file, begin: range.start, events };
    composer.marker(|event| matches!(event, Event::StreamStart))?;
    composer.marker(|event| matches!(event, Event::DocumentStart(_, None)))?;
    let first = composer.next()?;
    let node = composer.node(first, 0)?;
    composer.marker(|event| matches!(event, Event::DocumentEnd))?;
    composer.marker(|event| matches!(event, Event::StreamEnd))?;
    Some(node)
}

struct Composer<'a> {
    file: &'a Arc<SourceFile>,
    begin: usize,
    events: Parser<'a, StrInput<'a>>,
}

impl<'a> Composer<'a> {
    fn next(&mut self) -> Option<(Event<'a>, EventSpan)> {
        self.events.next_event()?.ok()
    }

    fn marker(&mut self, is: impl FnOnce(&Event<'_>) -> bool) -> Option<()> {
        self.next().filter(|(event, _)| is(event)).map(|_| ())
    }

    fn node(&mut self, (event, at): (Event<'a>, EventSpan), depth: usize) -> Option<Node> {
        let span = self.span(&at)?;
        let data = match event {
            Event::Scalar(text, style, 0, None) => scalar(text.into_owned(), style)?,
            Event::SequenceStart(_, 0, None) if depth < DEEPEST => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        next => items.push(self.node(next, depth + 1)?),
                    }
                }
                Data::List(items)
            }
            Event::MappingStart(_, 0, None) if depth < DEEPEST => {
                let mut entries = Vec::new();
                loop {
                    let (key, key_span) = match self.next()? {
                        (Event::MappingEnd, _) => break,
                        (Event::Scalar(text, style, 0, None), at) => {
                            let Data::Text(key) = scalar(text.into_owned(), style)? else { return None };
                            (key, self.span(&at)?)
                        }
                        _ => return None,
                    };
                    let next = self.next()?;
                    entries.push(Entry { key, key_span, value: self.node(next, depth + 1)? });
                }
                Data::Map(entries)
            }
            _ => return None,
        };
        Some(Node { span: whole(span, &data), data })
    }

    fn span(&self, at: &EventSpan) -> Option<Span> {
        let Range { start, end } = at.byte_range()?;
        Some(Span::new(self.file, self.begin + start..self.begin + end))
    }
}

/// Returns the value of a scalar, if its type is unambiguous.
fn scalar(text: String, style: ScalarStyle) -> Option<Data> {
    if style != ScalarStyle::Plain {
        return Some(Data::Text(text));
    }
    match text.as_bytes() {
        b"true" => Some(Data::Flag(true)),
        b"false" => Some(Data::Flag(false)),
        b"0" => Some(Data::Number(0_u64.into())),
        [b'1'..=b'9', rest @ ..] if rest.len() < 18 && rest.iter().all(u8::is_ascii_digit) => {
            Some(Data::Number(text.parse::<u64>().ok()?.into()))
        }
        _ => {
            // Only these of the other types may begin with a letter.
            let doubtful = ["null", "true", "false", "inf", "infinity", "nan"];
            let is_text = text.starts_with(char::is_alphabetic)
                && !doubtful.iter().any(|other| text.eq_ignore_ascii_case(other));
            is_text.then_some(Data::Text(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::any, *};
    use proptest::prelude::*;

    const CASES: u32 = 5_000;

    /// Returns true if a document has only common forms. The result must then equal that of the library.
    fn is_common(text: &str) -> bool {
        let file = SourceFile::new("x.yaml", text);
        let node = read(&file, 0..text.len());
        if let Some(node) = &node {
            assert_eq!(any(&file, 0..text.len()).as_ref(), Ok(node), "{text:?}");
        }
        node.is_some()
    }

    #[test]
    fn common_forms_are_read_as_the_library_reads_them() {
        for text in [
            "a: 1\nb:\n  - x # note\n  - \"y z\"\nc: {d: true, e: text}\nf: yes\n",
            "description: >\n  folded\n  text\nlimits: {max_turns: 12}\nempty: {}\nnone: []\n",
            "'quoted': 'it''s'\nlong: |-\n  one\n   two\n\nplain: of\n  two lines\n",
            "- a\n- - b\n  - c\n-\n  d: 0\n",
            "ä: ü\r\nb: \"ö\"\r\n",
            "# first\na: b # behind\n",
        ] {
            assert!(is_common(text), "{text:?}");
        }
    }

    #[test]
    fn what_is_in_doubt_is_left_to_the_library() {
        for text in [
            "",
            "a: ~",
            "a:",
            "a: NULL",
            "a: True",
            "a: 1.0",
            "a: 0x1",
            "a: 017",
            "a: -1",
            "a: .inf",
            "a: nan",
            "a: Infinity",
            "a: &x 1",
            "a: *x",
            "<<: {a: b}",
            "a: !!str 1",
            "? [a]\n: b",
            "1: a",
            "a: [",
            "a: b: c",
            "a: b\n---\nc: d\n",
            "%YAML 1.2\n---\na: b\n",
            "a: 1_000",
            "a: 9999999999999999999",
            "a: @x",
        ] {
            assert!(!is_common(text), "{text:?}");
        }
        assert!(!is_common(&format!("{}{}", "[".repeat(40), "]".repeat(40))));
    }

    #[test]
    fn random_documents_are_read_as_the_library_reads_them() {
        let part = prop::sample::select(
            [
                "a: ",
                "b: ",
                "key: ",
                "- ",
                "\n",
                "\n  ",
                "\n    ",
                "\n- ",
                "[",
                "]",
                "{",
                "}",
                ", ",
                "x",
                "text",
                "two words",
                "12",
                "0",
                "07",
                "1.5",
                "true",
                "no",
                "null",
                "inf",
                "e5",
                "\"q\"",
                "'s'",
                "|\n  ",
                ">-\n  ",
                " # c",
                "#",
                ": ",
                ":",
                "&a ",
                "*a",
                "!t ",
                "\t",
                "\r\n",
                "ü",
                "?",
                "---",
                "...",
                "\"\\n\"",
                "%",
                "<<: ",
                "\u{feff}",
                "\u{1}",
                "~",
                "@",
            ]
            .as_slice(),
        );
        let common = std::cell::Cell::new(0);
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(CASES)
        });
        let documents = prop::collection::vec(part, 1..14);
        runner
            .run(&documents, |parts| {
                common.set(common.get() + usize::from(is_common(&parts.concat())));
                Ok(())
            })
            .unwrap_or_else(|failed| panic!("{failed}"));
        assert!(common.get() > 500, "only {} documents were common", common.get());
    }
}
