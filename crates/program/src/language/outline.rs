//! The outline of a file, and its parts that can be folded.

use super::FileKind;
use crate::{
    front_matter,
    span::SourceFile,
    yaml::{Data, Node},
};
use std::{ops::Range, sync::Arc};

/// The kind of an [`Item`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKind {
    /// A key.
    Key,
    /// A parameter of a worker.
    Parameter,
    /// A case.
    Case,
    /// A heading of the instructions.
    Heading,
}

/// An item of an outline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The name of the item.
    pub name: String,
    /// The value, if it is short.
    pub detail: String,
    /// The kind of the item.
    pub kind: ItemKind,
    /// All bytes of the item.
    pub range: Range<usize>,
    /// The bytes of its name.
    pub name_range: Range<usize>,
    /// The items in it.
    pub children: Vec<Item>,
}

/// Lines that can be folded, from a first to a last one, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fold {
    /// The first line, which stays visible.
    pub first: u32,
    /// The last line.
    pub last: u32,
}

/// Depth of the keys in an outline.
const DEEPEST: usize = 3;

/// Returns the keys of a text, also of one with errors.
pub(super) fn keys(path: &str, text: &str) -> Option<Node> {
    let kind = FileKind::of(path).filter(|kind| *kind != FileKind::Template)?;
    let file: Arc<SourceFile> = SourceFile::new(path, text);
    Some(front_matter::definition_of(file, kind == FileKind::Worker).document?.keys)
}

/// Returns the outline of a file.
pub fn outline(path: &str, text: &str) -> Vec<Item> {
    let Some(kind) = FileKind::of(path) else { return Vec::new() };
    let mut items = keys(path, text).map(|node| of_keys(kind, &node, &[], text.len())).unwrap_or_default();
    let (_, template) = kind.parts(text);
    let headings = headings(text, template.clone());
    let ends = headings.iter().skip(1).map(|heading| heading.1.start).chain([template.end]);
    for ((name, range), end) in headings.iter().zip(ends) {
        items.push(Item {
            name: name.clone(),
            detail: String::new(),
            kind: ItemKind::Heading,
            range: range.start..end,
            name_range: range.clone(),
            children: Vec::new(),
        });
    }
    items
}

fn of_keys(kind: FileKind, node: &Node, path: &[&str], end: usize) -> Vec<Item> {
    let mut items = Vec::new();
    if path.len() >= DEEPEST {
        return items;
    }
    if let (Data::List(cases), ["cases"]) = (&node.data, path) {
        for case in cases {
            let Some(name) = case.get("name") else { continue };
            if let (Some(text), Some(range), Some(name_range)) =
                (name.as_text(), case.span.range(), name.span.range())
            {
                let (kind, children, detail) = (ItemKind::Case, Vec::new(), String::new());
                items.push(Item { name: text.to_owned(), detail, kind, range, name_range, children });
            }
        }
        return items;
    }
    for entry in node.entries() {
        let Some(name_range) = entry.key_span.range() else { continue };
        let value =
            entry.value.span.range().filter(|range| range.start >= name_range.end && range.end <= end);
        let mut below = path.to_vec();
        below.push(&entry.key);
        let detail = match &entry.value.data {
            Data::Map(_) | Data::List(_) | Data::Null => String::new(),
            _ => entry.value.span.text().lines().next().unwrap_or_default().chars().take(60).collect(),
        };
        let is_worker = matches!(kind, FileKind::Worker | FileKind::YamlWorker);
        items.push(Item {
            name: if entry.key.is_empty() { "\"\"".to_owned() } else { entry.key.clone() },
            detail,
            kind: if is_worker && path == ["parameters"] { ItemKind::Parameter } else { ItemKind::Key },
            range: name_range.start..value.map_or(name_range.end, |range| range.end),
            name_range,
            children: of_keys(kind, &entry.value, &below, end),
        });
    }
    items
}

/// Returns the headings of Markdown in these bytes, without those in blocks of code.
fn headings(text: &str, range: Range<usize>) -> Vec<(String, Range<usize>)> {
    let mut found = Vec::new();
    let mut at = range.start;
    let mut in_code = false;
    for line in text[range].split_inclusive('\n') {
        let content = line.trim_end();
        if content.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let marks = content.bytes().take_while(|byte| *byte == b'#').count();
        let title = content[marks..].trim();
        if !in_code && (1..=6).contains(&marks) && content[marks..].starts_with(' ') && !title.is_empty() {
            found.push((title.to_owned(), at..at + content.len()));
        }
        at += line.len();
    }
    found
}

/// Returns the parts of a file that can be folded: the front matter, values of several lines, and the text below
/// headings.
pub fn folds(path: &str, text: &str) -> Vec<Fold> {
    let Some(kind) = FileKind::of(path) else { return Vec::new() };
    let starts: Vec<usize> =
        std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
    let line = |offset: usize| {
        u32::try_from(starts.partition_point(|start| *start <= offset) - 1).unwrap_or(u32::MAX)
    };
    let mut folds = Vec::new();
    let mut fold = |range: Range<usize>| {
        let kept = range.start + text[range.clone()].trim_end().len();
        let one = Fold { first: line(range.start), last: line(kept) };
        if one.last > one.first {
            folds.push(one);
        }
    };
    let (yaml, _) = kind.parts(text);
    if kind == FileKind::Worker && !yaml.is_empty() {
        let end = text[yaml.end..].find('\n').map_or(text.len(), |newline| yaml.end + newline);
        fold(yaml.start - 1..end);
    }
    let mut open = outline(path, text);
    while let Some(item) = open.pop() {
        fold(item.range);
        open.extend(item.children);
    }
    folds.sort_unstable();
    folds.dedup();
    folds
}
