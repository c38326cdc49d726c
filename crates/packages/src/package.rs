//! A complete, checked library in memory. It is checked before any file is written, so that the installed files are the
//! checked ones.

use crate::{
    Host,
    error::{Error, Message},
};
use llm_do_core::authority::Place;
use llm_do_program::{
    Diagnostic, check_exports,
    contents::{Contents, check_path, visit},
    dependency::Dependency,
    diagnostics::{codes, tidy},
    library_name,
    manifest::{Manifest, UNVERSIONED},
    skills::skills_in,
    source::{DiskTree, MemoryTree},
    span::Span,
};
use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A library.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) exports: Vec<String>,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) contents: Contents,
    /// The commit, if the library comes from a repository.
    pub(crate) commit: Option<String>,
    /// True if it is a skill.
    pub(crate) is_skill: bool,
    files: Vec<File>,
}

/// A file of a library.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    pub(crate) executable: bool,
}

impl Package {
    /// Reads the library in a folder, or the skills in a folder that is no library.
    pub(crate) fn read_all(folder: &Path, host: &dyn Host) -> Result<Vec<Self>, Error> {
        let skills = DiskTree::open(folder).map(|tree| skills_in(&tree)).unwrap_or_default();
        match skills.is_empty() {
            true => Ok(vec![Self::read(folder, host)?]),
            false => skills.iter().map(|skill| Self::read(&folder.join(skill), host)).collect(),
        }
    }

    /// Checks the library of these files, or the skills in them, like [`Package::check`].
    pub(crate) fn check_all(
        files: Vec<File>,
        commit: &str,
        shown: &str,
        host: &dyn Host,
    ) -> Result<Vec<Self>, Error> {
        // Only `SKILL.md` files and manifests are looked for.
        let tree = MemoryTree::new(Place::new("/"), files.iter().map(|file| (&*file.path, "")));
        let skills = skills_in(&tree);
        if skills.is_empty() {
            return Ok(vec![Self::check(files, Some(commit.to_owned()), shown, host)?]);
        }
        let each = skills.iter().map(|skill| {
            let files = below(&files, skill);
            Self::check(files, Some(commit.to_owned()), &format!("{shown}#{skill}"), host)
        });
        each.collect()
    }

    /// Returns true if another version can't be told from this one: installing it again replaces it.
    pub(crate) fn is_unversioned(&self) -> bool {
        self.is_skill && self.version == UNVERSIONED
    }

    /// Reads a folder. It must contain only regular files.
    pub(crate) fn read(folder: &Path, host: &dyn Host) -> Result<Self, Error> {
        let shown = folder.display().to_string();
        let wrong =
            |reason: String| Message::wrong(format!("`{shown}` cannot be read as a library: {reason}"));
        let tree = DiskTree::open(folder).map_err(|error| wrong(error.to_string()))?;
        // A whole home or file system is not read before it is known to be a library.
        let mut found = Vec::new();
        if Manifest::load_library(&tree, &mut found).is_none() {
            tidy(&mut found);
            return Err(Error::Found(found).during(&format!("this is in `{shown}`")));
        }
        let mut files = Vec::new();
        visit(&tree, &mut |path, bytes| {
            let executable = is_executable(&folder.join(&path));
            files.push(File { path, bytes, executable });
        })
        .map_err(|error| Error::from(wrong(error.to_string())))?;
        Self::check(files, None, &shown, host)
    }

    /// Checks a library of these files. `shown` is its name in messages.
    pub(crate) fn check(
        files: Vec<File>,
        commit: Option<String>,
        shown: &str,
        host: &dyn Host,
    ) -> Result<Self, Error> {
        let wrong = |reason: String| Message::wrong(format!("`{shown}` cannot be installed: {reason}"));
        let mut contents = Contents::default();
        for file in &files {
            check_path(&file.path).map_err(|error| wrong(error.to_string()))?;
            contents.insert(file.path.clone(), &file.bytes);
        }
        if let Some((one, other)) = case_clash(&contents) {
            return Err(
                wrong(format!("`{one}` and `{other}` are one path on systems that ignore case")).into()
            );
        }
        let tree =
            MemoryTree::new(Place::new("/"), files.iter().map(|file| (&*file.path, file.bytes.clone())));
        let mut found = Vec::new();
        let manifest = Manifest::load_library(&tree, &mut found);
        let place = manifest.as_ref().and_then(|manifest| manifest.file.as_ref()).map(Span::whole);
        if let Some(manifest) = &manifest {
            found.extend(check_exports(Arc::new(tree), host.toolsets()));
            if let Some(Err(reason)) = manifest.name.as_deref().map(library_name::check) {
                found.push(Diagnostic::error(codes::RESERVED_NAME, reason).or_at(place.as_ref()));
            }
        }
        if found.iter().any(Diagnostic::is_error) {
            tidy(&mut found);
            return Err(Error::Found(found).during(&format!("this is in `{shown}`")));
        }
        let is_skill = manifest.as_ref().is_some_and(Manifest::is_skill);
        let Some(Manifest { name: Some(name), version: Some(version), exports, dependencies, .. }) = manifest
        else {
            return Err(wrong("it has no name or no version".into()).into());
        };
        let exports = exports.into_iter().map(|(export, _)| export).collect();
        Ok(Self { name, version, exports, dependencies, contents, commit, is_skill, files })
    }

    /// Returns `NAME@VERSION`.
    pub(crate) fn label(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }

    /// Returns the library in one of its folders.
    pub(crate) fn inner(&self, folder: &str, shown: &str, host: &dyn Host) -> Result<Self, Error> {
        Self::check(below(&self.files, folder), self.commit.clone(), shown, host)
    }

    /// Writes all files into an empty folder and waits until they are on the disk.
    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        let mut folders = vec![folder.to_owned()];
        for file in &self.files {
            let path = folder.join(&file.path);
            if let Some(parent) = path.parent().filter(|parent| !folders.iter().any(|known| known == parent))
            {
                fs::create_dir_all(parent)?;
                folders.push(parent.to_owned());
            }
            let mut options = fs::OpenOptions::new();
            options.write(true).create_new(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(
                &mut options,
                if file.executable { 0o755 } else { 0o644 },
            );
            let mut out = options.open(&path)?;
            out.write_all(&file.bytes)?;
            out.sync_all()?;
        }
        for folder in folders {
            sync(&folder)?;
        }
        Ok(())
    }
}

/// Returns the files in a folder, by their paths in it.
fn below(files: &[File], folder: &str) -> Vec<File> {
    let inside = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix(folder)?.strip_prefix('/')?.to_owned();
        Some(File { path, bytes: file.bytes.clone(), executable: file.executable })
    });
    inside.collect()
}

/// Waits until a folder's entries are on the disk.
pub(crate) fn sync(folder: &Path) -> std::io::Result<()> {
    // Elsewhere a folder cannot be opened for that.
    if cfg!(unix) { fs::File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Returns two paths, of files or folders, that differ only in case.
fn case_clash(contents: &Contents) -> Option<(String, String)> {
    let mut known: BTreeMap<String, &str> = BTreeMap::new();
    for (path, _) in contents.files() {
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        for part in ends.map(|end| &path[..end]) {
            match known.insert(part.to_lowercase(), part) {
                Some(other) if other != part => return Some((other.to_owned(), part.to_owned())),
                _ => {}
            }
        }
    }
    None
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o100 != 0)
}

#[cfg(not(unix))]
fn is_executable(_: &Path) -> bool {
    false
}

/// Returns the folder of a project that a path names. It must be inside the project, with links resolved.
pub(crate) fn inside(root: &Path, path: &str) -> Result<PathBuf, Error> {
    let wrong = |reason: &str| Message::wrong(format!("the dependency `{path}` {reason}"));
    let root = fs::canonicalize(root)
        .map_err(|error| Message::wrong(format!("`{}` cannot be opened: {error}", root.display())))?;
    let whole = fs::canonicalize(root.join(path)).map_err(|_| wrong("does not exist"))?;
    if !whole.starts_with(&root) {
        return Err(wrong("leads out of the project")
            .hint("install it by its path, then name it by its name")
            .into());
    }
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_in_case_clash_as_folders_too() {
        let clash = |paths: &[&str]| {
            let mut contents = Contents::default();
            paths.iter().for_each(|path| contents.insert((*path).to_owned(), b""));
            case_clash(&contents)
        };
        assert_eq!(clash(&["a/x", "a/y", "b"]), None);
        assert_eq!(clash(&["A/x", "a/y"]), Some(("A".into(), "a".into())));
        assert_eq!(clash(&["x/Ä", "x/ä"]), Some(("x/Ä".into(), "x/ä".into())));
    }
}
