//! The second phase of opening a program: reading its definitions, and preparing the means to run its tools.

use crate::{
    grant::{self, Grant, Grantor},
    kinds,
    located::Located,
    missing, model_choice,
    over_time::{BudgetsOverTime, CountedProgram},
    problem::{NoKey, Problem},
    protected::Protected,
    python::{PythonFor, code_reader, prepare},
    recorded_model::RecordedRuns,
    settings::{Environment, RunOptions},
    stored_keys::{BadKeysFile, StoredKeys},
};
use globset::{Glob, GlobMatcher};
use llm_do_core::{
    authority::Place, gate::FileSet, journal::UsedDefinition, model::ModelName, origin::UntrustedPlaces,
    schema::sha256, toolset::ToolsetRegistry, vfs::FileSystem, worker::WorkerDefinition,
};
use llm_do_mcp::Mcp;
use llm_do_migrate::Migration;
use llm_do_models::Providers;
use llm_do_program::{
    Diagnostic, LoadOptions, Program, Source, Start, UserConfig,
    manifest::Provider,
    target::{Request, folder_of_file},
};
use llm_do_python::Python;
use llm_do_records::{NoFiles, Redactor, is_secret_name};
use llm_do_runs::{SealKey, UntrustedFile, UntrustedList, UntrustedListError};
use llm_do_sandbox::{NativeFileSystem, confine::Confiner, place_of, read_regular};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// Effects that the runs of a program may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effects {
    /// Runs read and write files, and their processes do what their workers may do.
    Allowed,
    /// The same as [`Effects::Allowed`], but no server of a toolset is started or reached, so that none needs a grant.
    /// For tests, whose recordings have the tools that servers listed.
    WithoutServers,
    /// Runs see no file, and their processes can neither change anything nor reach the network. For a replay, and for a
    /// function that is tried against recorded cases.
    Denied,
}

/// A program that is loaded. [`Loaded::grant`] checks what it asks for.
#[derive(Clone)]
pub struct Loaded {
    pub(crate) machinery: Arc<Machinery>,
    pub(crate) program: Arc<Program>,
    /// Definitions that were read when the program was loaded. Further ones are read while it runs.
    pub(crate) workers: Arc<[Arc<WorkerDefinition>]>,
    pub(crate) used: Arc<[UsedDefinition]>,
    /// The program as grants know it: its root, or the lone file.
    pub(crate) identity: Arc<Path>,
    /// The folder of the program, as budgets over time count it, and the lone file.
    counted: (Arc<Path>, Option<Arc<Path>>),
    pub(crate) request: Arc<Request>,
    pub(crate) message: Option<String>,
    pub(crate) warnings: Arc<[Diagnostic]>,
    source: Source,
    load_options: LoadOptions,
}

/// State shared by all runs of a program in this process, whatever their options.
pub(crate) struct Machinery {
    pub(crate) environment: Environment,
    pub(crate) current_dir: PathBuf,
    /// The current directory as the program knows it.
    pub(crate) here: Option<Place>,
    pub(crate) confiner: Arc<Confiner>,
    pub(crate) python: Arc<Python>,
    pub(crate) toolsets: Arc<ToolsetRegistry>,
    /// The kind of MCP servers, which is among `toolsets`.
    pub(crate) mcp: Arc<Mcp>,
    pub(crate) files: Arc<dyn FileSystem>,
    pub(crate) providers: Arc<Providers>,
    /// The providers that the manifest declared when the program was loaded first: those that `providers` holds.
    pub(crate) declared: BTreeMap<String, Provider>,
    pub(crate) fallback_model: Option<ModelName>,
    pub(crate) user: UserConfig,
    pub(crate) over_time: BudgetsOverTime,
    pub(crate) recorded: RecordedRuns,
    pub(crate) grantor: Arc<dyn Grantor>,
    pub(crate) redactor: Arc<Redactor>,
    /// The variables that code may get, as far as they are granted. The redactor knows their values.
    pub(crate) variables: BTreeSet<Arc<str>>,
    pub(crate) effects: Effects,
    pub(crate) protected: Protected,
    home: PathBuf,
    seal_key: OnceLock<SealKey>,
    untrusted_file: OnceLock<Arc<UntrustedFile>>,
}

impl Located {
    /// Loads the program. `options` name the grants that count for reading its Python code.
    ///
    /// # Errors
    /// The program is wrong, or the user's configuration can't be read.
    pub fn load(self, effects: Effects, options: &RunOptions) -> Result<Loaded, Problem> {
        let Self { settings, target, runs_dir } = self;
        let (environment, home, around) = (settings.environment, settings.home, settings.around);
        let recorded = RecordedRuns { runs_dir, here: around.here.clone() };
        let lookup = Arc::clone(&environment);
        let confiner = Arc::new(Confiner::default());
        let stored = stored_keys(&home)?;
        let providers = Providers::new(move |name| lookup(name)).stored_keys(stored.pairs());
        let providers = (settings.providers)(providers, &confiner);
        let providers = recorded.clone().among(providers);
        let python = PythonFor {
            project: target.source.tree.root(),
            home: &home,
            environment: &environment,
            confiner: Arc::clone(&confiner),
            only_looks: effects == Effects::Denied,
        };
        let python = python.python();
        let mut toolsets = settings.toolsets;
        let host = kinds::Runners {
            python: &python,
            environment: &environment,
            confiner: &confiner,
            home: &home,
            effects,
            client_servers: settings.client_servers,
        };
        let mcp = kinds::register(&mut toolsets, &host);
        apply(&options.grants, &confiner, &python)?;

        let user = user_config(&home)?;
        let over_time = BudgetsOverTime::read(&home, around.home.as_deref())?;
        let declare = |providers, (name, declared): (&String, &Provider)| {
            model_choice::declare(providers, name, declared)
        };
        let providers = user.providers.iter().fold(providers, declare);
        let names = providers.names().into_iter().map(str::to_owned).collect();
        let mut load_options = settings.request.host(&around, toolsets.clone(), names, Arc::new(Migration));
        load_options.code = Some(code_reader(Arc::clone(&python)));
        load_options.limits = user.limits;
        let identity = PathBuf::from(target.source.identity().as_str());
        let source = target.source;
        let counted: &Path = options.budgets_of.as_deref().unwrap_or(&identity);
        let is_file = options.budgets_of.as_ref().map_or(source.work.is_some(), |path| path.is_file());
        let counted: (Arc<Path>, Option<Arc<Path>>) = match is_file {
            true => (folder_of_file(counted, &around).into(), Some(counted.into())),
            false => (counted.into(), None),
        };
        let loaded = Program::load(source.clone(), load_options.clone()).map_err(Problem::Program)?;
        let program = loaded.program;
        let mut warnings = target.warnings;
        warnings.extend(loaded.warnings);

        let declared = program.providers().clone();
        let providers = user.prices.iter().fold(providers, |all, (key, terms)| all.price(key, *terms));
        let providers = declared.iter().fold(providers, declare);
        let workers: Arc<[Arc<WorkerDefinition>]> = program.loaded().into();
        let declared_variables =
            workers.iter().flat_map(|worker| missing::declared_variables(worker).cloned());
        let of_toolsets = missing::toolset_variables(&workers, &toolsets);
        let variables: BTreeSet<Arc<str>> = declared_variables
            .chain(of_toolsets.into_iter().map(|(_, name)| name))
            .chain(grant::variables(&options.grants))
            .collect();
        let mut secrets = key_variables(&program, &environment, &user);
        secrets.extend(variables.iter().filter_map(|name| Some((name.to_string(), environment(name)?))));
        secrets.extend(host.client_servers.secrets(is_secret_name));
        secrets.extend(stored.pairs());
        let machinery = Machinery {
            variables,
            effects,
            here: place_of(&around.here).ok(),
            current_dir: around.here,
            confiner,
            python,
            toolsets: Arc::new(toolsets),
            mcp,
            files: match effects {
                Effects::Allowed | Effects::WithoutServers => Arc::new(NativeFileSystem::new()),
                Effects::Denied => Arc::new(NoFiles),
            },
            providers: Arc::new(providers),
            declared,
            fallback_model: settings.fallback_model,
            user,
            over_time,
            recorded,
            grantor: settings.grantor,
            redactor: Arc::new(Redactor::for_environment(std::env::vars_os(), secrets)),
            environment,
            protected: Protected::default(),
            home,
            seal_key: OnceLock::new(),
            untrusted_file: OnceLock::new(),
        };
        Ok(Loaded {
            used: used(&workers, &program),
            workers,
            machinery: Arc::new(machinery),
            program,
            identity: identity.into(),
            counted,
            request: Arc::new(settings.request),
            message: target.message,
            warnings: warnings.into(),
            source,
            load_options,
        })
    }
}

impl Loaded {
    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Warnings of the loader.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the same program with another worker of the project as its entry. The definitions are read again, and
    /// everything else is shared.
    ///
    /// # Errors
    /// The worker does not exist, its definition is wrong, or the program is a lone file.
    pub fn worker(&self, id: &str) -> Result<Self, Problem> {
        if *self.program.entry().id == *id {
            return Ok(self.clone());
        }
        if self.source.work.is_some() {
            return Err(Problem::NoProject { worker: id.to_owned() });
        }
        let source = Source { start: Start::Entry(Some(id.to_owned())), ..self.source.clone() };
        let loaded = Program::load(source.clone(), self.load_options.clone()).map_err(Problem::Program)?;
        // An empty message keeps the first word from being read as one.
        let positionals = vec![loaded.program.root().as_str().to_owned(), String::new()];
        let request =
            Request { positionals, project: None, entry: Some(id.to_owned()), ..(*self.request).clone() };
        let workers: Arc<[Arc<WorkerDefinition>]> = loaded.program.loaded().into();
        Ok(Self {
            machinery: Arc::clone(&self.machinery),
            used: used(&workers, &loaded.program),
            workers,
            program: loaded.program,
            identity: Arc::clone(&self.identity),
            counted: self.counted.clone(),
            request: Arc::new(request),
            message: None,
            warnings: loaded.warnings.into(),
            source,
            load_options: self.load_options.clone(),
        })
    }
}

impl Loaded {
    /// Returns the program as budgets over time count it.
    pub(crate) fn counted(&self) -> CountedProgram {
        let (folder, lone) = &self.counted;
        let entry = match lone {
            Some(file) => file.to_path_buf(),
            None => folder.join(&*self.program.entry().instructions.file),
        };
        CountedProgram { folder: folder.to_path_buf(), entry }
    }
}

impl Machinery {
    /// Returns the key that seals journals, without which there is no run. A failure is not cached: the next run tries
    /// again.
    ///
    /// # Errors
    /// The key can't be read or made.
    pub(crate) fn seal_key(&self) -> Result<&SealKey, NoKey> {
        if let Some(key) = self.seal_key.get() {
            return Ok(key);
        }
        let key = SealKey::of(&self.home).map_err(|source| NoKey { home: self.home.clone(), source })?;
        Ok(self.seal_key.get_or_init(|| key))
    }

    /// Returns the places to which earlier runs of the program wrote untrusted words.
    ///
    /// # Errors
    /// The list can't be read, or was not written by this user's llm-do.
    pub(crate) fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, UntrustedListError> {
        match self.seal_key() {
            Ok(key) => {
                let file = || Arc::new(UntrustedFile::beside(self.runs_dir(), key));
                Ok(Arc::new(UntrustedList::read_from(self.untrusted_file.get_or_init(file))?))
            }
            // Without a key nothing can be sealed, and the list ends with the run.
            Err(_) => UntrustedList::none_beside(self.runs_dir()).map(|none| Arc::new(none) as _),
        }
    }

    /// Returns the user's folder of llm-do.
    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Returns the folder of the journals.
    pub(crate) fn runs_dir(&self) -> &Path {
        &self.recorded.runs_dir
    }
}

/// Applies the grants that concern the process and not one run's authority.
pub(crate) fn apply(grants: &[Grant], confiner: &Confiner, python: &Arc<Python>) -> Result<(), Problem> {
    if grants.contains(&Grant::Unconfined) {
        confiner.allow_unconfined();
    }
    python.grant(grant::places(grants).into_iter().map(|extent| extent.place));
    if grants.contains(&Grant::Uv)
        && let Some(wanted) = python.unprepared()
    {
        prepare(python, &wanted).map_err(Problem::Packages)?;
    }
    Ok(())
}

/// Returns the definitions of a run, which must be the same when it is resumed: its workers, its manifest, and the
/// files of sets in its rules. The rules and grants of the command line were given for these.
fn used(workers: &[Arc<WorkerDefinition>], program: &Program) -> Arc<[UsedDefinition]> {
    let used = workers.iter().map(|worker| UsedDefinition::of(worker));
    let sets = program.set_files().into_iter().map(|(file, text)| UsedDefinition {
        worker: format!("@{file}").into(),
        file: file.into(),
        sha256: sha256(text.as_bytes()),
        text: text.into(),
        code_sha256: None,
    });
    let manifest = program.manifest().file.as_ref().map(|file| UsedDefinition {
        worker: format!("@{}", file.path()).into(),
        file: Arc::clone(file.path()),
        sha256: sha256(file.text().as_bytes()),
        text: Arc::clone(file.text()),
        code_sha256: None,
    });
    used.chain(manifest).chain(sets).collect()
}

/// Reads a set from a file that a rule of the operator names, relative to `folder`: a regular file of at most 4 MiB.
///
/// # Errors
/// The reason why it can't be read.
pub fn read_set(folder: &Path, set: &FileSet) -> Result<Vec<Value>, String> {
    const MOST_BYTES: u64 = 4 << 20;
    let path = folder.join(&*set.file);
    let wrong = |reason: String| format!("`{}`: {reason}", set.file);
    let bytes = read_regular(&path, MOST_BYTES).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => wrong("it has more than 4 MiB".into()),
        _ => wrong(error.to_string()),
    })?;
    set.values(&String::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?)
}

/// Reads the user's own configuration, `config.yaml` in llm-do's home. A file that does not exist counts as empty.
///
/// # Errors
/// The file can't be read, or it is wrong.
pub fn user_config(home: &Path) -> Result<UserConfig, Problem> {
    let path = home.join("config.yaml");
    match fs::read_to_string(&path) {
        Ok(text) => {
            let read = |set: &FileSet| read_set(home, set);
            UserConfig::parse(&path.display().to_string(), &text, &read).map_err(Problem::Program)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(UserConfig::default()),
        Err(error) => Err(Problem::UserConfig { path, reason: error.to_string() }),
    }
}

/// Reads the keys of providers that the user has stored.
///
/// # Errors
/// The file can't be read.
pub(crate) fn stored_keys(home: &Path) -> Result<StoredKeys, Problem> {
    StoredKeys::read(home).map_err(|BadKeysFile { path, reason }| Problem::UserConfig { path, reason })
}

/// Variables that providers name as keys, and those that the user lists as secret.
fn key_variables(program: &Program, environment: &Environment, user: &UserConfig) -> Vec<(String, String)> {
    let providers = program.providers().values().chain(user.providers.values());
    let named = providers.filter_map(|provider| provider.api_key_env.clone());
    let found = named.filter_map(|name| Some((name.clone(), environment(&name)?)));
    let globs: Vec<GlobMatcher> =
        user.secrets.iter().filter_map(|name| Some(Glob::new(name).ok()?.compile_matcher())).collect();
    let listed = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        globs.iter().any(|glob| glob.is_match(&name)).then_some((name, value))
    });
    found.chain(listed).collect()
}
