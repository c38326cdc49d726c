//! YAML as a tree in which every value has its span.

mod common;
mod quotes;
mod recovery;
mod removal;

use crate::{
    diagnostics::{Diagnostic, Fix, codes},
    span::{SourceFile, Span},
};
use llm_do_core::json;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{
    DuplicateKeyPolicy, Error, Location, MessageFormatter, Options, Spanned, UserMessageFormatter,
};
use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The span of the value.
    pub span: Span,
    /// The data of the value.
    pub data: Data,
}

/// The data of a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// Nothing, `~`, `null`.
    Null,
    /// `true`, `false`.
    Flag(bool),
    /// A number.
    Number(Number),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order written.
    Map(Vec<Entry>),
}

/// A key of a map with its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The span of the key.
    pub key_span: Span,
    /// The value of the key.
    pub value: Node,
}

impl Node {
    /// Returns the type in messages: `text`, `a list`.
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::Null => "nothing",
            Data::Flag(_) => "true or false",
            Data::Number(number) if number.is_f64() => "a number",
            Data::Number(_) => "a whole number",
            Data::Text(_) => "text",
            Data::List(_) => "a list",
            Data::Map(_) => "a map",
        }
    }

    /// Returns the text, if the value is one.
    pub fn as_text(&self) -> Option<&str> {
        match &self.data {
            Data::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the boolean, if the value is one.
    pub fn as_flag(&self) -> Option<bool> {
        match self.data {
            Data::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    /// Returns the whole number, if the value is one.
    pub fn as_count(&self) -> Option<u64> {
        match &self.data {
            Data::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Returns the number, if the value is one.
    pub fn as_number(&self) -> Option<f64> {
        match &self.data {
            Data::Number(number) => number.as_f64(),
            _ => None,
        }
    }

    /// Returns the items; none if the value is not a list.
    pub fn items(&self) -> &[Node] {
        match &self.data {
            Data::List(items) => items,
            _ => &[],
        }
    }

    /// Returns the entries; none if the value is not a map.
    pub fn entries(&self) -> &[Entry] {
        match &self.data {
            Data::Map(entries) => entries,
            _ => &[],
        }
    }

    /// Returns the entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Returns the texts of a list, or a single text as a list of one.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &Span)> {
        let lone = self.as_text().map(|text| (text, &self.span));
        lone.into_iter().chain(self.items().iter().filter_map(|item| Some((item.as_text()?, &item.span))))
    }

    /// Returns the items of a list, or a lone value itself.
    pub fn each(&self) -> &[Node] {
        match &self.data {
            Data::List(items) => items,
            _ => std::slice::from_ref(self),
        }
    }

    /// Returns the value that a JSON Pointer names, as far down as it goes.
    pub fn at_pointer(&self, pointer: &str) -> &Node {
        let mut node = self;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &node.data {
                Data::Map(_) => node.get(&part),
                Data::List(items) => part.parse::<usize>().ok().and_then(|i| items.get(i)),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// Converts the value to JSON.
    pub fn to_json(&self) -> Value {
        match &self.data {
            Data::Null => Value::Null,
            Data::Flag(flag) => Value::Bool(*flag),
            Data::Number(number) => Value::Number(number.clone()),
            Data::Text(text) => Value::String(text.clone()),
            Data::List(items) => items.iter().map(Node::to_json).collect(),
            Data::Map(entries) => {
                let map: Map<String, Value> =
                    entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect();
                Value::Object(map)
            }
        }
    }
}

/// Parses one YAML document: the first `end` bytes of the file. An empty document is [`Data::Null`].
///
/// # Errors
/// A syntax error, a duplicate key, more than one document, or aliases that expand too much.
pub fn parse(file: &Arc<SourceFile>, end: usize) -> Result<Node, Box<Diagnostic>> {
    let node = tree(file, end)?;
    match given_twice(&node).or_else(|| with_leading_zeros(&node)) {
        Some(found) => Err(found.into()),
        None => Ok(node),
    }
}

/// Parses one YAML document like [`parse`]. If it has an error, the keys that the error does not concern are returned
/// with it; the value of a key that has the error is [`Data::Null`].
pub fn parse_partly(file: &Arc<SourceFile>, end: usize) -> (Node, Option<Box<Diagnostic>>) {
    match parse(file, end) {
        Ok(node) => (node, None),
        Err(error) => {
            let node = match error.code {
                // Its parts would exceed the limits too.
                codes::YAML_BUDGET => None,
                _ => recovery::keys(file, begin_of(file)..end),
            };
            let nothing = || Node { span: Span::new(file, begin_of(file)..end), data: Data::Null };
            (node.unwrap_or_else(nothing), Some(error))
        }
    }
}

/// Reports the first number with leading zeros. Readers of YAML take it for different numbers, and its author may mean
/// a text.
fn with_leading_zeros(node: &Node) -> Option<Diagnostic> {
    match &node.data {
        Data::Number(_) => {
            let written = node.span.text();
            let digits = written.trim_start_matches(['+', '-']);
            let has_zeros = digits.len() > 1
                && digits.starts_with('0')
                && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
            let number =
                Some(digits.trim_start_matches('0')).filter(|number| !number.is_empty()).unwrap_or("0");
            let message = format!("`{written}` has leading zeros: is it the text, or the number {number}?");
            has_zeros.then(|| {
                Diagnostic::error(codes::BAD_YAML, message).at(&node.span).help(format!(
                    "put the text in quotes (\"{written}\"), or leave out the zeros of the number"
                ))
            })
        }
        Data::List(items) => items.iter().find_map(with_leading_zeros),
        Data::Map(entries) => entries.iter().find_map(|entry| with_leading_zeros(&entry.value)),
        _ => None,
    }
}

/// Parses a document like [`parse`], but keeps all entries of duplicate keys.
pub(crate) fn tree(file: &Arc<SourceFile>, end: usize) -> Result<Node, Box<Diagnostic>> {
    part(file, begin_of(file)..end)
}

/// Returns the position after a byte order mark.
fn begin_of(file: &Arc<SourceFile>) -> usize {
    if file.text().starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Parses a part of a file as a document.
fn part(file: &Arc<SourceFile>, range: Range<usize>) -> Result<Node, Box<Diagnostic>> {
    match common::read(file, range.clone()) {
        Some(node) => Ok(node),
        None => any(file, range),
    }
}

/// Parses a line of JSON Lines, which lies at these bytes of the file. JSON is YAML, apart from a few characters in
/// texts that YAML refuses: the file must have those as `\u` escapes.
///
/// # Errors
/// The line is not JSON, or a key is given twice.
pub(crate) fn json_line(file: &Arc<SourceFile>, range: Range<usize>) -> Result<Node, Box<Diagnostic>> {
    if let Err(error) = serde_json::from_str::<de::IgnoredAny>(&file.text()[range.clone()]) {
        let message = error.to_string();
        let message = message.rsplit_once(" at line ").map_or(&*message, |(message, _)| message);
        // The library counts bytes, from 1.
        let at = range.start + error.column().saturating_sub(1);
        let finding = Diagnostic::error(codes::BAD_YAML, format!("invalid JSON: {message}"));
        return Err(finding
            .at(&Span::new(file, at..at + 1))
            .help("each line of the file is one JSON object")
            .into());
    }
    let node = match common::read(file, range.clone()) {
        Some(node) => node,
        None => any(file, range)?,
    };
    match given_twice(&node) {
        Some(found) => Err(found.into()),
        None => Ok(node),
    }
}

/// Parses any document in the same way.
fn any(file: &Arc<SourceFile>, Range { start: bom, end }: Range<usize>) -> Result<Node, Box<Diagnostic>> {
    let text = &file.text()[bom..end];
    let places = Places { file, bom };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options(text.len())) {
        Ok(raw) => {
            let node = places.node(raw);
            match with_leading_zeros(&node).or_else(|| inexact(&node)) {
                Some(found) => Err(found.into()),
                None => Ok(node),
            }
        }
        Err(error) => {
            let found = places.explain(&error);
            let at = found.span.as_ref().and_then(Span::range).filter(|_| found.code == codes::BAD_YAML);
            Err(match at.and_then(|at| quotes::missing(file, bom..end, at.start)) {
                Some((fix, quoted)) => found.help(format!("put the value in quotes: {quoted}")).fix(fix),
                None => found,
            }
            .into())
        }
    }
}

/// Reports the first number that can't be kept as it is written.
fn inexact(node: &Node) -> Option<Diagnostic> {
    match &node.data {
        Data::Number(number) if number.is_f64() => {
            // YAML allows a sign that JSON has not, and no digit before the point.
            let written = node.span.text().trim_start_matches('+');
            let written = match written.strip_prefix('-') {
                Some(rest) if rest.starts_with('.') => format!("-0{rest}"),
                None if written.starts_with('.') => format!("0{written}"),
                _ => written.to_owned(),
            };
            let error = json::exact(&written).err()?;
            Some(Diagnostic::error(codes::BAD_YAML, error.message).at(&node.span))
        }
        Data::Map(entries) => entries.iter().find_map(|entry| inexact(&entry.value)),
        Data::List(items) => items.iter().find_map(inexact),
        _ => None,
    }
}

/// Formats a text as a YAML value on one line: plain if YAML reads it as this text, else in quotes.
pub fn scalar(text: &str) -> String {
    let plain = format!("x: {text}");
    let read = parse(&SourceFile::new("", plain.as_str()), plain.len()).ok();
    match read.as_ref().and_then(|node| node.get("x")).and_then(Node::as_text) {
        Some(read) if read == text && !text.contains([',', '[', ']', '{', '}', '\n']) => text.to_owned(),
        _ => serde_json::Value::from(text).to_string(),
    }
}

/// Reports the first key that is given twice in one map.
fn given_twice(node: &Node) -> Option<Diagnostic> {
    match &node.data {
        Data::Map(entries) => {
            let mut known: HashMap<&str, &Entry> = HashMap::with_capacity(entries.len());
            for entry in entries {
                if let Some(first) = known.insert(&entry.key, entry) {
                    let mut found = Diagnostic::error(
                        codes::DUPLICATE_KEY,
                        format!("`{}` is given twice in one map", entry.key),
                    )
                    .at(&entry.key_span)
                    .related("it is given here too", &first.key_span);
                    if first.value.to_json() == entry.value.to_json() {
                        found =
                            found.fix(Fix::remove("remove the second one, which has the same value", entry));
                    }
                    return Some(if found.fix.is_none() { found.help("keep one of them") } else { found });
                }
                if let Some(found) = given_twice(&entry.value) {
                    return Some(found);
                }
            }
            None
        }
        Data::List(items) => items.iter().find_map(given_twice),
        _ => None,
    }
}

/// Returns the options of the parser: only YAML 1.2 booleans (`yes` and `on` are text), and limits that a text of that
/// many bytes can exceed only through aliases.
fn options(bytes: usize) -> Options {
    serde_saphyr::options! {
        strict_booleans: true,
        // Reported by `parse`, with both places.
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        with_snippet: false,
        budget: serde_saphyr::budget! {
            max_depth: 64,
            max_documents: 1,
            max_nodes: bytes.max(100_000),
            max_events: bytes.max(100_000).saturating_mul(3),
            max_aliases: 1_000,
            max_anchors: 1_000,
            max_total_scalar_bytes: bytes.max(4 << 20),
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 32,
            max_alias_expansions_per_anchor: 1_000,
        },
    }
}

/// A node in the form of the YAML library.
enum Raw {
    Null,
    Flag(bool),
    Number(Number),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Map(Vec<(Spanned<String>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = Raw;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }
            fn visit_unit<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_none<E>(self) -> Result<Raw, E> {
                Ok(Raw::Null)
            }
            fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
                Ok(Raw::Flag(flag))
            }
            fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
                Ok(Raw::Number(number.into()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
                Ok(Raw::Number(number.into()))
            }
            fn visit_i128<E: de::Error>(self, _: i128) -> Result<Raw, E> {
                Err(E::custom("a whole number has at most 64 bits"))
            }
            fn visit_u128<E: de::Error>(self, _: u128) -> Result<Raw, E> {
                Err(E::custom("a whole number has at most 64 bits"))
            }
            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Raw, E> {
                Number::from_f64(number).map(Raw::Number).ok_or_else(|| E::custom("a number must be finite"))
            }
            fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
                Ok(Raw::Text(text.to_owned()))
            }
            fn visit_string<E>(self, text: String) -> Result<Raw, E> {
                Ok(Raw::Text(text))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Raw::List(list))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Raw::Map(map))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

/// Returns the span of a value whose event has this span: to the last part of a list, and from the first key of a map.
fn whole(span: Span, data: &Data) -> Span {
    let span = trimmed(span);
    match data {
        Data::List(items) => items.last().map_or(span.clone(), |last| span.to(&last.span)),
        Data::Map(entries) => match (entries.first(), entries.last()) {
            (Some(first), Some(last)) => first.key_span.to(&last.value.span),
            _ => span,
        },
        _ => span,
    }
}

/// Returns a span without the white space at its end. The span of a scalar may include that and a comment behind it.
fn trimmed(span: Span) -> Span {
    let kept = span.text().trim_end().len();
    match span.range() {
        Some(range) => Span::new(span.file(), range.start..range.start + kept),
        None => span,
    }
}

/// Converts locations of the YAML library to spans of the file.
struct Places<'a> {
    file: &'a Arc<SourceFile>,
    bom: usize,
}

impl Places<'_> {
    fn span(&self, location: Location) -> Span {
        let span = location.span();
        match (span.byte_offset(), span.byte_len()) {
            (Some(start), Some(length)) => {
                let start = start as usize + self.bom;
                Span::new(self.file, start..start + length as usize)
            }
            _ => Span::at(self.file, location.line() as usize, location.column() as usize),
        }
    }

    fn node(&self, raw: Spanned<Raw>) -> Node {
        let span = self.span(raw.referenced);
        let aliased = raw.referenced != raw.defined;
        let data = match raw.value {
            Raw::Null => Data::Null,
            Raw::Flag(flag) => Data::Flag(flag),
            Raw::Number(number) => Data::Number(number),
            Raw::Text(text) => Data::Text(text),
            Raw::List(items) => Data::List(items.into_iter().map(|item| self.node(item)).collect()),
            Raw::Map(entries) => {
                let entry = |(key, value): (Spanned<String>, _)| Entry {
                    key_span: self.span(key.referenced),
                    key: key.value,
                    value: self.node(value),
                };
                Data::Map(entries.into_iter().map(entry).collect())
            }
        };
        // The parts of an alias lie elsewhere.
        let span = if aliased { trimmed(span) } else { whole(span, &data) };
        Node { span, data }
    }

    fn explain(&self, error: &Error) -> Diagnostic {
        let error = error.without_snippet();
        let (code, message) = match error {
            Error::AliasError { error, .. } if !is_budget(error) => return self.explain(error),
            error if is_budget(error) => (
                codes::YAML_BUDGET,
                "this YAML is nested too deeply, is too large, or its aliases expand to too many values"
                    .into(),
            ),
            error => {
                let message = UserMessageFormatter.format_message(error);
                (codes::BAD_YAML, format!("invalid YAML: {message}"))
            }
        };
        let mut found = Diagnostic::error(code, message);
        if let Some(location) = error.location().filter(|location| *location != Location::UNKNOWN) {
            found = found.at(&self.span(location));
        } else {
            found = found.at(&Span::whole(self.file));
        }
        match code {
            codes::YAML_BUDGET => found.help("write the values out instead of nesting aliases"),
            _ => found,
        }
    }
}

fn is_budget(error: &Error) -> bool {
    matches!(
        error,
        Error::Budget { .. }
            | Error::AliasReplayLimitExceeded { .. }
            | Error::AliasExpansionLimitExceeded { .. }
            | Error::AliasReplayStackDepthExceeded { .. }
            | Error::AliasReplayCounterOverflow { .. }
    ) || matches!(error, Error::AliasError { error, .. } if is_budget(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, Box<Diagnostic>> {
        let file = SourceFile::new("x.yaml", text);
        parse(&file, text.len())
    }

    #[test]
    fn every_value_knows_its_place() {
        let node = read("a: 1\nb:\n  - x # note\n  - \"y z\"\nc: {d: true, e: ~}\nf: yes\n").unwrap();
        assert_eq!(node.get("a").unwrap().as_count(), Some(1));
        assert_eq!(node.get("b").unwrap().items()[1].span.text(), "\"y z\"");
        assert_eq!(node.get("b").unwrap().items()[0].span.text(), "x");
        assert_eq!(node.entry("c").unwrap().key_span.line_column(), Some((5, 1)));
        assert_eq!(node.get("c").unwrap().get("e").unwrap().data, Data::Null);
        assert_eq!(node.get("f").unwrap().as_text(), Some("yes"));
        assert_eq!(node.at_pointer("/b/1").as_text(), Some("y z"));
        assert_eq!(node.to_json()["c"]["d"], true);
    }

    #[test]
    fn a_number_that_would_change_is_an_error_at_its_place() {
        for bad in [
            "18446744073709551616",
            "-9223372036854775809",
            "123456789012345678901234567890123456789012345678",
            "12345678901234567890.0",
            "1.0000000000000000001",
        ] {
            let error = read(&format!("a:\n  - {bad}\n")).expect_err(bad);
            assert_eq!(
                error.span.as_ref().and_then(Span::line_column).map(|(line, _)| line),
                Some(2),
                "{bad}"
            );
        }
        for good in ["18446744073709551615", "0.1", ".12345678901234567890123", "+1.5", "6.02e23", "1.0"] {
            assert!(read(&format!("a: [{good}]")).is_ok(), "{good}");
        }
    }

    #[test]
    fn places_hold_behind_a_byte_order_mark_and_wide_characters() {
        let node = read("\u{feff}ä: ü\r\nb: \"ö\"\r\n").unwrap();
        assert_eq!(node.get("b").unwrap().span.text(), "\"ö\"");
        assert_eq!(node.entry("b").unwrap().key_span.line_column(), Some((2, 1)));
        assert_eq!(node.entry("ä").unwrap().key_span.line_column(), Some((1, 1)));
    }

    #[test]
    fn a_key_given_twice_is_an_error_at_its_place() {
        let found = read("a: 1\nb: 2\na: 3\n").unwrap_err();
        assert_eq!(found.code, codes::DUPLICATE_KEY);
        assert_eq!(found.span.unwrap().line_column(), Some((3, 1)));
    }

    #[test]
    fn aliases_cannot_blow_up() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for i in 1..12 {
            let aliases = vec![format!("*a{}", i - 1); 10].join(", ");
            bomb.push_str(&format!("a{i}: &a{i} [{aliases}]\n"));
        }
        assert_eq!(read(&bomb).unwrap_err().code, codes::YAML_BUDGET);
        let deep = format!("{}{}", "[".repeat(5_000), "]".repeat(5_000));
        assert!(read(&deep).is_err());
        assert_eq!(
            read("x: &x {a: 1}\ny: *x\nz:\n  <<: *x\n  b: 2\n").unwrap().get("z").unwrap().entries().len(),
            2
        );
    }

    #[test]
    fn a_number_with_leading_zeros_is_refused() {
        for text in ["a: [007, b]\n", "a: -01\n", "- b: 00\n"] {
            let found = read(text).unwrap_err();
            assert!(found.message.contains("leading zeros"), "{found:?}");
        }
        for text in ["a: [0, 0.5, 1.0, -0]\n", "a: '007'\n", "a: 2026-01-02\n", "a: 07:30\n"] {
            assert!(read(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn an_empty_document_is_null() {
        assert_eq!(read("").unwrap().data, Data::Null);
        assert_eq!(read("---\n").unwrap().data, Data::Null);
        assert_eq!(read("# nothing\n").unwrap().data, Data::Null);
    }

    #[test]
    fn names_are_quoted_where_yaml_would_read_something_else() {
        assert_eq!(scalar("reports/summary"), "reports/summary");
        for text in ["1.0", "true", "null", "a: b", "a #b", "[x", "", "- a", "x, y"] {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
    }
}
