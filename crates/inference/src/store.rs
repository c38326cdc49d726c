//! The folder of downloaded models.

use crate::catalogue::{self, CATALOGUE, Entry};
use llm_do_core::local_name;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// A folder of models. A model is `NAME.gguf`, with `NAME.gguf.part` and `NAME.gguf.lock` beside it while it is pulled.
/// A model of the hub, `OWNER/REPO:LABEL`, is `OWNER/REPO/LABEL.gguf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    dir: PathBuf,
}

/// A model in the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The name in `local:NAME`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub size: u64,
}

/// A model that is not installed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInstalled {
    /// The catalogue has the model.
    #[error("the model `{}` ({} MB, {}) is not installed: run `llm-do models pull {}`", .0.name, .0.size.div_ceil(1_000_000), .0.licence, .0.name)]
    Pullable(&'static Entry),
    /// A model of the hub.
    #[error("the model `{0}` is not installed: run `llm-do models pull hf:{0}`")]
    OnHub(String),
    /// The name is not known.
    #[error("no local model `{name}`: {}give a catalogue name ({}) or the path of a .gguf file", nearest.map(|it| format!("did you mean `{it}`? Otherwise ")).unwrap_or_default(), names())]
    Unknown {
        /// The given name.
        name: String,
        /// The catalogue's nearest name.
        nearest: Option<&'static str>,
    },
    /// A path that leads to no file.
    #[error("no model file at {}", .0.display())]
    NoFile(PathBuf),
}

fn names() -> String {
    CATALOGUE.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", ")
}

impl Store {
    /// Makes the store in that folder, which need not exist yet.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the path of an installed model of that name. For a model of the hub, the name in the catalogue gives the
    /// same path.
    pub fn path(&self, name: &str) -> PathBuf {
        self.file(name, "gguf")
    }

    fn file(&self, name: &str, extension: &str) -> PathBuf {
        let name = match catalogue::find(name) {
            Some(entry) => entry.installed_as(),
            None => name,
        };
        match local_name::hub_parts(name) {
            Some([owner, repo, label]) => {
                self.dir.join(owner).join(repo).join(format!("{label}.{extension}"))
            }
            None => self.dir.join(format!("{name}.{extension}")),
        }
    }

    /// Returns the models in the folder, by name. A folder that does not exist holds none.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn list(&self) -> io::Result<Vec<Installed>> {
        let mut found = Vec::new();
        for (name, path) in entries(&self.dir)? {
            if let Some(model) = installed(&name, &path) {
                found.push(model);
            } else if path.is_dir() {
                for (repo, path) in entries(&path)?.into_iter().filter(|(_, path)| path.is_dir()) {
                    let models = entries(&path)?;
                    found.extend(models.iter().filter_map(|(file, path)| {
                        let model = installed(file, path)?;
                        let label = model.name;
                        Some(Installed { name: format!("{name}/{repo}:{label}"), ..model })
                    }));
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// Finds the file of `local:…`: a name of this store, or a path ([`local_name::is_downloaded`] distinguishes them).
    ///
    /// # Errors
    /// The file does not exist. The error contains the solution.
    pub fn locate(&self, name_or_path: &str) -> Result<PathBuf, NotInstalled> {
        if !local_name::is_downloaded(name_or_path) {
            let path = PathBuf::from(name_or_path);
            return if path.is_file() { Ok(path) } else { Err(NotInstalled::NoFile(path)) };
        }
        let path = self.path(name_or_path);
        if path.is_file() {
            return Ok(path);
        }
        Err(match catalogue::find(name_or_path) {
            Some(entry) => NotInstalled::Pullable(entry),
            None if local_name::hub_parts(name_or_path).is_some() => {
                NotInstalled::OnHub(name_or_path.to_owned())
            }
            None => NotInstalled::Unknown {
                name: name_or_path.to_owned(),
                nearest: CATALOGUE
                    .iter()
                    .map(|entry| (strsim::jaro_winkler(entry.name, name_or_path), entry.name))
                    .filter(|(score, _)| *score > 0.8)
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .map(|(_, name)| name),
            },
        })
    }

    /// Deletes the model of that name and the remains of an interrupted pull. Returns the freed bytes, or `None` if
    /// nothing was there.
    ///
    /// # Errors
    /// The name is no name of a downloaded model, or a file can't be deleted.
    pub fn remove(&self, name: &str) -> io::Result<Option<u64>> {
        if !local_name::is_downloaded(name) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("`{name}` is not a model's name"),
            ));
        }
        let mut freed = None;
        for path in [self.path(name), self.part(name)] {
            match fs::metadata(&path).and_then(|meta| fs::remove_file(&path).map(|()| meta.len())) {
                Ok(size) => freed = Some(freed.unwrap_or(0) + size),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    pub(crate) fn part(&self, name: &str) -> PathBuf {
        self.file(name, "gguf.part")
    }

    pub(crate) fn lock(&self, name: &str) -> PathBuf {
        self.file(name, "gguf.lock")
    }
}

/// Returns the names and paths in a folder. A folder that does not exist is empty.
fn entries(dir: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

/// Returns the model in a file, if the file is one.
fn installed(file: &str, path: &Path) -> Option<Installed> {
    let name = file.strip_suffix(".gguf")?;
    let meta = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some(Installed { name: name.to_owned(), path: path.to_owned(), size: meta.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_the_folder_and_paths_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::new(dir.path().join("models"));
        assert_eq!(store.list().unwrap(), []);
        fs::create_dir(store.dir()).unwrap();
        fs::write(store.path("tiny"), b"GGUF").unwrap();
        fs::write(store.part("other"), b"GG").unwrap();
        fs::write(store.dir().join("notes.txt"), b"").unwrap();
        let listed = store.list().unwrap();
        assert_eq!(listed.len(), 1);
        assert_eq!((listed[0].name.as_str(), listed[0].size), ("tiny", 4));
        assert_eq!(store.locate("tiny"), Ok(store.path("tiny")));
        let by_path = store.path("tiny");
        assert_eq!(store.locate(by_path.to_str().unwrap()), Ok(by_path.clone()));
        assert_eq!(store.remove("tiny").unwrap(), Some(4));
        assert_eq!(store.remove("tiny").unwrap(), None);
        assert_eq!(store.remove("other").unwrap(), Some(2));
        assert!(matches!(store.locate(by_path.to_str().unwrap()), Err(NotInstalled::NoFile(_))));
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        let store = Store::new("nowhere");
        let pullable = store.locate(catalogue::DEFAULT).unwrap_err();
        assert!(
            pullable.to_string().ends_with("run `llm-do models pull smollm2-135m-instruct`"),
            "{pullable}"
        );
        let near = store.locate("smollm2-135m-instrukt").unwrap_err();
        assert!(near.to_string().contains("did you mean `smollm2-135m-instruct`"), "{near}");
        let far = store.locate("zzz").unwrap_err().to_string();
        assert!(!far.contains("did you mean"), "{far}");
    }

    #[test]
    fn no_name_reaches_outside_the_folder() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("precious.gguf"), b"x").unwrap();
        let store = Store::new(dir.path().join("models"));
        for name in ["../precious", "..", "", ".", "a/b", "a\\b", "/etc/passwd", "a\0b"] {
            assert!(store.remove(name).is_err(), "{name:?}");
        }
        assert!(dir.path().join("precious.gguf").exists());
    }
}
