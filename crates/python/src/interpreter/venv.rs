//! Environments: folders with a `pyvenv.cfg`. This module only reads texts and runs nothing of an environment.

use llm_do_sandbox::read_regular;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Largest `pyvenv.cfg` or `.pth` file that is read, in bytes.
const LARGEST: u64 = 64 * 1024;

/// The file that makes a folder an environment.
pub(crate) const CONFIG: &str = "pyvenv.cfg";

/// An environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Venv {
    /// The folder of the environment, a real path.
    pub(crate) folder: PathBuf,
    /// The folder of the interpreter that made it, as its `pyvenv.cfg` says.
    pub(crate) home: Option<PathBuf>,
    /// The text of its `pyvenv.cfg`.
    pub(crate) config: Vec<u8>,
}

impl Venv {
    /// Returns the environment of an interpreter, if it belongs to one.
    pub(crate) fn of(interpreter: &Path) -> Option<Self> {
        let folder = interpreter.parent()?.parent()?;
        let config = read_regular(&folder.join(CONFIG), LARGEST).ok()?;
        let text = String::from_utf8_lossy(&config);
        let home = text.lines().filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "home");
        let home = home.map(|(_, home)| PathBuf::from(home.trim())).filter(|home| home.is_absolute());
        Some(Self { folder: fs::canonicalize(folder).ok()?, home, config })
    }

    /// Returns the folders of its packages.
    pub(crate) fn sites(&self) -> Vec<PathBuf> {
        sites(&self.folder.join("lib"))
    }

    /// Returns the folders that its `.pth` files add to the module path, as real paths: packages that are installed in
    /// place (`pip install -e`).
    pub(crate) fn added(&self) -> Vec<PathBuf> {
        let mut added = Vec::new();
        for site in self.sites() {
            for entry in fs::read_dir(&site).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.extension().is_none_or(|extension| extension != "pth") {
                    continue;
                }
                let Ok(text) = read_regular(&path, LARGEST) else { continue };
                let text = String::from_utf8_lossy(&text);
                let lines = text.lines().map(str::trim_end);
                let folders = lines.filter(|line| {
                    !line.is_empty() && !line.starts_with(['#', '\0']) && !line.starts_with("import")
                });
                let real = folders.filter_map(|line| fs::canonicalize(site.join(line)).ok());
                added.extend(real.filter(|folder| folder.is_dir() && !folder.starts_with(&self.folder)));
            }
        }
        added.sort();
        added.dedup();
        added
    }
}

/// Returns the folders of packages in a library folder: `lib/python3.11/site-packages`, on Debian `dist-packages`.
pub(super) fn sites(lib: &Path) -> Vec<PathBuf> {
    let versions = fs::read_dir(lib).into_iter().flatten().flatten().map(|entry| entry.path());
    let versions = versions
        .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"python3")));
    let mut sites: Vec<PathBuf> = versions
        .flat_map(|version| ["site-packages", "dist-packages"].map(|name| version.join(name)))
        .filter(|site| site.is_dir())
        .collect();
    sites.sort();
    sites
}
