//! Merges a worker file and its project into one definition. See `docs/reference/worker-files.md`.

mod allowlist;
mod class;
mod code;
mod instructions;
mod mistakes;
mod model;
mod retries;
mod schema_file;
mod sections;
pub(crate) mod server_tools;
pub(crate) mod skills;

pub(crate) use instructions::bad_template;
pub(crate) use retries::{not_retried, retried};

use crate::{
    context::Context,
    diagnostics::{Diagnostic, Fix, codes},
    front_matter::Document,
    keys, manifest,
    manifest_names::warn_of_left_over,
    mounts::{self, Layers, RequiredGrant},
    package::Package,
    resolve::WorkerFile,
    rules::FileRule,
    shape, shorthand,
    signature::{self, Declared},
    span::{SourceFile, Span},
    toolsets::{self, Toolsets},
    yaml::{Data, Entry, Node, scalar},
};
use allowlist::{Callee, allowlist};
use llm_do_core::{
    authority::Domain,
    schema::{self, Schema},
    template::TemplateFacts,
    toolset::{Configuration, ConfiguredTool, ToolsetKind},
    toolsets::skills::{Skill, with_skills},
    worker::{Limits, RequestKey, Sandbox, Signature, WorkerDefinition, WorkerMode},
};
use mistakes::Mistakes;
use model::check_compatible;
use sections::{attachment_policy, ensures, limits, rules, settings};
use serde_json::Value;
use std::sync::Arc;

/// A worker, merged.
#[derive(Debug)]
pub(crate) struct Effective {
    pub(crate) definition: Arc<WorkerDefinition>,
    pub(crate) grants: Vec<RequiredGrant>,
    pub(crate) located: WorkerFile,
    /// The worker's own keys in canonical form.
    pub(crate) keys: Node,
    /// The rules of its `tool_rules`.
    pub(crate) rules: Vec<FileRule>,
    /// The toolsets of the worker, merged with its package's.
    pub(crate) toolsets: Toolsets,
    /// The allowlist with places.
    pub(crate) callees: Vec<(String, Span)>,
    /// The skills that its toolset offers.
    pub(crate) skills: Vec<skills::Found>,
    /// The arguments that the worker fixes for its callees, by their reference in the allowlist.
    pub(crate) with: Vec<(String, Node)>,
    /// The workers that its exact references name, each with its place in `callees`.
    pub(crate) calls: Vec<(Arc<str>, usize)>,
    /// The file with its instructions.
    pub(crate) text: Arc<SourceFile>,
    /// The variables, templates and files that its instructions use.
    pub(crate) facts: TemplateFacts,
    /// The keys with errors. A program with such a worker is checked but never runs.
    pub(crate) mistakes: Mistakes,
}

impl Effective {
    /// Returns the tools that its configuration of a kind of toolset makes.
    pub(crate) fn configured(&self, kind: &dyn ToolsetKind) -> Vec<ConfiguredTool> {
        let Some(configuration) = self.toolsets.get(kind.name()) else { return Vec::new() };
        let own = Configuration::parse(&configuration.to_json(), kind.name()).unwrap_or_default().own;
        kind.configured(&own)
    }
}

/// The result of reading a worker. It has the callees even if the worker has errors, so that one load reports the
/// errors of the callees too.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// The merged worker, or `None` if the file can't be understood as a worker at all. If it has other errors, it has
    /// only the valid values.
    pub(crate) effective: Option<Effective>,
    /// The allowlist with places.
    pub(crate) callees: Vec<(String, Span)>,
    /// `imports.workers` with places.
    pub(crate) imports: Vec<(String, Span)>,
}

impl Context<'_> {
    /// Merges a worker. Adds problems to `found`.
    pub(crate) fn worker(
        &self,
        located: &WorkerFile,
        document: &Document,
        found: &mut Vec<Diagnostic>,
    ) -> Reading {
        let before = found.len();
        let mut reading = Reading::default();
        let effective = self.merge(located, document, &mut reading, found);
        if document.is_partial {
            // A finding about the file as a whole may come from a key that could not be read.
            let of_worker = found.split_off(before);
            found.extend(
                of_worker.into_iter().filter(|one| one.span.as_ref().is_some_and(|at| at.range().is_some())),
            );
        }
        let mistakes = Mistakes::of(document, &found[before..]);
        reading.effective = effective.map(|effective| Effective { mistakes, ..effective });
        reading
    }

    fn merge(
        &self,
        located: &WorkerFile,
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
        warn_of_left_over(&document.keys, found);
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
            let program = self.packages.program().tree.root();
            mounts::read_own_folder(&mut sandbox.narrowing.mounts, &self.package.own, program);
        }
        if self.package.library.is_some() {
            // A library gets its caller's authority and needs no grant (`docs/reference/sandbox.md`).
            sandbox.grants.clear();
            self.check_variables(&sandbox, found);
        }
        let declared = self.input(located, &keys, found);
        check_handed(&declared, &sandbox, found);
        let written: Vec<&str> = sandbox.write.iter().map(|(name, _)| name.as_str()).collect();
        let attaches = attachments.max_attachments > 0;
        let others_attach =
            keys.get("attachment_policy").and_then(|policy| policy.get("untrusted")).and_then(Node::as_flag);
        let untrusted = signature::untrusted(&declared, others_attach == Some(true));
        let signature = signature::build(&declared, &written, attaches).unwrap_or_else(|unusable| {
            let place = keys
                .get("schema_in_ref")
                .or_else(|| keys.get("parameters").map(|parameters| unusable.place(parameters)));
            let message = format!("the input schema cannot be used: {}", unusable.reason);
            found.push(Diagnostic::error(codes::BAD_SCHEMA, message).or_at(place.map(|node| &node.span)));
            Signature::undeclared(attaches)
        });
        let (returns, returned_paths) = self.output(located, &keys, found);

        let own_toolsets = keys
            .get("toolsets")
            .map(|node| toolsets::read(node, &self.host.toolsets, &self.package.declared, found))
            .unwrap_or_default();
        let mut all_toolsets = toolsets::merge(&self.package.toolsets, &own_toolsets);
        toolsets::insert_declared(&mut all_toolsets, &self.package.declared, &self.host.toolsets);
        let callees = self.allowlist(&keys, &own_toolsets, &mut all_toolsets, found);
        reading.callees = callees.iter().map(|it| (it.reference.clone(), it.span.clone())).collect();
        reading.imports = imports(&keys);
        let skills = self.skills(&all_toolsets, found);
        let tools = self.tool_levels(located, &keys, &own_toolsets, &mut all_toolsets, found);
        // `allow_workers` means the same as the allowlist of the toolset that delegates.
        if let (Some(first), Some(kind)) = (callees.first(), self.host.toolsets.delegation()) {
            let empty = || Node { span: first.span.clone(), data: Data::Map(Vec::new()) };
            all_toolsets.entry(kind.name().into()).or_insert_with(empty);
        }
        let (rules, overrides) = rules(&keys, self.tree(), found);
        retries::check(&keys, &all_toolsets, &reading.callees, &self.host.toolsets, found);
        // The host applies the program's default model. A library's own default applies to its workers here.
        let inherited = self.package.manifest.model.as_ref().filter(|_| self.package.library.is_some());
        let models =
            keys.get("model").or(inherited).map(|node| self.model_names(node, found)).unwrap_or_default();
        let compatible = manifest::globs(keys.get("compatible_models"), found);
        check_compatible(&keys, &models, &compatible, found);
        let inherited = self.inherited_settings(&keys);
        let fixed = callees.iter().filter_map(|callee| {
            let with = callee.with.as_ref()?;
            let arguments = with.entries().iter().map(|entry| (entry.key.clone(), entry.value.to_json()));
            Some((callee.reference.clone(), Arc::new(arguments.collect())))
        });
        let fixed = fixed.collect();
        let with = callees.iter().filter_map(|callee| Some((callee.reference.clone(), callee.with.clone()?)));
        let with = with.collect();
        let callees: Vec<(String, Span)> =
            callees.into_iter().map(|callee| (callee.reference, callee.span)).collect();
        let ensures = ensures(&keys, found);
        let server_tools = server_tools::read(&keys, found).into_iter().map(|(tool, _)| tool).collect();
        let (code, code_text) = self.code_of(located, document, &keys, found)?.unzip();
        let written = match code {
            Some(_) => None,
            None => self.instructions(located, document, &keys, found),
        };
        let (instructions, text, facts) = written.unwrap_or_else(|| self.no_instructions(located, document));
        let layers = [
            self.packages.program().manifest.limits.as_ref(),
            self.package.manifest.limits.as_ref(),
            keys.get("limits"),
        ];
        let contexts = [
            self.packages.program().manifest.max_context_tokens.as_ref(),
            self.package.manifest.max_context_tokens.as_ref(),
            keys.get("max_context_tokens"),
        ];

        let code_sha256 = self.code_sha256(&tools, code.as_ref());
        let allow_workers = callees.iter().map(|(reference, _)| reference.clone()).collect();
        let definition = WorkerDefinition {
            id: self.package.global_id(&located.id),
            source: self.package.code.source.clone(),
            root: self.package.code.root.clone(),
            description,
            instructions,
            models,
            compatible_models: compatible,
            settings: keys.get("model_settings").map(settings).unwrap_or_default(),
            inherited,
            mode: match keys.get("mode").and_then(Node::as_text) {
                Some("chat") => WorkerMode::Chat,
                _ => WorkerMode::Single,
            },
            interactive: keys.get("interaction").and_then(Node::as_text) == Some("user"),
            locked: keys.get("locked").and_then(Node::as_flag).unwrap_or(false),
            signature,
            returns,
            ensures,
            returned_paths,
            toolsets: self.configurations(&all_toolsets, &skills),
            pins: self.package.tool_pins(),
            server_tools,
            tools,
            code,
            allow_workers,
            fixed,
            rules: rules.iter().filter_map(FileRule::line).collect(),
            overrides,
            sandbox: Sandbox {
                narrowing: sandbox.narrowing,
                env: sandbox.env.into_iter().map(|(name, _)| name).collect(),
                keys: sandbox.keys.into_iter().map(|(key, _)| key).collect(),
            },
            attachments,
            untrusted,
            allow_empty_input: keys.get("allow_empty_input").and_then(Node::as_flag).unwrap_or(true),
            limits: Limits {
                max_context_tokens: contexts.iter().flatten().filter_map(|node| node.as_count()).min(),
                ..limits(self.host, &layers)
            },
            text: whole_text(document.file.text(), code_text, &skills),
            code_sha256,
        };
        Some(Effective {
            definition: Arc::new(definition),
            grants: sandbox.grants,
            located: located.clone(),
            keys,
            rules,
            toolsets: all_toolsets,
            callees,
            skills,
            with,
            calls: Vec::new(),
            text,
            facts,
            mistakes: Mistakes::default(),
        })
    }

    /// Reads `parameters` or `schema_in_ref`.
    fn input(&self, located: &WorkerFile, keys: &Node, found: &mut Vec<Diagnostic>) -> Declared {
        exclusive(keys, "parameters", "schema_in_ref", found);
        if let Some(node) = keys.get("parameters") {
            return signature::parameters(node, found);
        }
        let schema = keys.get("schema_in_ref").and_then(|node| self.schema_of_input(located, node, found));
        let has_json_schema = schema.is_some();
        Declared { parameters: None, schema, has_json_schema }
    }

    /// Reads `returns` or `schema_out_ref`, with the names of outputs that are paths.
    fn output(
        &self,
        located: &WorkerFile,
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
                    // The second read only finds the fields; errors were reported by the first.
                    paths.extend(node.entries().iter().filter_map(|entry| {
                        let field = shorthand::read(&entry.value, &entry.key, &mut Vec::new())?;
                        field.path.then(|| entry.key.clone())
                    }));
                }
                if shorthand::is_shorthand(node) {
                    return (Some(Arc::new(Schema::built_in(typed.schema))), paths);
                }
                (typed.schema, node)
            }
            (None, Some(node)) => match self.schema(located, node, found) {
                Some(schema) => (schema, node),
                None => return (None, paths),
            },
            (None, None) => return (None, paths),
        };
        let schema = Schema::new(schema).map_err(|error| error.to_string());
        match schema.and_then(|schema| match schema::misuse(schema.value(), |_| false) {
            Some(misuse) => Err(misuse.to_string()),
            None => Ok(schema),
        }) {
            Ok(schema) => (Some(Arc::new(schema)), paths),
            Err(problem) => {
                found.push(Diagnostic::error(codes::BAD_SCHEMA, problem).at(&place.span));
                (None, paths)
            }
        }
    }

    /// Reads the allowlist. A worker's `allow_workers` and `toolsets.workers.allowed_workers` are one list, which
    /// replaces the project's: that list is then removed from `merged`.
    fn allowlist(
        &self,
        keys: &Node,
        own: &Toolsets,
        merged: &mut Toolsets,
        found: &mut Vec<Diagnostic>,
    ) -> Vec<Callee> {
        const LIST: &str = "allowed_workers";
        let delegation = self.host.toolsets.delegation().map_or("", |kind| kind.name());
        let listed =
            |toolsets: &Toolsets| toolsets.get(delegation).and_then(|node| node.entry(LIST).cloned());
        let short = keys.get("allow_workers");
        let of_toolset = match (short, listed(own)) {
            (Some(_), None) => {
                if let Some(Data::Map(entries)) = merged.get_mut(delegation).map(|node| &mut node.data) {
                    entries.retain(|entry| entry.key != LIST);
                }
                None
            }
            (Some(_), own) => own,
            (None, _) => listed(merged),
        };
        allowlist([short, of_toolset.as_ref().map(|entry| &entry.value)], found)
    }

    /// Returns merged configurations as the definition has them, with the skills of the worker.
    fn configurations(&self, toolsets: &Toolsets, skills: &[skills::Found]) -> Vec<(Arc<str>, Arc<Value>)> {
        let skills: Vec<Skill> = skills.iter().map(skills::Found::skill).collect();
        let mut all = configurations(toolsets);
        for (name, configuration) in &mut all {
            if self.host.toolsets.get(name).is_some_and(|kind| kind.skill_folders().is_some()) {
                with_skills(Arc::make_mut(configuration), &skills);
            }
        }
        all
    }

    /// Reports variables for a library's code that the program does not give to all of its workers.
    fn check_variables(&self, sandbox: &mounts::Merged, found: &mut Vec<Diagnostic>) {
        let program = self.packages.program();
        found.extend(sandbox.env.iter().filter_map(|(name, span)| not_given(program, name, span)));
        found.extend(sandbox.keys.iter().filter_map(|(key, span)| key_not_given(program, key, span)));
    }
}

/// Returns the finding for a variable that a library asks for, at `span`, and that the program does not give to all of
/// its workers.
pub(crate) fn not_given(program: &Package, name: &str, span: &Span) -> Option<Diagnostic> {
    let env = program.manifest.sandbox.as_ref().and_then(|sandbox| sandbox.get("env"));
    if env.is_some_and(|list| list.texts().any(|(given, _)| given == name)) {
        return None;
    }
    let message = format!("this library asks for the variable `{name}`, which the program does not give");
    Some(
        Diagnostic::error(codes::BAD_VALUE, message)
            .at(span)
            .help(format!("if it may have it, add `sandbox: {{env: [{name}]}}` to the project's manifest")),
    )
}

/// Returns the finding for a key that a library's code would use, at `span`, and that the program does not give for the
/// same host.
fn key_not_given(program: &Package, key: &RequestKey, span: &Span) -> Option<Diagnostic> {
    let RequestKey { domain, variable, .. } = key;
    let keys = program.manifest.sandbox.as_ref().and_then(|sandbox| sandbox.get("keys"));
    let is_given = |entry: &Entry| {
        Domain::parse(&entry.key).is_ok_and(|given| given == *domain)
            && entry.value.get("env").and_then(Node::as_text) == Some(&**variable)
    };
    if keys.is_some_and(|keys| keys.entries().iter().any(is_given)) {
        return None;
    }
    let message =
        format!("this library wants the key in `{variable}` for `{domain}`, which the program does not give");
    Some(Diagnostic::error(codes::BAD_VALUE, message).at(span).help(format!(
        "if it may use the key, add the same entry for `{domain}` to `sandbox.keys` of the project's manifest"
    )))
}

/// Returns `imports.workers`: the workers that are loaded with it.
fn imports(keys: &Node) -> Vec<(String, Span)> {
    let workers = keys.get("imports").and_then(|imports| imports.get("workers"));
    workers.into_iter().flat_map(Node::texts).map(|(text, span)| (text.to_owned(), span.clone())).collect()
}

/// Converts toolsets to the form of the engine.
fn configurations(toolsets: &Toolsets) -> Vec<(Arc<str>, Arc<Value>)> {
    toolsets.iter().map(|(name, node)| (Arc::clone(name), Arc::new(node.to_json()))).collect()
}

/// Returns the text that defines a worker, which the journal records: its file, and the texts of its code and skills.
fn whole_text(file: &Arc<str>, code: Option<Arc<str>>, skills: &[skills::Found]) -> Arc<str> {
    let skills = skills.iter().map(|skill| Arc::clone(skill.file.file.text()));
    let texts: Vec<Arc<str>> = [Arc::clone(file)].into_iter().chain(code).chain(skills).collect();
    match &texts[..] {
        [file] => Arc::clone(file),
        texts => texts.join("\n").into(),
    }
}

fn check_name(located: &WorkerFile, keys: &Node, found: &mut Vec<Diagnostic>) {
    let Some(name) = keys.get("name") else { return };
    let Some(text) = name.as_text() else { return };
    if located.rooted && text != located.id {
        found.push(
            Diagnostic::error(
                codes::NAME_MISMATCH,
                format!("`name` is `{text}`, but the worker's ID is `{}`", located.id),
            )
            .at(&name.span)
            .note(format!("the ID is the path under the workers root: {}", located.path))
            .help("or remove `name`, or rename the file")
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
            Diagnostic::error(codes::CONFLICT, format!("`{a}` and `{b}` cannot be used together"))
                .at(&second.key_span)
                .related("the other one", &first.key_span)
                .help("keep one of them"),
        );
    }
}

/// Checks that each `${name}` in `sandbox.read` and `sandbox.write` names a parameter of type `path`.
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
