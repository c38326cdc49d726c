//! Checks a small program, and asserts invariants of the findings.

use llm_do_core::{authority::Place, toolset::ToolsetRegistry};
use llm_do_program::{
    Diagnostic, LoadOptions, Source, Start, check,
    diagnostics::{
        Fix,
        json::to_json,
        render::{Colour, render},
        sarif::to_sarif,
    },
    library::MemoryLibraries,
    source::MemoryTree,
    span::Span,
};
use std::{collections::BTreeMap, sync::Arc};

/// Files by path.
pub(super) type Files<'a> = Vec<(&'a str, &'a [u8])>;

/// A program with the libraries that are installed, by the names of their folders.
#[derive(Clone, Default)]
pub(super) struct Program<'a> {
    pub(super) files: Files<'a>,
    pub(super) libraries: BTreeMap<&'a str, Files<'a>>,
}

impl<'a> Program<'a> {
    pub(super) fn of(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        Self { files: files.into_iter().collect(), libraries: BTreeMap::new() }
    }

    /// Checks the program as a whole, and asserts the invariants of its findings.
    pub(super) fn check(&self) {
        let found = self.findings();
        assert_eq!(found, self.findings(), "the same program, and other findings");
        hold(&found);
        for span in found.iter().flat_map(spans) {
            self.assert_of_a_file(span);
        }
        self.check_fix(&found);
    }

    fn findings(&self) -> Vec<Diagnostic> {
        let tree = Arc::new(MemoryTree::new(Place::new("/p"), self.files.clone()));
        let libraries = self.libraries.iter().map(|(folder, files)| {
            let tree: Arc<dyn llm_do_program::source::SourceTree> =
                Arc::new(MemoryTree::new(Place::new(&format!("/libs/{folder}")), files.clone()));
            ((*folder).to_owned(), tree)
        });
        let host = LoadOptions {
            toolsets: ToolsetRegistry::built_in(),
            providers: vec!["anthropic".into(), "script".into()],
            libraries: Arc::new(MemoryLibraries(libraries.collect())),
            ..LoadOptions::default()
        };
        check(Source { tree, start: Start::Entry(None), manifest: true, work: None }, host)
    }

    /// Asserts that a span's text is that of the file it names. A file that was not read has none. (In memory a
    /// library's files are named like the program's own.)
    fn assert_of_a_file(&self, span: &Span) {
        let (path, text): (&str, &str) = (span.file().path(), span.file().text());
        let all = || self.files.iter().chain(self.libraries.values().flatten());
        let mut there = all().filter(|(name, _)| *name == path).map(|(_, bytes)| *bytes).peekable();
        let given = there.peek().is_none() || there.any(|bytes| bytes == text.as_bytes());
        assert!(text.is_empty() || given, "another text than that of `{path}`");
    }

    /// Asserts that a fix solves its finding: after the fix, the finding is gone.
    fn check_fix(&self, found: &[Diagnostic]) {
        let Some((finding, fix)) = found.iter().find_map(|finding| Some((finding, finding.fix.as_ref()?)))
        else {
            return;
        };
        let file = fix.file().expect("a fix changes something");
        let path: &str = file.path();
        let own = |(name, bytes): &(&str, &[u8])| *name == path && *bytes == file.text().as_bytes();
        let Some(place) = self.files.iter().position(own) else { return };
        let fixed = fix.apply(file.text()).expect("a fix can be made");
        let mut mended = self.clone();
        mended.files[place].1 = fixed.as_bytes();
        let same = |other: &Diagnostic| {
            let place = |one: &Diagnostic| {
                one.span.as_ref().map(|span| (span.file().path().clone(), span.text().to_owned()))
            };
            (other.code, &other.message, place(other)) == (finding.code, &finding.message, place(finding))
        };
        // Text that can't be parsed has one finding, at its first fault. The fix brings the next fault to light, which can
        // have the same words at a later place.
        let behind = |other: &Diagnostic| {
            let start = other.span.as_ref().and_then(Span::range).map(|range| range.start);
            start.is_some_and(|start| start + file.text().len() > end(fix) + fixed.len())
        };
        let after = mended.findings();
        hold(&after);
        let were = found.iter().filter(|other| same(other)).count();
        let are = after.iter().filter(|other| same(other) && !(were == 1 && behind(other))).count();
        assert!(are < were, "`{}` mends nothing: {finding}\n{fixed}", fix.title);
    }
}

/// Returns the position in the file where the last edit of the fix ends.
fn end(fix: &Fix) -> usize {
    fix.edits.iter().filter_map(|edit| edit.span.range()).map(|range| range.end).max().unwrap_or(0)
}

fn spans(finding: &Diagnostic) -> impl Iterator<Item = &Span> {
    let related = finding.related.iter().map(|related| &related.span);
    let edits = finding.fix.iter().flat_map(|fix| fix.edits.iter().map(|edit| &edit.span));
    finding.span.iter().chain(related).chain(edits)
}

/// Asserts that a span is in its file, and that its line and column match.
pub(super) fn hold_span(span: &Span) {
    let text = span.file().text();
    let Some(range) = span.range() else { return };
    assert!(text.get(range.clone()).is_some(), "{span:?} is not in its file");
    let (line, column) = span.line_column().expect("a stretch has a line");
    let line_text = text.split('\n').nth(line - 1).expect("the line is one of the file's");
    assert!(column >= 1 && column <= line_text.chars().count() + 1, "{span:?}: no column {column}");
}

/// Asserts that findings can be shown in every form, without control characters, and point into files.
pub(super) fn hold(found: &[Diagnostic]) {
    found.iter().flat_map(spans).for_each(hold_span);
    for finding in found {
        assert!(!finding.message.is_empty());
        let _ = finding.to_string();
        if let Some(fix) = &finding.fix {
            let file = fix.file().expect("a fix changes something");
            assert!(fix.edits.iter().all(|edit| edit.span.file() == file), "a fix is of one file");
            assert!(fix.apply(file.text()).is_some(), "a fix can be made");
        }
    }
    let shown = render(found, Colour::Never);
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "a terminal is sent {shown:?}");
    assert_eq!(shown.is_empty(), found.is_empty());
    assert_eq!(render(found, Colour::Always).is_empty(), found.is_empty());
    let length = |list: &serde_json::Value| list.as_array().map(Vec::len);
    assert_eq!(length(&to_json(found)["diagnostics"]), Some(found.len()));
    let sarif = to_sarif(found, "0.0.0", Some("file:///p/"));
    assert_eq!(length(&sarif["runs"][0]["results"]), Some(found.len()));
    for region in regions(&sarif) {
        let at = |key: &str| region[key].as_u64();
        assert!(at("startLine").is_none_or(|line| line >= 1), "SARIF counts from 1: {region}");
        assert!(at("startColumn").is_none_or(|column| column >= 1), "SARIF counts from 1: {region}");
    }
}

fn regions(value: &serde_json::Value) -> Vec<&serde_json::Value> {
    match value {
        serde_json::Value::Array(items) => items.iter().flat_map(regions).collect(),
        serde_json::Value::Object(members) => {
            let here = members.iter().filter(|(name, _)| name.ends_with("egion")).map(|(_, region)| region);
            here.chain(members.values().flat_map(regions)).collect()
        }
        _ => Vec::new(),
    }
}
