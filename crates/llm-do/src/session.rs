//! A session: a loaded program with everything its runs share.

use crate::{
    grant::{self, Grant},
    python::{PythonFor, code_reader, prepare, runtime_of},
    run::{Run, Shared, Start},
};
use llm_do_core::{
    authority::{Access, Extent, Network, Place},
    gate::{Gate, Mode, RuleLine},
    journal::{Runtime, UsedDefinition},
    model::{Blob, ModelError, ModelErrorKind, ModelName, ModelSettings, Models},
    operator::Operator,
    schema::sha256,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::{ModelChoice, WorkerDefinition, media_type},
};
use llm_do_models::{Api, CustomProvider, Providers};
use llm_do_program::{
    Diagnostic, Diagnostics, Program, UserConfig,
    manifest::Provider,
    mounts::Wanted,
    signature::{self, Given, InputError},
    target::{self, Request, Surroundings},
};
use llm_do_python::{Custom, Python};
use llm_do_runs::{CreateError, EventSink, Redactor, secret_variables};
use llm_do_sandbox::{NativeFileSystem, place_of, shell::Shell};
use serde_json::Value;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
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
    /// Whether somebody can be asked. If not, `interactive` means `auto_deny` (SPEC §9.2).
    pub can_ask: bool,
    /// `--deny`, `--ask`, `--allow`.
    pub rules: Vec<RuleLine>,
    /// `--grant`.
    pub grants: Vec<Grant>,
}

impl Settings {
    /// Settings for one target, with this process's environment and nobody to ask: what needs an approval is refused.
    pub fn for_target(target: &str) -> Self {
        let home = std::env::home_dir();
        Self {
            request: Request { positionals: vec![target.to_owned()], ..Request::default() },
            around: Surroundings {
                here: std::env::current_dir().unwrap_or_default(),
                home: home.clone(),
                ..Surroundings::default()
            },
            environment: Arc::new(|name| std::env::var(name).ok()),
            home: std::env::var_os("LLM_DO_HOME")
                .map_or_else(|| home.unwrap_or_default().join(".llm-do"), PathBuf::from),
            toolsets: ToolsetRegistry::built_in(),
            providers: Box::new(|providers| providers),
            fallback_model: None,
            model: None,
            set: ModelSettings::default(),
            mode: None,
            can_ask: false,
            rules: Vec::new(),
            grants: Vec::new(),
        }
    }
}

/// The input of one run.
#[derive(Clone, Debug, Default)]
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
    /// The journal can't be made.
    #[error(transparent)]
    Journal(#[from] CreateError),
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

/// A capability that is asked for and not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingGrant {
    /// What it is, for people.
    pub what: String,
    /// What asks for it: a worker file with its line, a provider of the manifest.
    pub asked_by: String,
    /// What to pass to `--grant`.
    pub flags: Vec<String>,
}

/// A loaded program, ready for any number of runs, one after another or side by side.
pub struct Session {
    program: Arc<Program>,
    shared: Arc<Shared>,
    grants: Vec<Grant>,
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
        let Settings { request, around, environment, home, mut toolsets, .. } = settings;
        let found = target::find(&request, &around).map_err(Problem::Program)?;
        let lookup = Arc::clone(&environment);
        let providers = (settings.providers)(Providers::new(move |name| lookup(name)));
        let names = providers.names().into_iter().map(str::to_owned).collect();
        let asked = settings.mode.unwrap_or_default();
        let python = PythonFor {
            project: found.source.tree.root(),
            home: &home,
            environment: &environment,
            unconfined: settings.grants.contains(&Grant::Unconfined),
        };
        let python = python.python();
        toolsets.register(Arc::new(Custom::new(Arc::clone(&python))));
        let unconfined = settings.grants.contains(&Grant::Unconfined);
        toolsets.register(Arc::new(Shell::new(Arc::clone(&environment), unconfined)));
        if settings.grants.contains(&Grant::Uv)
            && let Some(wanted) = python.unprepared()
        {
            prepare(&python, &wanted).map_err(Problem::Packages)?;
        }
        let mut host = request.host(&around, toolsets.clone(), names);
        host.code = Some(code_reader(Arc::clone(&python)));
        let lone = found.source.work.is_some();
        let loaded = Program::load(found.source, host).map_err(Problem::Program)?;
        let program = loaded.program;
        let mut warnings = found.warnings;
        warnings.extend(loaded.warnings);

        let providers = program.providers().iter().fold(providers, |providers, (name, declared)| {
            declare(providers, name, declared, &settings.grants)
        });
        let mut missing = missing_places(&program, &settings.grants);

        let mut because = None;
        let named = environment("LLM_DO_MODEL").filter(|name| !name.trim().is_empty());
        let default = match named {
            Some(name) => {
                Some(name.parse().map_err(|error: llm_do_core::model::BadModelName| Problem::Model {
                    worker: Arc::clone(&program.entry().id),
                    model: None,
                    message: format!("LLM_DO_MODEL: {error}"),
                })?)
            }
            None => match program.model() {
                Some(name) => Some(name.clone()),
                None => user_config(&home)?.model,
            },
        };
        let mut choice = ModelChoice { forced: settings.model.clone(), default };
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
        missing.extend(missing_packages(&program.loaded(), &python));
        missing.extend(missing_endpoints(&program, &workers, &choice, &settings.grants));
        if !missing.is_empty() {
            return Err(Problem::Grants(missing));
        }
        for worker in workers.iter().filter(|worker| worker.code.is_none()) {
            open_model(worker, &choice, &providers)?;
        }

        let mode = program.mode().map_or(asked, |mode| asked.tighten(mode));
        let denies = mode == Mode::Interactive && !settings.can_ask;
        let gate = Gate {
            mode: if denies { Mode::AutoDeny } else { mode },
            operator: settings.rules,
            project: program.approval().clone(),
        };
        let used = workers.iter().map(|worker| UsedDefinition {
            worker: Arc::clone(&worker.id),
            file: Arc::clone(&worker.instructions.file),
            sha256: sha256(worker.text.as_bytes()),
            text: Arc::clone(&worker.text),
        });
        let runs_dir = if lone {
            home.join("runs")
        } else {
            Path::new(program.root().as_str()).join(".llm-do").join("runs")
        };
        let here = place_of(&around.here).unwrap_or_else(|_| program.root().clone());
        let shared = Shared {
            model: choice,
            settings_override: settings.set,
            files: Arc::new(NativeFileSystem::new()),
            definitions: Arc::clone(&program) as _,
            toolsets: Arc::new(toolsets),
            gate: Arc::new(gate),
            redactor: Arc::new(Redactor::for_environment(key_variables(&program, &environment))),
            entry: Arc::clone(program.entry()),
            used: used.collect(),
            runtimes: runtimes(&workers, &python),
            python,
            target: request.positionals.first().map_or(".", String::as_str).into(),
            runs_dir,
            models: Arc::new(providers),
        };
        Ok(Self {
            program,
            shared: Arc::new(shared),
            grants: settings.grants,
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
        Ok(Run::new(&self.shared, self.prepare(input)?, operator, events)?)
    }

    /// What the entry's model would be sent first for this input: the record of the conversation's start, with the
    /// instructions as rendered, the first message and the tools. Nothing is sent and nothing is written.
    ///
    /// # Errors
    /// As [`Session::start`], or the reason why a run would fail before its first request.
    pub async fn preview(&self, input: &Input) -> Result<llm_do_core::journal::Body, Problem> {
        self.shared.preview(&self.prepare(input)?).await.map_err(Problem::Preview)
    }

    fn prepare(&self, input: &Input) -> Result<Start, Problem> {
        let entry = &self.shared.entry;
        let given = Given {
            message: input.message.as_deref(),
            json: input.json.as_ref(),
            parameters: &input.parameters,
        };
        let mut value = signature::input_value(&entry.id, &entry.signature, given)?;
        let places: Vec<Extent> = granted_places(&self.grants);
        let bound = self.program.bind(&mut value, &self.here, &places)?;
        signature::validate_input(&entry.id, &entry.signature, &value)?;
        let authority = self.program.authority(&places, grant::network(&self.grants), &bound);
        let attachments = read_attachments(entry, &input.attachments)?;
        Ok(Start { input: value, attachments, authority })
    }
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

/// The packages of the program's Python tools, where nobody has fetched them yet.
fn missing_packages(workers: &[Arc<WorkerDefinition>], python: &Python) -> Option<MissingGrant> {
    if !workers.iter().any(|worker| runs_code(worker)) {
        return None;
    }
    let wanted = python.unprepared()?;
    Some(MissingGrant {
        what: "packages for its Python tools, which `uv` would fetch from the network".into(),
        asked_by: wanted.asked_by(),
        flags: vec!["process=uv".into()],
    })
}

/// What will run the code of the program's tools. That it can't run is said where it is needed.
fn runtimes(workers: &[Arc<WorkerDefinition>], python: &Arc<Python>) -> Vec<Runtime> {
    if !workers.iter().any(|worker| runs_code(worker)) {
        return Vec::new();
    }
    runtime_of(python).into_iter().collect()
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
    let asked = missing.into_iter().map(|required| MissingGrant {
        what: match &required.what {
            Wanted::Place { place, access: Access::Read } => format!("to read {place}"),
            Wanted::Place { place, access: Access::Write } => format!("to write {place}"),
            Wanted::Network(Network::Domains(domains)) => {
                format!("to use the network: {}", domains.join(", "))
            }
            Wanted::Network(_) => "to use the network".into(),
        },
        asked_by: required.span.origin().to_string(),
        flags: required.what.flags(),
    });
    asked.collect()
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
    let (key, flag) = match variable {
        Some(variable) => (format!(", with the key in {variable}"), format!("endpoint={host},{variable}")),
        None => (String::new(), format!("endpoint={host}")),
    };
    Some(MissingGrant {
        what: format!("to send requests to {host}{key}"),
        asked_by: declared.span.origin().to_string(),
        flags: vec![flag],
    })
}

/// Adds a provider of the manifest. One that was not granted keeps its name and refuses: a worker that is loaded late
/// must not reach what the operator never saw.
fn declare(providers: Providers, name: &str, declared: &Provider, grants: &[Grant]) -> Providers {
    let Some(missing) = missing_endpoint(declared, grants) else {
        return providers.custom(name, custom(declared));
    };
    let message =
        format!("the program wants {}; allow it by `--grant {}`", missing.what, missing.flags.join(" "));
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

/// Keys that the manifest names: their values must not be told, whatever the variables are called.
fn key_variables(program: &Program, environment: &Environment) -> Vec<(String, String)> {
    let named = program.providers().values().filter_map(|provider| provider.api_key_env.clone());
    let found = named.filter_map(|name| Some((name.clone(), environment(&name)?)));
    found.chain(secret_variables(std::env::vars_os())).collect()
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
