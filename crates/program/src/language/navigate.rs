//! Definitions and references.

use super::{
    CodeName, FileKind, Symbols, Worker,
    cursor::{Cursor, cursor},
    hover::bytes,
    jinja::{self, WordKind},
};
use crate::{
    fence,
    resolve::PackageId,
    source::{folder_of, join},
    span::{SourceFile, Span},
    yaml::Node,
};
use llm_do_core::{
    code::{Language, joined_import},
    template::TemplateText,
};
use std::{collections::BTreeSet, ops::Range, sync::Arc};

/// The thing that a word names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A worker, by its name in the program.
    Worker(String),
    /// A parameter of a worker.
    Parameter {
        /// The worker.
        worker: String,
        /// The name of the parameter.
        name: String,
    },
    /// A tool that a rule or a list of tools names.
    Tool {
        /// The worker; empty in a manifest.
        worker: String,
        /// The name of the tool.
        name: String,
    },
    /// A template, a schema or another file, by its path as it is shown.
    File(String),
    /// A function, class or tool in a file of code of the program.
    Code {
        /// The path of the file.
        file: String,
        /// The name.
        name: String,
    },
}

/// A place to go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The path of the file as it is shown: relative to the program's root, absolute in a library.
    pub file: String,
    /// The bytes of the name, or the start of the file.
    pub range: Range<usize>,
    /// The text of the file, if the range is not the start.
    pub text: Option<Arc<str>>,
}

/// Returns the word at a position, and the thing that it names.
pub fn named(symbols: &Symbols<'_>, path: &str, text: &str, offset: usize) -> Option<(Range<usize>, Named)> {
    let kind = FileKind::of(path)?;
    let worker = symbols.worker_of(path);
    let (yaml, template) = kind.parts(text);
    if (yaml.start..=yaml.end).contains(&offset) && !yaml.is_empty() {
        let at = cursor(text, yaml.clone(), offset);
        if at.is_text {
            return (at.keys() == ["instructions"])
                .then(|| in_template(symbols, worker, path, text, yaml, offset))?;
        }
        return in_yaml(symbols, worker, kind, path, text, &at);
    }
    in_template(symbols, worker, path, text, template, offset)
}

fn in_yaml(
    symbols: &Symbols<'_>,
    worker: Option<Worker<'_>>,
    kind: FileKind,
    path: &str,
    text: &str,
    at: &Cursor,
) -> Option<(Range<usize>, Named)> {
    let written = &text[at.word.clone()];
    let word = written.trim_matches(['"', '\'']);
    if word.is_empty() {
        return None;
    }
    let range = at.word.start + usize::from(written.starts_with(['"', '\'']))
        ..at.word.end - usize::from(written.ends_with(['"', '\'']) && written.len() > 1);
    let package = worker.map_or(PackageId::PROGRAM, |worker| worker.effective.located.package);
    let id = worker.map(|worker| worker.name().to_string()).unwrap_or_default();
    let of_worker = |reference: &str| {
        symbols.named_worker(package, reference).map(|it| Named::Worker(it.name().to_string()))
    };
    let named = match (at.keys().as_slice(), kind) {
        (
            ["allow_workers"]
            | ["allow_workers", "name"]
            | ["imports", "workers"]
            | ["toolsets", "workers", "allowed_workers"],
            FileKind::Worker | FileKind::YamlWorker,
        )
        | (["entry"] | ["exports"], FileKind::Manifest | FileKind::Library)
        | (["cases", "expect", "judge"], FileKind::Cases) => {
            of_code(symbols, path, word).map_or_else(|| of_worker(word), Some)?
        }
        (["name"], FileKind::Worker | FileKind::YamlWorker) if at.is_value => Named::Worker(id),
        (["parameters"], _) if at.is_key => Named::Parameter { worker: id, name: word.to_owned() },
        (["allow_workers", "with"], _) if at.is_key => {
            // The callee is the one whose fixed arguments lie here.
            let with = worker?.effective.with.iter().find(|(_, node)| {
                bytes(&node.span)
                    .is_some_and(|range| range.start <= at.word.start && at.word.end <= range.end)
            })?;
            let callee = symbols.named_worker(package, &with.0)?;
            Named::Parameter { worker: callee.name().to_string(), name: word.to_owned() }
        }
        (["sandbox", "read" | "write"], _) => {
            let name = word.strip_prefix("${")?.strip_suffix('}')?;
            Named::Parameter { worker: id, name: name.to_owned() }
        }
        (["schema_in_ref" | "schema_out_ref"] | ["code"], _) if at.is_value => {
            let file = || schema_file(symbols, path, word).map(Named::File);
            of_code(symbols, path, word).or_else(file)?
        }
        (["ensures"] | ["cases", "expect", "ensures"], _) => of_code(symbols, path, word)?,
        (["imports", "tools"] | ["tools", "modules"] | ["toolsets", "custom", "module"], _) => {
            Named::File(existing(symbols, path, word)?)
        }
        (
            ["tool_rules"]
            | ["approval", "tools"]
            | ["tool_rules", "tool"]
            | ["toolsets", _, "tools"]
            | ["toolsets", _, "approval", "tools"],
            _,
        ) => {
            let name = word.split('(').next().unwrap_or(word);
            Named::Tool { worker: id, name: name.to_owned() }
        }
        _ => return None,
    };
    Some((range, named))
}

/// Returns the name in a file of code that a reference such as `tools.py:greet` names.
fn of_code(symbols: &Symbols<'_>, path: &str, reference: &str) -> Option<Named> {
    let (file, name) = reference.split_once(':')?;
    Language::of_file(file)?;
    Some(Named::Code { file: existing(symbols, path, file)?, name: name.to_owned() })
}

/// Returns the path of a schema: beside the worker, or in the project's `schemas/`.
pub(super) fn schema_file(symbols: &Symbols<'_>, path: &str, file: &str) -> Option<String> {
    existing(symbols, path, file).or_else(|| existing(symbols, "schemas/", file))
}

/// Returns the path of a file that exists beside a worker, or below the root.
fn existing(symbols: &Symbols<'_>, path: &str, file: &str) -> Option<String> {
    let file = file.trim_start_matches("./");
    let candidates = [join(folder_of(path), file), file.to_owned()];
    candidates.into_iter().find(|candidate| matches!(symbols.tree().kind(candidate), Ok(Some(_))))
}

fn in_template(
    symbols: &Symbols<'_>,
    worker: Option<Worker<'_>>,
    path: &str,
    text: &str,
    range: Range<usize>,
    offset: usize,
) -> Option<(Range<usize>, Named)> {
    let words = jinja::words(text, range);
    let at = words.iter().position(|word| word.range.start <= offset && offset <= word.range.end)?;
    // At the boundary of two words, the one that begins there is meant if it is a name.
    let next = words.get(at + 1).filter(|next| next.range.start == offset && next.kind == WordKind::Variable);
    let word = next.unwrap_or(&words[at]);
    let shown = &text[word.range.clone()];
    match word.kind {
        WordKind::Variable => {
            let worker = worker?;
            let is_parameter = worker.definition().signature.parameters.iter().any(|it| *it.name == *shown);
            let named = Named::Parameter { worker: worker.name().to_string(), name: shown.to_owned() };
            is_parameter.then_some((word.range.clone(), named))
        }
        WordKind::Text => {
            let (name, template) = included(symbols, path, text, &words, at)?;
            let start = word.range.start + 1;
            Some((start..start + name.len(), Named::File(template.origin)))
        }
        _ => None,
    }
}

/// Returns the places where a thing is defined.
pub fn definition(symbols: &Symbols<'_>, named: &Named) -> Vec<Target> {
    let at_start = |file: &str| Target { file: file.to_owned(), range: 0..0, text: None };
    let of_code = |found: CodeName| Target { file: found.file, range: found.range, text: Some(found.text) };
    let found = match named {
        Named::Worker(name) => symbols.worker(name).map(|worker| at_start(worker.file().path())),
        Named::Parameter { worker, name } => {
            symbols.worker(worker).and_then(|it| declared(it, name)).map(|span| target(&span))
        }
        Named::Tool { worker, name } => {
            let workers: Vec<Worker<'_>> = match symbols.worker(worker) {
                Some(worker) => vec![worker],
                None => symbols.workers().collect(),
            };
            workers.into_iter().find_map(|worker| symbols.tool_code(worker, name)).map(of_code)
        }
        Named::File(file) => Some(at_start(file)),
        Named::Code { file, name } => match symbols.code_in(file, name) {
            Some(found) => Some(of_code(found)),
            None => Some(at_start(file)),
        },
    };
    found.into_iter().collect()
}

fn target(span: &Span) -> Target {
    Target {
        file: span.file().path().to_string(),
        range: span.range().unwrap_or(0..0),
        text: Some(Arc::clone(span.file().text())),
    }
}

/// Returns the place that declares a parameter.
pub(super) fn declared(worker: Worker<'_>, name: &str) -> Option<Span> {
    let parameters = worker.keys().get("parameters")?;
    let own = parameters.entry(name).or_else(|| parameters.get("properties")?.entry(name))?;
    Some(own.key_span.clone())
}

/// Returns the places that name a thing; those that define it are among them.
pub fn references(symbols: &Symbols<'_>, named: &Named) -> Vec<Span> {
    match named {
        Named::Worker(name) => of_worker(symbols, name),
        Named::Parameter { worker, name } => {
            symbols.worker(worker).map(|worker| of_parameter(symbols, worker, name)).unwrap_or_default()
        }
        Named::Tool { name, .. } => {
            let rules =
                symbols.workers().flat_map(|worker| worker.effective.rules.iter().map(|rule| &rule.span));
            let of =
                |span: &&Span| span.text().trim_matches(['"', '\'']).split('(').next() == Some(name.as_str());
            rules.filter(of).cloned().collect()
        }
        Named::File(file) => of_file(symbols, file),
        Named::Code { .. } => Vec::new(),
    }
}

pub(super) fn of_worker(symbols: &Symbols<'_>, name: &str) -> Vec<Span> {
    let loading = &symbols.checked().loading;
    let mut spans: Vec<Span> = loading
        .links()
        .filter(|(_, to, _)| *loading.name_of(to) == *name)
        .map(|(_, _, span)| span.clone())
        .collect();
    let manifest = symbols.manifest();
    let entry = manifest.entry.iter().filter_map(|node| Some((node.as_text()?, &node.span)));
    let exports = manifest.exports.iter().map(|(text, span)| (text.as_str(), span));
    for (reference, span) in entry.chain(exports) {
        if symbols.named_worker(PackageId::PROGRAM, reference).is_some_and(|worker| **worker.name() == *name)
        {
            spans.push(span.clone());
        }
    }
    if let Some(entry) = symbols.worker(name).and_then(|worker| worker.keys().entry("name")) {
        spans.push(entry.value.span.clone());
    }
    spans
}

pub(super) fn of_parameter(symbols: &Symbols<'_>, worker: Worker<'_>, name: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = declared(worker, name).into_iter().collect();
    spans.extend(variables(&worker.effective.text, name));
    for key in ["read", "write"] {
        let handed = worker.keys().get("sandbox").and_then(|sandbox| sandbox.get(key));
        for (text, span) in handed.into_iter().flat_map(Node::texts) {
            if text == format!("${{{name}}}") {
                let at = span.range().unwrap_or(0..0).start + span.text().find(name).unwrap_or(0);
                spans.push(Span::new(span.file(), at..at + name.len()));
            }
        }
    }
    for caller in symbols.workers() {
        for (reference, with) in &caller.effective.with {
            let callee = symbols.named_worker(caller.effective.located.package, reference);
            if callee.is_some_and(|callee| callee.name() == worker.name()) {
                spans.extend(with.entry(name).map(|entry| entry.key_span.clone()));
            }
        }
    }
    for file in &symbols.checked().files.cases {
        let layout = &symbols.packages().program().layout;
        let candidates = crate::cases::worker_candidates(layout, &file.path);
        let of = candidates.iter().find_map(|candidate| symbols.worker(candidate));
        if of.is_some_and(|of| of.name() == worker.name()) {
            let inputs = file.cases.iter().filter_map(|case| case.input_node.as_ref()?.entry(name));
            spans.extend(inputs.map(|entry| entry.key_span.clone()));
        }
    }
    spans
}

/// Returns the places of a variable in the template of a file.
pub(super) fn variables(file: &Arc<SourceFile>, name: &str) -> Vec<Span> {
    let text = file.text();
    let (yaml, template) = FileKind::of(file.path()).unwrap_or(FileKind::Template).parts(text);
    // Words of the keys are not in braces of a template, apart from those of `instructions`.
    let region = if template.is_empty() { yaml } else { template };
    let words = jinja::words(text, region).into_iter();
    let of = words.filter(|word| word.kind == WordKind::Variable && text[word.range.clone()] == *name);
    of.map(|word| Span::new(file, word.range)).collect()
}

/// Returns the places that name a template or a schema, in workers, templates and schemas.
pub(super) fn of_file(symbols: &Symbols<'_>, path: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for worker in symbols.workers() {
        let here: &str = worker.file().path();
        let mut seen = BTreeSet::new();
        of_template(symbols, here, &worker.effective.text, path, &mut seen, &mut spans);
        let mut schemas = Vec::new();
        for node in ["schema_in_ref", "schema_out_ref"].iter().filter_map(|key| worker.keys().get(key)) {
            let file = schema_file(symbols, here, node.as_text().unwrap_or_default());
            if file.as_deref() == Some(path) {
                spans.push(node.span.clone());
            }
            schemas.extend(file.filter(|file| file.ends_with(".json")));
        }
        of_schemas(symbols, schemas, path, &mut seen, &mut spans);
    }
    // Several workers may include one template.
    spans.sort_by(|a, b| (a.file().path(), start(a)).cmp(&(b.file().path(), start(b))));
    spans.dedup_by(|a, b| a.file().path() == b.file().path() && a.range() == b.range());
    spans
}

fn start(span: &Span) -> usize {
    span.range().map_or(0, |range| range.start)
}

/// Adds the places in a text, and in the templates that it includes, which name a template. `here` is the worker's file.
fn of_template(
    symbols: &Symbols<'_>,
    here: &str,
    file: &Arc<SourceFile>,
    path: &str,
    seen: &mut BTreeSet<String>,
    spans: &mut Vec<Span>,
) {
    let text = file.text();
    let (yaml, template) = match fence::keys_end(text) {
        Some(_) => FileKind::Worker.parts(text),
        None => FileKind::of(file.path()).unwrap_or(FileKind::Template).parts(text),
    };
    let words = jinja::words(text, if template.is_empty() { yaml } else { template });
    for (at, word) in words.iter().enumerate() {
        let Some((name, found)) = included(symbols, here, text, &words, at) else { continue };
        if found.origin == path {
            let start = word.range.start + 1;
            spans.push(Span::new(file, start..start + name.len()));
        }
        if seen.insert(found.origin.clone()) {
            let below = SourceFile::new(found.origin.as_str(), found.text);
            of_template(symbols, here, &below, path, seen, spans);
        }
    }
}

/// Returns the template that a text in quotes includes, imports or reads, with its name.
fn included<'t>(
    symbols: &Symbols<'_>,
    here: &str,
    text: &'t str,
    words: &[jinja::Word],
    at: usize,
) -> Option<(&'t str, TemplateText)> {
    let word = words.get(at).filter(|word| word.kind == WordKind::Text)?;
    let before = at.checked_sub(1).map(|before| &text[words[before].range.clone()]);
    let names_file =
        matches!(word.statement, "include" | "extends" | "import" | "from") || before == Some("file");
    let name = text[word.range.clone()].trim_matches(['"', '\'']);
    Some((name, names_file.then(|| symbols.template(here, name))??))
}

/// Adds the places in schemas, and in those that they refer to, which name a schema.
fn of_schemas(
    symbols: &Symbols<'_>,
    mut open: Vec<String>,
    path: &str,
    seen: &mut BTreeSet<String>,
    spans: &mut Vec<Span>,
) {
    while let Some(file) = open.pop() {
        let Some(text) =
            Some(&file).filter(|file| seen.insert((*file).clone())).and_then(|it| symbols.text(it))
        else {
            continue;
        };
        let source = SourceFile::new(symbols.tree().shown(&file), text);
        for range in schema_references(source.text()) {
            let Some(to) = joined_import(folder_of(&file), &source.text()[range.clone()]) else { continue };
            if to == path {
                spans.push(Span::new(&source, range));
            }
            open.push(to);
        }
    }
}

/// Returns the paths of files in the `$ref`s of a JSON Schema.
fn schema_references(text: &str) -> impl Iterator<Item = Range<usize>> {
    text.match_indices("\"$ref\"").filter_map(|(at, key)| {
        let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
        let start = text.len() - rest.len();
        let file = &rest[..rest.find(['"', '#', '\\'])?];
        (file.ends_with(".json") && !file.contains("://")).then_some(start..start + file.len())
    })
}
