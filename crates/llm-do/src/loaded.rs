//! The second phase of opening a program: reading its definitions, and preparing the means to run its tools.

use crate::{
    granted::Granted,
    kinds,
    located::Located,
    machinery::{Machinery, apply},
    model_choice,
    over_time::BudgetsOverTime,
    problem::Problem,
    python::{PythonFor, code_reader},
    recorded_model::RecordedRuns,
    settings::{Environment, RunOptions},
    stored_keys::{BadKeysFile, StoredKeys},
};
use globset::{Glob, GlobMatcher};
use llm_do_core::{gate::FileSet, vfs::FileSystem};
use llm_do_host::{Effects, ModelSource, Opening, grants};
use llm_do_migrate::Migration;
use llm_do_models::Providers;
use llm_do_program::{Program, UserConfig, manifest::Provider, target::folder_of_file};
use llm_do_records::{NoFiles, Redactor, is_secret_name};
use llm_do_sandbox::{NativeFileSystem, confine::Confiner, place_of, read_regular};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs, io,
    ops::Deref,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// A program of this machine that is loaded. [`Loaded::grant`] checks what it asks for.
#[derive(Clone)]
pub struct Loaded {
    pub(crate) loaded: llm_do_host::Loaded<Machinery>,
    /// The message among the words that named the program.
    pub(crate) message: Option<String>,
}

impl Deref for Loaded {
    type Target = llm_do_host::Loaded<Machinery>;

    fn deref(&self) -> &Self::Target {
        &self.loaded
    }
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
        let client_secrets = host.client_servers.secrets(is_secret_name);
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
        let (warnings, message) = (target.warnings, target.message);
        let opening = Opening { source, load_options, request: settings.request };
        let loaded = llm_do_host::Loaded::load(opening, |program: &Program| {
            let declared = program.providers().clone();
            let providers = user.prices.iter().fold(providers, |all, (key, terms)| all.price(key, *terms));
            let providers = declared.iter().fold(providers, declare);
            let workers = program.loaded();
            let declared_variables =
                workers.iter().flat_map(|worker| grants::declared_variables(worker).cloned());
            let of_toolsets = grants::toolset_variables(&workers, &toolsets);
            let variables: BTreeSet<Arc<str>> = declared_variables
                .chain(of_toolsets.into_iter().map(|(_, name)| name))
                .chain(grants::variables(&options.grants))
                .collect();
            let mut secrets = key_variables(program, &environment, &user);
            secrets.extend(variables.iter().filter_map(|name| Some((name.to_string(), environment(name)?))));
            secrets.extend(client_secrets);
            secrets.extend(stored.pairs());
            let files: Arc<dyn FileSystem> = match effects {
                Effects::Allowed | Effects::WithoutServers => Arc::new(NativeFileSystem::new()),
                Effects::Denied => Arc::new(NoFiles),
            };
            Ok(Machinery {
                variables,
                effects,
                here: place_of(&around.here).ok(),
                current_dir: around.here,
                confiner,
                python,
                toolsets: Arc::new(toolsets),
                mcp,
                files,
                providers: Arc::new(providers),
                declared,
                fallback_model: settings.fallback_model,
                user,
                over_time,
                recorded,
                grantor: settings.grantor,
                redactor: Arc::new(Redactor::for_environment(std::env::vars_os(), secrets)),
                environment,
                counted,
                home,
                seal_key: OnceLock::new(),
                untrusted_file: OnceLock::new(),
            })
        })?;
        Ok(Loaded { loaded: loaded.warned(warnings), message })
    }
}

impl Loaded {
    /// Returns the same program with another worker of the project as its entry. The definitions are read again, and
    /// everything else is shared.
    ///
    /// # Errors
    /// The worker does not exist, its definition is wrong, or the program is a lone file.
    pub fn worker(&self, id: &str) -> Result<Self, Problem> {
        let loaded = self.loaded.worker(id)?;
        let message =
            self.message.clone().filter(|_| loaded.program().entry().id == self.program().entry().id);
        Ok(Self { loaded, message })
    }

    /// Chooses the models, asks the grantor for grants that `options` lack, and inspects the code of the program's
    /// tools.
    ///
    /// # Errors
    /// No model is named, a grant is missing, code of the program can't be used, or a rule names a tool that does not
    /// exist.
    pub fn grant(&self, options: RunOptions, source: ModelSource) -> Result<Granted, Problem> {
        Ok(Granted { granted: self.loaded.grant(options, source)?, message: self.message.clone() })
    }
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
