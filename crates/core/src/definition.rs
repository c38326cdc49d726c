//! The definition of a worker in the form that the engine needs: merged with its project, with every place made
//! absolute.
//!
//! The front end (`llm-do-program`) makes definitions from files; this module knows nothing of YAML.

use crate::{
    authority::{Access, Authority, Domain, Mount, Narrowing, Place, Refusal, VirtualPath},
    code::{CodeEntry, ToolLevel},
    conversation::Ensure,
    gate::RuleLine,
    limits::Limits,
    model::{ModelName, ModelSettings},
    outcome::{Failure, FailureKind},
    schema::Schema,
    server_tool::ServerTool,
    source::{FunctionId, FunctionSource},
    template::TemplateSource,
};
use serde_json::{Map, Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// The merged definition of one worker.
#[derive(Clone, Debug)]
pub struct WorkerDefinition {
    /// Path under the workers root without extension, or `main` (`docs/reference/resolution.md`). A library's:
    /// `lib:worker`.
    pub id: Arc<str>,
    /// The program or library that the worker belongs to.
    pub source: FunctionSource,
    /// Root of the program or library that defines it. Relative places in the configurations of its toolsets begin here.
    pub root: Place,
    /// The description for callers.
    pub description: Option<Arc<str>>,
    /// The prompt.
    pub instructions: Instructions,
    /// The models that the worker itself names, in the order in which they stand in for each other
    /// (`docs/guides/models.md`). The host chooses the models of a worker that names none.
    pub models: Vec<ModelName>,
    /// Globs over `provider:model`; empty means any.
    pub compatible_models: Vec<String>,
    /// The worker's own sampling settings.
    pub settings: ModelSettings,
    /// The sampling settings that it inherits.
    pub inherited: InheritedSettings,
    /// True if command line overrides are refused.
    pub locked: bool,
    /// The form of a call: one answer or a conversation.
    pub mode: WorkerMode,
    /// True if the worker may talk to the user in the middle of a run (`interaction: user`).
    pub interactive: bool,
    /// The input.
    pub signature: Signature,
    /// The declared schema of the output.
    pub returns: Option<Arc<Schema>>,
    /// Conditions on the output in addition to its schema.
    pub ensures: Arc<[Ensure]>,
    /// `path`-typed outputs: top-level property names of `returns`, or `""` for the whole; translated back to the
    /// caller's view (`docs/reference/sandbox.md`).
    pub returned_paths: Vec<String>,
    /// Toolset name (canonical) and its configuration, sorted by name.
    pub toolsets: Vec<(Arc<str>, Arc<Value>)>,
    /// The tools of servers that the library's lock file pins.
    pub pins: Arc<ToolPins>,
    /// Tools that the model's provider runs.
    pub server_tools: Arc<[ServerTool]>,
    /// The places of the worker's own tools, nearest first.
    pub tools: Arc<[ToolLevel]>,
    /// The code of the worker, if it is code and not a prompt.
    pub code: Option<CodeEntry>,
    /// Callees that the worker may call, from `allow_workers` and `toolsets.workers.allowed_workers` alike.
    pub allow_workers: Vec<String>,
    /// The arguments of callees that the worker fixes, by the reference in `allow_workers`.
    pub fixed: BTreeMap<String, Arc<Map<String, Value>>>,
    /// The worker's `tool_rules`.
    pub rules: Arc<[RuleLine]>,
    /// Timeouts and retries in the worker's `tool_rules`, by the same patterns.
    pub overrides: Vec<CallOverride>,
    /// The worker's `sandbox` settings.
    pub sandbox: Sandbox,
    /// The files that callers may attach.
    pub attachments: AttachmentPolicy,
    /// The parts of the input that others write.
    pub untrusted: Untrusted,
    /// True if the worker may be called with neither input nor attachment.
    pub allow_empty_input: bool,
    /// The limits, merged.
    pub limits: Limits,
    /// The text of the definition, for the journal.
    pub text: Arc<str>,
    /// Hash of the code of the worker's tools and of its entry, with all code that it can import from its package.
    /// `None` without code, and if no host reads the code.
    pub code_sha256: Option<Arc<str>>,
}

/// The sampling settings of a project, for its workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InheritedSettings {
    /// The settings of all workers of the project.
    pub project: ModelSettings,
    /// The profiles that name the worker's models. The settings of each apply to its model alone.
    pub profiles: Vec<Profile>,
}

/// A model with the settings that belong to it: one of a manifest's `models`.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The model.
    pub model: ModelName,
    /// The settings that belong to the model.
    pub settings: ModelSettings,
}

impl WorkerDefinition {
    /// The sampling settings of the worker with that model: its own, then those of the profile, then those of the project.
    pub fn settings_for(&self, model: &ModelName) -> ModelSettings {
        let InheritedSettings { project, profiles } = &self.inherited;
        let settings = match profiles.iter().find(|profile| profile.model == *model) {
            Some(profile) => self.settings.over(&profile.settings),
            None => self.settings.clone(),
        };
        settings.over(project)
    }

    /// The sandbox settings of the worker, marked as foreign if its package is a library or generated.
    pub(crate) fn own_narrowing(&self) -> Narrowing {
        let mut narrowing = self.sandbox.narrowing.clone();
        narrowing.foreign |= self.source.is_foreign();
        narrowing
    }

    /// The worker's own authority when the holder of `caller` calls it: without paths that a caller passes, and without
    /// the places that its toolsets show beside files. A client of a service can name no other places.
    ///
    /// # Errors
    /// The worker would be refused: a mount that it declares lies outside the bounds.
    pub fn own_authority(&self, caller: &Authority) -> Result<Authority, Refusal> {
        caller.narrow(&self.id, &self.own_narrowing())
    }
}

/// The tools that the user has agreed to, by server and tool: the SHA-256 of each definition in canonical JSON.
pub type ToolPins = BTreeMap<String, BTreeMap<String, String>>;

/// The form of a worker's calls: one answer or a conversation (`docs/reference/conversations.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerMode {
    /// A call is one answer.
    #[default]
    Single,
    /// A call is a conversation if the user can be reached: for the entry of a chat, and for a worker that may talk to
    /// the user. In all other cases a call is one answer.
    Chat,
}

/// A prompt and its place in a file.
#[derive(Clone)]
pub struct Instructions {
    /// The template text.
    pub text: Arc<str>,
    /// Path of the file that contains the prompt, for errors: relative to the project if it lies inside.
    pub file: Arc<str>,
    /// Number of lines before the prompt in that file (the front matter).
    pub line_offset: u32,
    /// The source of the templates that the prompt includes.
    pub templates: Arc<dyn TemplateSource>,
}

impl std::fmt::Debug for Instructions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Instructions").field("file", &self.file).finish_non_exhaustive()
    }
}

/// A worker's input.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Schema of the whole input object, including `instructions` and `attachments`. Callers (models) see it, and calls
    /// are validated against it.
    pub schema: Arc<Schema>,
    /// True if parameters or a schema were declared; if not, `input` takes anything.
    pub declared: bool,
    /// The parameter that a plain message becomes: the only required string parameter, or `input`. `None` if neither
    /// fits.
    pub message: Option<Arc<str>>,
    /// Names of the declared parameters in order, for `worker(a, b?)` in errors.
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// The signature of a worker that declares none: `input` is anything (`docs/reference/worker-files.md`).
    pub fn undeclared(attachments: bool) -> Self {
        let mut schema = json!({
            "type": "object",
            "properties": { INPUT: { "description": "What to work on: text, or any JSON." } },
            "additionalProperties": false,
        });
        accept_always(&mut schema, attachments);
        Self {
            schema: Arc::new(Schema::built_in(schema)),
            declared: false,
            message: Some(INPUT.into()),
            parameters: Vec::new(),
        }
    }
}

impl Signature {
    /// Makes the arguments from plain data: an object with the parameters, or the one value that the worker takes.
    /// Inputs of the operator, of a worker and of code are all interpreted here.
    ///
    /// # Errors
    /// No parameter takes the value. The error has the names of the parameters.
    pub fn arguments(&self, data: Option<&Value>) -> Result<Map<String, Value>, NoParameter> {
        match data {
            None | Some(Value::Null) => Ok(Map::new()),
            Some(Value::Object(map)) if self.declared || map.contains_key(INPUT) => Ok(map.clone()),
            Some(value) => {
                let name = match (&self.message, self.declared) {
                    (_, false) => INPUT,
                    (Some(name), true) => name,
                    (None, true) => {
                        let names = self.parameters.iter().map(|p| Arc::clone(&p.name));
                        return Err(NoParameter { parameters: names.collect() });
                    }
                };
                Ok(Map::from_iter([(name.to_owned(), value.clone())]))
            }
        }
    }
}

/// A value that is not an object, for a worker without a single parameter that takes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes an object with these parameters: {}", parameters.join(", "))]
pub struct NoParameter {
    /// The names of the parameters, in order.
    pub parameters: Vec<Arc<str>>,
}

/// Adds the properties that every worker accepts beside its own to the schema of an input.
pub fn accept_always(schema: &mut Value, attachments: bool) {
    let Some(schema) = schema.as_object_mut() else { return };
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    let Some(properties) = properties.as_object_mut() else { return };
    if !properties.contains_key(INSTRUCTIONS) {
        let text = json!({ "type": "string", "description": "Instructions beyond its own." });
        properties.insert(INSTRUCTIONS.into(), text);
    }
    if attachments && !properties.contains_key(ATTACHMENTS) {
        let paths = json!({
            "type": "array",
            "items": { "type": "string" },
            "description": "Paths of files to give it.",
        });
        properties.insert(ATTACHMENTS.into(), paths);
    }
}

/// A declared parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The name.
    pub name: Arc<str>,
    /// The type as people write it (`string`, `path`, `array<string>`).
    pub shown_type: String,
    /// True if callers must give the parameter.
    pub required: bool,
    /// The access that a parameter of type `path` passes on. `Write` if `sandbox.write` names it.
    pub path: Option<Access>,
}

/// `sandbox` of a worker, merged with its project's.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// The narrowing that the worker asks for. `handed` is empty here; the engine fills it for each call.
    pub narrowing: Narrowing,
    /// The environment variables that code of the worker's package gets, if the operator grants them.
    pub env: Vec<Arc<str>>,
    /// The keys that are added to requests of that code, if the operator grants their variables.
    pub keys: Vec<RequestKey>,
}

/// A key that is added to the requests to one host outside of the process that sends them
/// (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The host, and the port if it is not 443.
    pub domain: Domain,
    /// The header that carries the key.
    pub header: Arc<str>,
    /// The word before the key, such as `Bearer`.
    pub scheme: Option<Arc<str>>,
    /// The environment variable that holds the key.
    pub variable: Arc<str>,
}

/// The parts of a worker's input that others write, as its file declares them (`docs/reference/origins.md`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untrusted {
    /// The parameters whose values are untrusted.
    pub parameters: BTreeSet<Arc<str>>,
    /// The parameters of type `path` whose files are untrusted. The path itself is the caller's.
    pub paths: BTreeSet<Arc<str>>,
    /// True if attachments are untrusted.
    pub attachments: bool,
}

/// Files that may be attached to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPolicy {
    /// Greatest number of files.
    pub max_attachments: u32,
    /// Greatest total size, in bytes.
    pub max_total_bytes: u64,
    /// Suffixes that are allowed (with dot, lower case); empty means all.
    pub allowed_suffixes: Vec<String>,
    /// Suffixes that are never allowed.
    pub denied_suffixes: Vec<String>,
}

impl Default for AttachmentPolicy {
    fn default() -> Self {
        Self {
            max_attachments: 4,
            max_total_bytes: 10_000_000,
            allowed_suffixes: vec![],
            denied_suffixes: vec![],
        }
    }
}

impl AttachmentPolicy {
    /// Checks that these files (name, size in bytes) may be attached; `whose` names the policy in the reason.
    pub fn admits(&self, whose: &str, files: &[(&str, u64)]) -> Result<(), String> {
        let total: u64 = files.iter().map(|(_, size)| size).sum();
        if files.len() > self.max_attachments as usize {
            return Err(format!(
                "{whose} takes at most {} attachments, not {}",
                self.max_attachments,
                files.len()
            ));
        }
        if total > self.max_total_bytes {
            return Err(format!(
                "{whose} takes at most {} bytes of attachments, not {total}",
                self.max_total_bytes
            ));
        }
        for (name, _) in files {
            let name = name.to_lowercase();
            let is = |suffixes: &[String]| suffixes.iter().any(|s| name.ends_with(&s.to_lowercase()));
            if is(&self.denied_suffixes) || !(self.allowed_suffixes.is_empty() || is(&self.allowed_suffixes))
            {
                return Err(format!(
                    "{whose} does not take the attachment `{name}`: its suffix is not allowed"
                ));
            }
        }
        Ok(())
    }
}

/// A `timeout` or `retries` of a tool rule.
#[derive(Clone, Debug, PartialEq)]
pub struct CallOverride {
    /// The calls to which it applies.
    pub pattern: crate::gate::Pattern,
    /// Time limit of such a call's work.
    pub timeout: Option<Duration>,
    /// Number of further attempts of a leaf of risk `read` after a failure or a timeout.
    pub retries: Option<u32>,
}

/// A worker could not be found or loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DefinitionError {
    /// The message for people and models: the reference, the places that were searched, and the nearest names.
    pub message: String,
}

/// The part of a program that the engine needs. Loading is lazy: only definitions that a run names are opened.
pub trait Definitions: crate::send::MaybeSend + crate::send::MaybeSync {
    /// The worker that `reference` names in the scope of `from` (its program or library).
    fn worker(
        &self,
        from: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError>;
    /// The worker that code of `package` names, by the rules of the package, whichever worker the code works for.
    fn named_by(
        &self,
        _package: &FunctionSource,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        Err(DefinitionError { message: format!("there is no worker `{reference}`") })
    }
    /// The worker with that identity, if it belongs to the program or to its libraries.
    fn identified(&self, worker: &FunctionId) -> Option<Arc<WorkerDefinition>> {
        self.named_by(&worker.source, &worker.name).ok()
    }
    /// The manifest's mount of that name, for a `path` parameter of `worker` that its caller left out
    /// (`docs/reference/worker-files.md`). `None` for a library's worker, whose parameters the program doesn't know.
    fn mount(&self, _worker: &WorkerDefinition, _name: &str) -> Option<Mount> {
        None
    }
    /// IDs that a glob of an allowlist matches, sorted; for descriptions and errors.
    fn matching(&self, from: &WorkerDefinition, glob: &str) -> Vec<String>;
    /// The project's name, for templates.
    fn project_name(&self) -> &str;
    /// Greatest depth of delegation, and whether recursion is allowed (`delegation`).
    fn delegation(&self) -> Delegation;
}

impl WorkerDefinition {
    /// The arguments that the worker fixes for that callee, whichever reference names the callee: an allowlist may name
    /// a worker twice, and a glob may match a callee that another entry names.
    pub fn fixed_for(
        &self,
        definitions: &dyn Definitions,
        callee: &Self,
    ) -> Option<&Arc<Map<String, Value>>> {
        self.fixed.iter().find_map(|(reference, arguments)| {
            let named = definitions.worker(self, reference).ok()?;
            (named.id == callee.id && named.source == callee.source).then_some(arguments)
        })
    }
}

/// The manifest's `delegation` (`docs/reference/manifest.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegation {
    /// Greatest depth; the root is 0.
    pub max_depth: u32,
    /// True if a worker already in the chain may be called again.
    pub allow_recursion: bool,
}

impl Default for Delegation {
    fn default() -> Self {
        Self { max_depth: 5, allow_recursion: false }
    }
}

/// The name of an input that has no other name (`docs/reference/worker-files.md`).
pub const INPUT: &str = "input";
/// Variables that every template has, unless a parameter has the name (`docs/reference/templates.md`).
pub const BUILT_IN_VARIABLES: [&str; 4] = [INPUT, "worker", "project", "run"];
/// Schema properties every worker accepts beside its own (`docs/reference/worker-files.md`).
pub const INSTRUCTIONS: &str = "instructions";
/// See [`INSTRUCTIONS`].
pub const ATTACHMENTS: &str = "attachments";
/// The virtual path at which attachments are mounted in a callee that has file tools.
pub fn attachments_root() -> VirtualPath {
    VirtualPath::root().join(ATTACHMENTS)
}

/// The path that the operator gives for a `path` parameter of the top-level call. It gives the worker access to that
/// place (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPath {
    /// The parameter.
    pub parameter: Arc<str>,
    /// The place that the path names.
    pub place: Place,
    /// The access to that place.
    pub access: Access,
    /// The mounts that show the place, for a path that was named in a view: their rules apply to it too. Empty for a
    /// plain mount.
    pub mounts: Vec<Mount>,
    /// True if others wrote the content of the place.
    pub untrusted: bool,
}

/// The host's choice of models for workers (`docs/guides/models.md`).
#[derive(Clone, Debug, Default)]
pub struct ModelChoice {
    /// The model that replaces the one that a worker names, unless the worker is locked.
    pub forced: Option<ModelName>,
    /// The models of workers that name none: from the environment, project, user or detection, in that order.
    pub defaults: Vec<ModelName>,
    /// The models of the user that stand in for those of every worker.
    pub fallback: Vec<ModelName>,
}

impl ModelChoice {
    /// Returns the model of a worker, or the reason why the worker has none or can't run with it.
    pub fn of(&self, worker: &WorkerDefinition) -> Result<ModelName, Failure> {
        self.chain(worker).map(|mut chain| chain.swap_remove(0))
    }

    /// Returns the models of a worker, at least one, in the order in which they answer: where one is unavailable, the next
    /// stands in. A model that the operator forces stands alone.
    ///
    /// # Errors
    /// The worker has no model, or can't run with one that is named for it.
    pub fn chain(&self, worker: &WorkerDefinition) -> Result<Vec<ModelName>, Failure> {
        let forced = self.forced.as_ref().filter(|_| !worker.locked);
        let named = match (forced, &*worker.models) {
            (Some(forced), _) => std::slice::from_ref(forced),
            (None, []) => &self.defaults,
            (None, models) => models,
        };
        if named.is_empty() {
            return Err(Failure::new(
                FailureKind::Definition,
                format!("no model for `{}`: neither the worker nor the project names one", worker.id),
            ));
        }
        let globs = &worker.compatible_models;
        let fits = |name: &ModelName| globs.is_empty() || globs.iter().any(|glob| name.fits(glob));
        if let Some(name) = named.iter().find(|name| !fits(name)) {
            let message = format!(
                "`{}` does not run with `{name}`; its compatible_models are: {}",
                worker.id,
                worker.compatible_models.join(", ")
            );
            return Err(Failure::new(FailureKind::Definition, message));
        }
        let fallback = self.fallback.iter().filter(|_| forced.is_none() && !worker.locked);
        let mut chain: Vec<ModelName> = Vec::new();
        for name in named.iter().chain(fallback.filter(|name| fits(name))) {
            if !chain.contains(name) {
                chain.push(name.clone());
            }
        }
        Ok(chain)
    }
}
