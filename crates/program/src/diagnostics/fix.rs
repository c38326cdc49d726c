//! Changes that mend a finding for certain: what was meant is beyond doubt, and the file says it afterwards.

use crate::{
    front_matter,
    span::{SourceFile, Span},
    yaml::{self, Data, Entry, Node},
};
use std::{ops::Range, sync::Arc};

/// Longest keys for which a change is proved by reading the changed file again, in bytes: a file made for it could ask
/// for a proof every 30 bytes.
const LONGEST_PROVED: usize = 4 << 10;

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fix {
    /// What it does, as an order: `remove the second one`.
    pub title: String,
    /// Its parts, all of one file, in order and apart from each other. All are made or none.
    pub edits: Vec<Edit>,
}

/// A stretch of a file and what takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What goes.
    pub span: Span,
    /// What comes.
    pub text: String,
}

impl Fix {
    /// Puts another text in the place of one stretch.
    pub fn replace(title: impl Into<String>, span: &Span, text: impl Into<String>) -> Option<Self> {
        span.range()?;
        Some(Self { title: title.into(), edits: vec![Edit { span: span.clone(), text: text.into() }] })
    }

    /// The same for a value that is written out there: an alias (`*name`) or a tagged value is not.
    pub fn rewrite(title: impl Into<String>, value: &Span, text: impl Into<String>) -> Option<Self> {
        let written = value.text();
        let plain = !written.is_empty() && !written.starts_with(['*', '&', '!', '|', '>']);
        plain.then(|| Self::replace(title, value, text))?
    }

    /// Removes one key of a map with its value. `None` where the text is such that it can't be proved to remove that and
    /// nothing else.
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

    /// The file that it changes.
    pub fn file(&self) -> Option<&Arc<SourceFile>> {
        self.edits.first().map(|edit| edit.span.file())
    }

    /// The text with it; `None` if its parts lie in each other or outside of the text.
    pub fn apply(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        for edit in &self.edits {
            let range = edit.span.range()?;
            out.push_str(text.get(at..range.start)?);
            text.get(range.clone())?;
            out.push_str(&edit.text);
            at = range.end;
        }
        out.push_str(text.get(at..)?);
        Some(out)
    }
}

/// Several changes of one file at once: those that lie apart from all before them, as one. The others come back.
pub fn merge<'a>(fixes: impl IntoIterator<Item = &'a Fix>) -> (Fix, Vec<&'a Fix>) {
    let mut edits: Vec<Edit> = Vec::new();
    let mut skipped = Vec::new();
    let apart = |a: &Edit, b: &Edit| match (a.span.range(), b.span.range()) {
        // Two insertions at one place have no order.
        (Some(a), Some(b)) => (a.end <= b.start || b.end <= a.start) && a.start != b.start,
        _ => false,
    };
    for fix in fixes {
        if fix.edits.iter().all(|edit| edits.iter().all(|taken| apart(edit, taken))) {
            edits.extend(fix.edits.iter().cloned());
        } else {
            skipped.push(fix);
        }
    }
    edits.sort_by_key(|edit| edit.span.range().map_or(0, |range| range.start));
    (Fix { title: String::new(), edits }, skipped)
}

/// Text as a YAML value on one line: plain where that is read as this text, else in quotes.
pub fn scalar(text: &str) -> String {
    let plain = format!("x: {text}");
    let read = yaml::parse(&SourceFile::new("", plain.as_str()), plain.len()).ok();
    match read.as_ref().and_then(|node| node.get("x")).and_then(Node::as_text) {
        Some(read) if read == text && !text.contains([',', '[', ']', '{', '}', '\n']) => text.to_owned(),
        _ => serde_json::Value::from(text).to_string(),
    }
}

/// The keys of a definition file, those given twice included.
fn keys(file: &Arc<SourceFile>) -> Option<Node> {
    let text = file.text();
    let end = if file.path().ends_with(".worker") { front_matter::keys_end(text)? } else { text.len() };
    if end > LONGEST_PROVED {
        return None;
    }
    yaml::tree(file, end).ok()
}

/// The stretches that may be the entry and what belongs to it: whole lines, or up to a neighbour's comma.
fn stretches(text: &str, start: usize, end: usize) -> Vec<Range<usize>> {
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let next = text[end..].find('\n').map_or(text.len(), |newline| end + newline + 1);
    let mut all: Vec<Range<usize>> = Vec::new();
    // Alone on its lines: likely, and then right at once.
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

/// The tree without the entry whose key stands there.
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

/// Whether two trees say the same, keys given twice included, wherever it stands.
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
        let mut node = yaml::tree(&file, text.len()).unwrap();
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

    #[test]
    fn changes_in_each_other_are_not_made_together() {
        let file = SourceFile::new("x", "0123456789");
        let fix =
            |range: Range<usize>, text: &str| Fix::replace("x", &Span::new(&file, range), text).unwrap();
        let (a, b, c, d) = (fix(4..6, "x"), fix(0..2, ""), fix(5..7, "y"), fix(6..6, "+"));
        let (merged, skipped) = merge([&a, &b, &c, &d]);
        assert_eq!(merged.apply(file.text()).unwrap(), "23x+6789");
        assert_eq!(skipped, [&c]);
    }

    #[test]
    fn names_are_quoted_where_yaml_would_read_something_else() {
        assert_eq!(scalar("reports/summary"), "reports/summary");
        for text in ["1.0", "true", "null", "a: b", "a #b", "[x", "", "- a", "x, y"] {
            assert_eq!(scalar(text), format!("\"{text}\""));
        }
    }
}
