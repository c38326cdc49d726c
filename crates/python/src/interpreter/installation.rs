//! Python installations: the files of an installation, and the installations that a project may choose by itself.
//!
//! A project's environment is a folder of links and texts that lead to an installation. The project wrote them, so
//! llm-do accepts their target only if it is a folder of the system's programs, or of the operator's version manager.

use super::{Tree, venv::Venv};
use llm_do_core::authority::Place;
use llm_do_sandbox::confine;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// A Python installation, by its interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Installation {
    /// The interpreter itself, a real path.
    pub(crate) python: PathBuf,
    /// `/usr` for `/usr/bin/python3.11`.
    prefix: PathBuf,
}

impl Installation {
    /// Returns the installation behind an interpreter: the target of its links or, if it is a copy in its environment,
    /// the home that the environment names.
    pub(crate) fn behind(interpreter: &Path, venv: Option<&Venv>) -> Result<Self, String> {
        let real = |path: &Path| fs::canonicalize(path).ok().filter(|path| path.is_file());
        let python = real(interpreter).ok_or("leads to no file")?;
        let python = match venv {
            Some(venv) if python.starts_with(&venv.folder) => {
                let home = venv.home.as_deref().ok_or("has a `pyvenv.cfg` that names no `home`")?;
                let names = ["python3", "python"].map(|name| home.join(name));
                names.iter().find_map(|path| real(path)).ok_or_else(|| {
                    format!(
                        "was made by a Python that is not in {}: make the environment again",
                        home.display()
                    )
                })?
            }
            _ => python,
        };
        let prefix = python.parent().and_then(Path::parent).ok_or("is in no installation")?.to_owned();
        Ok(Self { python, prefix })
    }

    /// Lists the files that it reads, apart from those that every process may read: the whole folder if it holds
    /// nothing else. Otherwise the folder may hold anything, such as a user's home.
    pub(crate) fn places(&self, managed: &Managed) -> Vec<PathBuf> {
        if confine::is_given_to_all(&self.python) {
            return Vec::new();
        }
        if managed.holds(&self.prefix) || self.has_own_folder(managed) {
            return vec![self.prefix.clone()];
        }
        let mut places = vec![self.python.clone()];
        for library in ["lib", "lib64"] {
            for entry in fs::read_dir(self.prefix.join(library)).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                let name = entry.file_name();
                let name = name.to_string_lossy();
                let standard =
                    kind.is_dir() && name.starts_with("python3") && entry.path().join("os.py").is_file();
                let shared = kind.is_file() && name.starts_with("libpython");
                if standard || shared {
                    places.push(entry.path());
                }
            }
        }
        places.sort();
        places
    }

    /// Returns true if the folder was made for this installation, as by conda, by `make install` and by the tool caches
    /// of CI services.
    fn has_own_folder(&self, managed: &Managed) -> bool {
        let libraries = fs::read_dir(self.prefix.join("lib")).into_iter().flatten().flatten();
        let is_python = |entry: &fs::DirEntry| {
            entry.file_name().to_string_lossy().starts_with("python3") && entry.path().join("os.py").is_file()
        };
        let is_shared = SHARED.iter().any(|shared| self.prefix == Path::new(shared))
            || self.prefix.parent().is_none()
            || managed.home.as_ref().is_none_or(|home| home.starts_with(&self.prefix))
            || managed.home.as_ref().is_some_and(|home| self.prefix == home.join(".local"));
        !is_shared && libraries.into_iter().any(|entry| is_python(&entry))
    }

    /// Returns true if a project may choose the installation: a system folder or a version manager of the operator
    /// holds it.
    pub(crate) fn is_known(&self, managed: &Managed) -> bool {
        confine::is_given_to_all(&self.python) || managed.holds(&self.prefix)
    }

    /// Returns the folders of its packages.
    pub(crate) fn sites(&self) -> Vec<PathBuf> {
        let (lib, local) = (self.prefix.join("lib"), self.prefix.join("local").join("lib"));
        [lib, local].iter().flat_map(|lib| super::venv::sites(lib)).collect()
    }
}

/// Folders for programs of any kind.
const SHARED: [&str; 5] = ["/usr", "/usr/local", "/opt", "/opt/local", "/opt/homebrew"];

/// The folders in which the operator's version managers keep installations, each in a folder of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Managed {
    folders: Vec<PathBuf>,
    /// The operator's home.
    home: Option<PathBuf>,
}

impl Managed {
    /// Finds the folders of pyenv, asdf, mise, uv and conda, by the operator's environment. Folders in the project are
    /// excluded.
    pub(crate) fn of(environment: &dyn Fn(&str) -> Option<String>, project: &Tree) -> Self {
        let set = |name: &str| environment(name).filter(|value| value.starts_with('/')).map(PathBuf::from);
        let home = set("HOME");
        let in_home = |rest: &str| home.as_ref().map(|home| home.join(rest));
        let data = set("XDG_DATA_HOME").or_else(|| in_home(".local/share"));
        let in_data = |rest: &str| data.as_ref().map(|data| data.join(rest));
        let folders = [
            set("PYENV_ROOT").or_else(|| in_home(".pyenv")).map(|root| root.join("versions")),
            set("ASDF_DATA_DIR").or_else(|| in_home(".asdf")).map(|root| root.join("installs/python")),
            set("MISE_DATA_DIR").or_else(|| in_data("mise")).map(|root| root.join("installs/python")),
            set("UV_PYTHON_INSTALL_DIR").or_else(|| in_data("uv/python")),
            in_home("miniconda3"),
            in_home("miniforge3"),
            in_home("anaconda3"),
        ];
        let real = folders.into_iter().flatten().filter_map(|folder| fs::canonicalize(folder).ok());
        let folders = real.filter(|folder| !project.holds(folder)).collect();
        Self { folders, home: home.and_then(|home| fs::canonicalize(home).ok()) }
    }

    fn holds(&self, prefix: &Path) -> bool {
        self.folders.iter().any(|folder| prefix.starts_with(folder))
    }
}

/// Returns true if one of the granted places holds a path.
pub(crate) fn is_granted(granted: &[Place], path: &Path) -> bool {
    path.to_str().is_some_and(|path| granted.iter().any(|place| Place::new(path).is_within(place)))
}
