//! Reads the keys of a document with a syntax error.
//!
//! The lines of each key are parsed by themselves. A key whose lines are not valid stays with the value
//! [`Data::Null`], or with those of its own keys that are valid.

use super::{Data, Entry, Node, part};
use crate::span::{SourceFile, Span};
use std::{ops::Range, sync::Arc};

/// The depth up to which the keys of a broken value are read.
const DEEPEST: usize = 8;

/// Returns the map of the valid keys in these bytes of a file, or `None` if there is no key.
pub(super) fn keys(file: &Arc<SourceFile>, range: Range<usize>) -> Option<Node> {
    map(file, range, 0)
}

fn map(file: &Arc<SourceFile>, range: Range<usize>, depth: usize) -> Option<Node> {
    let mut entries: Vec<Entry> = Vec::new();
    for lines in lines_of_keys(file.text(), range) {
        let read = match part(file, lines.clone()) {
            Ok(Node { data: Data::Map(read), .. }) => read.into_iter().map(without_repeats).collect(),
            _ => broken(file, lines, depth).into_iter().collect::<Vec<_>>(),
        };
        for entry in read {
            if entries.iter().all(|known| known.key != entry.key) {
                entries.push(entry);
            }
        }
    }
    let span = entries.first()?.key_span.to(&entries.last()?.value.span);
    Some(Node { span, data: Data::Map(entries) })
}

/// Returns the lines of each key: those that begin with as much white space as the first one begin a key.
fn lines_of_keys(text: &str, range: Range<usize>) -> Vec<Range<usize>> {
    let mut starts = Vec::new();
    let mut indent = None;
    let mut at = range.start;
    for line in text[range.clone()].split_inclusive('\n') {
        let content = line.trim_start_matches(' ');
        let width = line.len() - content.len();
        let is_content = !content.trim().is_empty() && !content.starts_with('#');
        // A list may be indented like its key, and so may the end of a value in brackets.
        let continues = content.starts_with(['-', '}', ']']);
        if is_content && !continues && width <= *indent.get_or_insert(width) {
            starts.push(at);
        }
        at += line.len();
    }
    let ends = starts.iter().skip(1).copied().chain([range.end]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

/// Returns the key of lines that are not valid, with its valid keys.
fn broken(file: &Arc<SourceFile>, lines: Range<usize>, depth: usize) -> Option<Entry> {
    let text = &file.text()[lines.clone()];
    let first = text.split_inclusive('\n').next()?;
    let colon = first
        .find(':')
        .filter(|at| first[at + 1..].starts_with([' ', '\n', '\r']) || first.len() == at + 1)?;
    let key = first[..colon].trim();
    let name = key.trim_matches(['"', '\'']);
    if name.is_empty() || name.contains(['{', '}', '[', ']', '"', ',', '#', '&', '*']) {
        return None;
    }
    let start = lines.start + (first.len() - first.trim_start().len());
    let key_span = Span::new(file, start..start + key.len());
    let below = lines.start + first.len()..lines.end;
    let is_empty = first[colon + 1..].trim().is_empty() || first[colon + 1..].trim_start().starts_with('#');
    let value = if is_empty && depth < DEEPEST { map(file, below, depth + 1) } else { None };
    let value = value.unwrap_or_else(|| {
        let rest = &text[colon + 1..];
        let begin = lines.start + colon + 1 + (rest.len() - rest.trim_start().len());
        Node { span: Span::new(file, begin..lines.start + text.trim_end().len()), data: Data::Null }
    });
    Some(Entry { key: name.to_owned(), key_span, value })
}

/// Keeps the first of several entries with one key.
fn without_repeats(entry: Entry) -> Entry {
    Entry { value: first_ones(entry.value), ..entry }
}

fn first_ones(node: Node) -> Node {
    let data = match node.data {
        Data::Map(entries) => {
            let mut kept: Vec<Entry> = Vec::with_capacity(entries.len());
            for entry in entries {
                if kept.iter().all(|known| known.key != entry.key) {
                    kept.push(without_repeats(entry));
                }
            }
            Data::Map(kept)
        }
        Data::List(items) => Data::List(items.into_iter().map(first_ones).collect()),
        data => data,
    };
    Node { data, ..node }
}
