//! An opened program, and its builder.

use super::{
    opened::Opened,
    options::Options,
    tool::Tool,
    tools::{self, RUST, Tools},
    worker::Worker,
};
use crate::{
    checked, grant::RememberedGrants, loaded::Loaded, located::Located, problem::Problem, settings::Settings,
};
use llm_do_core::{
    model::{Model, ModelError, ModelName, Models},
    toolset::ToolsetRuntime,
};
use llm_do_host::{Effects, ModelSource};
use llm_do_program::Diagnostic;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An opened program, ready for any number of calls from any number of threads and tasks. Cheap to clone.
///
/// ```no_run
/// # async fn example() -> Result<(), llm_do::Error> {
/// let program = llm_do::Program::open("my-project")?;
/// let summary = program.worker("summarizer")?.call("A long text.").await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Program {
    loaded: Loaded,
    opened: Arc<Opened>,
}

/// A builder that opens a program: its tools, its models, the folder of its journals, and the options of its runs.
///
/// Nothing is read before [`ProgramBuilder::open`], which also reports all errors.
#[must_use]
pub struct ProgramBuilder {
    target: PathBuf,
    entry: Option<String>,
    home: Option<PathBuf>,
    journals: Journals,
    options: Options,
    tools: BTreeMap<&'static str, Vec<Tool>>,
    kinds: Vec<Arc<dyn ToolsetRuntime>>,
    providers: Vec<(String, Box<Factory>)>,
    models: Given,
    signatures: Option<String>,
}

type Factory = dyn Fn(&ModelName) -> Result<Arc<dyn Model>, ModelError> + Send + Sync;

/// The folder of the journals.
enum Journals {
    /// The program's own folder, `.llm-do/runs`.
    Program,
    In(PathBuf),
    Temporary,
}

/// The source of models.
enum Given {
    Providers,
    Models(Arc<dyn Models>),
    Script(String),
}

/// The name of a model that the embedding program passes.
const GIVEN: &str = "script:given";

impl Program {
    /// Opens the program in that folder, or in that worker file, with the environment and the configuration of the user.
    ///
    /// # Errors
    /// There is no program, or it is wrong.
    pub fn open(target: impl Into<PathBuf>) -> Result<Self, Problem> {
        Self::builder(target).open()
    }

    /// Returns a builder, which takes tools, models and options.
    pub fn builder(target: impl Into<PathBuf>) -> ProgramBuilder {
        ProgramBuilder {
            target: target.into(),
            entry: None,
            home: None,
            journals: Journals::Program,
            options: Options::new(),
            tools: BTreeMap::new(),
            kinds: Vec::new(),
            providers: Vec::new(),
            models: Given::Providers,
            signatures: None,
        }
    }

    /// Returns a worker of the program, by its ID: `summarizer`, `reports/weekly`.
    ///
    /// # Errors
    /// The worker does not exist, it is wrong, it has no model, or it asks for more than was granted.
    pub fn worker(&self, id: &str) -> Result<Worker, Problem> {
        self.taken(self.loaded.worker(id)?)
    }

    /// Returns the worker that the program starts with: `main`, unless its manifest or [`ProgramBuilder::entry`] names
    /// another.
    ///
    /// # Errors
    /// The same as for [`Program::worker`].
    pub fn entry(&self) -> Result<Worker, Problem> {
        self.taken(self.loaded.clone())
    }

    /// Returns the IDs of the program's own workers, sorted.
    pub fn workers(&self) -> Vec<String> {
        let mut workers: Vec<String> =
            self.loaded.program().workers().iter().map(|worker| worker.id.to_string()).collect();
        workers.sort();
        workers
    }

    /// Warnings of the loader.
    pub fn warnings(&self) -> &[Diagnostic] {
        self.loaded.warnings()
    }

    /// Returns the folder of the journals, one folder for each run.
    pub fn journals(&self) -> &Path {
        self.loaded.host().runs_dir()
    }

    fn taken(&self, loaded: Loaded) -> Result<Worker, Problem> {
        let run = self.opened.options.run(crate::RunOptions::default(), &self.opened.here)?;
        let session = loaded.grant(run, self.opened.source.clone())?.open()?;
        Ok(Worker::new(session, Arc::clone(&self.opened)))
    }
}

impl ProgramBuilder {
    /// Sets the worker that the program starts with, in place of `main`.
    pub fn entry(mut self, id: impl Into<String>) -> Self {
        self.entry = Some(id.into());
        self
    }

    /// Registers a function as a tool of the toolset `rust`. A worker gets it with `toolsets: [rust]`, or with
    /// `toolsets: {rust: {tools: [NAME]}}`.
    pub fn tool(self, tool: Tool) -> Self {
        self.toolset(RUST, [tool])
    }

    /// Registers functions as tools of a toolset of that name. A worker gets them with `toolsets: [NAME]`.
    pub fn toolset(mut self, name: &'static str, tools: impl IntoIterator<Item = Tool>) -> Self {
        self.tools.entry(name).or_default().extend(tools);
        self
    }

    /// Registers a kind of toolset, which reads a configuration of its own and makes its tools from it.
    pub fn toolset_kind(mut self, kind: impl ToolsetRuntime + 'static) -> Self {
        self.kinds.push(Arc::new(kind));
        self
    }

    /// Registers a provider of models: `NAME:MODEL` is a model that this function opens.
    pub fn provider(
        mut self,
        name: impl Into<String>,
        open: impl Fn(&ModelName) -> Result<Arc<dyn Model>, ModelError> + Send + Sync + 'static,
    ) -> Self {
        self.providers.push((name.into(), Box::new(open)));
        self
    }

    /// Takes all models from `models`, whatever the workers name. No provider gets a request.
    pub fn models(mut self, models: impl Models + 'static) -> Self {
        self.models = Given::Models(Arc::new(models));
        self
    }

    /// Makes a script answer in place of every model, for tests and examples. The text is YAML or JSON, in the format
    /// of `script:FILE` (`docs/guides/models.md`).
    pub fn script(mut self, script: impl Into<String>) -> Self {
        self.models = Given::Script(script.into());
        self
    }

    /// Sets the user's folder of llm-do, with the key of journals, remembered grants and `config.yaml`. Without it
    /// `LLM_DO_HOME` is used, else `~/.llm-do`.
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Keeps the journals in this folder. Without it they are kept in the program's own folder `.llm-do/runs`, or for a
    /// lone worker file in the home's folder `runs`.
    pub fn journals(mut self, folder: impl Into<PathBuf>) -> Self {
        self.journals = Journals::In(folder.into());
        self
    }

    /// Keeps the journals in a temporary folder, which is removed with the last handle of the program. Runs can be resumed
    /// only until then.
    pub fn temporary_journals(mut self) -> Self {
        self.journals = Journals::Temporary;
        self
    }

    /// Options of all runs. Those of several calls of this add up.
    pub fn options(mut self, options: Options) -> Self {
        self.options = self.options.then(options);
        self
    }

    /// Compares the signatures of the program's workers with those that a stub was generated for: its constant
    /// `SIGNATURES`. See `llm-do stubs --rust`.
    pub fn signatures(mut self, hash: impl Into<String>) -> Self {
        self.signatures = Some(hash.into());
        self
    }

    /// Opens the program.
    ///
    /// # Errors
    /// There is no program, or the program, a tool or an option is wrong.
    pub fn open(mut self) -> Result<Program, Problem> {
        let models = std::mem::replace(&mut self.models, Given::Providers);
        let source = match models {
            Given::Providers => ModelSource::Providers,
            Given::Models(models) => given(models),
            Given::Script(text) => given(Arc::new(Everywhere(scripted(&text)?))),
        };
        let options = std::mem::take(&mut self.options);
        let journals = std::mem::replace(&mut self.journals, Journals::Program);
        let signatures = self.signatures.take();
        let settings = self.settings()?;
        let (home, here) = (settings.home.clone(), settings.around.here.clone());
        let run = options.run(settings.run.clone(), &here)?;
        let mut located = Located::find(settings)?;
        let temporary = match journals {
            Journals::Program => None,
            Journals::In(folder) => {
                located.runs_dir = here.join(folder);
                None
            }
            Journals::Temporary => {
                let folder = tempfile::Builder::new().prefix("llm-do-").tempdir();
                let folder = folder.map_err(Problem::TemporaryFolder)?;
                located.runs_dir = folder.path().join("runs");
                Some(folder)
            }
        };
        let loaded = located.load(Effects::Allowed, &run)?;
        if let Some(expected) = signatures {
            let found = loaded.program().signatures().hash();
            if found != expected {
                return Err(Problem::Stubs { expected, found });
            }
        }
        let opened = Opened { options, home, here, source, _temporary: temporary };
        Ok(Program { loaded, opened: Arc::new(opened) })
    }

    /// Returns all findings of `llm-do check` in the program, with the registered tools and kinds of toolsets.
    ///
    /// # Errors
    /// A tool can't be registered, or the user's configuration is wrong.
    pub fn check(self) -> Result<Vec<Diagnostic>, Problem> {
        Ok(checked::Editing::open(&self.settings()?)?.findings(BTreeMap::new()))
    }

    fn settings(self) -> Result<Settings, Problem> {
        let Self { target, entry, home, tools, kinds, providers, .. } = self;
        let Some(target) = target.to_str() else {
            let reason = format!("`{}` is not UTF-8", target.display());
            return Err(Problem::Option { option: "target", reason });
        };
        let mut settings = Settings::for_target(target);
        settings.request.entry = entry;
        if let Some(home) = home {
            settings.home = settings.around.here.join(home);
            settings.around.own = Some(settings.home.clone());
            settings.grantor = Arc::new(RememberedGrants::of(&settings.home));
        }
        for (name, tools) in tools {
            tools::register(&mut settings.toolsets, Arc::new(Tools::new(name, tools)?))?;
        }
        for kind in kinds {
            tools::register(&mut settings.toolsets, kind)?;
        }
        settings.providers = Box::new(move |mut known, _| {
            for (name, open) in providers {
                known = known.with(name, open);
            }
            known
        });
        Ok(settings)
    }
}

fn given(models: Arc<dyn Models>) -> ModelSource {
    ModelSource::Given { models, default: GIVEN.parse().ok() }
}

fn scripted(text: &str) -> Result<Arc<dyn Model>, Problem> {
    llm_do_models::scripted("given", text)
        .map_err(|error| Problem::Option { option: "script", reason: error.to_string() })
}

/// A set of models with the same model under every name.
struct Everywhere(Arc<dyn Model>);

impl Models for Everywhere {
    fn open(&self, _: &ModelName) -> Result<Arc<dyn Model>, ModelError> {
        Ok(Arc::clone(&self.0))
    }
}
