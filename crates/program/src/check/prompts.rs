//! What instructions refer to: variables, templates, files.

use super::Whole;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::{Effective, bad_template},
    span::{SourceFile, Span},
    yaml::Node,
};
use llm_do_core::conversation::Judge;
use llm_do_core::template::{
    Origin, Place, Reference, TemplateFacts, TemplateSource, TemplateText, confine, inspect,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Variables of every template (SPEC §7).
const ALWAYS: [&str; 4] = ["input", "worker", "project", "run"];
/// Templates within templates that are followed: a rendering goes no further.
const DEEPEST: usize = 10;

pub(super) fn check(whole: &Whole<'_>, found: &mut Vec<Diagnostic>) {
    whole.each(found, |effective, found| {
        let mut reader = Reader {
            source: effective.definition.instructions.templates.as_ref(),
            found,
            read: BTreeMap::new(),
            seen: BTreeSet::new(),
        };
        let text = Arc::clone(&effective.text);
        reader.template(None, &text, &effective.facts, &[], &BTreeSet::new());
        let read = reader.read;
        unknown(effective, &read, found);
        unused(effective, &read, found);
    });
}

/// A variable's first place, in whichever template it stands.
type Read = BTreeMap<String, Span>;

struct Reader<'a> {
    source: &'a dyn TemplateSource,
    found: &'a mut Vec<Diagnostic>,
    /// The variables that are read and that no template on the way sets.
    read: Read,
    /// Templates that were looked at.
    seen: BTreeSet<String>,
}

impl Reader<'_> {
    /// Follows what a template refers to. `chain` holds the names on the way to it, `set` what those have set.
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
        for inserted in &facts.files {
            if let Some((name, span)) = named(inserted, at) {
                let text = confine(&name).and_then(|name| self.source.file(&name));
                self.missing(&name, "file", &span, text);
            }
        }
        let mut chain = chain.to_vec();
        chain.extend(name);
        let set: BTreeSet<String> = set.union(&facts.set).cloned().collect();
        for reference in &facts.templates {
            let Some((wanted, span)) = named(reference, at) else { continue };
            // What a library's template names is the library's.
            let library = name.and_then(|name| name.split_once(':')).filter(|_| !wanted.contains(':'));
            let wanted = library.map_or(wanted.clone(), |(library, _)| format!("{library}:{wanted}"));
            if let Some(begin) = chain.iter().position(|above| *above == wanted) {
                let names: Vec<&str> = chain[begin..].iter().copied().chain([wanted.as_str()]).collect();
                self.found.push(
                    Diagnostic::error(
                        codes::TEMPLATE_CYCLE,
                        format!("templates include each other: {}", names.join(" → ")),
                    )
                    .at(&span)
                    .help("take one of the includes away"),
                );
                continue;
            }
            let text = confine(&wanted).and_then(|wanted| self.source.template(&wanted));
            let Some(text) = self.missing(&wanted, "template", &span, text) else { continue };
            if chain.len() >= DEEPEST || !self.seen.insert(wanted.clone()) {
                continue;
            }
            let file = SourceFile::new(text.origin.as_str(), text.text);
            match inspect(file.text(), &Origin::file(text.origin)) {
                Ok(facts) => self.template(Some(&wanted), &file, &facts, &chain, &set),
                Err(error) => self.found.push(bad_template(&file, error).related("it is named here", &span)),
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
                "it is looked for in the worker's `templates/` and folder, then in the project's `templates/` and `prompts/`",
            )),
            Err(refusal) => self.found.push(problem(format!("the {what} {refusal}"))),
        }
        None
    }
}

/// The name of what must exist, with its place.
fn named(reference: &Reference, at: impl Fn(&Place) -> Span) -> Option<(String, Span)> {
    let name = reference.name.clone().filter(|_| !reference.optional)?;
    let span = at(&reference.place);
    let quoted = ['"', '\''].map(|quote| word(&span, &format!("{quote}{name}{quote}")));
    let whole = quoted.into_iter().find(|whole| whole.text().len() > 1);
    Some((name, whole.unwrap_or(span)))
}

/// The whole of a word that begins at a place.
fn word(begin: &Span, word: &str) -> Span {
    let Some(range) = begin.range() else { return begin.clone() };
    let whole = Span::new(begin.file(), range.start..range.start + word.len());
    if whole.text() == word { whole } else { begin.clone() }
}

fn unknown(effective: &Effective, read: &Read, found: &mut Vec<Diagnostic>) {
    let signature = &effective.definition.signature;
    // Without declared parameters any key of the input is a variable, and so it is where a schema leaves room.
    let open = signature.schema.value().get("additionalProperties") != Some(&Value::Bool(false));
    if !signature.declared || open {
        return;
    }
    let parameters: Vec<&str> = signature.parameters.iter().map(|p| &*p.name).collect();
    for (variable, span) in read {
        let name = variable.as_str();
        if ALWAYS.contains(&name) || parameters.contains(&name) {
            continue;
        }
        let missing = Diagnostic::error(
            codes::UNKNOWN_VARIABLE,
            format!("`{}` has no variable `{name}`", effective.definition.id),
        )
        .at(span)
        .did_you_mean(name, parameters.iter().copied().chain(ALWAYS));
        found.push(if missing.nearest.is_empty() {
            missing.help(format!("declare it under `parameters`: `{name}: string`"))
        } else {
            missing
        });
    }
}

/// A template that prints some parameters and not this one has probably forgotten it. One that prints none leaves them
/// to the message, which carries them all.
fn unused(effective: &Effective, read: &Read, found: &mut Vec<Diagnostic>) {
    let signature = &effective.definition.signature;
    let is_read = |name: &str| read.contains_key(name);
    if !signature.declared || is_read("input") || !signature.parameters.iter().any(|p| is_read(&p.name)) {
        return;
    }
    let sandbox = effective.keys.get("sandbox");
    let handed = |name: &str| {
        let lists = ["read", "write"].into_iter().filter_map(|key| sandbox?.get(key));
        lists.flat_map(Node::texts).any(|(text, _)| text.contains(name))
    };
    // What a tool of `ensures` makes of the input is its own affair.
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
        // A parameter of a schema in a file has its place there, which is not this worker's.
        let Some(entry) = effective
            .keys
            .get("parameters")
            .and_then(|all| all.entry(name).or_else(|| all.get("properties")?.entry(name)))
        else {
            continue;
        };
        found.push(
            Diagnostic::warning(
                codes::UNUSED_PARAMETER,
                format!(
                    "the instructions use other parameters of `{}`, and not `{name}`",
                    effective.definition.id
                ),
            )
            .at(&entry.key_span)
            .help(format!("write `{{{{ {name} }}}}` where it is meant, or remove it")),
        );
    }
}
