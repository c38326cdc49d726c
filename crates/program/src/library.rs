//! Access to installed libraries. Besides a program's own tree, the loader reads only these. See
//! `docs/guides/libraries.md`.

use crate::{
    dependency::compare_versions,
    source::{SourceError, SourceTree},
};
use std::{collections::BTreeMap, sync::Arc};

/// The installed libraries.
pub trait Libraries: Send + Sync {
    /// Opens the folder of a library. Without a version it is the unversioned folder, else the highest version
    /// installed, of the first root that has either. Returns `None` if there is none.
    ///
    /// # Errors
    /// An error of the operating system.
    fn find(&self, name: &str, version: Option<&str>) -> Result<Option<Arc<dyn SourceTree>>, SourceError>;

    /// Lists the places where [`Libraries::find`] looks, for people.
    fn tried(&self, name: &str, version: Option<&str>) -> Vec<String>;
    /// Lists the search roots that are libraries themselves, which contain none. The user may have meant their parents.
    fn roots_that_are_libraries(&self) -> Vec<String> {
        Vec::new()
    }

    /// Lists names and versions of all installed libraries, for "did you mean". May be slow.
    fn names(&self) -> Vec<String>;
}

/// No library at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLibraries;

impl Libraries for NoLibraries {
    fn find(&self, _: &str, _: Option<&str>) -> Result<Option<Arc<dyn SourceTree>>, SourceError> {
        Ok(None)
    }

    fn tried(&self, _: &str, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Libraries in memory, by folder name (`utils`, `utils@1.0`): one root.
#[derive(Clone, Default)]
pub struct MemoryLibraries(pub BTreeMap<String, Arc<dyn SourceTree>>);

impl Libraries for MemoryLibraries {
    fn find(&self, name: &str, version: Option<&str>) -> Result<Option<Arc<dyn SourceTree>>, SourceError> {
        let folders: Vec<&str> = self.0.keys().map(String::as_str).collect();
        Ok(folder_of(name, version, &folders).and_then(|folder| self.0.get(&folder).cloned()))
    }

    fn tried(&self, name: &str, version: Option<&str>) -> Vec<String> {
        vec![shown(name, version)]
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

/// Chooses the folder of a library among those of a root.
pub(crate) fn folder_of(name: &str, version: Option<&str>, folders: &[&str]) -> Option<String> {
    if let Some(version) = version {
        let folder = format!("{name}@{version}");
        return folders.contains(&&*folder).then_some(folder);
    }
    if folders.contains(&name) {
        return Some(name.to_owned());
    }
    let versions = folders.iter().filter_map(|folder| folder.strip_prefix(name)?.strip_prefix('@'));
    versions.max_by(|a, b| compare_versions(a, b)).map(|version| format!("{name}@{version}"))
}

pub(crate) fn shown(name: &str, version: Option<&str>) -> String {
    version.map_or_else(|| name.to_owned(), |version| format!("{name}@{version}"))
}

#[cfg(not(target_arch = "wasm32"))]
pub use disk::DiskLibraries;

#[cfg(not(target_arch = "wasm32"))]
mod disk {
    use super::{Libraries, folder_of, shown};
    use crate::{
        manifest::LIBRARY,
        source::{DiskTree, SourceError, SourceTree},
    };
    use std::{fs, io::ErrorKind, path::PathBuf, sync::Arc};

    /// Libraries in folders on disk, searched in order. A folder that does not exist holds none.
    #[derive(Clone, Debug, Default)]
    pub struct DiskLibraries {
        /// The roots: `--lib`, then `LLM_DO_LIBS`.
        pub roots: Vec<PathBuf>,
    }

    impl DiskLibraries {
        /// Lists the names of the folders in a root. A folder whose name begins with a dot is not a library.
        fn folders(root: &PathBuf) -> Result<Vec<String>, SourceError> {
            let entries = match fs::read_dir(root) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Ok(Vec::new());
                }
                Err(error) => {
                    return Err(SourceError::Io(format!(
                        "{} cannot be read: {}",
                        root.display(),
                        error.kind()
                    )));
                }
            };
            let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
            Ok(names.filter(|name| !name.starts_with('.')).collect())
        }
    }

    impl Libraries for DiskLibraries {
        fn find(
            &self,
            name: &str,
            version: Option<&str>,
        ) -> Result<Option<Arc<dyn SourceTree>>, SourceError> {
            for root in &self.roots {
                // A folder that is there needs no listing; the highest version does.
                let exact = root.join(shown(name, version));
                let folder = match exact.is_dir() {
                    true => Some(exact),
                    false if version.is_some() => None,
                    false => {
                        let folders = Self::folders(root)?;
                        let folders: Vec<&str> = folders.iter().map(String::as_str).collect();
                        folder_of(name, None, &folders)
                            .map(|folder| root.join(folder))
                            .filter(|it| it.is_dir())
                    }
                };
                if let Some(folder) = folder {
                    return Ok(Some(Arc::new(DiskTree::of_library(&folder)?)));
                }
            }
            Ok(None)
        }

        fn roots_that_are_libraries(&self) -> Vec<String> {
            let libraries = self.roots.iter().filter(|root| root.join(LIBRARY).is_file());
            libraries.map(|root| root.display().to_string()).collect()
        }

        fn tried(&self, name: &str, version: Option<&str>) -> Vec<String> {
            self.roots.iter().map(|root| root.join(shown(name, version)).display().to_string()).collect()
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> =
                self.roots.iter().filter_map(|root| Self::folders(root).ok()).flatten().collect();
            names.sort();
            names.dedup();
            names
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unversioned_folder_comes_first_then_the_highest_version() {
        let folders = ["a@1.9", "a@1.10", "a-b", "b", "b@2"];
        assert_eq!(folder_of("a", None, &folders).as_deref(), Some("a@1.10"));
        assert_eq!(folder_of("a", Some("1.9"), &folders).as_deref(), Some("a@1.9"));
        assert_eq!(folder_of("b", None, &folders).as_deref(), Some("b"));
        assert_eq!(folder_of("a", Some("3"), &folders), None);
        assert_eq!(folder_of("c", None, &folders), None);
    }
}
