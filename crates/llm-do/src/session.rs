//! A session: a loaded program with everything its runs share.

mod attachments;
mod missing;
mod models;
mod problem;
mod settings;

use crate::{
    grant::{self, Grant, Grantor},
    python::{PythonFor, code_reader, confinement_of, prepare, runtime_of},
    recorded_model::RecordedRuns,
    replay::{NoFiles, OverRecord},
    resume::{Decisions, Invocation, PastRun},
    run::{Run, Shared, Start},
};
use globset::{Glob, GlobMatcher};
use llm_do_core::{
    authority::Place,
    gate::{Gate, Mode},
    journal::{Runtime, UsedDefinition},
    model::ModelName,
    operator::Operator,
    schema::sha256,
    vfs::FileSystem,
    worker::{ModelChoice, WorkerDefinition},
};
use llm_do_models::Providers;
use llm_do_program::{
    BindError, Diagnostic, Program, UserConfig,
    signature::{self, Given},
    target,
};
use llm_do_python::{Custom, Python};
use llm_do_runs::{CreateError, EventSink, Redactor};
use llm_do_sandbox::{
    NativeFileSystem,
    confine::{Confiner, env_allowlist},
    place_of,
    shell::Shell,
};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

pub use problem::Problem;
pub use settings::{Environment, Input, Settings};

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
        enact(&settings.grants, &confiner, &python)?;
        let mut host = request.host(&around, toolsets.clone(), names);
        host.code = Some(code_reader(Arc::clone(&python)));
        let identity = PathBuf::from(found.source.identity().as_str());
        let loaded = Program::load(found.source, host).map_err(Problem::Program)?;
        let program = loaded.program;
        let mut warnings = found.warnings;
        warnings.extend(loaded.warnings);

        let user = user_config(&home)?;
        let default = match again {
            Some(again) => again.model.clone(),
            None => models::default(&program, &environment, &user)?,
        };
        let (choice, because) = models::choose(
            &program,
            ModelChoice { forced: model, default },
            &providers,
            settings.fallback_model,
        )?;
        let workers = program.loaded();
        let mut grants = settings.grants;
        let mut missing = missing::places(&program, &grants);
        missing.extend(missing::packages(&workers, &python));
        missing.extend(missing::confinement(&workers, &confiner));
        if again.is_none() {
            missing.extend(missing::endpoints(&program, &workers, &choice, &grants));
        }
        if !missing.is_empty() {
            grants.extend(missing::obtain(&*settings.grantor, &identity, missing)?);
            enact(&grants, &confiner, &python)?;
        }
        let providers = user.prices.iter().fold(providers, |all, (key, terms)| all.price(key, *terms));
        let providers = program.providers().iter().fold(providers, |providers, (name, declared)| {
            models::declare(providers, name, declared, &grants)
        });
        if again.is_none() {
            for worker in workers.iter().filter(|worker| worker.code.is_none()) {
                models::open(worker, &choice, &providers)?;
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
    pub async fn preview(&self, input: &Input) -> Result<llm_do_core::journal::RecordKind, Problem> {
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
        self.program.authority(&grant::places(&self.grants), grant::network(&self.grants), &[])
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
        let mut places = grant::places(&self.grants);
        let mut complete = value.clone();
        let bound = match self.program.bind(&mut complete, &self.here, &places) {
            Err(BindError::Beyond(required)) => {
                let missing = required.iter().map(missing::place).collect();
                places.extend(grant::places(&missing::obtain(&*self.grantor, &self.identity, missing)?));
                complete = value;
                self.program.bind(&mut complete, &self.here, &places)?
            }
            bound => bound?,
        };
        let value = complete;
        signature::validate_input(&entry.id, &entry.signature, &value)?;
        let authority = self.program.authority(&places, grant::network(&self.grants), &bound);
        let attached = if attach { &input.attachments[..] } else { &[] };
        let attachments = attachments::read(entry, attached)?;
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

/// Does what grants allow that is to be done before the program is loaded or runs.
fn enact(grants: &[Grant], confiner: &Confiner, python: &Arc<Python>) -> Result<(), Problem> {
    if grants.contains(&Grant::Unconfined) {
        confiner.allow_unconfined();
    }
    if grants.contains(&Grant::Uv)
        && let Some(wanted) = python.unprepared()
    {
        prepare(python, &wanted).map_err(Problem::Packages)?;
    }
    Ok(())
}

/// Whether a worker is code, or may have tools that are.
fn runs_code(worker: &WorkerDefinition) -> bool {
    worker.code.is_some() || !worker.tools.is_empty()
}

/// Whether a worker has commands.
fn runs_commands(worker: &WorkerDefinition) -> bool {
    worker.toolsets.iter().any(|(name, _)| &**name == "shell")
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
