//! Completion.

use super::{
    FileKind, Step, Symbols, Worker,
    cursor::{Cursor, cursor},
    jinja::{self, Word, WordKind},
};
use crate::{
    shape::{Key, Shape, snake_case},
    source::{Kind, join},
};
use llm_do_core::{
    authority::Protection,
    definition::BUILT_IN_VARIABLES,
    template::{filter_names, function_names, test_names},
};
use serde_json::Value;
use std::ops::Range;

/// The kind of a [`Candidate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CandidateKind {
    /// A key.
    Key,
    /// A value of a fixed set.
    Choice,
    /// A worker.
    Worker,
    /// A tool, or a pattern of tools.
    Tool,
    /// A toolset.
    Toolset,
    /// A library.
    Library,
    /// A model or a provider.
    Model,
    /// A variable of a template.
    Variable,
    /// A filter, test or function of a template.
    Function,
    /// A file.
    File,
    /// A type of a parameter.
    Type,
}

/// A text that may stand at the position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The name of the candidate.
    pub label: String,
    /// The text to insert.
    pub insert: String,
    /// The bytes that it replaces.
    pub replace: Range<usize>,
    /// The kind of the candidate.
    pub kind: CandidateKind,
    /// A description in Markdown.
    pub about: String,
}

/// Largest number of files that are offered.
const MOST_FILES: usize = 500;

/// Returns the candidates at a position of a file, by its path relative to the root.
pub fn complete(symbols: Option<&Symbols<'_>>, path: &str, text: &str, offset: usize) -> Vec<Candidate> {
    let Some(kind) = FileKind::of(path) else { return Vec::new() };
    let (yaml, template) = kind.parts(text);
    let worker = symbols.and_then(|symbols| symbols.worker_of(path));
    let context = Context { symbols, worker, path, text, kind };
    if template.contains(&offset) || (offset == template.end && !(yaml.start..=yaml.end).contains(&offset)) {
        return context.in_template(template, offset);
    }
    if !(yaml.start..=yaml.end).contains(&offset) {
        return Vec::new();
    }
    let at = cursor(text, yaml.clone(), offset);
    if at.is_text {
        return match at.keys().as_slice() {
            ["instructions"] => context.in_template(yaml, offset),
            _ => Vec::new(),
        };
    }
    context.in_yaml(yaml, &at)
}

struct Context<'a> {
    symbols: Option<&'a Symbols<'a>>,
    worker: Option<Worker<'a>>,
    path: &'a str,
    text: &'a str,
    kind: FileKind,
}

/// The values that a place may have.
pub(super) enum Expected {
    Keys(&'static [Key]),
    Shape(&'static Shape),
}

/// Returns what the table of keys allows at a path.
pub(super) fn expected(keys: &'static [Key], path: &[Step]) -> Vec<Expected> {
    let mut at = vec![Expected::Keys(keys)];
    for step in path {
        let mut next = Vec::new();
        for one in at.into_iter().flat_map(flat) {
            match (one, step) {
                (Expected::Keys(keys), Step::Key(name)) => {
                    next.extend(key(keys, name).map(|key| Expected::Shape(&key.shape)));
                }
                (Expected::Shape(Shape::Map(inner) | Shape::List(inner)), _) => {
                    next.push(Expected::Shape(inner));
                }
                (Expected::Shape(Shape::Texts), Step::Item) => next.push(Expected::Shape(&Shape::Text)),
                (Expected::Shape(Shape::Records(keys)), Step::Item) => next.push(Expected::Keys(keys)),
                _ => {}
            }
        }
        at = next;
    }
    at.into_iter().flat_map(flat).collect()
}

fn flat(one: Expected) -> Vec<Expected> {
    match one {
        Expected::Shape(Shape::Either(shapes)) => {
            shapes.iter().flat_map(|shape| flat(Expected::Shape(shape))).collect()
        }
        Expected::Shape(Shape::Record(keys)) => vec![Expected::Keys(keys)],
        other => vec![other],
    }
}

/// Returns the key of a name in any spelling.
pub(super) fn key(keys: &'static [Key], name: &str) -> Option<&'static Key> {
    let name = snake_case(name);
    keys.iter().find(|key| key.name == name || key.aliases.contains(&name.as_str()))
}

impl Context<'_> {
    fn in_yaml(&self, yaml: Range<usize>, at: &Cursor) -> Vec<Candidate> {
        let mut found = Vec::new();
        let path = at.keys();
        for one in expected(self.kind.keys(), &at.path) {
            match one {
                Expected::Keys(keys) if !at.is_value => {
                    found.extend(
                        keys.iter().filter(|key| !matches!(key.shape, Shape::Later)).map(|key| {
                            self.key(key.name, key.about, at, matches!(key.shape, Shape::Record(_)))
                        }),
                    );
                }
                Expected::Keys(_) => {}
                Expected::Shape(shape) => found.extend(
                    values(shape).map(|value| self.value(value, CandidateKind::Choice, String::new(), at)),
                ),
            }
        }
        self.of_symbols(&path, at, &mut found);
        if let ["toolsets", name, below @ ..] = path.as_slice() {
            found.extend(self.of_toolset(name, below, at));
        }
        if !at.is_value && !at.is_key && at.path.is_empty() {
            self.omit_given(yaml, at, &mut found);
        }
        found
    }

    /// Removes the keys that the file has already.
    fn omit_given(&self, yaml: Range<usize>, at: &Cursor, found: &mut Vec<Candidate>) {
        let lines = self.text[yaml.clone()].split_inclusive('\n');
        let mut start = yaml.start;
        for line in lines {
            let here = start..start + line.len();
            start = here.end;
            if at.word.start >= here.start && at.word.start < here.end {
                continue;
            }
            if let Some((name, _)) =
                line.split_once(':').filter(|(name, _)| !name.starts_with([' ', '#', '-']))
            {
                let name = snake_case(name.trim());
                found.retain(|candidate| candidate.kind != CandidateKind::Key || candidate.label != name);
            }
        }
    }

    fn of_symbols(&self, path: &[&str], at: &Cursor, found: &mut Vec<Candidate>) {
        use CandidateKind as Of;
        let Some(symbols) = self.symbols else { return };
        let is_worker = matches!(self.kind, FileKind::Worker | FileKind::YamlWorker);
        match path {
            ["allow_workers"]
            | ["allow_workers", "name"]
            | ["imports", "workers"]
            | ["toolsets", "workers", "allowed_workers"]
                if is_worker =>
            {
                self.workers(symbols, at, found);
            }
            ["entry"] | ["exports"] if !is_worker => self.workers(symbols, at, found),
            ["cases", "expect", "judge"] | ["judge"] if self.kind == FileKind::Cases => {
                self.workers(symbols, at, found);
            }
            ["model"] | ["models", _, "model"] => {
                let models = symbols.models().into_iter();
                found.extend(models.map(|model| self.value(&model, Of::Model, String::new(), at)));
            }
            ["dependencies"] => {
                let libraries = symbols.libraries().into_iter();
                found.extend(libraries.map(|library| self.value(&library, Of::Library, String::new(), at)));
            }
            ["toolsets"] => {
                for kind in symbols.toolsets().kinds() {
                    let mut one = self.key(kind.name(), "", at, false);
                    if matches!(at.path.last(), Some(Step::Item)) {
                        kind.name().clone_into(&mut one.insert);
                    }
                    one.kind = Of::Toolset;
                    one.about = match kind.tools() {
                        [] => String::new(),
                        tools => format!("Tools: `{}`", tools.join("`, `")),
                    };
                    found.push(one);
                }
            }
            ["tool_rules"]
            | ["approval", "tools"]
            | ["tool_rules" | "approval", .., "tool"]
            | ["cases", "given"]
            | ["toolsets", _, "tools"]
            | ["toolsets", _, "approval", "tools"] => {
                if let Some(open) = self.text[at.word.clone()].find('(') {
                    let begin = at.word.start + open + 1;
                    found.extend(self.files_of_view(symbols, begin..at.word.end));
                    return;
                }
                for (tool, about) in symbols.tools(self.worker) {
                    let mut one = self.value(&tool, Of::Tool, about, at);
                    if !at.is_value && !at.is_key && !matches!(at.path.last(), Some(Step::Item)) {
                        one.insert.push_str(": ");
                    }
                    found.push(one);
                }
            }
            ["parameters", _] | ["returns"] | ["returns", _] if at.is_value => {
                let types =
                    ["string", "integer", "number", "boolean", "path", "any", "object", "array<string>"];
                found.extend(types.map(|name| self.value(name, Of::Type, String::new(), at)));
            }
            ["schema_in_ref" | "schema_out_ref"] => {
                found.extend(self.files(
                    symbols,
                    at.word.clone(),
                    &["json", "py", "ts", "mts", "js", "mjs"],
                    at.word.end,
                ));
            }
            ["sandbox", "paths", _] | ["sandbox", "paths", _, "root"] | ["sandbox", "root"]
                if at.is_value =>
            {
                found.extend(self.files(symbols, at.word.clone(), &["/"], at.word.end));
            }
            ["imports", "tools"] | ["tools", "modules"] | ["toolsets", "custom", "module"] => {
                let endings = ["py", "ts", "mts", "js", "mjs"];
                found.extend(self.files(symbols, at.word.clone(), &endings, at.word.end));
            }
            ["sandbox", "read" | "write"] => {
                let parameters = self.worker.into_iter().flat_map(|it| &it.definition().signature.parameters);
                let paths = parameters.filter(|it| it.shown_type.starts_with("path"));
                found.extend(paths.map(|it| {
                    let mut one = self.value(&format!("${{{}}}", it.name), Of::Variable, String::new(), at);
                    one.insert = format!("\"{}\"", one.label);
                    one
                }));
            }
            _ => {}
        }
    }

    fn workers(&self, symbols: &Symbols<'_>, at: &Cursor, found: &mut Vec<Candidate>) {
        if at.is_key && !at.is_value {
            return;
        }
        for name in symbols.worker_names() {
            if self.worker.is_some_and(|worker| **worker.name() == *name) {
                continue;
            }
            let about = symbols.worker(&name).map(|worker| {
                let description = worker.definition().description.as_deref().unwrap_or_default();
                format!("`{}`\n\n{description}", worker.signature())
            });
            found.push(self.value(&name, CandidateKind::Worker, about.unwrap_or_default(), at));
        }
    }

    /// Returns the keys and values of a toolset's configuration, from its JSON Schema.
    fn of_toolset(&self, name: &str, below: &[&str], at: &Cursor) -> Vec<Candidate> {
        let kind = self.symbols.and_then(|symbols| symbols.toolsets().get(name).cloned());
        let Some(kind) = kind else { return Vec::new() };
        let schema = kind.configuration();
        let root = schema.value();
        let Some(here) = schema_at(root, root, below) else { return Vec::new() };
        let mut found = Vec::new();
        if at.is_value {
            let choices = here.get("enum").and_then(Value::as_array).into_iter().flatten();
            found.extend(
                choices
                    .filter_map(Value::as_str)
                    .map(|choice| self.value(choice, CandidateKind::Choice, String::new(), at)),
            );
            if here.get("type").and_then(Value::as_str) == Some("boolean") {
                found.extend(
                    ["true", "false"].map(|flag| self.value(flag, CandidateKind::Choice, String::new(), at)),
                );
            }
            return found;
        }
        let properties = here.get("properties").and_then(Value::as_object).into_iter().flatten();
        found.extend(properties.map(|(name, schema)| {
            let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
            self.key(name, about, at, false)
        }));
        if below.is_empty() {
            found.extend(crate::keys::TOOLSET.iter().map(|key| self.key(key.name, key.about, at, false)));
        }
        found
    }

    /// Returns files of the folder that a word names in the view of the worker: its mounts, and what they show. A manifest
    /// has the mounts of its own sandbox, and a worker without mounts those of its caller, which are not known.
    fn files_of_view(&self, symbols: &Symbols<'_>, word: Range<usize>) -> Vec<Candidate> {
        let written = self.text[word.clone()].trim_matches(['"', '\'', ')']);
        let (folder, _) = written.rsplit_once('/').unwrap_or_default();
        let Some(worker) = self.worker.filter(|it| it.definition().sandbox.narrowing.declared) else {
            return self.files(symbols, word.clone(), &["."], word.end);
        };
        let one = |label: String| Candidate {
            insert: label.clone(),
            label,
            replace: word.clone(),
            kind: CandidateKind::File,
            about: String::new(),
        };
        let below = |path: &str, of: &str| match of {
            "" => Some(path.to_owned()),
            of => path.strip_prefix(of)?.strip_prefix('/').map(str::to_owned),
        };
        let plain = folder.trim_start_matches("./").trim_start_matches('/');
        let mut found: Vec<Candidate> = Vec::new();
        for mount in &worker.definition().sandbox.narrowing.mounts {
            let at = mount.at.as_str().trim_start_matches('/');
            // The mount itself, or a folder on the way to it.
            if let Some(rest) = below(at, plain).filter(|rest| !rest.is_empty()) {
                let name = rest.split('/').next().unwrap_or_default();
                let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                let is_file = rest == name && symbols.kind_of(&mount.place) == Some(Kind::File);
                found.push(one(if is_file { path } else { format!("{path}/") }));
                continue;
            }
            let inside = if plain == at { Some(String::new()) } else { below(plain, at) };
            let (Some(inside), Some(place)) = (inside, mount.place.rest(symbols.root())) else { continue };
            let shown = if inside.is_empty() { place.to_owned() } else { join(place, &inside) };
            for (name, kind) in symbols.tree().list(&shown).unwrap_or_default().into_iter().take(MOST_FILES) {
                let fits = kind == Kind::Folder || mount.suffixes.is_empty() || {
                    let name = name.to_lowercase();
                    mount.suffixes.iter().any(|suffix| name.ends_with(&suffix.to_lowercase()))
                };
                if !fits || name.starts_with('.') || Protection::is_invisible(&name) {
                    continue;
                }
                let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                found.push(one(if kind == Kind::Folder { format!("{path}/") } else { path }));
            }
        }
        found.sort_by(|a, b| a.label.cmp(&b.label));
        found.dedup();
        found
    }

    /// Returns files of the folder that a word names. `endings` are extensions; `/` are folders alone, `.` all files.
    fn files(
        &self,
        symbols: &Symbols<'_>,
        word: Range<usize>,
        endings: &[&str],
        end: usize,
    ) -> Vec<Candidate> {
        let written = self.text[word.clone()].trim_matches(['"', '\'', ')']);
        let folder = written.rsplit_once('/').map_or("", |(folder, _)| folder);
        let plain = folder.trim_start_matches("./");
        let mut found = Vec::new();
        for (name, kind) in symbols.tree().list(plain).unwrap_or_default().into_iter().take(MOST_FILES) {
            let fits = match kind {
                Kind::Folder => true,
                _ => {
                    endings == ["."]
                        || name.rsplit_once('.').is_some_and(|(_, ending)| endings.contains(&ending))
                }
            };
            if !fits || name.starts_with('.') || Protection::is_invisible(&name) {
                continue;
            }
            let mut label = if folder.is_empty() { name } else { join(folder, &name) };
            if kind == Kind::Folder {
                label.push('/');
            }
            found.push(Candidate {
                insert: label.clone(),
                label,
                replace: word.start..end,
                kind: CandidateKind::File,
                about: String::new(),
            });
        }
        found
    }

    fn key(&self, name: &str, about: &str, at: &Cursor, is_record: bool) -> Candidate {
        let insert = match (at.is_key, is_record) {
            (true, _) => name.to_owned(),
            (false, _) => format!("{name}: "),
        };
        Candidate {
            label: name.to_owned(),
            insert,
            replace: at.word.clone(),
            kind: CandidateKind::Key,
            about: about.to_owned(),
        }
    }

    fn value(&self, value: &str, kind: CandidateKind, about: String, at: &Cursor) -> Candidate {
        // A colon behind the value needs a space.
        let needs_space = at.is_value && self.text[..at.word.start].ends_with(':');
        let insert = if needs_space { format!(" {value}") } else { value.to_owned() };
        Candidate { label: value.to_owned(), insert, replace: at.word.clone(), kind, about }
    }

    fn in_template(&self, range: Range<usize>, offset: usize) -> Vec<Candidate> {
        let words = jinja::words(self.text, range);
        let before = words.iter().rposition(|word| word.range.start < offset);
        let Some(before) = before else { return Vec::new() };
        let last = &words[before];
        let is_at = last.range.end >= offset;
        let is_closed =
            |word: &Word| word.kind == WordKind::Delimiter && self.text[word.range.clone()].ends_with('}');
        if is_closed(last) || last.kind == WordKind::Comment {
            return Vec::new();
        }
        let replace = match (is_at, last.kind) {
            (true, WordKind::Delimiter) => offset..offset,
            (true, WordKind::Text) => {
                let quoted = self.text[last.range.clone()].len() > 1
                    && self.text[last.range.clone()].ends_with(['"', '\'']);
                last.range.start + 1..(last.range.end - usize::from(quoted)).max(last.range.start + 1)
            }
            (true, _) => last.range.clone(),
            (false, _) => offset..offset,
        };
        let one = |label: &str, kind, about: String| Candidate {
            label: label.to_owned(),
            insert: label.to_owned(),
            replace: replace.clone(),
            kind,
            about,
        };
        if is_at && last.kind == WordKind::Text {
            let of_file = || before > 0 && &self.text[words[before - 1].range.clone()] == "file";
            if matches!(last.statement, "include" | "extends" | "import" | "from") || of_file() {
                let names = self.symbols.map(|symbols| symbols.template_names(self.path)).unwrap_or_default();
                return names.iter().map(|name| one(name, CandidateKind::File, String::new())).collect();
            }
            return Vec::new();
        }
        let sign = self.text[..replace.start].trim_end().chars().next_back();
        let before_word = words[..=before].iter().rev().find(|word| word.range.end <= replace.start);
        let is_test = before_word.is_some_and(|word| {
            matches!(&self.text[word.range.clone()], "is" | "not") && sign.is_some_and(char::is_alphabetic)
        });
        match sign {
            Some('.') => Vec::new(),
            Some('|') => filter_names()
                .iter()
                .map(|name| one(name, CandidateKind::Function, "a filter".into()))
                .collect(),
            _ if is_test => {
                test_names().iter().map(|name| one(name, CandidateKind::Function, "a test".into())).collect()
            }
            _ => {
                let mut found: Vec<Candidate> = Vec::new();
                let parameters = self.worker.into_iter().flat_map(|it| &it.definition().signature.parameters);
                for parameter in parameters {
                    let about = format!("a parameter: `{}`", parameter.shown_type);
                    found.push(one(&parameter.name, CandidateKind::Variable, about));
                }
                let set = words.iter().filter(|word| {
                    word.kind == WordKind::Variable && matches!(word.statement, "set" | "for")
                });
                let set: Vec<&str> = set.map(|word| &self.text[word.range.clone()]).collect();
                for name in set.into_iter().chain(BUILT_IN_VARIABLES) {
                    if found.iter().all(|known| known.label != name) {
                        found.push(one(name, CandidateKind::Variable, String::new()));
                    }
                }
                let functions = function_names().iter();
                found.extend(functions.map(|name| one(name, CandidateKind::Function, "a function".into())));
                found
            }
        }
    }
}

/// Returns the texts that a value may be.
fn values(shape: &'static Shape) -> impl Iterator<Item = &'static str> {
    let fixed: &[&str] = match shape {
        Shape::Flag => &["true", "false"],
        Shape::Rule | Shape::Approval => &["preApproved", "ask", "blocked"],
        Shape::Choice(choices, _) => choices,
        _ => &[],
    };
    fixed.iter().copied()
}

/// Returns the part of a JSON Schema for the value at a path of keys.
pub(super) fn schema_at<'v>(root: &'v Value, schema: &'v Value, path: &[&str]) -> Option<&'v Value> {
    let schema = match schema.get("$ref").and_then(Value::as_str) {
        Some(reference) => root.pointer(reference.strip_prefix('#')?)?,
        None => schema,
    };
    let alternatives = || {
        let all = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(|name| schema.get(name)?.as_array());
        all.flatten().find_map(|one| schema_at(root, one, path))
    };
    let Some((first, rest)) = path.split_first() else {
        return schema
            .get("properties")
            .or(schema.get("type"))
            .or(schema.get("enum"))
            .map(|_| schema)
            .or_else(alternatives)
            .or(Some(schema));
    };
    if let Some(items) = schema.get("items") {
        return schema_at(root, items, path);
    }
    let property = schema.get("properties").and_then(|all| all.get(first));
    let property = property.or_else(|| schema.get("additionalProperties").filter(|it| it.is_object()));
    match property {
        Some(property) => schema_at(root, property, rest),
        None => alternatives(),
    }
}
