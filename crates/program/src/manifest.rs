//! The manifest, `project.yaml` or `llm-do.yaml`, and the defaults of a program without one. See
//! `docs/guides/projects.md`.

use crate::{
    dependency::{self, Dependency},
    diagnostics::{Diagnostic, Fix, codes},
    front_matter::{self, Definition, Document},
    keys,
    manifest_names::{older_manifest, older_that_is_read, warn_of_left_over},
    rules::{FileRule, read_set, written},
    shape::{self, rule_of},
    skills::{SKILL_FILE, SkillFile},
    source::{Kind, SourceError, SourceTree, folder_of, join, plain},
    span::{SourceFile, Span},
    yaml::{Data, Entry, Node},
};
use llm_do_core::{
    function::Risk,
    gate::{FileSet, Mode, Pattern, Policy, ReadSet, Set},
    model::is_free_provider,
    worker::Delegation,
};
use std::{collections::BTreeMap, sync::Arc};

/// The file that makes a folder a library (`docs/guides/libraries.md`).
pub const LIBRARY: &str = "lib.yaml";

/// The version of a skill that states none.
pub const UNVERSIONED: &str = "0";

pub use crate::manifest_names::MANIFESTS;

/// A manifest, or the defaults.
#[derive(Debug)]
pub struct Manifest {
    /// The file of the manifest, if there is one.
    pub file: Option<Arc<SourceFile>>,
    /// True if the manifest has a syntax error: values that it concerns are missing.
    pub is_partial: bool,
    /// `name`.
    pub name: Option<String>,
    /// The project's own version.
    pub version: Option<String>,
    /// `description`.
    pub description: Option<String>,
    /// `model`.
    pub model: Option<Node>,
    /// `models`, by name.
    pub models: BTreeMap<String, ModelProfile>,
    /// `model_settings`, checked by shape.
    pub model_settings: Option<Node>,
    /// `entry`.
    pub entry: Option<Node>,
    /// The workers root, relative to the root.
    pub workers_root: String,
    /// Further folders with workers.
    pub worker_paths: Vec<String>,
    /// `workers.include`.
    pub include: Vec<String>,
    /// `workers.exclude`.
    pub exclude: Vec<String>,
    /// The prompts folder.
    pub prompts_root: String,
    /// The templates folder.
    pub templates_root: String,
    /// `dependencies`.
    pub dependencies: Vec<Dependency>,
    /// `exports`.
    pub exports: Vec<(String, Span)>,
    /// The folders and files with Python tools.
    pub tools: ToolPlaces,
    /// `toolsets`, checked by shape.
    pub toolsets: Option<Node>,
    /// `mcp_servers`, checked by shape.
    pub mcp_servers: Option<Node>,
    /// `sandbox`, checked by shape.
    pub sandbox: Option<Node>,
    /// `limits`, checked by shape.
    pub limits: Option<Node>,
    /// `max_context_tokens`, checked by shape.
    pub max_context_tokens: Option<Node>,
    /// The mode of `approval.mode`, which can only tighten the operator's.
    pub mode: Option<Mode>,
    /// The keys of `approval` except its mode.
    pub approval: Policy,
    /// The rules of `approval.tools` and `approval.rules`.
    pub(crate) approval_rules: Vec<FileRule>,
    /// `approval` as written, for findings.
    pub approval_keys: Option<Node>,
    /// `delegation`.
    pub delegation: Delegation,
    /// `providers`.
    pub providers: BTreeMap<String, Provider>,
    /// `bindings`: values for the entry's parameters.
    pub bindings: Vec<(String, Node)>,
    /// True if it stands for a skill, whose `SKILL.md` has its name, its version and its description.
    pub(crate) is_skill: bool,
}

/// An entry of `models`, checked by shape.
#[derive(Clone, Debug)]
pub struct ModelProfile {
    /// The place of its name.
    pub span: Span,
    /// `model`.
    pub model: Node,
    /// `settings`.
    pub settings: Option<Node>,
}

/// `tools` of a manifest, every path relative to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolPlaces {
    /// The folders with tools. The defaults need not exist; those that the manifest names must.
    pub roots: Vec<String>,
    /// Modules, with the span that names each. A named module must exist; the default need not.
    pub modules: Vec<(String, Option<Span>)>,
    /// Files and folders that the code of tools reads, with the span that names each.
    pub data: Vec<(String, Span)>,
    /// True if workers may name tools by module (`package.module:register`).
    pub allow_module_imports: bool,
}

impl Default for ToolPlaces {
    fn default() -> Self {
        Self {
            roots: vec!["tools".into(), "toolsets".into()],
            modules: vec![("tools.py".into(), None)],
            data: Vec::new(),
            allow_module_imports: false,
        }
    }
}

/// An entry of `providers` (`docs/guides/models.md`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The URL of the provider.
    pub base_url: String,
    /// The protocol of the provider: `openai`, `openai_resp`, `anthropic`, `gemini` or `ollama`.
    pub api: String,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Further headers.
    pub headers: Vec<(String, String)>,
    /// True if answers are streamed, false if not; `None` for the default of the protocol.
    pub stream: Option<bool>,
    /// The place of the declaration.
    pub span: Span,
}

impl Default for Manifest {
    fn default() -> Self {
        Self {
            file: None,
            is_partial: false,
            name: None,
            version: None,
            description: None,
            model: None,
            models: BTreeMap::new(),
            model_settings: None,
            entry: None,
            workers_root: "workers".into(),
            worker_paths: Vec::new(),
            include: Vec::new(),
            exclude: Vec::new(),
            prompts_root: "prompts".into(),
            templates_root: "templates".into(),
            dependencies: Vec::new(),
            exports: Vec::new(),
            tools: ToolPlaces::default(),
            toolsets: None,
            mcp_servers: None,
            sandbox: None,
            limits: None,
            max_context_tokens: None,
            mode: None,
            approval: Policy::default(),
            approval_rules: Vec::new(),
            approval_keys: None,
            delegation: Delegation::default(),
            providers: BTreeMap::new(),
            bindings: Vec::new(),
            is_skill: false,
        }
    }
}

impl Manifest {
    /// Reads the manifest of a tree, or returns the defaults if there is none. A syntax error in one key loses that key and
    /// no other.
    pub fn load(tree: &dyn SourceTree, found: &mut Vec<Diagnostic>) -> Self {
        let there: Vec<&str> = MANIFESTS
            .into_iter()
            .filter(|name| match tree.kind(name) {
                Ok(kind) => kind.is_some(),
                Err(error) => {
                    found.push(front_matter::unreadable(&front_matter::unread(tree, name), &error));
                    false
                }
            })
            .collect();
        let name = match there.as_slice() {
            [] => {
                return match (older_that_is_read(tree), older_manifest(tree)) {
                    (Some(name), _) => Self::read_older(tree, name, found),
                    (None, older_name) => {
                        found.extend(older_name.map(|name| older(tree, name)));
                        Self::default()
                    }
                };
            }
            [one] => *one,
            _ => {
                found.push(
                    Diagnostic::error(
                        codes::TWO_MANIFESTS,
                        format!("the project has both `{}` and `{}`", MANIFESTS[0], MANIFESTS[1]),
                    )
                    .at(&Span::whole(&front_matter::unread(tree, MANIFESTS[0])))
                    .help("keep one of them: they are two names for the manifest"),
                );
                MANIFESTS[0]
            }
        };
        Self::read_partly(tree, name, found, |document, found| {
            Self::read(tree, &document.file, &document.keys, found)
        })
        .unwrap_or_default()
    }

    /// Reads a file as far as its syntax is valid. Returns `None` if it can't be read at all.
    fn read_partly(
        tree: &dyn SourceTree,
        name: &str,
        found: &mut Vec<Diagnostic>,
        read: impl FnOnce(&Document, &mut Vec<Diagnostic>) -> Self,
    ) -> Option<Self> {
        let Definition { document, found: errors } = front_matter::definition(tree, name);
        found.extend(errors);
        let document = document?;
        let before = found.len();
        let manifest = read(&document, found);
        if document.is_partial {
            // A finding about the file as a whole may come from a key that could not be read.
            let of_file = found.split_off(before).into_iter();
            found.extend(of_file.filter(|one| one.span.as_ref().is_some_and(|at| at.range().is_some())));
        }
        Some(Self { is_partial: document.is_partial, ..manifest })
    }

    /// Reads an older manifest, if every key in it has a meaning here. If a key has none, a restriction could be
    /// missing, so nothing is loaded.
    fn read_older(tree: &dyn SourceTree, name: &'static str, found: &mut Vec<Diagnostic>) -> Self {
        let document = match front_matter::read(tree, name).and_then(front_matter::yaml_only) {
            Ok(document) => document,
            Err(error) => {
                found.push(*error);
                return Self::default();
            }
        };
        let mut read = Vec::new();
        let manifest = Self::read(tree, &document.file, &document.keys, &mut read);
        if !read.iter().any(Diagnostic::is_error) {
            found.extend(read);
            return manifest;
        }
        let new = MANIFESTS[0];
        found.extend(read.into_iter().filter(Diagnostic::is_error).map(|error| {
            let message =
                format!("`{name}` is an older manifest that llm-do can't read as it is: {}", error.message);
            Diagnostic::error(codes::OLDER_MANIFEST, message)
                .or_at(error.span.as_ref())
                .help(format!("run `llm-do migrate`, which converts it to `{new}`"))
                .help(format!(
                    "if it belongs to another program, add a `{new}`, for example with `version: 1`"
                ))
        }));
        Self::default()
    }

    fn read(
        tree: &dyn SourceTree,
        file: &Arc<SourceFile>,
        whole: &Node,
        found: &mut Vec<Diagnostic>,
    ) -> Self {
        match &whole.data {
            Data::Map(_) | Data::Null => {}
            _ => {
                found.push(shape::wrong_type(whole, "the manifest", "a map"));
                return Self::default();
            }
        }
        if let Some(sketch) = sketch(whole) {
            found.push(sketch);
            return Self::default();
        }
        warn_of_left_over(whole, found);
        let node = shape::check(whole, keys::MANIFEST, "", found);
        let text = |key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
        let mut manifest = Self { file: Some(Arc::clone(file)), ..Self::default() };
        manifest.name = text("name");
        manifest.description = text("description");
        manifest.version = version(&node, found);
        manifest.model = node.get("model").cloned();
        manifest.models = profiles(&node, found);
        manifest.model_settings = node.get("model_settings").cloned();
        manifest.entry = node.get("entry").cloned();
        manifest.toolsets = node.get("toolsets").cloned();
        manifest.mcp_servers = node.get(keys::MCP_SERVERS).cloned();
        manifest.sandbox = node.get("sandbox").cloned();
        manifest.limits = node.get("limits").cloned();
        manifest.max_context_tokens = node.get("max_context_tokens").cloned();
        if let Some(workers) = node.get("workers") {
            manifest.include = globs(workers.get("include"), found);
            manifest.exclude = globs(workers.get("exclude"), found);
        }
        for (key, root) in [
            ("workers", &mut manifest.workers_root),
            ("prompts", &mut manifest.prompts_root),
            ("templates", &mut manifest.templates_root),
        ] {
            if let Some(given) = node.get(key).and_then(|roots| roots.get("root")) {
                *root = existing(tree, given, &format!("{key}.root"), found).unwrap_or_else(|| root.clone());
            }
        }
        if let Some(paths) = node.get("worker_paths") {
            let paths = paths.items().iter();
            manifest.worker_paths =
                paths.filter_map(|path| existing(tree, path, "worker_paths", found)).collect();
        }
        manifest.exports = exports(&node);
        manifest.dependencies = dependencies(&node, found);
        if let Some(tools) = node.get("tools") {
            manifest.tools = tool_places(tree, tools, found);
        }
        if let Some(approval) = node.get("approval") {
            let read = |set: &FileSet| read_set(tree, set);
            (manifest.mode, manifest.approval, manifest.approval_rules) =
                project_approval(approval, &read, found);
            manifest.approval_keys = Some(approval.clone());
        }
        if let Some(delegation) = node.get("delegation") {
            if let Some(depth) = delegation.get("max_depth").and_then(Node::as_count) {
                manifest.delegation.max_depth = u32::try_from(depth).unwrap_or(u32::MAX);
            }
            if let Some(allow) = delegation.get("allow_recursion").and_then(Node::as_flag) {
                manifest.delegation.allow_recursion = allow;
            }
        }
        for entry in node.get("providers").map(Node::entries).unwrap_or_default() {
            if let Some(provider) = provider(entry, found) {
                manifest.providers.insert(entry.key.clone(), provider);
            }
        }
        if let Some(bindings) = node.get("bindings") {
            manifest.bindings =
                bindings.entries().iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect();
        }
        manifest
    }

    /// Reads a library: its `lib.yaml`, or the manifest of a project with `name`, `version` and `exports`
    /// (`docs/guides/libraries.md`). Returns `None` with findings in `found` if it is neither, or has errors.
    pub fn load_library(tree: &dyn SourceTree, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let before = found.len();
        let manifest = Self::load_library_partly(tree, found);
        let errors = found[before..].iter().any(Diagnostic::is_error);
        manifest.filter(|_| !errors)
    }

    /// Reads a library as far as it is valid, for its editor. Returns `None` with findings in `found` if it is none.
    pub(crate) fn load_library_partly(tree: &dyn SourceTree, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let no_library = |message: &str| {
            Diagnostic::error(codes::BAD_LIBRARY, message.to_owned())
                .help("a library has a `lib.yaml` with `name`, `version` and `exports`")
        };
        let manifest = match tree.kind(LIBRARY) {
            Ok(None) => {
                let project = Self::load(tree, found);
                if project.file.is_none() && matches!(tree.kind(SKILL_FILE), Ok(Some(Kind::File))) {
                    return Self::of_skill(tree, found);
                }
                let Some(file) = &project.file else {
                    found.push(no_library("the folder is not a library: it has no `lib.yaml`"));
                    return None;
                };
                let lacks = [
                    ("name", project.name.is_none()),
                    ("version", project.version.is_none()),
                    ("exports", project.exports.is_empty()),
                ];
                let lacks: Vec<&str> =
                    lacks.iter().filter(|(_, lacks)| *lacks).map(|(key, _)| *key).collect();
                if !lacks.is_empty() && !project.is_partial {
                    let message =
                        format!("the project is not a library: its manifest has no `{}`", lacks.join("`, `"));
                    found.push(no_library(&message).at(&Span::whole(file)));
                    return None;
                }
                project
            }
            Ok(Some(_)) => Self::read_partly(tree, LIBRARY, found, |document, found| {
                Self::read_library(&document.file, &document.keys, found)
            })?,
            Err(error) => {
                found.push(front_matter::unreadable(&front_matter::unread(tree, LIBRARY), &error));
                return None;
            }
        };
        let place = manifest.file.as_ref().map(Span::whole);
        for problem in [
            manifest.name.as_deref().map(dependency::check_name),
            manifest.version.as_deref().map(dependency::check_version),
        ] {
            if let Some(Err(problem)) = problem {
                found.push(Diagnostic::error(codes::BAD_LIBRARY, problem).or_at(place.as_ref()));
            }
        }
        Some(manifest)
    }

    /// Reads a skill as a library that has neither workers nor tools.
    fn of_skill(tree: &dyn SourceTree, found: &mut Vec<Diagnostic>) -> Option<Self> {
        let skill = SkillFile::read(tree, "", None, found)?;
        let tools = ToolPlaces { roots: Vec::new(), modules: Vec::new(), ..ToolPlaces::default() };
        Some(Self {
            file: Some(skill.file),
            name: Some(skill.name),
            version: Some(skill.version.unwrap_or_else(|| UNVERSIONED.to_owned())),
            description: Some(skill.description),
            tools,
            is_skill: true,
            ..Self::default()
        })
    }

    /// Returns true if it stands for a skill.
    pub fn is_skill(&self) -> bool {
        self.is_skill
    }

    fn read_library(file: &Arc<SourceFile>, whole: &Node, found: &mut Vec<Diagnostic>) -> Self {
        let mut manifest = Self { file: Some(Arc::clone(file)), ..Self::default() };
        if !matches!(whole.data, Data::Map(_)) {
            found.push(shape::wrong_type(whole, LIBRARY, "a map"));
            return manifest;
        }
        let node = shape::check(whole, keys::LIBRARY, "", found);
        let text = |key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
        manifest.name = text("name");
        manifest.description = text("description");
        // `lib.yaml` has only one format, so a bare number is the library's version as written.
        manifest.version = node.get("version").map(|version| match version.as_text() {
            Some(text) => text.to_owned(),
            None => version.span.text().to_owned(),
        });
        manifest.exports = exports(&node);
        manifest.dependencies = dependencies(&node, found);
        manifest.mcp_servers = node.get(keys::MCP_SERVERS).cloned();
        manifest
    }

    /// Returns the definitions under a key that toolsets may name.
    pub(crate) fn definitions(&self, key: &str) -> Option<&Node> {
        self.mcp_servers.as_ref().filter(|_| key == keys::MCP_SERVERS)
    }

    /// Returns the paths that define the program, in addition to the conventional ones, for its protection
    /// (`docs/reference/sandbox.md`).
    pub fn defining(&self) -> Vec<String> {
        let roots = [&self.workers_root, &self.prompts_root, &self.templates_root];
        let tools = self.tools.roots.iter().chain(self.tools.modules.iter().map(|(module, _)| module));
        let tools = tools.chain(self.tools.data.iter().map(|(data, _)| data));
        // The root itself is excluded: otherwise everything would be read-only. Its worker files are protected by
        // name.
        let sets = self.approval_rules.iter().flat_map(|rule| rule.calls.conditions.sets());
        let sets = sets.filter_map(Set::file).filter_map(|set| plain(&set.file).ok());
        let named = roots.into_iter().chain(&self.worker_paths).chain(tools);
        named.filter(|path| !path.is_empty()).cloned().chain(sets).collect()
    }
}

/// Returns the finding for a manifest of an older form. Its restrictions would not apply, so nothing is loaded without
/// them.
fn older(tree: &dyn SourceTree, name: &str) -> Diagnostic {
    let new = MANIFESTS[0];
    Diagnostic::error(
        codes::OLDER_MANIFEST,
        format!("`{name}` is an older manifest, which llm-do does not read"),
    )
    .at(&Span::whole(&front_matter::unread(tree, name)))
    .help(format!("run `llm-do migrate`, which converts it to `{new}`"))
    .help(format!("if it belongs to another program, add a `{new}`, for example with `version: 1`"))
}

/// Returns the finding for a file whose keys are all inside one `worker:` or `workshop:` key, a layout of early drafts.
pub fn sketch(whole: &Node) -> Option<Diagnostic> {
    let [entry] = whole.entries() else { return None };
    let wrapper = ["worker", "workshop"].contains(&entry.key.as_str()) && !entry.value.entries().is_empty();
    wrapper.then(|| {
        Diagnostic::error(
            codes::NOT_A_FORMAT,
            format!("llm-do does not read files that wrap everything in `{}:`", entry.key),
        )
        .at(&entry.key_span)
        .help("move its keys to the top level of the file, or run `llm-do migrate`")
    })
}

/// Reads `version`: a whole number is the manifest's format, text is the project's own version.
fn version(node: &Node, found: &mut Vec<Diagnostic>) -> Option<String> {
    let version = node.get("version")?;
    match (&version.data, version.as_count()) {
        (Data::Text(text), _) => Some(text.clone()),
        (_, Some(1)) => None,
        (_, Some(other)) => {
            found.push(
                shape::bad_value(version, format!("unknown manifest format {other}"))
                    .help("the manifest's format is `1`; put the project's own version in quotes"),
            );
            None
        }
        _ => {
            let text = version.span.text();
            found.push(
                shape::bad_value(
                    version,
                    format!("`version: {text}` is neither the manifest format `1` nor text"),
                )
                .fix(Fix::rewrite(
                    "put the project's own version in quotes",
                    &version.span,
                    format!("\"{text}\""),
                )),
            );
            None
        }
    }
}

/// Reads `models`. A name with a colon would be that of a provider's model.
fn profiles(node: &Node, found: &mut Vec<Diagnostic>) -> BTreeMap<String, ModelProfile> {
    let entries = node.get("models").map(Node::entries).unwrap_or_default().iter();
    let profiles = entries.filter_map(|entry| {
        if entry.key.contains(':') || entry.key.trim() != entry.key || entry.key.is_empty() {
            let message = format!("`{}` can't be the name of a model profile", entry.key);
            found.push(
                Diagnostic::error(codes::BAD_VALUE, message)
                    .at(&entry.key_span)
                    .help("a name without a colon, such as `fast`: `provider:model` is the name of a model"),
            );
            return None;
        }
        let profile = ModelProfile {
            span: entry.key_span.clone(),
            model: entry.value.get("model")?.clone(),
            settings: entry.value.get("settings").cloned(),
        };
        Some((entry.key.clone(), profile))
    });
    profiles.collect()
}

fn exports(node: &Node) -> Vec<(String, Span)> {
    node.get("exports")
        .into_iter()
        .flat_map(Node::texts)
        .map(|(text, span)| (text.to_owned(), span.clone()))
        .collect()
}

fn dependencies(node: &Node, found: &mut Vec<Diagnostic>) -> Vec<Dependency> {
    let listed = node.get("dependencies");
    listed
        .into_iter()
        .flat_map(Node::texts)
        .filter_map(|(text, span)| Dependency::read(text, span, found))
        .collect()
}

fn tool_places(tree: &dyn SourceTree, node: &Node, found: &mut Vec<Diagnostic>) -> ToolPlaces {
    let mut places = ToolPlaces::default();
    if let Some(list) = node.get("roots") {
        let roots = list.items().iter();
        places.roots = roots.filter_map(|path| existing(tree, path, "tools.roots", found)).collect();
    }
    if let Some(list) = node.get("modules") {
        let modules = list.items().iter();
        places.modules =
            modules.filter_map(|path| Some((folder(path, found)?, Some(path.span.clone())))).collect();
    }
    if let Some(list) = node.get("data") {
        let named = list.items().iter();
        places.data = named.filter_map(|path| Some((folder(path, found)?, path.span.clone()))).collect();
    }
    if let Some(allow) = node.get("allow_module_imports").and_then(Node::as_flag) {
        places.allow_module_imports = allow;
    }
    places
}

/// Reads a folder inside the root.
fn folder(node: &Node, found: &mut Vec<Diagnostic>) -> Option<String> {
    let text = node.as_text()?;
    match plain(text) {
        Ok(path) => Some(path),
        Err(_) => {
            found.push(
                Diagnostic::error(codes::ESCAPES_ROOT, format!("`{text}` is outside the program's root"))
                    .at(&node.span)
                    .help("use a folder below the root"),
            );
            None
        }
    }
}

/// Reads a folder inside the root that the manifest names, so that it must exist. The defaults need not.
fn existing(tree: &dyn SourceTree, node: &Node, key: &str, found: &mut Vec<Diagnostic>) -> Option<String> {
    let path = folder(node, found)?;
    let problem = match tree.kind(&path) {
        _ if path.is_empty() => return Some(path),
        Ok(Some(Kind::Folder)) => return Some(path),
        Ok(Some(Kind::File | Kind::Special)) => "is not a folder".to_owned(),
        Ok(None) | Err(SourceError::NotFound) => "does not exist".to_owned(),
        Err(error) => format!("cannot be used: {error}"),
    };
    let around = folder_of(&path);
    let beside = tree.list(around).unwrap_or_default();
    let folders = beside.into_iter().filter(|(_, kind)| *kind == Kind::Folder);
    let folders: Vec<String> = folders.map(|(name, _)| join(around, &name)).collect();
    found.push(
        Diagnostic::error(codes::MISSING_ROOT, format!("`{key}` names `{path}`, which {problem}"))
            .at(&node.span)
            .did_you_mean(&path, folders.iter().map(String::as_str))
            .help("correct the path, create the folder, or remove the key"),
    );
    Some(path)
}

/// Reads globs over paths, and checks each.
pub fn globs(list: Option<&Node>, found: &mut Vec<Diagnostic>) -> Vec<String> {
    let mut globs = Vec::new();
    for (text, span) in list.into_iter().flat_map(Node::texts) {
        match globset::Glob::new(text) {
            Ok(_) => globs.push(text.to_owned()),
            Err(error) => found.push(
                Diagnostic::error(
                    codes::BAD_GLOB,
                    format!("`{text}` is not a glob pattern: {}", error.kind()),
                )
                .at(span),
            ),
        }
    }
    globs
}

/// Reads an `approval` block: its mode, the policy, and the rules of the policy with their places. `read` reads the
/// files of sets.
pub(crate) fn project_approval(
    node: &Node,
    read: ReadSet<'_>,
    found: &mut Vec<Diagnostic>,
) -> (Option<Mode>, Policy, Vec<FileRule>) {
    let mode = match node.get("mode").and_then(Node::as_text) {
        Some("interactive") => Some(Mode::Interactive),
        Some("approve_all") => Some(Mode::ApproveAll),
        Some("auto_deny") => Some(Mode::AutoDeny),
        Some("defer") => Some(Mode::Defer),
        _ => None,
    };
    let mut policy = Policy { written_at: node.span.origin(), ..Policy::default() };
    policy.default = node.get("default").and_then(rule_of);
    let rules = [node.get("tools"), node.get("rules")].into_iter().flat_map(written);
    let rules: Vec<FileRule> = rules.filter_map(|rule| rule.read(read, found)).collect();
    policy.lines = rules.iter().filter_map(FileRule::line).collect();
    for entry in node.get("risks").map(Node::entries).unwrap_or_default() {
        let risk = match entry.key.as_str() {
            "read" => Risk::Read,
            "write" => Risk::Write,
            "network" => Risk::Network,
            "exec" => Risk::Exec,
            "destructive" => Risk::Destructive,
            _ => Risk::Delegate,
        };
        if let Some(rule) = rule_of(&entry.value) {
            policy.risks.insert(risk, rule);
        }
    }
    (mode, policy, rules)
}

/// Parses a rule's pattern.
pub fn pattern(text: &str, span: &Span, found: &mut Vec<Diagnostic>) -> Option<Pattern> {
    Pattern::parse(text)
        .map_err(|error| found.push(Diagnostic::error(codes::BAD_PATTERN, error.to_string()).at(span)))
        .ok()
}

/// Reads an entry of `providers`.
pub(crate) fn provider(entry: &Entry, found: &mut Vec<Diagnostic>) -> Option<Provider> {
    let (span, node) = (&entry.key_span, &entry.value);
    if is_free_provider(&entry.key) {
        let message =
            format!("`{}` is the name of models without an endpoint, which cost nothing", entry.key);
        found.push(Diagnostic::error(codes::BAD_VALUE, message).at(span).help("choose another name"));
        return None;
    }
    let text = |key: &str| node.get(key).and_then(Node::as_text).map(str::to_owned);
    let base_url = text("base_url")?;
    if !(base_url.starts_with("http://") || base_url.starts_with("https://")) {
        let place = node.get("base_url").map_or(span, |url| &url.span);
        found.push(
            Diagnostic::error(codes::BAD_VALUE, format!("`base_url` must be a URL, not `{base_url}`"))
                .at(place)
                .help("write a URL that starts with `https://` or `http://`"),
        );
        return None;
    }
    let headers = node.get("headers").map(Node::entries).unwrap_or_default();
    Some(Provider {
        base_url,
        api: text("api").unwrap_or_else(|| "openai".to_owned()),
        api_key_env: text("api_key_env"),
        headers: headers
            .iter()
            .filter_map(|entry| Some((entry.key.clone(), entry.value.as_text()?.to_owned())))
            .collect(),
        stream: node.get("stream").and_then(Node::as_flag),
        span: span.clone(),
    })
}

/// Returns true if a tree is a library rather than a project.
pub fn is_library(tree: &dyn SourceTree) -> bool {
    matches!(tree.kind(LIBRARY), Ok(Some(Kind::File)))
        && !MANIFESTS.into_iter().any(|name| matches!(tree.kind(name), Ok(Some(_))))
}

/// Returns true if a tree is a project: it has a manifest, possibly of an older form, or a `main.worker`.
pub fn is_project(tree: &dyn SourceTree) -> bool {
    let has = |name: &str| matches!(tree.kind(name), Ok(Some(Kind::File)));
    MANIFESTS.into_iter().chain(["main.worker"]).any(has) || older_manifest(tree).is_some()
}

#[cfg(test)]
mod tests;
