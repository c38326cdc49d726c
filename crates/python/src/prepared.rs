//! Environments that `uv` prepares for a project with a `uv.lock`, or for tools with inline metadata (PEP 723).
//!
//! Preparation needs the network and the operator's grant. It installs only wheels and builds nothing, so it runs no code of
//! the project or of a package. The tools run confined later, like all tools.

use llm_do_core::schema::sha256;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};
use tokio::process::Command;

/// An environment that a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    ask: Ask,
    key: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Ask {
    /// `uv.lock` of this folder.
    Lock(PathBuf),
    /// The inline metadata of these files.
    Scripts(Vec<PathBuf>),
}

/// The first line of inline script metadata (PEP 723).
const HEADER: &str = "# /// script";

/// The file that is written last. An environment without it is incomplete.
const READY: &str = ".llm-do-ready";

impl Wanted {
    /// The environment that the project's files ask for: a `uv.lock`, or inline metadata in the modules of its tools.
    pub fn by(project: &Path) -> Option<Self> {
        let lock = project.join("uv.lock");
        if let Ok(text) = fs::read(&lock) {
            let manifest = fs::read(project.join("pyproject.toml")).unwrap_or_default();
            let key = sha256(&[b"lock", manifest.as_slice(), text.as_slice()].concat())[..24].to_owned();
            return Some(Self { ask: Ask::Lock(project.to_owned()), key });
        }
        let mut scripts = Vec::new();
        let mut facts = String::from("scripts");
        for module in modules(project) {
            let Ok(text) = fs::read_to_string(&module) else { continue };
            if let Some(header) = header(&text) {
                facts.push_str(header);
                scripts.push(module);
            }
        }
        let key = sha256(facts.as_bytes())[..24].to_owned();
        (!scripts.is_empty()).then_some(Self { ask: Ask::Scripts(scripts), key })
    }

    /// The files that ask for it, for messages.
    pub fn asked_by(&self) -> String {
        match &self.ask {
            Ask::Lock(folder) => folder.join("uv.lock").display().to_string(),
            Ask::Scripts(files) => {
                let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
                names.join(", ")
            }
        }
    }

    fn folder(&self, cache: &Path) -> PathBuf {
        cache.join("environments").join(&self.key)
    }

    /// Its interpreter, if it is prepared.
    pub(crate) fn ready(&self, cache: &Path) -> Option<PathBuf> {
        let folder = self.folder(cache);
        folder.join(READY).is_file().then(|| folder.join("bin").join("python"))
    }

    /// Prepares it with the operator's own `uv`, which uses the network.
    ///
    /// # Errors
    /// `uv` is not installed, or it fails.
    pub(crate) async fn prepare(&self, cache: &Path) -> Result<(), String> {
        let folder = self.folder(cache);
        if folder.exists() {
            fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        fs::create_dir_all(cache.join("environments")).map_err(|error| error.to_string())?;
        match &self.ask {
            Ask::Lock(project) => {
                let mut sync = uv();
                sync.args([
                    "sync",
                    "--frozen",
                    "--no-dev",
                    "--no-install-project",
                    "--no-build",
                    "--project",
                ]);
                sync.arg(project).env("UV_PROJECT_ENVIRONMENT", &folder);
                run(sync).await?;
            }
            Ask::Scripts(files) => {
                let mut venv = uv();
                venv.arg("venv").arg(&folder);
                run(venv).await?;
                let mut install = uv();
                install.args(["pip", "install", "--no-build", "--python"]).arg(&folder);
                for file in files {
                    // `uv` reads the requirements from the inline metadata.
                    install.arg("-r").arg(file);
                }
                run(install).await?;
            }
        }
        fs::write(folder.join(READY), "").map_err(|error| error.to_string())
    }
}

/// The modules in which the front end looks for a project's tools.
fn modules(project: &Path) -> Vec<PathBuf> {
    let folders = [project.join("tools"), project.join("toolsets")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.push(project.join("tools.py"));
    found.retain(|path| path.extension().is_some_and(|extension| extension == "py"));
    found.sort();
    found
}

/// The inline metadata of a script, if it has some.
fn header(text: &str) -> Option<&str> {
    let begin = if text.starts_with(HEADER) { 0 } else { text.find(&format!("\n{HEADER}"))? + 1 };
    let end = text[begin..].find("\n# ///")?;
    Some(&text[begin..begin + end])
}

fn uv() -> Command {
    let mut command = Command::new("uv");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn run(mut command: Command) -> Result<(), String> {
    let output = command.output().await.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "`uv` is not installed: install it, or make the environment yourself in `.venv`".to_owned()
        }
        _ => format!("`uv` can't be started: {error}"),
    })?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("`uv` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_asks_for_an_environment_and_a_lock_file_before_it() {
        let project = tempfile::tempdir().unwrap();
        let root = project.path();
        assert_eq!(Wanted::by(root), None);
        fs::write(root.join("tools.py"), "x = 1\n").unwrap();
        assert_eq!(Wanted::by(root), None);
        let text =
            "#!/usr/bin/env python3\n# /// script\n# dependencies = [\"polars\"]\n# ///\nimport polars\n";
        fs::write(root.join("tools.py"), text).unwrap();
        let wanted = Wanted::by(root).unwrap();
        assert!(wanted.asked_by().ends_with("tools.py"));
        // Only a change of the metadata changes the key.
        fs::write(root.join("tools.py"), format!("{text}y = 2\n")).unwrap();
        assert_eq!(Wanted::by(root), Some(wanted.clone()));
        fs::write(root.join("tools.py"), text.replace("polars\"", "pandas\"")).unwrap();
        assert_ne!(Wanted::by(root).unwrap().key, wanted.key);
        fs::write(root.join("uv.lock"), "version = 1\n").unwrap();
        assert!(Wanted::by(root).unwrap().asked_by().ends_with("uv.lock"));
    }

    #[test]
    fn incomplete_environment_is_not_ready() {
        let cache = tempfile::tempdir().unwrap();
        let wanted = Wanted { ask: Ask::Scripts(Vec::new()), key: "k".into() };
        let folder = wanted.folder(cache.path());
        fs::create_dir_all(&folder).unwrap();
        assert_eq!(wanted.ready(cache.path()), None);
        fs::write(folder.join(READY), "").unwrap();
        assert_eq!(wanted.ready(cache.path()), Some(folder.join("bin/python")));
    }
}
