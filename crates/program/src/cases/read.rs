//! Reads a file of cases.

use super::{
    CASES_JSONL, Case, CaseFiles, CaseOrigin, CasesFile, Expect, InlineFile, MOST_REPEATS, Stub, is_case_name,
};
use crate::{
    diagnostics::{Code, Diagnostic, codes},
    front_matter::{self, Largest},
    keys, shape,
    source::SourceTree,
    span::{SourceFile, Span},
    yaml::{self, Data, Node},
};
use serde_json::{Map, Value};
use std::{collections::HashMap, sync::Arc};

const LARGEST: Largest = Largest {
    what: "a file of cases",
    bytes: 16 << 20,
    help: "split it: the cases of a worker can also lie below `tests/`",
};
/// The largest number of findings about the lines of a file: in a file of another format, each line is wrong.
const MOST_FINDINGS: usize = 100;

/// Reads a file of cases of a program.
pub fn read(tree: &dyn SourceTree, path: &str, found: &mut Vec<Diagnostic>) -> Option<CasesFile> {
    match front_matter::read_within(tree, path, &LARGEST) {
        Ok(file) => Some(parse(path, &file, found)),
        Err(error) => {
            found.push(*error);
            None
        }
    }
}

/// Parses the cases of a file, as far as they can be understood. Adds every problem to `found`.
pub fn parse(path: &str, file: &Arc<SourceFile>, found: &mut Vec<Diagnostic>) -> CasesFile {
    let cases = if path.ends_with(CASES_JSONL) || path.ends_with(".jsonl") {
        lines(file, found)
    } else {
        whole(file, found)
    };
    same_names(&cases, found);
    CasesFile { path: path.to_owned(), cases }
}

/// Finds cases of the same name among those that share a folder of recordings.
pub(crate) fn same_names<'a>(cases: impl IntoIterator<Item = &'a Case>, found: &mut Vec<Diagnostic>) {
    let mut names: HashMap<&str, &Span> = HashMap::new();
    for case in cases {
        if let Some(first) = names.insert(&case.name, &case.name_span) {
            found.push(
                Diagnostic::error(codes::SAME_CASE, format!("two cases have the name `{}`", case.name))
                    .at(&case.name_span)
                    .related("the other one", first)
                    .help("give each case a name of its own: recordings and baselines refer to it"),
            );
        }
    }
}

fn whole(file: &Arc<SourceFile>, found: &mut Vec<Diagnostic>) -> Vec<Case> {
    let node = match yaml::parse(file, file.text().len()) {
        Ok(node) => node,
        Err(error) => {
            found.push(*error);
            return Vec::new();
        }
    };
    if !matches!(node.data, Data::Map(_)) {
        found.push(shape::wrong_type(&node, "the file", "a map with `cases`"));
        return Vec::new();
    }
    let node = shape::check(&node, keys::CASES, "", found);
    let repeat = repeats(&node, found).unwrap_or(1);
    let cases = node.get("cases").map(Node::items).unwrap_or_default();
    cases.iter().filter_map(|node| case(node, repeat, found)).collect()
}

fn lines(file: &Arc<SourceFile>, found: &mut Vec<Diagnostic>) -> Vec<Case> {
    let file = &escaped(file);
    let mut cases = Vec::new();
    let (before, mut end) = (found.len(), 0);
    for (number, line) in file.text().split_inclusive('\n').enumerate() {
        let start = end;
        end += line.len();
        // A byte order mark is only at the beginning of the file.
        let start =
            start + if number == 0 && line.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        if file.text()[start..end].trim().is_empty() {
            continue;
        }
        if found.len() - before > MOST_FINDINGS {
            break;
        }
        let node = match yaml::json_line(file, start..end) {
            Ok(node) => node,
            Err(error) => {
                found.push(*error);
                continue;
            }
        };
        let here = format!("cases[{number}]");
        match node.data {
            Data::Map(_) => cases.extend(case(&shape::check(&node, keys::CASE, &here, found), 1, found)),
            _ => found.push(shape::wrong_type(&node, &here, "a map")),
        }
    }
    cases
}

/// Returns the file with escapes for those characters in texts of JSON that YAML refuses or takes for line breaks.
fn escaped(file: &Arc<SourceFile>) -> Arc<SourceFile> {
    let refused =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{fffe}' | '\u{ffff}');
    if !file.text().contains(refused) {
        return Arc::clone(file);
    }
    let mut text = String::with_capacity(file.text().len());
    for c in file.text().chars() {
        match refused(c) {
            true => text.push_str(&format!("\\u{:04x}", c as u32)),
            false => text.push(c),
        }
    }
    SourceFile::new(Arc::clone(file.path()), text)
}

/// Reads a case from a checked map.
fn case(node: &Node, repeat: u32, found: &mut Vec<Diagnostic>) -> Option<Case> {
    let name = node.get("name")?;
    let text = name.as_text()?;
    if !is_case_name(text) {
        found.push(shape::bad_value(name, format!("`{text}` cannot be the name of a case")).help(
            "a name has letters, digits, `.`, `-` and `_`, at most 100, and begins with a letter or digit: it names the case's recordings",
        ));
        return None;
    }
    let expect = node.get("expect").map(|node| Expect::of(node, found)).unwrap_or_default();
    // What is wrong with an expectation is reported already.
    let is_hollow = |value: &Node| match &value.data {
        Data::Map(entries) => entries.is_empty(),
        Data::List(items) => items.is_empty(),
        _ => false,
    };
    let expected = node.get("expect").map(Node::entries).unwrap_or_default();
    if expect.is_empty() && expected.iter().all(|entry| is_hollow(&entry.value)) {
        found.push(
            bad_case(codes::NO_EXPECTATION, &name.span, format!("the case `{text}` expects nothing")).help(
                "add `expect` with `output`, `calls`, `files`, `ensures`, `judge`, `fails` or `limits`",
            ),
        );
        return None;
    }
    let input_node = node.get("input").cloned();
    let input = input_node.as_ref().map_or_else(|| Value::Object(Map::new()), Node::to_json);
    let given = node.get("given").map(Node::entries).unwrap_or_default();
    Some(Case {
        name: text.into(),
        name_span: name.span.clone(),
        input: Arc::new(input),
        input_node,
        repeat: repeats(node, found).unwrap_or(repeat),
        files: files(node),
        given: given.iter().map(|entry| Stub::of(&entry.key, &entry.key_span, &entry.value)).collect(),
        expect,
        from: node.get("from").map(origin),
    })
}

fn repeats(node: &Node, found: &mut Vec<Diagnostic>) -> Option<u32> {
    let node = node.get("repeat")?;
    let count = node.as_count()?;
    if count > MOST_REPEATS {
        found.push(shape::bad_value(node, format!("`repeat` is at most {MOST_REPEATS}")));
        return None;
    }
    u32::try_from(count).ok()
}

fn files(node: &Node) -> CaseFiles {
    let Some(files) = node.get("files") else { return CaseFiles::None };
    match &files.data {
        Data::Text(folder) => CaseFiles::Folder(folder.clone(), files.span.clone()),
        _ => {
            let inline = files.entries().iter().map(|entry| InlineFile {
                path: entry.key.clone(),
                span: entry.key_span.clone(),
                text: entry.value.as_text().unwrap_or_default().to_owned(),
            });
            CaseFiles::Inline(inline.collect())
        }
    }
}

fn origin(node: &Node) -> CaseOrigin {
    let text = |key: &str| node.get(key).and_then(Node::as_text).unwrap_or_default().to_owned();
    let count = |key: &str, default| node.get(key).and_then(Node::as_count).unwrap_or(default);
    CaseOrigin {
        run: text("run"),
        call: text("call"),
        calls: count("calls", 1),
        differing: count("differing", 0),
        failure: node.get("failure").and_then(Node::as_text).map(str::to_owned),
    }
}

/// Returns a finding about a case.
pub(super) fn bad_case(code: Code, span: &Span, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(code, message).at(span)
}

pub(super) fn bad_regex(node: &Node, error: &str) -> Diagnostic {
    let last = error.lines().last().unwrap_or(error).trim_start_matches("error: ");
    bad_case(codes::BAD_EXPECTATION, &node.span, format!("`matches` is not a regular expression: {last}"))
}

pub(super) fn bad_schema(node: &Node, error: &str) -> Diagnostic {
    bad_case(codes::BAD_EXPECTATION, &node.span, format!("`schema` is not a JSON Schema: {error}"))
}
