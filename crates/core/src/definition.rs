//! A worker as the engine needs it: merged with its project, with every place made absolute.
//!
//! The front end (`llm-do-program`) makes these from files; nothing here knows YAML.

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
    /// Whose it is.
    pub source: FunctionSource,
    /// Root of the program or library that defines it. Relative places in the configurations of its toolsets begin here.
    pub root: Place,
    /// Shown to callers.
    pub description: Option<Arc<str>>,
    /// The prompt.
    pub instructions: Instructions,
    /// The model that the worker itself names; its project's is the host's business (`docs/guides/models.md`).
    pub model: Option<ModelName>,
    /// Globs over `provider:model`; empty means any.
    pub compatible_models: Vec<String>,
    /// Its own sampling settings.
    pub settings: ModelSettings,
    /// The sampling settings that it inherits.
    pub inherited: InheritedSettings,
    /// Whether command line overrides are refused.
    pub locked: bool,
    /// Whether a call of it is one answer or a conversation.
    pub mode: WorkerMode,
    /// Whether it may talk to the user in the middle of a run (`interaction: user`).
    pub interactive: bool,
    /// Its input.
    pub signature: Signature,
    /// Its declared output.
    pub returns: Option<Arc<Schema>>,
    /// What must hold of its output beyond that.
    pub ensures: Arc<[Ensure]>,
    /// `path`-typed outputs: top-level property names of `returns`, or `""` for the whole; translated back to the
    /// caller's view (`docs/reference/sandbox.md`).
    pub returned_paths: Vec<String>,
    /// Toolset name (canonical) and its configuration, sorted by name.
    pub toolsets: Vec<(Arc<str>, Arc<Value>)>,
    /// The tools of servers that the lock file pins for its library.
    pub pins: Arc<ToolPins>,
    /// Tools that the provider of its model runs.
    pub server_tools: Arc<[ServerTool]>,
    /// Where its own tools come from, nearest first.
    pub tools: Arc<[ToolLevel]>,
    /// The code that it is, if it is no prompt.
    pub code: Option<CodeEntry>,
    /// Callees it may call, from `allow_workers` and `toolsets.workers.allowed_workers` alike.
    pub allow_workers: Vec<String>,
    /// The arguments of callees that it fixes, by the reference in `allow_workers`.
    pub fixed: BTreeMap<String, Arc<Map<String, Value>>>,
    /// Its `tool_rules`.
    pub rules: Arc<[RuleLine]>,
    /// Its `tool_rules` timeouts and retries, by the same patterns.
    pub overrides: Vec<CallOverride>,
    /// What it asks of the sandbox.
    pub sandbox: Sandbox,
    /// Which files callers may attach.
    pub attachments: AttachmentPolicy,
    /// Which parts of its input others write.
    pub untrusted: Untrusted,
    /// Whether it may be called with neither input nor attachment.
    pub allow_empty_input: bool,
    /// Its limits, merged.
    pub limits: Limits,
    /// The text it was read from, for the journal.
    pub text: Arc<str>,
    /// Hash of the code of its tools and of its entry, with all that this code can import from its package. `None` without
    /// code, and where no host reads it.
    pub code_sha256: Option<Arc<str>>,
}

/// The sampling settings of a project, for its workers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InheritedSettings {
    /// Those of all workers of the project.
    pub project: ModelSettings,
    /// Those of the profile that names the worker's model. They hold for this model alone.
    pub profile: Option<Profile>,
}

/// A model with the settings that belong to it: one of a manifest's `models`.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The model.
    pub model: ModelName,
    /// Its settings.
    pub settings: ModelSettings,
}

impl WorkerDefinition {
    /// The sampling settings of the worker with that model: its own, then those of the profile, then those of the project.
    pub fn settings_for(&self, model: &ModelName) -> ModelSettings {
        let InheritedSettings { project, profile } = &self.inherited;
        let settings = match profile {
            Some(profile) if profile.model == *model => self.settings.over(&profile.settings),
            _ => self.settings.clone(),
        };
        settings.over(project)
    }

    /// The sandbox of the worker, as the package that defines it counts.
    pub(crate) fn own_narrowing(&self) -> Narrowing {
        let mut narrowing = self.sandbox.narrowing.clone();
        narrowing.foreign |= self.source.is_foreign();
        narrowing
    }

    /// The authority that the worker has by itself, called by the holder of that authority: without paths that a caller hands
    /// over, and without what its toolsets show beside files. A client of a service names nothing else.
    ///
    /// # Errors
    /// The worker would be refused: a mount that it declares lies outside the bounds.
    pub fn own_authority(&self, caller: &Authority) -> Result<Authority, Refusal> {
        caller.narrow(&self.id, &self.own_narrowing())
    }
}

/// The tools that were agreed to, by server and tool: the SHA-256 of each definition in canonical JSON.
pub type ToolPins = BTreeMap<String, BTreeMap<String, String>>;

/// Whether a call of a worker is one answer or a conversation (`docs/reference/conversations.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerMode {
    /// One answer.
    #[default]
    Single,
    /// A conversation, where the user can be talked to: for the entry of a chat, and for a worker that may talk to the
    /// user. Everywhere else, one answer.
    Chat,
}

/// A prompt and where it stands.
#[derive(Clone)]
pub struct Instructions {
    /// The template text.
    pub text: Arc<str>,
    /// File it stands in, for errors: relative to the project where it lies inside.
    pub file: Arc<str>,
    /// Lines before it in that file (the front matter).
    pub line_offset: u32,
    /// Where its includes are read from.
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
    /// Schema of the whole input object, `instructions` and `attachments` included: what callers (models) are shown
    /// and what calls are validated against.
    pub schema: Arc<Schema>,
    /// Whether parameters or a schema were declared; if not, `input` takes anything.
    pub declared: bool,
    /// The only required string parameter, or `input`: what a plain message becomes. `None` if neither fits.
    pub message: Option<Arc<str>>,
    /// Names of the declared parameters in order, for `worker(a, b?)` in errors.
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// That of a worker that declares none: `input` is anything (`docs/reference/worker-files.md`).
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
    /// The arguments out of plain data: an object with the parameters, or the one value that the worker takes. The one
    /// meaning of an input, whoever gives it: the operator, a worker, or code.
    ///
    /// # Errors
    /// No parameter takes the value: the names of the parameters there are.
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

/// A value that is no object, for a worker of which no single parameter takes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it takes an object with these parameters: {}", parameters.join(", "))]
pub struct NoParameter {
    /// The names of the parameters, in order.
    pub parameters: Vec<Arc<str>>,
}

/// Adds what every worker accepts beside its own to the schema of an input.
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

/// One declared parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: Arc<str>,
    /// Its type as people write it (`string`, `path`, `array<string>`).
    pub shown_type: String,
    /// Whether it must be given.
    pub required: bool,
    /// For type `path`: the capability it hands over. `Write` if `sandbox.write` names it.
    pub path: Option<Access>,
}

/// `sandbox` of a worker, merged with its project's.
#[derive(Clone, Debug, Default)]
pub struct Sandbox {
    /// What narrowing it asks; `handed` is empty here, the engine fills it for each call.
    pub narrowing: Narrowing,
    /// The environment variables that code of the worker's package gets, as far as the operator grants them.
    pub env: Vec<Arc<str>>,
    /// The keys that are added to requests of that code, as far as the operator grants their variables.
    pub keys: Vec<RequestKey>,
}

/// A key that is added to the requests to one host outside of the process that sends them
/// (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    /// The host, and the port if it is another than 443.
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
    /// Whether attachments are untrusted.
    pub attachments: bool,
}

/// Files that may be attached to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachmentPolicy {
    /// Most files.
    pub max_attachments: u32,
    /// Most bytes together.
    pub max_total_bytes: u64,
    /// If not empty, only these suffixes (with dot, lower case).
    pub allowed_suffixes: Vec<String>,
    /// Never these.
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
    /// Whether these files (name, bytes) may be attached; `whose` names the policy in the reason.
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
    /// Which calls.
    pub pattern: crate::gate::Pattern,
    /// The longest that such a call may work.
    pub timeout: Option<Duration>,
    /// Further attempts of a leaf of risk `read` after a failure or a timeout.
    pub retries: Option<u32>,
}

/// A worker could not be found or loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct DefinitionError {
    /// For people and models: what was looked for, where, and the nearest names.
    pub message: String,
}

/// The program, as far as the engine asks it. Loading is lazy: only what a run names is opened.
pub trait Definitions: crate::send::MaybeSend + crate::send::MaybeSync {
    /// The worker that `reference` names when said by `from` (its scope decides: program or library).
    fn worker(
        &self,
        from: &WorkerDefinition,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError>;
    /// The worker that code of `package` names: by the rules of the package, whoever the code works for.
    fn named_by(
        &self,
        _package: &FunctionSource,
        reference: &str,
    ) -> Result<Arc<WorkerDefinition>, DefinitionError> {
        Err(DefinitionError { message: format!("there is no worker `{reference}`") })
    }
    /// The worker with that identity, if it is one of the program or of its libraries.
    fn identified(&self, worker: &FunctionId) -> Option<Arc<WorkerDefinition>> {
        self.named_by(&worker.source, &worker.name).ok()
    }
    /// The manifest's mount of that name, for a `path` parameter of `worker` that its caller left out
    /// (`docs/reference/worker-files.md`). None for a library's worker, whose parameters the program doesn't know.
    fn mount(&self, _worker: &WorkerDefinition, _name: &str) -> Option<Mount> {
        None
    }
    /// IDs that a glob of an allowlist matches, sorted; for descriptions and errors.
    fn matching(&self, from: &WorkerDefinition, glob: &str) -> Vec<String>;
    /// The project's name, for templates.
    fn project_name(&self) -> &str;
    /// Greatest depth of delegation, and whether a worker may call itself (`delegation`).
    fn delegation(&self) -> Delegation;
}

impl WorkerDefinition {
    /// The arguments that it fixes for that callee, whatever reference names the callee: an allowlist may name a worker twice,
    /// and a glob may match one that an entry names.
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
    /// Whether a worker already in the chain may be called again.
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
/// Where attachments are mounted in a callee that has file tools.
pub fn attachments_root() -> VirtualPath {
    VirtualPath::root().join(ATTACHMENTS)
}

/// Binds a `path` parameter at the top: the operator's word makes it a capability (`docs/reference/sandbox.md`).
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPath {
    /// The parameter.
    pub parameter: Arc<str>,
    /// What it names.
    pub place: Place,
    /// With which mode.
    pub access: Access,
    /// The mounts that show it, for a path that was named in a view: their rules hold there too. Empty: a plain mount.
    pub mounts: Vec<Mount>,
    /// Whether others wrote what is there.
    pub untrusted: bool,
}

/// Which model a worker runs with, as far as the host decides it (`docs/guides/models.md`).
#[derive(Clone, Debug, Default)]
pub struct ModelChoice {
    /// Replaces the model that a worker names, unless the worker is locked.
    pub forced: Option<ModelName>,
    /// For workers that name none: environment, project, user or detection, in that order.
    pub default: Option<ModelName>,
}

impl ModelChoice {
    /// The model of a worker, or why there is none that it runs with.
    pub fn of(&self, worker: &WorkerDefinition) -> Result<ModelName, Failure> {
        let forced = self.forced.as_ref().filter(|_| !worker.locked);
        let name = forced.or(worker.model.as_ref()).or(self.default.as_ref()).cloned().ok_or_else(|| {
            Failure::new(
                FailureKind::Definition,
                format!("no model for `{}`: neither the worker nor the project names one", worker.id),
            )
        })?;
        let globs = &worker.compatible_models;
        if !globs.is_empty() && !globs.iter().any(|glob| name.fits(glob)) {
            let message = format!(
                "`{}` does not run with `{name}`; its compatible_models are: {}",
                worker.id,
                worker.compatible_models.join(", ")
            );
            return Err(Failure::new(FailureKind::Definition, message));
        }
        Ok(name)
    }
}
