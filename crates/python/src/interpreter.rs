//! The interpreter that runs the tools (`docs/guides/python-tools.md`).
//!
//! A project may contain an environment. llm-do determines the places that its interpreter reads from links and texts,
//! and runs nothing of the environment before it is confined to them: the code to be confined must not decide its
//! confinement.

pub(crate) mod installation;
mod probe;
pub(crate) mod venv;

use crate::host::PYTHON;
use installation::{Installation, Managed, is_granted};
use llm_do_core::{authority::Place, schema::sha256, worker::Language};
use llm_do_sandbox::{
    confine::{self, Confinement},
    read_regular,
};
use probe::{ask, check_version};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use venv::Venv;

/// Looks up a variable of the environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// The way in which an interpreter was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `LLM_DO_PYTHON` names it.
    Variable,
    /// The project's `.venv`.
    Venv,
    /// An environment that was prepared for the project.
    Prepared,
    /// `LLM_DO_NODE` names it.
    NodeVariable,
    /// `python3` or `node` on the `PATH`.
    Path,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Variable => "LLM_DO_PYTHON",
            Self::Venv => "the project's .venv",
            Self::Prepared => "the project's prepared environment",
            Self::NodeVariable => "LLM_DO_NODE",
            Self::Path => "PATH",
        })
    }
}

/// An interpreter for tools: a Python or a Node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    /// The language that it runs.
    pub language: Language,
    /// The executable.
    pub path: PathBuf,
    /// The way in which the interpreter was chosen.
    pub origin: Origin,
    /// `3.11.7`.
    pub version: String,
    /// Files and folders that it reads: its installation, its environment.
    pub places: Vec<PathBuf>,
    /// Paths with links that it follows: its own path in an environment, and the folder of the interpreter that made
    /// the environment.
    pub followed: Vec<PathBuf>,
    /// Folders of packages that are installed in place and lie in the project or in a granted place.
    pub added: Vec<PathBuf>,
    /// Folders of packages that are installed in place elsewhere. Its processes don't see them.
    pub left_out: Vec<PathBuf>,
    /// The host: compiled for a Python, as it is for Node.
    pub host: PathBuf,
    /// Hash of its path, its environment's configuration and the host. It changes when one of them does.
    pub key: String,
    /// The folders of its packages.
    pub(crate) packages: Packages,
}

/// The installed packages of an interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packages {
    /// The folders that hold them, outside the project.
    pub(crate) sites: Vec<PathBuf>,
    /// The environment, if it lies in the project.
    pub(crate) of_project: Option<PathBuf>,
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = match self.language {
            Language::Python => "Python",
            Language::Script => "Node",
        };
        write!(f, "{program} {} at {} (from {})", self.version, self.path.display(), self.origin)
    }
}

/// An error that leaves tools without an interpreter.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterError {
    /// No interpreter was found.
    #[error("no Python was found: install Python 3.9 or newer, or name one with LLM_DO_PYTHON")]
    None,
    /// No Node was found.
    #[error(
        "no Node was found: tools in TypeScript need Node 22.18 or newer. Install it, or name one with LLM_DO_NODE=/path/to/node"
    )]
    NoNode,
    /// The installed packages are not those that the lock file pins.
    #[error(
        "the packages in `node_modules` are not those of `package-lock.json`: {0}. Run `npm ci` in the folder of the program"
    )]
    NotLocked(String),
    /// The environment that the program asks for is not prepared.
    #[error("the packages that {0} asks for are not installed: `--grant process=uv` lets `uv` fetch them")]
    NotPrepared(String),
    /// A file that may ask for an environment can't be read.
    #[error("the packages that the program asks for are not known: {0}")]
    Unreadable(String),
    /// The project chose an interpreter that reads places outside the project.
    #[error("{origin} leads out of the project: to use it, grant {}", grants(places))]
    NotGranted {
        /// The way in which the interpreter was chosen.
        origin: Origin,
        /// The places.
        places: Vec<PathBuf>,
    },
    /// The chosen interpreter can't be used.
    #[error("{origin} names `{}`, which {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The way in which the interpreter was chosen.
        origin: Origin,
        /// The reason why it can't be used.
        reason: String,
    },
}

fn grants(places: &[PathBuf]) -> String {
    let flags: Vec<String> = places.iter().map(|place| format!("`--grant {}:ro`", place.display())).collect();
    flags.join(" and ")
}

/// The time that an interpreter may take to answer the probe.
pub(crate) const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// Largest version file of a version manager that is read, in bytes.
const LARGEST_VERSION_FILE: u64 = 64 * 1024;

/// The result of a probe that the cache keeps beside the compiled host.
#[derive(Serialize, Deserialize)]
struct ProbedPython {
    version: String,
}

/// The variables with which an operator chooses a version for version managers, and those that the managers need.
const FOR_MANAGERS: &[&str] = &[
    "HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "ASDF_PYTHON_VERSION",
    "MISE_DATA_DIR",
    "MISE_CONFIG_DIR",
    "MISE_PYTHON_VERSION",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
];

/// An interpreter that was chosen and not probed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
    project: Tree,
    managed: Managed,
    /// The environment of a version manager's script.
    for_manager: Vec<(&'static str, String)>,
}

/// Chooses an interpreter: `LLM_DO_PYTHON`, the project's `.venv`, `prepared`, or the one on the `PATH`, in this order.
pub(crate) fn choose(
    project: &Path,
    prepared: Option<&Path>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Candidate, InterpreterError> {
    let folders = folders_on_path(environment);
    let candidate = |path, origin| candidate(path, origin, project, environment);
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    if let Some(named) = environment("LLM_DO_PYTHON").filter(|named| !named.trim().is_empty()) {
        let origin = Origin::Variable;
        let path = match named.contains('/') {
            true => std::path::absolute(&named).ok().filter(|path| path.is_file()),
            false => on_path(&named),
        };
        return match path {
            Some(path) => Ok(candidate(path, origin)),
            None => {
                let reason = "is not there".to_owned();
                Err(InterpreterError::Unusable { path: named.into(), origin, reason })
            }
        };
    }
    let venv = project.join(".venv");
    if venv.join(venv::CONFIG).is_file() {
        let path = venv.join("bin").join("python");
        if !path.exists() {
            let reason = "is not there: make the environment again".to_owned();
            return Err(InterpreterError::Unusable { path, origin: Origin::Venv, reason });
        }
        return Ok(candidate(path, Origin::Venv));
    }
    if let Some(path) = prepared {
        return Ok(candidate(path.to_owned(), Origin::Prepared));
    }
    let path = on_path("python3").or_else(|| on_path("python")).ok_or(InterpreterError::None)?;
    Ok(candidate(path, Origin::Path))
}

/// The files of a program whose author may be another person than the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tree(Option<PathBuf>);

impl Tree {
    /// Returns the tree of a program's root, a real path. A tree that contains the operator's home is the operator's
    /// own: a worker without a project may run from there.
    pub(crate) fn of(project: &Path, environment: &dyn Fn(&str) -> Option<String>) -> Self {
        let home = environment("HOME").and_then(|home| fs::canonicalize(home).ok());
        let own = project.parent().is_none() || home.is_some_and(|home| home.starts_with(project));
        Self((!own).then(|| project.to_owned()))
    }

    /// Returns true if a path lies in the tree.
    pub(crate) fn holds(&self, path: &Path) -> bool {
        self.0.as_ref().is_some_and(|root| path.starts_with(root))
    }
}

/// Finds the operator's own Python: the first on the `PATH` that is not the project's.
pub(crate) fn of_operator(
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Candidate, InterpreterError> {
    let outside = |name: &str| {
        let paths = folders_on_path(environment).into_iter().map(move |folder| folder.join(name));
        let found = paths
            .filter(|path| path.is_file())
            .map(|path| candidate(path, Origin::Path, project, environment));
        found.into_iter().find(|candidate| !candidate.is_of_project())
    };
    outside("python3").or_else(|| outside("python")).ok_or(InterpreterError::None)
}

fn candidate(
    path: PathBuf,
    origin: Origin,
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Candidate {
    let folders = folders_on_path(environment);
    let project = Tree::of(project, environment);
    let outside = folders.iter().filter(|folder| !project.holds(folder));
    let search = std::env::join_paths(outside).unwrap_or_default().to_string_lossy().into_owned();
    let chosen = FOR_MANAGERS.iter().filter_map(|name| Some((*name, environment(name)?)));
    Candidate {
        path,
        origin,
        managed: Managed::of(environment, &project),
        project,
        for_manager: chosen.chain([("PATH", search)]).collect(),
    }
}

/// Lists the folders of the `PATH`, absolute.
pub(crate) fn folders_on_path(environment: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let search = environment("PATH").unwrap_or_default();
    std::env::split_paths(&search).filter_map(|folder| std::path::absolute(folder).ok()).collect()
}

/// An interpreter with its installation and environment, determined from links and texts alone.
struct Located {
    path: PathBuf,
    venv: Option<Venv>,
    installation: Installation,
}

impl Candidate {
    /// Probes the interpreter, or reads the cached result of the last probe.
    pub(crate) async fn probe(
        &self,
        cache: &Path,
        confinement: Confinement,
        granted: &[Place],
    ) -> Result<Interpreter, InterpreterError> {
        let located = self.located(self.behind(cache).await?)?;
        let beyond = self.beyond(&located, granted);
        if !beyond.is_empty() {
            return Err(InterpreterError::NotGranted { origin: self.origin, places: beyond });
        }
        let installed = located.installation.places(&self.managed);
        let python = &located.installation.python;
        let key = key(python, PYTHON).map_err(|error| self.unusable(format!("cannot be read: {error}")))?;
        let folder = cache.join(&key);
        let (described, host) = (folder.join("interpreter.json"), folder.join("host.pyc"));
        let known =
            fs::read(&described).ok().and_then(|text| serde_json::from_slice::<ProbedPython>(&text).ok());
        let version = match known.filter(|_| host.is_file()) {
            Some(known) => known.version,
            None => {
                let probed = ask(python, &installed, cache, confinement).await;
                let probed = probed.map_err(|reason| self.unusable(reason))?;
                check_version(&probed).map_err(|reason| self.unusable(reason))?;
                let code = {
                    use base64::Engine as _;
                    base64::engine::general_purpose::STANDARD.decode(&probed.code)
                };
                let code =
                    code.map_err(|error| self.unusable(format!("does not behave like Python: {error}")))?;
                let kept = serde_json::to_vec(&ProbedPython { version: probed.version.clone() })
                    .map_err(io::Error::from);
                let kept = write_once(&host, &code).and(kept).and_then(|known| write_new(&described, &known));
                kept.map_err(|error| {
                    self.unusable(format!("cannot be remembered in {}: {error}", folder.display()))
                })?;
                probed.version
            }
        };
        Ok(self.interpreter(located, installed, version, host, &key, granted))
    }

    fn interpreter(
        &self,
        located: Located,
        mut places: Vec<PathBuf>,
        version: String,
        host: PathBuf,
        key: &str,
        granted: &[Place],
    ) -> Interpreter {
        let Located { path, venv, installation } = located;
        let mut sites = installation.sites();
        let (mut added, mut left_out) = (Vec::new(), Vec::new());
        let venv_less = venv.is_none();
        let mut of_project = None;
        let config = venv.as_ref().map(|venv| sha256(&venv.config)).unwrap_or_default();
        let home = venv.as_ref().and_then(|venv| venv.home.clone());
        if let Some(venv) = venv {
            match self.project.holds(&venv.folder) {
                true => of_project = Some(venv.folder.clone()),
                false => sites.extend(venv.sites()),
            }
            (added, left_out) = venv
                .added()
                .into_iter()
                .partition(|folder| self.project.holds(folder) || is_granted(granted, folder));
            places.push(venv.folder);
        }
        let facts = format!("{key}\0{}\0{config}", path.display());
        // Links on the way to the installation may lie in places that are not given.
        let direct = venv_less && !confine::is_given_to_all(&path);
        let path = if direct { installation.python } else { path };
        // An environment is a link to an interpreter, often to another link, and finds its libraries by its own path.
        let followed = if venv_less { Vec::new() } else { home.into_iter().chain([path.clone()]).collect() };
        Interpreter {
            language: Language::Python,
            path,
            origin: self.origin,
            version,
            places,
            followed,
            added,
            left_out,
            host,
            key: sha256(facts.as_bytes())[..24].to_owned(),
            packages: Packages { sites, of_project },
        }
    }

    /// Returns the installation behind the interpreter, and the places that the installation reads.
    pub(crate) async fn installation(
        &self,
        cache: &Path,
    ) -> Result<(Installation, Vec<PathBuf>), InterpreterError> {
        let installation = self.located(self.behind(cache).await?)?.installation;
        let places = installation.places(&self.managed);
        Ok((installation, places))
    }

    /// Lists the places outside the project that a project's choice needs and no grant covers. The operator's choice
    /// needs no grant.
    pub(crate) fn wants(&self, granted: &[Place]) -> Result<Vec<PathBuf>, InterpreterError> {
        match self.is_of_project() {
            true => Ok(self.beyond(&self.located(self.path.clone())?, granted)),
            false => Ok(Vec::new()),
        }
    }

    fn beyond(&self, located: &Located, granted: &[Place]) -> Vec<PathBuf> {
        if !self.is_of_project() {
            return Vec::new();
        }
        let mut beyond = Vec::new();
        beyond.extend(located.venv.as_ref().map(|venv| venv.folder.clone()));
        if !located.installation.is_known(&self.managed) {
            beyond.extend(located.installation.places(&self.managed));
        }
        beyond.retain(|place| !self.project.holds(place) && !is_granted(granted, place));
        beyond
    }

    fn located(&self, path: PathBuf) -> Result<Located, InterpreterError> {
        let venv = Venv::of(&path);
        let installation =
            Installation::behind(&path, venv.as_ref()).map_err(|reason| self.unusable(reason))?;
        // Only the operator can name an installation that came with the project.
        if self.project.holds(&installation.python) && self.origin != Origin::Variable {
            let reason =
                "belongs to no installed Python: make the environment with one (`python3 -m venv .venv`)";
            return Err(self.unusable(reason.to_owned()));
        }
        Ok(Located { path, venv, installation })
    }

    fn unusable(&self, reason: String) -> InterpreterError {
        InterpreterError::Unusable { path: self.path.clone(), origin: self.origin, reason }
    }

    /// Returns true if the project decides which program this is: the interpreter, or the target of its links, lies in
    /// the project.
    fn is_of_project(&self) -> bool {
        let folder = self.path.parent().and_then(|folder| fs::canonicalize(folder).ok());
        let real = fs::canonicalize(&self.path).ok();
        [Some(self.path.clone()), folder, real].into_iter().flatten().any(|path| self.project.holds(&path))
    }

    /// Returns true if this is a version manager's script of the operator. A script of the project never runs outside
    /// confinement.
    fn is_version_script(&self) -> bool {
        // Opening a FIFO of a project would wait for a writer.
        if !matches!(self.origin, Origin::Path | Origin::Variable) || self.is_of_project() {
            return false;
        }
        let mut start = [0; 2];
        fs::File::open(&self.path)
            .is_ok_and(|mut file| io::Read::read_exact(&mut file, &mut start).is_ok() && start == *b"#!")
    }

    /// Returns its own path, or the interpreter that it starts if it is a version manager's script.
    async fn behind(&self, cache: &Path) -> Result<PathBuf, InterpreterError> {
        match self.is_version_script() {
            true => self.behind_script(cache).await.map_err(|error| self.unusable(error.to_string())),
            false => Ok(self.path.clone()),
        }
    }

    /// Returns the interpreter that a version manager's script starts. The script runs unconfined, outside the project
    /// and with few variables, so that version files of the project, which may name any program, have no effect.
    async fn behind_script(&self, cache: &Path) -> io::Result<PathBuf> {
        // Such a script takes a tenth of a second or more, so its answer is cached.
        let facts = self.script_facts()?;
        let remembered = cache.join(format!("shim-{}", &sha256(facts.as_bytes())[..24]));
        if let Ok(path) = fs::read_to_string(&remembered).map(PathBuf::from)
            && path.is_file()
        {
            return Ok(path);
        }
        let asked = tokio::process::Command::new(&self.path)
            .args(["-I", "-S", "-c", "import sys; print(sys.executable)"])
            .env_clear()
            .envs(self.for_manager.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(std::process::Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PROBE_LIMIT, asked).await.map_err(io::Error::other)??;
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        if !path.is_file() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("starts no Python: {}", said.trim())));
        }
        write_new(&remembered, path.as_os_str().as_encoded_bytes())?;
        Ok(path)
    }

    /// Returns the facts that determine which interpreter a version manager's script starts: the script, the operator's
    /// own choice beside it or in the home folder, and variables.
    fn script_facts(&self) -> io::Result<String> {
        let meta = fs::metadata(&self.path)?;
        let mut facts = format!("2\0{}\0{}.{}", self.path.display(), meta.mtime(), meta.mtime_nsec());
        let beside = self.path.ancestors().nth(2).map(|root| root.join("version"));
        let home = self.for_manager.iter().find(|(name, _)| *name == "HOME").map(|(_, home)| Path::new(home));
        let at_home = [".tool-versions", ".config/mise/config.toml"];
        let at_home = home.into_iter().flat_map(|home| at_home.map(|name| home.join(name)));
        for file in beside.into_iter().chain(at_home) {
            if let Ok(text) = read_regular(&file, LARGEST_VERSION_FILE) {
                facts.push_str(&format!("\0{}\0{}", file.display(), sha256(&text)));
            }
        }
        for (name, value) in &self.for_manager {
            facts.push_str(&format!("\0{name}={value}"));
        }
        Ok(facts)
    }
}

/// Computes a hash that changes with the installed interpreter or its host.
pub(crate) fn key(program: &Path, host: &str) -> io::Result<String> {
    let meta = fs::metadata(program)?;
    let facts = format!(
        "2\0{}\0{}\0{}.{}\0{}.{}\0{}",
        program.display(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
        sha256(host.as_bytes()),
    );
    Ok(sha256(facts.as_bytes())[..24].to_owned())
}

/// Writes a file atomically, unless it exists: for files whose path is a hash of their content. An existing file is not
/// replaced, because another run may be mounting it at this moment.
pub(crate) fn write_once(path: &Path, content: &[u8]) -> io::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    llm_do_sandbox::put_private(path, content).map(drop)
}

/// Writes a file atomically.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    llm_do_sandbox::write_private(path, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_with_the_operators_home_is_no_strangers() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let home = top.join("home");
        fs::create_dir_all(home.join("project")).unwrap();
        let environment = |name: &str| (name == "HOME").then(|| home.display().to_string());
        let python = home.join("project/.venv/bin/python");
        assert!(Tree::of(&home.join("project"), &environment).holds(&python));
        for own in [&*home, &*top, Path::new("/")] {
            assert!(!Tree::of(own, &environment).holds(&python), "{}", own.display());
        }
        // Without a home, any other tree may be a stranger's.
        assert!(Tree::of(&top, &|_| None).holds(&python));
    }
}
