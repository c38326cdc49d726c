//! Installed libraries: finding one by name, listing them, and all facts about one.

use crate::{
    PackageManager,
    error::{Error, Message},
    root::folders,
    users::{self, User},
};
use llm_do_program::{
    contents::{Contents, Difference},
    dependency::DependencyKind,
    diagnostics::nearest,
    library::{DiskLibraries, Libraries},
    lock::{Lock, Pinned},
    manifest::Manifest,
    source::{DiskTree, SourceTree},
};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An installed folder.
#[derive(Debug)]
pub struct Listed {
    /// Name of the folder in its root.
    pub entry: String,
    /// The folder.
    pub folder: PathBuf,
    /// The library's manifest, or the reason why the folder is no usable library.
    pub manifest: Result<Box<Manifest>, String>,
}

/// All facts about an installed library.
#[derive(Debug)]
pub struct Info {
    /// The library's name.
    pub name: String,
    /// The library's version.
    pub version: String,
    /// The library's folder.
    pub folder: PathBuf,
    /// The library's manifest.
    pub manifest: Manifest,
    /// The library's files.
    pub contents: Contents,
    /// The size of the files.
    pub bytes: u64,
    /// Projects and libraries that use the library.
    pub users: Vec<User>,
    /// The current project's pin of that name, and the differences of the installed files from it.
    pub pinned: Option<(Arc<Pinned>, Vec<Difference>)>,
}

/// An installed library that a command names.
pub(crate) struct Installed {
    pub(crate) folder: PathBuf,
    /// Name of the folder in its root.
    pub(crate) entry: String,
}

impl PackageManager<'_> {
    /// Returns all installed libraries, by root and name.
    ///
    /// # Errors
    /// A folder of libraries can't be read.
    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let mut all = Vec::new();
        for root in &self.roots {
            all.extend(entries(root)?.into_iter().map(|entry| listed(root, entry)));
        }
        Ok(all)
    }

    /// Returns all facts about one library: its description, its contents, its users, and whether the current project
    /// pins it in this form.
    ///
    /// # Errors
    /// The library is not installed, or its folder is no usable library.
    pub fn info(&self, library: &str) -> Result<Info, Error> {
        let one = self.find(library, true)?;
        let unusable = |problem: String| {
            Message::wrong(format!("`{}` is not a usable library: {problem}", one.folder.display()))
        };
        let (tree, manifest) = load(&one.folder).map_err(unusable)?;
        let contents = Contents::of(&tree).map_err(|error| unusable(error.to_string()))?;
        let name = manifest.name.clone().unwrap_or_default();
        let version = manifest.version.clone().unwrap_or_default();
        let bytes = contents
            .files()
            .filter_map(|(path, _)| fs::symlink_metadata(one.folder.join(path)).ok())
            .map(|metadata| metadata.len())
            .sum();
        let users = self.users(&one.folder, &name, &version);
        let pinned = self.pinned(&name).map(|pinned| {
            let differences = pinned.contents.compare(&contents);
            (pinned, differences)
        });
        Ok(Info { name, version, folder: one.folder, manifest, contents, bytes, users, pinned })
    }

    /// Finds an installed library: `NAME`, which must then have one folder only unless `newest` will do, or
    /// `NAME@VERSION`.
    pub(crate) fn find(&self, library: &str, newest: bool) -> Result<Installed, Error> {
        let Ok(DependencyKind::Named { name, version }) = DependencyKind::parse(library) else {
            return Err(Message::wrong(format!("`{library}` is not the name of an installed library"))
                .hint("`llm-do lib list` shows their names")
                .into());
        };
        let mut there = Vec::new();
        for root in &self.roots {
            for entry in entries(root)? {
                let (its, its_version) = entry.split_once('@').unwrap_or((&entry, ""));
                if its == name && version.as_deref().is_none_or(|version| version == its_version) {
                    there.push(Installed { folder: root.join(&entry), entry });
                }
            }
        }
        if there.len() > 1 && (newest || version.is_some()) {
            let libraries = DiskLibraries { roots: self.roots.clone() };
            let found = libraries.find(&name, version.as_deref()).ok().flatten();
            let place = found.map(|tree| tree.root().to_string());
            let same = |one: &Installed| {
                one.folder.canonicalize().ok().and_then(|f| f.to_str().map(str::to_owned)) == place
            };
            if let Some(at) = there.iter().position(same) {
                return Ok(there.swap_remove(at));
            }
        }
        match there.len() {
            1 => Ok(there.remove(0)),
            0 => {
                let names: Vec<String> =
                    self.roots.iter().flat_map(|root| folders(root).unwrap_or_default()).collect();
                let mut message = Message::wrong(format!("the library `{library}` is not installed"));
                if let Some(near) = nearest(library, names.iter().map(String::as_str)).first() {
                    message = message.hint(format!("did you mean `{near}`?"));
                }
                Err(message.hint("`llm-do lib list` shows those that are").into())
            }
            _ => {
                let all: Vec<String> = there.iter().map(|one| format!("`{}`", one.entry)).collect();
                Err(Message::wrong(format!("`{library}` is installed more than once: {}", all.join(", ")))
                    .hint("name one of them with its version")
                    .into())
            }
        }
    }

    /// Returns the users of the library in a folder.
    pub(crate) fn users(&self, folder: &Path, name: &str, version: &str) -> Vec<User> {
        users::users(folder, name, version, &self.roots, self.project.as_deref(), &self.projects)
    }

    /// Returns the current project's pin of that name.
    fn pinned(&self, name: &str) -> Option<Arc<Pinned>> {
        let tree = DiskTree::open(self.project.as_deref()?).ok()?;
        let tree: &dyn SourceTree = &tree;
        Lock::load(tree, &mut Vec::new())?.get(name).cloned()
    }
}

fn entries(root: &Path) -> Result<Vec<String>, Error> {
    folders(root).map_err(|error| {
        let shown = root.display();
        Message::failed(format!("the libraries' folder `{shown}` cannot be read: {error}")).into()
    })
}

fn listed(root: &Path, entry: String) -> Listed {
    let folder = root.join(&entry);
    let manifest = load(&folder).and_then(|(_, manifest)| {
        let label = format!(
            "{}@{}",
            manifest.name.as_deref().unwrap_or_default(),
            manifest.version.as_deref().unwrap_or_default()
        );
        if entry == label || Some(&*entry) == manifest.name.as_deref() {
            Ok(Box::new(manifest))
        } else {
            Err(format!("the folder holds `{label}`"))
        }
    });
    Listed { entry, folder, manifest }
}

fn load(folder: &Path) -> Result<(DiskTree, Manifest), String> {
    let tree = DiskTree::open(folder).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    match Manifest::load_library(&tree, &mut found) {
        Some(manifest) => Ok((tree, manifest)),
        None => Err(found.iter().find(|one| one.is_error()).map(ToString::to_string).unwrap_or_default()),
    }
}
