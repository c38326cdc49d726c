//! Environments that `uv` prepares for a project with a `uv.lock`, or for tools with inline metadata (PEP 723).
//!
//! Preparation needs the network and the operator's grant. It installs only wheels and builds nothing, so it runs no
//! code of the project or of a package. `uv` sees only copies of those texts of the project that name packages: it runs
//! confined to them, with the operator's Python, few variables and no settings of the project. The tools run confined
//! later, like all tools.

use crate::interpreter::{Environment, Tree, installation::Installation};
use llm_do_core::{authority::Network, schema::sha256};
use llm_do_sandbox::{
    confine::{self, Confinement, Limits, Process, ProcessView, Tier},
    read_below,
};
use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// An environment that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    ask: Ask,
    key: String,
}

/// The texts that name packages, with their content when the key was made.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    /// `uv.lock` of this folder, with the `pyproject.toml` beside it.
    Lock { folder: PathBuf, lock: Vec<u8>, manifest: Vec<u8> },
    /// The inline metadata of these files.
    Scripts(Vec<(PathBuf, String)>),
}

/// The first line of inline script metadata (PEP 723).
const HEADER: &str = "# /// script";

/// The last line of inline script metadata.
const HEADER_END: &str = "\n# ///";

/// The environment, in the folder that `uv` may write.
const ENVIRONMENT: &str = "venv";

/// The file that is written last. An environment without it is incomplete.
const READY: &str = ".llm-do-ready";

/// Largest `uv.lock`, `pyproject.toml` or module that is read, in bytes.
const LARGEST: u64 = 16 << 20;

/// Largest file of a package, in bytes.
const LARGEST_INSTALLED: u64 = 8 << 30;

/// The operator's variables that `uv` gets: the sources of packages, and the settings for reaching the network.
const FOR_UV: &[&str] = &[
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_HTTP_TIMEOUT",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// The inputs that `uv` needs beside the project's texts.
pub(crate) struct Preparing<'a> {
    /// A folder of llm-do for cached results.
    pub(crate) cache: &'a Path,
    /// Root of the program.
    pub(crate) project: &'a Path,
    /// The operator's environment.
    pub(crate) environment: &'a Environment,
    /// The operator's Python.
    pub(crate) installation: &'a Installation,
    /// The places that it reads.
    pub(crate) places: Vec<PathBuf>,
    /// The confinement of `uv`.
    pub(crate) confinement: Confinement,
}

impl Wanted {
    /// Finds the environment that the project's files ask for: a `uv.lock`, or inline metadata in the modules of its
    /// tools.
    ///
    /// # Errors
    /// A file that may ask for an environment can't be read.
    pub fn by(project: &Path) -> Result<Option<Self>, String> {
        if let Some(lock) = text(project, Path::new("uv.lock"))? {
            let manifest = text(project, Path::new("pyproject.toml"))?.unwrap_or_default();
            let key = sha256(&[b"lock 2", manifest.as_slice(), lock.as_slice()].concat())[..24].to_owned();
            return Ok(Some(Self { ask: Ask::Lock { folder: project.to_owned(), lock, manifest }, key }));
        }
        let mut scripts = Vec::new();
        let mut facts = String::from("scripts 2");
        for module in modules(project) {
            let Some(text) = text(project, &module)? else { continue };
            if let Some(header) = std::str::from_utf8(&text).ok().and_then(header) {
                facts.push_str(header);
                scripts.push((project.join(module), format!("{header}{HEADER_END}\n")));
            }
        }
        let key = sha256(facts.as_bytes())[..24].to_owned();
        Ok((!scripts.is_empty()).then_some(Self { ask: Ask::Scripts(scripts), key }))
    }

    /// Returns the files that ask for it, for messages.
    pub fn asked_by(&self) -> String {
        match &self.ask {
            Ask::Lock { folder, .. } => folder.join("uv.lock").display().to_string(),
            Ask::Scripts(files) => {
                let names: Vec<String> = files.iter().map(|(file, _)| file.display().to_string()).collect();
                names.join(", ")
            }
        }
    }

    /// Returns the folder in which `uv` may write: the environment, its cache, and copies of the project's texts. It is
    /// one folder so that files can be linked from the cache to the environment.
    fn folder(&self, cache: &Path) -> PathBuf {
        cache.join("environments").join(&self.key)
    }

    /// Returns the interpreter of the environment, if it is prepared and the Python that it was made with still exists.
    pub(crate) fn ready(&self, cache: &Path) -> Option<PathBuf> {
        let folder = self.folder(cache);
        let python = folder.join(ENVIRONMENT).join("bin").join("python");
        (folder.join(READY).is_file() && python.is_file()).then_some(python)
    }

    /// Prepares it with the operator's own `uv`, which uses the network.
    ///
    /// # Errors
    /// `uv` is not installed, it fails, or it can't run confined here.
    pub(crate) async fn prepare(&self, with: &Preparing<'_>) -> Result<(), String> {
        if with.confinement == Confinement::Tier(Tier::Landlock) {
            let reason = "`uv` sets the modes of files, which a process may not do where there are no namespaces \
                          (`llm-do doctor` says what is missing): make the environment yourself in `.venv`";
            return Err(reason.to_owned());
        }
        let folder = self.folder(with.cache);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        let parent = with.cache.join("environments");
        llm_do_sandbox::private_dir(&parent).map_err(failed)?;
        // Another run may prepare the same.
        let lock = fs::File::create(parent.join(format!("{}.lock", self.key))).map_err(failed)?;
        lock.lock().map_err(failed)?;
        if self.ready(with.cache).is_some() {
            return Ok(());
        }
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(failed)?;
        }
        fs::create_dir(&folder).map_err(failed)?;
        let made = self.make(&folder, with).await;
        if made.is_err() {
            // An incomplete environment is made again at the next attempt.
            let _ = fs::remove_dir_all(&folder);
        }
        made
    }

    async fn make(&self, folder: &Path, with: &Preparing<'_>) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        let uv = Uv { program: find(with)?, folder, with };
        let (environment, texts) = (folder.join(ENVIRONMENT), folder.join("texts"));
        fs::create_dir(&texts).map_err(failed)?;
        let put = |name: &str, content: &[u8]| {
            let path = texts.join(name);
            fs::write(&path, content).map(|()| path).map_err(failed)
        };
        let python = with.installation.python.as_os_str();
        let of = ["--python".into(), python.into(), environment.clone().into()];
        uv.run(&["venv", "--no-project"], of).await?;
        match &self.ask {
            Ask::Lock { lock, manifest, .. } => {
                put("uv.lock", lock)?;
                put("pyproject.toml", manifest)?;
                let flags = ["sync", "--frozen", "--no-dev", "--no-install-workspace", "--no-build"];
                let of = ["--python".into(), python.into(), "--project".into(), texts.clone().into()];
                uv.run(&flags, of).await?;
            }
            Ask::Scripts(files) => {
                let mut of: Vec<OsString> = vec!["--python".into(), environment.clone().into()];
                for (number, (_, header)) in files.iter().enumerate() {
                    // `uv` reads the requirements from the inline metadata.
                    let copy = put(&format!("metadata-{number}.py"), header.as_bytes())?;
                    of.extend(["-r".into(), copy.into()]);
                }
                uv.run(&["pip", "install", "--no-build"], of).await?;
            }
        }
        let made = fs::canonicalize(environment.join("bin").join("python")).ok();
        if made.as_ref() != Some(&with.installation.python) {
            return Err(format!("`uv` made no environment with {}", with.installation.python.display()));
        }
        let _ = fs::remove_dir_all(uv.cache());
        fs::write(folder.join(READY), "").map_err(failed)
    }
}

/// Reads a file of the project, or returns `None` if the file does not exist.
fn text(project: &Path, path: &Path) -> Result<Option<Vec<u8>>, String> {
    match read_below(project, path, LARGEST) {
        Ok(content) => Ok(Some(content)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(format!("{} can't be read: {error}", project.join(path).display())),
    }
}

/// Lists the modules in which the front end looks for a project's tools, as paths in the project. Links are excluded.
fn modules(project: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["tools", "toolsets"] {
        for entry in fs::read_dir(project.join(folder)).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_file()) {
                found.push(Path::new(folder).join(entry.file_name()));
            }
        }
    }
    found.push("tools.py".into());
    found.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    found.sort();
    found
}

/// Returns the inline metadata of a script, if it has some.
fn header(text: &str) -> Option<&str> {
    let begin = if text.starts_with(HEADER) { 0 } else { text.find(&format!("\n{HEADER}"))? + 1 };
    let end = text[begin..].find(HEADER_END)?;
    Some(&text[begin..begin + end])
}

/// `uv`, for one environment.
struct Uv<'a> {
    program: PathBuf,
    folder: &'a Path,
    with: &'a Preparing<'a>,
}

impl Uv<'_> {
    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    async fn run(&self, flags: &[&str], more: impl IntoIterator<Item = OsString>) -> Result<(), String> {
        let Preparing { environment, places, confinement, .. } = self.with;
        let certificates = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().filter_map(|name| environment(name));
        let readable = places.iter().cloned().chain([self.program.clone()]);
        let view = ProcessView::empty()
            .with_readable(readable.chain(certificates.map(PathBuf::from)))
            .with_writable([self.folder.to_owned()]);
        let common = ["--no-config", "--no-python-downloads", "--no-progress", "--color", "never"];
        let common = flags.iter().copied().chain(common).map(OsString::from);
        let lookup = |name: &str| environment(name);
        let own = [("UV_CACHE_DIR", self.cache()), ("UV_PROJECT_ENVIRONMENT", self.folder.join(ENVIRONMENT))];
        let granted = FOR_UV.iter().filter_map(|name| Some((*name, environment(name)?.into())));
        let env = confine::env_allowlist(lookup).into_iter().map(|(name, value)| (name.into(), value.into()));
        let env = env
            .chain(own.map(|(name, value)| (name.into(), value.into_os_string())))
            .chain(granted.map(|(name, value)| (name.into(), value)))
            .chain([("UV_LINK_MODE".into(), "hardlink".into())]);
        let process = Process {
            args: common.chain(more).collect(),
            env: env.collect(),
            cwd: Some(self.folder.to_owned()),
            network: Network::On,
            limits: Limits { file_size: LARGEST_INSTALLED, ..Limits::default() },
            ..Process::new(&self.program, view, *confinement)
        };
        let mut running = process.start().await.map_err(|error| format!("`uv` can't be started: {error}"))?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (running.stdout(), running.stderr());
        tokio::join!(drain(stdout, &mut out), drain(stderr, &mut err));
        let exit = running.wait().await;
        if exit.code == Some(0) {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&err);
        Err(format!("`uv {}` failed ({exit}): {}", flags[0], said.trim()))
    }
}

/// Reads the output of a process, and keeps its beginning.
async fn drain(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    let Some(mut pipe) = pipe else { return };
    // A pipe that breaks has nothing more to say.
    let _ = (&mut pipe).take(64 * 1024).read_to_end(into).await;
    let _ = tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await;
}

/// Finds the operator's `uv`: on the `PATH` or beside the operator's Python, and not in the project. A program is
/// preferred to a version manager's script, which can't find its program when it is confined.
fn find(with: &Preparing<'_>) -> Result<PathBuf, String> {
    let project = Tree::of(with.project, &|name| (with.environment)(name));
    let mut folders = crate::interpreter::folders_on_path(&|name| (with.environment)(name));
    folders.extend(with.installation.python.parent().map(Path::to_owned));
    let real = folders.iter().filter_map(|folder| fs::canonicalize(folder.join("uv")).ok());
    let found: Vec<PathBuf> = real.filter(|path| path.is_file() && !project.holds(path)).collect();
    let is_script = |path: &PathBuf| {
        let mut start = [0; 2];
        fs::File::open(path).is_ok_and(|mut file| io::Read::read_exact(&mut file, &mut start).is_ok())
            && start == *b"#!"
    };
    found.iter().find(|path| !is_script(path)).or(found.first()).cloned().ok_or_else(|| {
        "`uv` is not installed: install it, or make the environment yourself in `.venv`".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_asks_for_an_environment_and_a_lock_file_before_it() {
        let project = tempfile::tempdir().unwrap();
        let root = project.path();
        assert_eq!(Wanted::by(root), Ok(None));
        fs::write(root.join("tools.py"), "x = 1\n").unwrap();
        assert_eq!(Wanted::by(root), Ok(None));
        let text =
            "#!/usr/bin/env python3\n# /// script\n# dependencies = [\"polars\"]\n# ///\nimport polars\n";
        fs::write(root.join("tools.py"), text).unwrap();
        let wanted = Wanted::by(root).unwrap().unwrap();
        assert!(wanted.asked_by().ends_with("tools.py"));
        // Only a change of the metadata changes the key.
        fs::write(root.join("tools.py"), format!("{text}y = 2\n")).unwrap();
        assert_eq!(Wanted::by(root), Ok(Some(wanted.clone())));
        fs::write(root.join("tools.py"), text.replace("polars\"", "pandas\"")).unwrap();
        assert_ne!(Wanted::by(root).unwrap().unwrap().key, wanted.key);
        fs::write(root.join("uv.lock"), "version = 1\n").unwrap();
        assert!(Wanted::by(root).unwrap().unwrap().asked_by().ends_with("uv.lock"));
    }

    #[test]
    fn a_file_that_never_ends_or_begins_is_not_read() {
        let project = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/dev/zero", project.path().join("uv.lock")).unwrap();
        assert!(Wanted::by(project.path()).unwrap_err().contains("uv.lock can't be read"));
    }

    #[test]
    fn incomplete_environment_is_not_ready() {
        let cache = tempfile::tempdir().unwrap();
        let wanted = Wanted { ask: Ask::Scripts(Vec::new()), key: "k".into() };
        let folder = wanted.folder(cache.path());
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(wanted.ready(cache.path()), None);
        fs::write(folder.join(READY), "").unwrap();
        assert_eq!(wanted.ready(cache.path()), None, "its interpreter is gone");
        fs::create_dir_all(folder.join("venv/bin")).unwrap();
        fs::write(folder.join("venv/bin/python"), "").unwrap();
        assert_eq!(wanted.ready(cache.path()), Some(folder.join("venv/bin/python")));
    }
}
