//! The state that the workers of a session share: the interpreters, the discovered modules, the warm hosts.

use crate::{
    discovery::{self, CacheEntry, Described, DiscoveryError},
    host::{Host, HostError, START},
    interpreter::{self, Candidate, Environment, Interpreter, InterpreterError, venv},
    node,
    pool::{Key, Lease, Pool, Room},
    prepared::{Preparing, Wanted},
    turns::Turns,
    view::{self, Given, Reach},
};
use llm_do_core::{
    authority::{Network, Place},
    worker::{CodeModule, CodePackage, Language, ToolLevel},
};
use llm_do_sandbox::confine::{self, Confinement, Confiner, HostKey, Process, ProcessView, Tier};
use serde_json::Value;
use std::{
    collections::HashMap,
    ffi::OsString,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// The settings of [`Python`].
pub struct Settings {
    /// Root of the program.
    pub project: PathBuf,
    /// A folder of llm-do for cached results.
    pub cache: PathBuf,
    /// The environment's variables.
    pub environment: Environment,
    /// The launcher that confines its processes.
    pub confiner: Arc<Confiner>,
    /// True if its processes may only read and have no network, whatever their workers may do. No process is started
    /// before the first call then.
    pub only_looks: bool,
}

/// An interpreter, once it is needed.
#[derive(Default)]
struct Found {
    interpreter: OnceCell<Arc<Interpreter>>,
    /// Hash of the installed packages, once it is known.
    installed: OnceLock<Option<String>>,
}

/// The code of tools, for one session. Nothing is started before it is needed.
pub struct Python {
    settings: Settings,
    python: Found,
    node: Found,
    /// Places outside the project that its interpreter may read.
    granted: Mutex<Vec<Place>>,
    /// Replaces a cache that is not writable. Removed with the session.
    instead_of_cache: OnceLock<Option<TempDir>>,
    described: Mutex<HashMap<String, Arc<OnceCell<Arc<Described>>>>>,
    /// The hosts of each run.
    pools: Mutex<HashMap<Option<Arc<str>>, Arc<Pool>>>,
    /// The views of the processes, by the key of the reach.
    views: Mutex<HashMap<Arc<str>, Arc<Given>>>,
}

impl Python {
    /// Creates the state for a program.
    pub fn new(settings: Settings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            python: Found::default(),
            node: Found::default(),
            granted: Mutex::default(),
            instead_of_cache: OnceLock::new(),
            described: Mutex::default(),
            pools: Mutex::default(),
            views: Mutex::default(),
        })
    }

    /// Returns the launcher that confines its processes.
    pub fn confiner(&self) -> &Confiner {
        &self.settings.confiner
    }

    /// Returns the environment that the program asks for, unless the operator or a `.venv` has chosen another.
    fn wanted(&self) -> Result<Option<Wanted>, String> {
        let chosen = self.variable("LLM_DO_PYTHON").is_some_and(|named| !named.trim().is_empty());
        let venv = self.settings.project.join(".venv").join(venv::CONFIG).is_file();
        if chosen || venv { Ok(None) } else { Wanted::by(&self.settings.project) }
    }

    fn variable(&self, name: &str) -> Option<String> {
        (self.settings.environment)(name)
    }

    /// Returns the environment that must be prepared before the program's tools can run. An environment whose files
    /// can't be read is an error of [`Python::interpreter`].
    pub fn unprepared(&self) -> Option<Wanted> {
        self.wanted().ok().flatten().filter(|wanted| wanted.ready(&self.settings.cache).is_none())
    }

    /// Prepares the environment, with the network. The operator must have granted that.
    ///
    /// # Errors
    /// `uv` is not installed, or it fails.
    pub async fn prepare(&self, wanted: &Wanted) -> Result<(), String> {
        let Settings { cache, project, environment, .. } = &self.settings;
        let operators = interpreter::of_operator(project, &|name| self.variable(name));
        let found = match operators {
            Ok(candidate) => candidate.installation(self.cache()).await,
            Err(error) => Err(error),
        };
        let (installation, places) = found.map_err(|error| error.to_string())?;
        let confinement = self.confiner().confinement().map_err(|error| error.to_string())?;
        let with =
            Preparing { cache, project, environment, installation: &installation, places, confinement };
        wanted.prepare(&with).await
    }

    /// Grants the interpreter that the project chooses these places outside the project. The operator must have granted
    /// them.
    pub fn grant(&self, places: impl IntoIterator<Item = Place>) {
        let mut granted = self.granted.lock().unwrap_or_else(PoisonError::into_inner);
        granted.extend(places);
    }

    fn granted(&self) -> Vec<Place> {
        self.granted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the places outside the project that the interpreter of the project's choice needs and that are not
    /// granted, and the file that asks for them.
    pub fn ungranted(&self) -> Option<(Vec<PathBuf>, PathBuf)> {
        let candidate = self.candidate().ok()?;
        let places = candidate.wants(&self.granted()).ok()?;
        (!places.is_empty()).then_some((places, candidate.path))
    }

    fn candidate(&self) -> Result<Candidate, InterpreterError> {
        let prepared = match self.wanted().map_err(InterpreterError::Unreadable)? {
            None => None,
            Some(wanted) => match wanted.ready(&self.settings.cache) {
                Some(prepared) => Some(prepared),
                None => return Err(InterpreterError::NotPrepared(wanted.asked_by())),
            },
        };
        interpreter::choose(&self.settings.project, prepared.as_deref(), &|name| self.variable(name))
    }

    /// Returns the cache folder. It holds the compiled host, so the interpreter can't be used without it.
    fn cache(&self) -> &Path {
        let cache = &self.settings.cache;
        let instead = self.instead_of_cache.get_or_init(|| {
            let writable = llm_do_sandbox::private_dir(cache).and_then(|()| tempfile::tempfile_in(cache));
            if writable.is_ok() { None } else { TempDir::new().ok() }
        });
        instead.as_ref().map_or(cache, |folder| folder.path())
    }

    /// Returns the interpreter of a language.
    ///
    /// # Errors
    /// No interpreter was found, or the chosen one can't be used.
    pub async fn interpreter(&self, language: Language) -> Result<Arc<Interpreter>, InterpreterError> {
        match language {
            Language::Python => self.python().await,
            Language::Script => self.node().await,
        }
    }

    fn found(&self, language: Language) -> &Found {
        match language {
            Language::Python => &self.python,
            Language::Script => &self.node,
        }
    }

    async fn node(&self) -> Result<Arc<Interpreter>, InterpreterError> {
        // A failure is not kept: the operator may install what is missing.
        let found = self.node.interpreter.get_or_try_init(|| async {
            let confinement = self.confiner().confinement().map_err(|reason| InterpreterError::Unusable {
                path: "node".into(),
                origin: interpreter::Origin::Path,
                reason: format!("can't be run: {reason}"),
            })?;
            let Settings { project, environment, .. } = &self.settings;
            node::find(project, environment, self.cache(), confinement).await.map(Arc::new)
        });
        found.await.cloned()
    }

    async fn python(&self) -> Result<Arc<Interpreter>, InterpreterError> {
        // A failure is not kept: the operator may grant what it lacks.
        let found = self.python.interpreter.get_or_try_init(|| async {
            let candidate = self.candidate()?;
            let confinement = self.confiner().confinement().map_err(|reason| InterpreterError::Unusable {
                path: candidate.path.clone(),
                origin: candidate.origin,
                reason: format!("can't be run: {reason}"),
            })?;
            candidate.probe(self.cache(), confinement, &self.granted()).await.map(Arc::new)
        });
        found.await.cloned()
    }

    /// Returns the interpreter of a language, if it was already found.
    pub(crate) fn known_interpreter(&self, language: Language) -> Option<Arc<Interpreter>> {
        self.found(language).interpreter.get().cloned()
    }

    /// Describes the functions that the modules of a part of a level expose ([`ToolLevel::parts`]).
    ///
    /// # Errors
    /// There is no interpreter, or an import ends its process or never ends. Other errors of a module are in its
    /// report.
    pub async fn describe(
        &self,
        language: Language,
        level: &ToolLevel,
    ) -> Result<Arc<Described>, DiscoveryError> {
        let found = self.interpreter(language).await;
        let interpreter = found.map_err(|error| DiscoveryError(error.to_string()))?;
        let reach = Reach::new(language, &level.package, [level], None);
        let cache =
            CacheEntry::new(self.cache(), &interpreter, self.installed(&interpreter), level, None, &reach);
        let cell = {
            let mut known = self.described.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(known.entry(cache.key()).or_default())
        };
        let described = cell.get_or_try_init(|| async {
            if let Some(known) = cache.read() {
                return Ok(Arc::new(known));
            }
            let host = self.discoverer(&reach).await?;
            let described = discovery::discover(&host, level, &cache).await;
            // This also ends processes that the imports left behind.
            host.kill("its modules are described");
            described.map(Arc::new)
        });
        described.await.cloned()
    }

    /// Returns the JSON Schema of a class: a Pydantic model, a dataclass, a `TypedDict`.
    ///
    /// # Errors
    /// The errors of [`Python::describe`]; the class does not exist or has no JSON Schema.
    pub async fn schema(
        &self,
        package: &Arc<CodePackage>,
        module: &CodeModule,
        class: &str,
    ) -> Result<Value, DiscoveryError> {
        let language = module.language();
        let found = self.interpreter(language).await;
        let interpreter = found.map_err(|error| DiscoveryError(error.to_string()))?;
        let level = ToolLevel {
            name: class.into(),
            package: Arc::clone(package),
            modules: vec![llm_do_core::worker::ToolModule { module: module.clone(), names: Vec::new() }],
        };
        let reach = Reach::new(language, package, [&level], None);
        let installed = self.installed(&interpreter);
        let cache = CacheEntry::new(self.cache(), &interpreter, installed, &level, Some(class), &reach);
        if let Some(known) = cache.read() {
            return Ok(known);
        }
        let host = self.discoverer(&reach).await?;
        let schema = discovery::schema(&host, package, module, class, &interpreter).await;
        host.kill("its modules are described");
        let schema = schema?;
        cache.write(&schema);
        Ok(schema)
    }

    fn installed(&self, interpreter: &Interpreter) -> Option<&str> {
        let found = self.found(interpreter.language);
        found.installed.get_or_init(|| view::installed(&interpreter.packages)).as_deref()
    }

    /// Returns a host that sees only code.
    async fn discoverer(&self, reach: &Reach) -> Result<Arc<Host>, DiscoveryError> {
        let host = self.start(reach, Some(START)).await.map_err(|error| DiscoveryError(error.to_string()))?;
        Ok(Arc::new(host))
    }

    /// Returns the turns of the calls of a reach.
    pub(crate) fn turns(&self, reach: &Reach) -> Arc<Turns> {
        self.pool(reach).turns(&key(reach))
    }

    /// Leases a host for a call: a warm one, if there is one. A new host may take as long as `limit` to start.
    pub(crate) async fn lease(
        &self,
        reach: &Reach,
        room: Room,
        limit: Option<Duration>,
    ) -> Result<Lease, HostError> {
        let key = key(reach);
        self.pool(reach).lease(&key, room, self.start(reach, limit)).await
    }

    /// Starts a host before the first call, while a model is working.
    pub(crate) fn warm(self: &Arc<Self>, reach: &Reach) {
        if self.settings.only_looks {
            return;
        }
        let key = key(reach);
        let (python, reach) = (Arc::clone(self), reach.clone());
        self.pool(&reach).warm(&key, async move { python.start(&reach, Some(START)).await });
    }

    /// Starts a host that no other call uses, while a model is working.
    pub(crate) fn warm_alone(self: &Arc<Self>, reach: &Reach) {
        if self.settings.only_looks {
            return;
        }
        let key = key(reach);
        let (python, reach) = (Arc::clone(self), reach.clone());
        self.pool(&reach).warm_alone(&key, async move { python.start(&reach, Some(START)).await });
    }

    /// Waits for a host that the next call can use. If none can be started, that call reports the error.
    pub(crate) async fn ready(&self, reach: &Reach) {
        if self.settings.only_looks {
            return;
        }
        if let Ok(lease) = self.lease(reach, Room::Home, Some(START)).await {
            lease.give_back();
        }
    }

    /// Ends the hosts of a run that is over, and all processes that its calls left behind. An abandoned call gets its
    /// grace time to clean up. Returns notices for the operator about protected names that the processes have created.
    pub async fn end(&self, run: &Arc<str>) -> Vec<String> {
        let pool = self.pools().remove(&Some(Arc::clone(run)));
        if let Some(pool) = pool {
            pool.wait_for_stopping().await;
            drop(pool);
        }
        self.confiner().watch().end(run).await
    }

    fn pools(&self) -> MutexGuard<'_, HashMap<Option<Arc<str>>, Arc<Pool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pool(&self, reach: &Reach) -> Arc<Pool> {
        Arc::clone(self.pools().entry(reach.run.clone()).or_default())
    }

    /// Returns the view of the processes of a reach, as the last of them got it.
    pub(crate) fn given(&self, reach: &Reach) -> Result<Arc<Given>, HostError> {
        let lock = || self.views.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&reach.key) {
            return Ok(Arc::clone(known));
        }
        let given = Arc::new(self.look(reach)?);
        Ok(Arc::clone(lock().entry(Arc::clone(&reach.key)).or_insert(given)))
    }

    /// Computes the view of a process that starts now.
    fn look(&self, reach: &Reach) -> Result<Given, HostError> {
        let tier = match self.confiner().confinement().map_err(|error| HostError(error.to_string()))? {
            Confinement::Tier(tier) => tier,
            Confinement::Unconfined => Tier::Namespaces,
        };
        let view = match &reach.authority {
            // Without confinement, the view is only what the `ToolContext` reports.
            Some(authority) if self.settings.only_looks => ProcessView::of_reader(authority, tier),
            Some(authority) => ProcessView::of(authority, tier),
            None => Ok(ProcessView::empty()),
        };
        let view = view.map_err(|error| HostError(format!("the tool's view can't be made: {error}")))?;
        Ok(Given { mounts: view::given(&view), view })
    }

    async fn start(&self, reach: &Reach, limit: Option<Duration>) -> Result<Host, HostError> {
        let found = self.interpreter(reach.language).await;
        let interpreter = found.map_err(|error| HostError(error.to_string()))?;
        if let Some(run) = &reach.run {
            self.confiner().watch().look_again(run).map_err(|error| {
                HostError(format!("the folders that processes could write can't be searched: {error}"))
            })?;
        }
        // Each process gets a view of its own: a name that must not be seen may have appeared since the last one.
        let given = Arc::new(self.look(reach)?);
        self.views
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(Arc::clone(&reach.key), Arc::clone(&given));
        // Relative paths mean the same to the worker and the tool. If `/` is a folder it is the working directory;
        // otherwise the host makes one that shows the mounts.
        let root = given.mounts.iter().find(|mount| mount.at == "/").map(|mount| PathBuf::from(&mount.path));
        let links: Vec<(&str, &str)> = match root {
            Some(_) => Vec::new(),
            None => given.mounts.iter().map(|mount| (mount.at.as_str(), mount.path.as_str())).collect(),
        };
        let environment = &self.settings.environment;
        let view = given.view.clone().with_readable(reach.readable(&interpreter));
        let view = interpreter.followed.iter().fold(view, |view, path| view.with_links_to(path));
        let confinement = self.confiner().confinement().map_err(|error| HostError(error.to_string()))?;
        let mut env = confine::env_allowlist(|name| environment(name));
        env.extend(reach.env.iter().filter_map(|name| Some((name.to_string(), environment(name)?))));
        let mut args: Vec<OsString> = match (reach.language, reach.is_of_program()) {
            (Language::Python, false) => ["-I", "-B", "-X", "utf8"].map(OsString::from).to_vec(),
            (Language::Python, true) => {
                // Sets have one order in each process, so that a program takes the same path when it runs again. `-I` would
                // ignore the variable. The environment holds no other one of Python's.
                env.push(("PYTHONHASHSEED".to_owned(), "0".to_owned()));
                ["-s", "-B", "-X", "utf8"].map(OsString::from).to_vec()
            }
            (Language::Script, false) => node::ARGUMENTS.map(OsString::from).to_vec(),
            (Language::Script, true) => [node::ARGUMENTS.as_slice(), &node::OF_PROGRAMS]
                .concat()
                .into_iter()
                .map(OsString::from)
                .collect(),
        };
        args.extend([interpreter.host.clone().into(), "3".into()]);
        if !links.is_empty() {
            args.push(serde_json::json!(links).to_string().into());
        }
        let keys = reach.keys.iter().filter_map(|key| {
            Some(HostKey {
                domain: key.domain.clone(),
                header: key.header.to_string(),
                scheme: key.scheme.as_deref().map(str::to_owned),
                key: environment(&key.variable)?,
            })
        });
        let process = Process {
            args,
            keys: keys.collect(),
            env: env.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: root,
            network: if self.settings.only_looks { Network::Off } else { reach.network() },
            ..Process::new(&interpreter.path, view, confinement)
        };
        let watching = match (&reach.run, &reach.authority) {
            (Some(run), Some(authority)) => Some(self.confiner().watch().begin(run, &given.view, authority)),
            _ => None,
        };
        Host::start(reach.language, process, limit, watching).await
    }
}

/// Returns the key of the hosts that can serve a reach.
fn key(reach: &Reach) -> Key {
    Key { package: Arc::clone(&reach.package), view: Arc::clone(&reach.key) }
}
