//! The program of a run as the cluster stores it: a list of files, named by its hash, and each file by its own.

use crate::{dispatch::Dispatch, error::ClusterError};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

/// The most bytes of a program's files.
const MOST_BYTES: u64 = 256 << 20;
/// The folder in which Python keeps what it has compiled.
const COMPILED: &str = "__pycache__";

/// The files of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bundle {
    /// The files by their paths below the program's folder.
    files: BTreeMap<String, BundleFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BundleFile {
    sha256: String,
    bytes: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    executable: bool,
}

/// A bundle that was made from a folder.
pub struct Packed {
    bundle: Bundle,
    root: PathBuf,
}

impl Bundle {
    /// Makes a bundle of the files in a program's folder: all except those whose names begin with a dot, `__pycache__`,
    /// and the folders in `without`, which runs write to.
    ///
    /// # Errors
    /// A file can't be read, a link leads out of the folder, or the files are too large.
    pub fn pack(root: &Path, without: &[PathBuf]) -> Result<Packed, ClusterError> {
        let root = fs::canonicalize(root).map_err(ClusterError::file(root))?;
        let mut bundle = Self::default();
        let mut bytes = 0;
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).map_err(ClusterError::file(&folder))? {
                let path = entry.map_err(ClusterError::file(&folder))?.path();
                let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                    let shown = path.display();
                    return Err(ClusterError::NotPortable(format!("the name of {shown} is not Unicode")));
                };
                if name.starts_with('.')
                    || name == COMPILED
                    || without.iter().any(|left| path.starts_with(left))
                {
                    continue;
                }
                let real = fs::canonicalize(&path).map_err(ClusterError::file(&path))?;
                if !real.starts_with(&root) {
                    return Err(ClusterError::NotPortable(format!(
                        "{} is a link that leads out of the program's folder, and nodes have only this folder: copy it there",
                        path.display()
                    )));
                }
                let found = fs::metadata(&path).map_err(ClusterError::file(&path))?;
                if found.is_dir() {
                    if path == real {
                        folders.push(path);
                        continue;
                    }
                    let shown = path.display();
                    return Err(ClusterError::NotPortable(format!(
                        "{shown} is a link to a folder, which no bundle keeps"
                    )));
                }
                if !found.is_file() {
                    continue;
                }
                bytes += found.len();
                if bytes > MOST_BYTES {
                    return Err(ClusterError::NotPortable(format!(
                        "the program's folder has more than {} MB of files ({} is one of them): keep data in a folder that all \
                         nodes share, and mount that",
                        MOST_BYTES >> 20,
                        path.display()
                    )));
                }
                let content = fs::read(&path).map_err(ClusterError::file(&path))?;
                let below = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                let file = BundleFile {
                    sha256: hash(&content),
                    bytes: content.len() as u64,
                    executable: is_executable(&found),
                };
                bundle.files.insert(below, file);
            }
        }
        Ok(Packed { bundle, root })
    }

    /// Opens the program of that bundle in a folder of its own below `cache`: fetches what is not there, and repairs what was
    /// changed there.
    ///
    /// # Errors
    /// The cluster does not have the bundle, or the folder can't be written.
    pub(crate) async fn open(dispatch: &Dispatch, name: &str, cache: &Path) -> Result<PathBuf, ClusterError> {
        let folder = cache.join(name);
        let listing = dispatch.bundle_listing(name).await?.ok_or_else(|| {
            ClusterError::Missing(format!("the cluster does not have the program {name} of the run"))
        })?;
        if hash(listing.as_bytes()) != *name {
            return Err(ClusterError::Damaged(format!(
                "the program {name} of the run was changed in the database"
            )));
        }
        let bundle: Self =
            serde_json::from_str(&listing).map_err(|error| ClusterError::Damaged(error.to_string()))?;
        for (path, file) in &bundle.files {
            let target = folder.join(path);
            if fs::read(&target).is_ok_and(|content| hash(&content) == file.sha256) {
                continue;
            }
            let content = dispatch.file(&file.sha256).await?;
            let content = content.filter(|content| hash(content) == file.sha256);
            let content = content.ok_or_else(|| {
                ClusterError::Missing(format!("the cluster lacks the file {path} of the program {name}"))
            })?;
            write_whole(&target, &content, file.executable).map_err(ClusterError::file(&target))?;
        }
        bundle.remove_others(&folder)?;
        Ok(folder)
    }

    /// Removes files that are not in the bundle: a program would read them.
    fn remove_others(&self, folder: &Path) -> Result<(), ClusterError> {
        let mut folders = vec![folder.to_owned()];
        while let Some(current) = folders.pop() {
            let entries = match fs::read_dir(&current) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(ClusterError::file(&current))?,
            };
            for entry in entries {
                let entry = entry.map_err(ClusterError::file(&current))?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(ClusterError::file(&current))?);
                let name = entry.file_name().to_string_lossy().into_owned();
                let below = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().replace('\\', "/");
                let is_made_here = name.starts_with('.') || name == COMPILED;
                if kind.is_dir() && !is_made_here {
                    folders.push(path);
                } else if !is_made_here && !self.files.contains_key(&below) {
                    fs::remove_file(&path).map_err(ClusterError::file(&path))?;
                }
            }
        }
        Ok(())
    }
}

impl Packed {
    /// Stores the bundle in the cluster. Files that the cluster has are not sent. Returns its name.
    ///
    /// # Errors
    /// A file can't be read or has changed meanwhile, or the database can't be reached.
    pub async fn store(&self, dispatch: &Dispatch) -> Result<String, ClusterError> {
        let listing =
            serde_json::to_string(&self.bundle).map_err(|error| ClusterError::Damaged(error.to_string()))?;
        let hashes: Vec<&str> = self.bundle.files.values().map(|file| &*file.sha256).collect();
        let mut missing: HashSet<String> = dispatch.missing_files(&hashes).await?.into_iter().collect();
        for (path, file) in &self.bundle.files {
            if !missing.remove(&file.sha256) {
                continue;
            }
            let path = self.root.join(path);
            let content = fs::read(&path).map_err(ClusterError::file(&path))?;
            if hash(&content) != file.sha256 {
                let shown = path.display();
                return Err(ClusterError::NotPortable(format!(
                    "{shown} has changed while the program was stored; try again"
                )));
            }
            dispatch.store_file(&content).await?;
        }
        dispatch.store_bundle(&listing, &hashes).await
    }
}

/// Writes a file under its name only when it is whole.
fn write_whole(path: &Path, content: &[u8], executable: bool) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    io::Write::write_all(&mut file, content)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        file.as_file().set_permissions(fs::Permissions::from_mode(if executable { 0o755 } else { 0o644 }))?;
    }
    #[cfg(not(unix))]
    let _ = executable;
    file.persist(path).map(drop).map_err(|error| error.error)
}

fn is_executable(found: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        found.permissions().mode() & 0o100 != 0
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        false
    }
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a `String` does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_has_the_programs_files_and_not_what_nodes_make() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        for path in [
            "main.worker",
            "tools/a.py",
            ".env",
            ".llm-do/runs/x",
            "tools/__pycache__/a.pyc",
            "out/result.txt",
        ] {
            put(path);
        }
        let root = fs::canonicalize(dir.path()).unwrap();
        let packed = Bundle::pack(&root, &[root.join("out")]).unwrap();
        let paths: Vec<&str> = packed.bundle.files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["main.worker", "tools/a.py"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_program_is_refused() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("secret"), "x").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), dir.path().join("link")).unwrap();
        let refused = Bundle::pack(dir.path(), &[]).err().unwrap().to_string();
        assert!(refused.contains("leads out of the program's folder"), "{refused}");
    }
}
