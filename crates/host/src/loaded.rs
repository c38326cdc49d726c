//! A program that is loaded, and what it asks for.

use crate::{
    effects::Effects,
    grant::Grant,
    host::Host,
    missing,
    model_choice::{self, DetectedModel},
    obstacle::Obstacle,
    options::RunOptions,
    protected::Protected,
};
use llm_do_core::{
    authority::Place,
    journal::UsedDefinition,
    model::{ModelName, Models},
    schema::sha256,
    worker::{ModelChoice, WorkerDefinition},
};
use llm_do_program::{Diagnostic, Diagnostics, LoadOptions, Program, Request, Source, Start};
use std::sync::Arc;

/// The definitions to load, and the request that named them.
#[derive(Clone)]
pub struct Opening {
    /// The files of the program, and its entry.
    pub source: Source,
    /// The capabilities of the host.
    pub load_options: LoadOptions,
    /// The request, as invocations record it.
    pub request: Request,
}

/// A program that is loaded. [`Loaded::grant`] checks what it asks for.
pub struct Loaded<H> {
    pub(crate) host: Arc<H>,
    pub(crate) program: Arc<Program>,
    /// Definitions that were read when the program was loaded. Further ones are read while it runs.
    pub(crate) workers: Arc<[Arc<WorkerDefinition>]>,
    pub(crate) used: Arc<[UsedDefinition]>,
    /// The program as grants know it: its root, or the lone file.
    identity: Place,
    pub(crate) request: Arc<Request>,
    warnings: Arc<[Diagnostic]>,
    source: Source,
    load_options: LoadOptions,
    pub(crate) protected: Arc<Protected>,
}

impl<H> Clone for Loaded<H> {
    fn clone(&self) -> Self {
        Self {
            host: Arc::clone(&self.host),
            program: Arc::clone(&self.program),
            workers: Arc::clone(&self.workers),
            used: Arc::clone(&self.used),
            identity: self.identity.clone(),
            request: Arc::clone(&self.request),
            warnings: Arc::clone(&self.warnings),
            source: self.source.clone(),
            load_options: self.load_options.clone(),
            protected: Arc::clone(&self.protected),
        }
    }
}

/// The source of a session's models.
#[derive(Clone)]
pub enum ModelSource {
    /// The providers of the host.
    Providers,
    /// The models of a host, whatever the workers name. Nothing is sent to a provider, so none needs a grant or a key.
    Given {
        /// The models.
        models: Arc<dyn Models>,
        /// The model of workers that name none.
        default: Option<ModelName>,
    },
}

/// A program that has everything that it asks for. [`Granted::open`] opens its models.
pub struct Granted<H> {
    pub(crate) loaded: Loaded<H>,
    pub(crate) options: RunOptions,
    /// The grants of the options, and those that the host added.
    pub(crate) grants: Vec<Grant>,
    pub(crate) choice: ModelChoice,
    pub(crate) detected: Option<DetectedModel>,
    pub(crate) source: ModelSource,
}

impl<H: Host> Loaded<H> {
    /// Loads a program. `host` makes the means of the loaded program.
    ///
    /// # Errors
    /// The program is wrong, or the host can't run it.
    pub fn load(
        opening: Opening,
        host: impl FnOnce(&Program) -> Result<H, H::Problem>,
    ) -> Result<Self, H::Problem> {
        let Opening { source, load_options, request } = opening;
        let read = Program::load(source.clone(), load_options.clone()).map_err(Obstacle::Program)?;
        let llm_do_program::Loaded { program, warnings } = read;
        let host = Arc::new(host(&program)?);
        let workers: Arc<[Arc<WorkerDefinition>]> = program.loaded().into();
        Ok(Self {
            host,
            used: used(&workers, &program),
            workers,
            program,
            identity: source.identity(),
            request: Arc::new(request),
            warnings: warnings.into(),
            source,
            load_options,
            protected: Arc::default(),
        })
    }

    /// Returns the same program with these warnings before its own.
    #[must_use]
    pub fn warned(mut self, first: Vec<Diagnostic>) -> Self {
        self.warnings = first.into_iter().chain(self.warnings.iter().cloned()).collect();
        self
    }

    /// Returns the means of the program.
    pub fn host(&self) -> &Arc<H> {
        &self.host
    }

    /// Returns the program.
    pub fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// Returns the workers that were read when the program was loaded.
    pub fn workers(&self) -> &Arc<[Arc<WorkerDefinition>]> {
        &self.workers
    }

    /// Returns the program as grants know it: its root, or the lone file.
    pub fn identity(&self) -> &Place {
        &self.identity
    }

    /// Returns true if the program is a single worker file.
    pub fn is_lone_file(&self) -> bool {
        self.source.work.is_some()
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
    pub fn worker(&self, id: &str) -> Result<Self, Obstacle> {
        if *self.program.entry().id == *id {
            return Ok(self.clone());
        }
        if self.is_lone_file() {
            return Err(Obstacle::NoProject { worker: id.to_owned() });
        }
        let source = Source { start: Start::Entry(Some(id.to_owned())), ..self.source.clone() };
        let loaded = Program::load(source.clone(), self.load_options.clone()).map_err(Obstacle::Program)?;
        // An empty message keeps the first word from being read as one.
        let positionals = vec![loaded.program.root().as_str().to_owned(), String::new()];
        let request =
            Request { positionals, project: None, entry: Some(id.to_owned()), ..(*self.request).clone() };
        let workers: Arc<[Arc<WorkerDefinition>]> = loaded.program.loaded().into();
        Ok(Self {
            used: used(&workers, &loaded.program),
            workers,
            program: loaded.program,
            request: Arc::new(request),
            warnings: loaded.warnings.into(),
            source,
            ..self.clone()
        })
    }

    /// Chooses the models, asks the host for grants that `options` lack, and inspects the code of the program's tools.
    ///
    /// # Errors
    /// No model is named, a grant is missing, code of the program can't be used, or a rule names a tool that does not
    /// exist.
    pub fn grant(&self, options: RunOptions, source: ModelSource) -> Result<Granted<H>, H::Problem> {
        self.grant_beyond(options, &[], source)
    }

    /// Grants like [`Loaded::grant`], with `held` grants from earlier, which are not part of the options.
    pub(crate) fn grant_beyond(
        &self,
        mut options: RunOptions,
        held: &[Grant],
        source: ModelSource,
    ) -> Result<Granted<H>, H::Problem> {
        let host = &*self.host;
        options.model = options.model.map(|name| host.settled(name));
        let (defaults, fallback) = match &source {
            ModelSource::Given { default, .. } => (default.iter().cloned().collect(), Vec::new()),
            ModelSource::Providers => {
                (model_choice::defaults(&self.program, host)?, host.user().fallback.clone())
            }
        };
        let choice = ModelChoice { forced: options.model.clone(), defaults, fallback };
        let (choice, detected) = model_choice::choose(&self.workers, choice, host)?;
        let mut grants = options.grants.clone();
        grants.extend(held.iter().filter(|held| !options.grants.contains(held)).cloned());
        host.apply(&grants)?;
        let mut missing = missing::places(&self.program, &grants);
        missing.extend(host.missing(&self.workers, &grants));
        if host.effects() != Effects::WithoutServers {
            missing.extend(missing::toolsets(&self.workers, host.toolsets(), &grants));
        }
        if matches!(source, ModelSource::Providers) {
            missing.extend(missing::endpoints(host.declared(), &self.workers, &choice, &grants));
            let operators = model_choice::of_operator(&options, host);
            missing.extend(missing::weights(&self.workers, &choice, &operators, &grants, host));
        }
        if !missing.is_empty() {
            grants.extend(missing::obtain(host, &self.identity, missing)?);
            host.apply(&grants)?;
        }
        if host.effects() == Effects::Allowed {
            missing::variables(&self.workers, host.toolsets(), host)?;
        }
        self.program.check_code().map_err(Obstacle::Program)?;
        // Only now is everything there that reading code needs.
        let rules = self.program.check_rules(&options.rules);
        if rules.iter().any(Diagnostic::is_error) {
            return Err(Obstacle::Program(Diagnostics(rules)).into());
        }
        let mut loaded = self.clone();
        loaded.warnings = self.warnings.iter().cloned().chain(rules).collect();
        Ok(Granted { loaded, options, grants, choice, detected, source })
    }
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
