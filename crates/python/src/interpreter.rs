//! The interpreter that runs the tools (`docs/guides/python-tools.md`).

use crate::host::{self, HOST};
use llm_do_core::schema::sha256;
use llm_do_sandbox::confine::{Exit, Process, ProcessView};
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// How an interpreter was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// `LLM_DO_PYTHON` names it.
    Variable,
    /// The project's `.venv`.
    Venv,
    /// An environment that was prepared for the project.
    Prepared,
    /// `python3` on the `PATH`.
    Path,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Variable => "LLM_DO_PYTHON",
            Self::Venv => "the project's .venv",
            Self::Prepared => "the project's prepared environment",
            Self::Path => "PATH",
        })
    }
}

/// A Python interpreter for tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interpreter {
    /// The executable.
    pub path: PathBuf,
    /// How it was chosen.
    pub origin: Origin,
    /// `3.11.7`.
    pub version: String,
    /// Folders that it reads: its installation, its environment, its packages.
    pub places: Vec<PathBuf>,
    /// The folders of its packages.
    pub sites: Vec<PathBuf>,
    /// The host, compiled for it.
    pub host: PathBuf,
    /// Hash of its path, its environment and the host. It changes when one of them does.
    pub key: String,
}

impl fmt::Display for Interpreter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Python {} at {} (from {})", self.version, self.path.display(), self.origin)
    }
}

/// No interpreter can run tools.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterpreterError {
    /// None was found.
    #[error("no Python was found: install Python 3.9 or newer, or name one with LLM_DO_PYTHON")]
    None,
    /// The environment that the program asks for is not prepared.
    #[error("the packages that {0} asks for are not installed: `--grant process=uv` lets `uv` fetch them")]
    NotPrepared(String),
    /// The chosen one can't be used.
    #[error("{origin} names `{}`, which {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// How it was chosen.
        origin: Origin,
        /// Why it can't be used.
        reason: String,
    },
}

/// The oldest version that runs the host.
const OLDEST: (u32, u32) = (3, 9);

/// How long an interpreter may take to answer the probe.
const PROBE_LIMIT: Duration = Duration::from_secs(30);

/// Describes an interpreter and compiles the host for it.
const PROBE: &str = r#"
import base64, json, os, py_compile, sys, tempfile
out = os.path.join(tempfile.mkdtemp(), "host.pyc")
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
py_compile.compile(sys.argv[1], cfile=out, dfile="<llm-do host>", doraise=True, invalidation_mode=mode)
with open(out, "rb") as file:
    code = base64.b64encode(file.read()).decode()
places = [sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix]
print("\n" + json.dumps({
    "version": "%d.%d.%d" % sys.version_info[:3],
    "implementation": sys.implementation.name,
    "places": sorted({os.path.abspath(place) for place in places}),
    "sites": [path for path in sys.path if os.path.isdir(path)],
    "code": code,
}))
"#;

#[derive(Deserialize)]
struct Probed {
    version: String,
    implementation: String,
    places: Vec<PathBuf>,
    sites: Vec<PathBuf>,
    code: String,
}

/// An interpreter that was chosen and not probed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
    project: PathBuf,
    /// The variables that choose a version for version managers.
    chosen_by: Vec<(&'static str, String)>,
}

/// Chooses an interpreter: `LLM_DO_PYTHON`, the project's `.venv`, `prepared`, or the one on the `PATH`, in this order.
pub(crate) fn choose(
    project: &Path,
    prepared: Option<&Path>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Candidate, InterpreterError> {
    let search = environment("PATH").unwrap_or_default();
    let managers = ["PYENV_VERSION", "ASDF_PYTHON_VERSION", "MISE_PYTHON_VERSION"];
    let candidate = |path, origin| Candidate {
        path,
        origin,
        project: project.to_owned(),
        chosen_by: managers.iter().filter_map(|name| Some((*name, environment(name)?))).collect(),
    };
    let on_path = |name: &str| {
        std::env::split_paths(&search).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
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
    if venv.join("pyvenv.cfg").is_file() {
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

impl Candidate {
    /// Probes it, or reads the cached result of the last probe.
    pub(crate) async fn probe(
        &self,
        cache: &Path,
        confinement: llm_do_sandbox::confine::Confinement,
    ) -> Result<Interpreter, InterpreterError> {
        let unusable = |reason: String| InterpreterError::Unusable {
            path: self.path.clone(),
            origin: self.origin,
            reason,
        };
        let path = self.behind_shim(cache).await.map_err(|error| unusable(error.to_string()))?;
        let key = key(&path).map_err(|error| unusable(format!("cannot be read: {error}")))?;
        let folder = cache.join(&key);
        let described = folder.join("interpreter.json");
        if let Ok(text) = fs::read_to_string(&described)
            && let Ok(known) = serde_json::from_str::<Interpreter>(&text)
            && known.host.is_file()
        {
            return Ok(Interpreter { origin: self.origin, ..known });
        }
        let probed = self.ask(&path, cache, confinement).await.map_err(unusable)?;
        check_version(&probed).map_err(unusable)?;
        let code = {
            use base64::Engine as _;
            base64::engine::general_purpose::STANDARD.decode(&probed.code)
        };
        let code = code.map_err(|error| unusable(format!("does not behave like Python: {error}")))?;
        let mut places = probed.places;
        places.extend(folder_of(&path));
        places.extend(fs::canonicalize(&path).ok().as_deref().and_then(folder_of));
        places.sort();
        places.dedup();
        let known = Interpreter {
            path,
            origin: self.origin,
            version: probed.version,
            places,
            sites: probed.sites,
            host: folder.join("host.pyc"),
            key,
        };
        let kept = keep(&folder, &known, &code);
        kept.map_err(|error| unusable(format!("cannot be remembered in {}: {error}", folder.display())))?;
        Ok(known)
    }

    /// The interpreter that a version manager's script starts. The script runs unconfined, so this is done only for a script
    /// from the operator's `PATH` or `LLM_DO_PYTHON`, which a project can't set.
    async fn behind_shim(&self, cache: &Path) -> io::Result<PathBuf> {
        let mut start = [0; 2];
        let mut file = fs::File::open(&self.path)?;
        let script = io::Read::read_exact(&mut file, &mut start).is_ok() && start == *b"#!";
        if !script || !matches!(self.origin, Origin::Path | Origin::Variable) {
            return Ok(self.path.clone());
        }
        // Such a script takes a tenth of a second or more, so its answer is cached.
        let remembered = cache.join(format!("shim-{}", &sha256(self.shim_facts()?.as_bytes())[..24]));
        if let Ok(path) = fs::read_to_string(&remembered).map(PathBuf::from)
            && path.is_file()
        {
            return Ok(path);
        }
        let asked = tokio::process::Command::new(&self.path)
            .args(["-I", "-S", "-c", "import sys; print(sys.executable)"])
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

    /// What decides which interpreter a version manager's script starts: the script, the version files in the project and
    /// above, the user's own choice beside the script, and variables.
    fn shim_facts(&self) -> io::Result<String> {
        let meta = fs::metadata(&self.path)?;
        let mut facts = format!("{}\0{}.{}", self.path.display(), meta.mtime(), meta.mtime_nsec());
        let above = self.project.ancestors().flat_map(|folder| {
            [".python-version", ".tool-versions", "mise.toml"].map(|name| folder.join(name))
        });
        let own = self.path.ancestors().nth(2).map(|root| root.join("version"));
        for file in above.chain(own) {
            if let Ok(text) = fs::read(&file) {
                facts.push_str(&format!("\0{}\0{}", file.display(), sha256(&text)));
            }
        }
        for (name, value) in &self.chosen_by {
            facts.push_str(&format!("\0{name}={value}"));
        }
        Ok(facts)
    }

    /// Runs the probe, confined to the interpreter's own files: the environment of a project may hold code that runs at each
    /// start.
    async fn ask(
        &self,
        path: &Path,
        cache: &Path,
        confinement: llm_do_sandbox::confine::Confinement,
    ) -> Result<Probed, String> {
        let source = cache.join(format!("host-{}.py", &sha256(HOST.as_bytes())[..16]));
        write_once(&source, HOST.as_bytes())
            .map_err(|error| format!("cannot be tried: {}: {error}", source.display()))?;
        let mut readable = vec![source.clone()];
        readable.extend(installation(path));
        if self.origin != Origin::Path {
            readable.extend(path.parent().and_then(Path::parent).map(Path::to_owned));
        }
        let view = ProcessView::empty().with_readable(readable);
        let process = Process {
            args: vec!["-I".into(), "-X".into(), "utf8".into(), "-c".into(), PROBE.into(), source.into()],
            ..Process::new(path, view, confinement)
        };
        let mut running = process.start().await.map_err(|error| format!("cannot be started: {error}"))?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let (stdout, stderr) = (running.stdout(), running.stderr());
        let finished = async {
            let _ = tokio::join!(read(stdout, &mut out), read(stderr, &mut err));
            running.wait().await
        };
        let exit: Exit = tokio::time::timeout(PROBE_LIMIT, finished)
            .await
            .map_err(|_| format!("did not answer in {} s", PROBE_LIMIT.as_secs()))?;
        // An environment may print something at its start. The answer is the last line.
        let text = String::from_utf8_lossy(&out);
        text.trim().lines().last().and_then(|line| serde_json::from_str(line).ok()).ok_or_else(|| {
            let said = String::from_utf8_lossy(&err);
            format!(
                "does not answer like Python ({}): {}",
                host::exit_text(&exit),
                said.trim().lines().last().unwrap_or("it printed nothing")
            )
        })
    }
}

/// Reads the output of the probe, up to a limit that no valid answer reaches.
async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> io::Result<()> {
    match pipe {
        Some(pipe) => pipe.take(4 << 20).read_to_end(into).await.map(drop),
        None => Ok(()),
    }
}

fn check_version(probed: &Probed) -> Result<(), String> {
    let mut numbers = probed.version.split('.').map_while(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if probed.implementation != "cpython" {
        return Err(format!("is {} and not CPython", probed.implementation));
    }
    if version < OLDEST {
        let (major, minor) = OLDEST;
        return Err(format!("is Python {}; tools need {major}.{minor} or newer", probed.version));
    }
    Ok(())
}

/// The folder of an installation, by the path of its interpreter: `/usr` for `/usr/bin/python3`.
fn folder_of(path: &Path) -> Option<PathBuf> {
    let prefix = path.parent()?.parent()?;
    (prefix != Path::new("/")).then(|| prefix.to_owned())
}

/// What an interpreter needs to start: the installation that its links lead to, and the `home` of its `pyvenv.cfg`.
fn installation(path: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::canonicalize(path).ok().as_deref().and_then(folder_of).into_iter().collect();
    let config = path.parent().and_then(Path::parent).map(|prefix| prefix.join("pyvenv.cfg"));
    if let Some(text) = config.and_then(|config| fs::read_to_string(config).ok()) {
        let home = text.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        found.extend(home.and_then(|(_, home)| folder_of(&Path::new(home.trim()).join("python"))));
    }
    found
}

/// A hash that changes with the interpreter, its environment or the host.
fn key(path: &Path) -> io::Result<String> {
    let real = fs::canonicalize(path)?;
    let meta = fs::metadata(&real)?;
    let config = path.parent().and_then(Path::parent).map(|prefix| prefix.join("pyvenv.cfg"));
    let config = config.and_then(|config| fs::read(config).ok()).unwrap_or_default();
    let facts = format!(
        "1\0{}\0{}\0{}\0{}.{}\0{}\0{}",
        path.display(),
        real.display(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
        sha256(&config),
        sha256(HOST.as_bytes()),
    );
    Ok(sha256(facts.as_bytes())[..24].to_owned())
}

fn keep(folder: &Path, known: &Interpreter, code: &[u8]) -> io::Result<()> {
    write_once(&known.host, code)?;
    write_new(&folder.join("interpreter.json"), serde_json::to_string(known)?.as_bytes())
}

/// Writes a file atomically, unless it exists. For files whose path is a hash of their content. An existing file stays as it
/// is, because another run may be mounting it at this moment.
fn write_once(path: &Path, content: &[u8]) -> io::Result<()> {
    if path.is_file() {
        return Ok(());
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, content)?;
    match file.persist_noclobber(path) {
        Err(error) if error.error.kind() != io::ErrorKind::AlreadyExists => Err(error.error),
        _ => Ok(()),
    }
}

/// Writes a file atomically.
pub(crate) fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, content)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
