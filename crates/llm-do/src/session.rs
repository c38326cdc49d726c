//! A session: a loaded program with everything its runs share.

use crate::{
    grant::{self, BadGrantsFile, Grant, Grantor, MissingGrant, RememberedGrants},
    python::{PythonFor, code_reader, confinement_of, prepare, runtime_of},
    recorded_model::RecordedRuns,
    replay::{NoFiles, OverRecord},
    resume::{Decisions, Invocation, PastRun, ResumeError},
    run::{Run, Shared, Start},
};
use globset::{Glob, GlobMatcher};
use llm_do_core::{
    authority::{Access, Extent, Network, Place},
    gate::{Gate, Mode, RuleLine},
    journal::{Runtime, UsedDefinition},
    ledger::Budget,
    model::{Blob, ModelError, ModelErrorKind, ModelName, ModelSettings, Models},
    operator::Operator,
    schema::sha256,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::{ModelChoice, WorkerDefinition, media_type},
};
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_program::{
    BindError, Diagnostic, Diagnostics, Program, UserConfig,
    manifest::Provider,
    mounts::{RequiredGrant, Wanted},
    signature::{self, Given, InputError},
    target::{self, Request, Surroundings},
};
use llm_do_python::{Custom, Python};
use llm_do_runs::{CreateError, EventSink, Redactor};
use llm_do_sandbox::{
    NativeFileSystem,
    confine::{Confiner, env_allowlist},
    place_of,
    shell::Shell,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// What the environment says about a variable. Injected, so that nothing reads the process's own by the way.
pub type Environment = llm_do_python::Environment;

/// What a session needs to know.
pub struct Settings {
    /// What to run.
    pub request: Request,
    /// Where the command was given.
    pub around: Surroundings,
    /// The environment.
    pub environment: Environment,
    /// Folder for runs of lone files, models, grants: `LLM_DO_HOME`, default `~/.llm-do`.
    pub home: PathBuf,
    /// The kinds of toolsets; [`ToolsetRegistry::built_in`] and more.
    pub toolsets: ToolsetRegistry,
    /// Providers beside those over HTTP: each adds itself.
    pub providers: Box<dyn FnOnce(Providers) -> Providers + Send>,
    /// Used where nothing names a model and none is detected.
    pub fallback_model: Option<ModelName>,
    /// `--model`.
    pub model: Option<ModelName>,
    /// `--set`.
    pub set: ModelSettings,
    /// `--approval`; interactive if it is not given.
    pub mode: Option<Mode>,
    /// Whether somebody can be asked.
    pub can_ask: bool,
    /// What `interactive` means where nobody can be asked: `auto_deny` (SPEC §9.2). A run that was begun where somebody could
    /// waits for them again.
    pub unattended: Mode,
    /// `--deny`, `--ask`, `--allow`.
    pub rules: Vec<RuleLine>,
    /// `--grant`.
    pub grants: Vec<Grant>,
    /// `--budget`.
    pub budget: Budget,
    /// Who is asked for what `grants` lacks.
    pub grantor: Arc<dyn Grantor>,
}

impl Settings {
    /// Settings for one target, with this process's environment and nobody to ask: what needs an approval is refused.
    pub fn for_target(target: &str) -> Self {
        let user = std::env::home_dir();
        let home = std::env::var_os("LLM_DO_HOME")
            .map_or_else(|| user.clone().unwrap_or_default().join(".llm-do"), PathBuf::from);
        Self {
            request: Request { positionals: vec![target.to_owned()], ..Request::default() },
            around: Surroundings {
                here: std::env::current_dir().unwrap_or_default(),
                home: user,
                ..Surroundings::default()
            },
            environment: Arc::new(|name| std::env::var(name).ok()),
            grantor: Arc::new(RememberedGrants::of(&home)),
            home,
            toolsets: ToolsetRegistry::built_in(),
            providers: Box::new(|providers| providers),
            fallback_model: None,
            model: None,
            set: ModelSettings::default(),
            mode: None,
            can_ask: false,
            unattended: Mode::AutoDeny,
            rules: Vec::new(),
            grants: Vec::new(),
            budget: Budget::default(),
        }
    }
}

/// The input of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Input {
    /// A plain message.
    pub message: Option<String>,
    /// `--input`.
    pub json: Option<Value>,
    /// `--param`.
    pub parameters: Vec<(String, String)>,
    /// `--attach`.
    pub attachments: Vec<PathBuf>,
}

/// Why a run can't start. Nothing has been sent to a model.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The program is wrong.
    #[error("{}", .0.0.first().map(|d| d.message.as_str()).unwrap_or_default())]
    Program(Diagnostics),
    /// It asks for what the operator has not granted (SPEC §6.5).
    #[error("the program asks for more than its own folder")]
    Grants(Vec<MissingGrant>),
    /// What was granted before can't be read.
    #[error("cannot read what was granted before: {0}")]
    GrantsFile(#[from] BadGrantsFile),
    /// The input doesn't fit the entry.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A file to attach can't be read.
    #[error("cannot attach `{}`: {reason}", path.display())]
    Attachment {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The user's configuration can't be read.
    #[error("cannot read {}: {reason}", path.display())]
    UserConfig {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A model can't be used.
    #[error("`{worker}`: {message}")]
    Model {
        /// The worker whose model it is.
        worker: Arc<str>,
        /// The model, if one was named.
        model: Option<ModelName>,
        /// What is wrong and what to do.
        message: String,
    },
    /// Nothing names a model and none was found.
    #[error("no model: nothing names one, and no provider is configured")]
    NoModel,
    /// A run would fail before its first request.
    #[error("{0}")]
    Preview(llm_do_core::engine::Failure),
    /// The packages of its Python tools can't be installed.
    #[error("cannot prepare the program's Python environment: {0}")]
    Packages(String),
    /// The run can't be resumed.
    #[error(transparent)]
    Resume(#[from] ResumeError),
    /// The journal can't be made.
    #[error(transparent)]
    Journal(#[from] CreateError),
}

impl From<BindError> for Problem {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Input(error) => Self::Input(error),
            BindError::Beyond(required) => Self::Grants(required.iter().map(missing_place).collect()),
        }
    }
}

impl Problem {
    /// The exit code of SPEC §3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Grants(_) => 3,
            Self::Journal(_) => 1,
            _ => 2,
        }
    }
}

/// A loaded program, ready for any number of runs, one after another or side by side.
pub struct Session {
    program: Arc<Program>,
    shared: Arc<Shared>,
    grants: Vec<Grant>,
    grantor: Arc<dyn Grantor>,
    /// The program as grants know it: its root, or the lone file.
    identity: PathBuf,
    invocation: Invocation,
    here: Place,
    message: Option<String>,
    /// Warnings of the loader.
    pub warnings: Vec<Diagnostic>,
    /// Why this model, where nothing named one.
    pub model_because: Option<(ModelName, String)>,
    /// Nobody can be asked, so `interactive` became `auto_deny`.
    pub denies_for_want_of_a_terminal: bool,
}

impl Session {
    /// Loads the program, checks its grants and opens the models of every worker that is loaded.
    ///
    /// # Errors
    /// Everything that can be known to be wrong before a run starts.
    pub fn open(settings: Settings) -> Result<Self, Problem> {
        Self::open_for(settings, None)
    }

    /// Opens it to do its work, or to do it once more over a record.
    pub(crate) fn open_for(settings: Settings, again: Option<&OverRecord>) -> Result<Self, Problem> {
        let mut invocation = Invocation::of(&settings);
        let Settings { request, around, environment, home, mut toolsets, .. } = settings;
        let found = target::find(&request, &around).map_err(Problem::Program)?;
        let runs_dir = match found.source.work {
            Some(_) => home.join("runs"),
            None => own_runs(Path::new(found.source.tree.root().as_str()))?,
        };
        let recorded = RecordedRuns { runs_dir: runs_dir.clone(), here: around.here.clone() };
        let model = settings.model.map(|name| recorded.settled(name));
        invocation.model.clone_from(&model);
        let lookup = Arc::clone(&environment);
        let providers = recorded.among((settings.providers)(Providers::new(move |name| lookup(name))));
        let names = providers.names().into_iter().map(str::to_owned).collect();
        let asked = settings.mode.unwrap_or_default();
        let confiner = Arc::new(Confiner::default());
        if settings.grants.contains(&Grant::Unconfined) {
            confiner.allow_unconfined();
        }
        let python = PythonFor {
            project: found.source.tree.root(),
            home: &home,
            environment: &environment,
            confiner: Arc::clone(&confiner),
            only_looks: again.is_some(),
        };
        let python = python.python();
        toolsets.register(Arc::new(Custom::new(Arc::clone(&python))));
        toolsets.register(Arc::new(Shell::new(Arc::clone(&environment), Arc::clone(&confiner))));
        if settings.grants.contains(&Grant::Uv)
            && let Some(wanted) = python.unprepared()
        {
            prepare(&python, &wanted).map_err(Problem::Packages)?;
        }
        let mut host = request.host(&around, toolsets.clone(), names);
        host.code = Some(code_reader(Arc::clone(&python)));
        let identity = PathBuf::from(found.source.identity().as_str());
        let loaded = Program::load(found.source, host).map_err(Problem::Program)?;
        let program = loaded.program;
        let mut warnings = found.warnings;
        warnings.extend(loaded.warnings);

        let user = user_config(&home)?;
        let mut because = None;
        let named = environment("LLM_DO_MODEL").filter(|name| !name.trim().is_empty());
        let default = match named {
            _ if again.is_some() => again.and_then(|again| again.model.clone()),
            Some(name) => {
                Some(name.parse().map_err(|error: llm_do_core::model::BadModelName| Problem::Model {
                    worker: Arc::clone(&program.entry().id),
                    model: None,
                    message: format!("LLM_DO_MODEL: {error}"),
                })?)
            }
            None => match program.model() {
                Some(name) => Some(name.clone()),
                None => user.model.clone(),
            },
        };
        let mut choice = ModelChoice { forced: model, default };
        let workers = program.loaded();
        let lacks =
            |w: &Arc<WorkerDefinition>| w.code.is_none() && choice.of(w).is_err() && w.model.is_none();
        let must = workers.iter().any(lacks);
        // Code may call workers that nobody has loaded yet.
        let may = workers.iter().any(|worker| runs_code(worker));
        if choice.default.is_none() && (must || (may && choice.forced.is_none())) {
            choice.default = match providers.default_model() {
                Some(found) => {
                    because = Some((found.name.clone(), found.because));
                    Some(found.name)
                }
                None => {
                    let fallback = settings.fallback_model.clone();
                    because = fallback.clone().map(|name| (name, "no provider is configured".to_owned()));
                    fallback
                }
            };
            if must && choice.default.is_none() {
                return Err(Problem::NoModel);
            }
        }
        let mut grants = settings.grants;
        let mut missing = missing_places(&program, &grants);
        missing.extend(missing_packages(&workers, &python));
        missing.extend(missing_confinement(&workers, &confiner));
        if again.is_none() {
            missing.extend(missing_endpoints(&program, &workers, &choice, &grants));
        }
        if !missing.is_empty() {
            grants.extend(granted(&*settings.grantor, &identity, missing)?);
            if grants.contains(&Grant::Unconfined) {
                confiner.allow_unconfined();
            }
            if grants.contains(&Grant::Uv)
                && let Some(wanted) = python.unprepared()
            {
                prepare(&python, &wanted).map_err(Problem::Packages)?;
            }
        }
        let providers = user.prices.iter().fold(providers, |all, (key, terms)| all.price(key, *terms));
        let providers = program
            .providers()
            .iter()
            .fold(providers, |providers, (name, declared)| declare(providers, name, declared, &grants));
        if again.is_none() {
            for worker in workers.iter().filter(|worker| worker.code.is_none()) {
                open_model(worker, &choice, &providers)?;
            }
        }

        let mode = program.mode().map_or(asked, |mode| asked.tighten(mode));
        let unattended = mode == Mode::Interactive && !settings.can_ask;
        let mode = if unattended { settings.unattended } else { mode };
        let denies = unattended && mode == Mode::AutoDeny;
        let gate = Gate { mode, operator: settings.rules, project: program.approval().clone() };
        let used = workers.iter().map(|worker| UsedDefinition {
            worker: Arc::clone(&worker.id),
            file: Arc::clone(&worker.instructions.file),
            sha256: sha256(worker.text.as_bytes()),
            text: Arc::clone(&worker.text),
        });
        let here = place_of(&around.here).unwrap_or_else(|_| program.root().clone());
        let shared = Shared {
            model: choice,
            settings_override: settings.set,
            files: match again {
                Some(_) => Arc::new(NoFiles),
                None => Arc::new(NativeFileSystem::new()),
            },
            budget: settings.budget,
            definitions: Arc::clone(&program) as _,
            toolsets: Arc::new(toolsets),
            gate: Arc::new(gate),
            redactor: Arc::new(Redactor::for_environment(key_variables(
                &program,
                &environment,
                &user.secrets,
            ))),
            entry: Arc::clone(program.entry()),
            used: used.collect(),
            runtimes: match again {
                Some(_) => Vec::new(),
                None => runtimes(&workers, &python, &environment),
            },
            python,
            target: request.positionals.first().map_or(".", String::as_str).into(),
            runs_dir,
            home: home.clone(),
            key: OnceLock::new(),
            models: match again {
                Some(again) => Arc::clone(&again.models),
                None => Arc::new(providers),
            },
        };
        Ok(Self {
            program,
            shared: Arc::new(shared),
            grants,
            grantor: settings.grantor,
            identity,
            invocation,
            here,
            message: found.message,
            warnings,
            model_because: because,
            denies_for_want_of_a_terminal: denies,
        })
    }

    /// The program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The files, as its workers' tools open them.
    pub fn files(&self) -> &dyn FileSystem {
        &*self.shared.files
    }

    /// The worker that runs start with.
    pub fn entry(&self) -> &Arc<WorkerDefinition> {
        &self.shared.entry
    }

    /// The message among the positional arguments.
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Folder of this session's journals.
    pub fn runs_dir(&self) -> &Path {
        &self.shared.runs_dir
    }

    /// Whether the entry still lacks something that piped input could give (SPEC §3).
    pub fn lacks_input(&self, input: &Input) -> bool {
        if input.message.is_some() || input.json.is_some() {
            return false;
        }
        let signature = &self.shared.entry.signature;
        if !signature.declared {
            return input.parameters.is_empty() && input.attachments.is_empty();
        }
        let bound = |name: &str| {
            input.parameters.iter().any(|(given, _)| given == name)
                || self.program.manifest().bindings.iter().any(|(given, _)| given == name)
        };
        signature.parameters.iter().any(|p| p.required && p.path.is_none() && !bound(&p.name))
    }

    /// Prepares one run: checks the input and begins the journal. Nothing is sent before [`Run::finish`] is polled.
    ///
    /// # Errors
    /// An input that doesn't fit, a file that can't be attached, a journal that can't be made.
    pub fn start(
        &self,
        input: &Input,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        let invocation = self.invocation.with(input);
        Ok(Run::new(&self.shared, self.prepare(input, true)?, invocation, operator, events)?)
    }

    /// Goes on with a run that was suspended or cut off. This session must be opened with [`PastRun::settings`].
    ///
    /// # Errors
    /// The program has changed since, a decision is about nothing that waits, the journal can't be written.
    pub fn resume(
        &self,
        past: PastRun,
        decisions: Decisions,
        operator: Option<Arc<dyn Operator>>,
        events: Option<Arc<dyn EventSink>>,
    ) -> Result<Run, Problem> {
        past.fits(&self.shared.used)?;
        // What is attached stands in the journal as soon as a conversation has begun with it.
        let start = self.prepare(&past.input(), !past.has_begun())?;
        Ok(Run::resume(&self.shared, start, past, decisions, operator, events)?)
    }

    /// What the entry's model would be sent first for this input: the record of the conversation's start, with the
    /// instructions as rendered, the first message and the tools. Nothing is sent and nothing is written.
    ///
    /// # Errors
    /// As [`Session::start`], or the reason why a run would fail before its first request.
    pub async fn preview(&self, input: &Input) -> Result<llm_do_core::journal::Body, Problem> {
        self.shared.preview(self.prepare(input, true)?).await.map_err(Problem::Preview)
    }

    /// What the gate would say of a call that the entry's model makes, and which rule decides. Nothing is sent, asked or
    /// run, and nothing is written.
    ///
    /// # Errors
    /// As [`Session::start`], or the entry has no such tool.
    pub async fn explain(
        &self,
        input: &Input,
        tool: &str,
        arguments: &Value,
    ) -> Result<llm_do_core::engine::Explained, Problem> {
        self.shared.explain(self.prepare(input, true)?, tool, arguments).await.map_err(Problem::Preview)
    }

    /// What the entry may touch, where none of its parameters hands anything over.
    pub(crate) fn authority(&self) -> llm_do_core::authority::Authority {
        self.program.authority(&granted_places(&self.grants), grant::network(&self.grants), &[])
    }

    /// What the runs of this session share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn prepare(&self, input: &Input, attach: bool) -> Result<Start, Problem> {
        let entry = &self.shared.entry;
        let given = Given {
            message: input.message.as_deref(),
            json: input.json.as_ref(),
            parameters: &input.parameters,
        };
        let value = signature::input_value(&entry.id, &entry.signature, given)?;
        let mut places = granted_places(&self.grants);
        let mut complete = value.clone();
        let bound = match self.program.bind(&mut complete, &self.here, &places) {
            Err(BindError::Beyond(required)) => {
                let missing = required.iter().map(missing_place).collect();
                places.extend(granted_places(&granted(&*self.grantor, &self.identity, missing)?));
                complete = value;
                self.program.bind(&mut complete, &self.here, &places)?
            }
            bound => bound?,
        };
        let value = complete;
        signature::validate_input(&entry.id, &entry.signature, &value)?;
        let authority = self.program.authority(&places, grant::network(&self.grants), &bound);
        let attached = if attach { &input.attachments[..] } else { &[] };
        let attachments = read_attachments(entry, attached)?;
        Ok(Start { input: value, attachments, authority })
    }
}

/// The folder of a project's runs. It is the project's own: a link in its place, which somebody may have put into what was
/// cloned, would have journals written wherever it leads.
fn own_runs(root: &Path) -> Result<PathBuf, CreateError> {
    let (home, runs) = (root.join(".llm-do"), root.join(".llm-do").join("runs"));
    for folder in [home, runs.clone()] {
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink()) {
            let source =
                io::Error::other("it is a symbolic link, and a project keeps its runs in its own folder");
            return Err(CreateError { path: folder, source });
        }
    }
    Ok(runs)
}

/// The user's own configuration; a file that isn't there says nothing.
fn user_config(home: &Path) -> Result<UserConfig, Problem> {
    let path = home.join("config.yaml");
    match fs::read_to_string(&path) {
        Ok(text) => UserConfig::parse(&path.display().to_string(), &text).map_err(Problem::Program),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(UserConfig::default()),
        Err(error) => Err(Problem::UserConfig { path, reason: error.to_string() }),
    }
}

/// Whether a worker is code, or may have tools that are.
fn runs_code(worker: &WorkerDefinition) -> bool {
    worker.code.is_some() || !worker.tools.is_empty()
}

/// Whether a worker has commands.
fn runs_commands(worker: &WorkerDefinition) -> bool {
    worker.toolsets.iter().any(|(name, _)| &**name == "shell")
}

/// The packages of the program's Python tools, where nobody has fetched them yet.
fn missing_packages(workers: &[Arc<WorkerDefinition>], python: &Python) -> Option<MissingGrant> {
    if !workers.iter().any(|worker| runs_code(worker)) {
        return None;
    }
    let wanted = python.unprepared()?;
    Some(MissingGrant {
        what: "packages for its Python tools, which `uv` would fetch from the network".into(),
        asked_by: wanted.asked_by(),
        grants: vec![Grant::Uv],
    })
}

/// Processes of its tools, where nothing can confine them.
fn missing_confinement(workers: &[Arc<WorkerDefinition>], confiner: &Confiner) -> Option<MissingGrant> {
    let worker = workers.iter().find(|worker| runs_code(worker) || runs_commands(worker))?;
    confiner.confinement().is_err().then(|| MissingGrant {
        what: "to run processes with all of your own rights, since this system can't confine them \
               (`llm-do doctor` says why)"
            .into(),
        asked_by: worker.instructions.file.to_string(),
        grants: vec![Grant::Unconfined],
    })
}

/// What will run the code of the program's tools. That it can't run is said where it is needed.
fn runtimes(
    workers: &[Arc<WorkerDefinition>],
    python: &Arc<Python>,
    environment: &Environment,
) -> Vec<Runtime> {
    let mut runtimes = Vec::new();
    if workers.iter().any(|worker| runs_code(worker)) {
        runtimes.extend(runtime_of(python));
    }
    if workers.iter().any(|worker| runs_commands(worker)) {
        runtimes.extend(confinement_of(python.confiner()).map(|confinement| {
            Runtime {
                name: "shell".into(),
                version: env!("CARGO_PKG_VERSION").into(),
                path: env_allowlist(|name| environment(name))
                    .into_iter()
                    .find_map(|(name, path)| (name == "PATH").then_some(path))
                    .unwrap_or_default()
                    .into(),
                confinement,
            }
        }));
    }
    runtimes
}

fn granted_places(grants: &[Grant]) -> Vec<Extent> {
    grants
        .iter()
        .filter_map(|grant| match grant {
            Grant::Place(extent) => Some(extent.clone()),
            _ => None,
        })
        .collect()
}

fn missing_places(program: &Program, grants: &[Grant]) -> Vec<MissingGrant> {
    let missing = program.missing_grants(&granted_places(grants), &grant::network(grants));
    missing.iter().map(missing_place).collect()
}

fn missing_place(required: &RequiredGrant) -> MissingGrant {
    MissingGrant {
        what: match &required.what {
            Wanted::Place { place, access: Access::Read } => format!("to read {place}"),
            Wanted::Place { place, access: Access::Write } => format!("to write {place}"),
            Wanted::Network(Network::Domains(domains)) => {
                let domains: Vec<String> = domains.iter().map(ToString::to_string).collect();
                format!("to use the network: {}", domains.join(", "))
            }
            Wanted::Network(_) => "to use the network".into(),
        },
        asked_by: required.span.origin().to_string(),
        grants: vec![Grant::from(&required.what)],
    }
}

/// Gets from `grantor` what is missing, or says what it was.
fn granted(grantor: &dyn Grantor, program: &Path, missing: Vec<MissingGrant>) -> Result<Vec<Grant>, Problem> {
    if grantor.grant(program, &missing)? {
        Ok(missing.into_iter().flat_map(|missing| missing.grants).collect())
    } else {
        Err(Problem::Grants(missing))
    }
}

/// A manifest that sends requests, and a key with them, somewhere else needs the operator's word (SPEC §6.5).
fn missing_endpoints(
    program: &Program,
    workers: &[Arc<WorkerDefinition>],
    choice: &ModelChoice,
    grants: &[Grant],
) -> Vec<MissingGrant> {
    let mut missing: Vec<MissingGrant> = Vec::new();
    for name in workers.iter().filter_map(|worker| choice.of(worker).ok()) {
        let declared = program.providers().get(name.provider());
        missing.extend(declared.and_then(|declared| missing_endpoint(declared, grants)));
    }
    missing.sort_by(|a, b| a.what.cmp(&b.what));
    missing.dedup();
    missing
}

fn missing_endpoint(declared: &Provider, grants: &[Grant]) -> Option<MissingGrant> {
    let host = host_of(&declared.base_url);
    let variable = declared.api_key_env.as_deref();
    if grant::covers_endpoint(grants, host, variable) {
        return None;
    }
    let key = variable.map(|variable| format!(", with the key in {variable}")).unwrap_or_default();
    Some(MissingGrant {
        what: format!("to send requests to {host}{key}"),
        asked_by: declared.span.origin().to_string(),
        grants: vec![Grant::Endpoint { host: host.to_owned(), variable: variable.map(str::to_owned) }],
    })
}

/// Adds a provider of the manifest. One that was not granted keeps its name and refuses: a worker that is loaded late
/// must not reach what the operator never saw.
fn declare(providers: Providers, name: &str, declared: &Provider, grants: &[Grant]) -> Providers {
    let Some(missing) = missing_endpoint(declared, grants) else {
        return providers.custom(name, custom(declared));
    };
    let flags: Vec<String> = missing.grants.iter().map(|grant| format!("`--grant {grant}`")).collect();
    let message = format!("the program wants {}; allow it by {}", missing.what, flags.join(" "));
    providers.with(name, move |_| Err(ModelError::new(ModelErrorKind::Auth, message.clone())))
}

/// Host and port of an address, without scheme, user and path.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or(rest);
    authority.rsplit('@').next().unwrap_or(authority)
}

fn custom(declared: &Provider) -> CustomProvider {
    CustomProvider {
        api: match declared.api.as_str() {
            "anthropic" => Api::Anthropic,
            "openai_resp" => Api::OpenAiResponses,
            "gemini" => Api::Gemini,
            "ollama" => Api::Ollama,
            _ => Api::OpenAi,
        },
        api_key_env: declared.api_key_env.clone(),
        headers: declared.headers.iter().cloned().collect(),
        stream: declared.stream,
        ..CustomProvider::new(declared.base_url.clone())
    }
}

/// Keys that the manifest names, and what the operator lists: their values must not be told, whatever the variables are
/// called.
fn key_variables(program: &Program, environment: &Environment, listed: &[String]) -> Vec<(String, String)> {
    let named = program.providers().values().filter_map(|provider| provider.api_key_env.clone());
    let found = named.filter_map(|name| Some((name.clone(), environment(&name)?)));
    let globs: Vec<GlobMatcher> =
        listed.iter().filter_map(|name| Some(Glob::new(name).ok()?.compile_matcher())).collect();
    let listed = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        globs.iter().any(|glob| glob.is_match(&name)).then_some((name, value))
    });
    found.chain(listed).collect()
}

/// Opens a worker's model and checks that it takes the worker's settings: everything that would fail at its first
/// turn and can be known now.
fn open_model(
    worker: &Arc<WorkerDefinition>,
    choice: &ModelChoice,
    providers: &Providers,
) -> Result<(), Problem> {
    let fail = |model: Option<&ModelName>, message: String| Problem::Model {
        worker: Arc::clone(&worker.id),
        model: model.cloned(),
        message,
    };
    let name = choice.of(worker).map_err(|failure| fail(None, failure.message))?;
    let model = providers.open(&name).map_err(|ModelError { message, .. }| fail(Some(&name), message))?;
    match model.refused_settings(&worker.settings).into_iter().next() {
        Some(refused) => Err(fail(Some(&name), refused)),
        None => Ok(()),
    }
}

fn read_attachments(entry: &WorkerDefinition, paths: &[PathBuf]) -> Result<Vec<Blob>, Problem> {
    let mut blobs = Vec::with_capacity(paths.len());
    for path in paths {
        let fail = |reason: String| Problem::Attachment { path: path.clone(), reason };
        let metadata = fs::metadata(path).map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("it is not a regular file".into()));
        }
        let limit = entry.attachments.max_total_bytes;
        if metadata.len() > limit {
            return Err(fail(format!("it has {} bytes; `{}` takes {limit}", metadata.len(), entry.id)));
        }
        let data = fs::read(path).map_err(|error: io::Error| fail(error.to_string()))?;
        let name =
            path.file_name().map_or_else(|| "attachment".into(), |name| name.to_string_lossy().into_owned());
        let media_type = media_type(&data).unwrap_or("application/octet-stream");
        blobs.push(Blob { name: name.into(), media_type: media_type.into(), data: data.into() });
    }
    let sizes: Vec<(&str, u64)> = blobs.iter().map(|b| (&*b.name, b.data.len() as u64)).collect();
    entry
        .attachments
        .admits(&format!("`{}`", entry.id), &sizes)
        .map_err(|reason| Problem::Attachment { path: paths.first().cloned().unwrap_or_default(), reason })?;
    Ok(blobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_a_client_would_connect_to() {
        assert_eq!(host_of("https://models.example/v1"), "models.example");
        assert_eq!(host_of("http://127.0.0.1:8080"), "127.0.0.1:8080");
        assert_eq!(host_of("http://127.0.0.1@evil.example/v1"), "evil.example");
        assert_eq!(host_of("https://evil.example\\@127.0.0.1/"), "evil.example");
    }
}
