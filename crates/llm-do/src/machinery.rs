//! The machine as the host of a program: confined processes, Python, MCP servers, seals, providers, budgets over time.

use crate::{
    attachments,
    grant::{Grant, Grantor, MissingGrant},
    kinds, missing,
    over_time::{BudgetsOverTime, CountedProgram},
    problem::{NoKey, Problem},
    python::prepare,
    recorded_model::RecordedRuns,
    session::today,
    settings::Environment,
};
use llm_do_core::{
    attachment::Attachment,
    authority::Place,
    gate::FileSet,
    journal::Runtime,
    model::{ModelName, Models},
    origin::UntrustedPlaces,
    toolset::ToolsetRegistry,
    vfs::FileSystem,
    worker::WorkerDefinition,
};
use llm_do_host::{Ambient, Budgets, Client, DecidingFiles, DetectedModel, Effects, Host, grants};
use llm_do_mcp::Mcp;
use llm_do_models::Providers;
use llm_do_program::{UserConfig, manifest::Provider};
use llm_do_python::Python;
use llm_do_records::Redactor;
use llm_do_runs::{Machine, SealKey, UntrustedFile, UntrustedList, UntrustedListError};
use llm_do_sandbox::{confine::Confiner, place_of};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The means of a program on this machine, which all its runs in this process share, whatever their options.
pub struct Machinery {
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
    /// The folder of the program, as budgets over time count it, and the lone file.
    pub(crate) counted: (Arc<Path>, Option<Arc<Path>>),
    pub(crate) home: PathBuf,
    pub(crate) seal_key: OnceLock<SealKey>,
    pub(crate) untrusted_file: OnceLock<Arc<UntrustedFile>>,
}

impl Host for Machinery {
    type Problem = Problem;

    fn effects(&self) -> Effects {
        self.effects
    }

    fn toolsets(&self) -> &Arc<ToolsetRegistry> {
        &self.toolsets
    }

    fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    fn redactor(&self) -> &Arc<Redactor> {
        &self.redactor
    }

    fn ambient(&self) -> Arc<dyn Ambient> {
        Machine::ambient()
    }

    fn today(&self) -> Arc<str> {
        today()
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name)
    }

    fn keeps_secret(&self, variable: &str) -> bool {
        self.variables.contains(variable)
    }

    fn user(&self) -> &UserConfig {
        &self.user
    }

    fn current_dir(&self) -> &Path {
        &self.current_dir
    }

    fn here(&self) -> Option<&Place> {
        self.here.as_ref()
    }

    fn real(&self, path: &Path) -> io::Result<Place> {
        place_of(path)
    }

    fn models(&self) -> Arc<dyn Models> {
        Arc::clone(&self.providers) as _
    }

    fn declared(&self) -> &BTreeMap<String, Provider> {
        &self.declared
    }

    fn detected_model(&self) -> Option<DetectedModel> {
        let found = self.providers.default_model();
        let found = found.map(|found| DetectedModel { name: found.name, because: found.because });
        found.or_else(|| {
            let name = self.fallback_model.clone()?;
            Some(DetectedModel { name, because: "no provider is configured".to_owned() })
        })
    }

    fn settled(&self, name: ModelName) -> ModelName {
        self.recorded.settled(name)
    }

    fn budgets(
        &self,
        entry: &WorkerDefinition,
        client: Option<&Client>,
    ) -> Result<Option<Arc<dyn Budgets>>, Problem> {
        let (folder, lone) = &self.counted;
        let entry = match lone {
            Some(file) => file.to_path_buf(),
            None => folder.join(&*entry.instructions.file),
        };
        let program = CountedProgram { folder: folder.to_path_buf(), entry };
        Ok(self.over_time.of_run(&program, client)?.map(|budgets| budgets as _))
    }

    fn missing(&self, workers: &[Arc<WorkerDefinition>], grants: &[Grant]) -> Vec<MissingGrant> {
        let packages = missing::packages(workers, &self.toolsets, &self.python);
        let interpreter = missing::interpreter(workers, &self.toolsets, &self.python);
        let confinement = missing::confinement(workers, &self.toolsets, &self.confiner, grants);
        packages.into_iter().chain(interpreter).chain(confinement).collect()
    }

    fn grant(&self, program: &Place, missing: &[MissingGrant]) -> Result<bool, Problem> {
        Ok(self.grantor.grant(Path::new(program.as_str()), missing)?)
    }

    fn apply(&self, grants: &[Grant]) -> Result<(), Problem> {
        apply(grants, &self.confiner, &self.python)
    }

    /// Budgets over time and their use belong to these places, too.
    fn deciding_places(&self, files: &DecidingFiles<'_>) -> Vec<Place> {
        let below = |sets: &[&FileSet], folder: &Path| -> Vec<PathBuf> {
            sets.iter().map(|set| folder.join(&*set.file)).collect()
        };
        let mut found = below(&files.sets_of_operator, &self.current_dir);
        found.extend(below(&files.sets_of_user, &self.home));
        let local = files.models.iter().filter(|model| ["script", "local"].contains(&model.provider()));
        found.extend(local.map(|model| self.current_dir.join(model.model())));
        found.sort();
        found.dedup();
        // A name of weights in the user's catalogue is no file here.
        found.retain(|file| file.exists());
        found.extend(own_files(&self.home));
        found.iter().flat_map(|file| named_and_real(file)).collect()
    }

    fn attachment(&self, path: &Path, worker: &WorkerDefinition) -> Result<Attachment, String> {
        attachments::read(path, worker)
    }

    fn runtimes(&self, workers: &[Arc<WorkerDefinition>]) -> Vec<Runtime> {
        kinds::runtimes(&self.toolsets, workers)
    }

    fn untrusted_places(&self) -> Result<Arc<dyn UntrustedPlaces>, Problem> {
        Ok(self.untrusted_list()?)
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
    fn untrusted_list(&self) -> Result<Arc<dyn UntrustedPlaces>, UntrustedListError> {
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
    python.grant(grants::places(grants).into_iter().map(|extent| extent.place));
    if grants.contains(&Grant::Uv)
        && let Some(wanted) = python.unprepared()
    {
        prepare(python, &wanted).map_err(Problem::Packages)?;
    }
    Ok(())
}

/// Returns the place that names a file, and the place that it leads to.
fn named_and_real(file: &Path) -> impl Iterator<Item = Place> {
    let named = || Some(place_of(file.parent()?).ok()?.join(file.file_name()?.to_str()?));
    // A file that does not exist yet has a name only.
    named().into_iter().chain(place_of(file).ok())
}

/// Returns llm-do's own folder, and the files and folders there that decide about runs: for a program that lies in it,
/// which leaves the folder as a whole writable. No run makes a file there that decides about the next.
fn own_files(home: &Path) -> Vec<PathBuf> {
    const DECIDING: &[&str] =
        &["budgets.yaml", "config.yaml", "grants.yaml", "libs", "serve.yaml", "spending", "workers"];
    std::iter::once(home.to_owned()).chain(DECIDING.iter().map(|name| home.join(name))).collect()
}
