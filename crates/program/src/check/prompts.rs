//! Checks of the variables, templates and files that instructions use.

use super::cases::returns_judgement;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::{Effective, bad_template},
    span::{SourceFile, Span},
    yaml::{Entry, Node},
};
use llm_do_core::conversation::Judge;
use llm_do_core::definition::{BUILT_IN_VARIABLES, INPUT};
use llm_do_core::template::{
    Origin, Place, Reference, TemplateFacts, TemplateName, TemplateSource, TemplateText, confine, inspect,
};
use llm_do_core::toolset::ToolsetRegistry;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Tools that prompts for other programs often teach. A worker has them only if its configuration says so.
const TAUGHT: [&str; 2] = ["worker_call", "worker_create"];

/// Maximum depth of nested templates, as in rendering.
const DEEPEST: usize = 10;

/// Checks the instructions of a worker. The findings depend only on the worker and the files that its instructions
/// name.
pub(super) fn of_worker(toolsets: &ToolsetRegistry, effective: &Effective) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut reader = Reader {
        source: effective.definition.instructions.templates.as_ref(),
        of_toolset: &|name| toolsets.check_insert(&effective.definition, name),
        found: &mut found,
        read: BTreeMap::new(),
        guarded: BTreeSet::new(),
        functions: BTreeSet::new(),
        taught: BTreeMap::new(),
        seen: BTreeSet::new(),
    };
    let text = Arc::clone(&effective.text);
    reader.teach(&text, effective.definition.instructions.line_offset as usize);
    reader.template(None, &text, &effective.facts, &[], &BTreeSet::new());
    let Reader { read, guarded, functions, taught, .. } = reader;
    untaught(toolsets, effective, taught, &mut found);
    // A template that cannot be read may use any parameter.
    let all_read = found.is_empty();
    if effective.mistakes.concern(&["parameters", "schema_in_ref"]) {
        return found;
    }
    unknown(effective, &read, &guarded, &mut found);
    if all_read {
        unused(effective, &read, &functions, &mut found);
    }
    shadowed(effective, &mut found);
    found
}

/// The first place of each variable, in any template.
type Read = BTreeMap<String, Span>;

struct Reader<'a> {
    source: &'a dyn TemplateSource,
    /// Looks up a text of a toolset by name. Returns `None` if the name is that of a file, and an error if the toolset
    /// has no such text.
    of_toolset: &'a dyn Fn(&TemplateName) -> Option<Result<(), String>>,
    found: &'a mut Vec<Diagnostic>,
    /// Variables that are read but not set by a template.
    read: Read,
    /// Variables that are optional in a template.
    guarded: BTreeSet<String>,
    /// Built-in functions that a template mentions. They are parameters if the worker declares these names.
    functions: BTreeSet<String>,
    /// The first place of each name of [`TAUGHT`].
    taught: BTreeMap<&'static str, Span>,
    /// Templates that were already checked.
    seen: BTreeSet<String>,
}

impl Reader<'_> {
    /// Follows the references of a template. `chain` has the names of its parents, `set` the variables that they set.
    fn template(
        &mut self,
        name: Option<&str>,
        file: &Arc<SourceFile>,
        facts: &TemplateFacts,
        chain: &[&str],
        set: &BTreeSet<String>,
    ) {
        let at = |place: &Place| Span::at(file, place.line, place.column);
        for (variable, place) in facts.variables.iter().filter(|(variable, _)| !set.contains(*variable)) {
            self.read.entry(variable.clone()).or_insert_with(|| word(&at(place), variable));
        }
        self.guarded.extend(facts.guarded.iter().cloned());
        self.functions.extend(facts.functions.iter().cloned());
        for inserted in &facts.files {
            if let Some((name, span)) = named(inserted, at) {
                if let Some(checked) = confine(&name).ok().and_then(|name| (self.of_toolset)(&name)) {
                    if let Err(reason) = checked {
                        let message = format!("`{name}` can't be inserted: {reason}");
                        self.found.push(Diagnostic::error(codes::MISSING_TEMPLATE, message).at(&span));
                    }
                    continue;
                }
                let text = confine(&name).and_then(|name| self.source.file(&name));
                if !inserted.optional {
                    self.missing(&name, "file", &span, text);
                }
            }
        }
        let mut chain = chain.to_vec();
        chain.extend(name);
        let set: BTreeSet<String> = set.union(&facts.set).cloned().collect();
        for reference in &facts.templates {
            let Some((wanted, span)) = named(reference, at) else { continue };
            // A reference in a library's template is resolved in that library.
            let library = name.and_then(|name| name.split_once(':')).filter(|_| !wanted.contains(':'));
            let wanted = library.map_or(wanted.clone(), |(library, _)| format!("{library}:{wanted}"));
            if reference.optional {
                // It may be one of several and is not judged. Its files are looked for, because they define the worker.
                let mut found = Vec::new();
                let (read, guarded, functions) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
                let taught = BTreeMap::new();
                let mut apart = Reader {
                    source: self.source,
                    of_toolset: self.of_toolset,
                    found: &mut found,
                    read,
                    guarded,
                    functions,
                    taught,
                    seen: self.seen.clone(),
                };
                apart.reference(&wanted, &span, &chain, &set);
            } else {
                self.reference(&wanted, &span, &chain, &set);
            }
        }
    }

    /// Follows a reference to a template.
    fn reference(&mut self, wanted: &str, span: &Span, chain: &[&str], set: &BTreeSet<String>) {
        if let Some(begin) = chain.iter().position(|above| *above == wanted) {
            let names: Vec<&str> = chain[begin..].iter().copied().chain([wanted]).collect();
            self.found.push(
                Diagnostic::error(
                    codes::TEMPLATE_CYCLE,
                    format!("templates include each other: {}", names.join(" → ")),
                )
                .at(span)
                .help("remove one of the includes"),
            );
            return;
        }
        let text = confine(wanted).and_then(|wanted| self.source.template(&wanted));
        let Some(text) = self.missing(wanted, "template", span, text) else { return };
        if chain.len() >= DEEPEST || !self.seen.insert(wanted.to_owned()) {
            return;
        }
        let file = SourceFile::new(text.origin.as_str(), text.text);
        self.teach(&file, 0);
        match inspect(file.text(), &Origin::file(text.origin)) {
            Ok(facts) => self.template(Some(wanted), &file, &facts, chain, set),
            Err(error) => self.found.push(bad_template(&file, error).related("it is named here", span)),
        }
    }

    /// Finds names of tools in a text, after its first lines.
    fn teach(&mut self, file: &Arc<SourceFile>, lines: usize) {
        let text = file.text();
        let begin: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
        for name in TAUGHT {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let found = text[begin..]
                .match_indices(name)
                .map(|(at, _)| begin + at)
                .find(|at| !text[..*at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word));
            if let Some(at) = found {
                self.taught.entry(name).or_insert_with(|| Span::new(file, at..at + name.len()));
            }
        }
    }

    fn missing<E: std::fmt::Display>(
        &mut self,
        name: &str,
        what: &str,
        span: &Span,
        text: Result<Option<TemplateText>, E>,
    ) -> Option<TemplateText> {
        let problem = |message: String| Diagnostic::error(codes::MISSING_TEMPLATE, message).at(span);
        match text {
            Ok(Some(text)) => return Some(text),
            Ok(None) => self.found.push(problem(format!("the {what} `{name}` does not exist")).help(
                "llm-do looks in the worker's `templates/` and folder, then in the project's `templates/` and `prompts/`",
            )),
            Err(refusal) => self.found.push(problem(format!("the {what} {refusal}"))),
        }
        None
    }
}

/// Returns the name of a reference that has one, with its span.
fn named(reference: &Reference, at: impl Fn(&Place) -> Span) -> Option<(String, Span)> {
    let name = reference.name.clone()?;
    let span = at(&reference.place);
    let quoted = ['"', '\''].map(|quote| word(&span, &format!("{quote}{name}{quote}")));
    let whole = quoted.into_iter().find(|whole| whole.text().len() > 1);
    Some((name, whole.unwrap_or(span)))
}

/// Returns the span of a word that starts at a place.
fn word(begin: &Span, word: &str) -> Span {
    let Some(range) = begin.range() else { return begin.clone() };
    let whole = Span::new(begin.file(), range.start..range.start + word.len());
    if whole.text() == word { whole } else { begin.clone() }
}

/// Reports a prompt that instructs the model to call a tool that the worker does not have.
fn untaught(
    toolsets: &ToolsetRegistry,
    effective: &Effective,
    taught: BTreeMap<&'static str, Span>,
    found: &mut Vec<Diagnostic>,
) {
    if taught.is_empty() || effective.mistakes.concern(&["toolsets", "allow_workers"]) {
        return;
    }
    let delegation = toolsets.delegation().and_then(|kind| effective.toolsets.get(kind.name()));
    let is_dynamic = delegation.and_then(|node| node.get("dynamic")?.as_flag()) == Some(true);
    let by_style =
        delegation.and_then(|node| node.get("style")?.as_text()).is_some_and(|style| style != "tools");
    let by_glob = effective.callees.iter().any(|(name, _)| name.contains(['*', '?', '[']));
    for (name, span) in taught {
        let is_call = name == "worker_call";
        if is_dynamic || (is_call && (by_style || by_glob)) {
            continue;
        }
        let way_out = match (is_call, effective.callees.is_empty()) {
            (true, false) => {
                "each worker of `allow_workers` is a tool under its own name: write that name, or set `style: both` under \
                 `toolsets.workers`"
            }
            (true, true) => {
                "list the workers in `allow_workers`: each is a tool under its own name, and the prompt names that"
            }
            (false, _) => "change the prompt, or set `dynamic: true` under `toolsets.workers`",
        };
        let message = format!(
            "the prompt of `{}` names `{name}`, a tool that it does not have",
            effective.definition.id
        );
        found.push(Diagnostic::warning(codes::UNTAUGHT_TOOL, message).at(&span).help(way_out));
    }
}

fn unknown(effective: &Effective, read: &Read, guarded: &BTreeSet<String>, found: &mut Vec<Diagnostic>) {
    let signature = &effective.definition.signature;
    // Without declared parameters, any key of the input is a variable; also if a schema allows additional properties.
    let closed = signature.schema.value().get("additionalProperties") == Some(&Value::Bool(false));
    let certain = signature.declared && closed;
    let parameters: Vec<&str> = signature.parameters.iter().map(|p| &*p.name).collect();
    for (variable, span) in read {
        let name = variable.as_str();
        if BUILT_IN_VARIABLES.contains(&name) || parameters.contains(&name) {
            continue;
        }
        // Another template may set it, and a template that tests for it can do without it.
        if guarded.contains(name) {
            continue;
        }
        let id = &effective.definition.id;
        let missing = if certain {
            Diagnostic::error(codes::UNKNOWN_VARIABLE, format!("`{id}` has no variable `{name}`"))
        } else {
            Diagnostic::warning(
                codes::INPUT_VARIABLE,
                format!("`{id}` has the variable `{name}` only if its input is an object with that key"),
            )
        }
        .at(span)
        .did_you_mean(name, parameters.iter().copied().chain(BUILT_IN_VARIABLES));
        found.push(if missing.nearest.is_empty() {
            missing.help(format!("declare it under `parameters`: `{name}: string`"))
        } else {
            missing
        });
    }
}

/// Reports a template that uses some parameters but not this one: its author has probably forgotten it. A template that
/// uses none gets them all in the message.
fn unused(effective: &Effective, read: &Read, functions: &BTreeSet<String>, found: &mut Vec<Diagnostic>) {
    let signature = &effective.definition.signature;
    let is_read = |name: &str| read.contains_key(name) || functions.contains(name);
    let is_parameter = |name: &str| signature.parameters.iter().any(|p| *p.name == *name);
    let reads_all = is_read(INPUT) && !is_parameter(INPUT);
    if !signature.declared || reads_all || !signature.parameters.iter().any(|p| is_read(&p.name)) {
        return;
    }
    let sandbox = effective.keys.get("sandbox");
    let handed = |name: &str| {
        let lists = ["read", "write"].into_iter().filter_map(|key| sandbox?.get(key));
        lists.flat_map(Node::texts).any(|(text, _)| text.contains(name))
    };
    // A tool in `ensures` may use any part of the input.
    let judged = |name: &str| {
        effective.definition.ensures.iter().any(|ensure| match &ensure.by {
            Judge::That(that) => that.contains(name),
            Judge::Tool(_) => true,
        })
    };
    for parameter in &signature.parameters {
        let name = &*parameter.name;
        if is_read(name) || signature.message.as_deref() == Some(name) || handed(name) || judged(name) {
            continue;
        }
        // A parameter of an external schema has no place in this file.
        let Some(entry) = declaration(effective, name) else { continue };
        found.push(
            Diagnostic::warning(
                codes::UNUSED_PARAMETER,
                format!(
                    "the instructions of `{}` do not use the parameter `{name}`",
                    effective.definition.id
                ),
            )
            .at(&entry.key_span)
            .help(format!("write `{{{{ {name} }}}}` in the instructions, or remove the parameter")),
        );
    }
}

/// Reports a parameter that hides the built-in variable of its name, which the author may not know.
fn shadowed(effective: &Effective, found: &mut Vec<Diagnostic>) {
    let definition = &effective.definition;
    if definition.code.is_some() {
        return;
    }
    for parameter in &definition.signature.parameters {
        let name = &*parameter.name;
        // A judge of cases is given the input of the call that it judges.
        let is_given = name == "input" && returns_judgement(effective);
        if !BUILT_IN_VARIABLES.contains(&name) || is_given {
            continue;
        }
        let place = declaration(effective, name)
            .map(|entry| &entry.key_span)
            .or_else(|| Some(&effective.keys.get("schema_in_ref")?.span));
        found.push(
            Diagnostic::warning(
                codes::SHADOWED_VARIABLE,
                format!("the parameter `{name}` of `{}` hides the built-in variable `{name}`", definition.id),
            )
            .or_at(place)
            .note(format!("`{{{{ {name} }}}}` in its templates is the parameter"))
            .help("rename the parameter to use the built-in variable"),
        );
    }
}

/// Returns the key that declares a parameter in the worker's file.
fn declaration<'a>(effective: &'a Effective, name: &str) -> Option<&'a Entry> {
    let all = effective.keys.get("parameters")?;
    all.entry(name).or_else(|| all.get("properties")?.entry(name))
}
