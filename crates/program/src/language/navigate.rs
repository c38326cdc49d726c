//! Definitions, references and renaming.

use super::{
    FileKind, Symbols, Worker,
    cursor::{Cursor, cursor},
    hover::bytes,
    jinja::{self, WordKind},
};
use crate::{
    diagnostics::Edit,
    fence,
    resolve::{PackageId, without_extension},
    source::{folder_of, join},
    span::{SourceFile, Span},
    yaml::{Node, scalar},
};
use std::{ops::Range, sync::Arc};

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
    /// A function or class in a Python file of the program.
    Python {
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

/// The changes of a renaming.
#[derive(Debug, Default)]
pub struct Renamed {
    /// The edits, of any number of files.
    pub edits: Vec<Edit>,
    /// Files to move, as old and new paths relative to the root.
    pub files: Vec<(String, String)>,
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
        | (["cases", "expect", "judge"], FileKind::Cases) => match word.split_once(".py:") {
            Some((file, name)) => Named::Python { file: format!("{file}.py"), name: name.to_owned() },
            None => of_worker(word)?,
        },
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
        (["schema_in_ref" | "schema_out_ref"] | ["code"], _) if at.is_value => match word.split_once(':') {
            Some((file, name)) => {
                Named::Python { file: existing(symbols, path, file)?, name: name.to_owned() }
            }
            None => Named::File(existing(symbols, path, word)?),
        },
        (["imports", "tools"] | ["tools", "modules"], _) => Named::File(existing(symbols, path, word)?),
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
            let before = at.checked_sub(1).map(|before| &text[words[before].range.clone()]);
            let names_file =
                matches!(word.statement, "include" | "extends" | "import" | "from") || before == Some("file");
            let name = shown.trim_matches(['"', '\'']);
            let template = names_file.then(|| symbols.template(path, name))??;
            Some((word.range.start + 1..word.range.end - 1, Named::File(template.origin)))
        }
        _ => None,
    }
}

/// Returns the places where a thing is defined.
pub fn definition(symbols: &Symbols<'_>, named: &Named) -> Vec<Target> {
    let at_start = |file: &str| Target { file: file.to_owned(), range: 0..0, text: None };
    let of_python = |found: super::symbols::PythonName| Target {
        file: found.file,
        range: found.range,
        text: Some(found.text),
    };
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
            workers.into_iter().find_map(|worker| symbols.python(worker, name)).map(of_python)
        }
        Named::File(file) => Some(at_start(file)),
        Named::Python { file, name } => match symbols.python_in(file, name) {
            Some(found) => Some(of_python(found)),
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
fn declared(worker: Worker<'_>, name: &str) -> Option<Span> {
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
        Named::Python { .. } => Vec::new(),
    }
}

fn of_worker(symbols: &Symbols<'_>, name: &str) -> Vec<Span> {
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

fn of_parameter(symbols: &Symbols<'_>, worker: Worker<'_>, name: &str) -> Vec<Span> {
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
fn variables(file: &Arc<SourceFile>, name: &str) -> Vec<Span> {
    let text = file.text();
    let (yaml, template) = FileKind::of(file.path()).unwrap_or(FileKind::Template).parts(text);
    // Words of the keys are not in braces of a template, apart from those of `instructions`.
    let region = if template.is_empty() { yaml } else { template };
    let words = jinja::words(text, region).into_iter();
    let of = words.filter(|word| word.kind == WordKind::Variable && text[word.range.clone()] == *name);
    of.map(|word| Span::new(file, word.range)).collect()
}

fn of_file(symbols: &Symbols<'_>, path: &str) -> Vec<Span> {
    let mut spans = Vec::new();
    for worker in symbols.workers() {
        let here: &str = worker.file().path();
        for reference in &worker.effective.facts.templates {
            let Some(name) = &reference.name else { continue };
            if symbols.template(here, name).is_some_and(|template| template.origin == path) {
                let start = Span::at(&worker.effective.text, reference.place.line, reference.place.column);
                let at = start.range().unwrap_or(0..0).start;
                let at =
                    worker.effective.text.text()[at..].find(name.as_str()).map_or(at, |within| at + within);
                spans.push(Span::new(&worker.effective.text, at..at + name.len()));
            }
        }
        for key in ["schema_in_ref", "schema_out_ref"] {
            if let Some(node) = worker.keys().get(key) {
                let file = node.as_text().unwrap_or_default().split(':').next().unwrap_or_default();
                if existing(symbols, here, file).as_deref() == Some(path) {
                    spans.push(node.span.clone());
                }
            }
        }
    }
    spans
}

/// Renames a worker of the program, or a parameter.
///
/// # Errors
/// The reason why it can't be renamed.
pub fn rename(symbols: &Symbols<'_>, named: &Named, new: &str) -> Result<Renamed, String> {
    match named {
        Named::Worker(name) => rename_worker(symbols, name, new),
        Named::Parameter { worker, name } => rename_parameter(symbols, worker, name, new),
        _ => Err("only workers and parameters can be renamed".into()),
    }
}

fn rename_worker(symbols: &Symbols<'_>, name: &str, new: &str) -> Result<Renamed, String> {
    let worker = symbols.worker(name).ok_or("there is no such worker")?;
    let located = &worker.effective.located;
    if located.package != PackageId::PROGRAM {
        return Err("a worker of a library can't be renamed here".into());
    }
    let valid = |c: char| c.is_alphanumeric() || "_-./".contains(c);
    if new.is_empty() || !new.chars().all(valid) || new.split('/').any(|part| matches!(part, "" | "." | ".."))
    {
        return Err(format!("`{new}` is not the name of a worker: use letters, digits, `_`, `-` and `/`"));
    }
    if symbols.resolve(PackageId::PROGRAM, new).is_some() {
        return Err(format!("there is a worker `{new}` already"));
    }
    let old_path = &located.path;
    let stem = without_extension(old_path).ok_or("its file has no name")?;
    let below = stem.strip_suffix("/worker").filter(|_| old_path.ends_with("/worker.worker"));
    let front = below.unwrap_or(stem).strip_suffix(located.id.as_str()).ok_or("its file has another name")?;
    let tail = &old_path[below.unwrap_or(stem).len()..];
    let new_path = format!("{front}{new}{tail}");
    let mut edits = Vec::new();
    for span in of_worker(symbols, name) {
        let written = span.text().trim_matches(['"', '\'']);
        let text = if written == located.id {
            new.to_owned()
        } else {
            let changed = written.trim_start_matches("./");
            let prefix = &written[..written.len() - changed.len()];
            match changed {
                path if path == old_path => format!("{prefix}{new_path}"),
                path if path == stem => format!("{prefix}{front}{new}"),
                _ => {
                    return Err(format!(
                        "`{written}` in {} names it in a way that can't be changed",
                        span.file().path()
                    ));
                }
            }
        };
        edits.push(Edit { span, text: scalar(&text) });
    }
    let mut files = vec![(old_path.clone(), new_path)];
    for case in &symbols.checked().files.cases {
        let own = [format!("{stem}.cases.yaml"), format!("tests/{}.cases.yaml", located.id)];
        if own.contains(&case.path) {
            let moved =
                case.path.strip_suffix(".cases.yaml").and_then(|it| it.strip_suffix(located.id.as_str()));
            files.extend(moved.map(|front| (case.path.clone(), format!("{front}{new}.cases.yaml"))));
        }
    }
    Ok(Renamed { edits, files })
}

fn rename_parameter(symbols: &Symbols<'_>, worker: &str, name: &str, new: &str) -> Result<Renamed, String> {
    let worker = symbols.worker(worker).ok_or("there is no such worker")?;
    if worker.effective.located.package != PackageId::PROGRAM {
        return Err("a parameter of a library's worker can't be renamed here".into());
    }
    let is_word = new.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !new.starts_with(|c: char| c.is_ascii_digit());
    if new.is_empty() || !is_word {
        return Err(format!("`{new}` is not the name of a parameter: use letters, digits and `_`"));
    }
    if worker.definition().signature.parameters.iter().any(|parameter| *parameter.name == *new) {
        return Err(format!("there is a parameter `{new}` already"));
    }
    if declared(worker, name).is_none() {
        return Err(format!("`{name}` is not declared in this file"));
    }
    let mut seen = Vec::new();
    if let Some(template) = reads(symbols, worker.file().path(), &worker.effective.text, name, &mut seen) {
        return Err(format!(
            "the template `{template}` reads `{name}` too, and other workers may include it"
        ));
    }
    let edits = of_parameter(symbols, worker, name).into_iter();
    let quoted = |span: &Span| span.text().starts_with(['"', '\'']);
    let edits = edits.map(|span| {
        let text = if quoted(&span) { format!("\"{new}\"") } else { new.to_owned() };
        Edit { text, span }
    });
    Ok(Renamed { edits: edits.collect(), files: Vec::new() })
}

/// Returns the first template below a text that reads a variable.
fn reads(
    symbols: &Symbols<'_>,
    path: &str,
    file: &SourceFile,
    name: &str,
    seen: &mut Vec<String>,
) -> Option<String> {
    let text = file.text();
    let body = if fence::keys_end(text).is_some() { FileKind::Worker.parts(text).1 } else { 0..text.len() };
    for word in jinja::words(text, body) {
        if word.kind != WordKind::Text {
            continue;
        }
        let Some(template) = symbols.template(path, text[word.range].trim_matches(['"', '\''])) else {
            continue;
        };
        if seen.contains(&template.origin) {
            continue;
        }
        seen.push(template.origin.clone());
        let below = SourceFile::new(template.origin.as_str(), template.text);
        if !variables(&below, name).is_empty() {
            return Some(template.origin);
        }
        if let Some(found) = reads(symbols, path, &below, name, seen) {
            return Some(found);
        }
    }
    None
}
