//! A worker file and its project become one definition (SPEC §2.1, §2.2).

use crate::{
    diagnostics::{Diagnostic, Fix, codes, fix::scalar},
    front_matter::{self, Body, Document},
    keys, manifest,
    mounts::{self, Layers, RequiredGrant},
    package::{Package, Packages},
    program::Host,
    resolve::Located,
    shape::{self, milliseconds, rule_of},
    shorthand,
    signature::{self, Declared},
    source::{Kind, LARGEST_DEFINITION, SourceTree, plain},
    span::{SourceFile, Span},
    templates::Templates,
    tool_reference::{self, Policy},
    toolsets::{self, Toolsets},
    yaml::{Data, Entry, Node},
};
use llm_do_core::{
    function::FunctionSource,
    gate::{Rule, RuleLine},
    model::{ModelName, ModelSettings},
    schema::Schema,
    template::{self, Origin, TemplateError, TemplateFacts},
    worker::{AttachmentPolicy, CallOverride, Instructions, Limits, Sandbox, WorkerDefinition},
};
use serde_json::Value;
use std::sync::Arc;

/// What a worker's file is read with.
pub(crate) struct Context<'a> {
    pub(crate) packages: &'a Packages,
    /// Whose worker it is.
    pub(crate) package: &'a Package,
    pub(crate) host: &'a Host,
}

/// A worker, merged.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) definition: Arc<WorkerDefinition>,
    pub(crate) grants: Vec<RequiredGrant>,
    pub(crate) located: Located,
    /// Its own keys in canonical form.
    pub(crate) keys: Node,
    /// Its toolsets, merged with its package's.
    pub(crate) toolsets: Toolsets,
    /// The allowlist with places.
    pub(crate) callees: Vec<(String, Span)>,
    /// The workers that its exact references name, each with its place in `callees`.
    pub(crate) calls: Vec<(Arc<str>, usize)>,
    /// Where its instructions stand.
    pub(crate) text: Arc<SourceFile>,
    /// What its instructions refer to.
    pub(crate) facts: TemplateFacts,
}

/// What reading a worker gave: also where something was wrong its callees are known, so that one loading finds what is
/// wrong with them too.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Absent if anything is wrong.
    pub(crate) effective: Option<Effective>,
    /// The allowlist with places.
    pub(crate) callees: Vec<(String, Span)>,
    /// `imports.workers` with places.
    pub(crate) imports: Vec<(String, Span)>,
}

/// Extensions of prompts, in no order: two of them are an error.
const PROMPTS: [&str; 5] = ["jinja2", "j2", "jinja", "txt", "md"];

impl Context<'_> {
    /// Merges a worker that was read. What is wrong, `found` says.
    pub(crate) fn worker(
        &self,
        located: &Located,
        document: &Document,
        found: &mut Vec<Diagnostic>,
    ) -> Reading {
        let errors = |found: &[Diagnostic]| found.iter().filter(|d| d.is_error()).count();
        let before = errors(found);
        let mut reading = Reading::default();
        let effective = self.merge(located, document, &mut reading, found);
        reading.effective = effective.filter(|_| errors(found) == before);
        reading
    }

    fn tree(&self) -> &dyn SourceTree {
        self.package.tree.as_ref()
    }

    fn merge(
        &self,
        located: &Located,
        document: &Document,
        reading: &mut Reading,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Effective> {
        match &document.keys.data {
            Data::Map(_) | Data::Null => {}
            _ => {
                found.push(shape::wrong_type(&document.keys, "the front matter", "a map of keys"));
                return None;
            }
        }
        if let Some(sketch) = manifest::sketch(&document.keys) {
            found.push(sketch);
            return None;
        }
        toolsets::warn_of_nulls(&document.keys, found);
        let keys = shape::check(&document.keys, keys::WORKER, "", found);
        let description = keys.get("description").and_then(Node::as_text).map(Into::into);
        check_name(located, &keys, found);

        let attachments = keys.get("attachment_policy").map(attachment_policy).unwrap_or_default();
        let project = self.package.manifest.sandbox.as_ref();
        let mut sandbox = mounts::merge(
            self.tree(),
            &self.package.own,
            Layers { project, worker: keys.get("sandbox") },
            found,
        );
        if self.package.library.is_some() {
            // A library gets what its caller has, and raises no grant (SPEC §6.5).
            sandbox.grants.clear();
        }
        let declared = self.input(located, &keys, found);
        check_handed(&declared, &sandbox, found);
        let written: Vec<&str> = sandbox.write.iter().map(|(name, _)| name.as_str()).collect();
        let signature = match signature::build(&declared, &written, attachments.max_attachments > 0) {
            Ok(signature) => Some(signature),
            Err(reason) => {
                let place = keys.get("schema_in_ref").or_else(|| keys.get("parameters"));
                found.push(
                    Diagnostic::error(
                        codes::BAD_SCHEMA,
                        format!("the input's schema is not usable: {reason}"),
                    )
                    .or_at(place.map(|node| &node.span)),
                );
                None
            }
        };
        let (returns, returned_paths) = self.output(located, &keys, found);

        let own_toolsets = keys
            .get("toolsets")
            .map(|node| toolsets::read(node, &self.host.toolsets, found))
            .unwrap_or_default();
        let mut all_toolsets = toolsets::merge(&self.package.toolsets, &own_toolsets);
        let callees = allowlist(&keys, &all_toolsets, found);
        reading.callees.clone_from(&callees);
        reading.imports = self.imports(located, &keys, found);
        if !callees.is_empty() && !all_toolsets.contains_key("workers") {
            // `allow_workers` means the same as `toolsets.workers.allowed_workers` (SPEC §2.1).
            let span = callees[0].1.clone();
            all_toolsets.insert("workers".into(), Node { span, data: Data::Map(Vec::new()) });
        }
        let (rules, overrides) = rules(&keys, found);
        // The program's default is the host's affair; a library's own default goes with its workers.
        let inherited = self.package.manifest.model.as_ref().filter(|_| self.package.library.is_some());
        let model = keys.get("model").or(inherited).and_then(|node| self.model_name(node, found));
        let compatible = manifest::globs(keys.get("compatible_models"), found);
        check_compatible(&keys, &compatible, found);
        let (instructions, text, facts) = self.instructions(located, document, &keys, found)?;
        let layers = [
            self.packages.program().manifest.limits.as_ref(),
            self.package.manifest.limits.as_ref(),
            keys.get("limits"),
        ];

        let allow_workers = callees.iter().map(|(reference, _)| reference.clone()).collect();
        let definition = WorkerDefinition {
            id: self.package.global_id(&located.id),
            source: match &self.package.library {
                Some(library) => FunctionSource::Library(Arc::clone(library)),
                None => FunctionSource::Program,
            },
            description,
            instructions,
            model,
            compatible_models: compatible,
            settings: keys.get("model_settings").map(settings).unwrap_or_default(),
            locked: keys.get("locked").and_then(Node::as_flag).unwrap_or(false),
            signature: signature?,
            returns,
            returned_paths,
            toolsets: all_toolsets
                .iter()
                .map(|(name, node)| (Arc::clone(name), Arc::new(node.to_json())))
                .collect(),
            allow_workers,
            rules: rules.into(),
            overrides,
            sandbox: Sandbox { narrowing: sandbox.narrowing },
            attachments,
            allow_empty_input: keys.get("allow_empty_input").and_then(Node::as_flag).unwrap_or(true),
            limits: limits(&layers),
            text: Arc::clone(document.file.text()),
        };
        Some(Effective {
            definition: Arc::new(definition),
            grants: sandbox.grants,
            located: located.clone(),
            keys,
            toolsets: all_toolsets,
            callees,
            calls: Vec::new(),
            text,
            facts,
        })
    }

    /// `imports`: the workers that are loaded with it; of its tools what is wrong with them.
    fn imports(&self, located: &Located, keys: &Node, found: &mut Vec<Diagnostic>) -> Vec<(String, Span)> {
        let Some(imports) = keys.get("imports") else { return Vec::new() };
        let policy = Policy {
            tools: self.host.import_tools,
            modules: self.host.module_imports || self.packages.program().manifest.tools.allow_module_imports,
        };
        for reference in imports.get("tools").into_iter().flat_map(Node::texts) {
            let folder = folder_of(&located.path);
            if tool_reference::resolve(self.package, folder, reference, policy, found).is_some() {
                found.push(
                    Diagnostic::error(codes::NOT_SUPPORTED, "Python tools are not supported yet")
                        .at(reference.1),
                );
            }
        }
        let workers = imports.get("workers").into_iter().flat_map(Node::texts);
        workers.map(|(text, span)| (text.to_owned(), span.clone())).collect()
    }

    /// `parameters` or `schema_in_ref`.
    fn input(&self, located: &Located, keys: &Node, found: &mut Vec<Diagnostic>) -> Declared {
        exclusive(keys, "parameters", "schema_in_ref", found);
        if let Some(node) = keys.get("parameters") {
            return signature::parameters(node, found);
        }
        let schema = keys.get("schema_in_ref").and_then(|node| self.schema(located, node, found));
        Declared { parameters: None, schema }
    }

    /// `returns` or `schema_out_ref`, with the names of outputs that are paths.
    fn output(
        &self,
        located: &Located,
        keys: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> (Option<Arc<Schema>>, Vec<String>) {
        exclusive(keys, "returns", "schema_out_ref", found);
        let mut paths = Vec::new();
        let (schema, place) = match (keys.get("returns"), keys.get("schema_out_ref")) {
            (Some(node), _) => {
                let Some(typed) = shorthand::read(node, "returns", found) else { return (None, paths) };
                if typed.path {
                    paths.push(String::new());
                }
                if !shorthand::is_json_schema(node) {
                    // Read a second time for the fields alone: what is wrong with them has been said.
                    paths.extend(node.entries().iter().filter_map(|entry| {
                        let field = shorthand::read(&entry.value, &entry.key, &mut Vec::new())?;
                        field.path.then(|| entry.key.clone())
                    }));
                }
                (typed.schema, node)
            }
            (None, Some(node)) => match self.schema(located, node, found) {
                Some(schema) => (schema, node),
                None => return (None, paths),
            },
            (None, None) => return (None, paths),
        };
        match Schema::new(schema) {
            Ok(schema) => (Some(Arc::new(schema)), paths),
            Err(error) => {
                found.push(Diagnostic::error(codes::BAD_SCHEMA, error.to_string()).at(&place.span));
                (None, paths)
            }
        }
    }

    /// The schema in a file: relative to the worker's file, then the project's `schemas/`.
    fn schema(&self, located: &Located, node: &Node, found: &mut Vec<Diagnostic>) -> Option<Value> {
        let text = node.as_text()?;
        if !text.ends_with(".json") {
            found.push(
                Diagnostic::error(
                    codes::NOT_SUPPORTED,
                    format!("`{text}` names a Python class, which is not supported yet"),
                )
                .at(&node.span)
                .help("name a `.json` file with a JSON Schema"),
            );
            return None;
        }
        let Ok(path) = plain(text) else {
            found.push(
                Diagnostic::error(codes::ESCAPES_ROOT, format!("`{text}` leads out of the program's root"))
                    .at(&node.span),
            );
            return None;
        };
        let candidates = [join(folder_of(&located.path), &path), join("schemas", &path)];
        for candidate in &candidates {
            match self.tree().kind(candidate) {
                Ok(None) => continue,
                Ok(Some(_)) => {}
                Err(error) => {
                    let file = front_matter::unread(self.tree(), candidate);
                    found.push(
                        front_matter::unreadable(&file, &error).related("it is named here", &node.span),
                    );
                    return None;
                }
            }
            let file = match front_matter::read(self.tree(), candidate) {
                Ok(file) => file,
                Err(error) => {
                    found.push(error.related("it is named here", &node.span));
                    return None;
                }
            };
            let wrong =
                |message: String, place: &Span| Diagnostic::error(codes::BAD_SCHEMA, message).at(place);
            let schema: Value = match serde_json::from_str(file.text()) {
                Ok(schema) => schema,
                Err(error) => {
                    let place = Span::at(&file, error.line(), error.column());
                    found.push(wrong(format!("`{candidate}` is not JSON: {error}"), &place));
                    return None;
                }
            };
            if let Err(error) = Schema::new(schema.clone()) {
                found.push(wrong(format!("`{candidate}`: {error}"), &node.span));
                return None;
            }
            return Some(schema);
        }
        found.push(
            Diagnostic::error(codes::BAD_SCHEMA, format!("the schema `{text}` does not exist"))
                .at(&node.span)
                .note(format!("tried {}", candidates.join(", "))),
        );
        None
    }

    /// A model's name, its provider known.
    pub(crate) fn model_name(&self, node: &Node, found: &mut Vec<Diagnostic>) -> Option<ModelName> {
        let model = match node.as_text()?.parse::<ModelName>() {
            Ok(model) => model,
            Err(error) => {
                found.push(Diagnostic::error(codes::BAD_MODEL, error.to_string()).at(&node.span));
                return None;
            }
        };
        let own = self.packages.program().manifest.providers.keys();
        let known: Vec<&str> = self.host.providers.iter().chain(own).map(String::as_str).collect();
        if !self.host.providers.is_empty() && !known.contains(&model.provider()) {
            found.push(
                Diagnostic::error(
                    codes::UNKNOWN_PROVIDER,
                    format!("unknown provider `{}`", model.provider()),
                )
                .at(&node.span)
                .did_you_mean(model.provider(), known.iter().copied())
                .help("an endpoint of your own is declared under `providers:` in the manifest"),
            );
            return None;
        }
        Some(model)
    }

    /// The prompt: after the front matter, under `instructions:`, or in the prompts folder.
    fn instructions(
        &self,
        located: &Located,
        document: &Document,
        keys: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Option<(Instructions, Arc<SourceFile>, TemplateFacts)> {
        let file = &document.file;
        let body = document.body.as_ref().filter(|body| !file.text()[body.range.clone()].trim().is_empty());
        let key = keys.entry("instructions");
        let (text, file, lines): (Arc<str>, Arc<SourceFile>, u32) = match (body, key) {
            (Some(_), Some(entry)) => {
                let conflict = Diagnostic::error(codes::CONFLICT, "the instructions are given twice")
                    .at(&entry.key_span)
                    .label("here, and after the front matter");
                let after = body.map(|body| file.text()[body.range.clone()].trim());
                let same = entry.value.as_text().map(str::trim) == after;
                let fix = same.then(|| Fix::remove("remove the key, which says the same", entry)).flatten();
                let open = fix.is_none();
                let conflict = conflict.fix(fix);
                found.push(if open {
                    conflict.help("keep one of them; in a `.worker` file they stand after the front matter")
                } else {
                    conflict
                });
                return None;
            }
            (Some(Body { range, lines_before }), None) => {
                (file.text()[range.clone()].into(), Arc::clone(file), *lines_before)
            }
            (None, Some(entry)) => {
                let text = entry.value.as_text()?;
                (text.into(), Arc::clone(file), value_lines(entry))
            }
            (None, None) => {
                let prompt = self.prompt(located, document, found)?;
                (Arc::clone(prompt.text()), prompt, 0)
            }
        };
        let text: Arc<str> = match text.strip_prefix('\u{feff}') {
            Some(rest) => rest.into(),
            None => text,
        };
        let origin = Origin { file: file.path().to_string(), line: lines as usize + 1 };
        let facts = match template::inspect(&text, &origin) {
            Ok(facts) => facts,
            Err(error) => {
                found.push(bad_template(&file, error));
                return None;
            }
        };
        let templates = Templates::of(self.packages, self.package, folder_of(&located.path));
        let instructions = Instructions {
            text,
            file: Arc::clone(file.path()),
            line_offset: lines,
            templates: Arc::new(templates),
        };
        Some((instructions, file, facts))
    }

    /// `prompts/{id}.{jinja2,j2,jinja,txt,md}`.
    fn prompt(
        &self,
        located: &Located,
        document: &Document,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Arc<SourceFile>> {
        let base = join(&self.package.manifest.prompts_root, &located.id);
        let candidates = PROMPTS.map(|extension| format!("{base}.{extension}"));
        let mut there = Vec::new();
        for candidate in &candidates {
            match self.tree().kind(candidate) {
                Ok(Some(Kind::File)) => there.push(candidate),
                Ok(_) => {}
                Err(error) => {
                    found.push(front_matter::unreadable(
                        &front_matter::unread(self.tree(), candidate),
                        &error,
                    ));
                    return None;
                }
            }
        }
        match there.as_slice() {
            [] => {
                found.push(
                    Diagnostic::error(
                        codes::NO_INSTRUCTIONS,
                        format!("the worker `{}` has no instructions", located.id),
                    )
                    .at(&Span::whole(&document.file))
                    .note(format!("tried {}", candidates.join(", ")))
                    .help("write them after the front matter"),
                );
                None
            }
            [one] => front_matter::read(self.tree(), one).map_err(|error| found.push(*error)).ok(),
            several => {
                let names: Vec<String> = several.iter().map(|path| format!("`{path}`")).collect();
                found.push(
                    Diagnostic::error(
                        codes::AMBIGUOUS,
                        format!(
                            "the prompt of `{}` is ambiguous: it may be {}",
                            located.id,
                            names.join(" or ")
                        ),
                    )
                    .at(&Span::whole(&document.file))
                    .help("rename or remove one of them"),
                );
                None
            }
        }
    }
}

/// The finding for a template that cannot be read.
pub(crate) fn bad_template(file: &Arc<SourceFile>, error: TemplateError) -> Diagnostic {
    let finding = Diagnostic::error(codes::BAD_TEMPLATE, format!("bad template: {}", error.message))
        .at(&Span::at(file, error.place.line, error.place.column));
    match error.hint {
        Some(hint) => finding.help(hint),
        None => finding,
    }
}

/// Bytes of the largest prompt are those of the largest definition: one limit for what a run reads at its start.
const _: () = assert!(LARGEST_DEFINITION <= 4 << 20);

/// The folder that a file lies in; empty for the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn join(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// Lines before the text of an `instructions:` key: those before the key, and one for a block (`|`).
fn value_lines(entry: &Entry) -> u32 {
    let line = |span: &Span| span.line_column().map_or(1, |(line, _)| line);
    let value = line(&entry.value.span);
    // A block's place is its indicator or its first line, depending on how it is written.
    let block = entry.value.span.text().starts_with(['|', '>']);
    u32::try_from(if block { value } else { value.saturating_sub(1) }).unwrap_or(u32::MAX)
}

fn check_name(located: &Located, keys: &Node, found: &mut Vec<Diagnostic>) {
    let Some(name) = keys.get("name") else { return };
    let Some(text) = name.as_text() else { return };
    if located.rooted && text != located.id {
        found.push(
            Diagnostic::error(
                codes::NAME_MISMATCH,
                format!("this worker is called `{text}`, but its ID is `{}`", located.id),
            )
            .at(&name.span)
            .note(format!("the ID is the path under the workers root: {}", located.path))
            .help("or leave `name` out, or rename the file")
            .fix(Fix::rewrite(
                format!("write `name: {id}`", id = located.id),
                &name.span,
                scalar(&located.id),
            )),
        );
    }
}

fn exclusive(keys: &Node, a: &str, b: &str, found: &mut Vec<Diagnostic>) {
    if let (Some(first), Some(second)) = (keys.entry(a), keys.entry(b)) {
        found.push(
            Diagnostic::error(codes::CONFLICT, format!("`{a}` and `{b}` exclude each other"))
                .at(&second.key_span)
                .related("the other one", &first.key_span)
                .help("keep one of them"),
        );
    }
}

/// `${name}` in `sandbox.read` and `sandbox.write` names a parameter of type `path`.
fn check_handed(declared: &Declared, sandbox: &mounts::Merged, found: &mut Vec<Diagnostic>) {
    let none = Vec::new();
    let parameters = declared.parameters.as_ref().unwrap_or(&none);
    for (name, span) in sandbox.read.iter().chain(&sandbox.write) {
        let problem = match parameters.iter().find(|(known, _)| known == name) {
            Some((_, typed)) if typed.path => continue,
            Some((_, typed)) => format!("the parameter `{name}` is a `{}`, not a `path`", typed.shown),
            None => format!("there is no parameter `{name}`"),
        };
        let paths: Vec<&str> =
            parameters.iter().filter(|(_, typed)| typed.path).map(|(name, _)| name.as_str()).collect();
        found.push(
            Diagnostic::error(codes::BAD_MOUNT, problem)
                .at(span)
                .did_you_mean(name, paths)
                .help(format!("declare it under `parameters`: `{name}: path`")),
        );
    }
}

/// The allowlist: `allow_workers` and `toolsets.workers.allowed_workers` alike.
fn allowlist(keys: &Node, toolsets: &Toolsets, found: &mut Vec<Diagnostic>) -> Vec<(String, Span)> {
    let lists =
        [keys.get("allow_workers"), toolsets.get("workers").and_then(|node| node.get("allowed_workers"))];
    let mut callees: Vec<(String, Span)> = Vec::new();
    for (text, span) in lists.into_iter().flatten().flat_map(Node::texts) {
        if is_glob(text)
            && let Err(error) = globset::Glob::new(text)
        {
            found.push(
                Diagnostic::error(
                    codes::BAD_GLOB,
                    format!("`{text}` is not a glob pattern: {}", error.kind()),
                )
                .at(span),
            );
            continue;
        }
        if !callees.iter().any(|(known, _)| known == text) {
            callees.push((text.to_owned(), span.clone()));
        }
    }
    callees
}

/// Whether an allowlist's item is a pattern rather than a name.
pub(crate) fn is_glob(reference: &str) -> bool {
    reference.contains(['*', '?', '['])
}

fn rules(keys: &Node, found: &mut Vec<Diagnostic>) -> (Vec<RuleLine>, Vec<CallOverride>) {
    let (mut lines, mut overrides) = (Vec::new(), Vec::new());
    for entry in keys.get("tool_rules").map(Node::entries).unwrap_or_default() {
        let Some(pattern) = manifest::pattern(&entry.key, &entry.key_span, found) else { continue };
        let flag = |key: &str| entry.value.get(key).and_then(Node::as_flag);
        let (required, pre_approved) = (flag("approval_required"), flag("pre_approved"));
        if required.is_some() && required == pre_approved {
            found.push(
                Diagnostic::error(
                    codes::CONFLICT,
                    "`approval_required` and `pre_approved` contradict each other",
                )
                .at(&entry.value.span)
                .help("keep one of them"),
            );
        }
        let rule = match (rule_of(&entry.value), flag("allowed"), required, pre_approved) {
            (Some(rule), ..) => Some(rule),
            (_, Some(false), ..) => Some(Rule::Blocked),
            (_, _, Some(true), _) | (_, _, None, Some(false)) => Some(Rule::Ask),
            (_, _, Some(false), _) | (_, _, None, Some(true)) => Some(Rule::PreApproved),
            _ => None,
        };
        if let Some(rule) = rule {
            lines.push(RuleLine { pattern: pattern.clone(), rule, origin: entry.key_span.origin() });
        }
        if let Some(timeout) = entry.value.get("timeout").and_then(milliseconds) {
            overrides
                .push(CallOverride { pattern, timeout: Some(std::time::Duration::from_millis(timeout)) });
        }
    }
    (lines, overrides)
}

/// A worker's own model must be one that the worker allows.
fn check_compatible(keys: &Node, compatible: &[String], found: &mut Vec<Diagnostic>) {
    let (Some(model), false) = (keys.get("model"), compatible.is_empty()) else { return };
    let Some(name) = model.as_text() else { return };
    let matches = compatible
        .iter()
        .any(|glob| globset::Glob::new(glob).is_ok_and(|g| g.compile_matcher().is_match(name)));
    if !matches {
        let place = keys.get("compatible_models").map(|node| &node.span);
        let mut error = Diagnostic::error(
            codes::INCOMPATIBLE_MODEL,
            format!("the model `{name}` matches none of `compatible_models`"),
        )
        .at(&model.span)
        .help("name a model that matches, or widen the list");
        if let Some(place) = place {
            error = error.related("the models that it allows", place);
        }
        found.push(error);
    }
}

fn attachment_policy(node: &Node) -> AttachmentPolicy {
    let mut policy = AttachmentPolicy::default();
    let count = |key: &str| node.get(key).and_then(Node::as_count);
    if let Some(most) = count("max_attachments") {
        policy.max_attachments = u32::try_from(most).unwrap_or(u32::MAX);
    }
    if let Some(most) = count("max_total_bytes") {
        policy.max_total_bytes = most;
    }
    if let Some(list) = node.get("allowed_suffixes") {
        policy.allowed_suffixes = mounts::suffixes(list);
    }
    if let Some(list) = node.get("denied_suffixes") {
        policy.denied_suffixes = mounts::suffixes(list);
    }
    policy
}

fn settings(node: &Node) -> ModelSettings {
    let number = |key: &str| node.get(key).and_then(Node::as_number);
    ModelSettings {
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens: node
            .get("max_tokens")
            .and_then(Node::as_count)
            .map(|n| u32::try_from(n).unwrap_or(u32::MAX)),
        seed: node.get("seed").and_then(Node::as_count),
        stop: node.get("stop").into_iter().flat_map(Node::texts).map(|(text, _)| text.to_owned()).collect(),
        reasoning_effort: node.get("reasoning_effort").and_then(Node::as_text).map(str::to_owned),
    }
}

/// The tighter of each layer's limits, and the default where none says anything.
fn limits(layers: &[Option<&Node>]) -> Limits {
    let least = |key: &str| layers.iter().flatten().filter_map(|node| node.get(key)?.as_count()).min();
    let small = |key: &str| least(key).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    let default = Limits::default();
    Limits {
        max_turns: small("max_turns").unwrap_or(default.max_turns),
        max_tool_calls: small("max_tool_calls").or(default.max_tool_calls),
        timeout_ms: layers
            .iter()
            .flatten()
            .filter_map(|node| milliseconds(node.get("timeout")?))
            .min()
            .or(default.timeout_ms),
        max_tokens: least("max_tokens").or(default.max_tokens),
        max_depth: small("max_depth").or(default.max_depth),
        max_repeats: small("max_repeats").unwrap_or(default.max_repeats),
        request_retries: small("request_retries").unwrap_or(default.request_retries),
        output_retries: small("output_retries").unwrap_or(default.output_retries),
    }
}
