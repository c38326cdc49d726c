//! The Node that runs tools in TypeScript and JavaScript (`docs/guides/typescript-tools.md`).
//!
//! `LLM_DO_NODE` names it, else it is the first on the `PATH`. A project has no Node of its own: files of the project are
//! passed over on the `PATH`.

use crate::{
    host::NODE,
    interpreter::{
        Environment, Interpreter, InterpreterError, Origin, PROBE_LIMIT, Packages, Tree, folders_on_path,
        key, write_new, write_once,
    },
};
use llm_do_core::{schema::sha256, worker::Language};
use llm_do_sandbox::{
    confine::{self, Confinement, Process, ProcessView},
    read_regular,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The oldest version that strips types by itself.
const OLDEST: (u32, u32) = (22, 18);

/// The arguments of each Node. Types are stripped in place, so no warning about an experiment concerns the user, and a
/// project needs no `package.json`.
pub(crate) const ARGUMENTS: [&str; 2] =
    ["--disable-warning=ExperimentalWarning", "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON"];

/// Further arguments of a Node that runs programs of models: its own parser can be reached, and no text becomes code.
pub(crate) const OF_PROGRAMS: [&str; 2] = ["--expose-internals", "--disallow-code-generation-from-strings"];

/// The folder of installed packages.
pub(crate) const PACKAGES: &str = "node_modules";

/// The answer of a Node to the probe, which the cache keeps.
#[derive(Serialize, Deserialize)]
struct ProbedNode {
    version: String,
}

/// Finds Node and its version. Only the first time starts it.
pub(crate) async fn find(
    project: &Path,
    environment: &Environment,
    cache: &Path,
    confinement: Confinement,
) -> Result<Interpreter, InterpreterError> {
    let (named, origin) = choose(project, &|name| environment(name))?;
    let unusable = |reason: String| InterpreterError::Unusable { path: named.clone(), origin, reason };
    let path = fs::canonicalize(&named).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    let key = key(&path, NODE).map_err(|error| unusable(format!("cannot be read: {error}")))?;
    let places = if confine::is_given_to_all(&path) { Vec::new() } else { vec![path.clone()] };
    let folder = cache.join(&key);
    let (described, host) = (folder.join("interpreter.json"), folder.join("host.cjs"));
    let known = fs::read(&described).ok().and_then(|text| serde_json::from_slice::<ProbedNode>(&text).ok());
    let version = match known.filter(|_| host.is_file()) {
        Some(known) => known.version,
        None => {
            let version = ask(&path, &places, confinement).await.map_err(unusable)?;
            check_version(&version).map_err(unusable)?;
            let known = serde_json::to_vec(&ProbedNode { version: version.clone() }).map_err(io::Error::from);
            let kept = write_once(&host, NODE.as_bytes()).and(known);
            kept.and_then(|known| write_new(&described, &known)).map_err(|error| {
                unusable(format!("cannot be remembered in {}: {error}", folder.display()))
            })?;
            version
        }
    };
    if let Some(difference) = differs_from_lock(project) {
        return Err(InterpreterError::NotLocked(difference));
    }
    let of_project = fs::canonicalize(project.join(PACKAGES)).ok().filter(|real| real.starts_with(project));
    Ok(Interpreter {
        language: Language::Script,
        path,
        origin,
        version,
        places,
        followed: Vec::new(),
        added: Vec::new(),
        left_out: Vec::new(),
        host,
        key: sha256(key.as_bytes())[..24].to_owned(),
        packages: Packages { sites: Vec::new(), of_project },
    })
}

/// The largest lock file that is read, in bytes.
const LARGEST_LOCK: u64 = 64 << 20;

/// The packages of a lock file of npm, by their folders.
#[derive(Deserialize)]
struct Lock {
    packages: BTreeMap<String, Locked>,
}

#[derive(PartialEq, Eq, Deserialize)]
struct Locked {
    version: Option<String>,
    integrity: Option<String>,
}

impl Lock {
    fn read(path: &Path) -> Option<Self> {
        serde_json::from_slice(&read_regular(path, LARGEST_LOCK).ok()?).ok()
    }
}

/// Compares the packages that npm has installed with those that the project's `package-lock.json` pins. npm writes into
/// `node_modules` what it has installed; other package managers do not.
fn differs_from_lock(project: &Path) -> Option<String> {
    let wanted = Lock::read(&project.join("package-lock.json"))?;
    let installed = Lock::read(&project.join(PACKAGES).join(".package-lock.json"))?;
    installed.packages.iter().find_map(|(folder, found)| {
        let name = folder.strip_prefix("node_modules/").unwrap_or(folder);
        let version = |locked: &Locked| locked.version.clone().unwrap_or_else(|| "of no version".to_owned());
        match wanted.packages.get(folder) {
            None => Some(format!("`{name}` is not in the lock file")),
            Some(pinned) if pinned != found => {
                Some(format!("`{name}` is {}, and the lock file pins {}", version(found), version(pinned)))
            }
            Some(_) => None,
        }
    })
}

fn choose(
    project: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<(PathBuf, Origin), InterpreterError> {
    let folders = folders_on_path(environment);
    let on_path = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    if let Some(named) = environment("LLM_DO_NODE").filter(|named| !named.trim().is_empty()) {
        let path = match named.contains('/') {
            true => std::path::absolute(&named).ok().filter(|path| path.is_file()),
            false => on_path(&named),
        };
        let reason = "is not there".to_owned();
        let origin = Origin::NodeVariable;
        return path.map(|path| (path, origin)).ok_or(InterpreterError::Unusable {
            path: named.into(),
            origin,
            reason,
        });
    }
    let tree = Tree::of(project, environment);
    let is_operators = |path: &PathBuf| {
        path.is_file() && !tree.holds(path) && fs::canonicalize(path).is_ok_and(|real| !tree.holds(&real))
    };
    let mut found = folders.iter().map(|folder| folder.join("node")).filter(is_operators);
    found.next().map(|path| (path, Origin::Path)).ok_or(InterpreterError::NoNode)
}

/// Asks a confined Node for its version.
async fn ask(path: &Path, places: &[PathBuf], confinement: Confinement) -> Result<String, String> {
    let view = ProcessView::empty().with_readable(places.to_vec());
    let process = Process { args: vec!["--version".into()], ..Process::new(path, view, confinement) };
    let mut running = process.start().await.map_err(|error| format!("cannot be started: {error}"))?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (running.stdout(), running.stderr());
    let finished = async {
        tokio::join!(read(stdout, &mut out), read(stderr, &mut err));
        running.wait().await
    };
    let exit = tokio::time::timeout(PROBE_LIMIT, finished)
        .await
        .map_err(|_| format!("did not answer in {} s", PROBE_LIMIT.as_secs()))?;
    let said = String::from_utf8_lossy(&out);
    match said.trim().strip_prefix('v') {
        Some(version) => Ok(version.to_owned()),
        None => {
            let said = String::from_utf8_lossy(&err);
            let last = said.trim().lines().last().unwrap_or("it printed nothing");
            Err(format!("does not answer like Node ({exit}): {last}"))
        }
    }
}

/// Reads what a pipe says, up to a limit that no valid answer reaches. A pipe that breaks has nothing more to say.
async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) {
    if let Some(pipe) = pipe {
        let _ = pipe.take(64 * 1024).read_to_end(into).await;
    }
}

fn check_version(version: &str) -> Result<(), String> {
    let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if found >= OLDEST {
        return Ok(());
    }
    let (major, minor) = OLDEST;
    Err(format!(
        "is Node {version}: tools in TypeScript need {major}.{minor} or newer. Install one, and name it with \
         LLM_DO_NODE=/path/to/node if it is not the first on the PATH"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_before_stripping_of_types_is_refused_with_the_way_out() {
        for old in ["20.20.2", "22.17.1", "v", ""] {
            let told = check_version(old).unwrap_err();
            assert!(told.contains("22.18 or newer") && told.contains("LLM_DO_NODE"), "{told}");
        }
        for new in ["22.18.0", "22.23.3", "24.0.0"] {
            assert_eq!(check_version(new), Ok(()));
        }
    }

    #[test]
    fn installed_packages_are_those_of_the_lock_file() {
        let project = tempfile::tempdir().unwrap();
        let put = |path: &str, version: &str| {
            let path = project.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = format!(
                "{{\"packages\": {{\"node_modules/zod\": {{\"version\": \"{version}\", \"integrity\": \"sha512-{version}\"}}}}}}"
            );
            fs::write(path, text).unwrap();
        };
        assert_eq!(differs_from_lock(project.path()), None);
        put("package-lock.json", "4.1.0");
        assert_eq!(differs_from_lock(project.path()), None, "nothing is installed");
        put("node_modules/.package-lock.json", "4.1.0");
        assert_eq!(differs_from_lock(project.path()), None);
        put("node_modules/.package-lock.json", "4.2.0");
        let told = differs_from_lock(project.path()).unwrap();
        assert_eq!(told, "`zod` is 4.2.0, and the lock file pins 4.1.0");
    }

    #[test]
    fn a_node_of_the_project_is_passed_over() {
        let project = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(project.path()).unwrap();
        let bin = root.join("node_modules/.bin");
        fs::create_dir_all(&bin).unwrap();
        fs::write(bin.join("node"), "").unwrap();
        let search = format!("{}:{}", bin.display(), elsewhere.path().display());
        let environment = |name: &str| (name == "PATH").then(|| search.clone());
        assert_eq!(choose(&root, &environment), Err(InterpreterError::NoNode));
        // A link to a file of the project is the project's too.
        std::os::unix::fs::symlink(bin.join("node"), elsewhere.path().join("node")).unwrap();
        assert_eq!(choose(&root, &environment), Err(InterpreterError::NoNode));
        fs::remove_file(elsewhere.path().join("node")).unwrap();
        fs::write(elsewhere.path().join("node"), "").unwrap();
        let found = choose(&root, &environment).unwrap();
        assert_eq!(found, (elsewhere.path().join("node"), Origin::Path));
    }
}
