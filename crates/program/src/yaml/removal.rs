//! Removes one key of a file. The change is offered only if parsing the changed file again proves that it removes that
//! key and nothing else.

use super::{Data, Entry, Node, tree};
use crate::{
    diagnostics::Fix,
    fence,
    span::{SourceFile, Span},
};
use std::{ops::Range, sync::Arc};

/// Longest keys, in bytes, for which a removal is proved. Each proof parses the file again, and a hostile file could
/// need one every 30 bytes.
const LONGEST_PROVED: usize = 4 << 10;

impl Fix {
    /// Removes one key of a map with its value. Returns `None` if it can't be proved that the change removes only that
    /// key.
    pub fn remove(title: impl Into<String>, entry: &Entry) -> Option<Self> {
        let file = entry.key_span.file();
        let before = keys(file)?;
        let place = entry.key_span.range()?;
        let expected = without(&before, &place)?;
        let end = entry.value.span.range().map_or(place.end, |range| range.end).max(place.end);
        stretches(file.text(), place.start, end)
            .into_iter()
            .find_map(|range| {
                let fix = Self::replace("", &Span::new(file, range), "")?;
                let changed = SourceFile::new(Arc::clone(file.path()), fix.apply(file.text())?);
                let after = keys(&changed)?;
                same(&after, &expected).then_some(fix)
            })
            .map(|fix| Self { title: title.into(), ..fix })
    }
}

/// Returns the keys of a definition file, including duplicates.
fn keys(file: &Arc<SourceFile>) -> Option<Node> {
    let text = file.text();
    let end = if file.path().ends_with(".worker") { fence::keys_end(text)? } else { text.len() };
    if end > LONGEST_PROVED {
        return None;
    }
    tree(file, end).ok()
}

/// Returns the ranges that may be the entry: whole lines, or up to a neighbour's comma.
fn stretches(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let next = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    let mut all: Vec<Range<usize>> = Vec::new();
    // First try the entry's whole lines, which is the most likely case.
    if text[line..start].trim().is_empty() {
        all.push(line..next);
    }
    let after = &text[end..];
    if let Some(rest) = after.trim_start_matches([' ', '\t']).strip_prefix(',') {
        all.push(start..text.len() - rest.trim_start_matches([' ', '\t']).len());
    }
    if let Some(rest) = text[..start].trim_end_matches([' ', '\t']).strip_suffix(',') {
        all.push(rest.len()..end);
    }
    all.push(start..end);
    all
}

/// Returns the tree without the entry that has this key range.
fn without(node: &Node, key: &Range<usize>) -> Option<Node> {
    let data = match &node.data {
        Data::Map(entries) => {
            let mut kept = Vec::new();
            let mut found = false;
            for entry in entries {
                if entry.key_span.range().as_ref() == Some(key) {
                    found = true;
                } else if let Some(inner) = without(&entry.value, key).filter(|_| !found) {
                    found = true;
                    kept.push(Entry { value: inner, ..entry.clone() });
                } else {
                    kept.push(entry.clone());
                }
            }
            found.then_some(Data::Map(kept))
        }
        Data::List(items) => {
            let mut items = items.clone();
            let changed = items.iter_mut().any(|item| match without(item, key) {
                Some(inner) => {
                    *item = inner;
                    true
                }
                None => false,
            });
            changed.then_some(Data::List(items))
        }
        _ => None,
    };
    data.map(|data| Node { span: node.span.clone(), data })
}

/// Returns true if two trees have the same content, including duplicate keys, whatever their places.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.data, &b.data) {
        (Data::Map(a), Data::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && same(&a.value, &b.value))
        }
        (Data::Map(empty), Data::Null) | (Data::Null, Data::Map(empty)) => empty.is_empty(),
        (Data::List(a), Data::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn removed(text: &str, path: &[&str]) -> Option<String> {
        let file = SourceFile::new("x.yaml", text);
        let mut node = tree(&file, text.len()).unwrap();
        let (last, folders) = path.split_last().unwrap();
        for key in folders {
            node = node.get(key).unwrap().clone();
        }
        let entry = node.entries().iter().rev().find(|entry| entry.key == *last).unwrap();
        Fix::remove("x", entry)?.apply(text)
    }

    #[test]
    fn an_entry_is_removed_with_its_line_and_nothing_else() {
        assert_eq!(removed("a: 1\nb: 2 # why\nc: 3\n", &["b"]).unwrap(), "a: 1\nc: 3\n");
        assert_eq!(removed("a: 1\nb: 2\na: 1\n", &["a"]).unwrap(), "a: 1\nb: 2\n");
        assert_eq!(removed("a:\n  b: [1,\n    2]\n  c: 3\n", &["a", "b"]).unwrap(), "a:\n  c: 3\n");
        assert_eq!(removed("a: {b: 1, c: 2, d: 3}\n", &["a", "b"]).unwrap(), "a: {c: 2, d: 3}\n");
        assert_eq!(removed("a: {b: 1, c: 2}\n", &["a", "c"]).unwrap(), "a: {b: 1}\n");
        assert_eq!(removed("a: {b: 1}\n", &["a", "b"]).unwrap(), "a: {}\n");
        assert_eq!(removed("a: 1\nb:\n  - x\n  - y\nc: 2\n", &["b"]).unwrap(), "a: 1\nc: 2\n");
    }

    #[test]
    fn what_cannot_be_proved_is_not_offered() {
        // The anchor is used elsewhere.
        assert_eq!(removed("a: &x 1\nb: *x\n", &["a"]), None);
        // A block's end is known to the YAML library only; if a change is offered, it is right.
        if let Some(text) = removed("a: 1\nb: |\n  one\n  two\nc: 2\n", &["b"]) {
            assert_eq!(text, "a: 1\nc: 2\n");
        }
        let long = format!("a: 1\nb: {}\n", "x".repeat(LONGEST_PROVED));
        assert_eq!(removed(&long, &["a"]), None);
    }
}
