//! Removal of a library that is not in use.

use crate::{
    PackageManager,
    error::{Error, Message},
    root::{Root, clear},
    users::User,
};
use llm_do_program::{manifest::Manifest, source::DiskTree};
use std::path::{Path, PathBuf};

/// A removed library.
#[derive(Debug)]
pub struct Removed {
    /// `NAME@VERSION`, or the name of a link.
    pub entry: String,
    /// The folder that was removed.
    pub folder: PathBuf,
    /// Projects and libraries that used the library.
    pub users: Vec<User>,
}

impl PackageManager<'_> {
    /// Removes an installed library: `NAME` or `NAME@VERSION`. A library that is in use stays, unless `force`.
    ///
    /// # Errors
    /// The library is not installed, is installed more than once, is in use, or can't be removed.
    pub fn remove(&self, library: &str, force: bool) -> Result<Removed, Error> {
        self.roots.iter().for_each(|root| clear(root, self.host));
        let one = self.find(library, false)?;
        let root = Root::open(one.folder.parent().unwrap_or(Path::new("/")), self.host)?;
        let (name, version) = named(&one.folder, &one.entry);
        let users = self.users(&one.folder, &name, &version);
        if !users.is_empty() && !force {
            let told: String = users.iter().map(|user| format!("\n  {user}")).collect();
            return Err(Message::wrong(format!("`{}` is in use:{told}", one.entry))
                .hint("to remove it anyway: --force")
                .into());
        }
        root.take(&one.entry)?;
        Ok(Removed { entry: one.entry, folder: one.folder, users })
    }
}

/// Returns the name and version from the library's manifest, or else from the name of the folder.
fn named(folder: &Path, entry: &str) -> (String, String) {
    let tree = DiskTree::open(folder).ok();
    let manifest = tree.and_then(|tree| Manifest::load_library(&tree, &mut Vec::new()));
    match manifest.map(|manifest| (manifest.name, manifest.version)) {
        Some((Some(name), Some(version))) => (name, version),
        _ => {
            let (name, version) = entry.split_once('@').unwrap_or((entry, ""));
            (name.to_owned(), version.to_owned())
        }
    }
}
