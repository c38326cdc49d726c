//! Findings and their fixes in the form of the protocol.

use crate::places::{Ranges, range, uri_of};
use gen_lsp_types::{Position, Range};
use llm_do::host::program::{
    Diagnostic,
    diagnostics::{Code, Fix, fix},
    line_index::{Columns, LineIndex},
    span::SourceFile,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The pages of codes, as files that an editor can open.
pub(crate) struct Pages {
    folder: Option<PathBuf>,
    written: BTreeSet<&'static str>,
}

impl Pages {
    /// Creates the pages in the folder of llm-do.
    pub(crate) fn new(home: Option<&Path>) -> Self {
        let folder = home.map(|home| home.join("cache").join("diagnostics"));
        Self { folder, written: BTreeSet::new() }
    }

    /// Returns the URI of the page of a code, if it could be written.
    fn uri(&mut self, code: Code) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let path = folder.join(format!("{}.md", code.id));
        if self.written.insert(code.id) && fs::read_to_string(&path).ok().as_deref() != Some(code.page()) {
            let written = fs::create_dir_all(folder).and_then(|()| fs::write(&path, code.page()));
            if written.is_err() {
                self.folder = None;
                return None;
            }
        }
        Some(uri_of(&path))
    }
}

/// Converts the findings of a program. `uri` returns the URI of a file as the findings show it; `whole` is the file of
/// findings without a place.
pub(crate) fn by_file(
    found: &[&Diagnostic],
    whole: &str,
    uri: &dyn Fn(&str) -> String,
    columns: Columns,
    pages: &mut Pages,
) -> BTreeMap<String, Vec<Value>> {
    let mut ranges = Ranges::new(columns);
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for one in found {
        let at = match &one.span {
            Some(span) => uri(span.file().path()),
            None => uri(whole),
        };
        let converted = convert(one, &mut ranges, uri, pages);
        all.entry(at).or_default().push(converted);
    }
    all
}

fn convert(one: &Diagnostic, ranges: &mut Ranges, uri: &dyn Fn(&str) -> String, pages: &mut Pages) -> Value {
    let mut message = one.message.clone();
    for note in &one.notes {
        message.push_str(&format!("\nnote: {note}"));
    }
    for help in &one.help {
        message.push_str(&format!("\nhelp: {help}"));
    }
    let start = Position { line: 0, character: 0 };
    let place = one.span.as_ref().map_or(Range { start, end: start }, |span| ranges.span(span));
    let mut value = json!({
        "range": place,
        "severity": if one.is_error() { 1 } else { 2 },
        "code": one.code.id,
        "source": "llm-do",
        "message": message,
    });
    if let Some(page) = pages.uri(one.code) {
        value["codeDescription"] = json!({"href": page});
    }
    if !one.related.is_empty() {
        let related = one.related.iter().map(|related| {
            let location =
                json!({"uri": uri(related.span.file().path()), "range": ranges.span(&related.span)});
            json!({"location": location, "message": related.message})
        });
        value["relatedInformation"] = related.collect();
    }
    value
}

/// Returns the edits of a fix.
fn edits(fix: &Fix, columns: Columns) -> Value {
    let mut ranges = Ranges::new(columns);
    fix.edits.iter().map(|edit| json!({"range": ranges.span(&edit.span), "newText": edit.text})).collect()
}

/// Returns the actions for findings of a file that begin or end in these lines: one for each fix, and one for all fixes of
/// the file.
pub(crate) fn actions(
    found: &[Diagnostic],
    file: &str,
    lines: (u32, u32),
    only: Option<&[String]>,
    uri: &dyn Fn(&str) -> String,
    columns: Columns,
    pages: &mut Pages,
) -> Vec<Value> {
    let wants = |kind: &str| {
        only.is_none_or(|only| only.iter().any(|one| kind == one || kind.starts_with(&format!("{one}."))))
    };
    let mut ranges = Ranges::new(columns);
    let mut actions = Vec::new();
    let fixed =
        |one: &Diagnostic| one.fix.as_ref().and_then(|fix| Some(**fix.file()?.path() == *file)) == Some(true);
    for one in found.iter().filter(|one| fixed(one)) {
        let Some(fix) = &one.fix else { continue };
        let places = one.span.iter().chain(fix.edits.iter().map(|edit| &edit.span));
        let touches = places.filter(|span| **span.file().path() == *file).any(|span| {
            let range = ranges.span(span);
            range.start.line <= lines.1 && range.end.line >= lines.0
        });
        if touches && wants("quickfix") {
            actions.push(json!({
                "title": fix.title,
                "kind": "quickfix",
                "isPreferred": true,
                "diagnostics": [convert(one, &mut ranges, uri, pages)],
                "edit": {"changes": {uri(file): edits(fix, columns)}},
            }));
        }
    }
    let (merged, _) = fix::merge(found.iter().filter(|one| fixed(one)).filter_map(|one| one.fix.as_ref()));
    if !merged.edits.is_empty() && wants("source.fixAll") {
        actions.push(json!({
            "title": "fix all findings of llm-do that have a certain fix",
            "kind": "source.fixAll",
            "edit": {"changes": {uri(file): edits(&merged, columns)}},
        }));
    }
    actions
}

/// Returns the range of bytes of a text.
pub(crate) fn range_in(text: &Arc<str>, bytes: std::ops::Range<usize>, columns: Columns) -> Range {
    range(&LineIndex::new(text), text, bytes, columns)
}

/// Returns the range of a whole file.
pub(crate) fn file_range(file: &SourceFile, columns: Columns) -> Range {
    range_in(file.text(), 0..file.text().len(), columns)
}
