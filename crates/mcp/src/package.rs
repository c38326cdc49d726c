//! Packages of npm and PyPI that hold servers: their names, and their folders on this machine.

use crate::store::{read, write};
use llm_do_core::schema::sha256;
use serde::{Deserialize, Serialize};
use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
    str::FromStr,
};

/// A package at an exact version: `npm:NAME@VERSION`, `pypi:NAME@VERSION`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Package {
    /// The registry of the package.
    pub registry: Registry,
    /// The name in the registry. A name of PyPI may have extras: `mcp[cli]`.
    pub name: String,
    /// The version.
    pub version: String,
}

/// A registry of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// The registry npm, of JavaScript packages.
    Npm,
    /// The registry PyPI, of Python packages.
    Pypi,
}

/// The form of a package in the schema of the configuration. [`Package`] reads each text that fits.
pub(crate) const PACKAGE: &str = concat!(
    r"^(npm:(@[a-z0-9~][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*",
    r"|pypi:[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9._,-]+\])?)",
    r"@[0-9][A-Za-z0-9.+!_-]*$"
);

/// The form of the hash of a package: npm's (`sha512-…`) or pip's (`sha256:…`).
pub(crate) const INTEGRITY: &str = "^sha[0-9]+[-:][A-Za-z0-9+/=]+$";

/// The text is no package at an exact version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no package at an exact version: write npm:NAME@VERSION or pypi:NAME@VERSION")]
pub struct BadPackage(String);

impl Registry {
    /// Returns the word before the name.
    fn prefix(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pypi => "pypi",
        }
    }

    /// Returns true if a package of this registry can have that name.
    pub fn has_name(self, name: &str) -> bool {
        let ends = |text: &str, ok: fn(char) -> bool| text.starts_with(ok) && text.ends_with(ok);
        match self {
            Self::Npm => {
                let part = |text: &str| {
                    let ok = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "._~-".contains(c);
                    !text.is_empty() && !text.starts_with(['.', '_', '-']) && text.chars().all(ok)
                };
                match name.strip_prefix('@') {
                    Some(scoped) => {
                        scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name))
                    }
                    None => part(name),
                }
            }
            Self::Pypi => {
                let (name, extras) = match name.split_once('[') {
                    Some((name, extras)) => (name, extras.strip_suffix(']').unwrap_or_default()),
                    None => (name, "-"),
                };
                let ok = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
                ends(name, |c| c.is_ascii_alphanumeric())
                    && name.chars().all(ok)
                    && !extras.is_empty()
                    && extras.chars().all(|c| ok(c) || c == ',')
            }
        }
    }
}

impl FromStr for Package {
    type Err = BadPackage;

    fn from_str(text: &str) -> Result<Self, BadPackage> {
        let bad = || BadPackage(text.to_owned());
        let (registry, rest) = text.split_once(':').ok_or_else(bad)?;
        let registry = [Registry::Npm, Registry::Pypi].into_iter().find(|known| known.prefix() == registry);
        let (name, version) = rest.rsplit_once('@').ok_or_else(bad)?;
        let is_version = |version: &str| {
            version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| c.is_ascii_alphanumeric() || ".+!_-".contains(c))
        };
        match registry {
            Some(registry) if registry.has_name(name) && is_version(version) => {
                Ok(Self { registry, name: name.to_owned(), version: version.to_owned() })
            }
            _ => Err(bad()),
        }
    }
}

impl TryFrom<String> for Package {
    type Error = BadPackage;

    fn try_from(text: String) -> Result<Self, BadPackage> {
        text.parse()
    }
}

impl From<Package> for String {
    fn from(package: Package) -> Self {
        package.to_string()
    }
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}@{}", self.registry.prefix(), self.name, self.version)
    }
}

/// The packages of servers that are installed on this machine, in the user's folder of llm-do.
#[derive(Clone, Debug)]
pub struct Packages {
    folder: PathBuf,
}

/// An installed package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Installed {
    /// The package.
    pub package: Package,
    /// The hash of the package's archive, as the registry's tool states it.
    pub integrity: String,
    /// The names of the package's programs.
    pub programs: Vec<String>,
    /// The folder that holds the package with its dependencies.
    pub(crate) folder: PathBuf,
}

impl Installed {
    /// Returns the path of one of the package's programs.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        let programs = match self.package.registry {
            Registry::Npm => "node_modules/.bin",
            Registry::Pypi => "bin",
        };
        self.folder.join(programs).join(name)
    }
}

impl Packages {
    pub(crate) fn in_folder(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    fn record(&self, package: &Package) -> PathBuf {
        self.folder.join(format!("{}.json", sha256(package.to_string().as_bytes())))
    }

    /// Returns the package, if it is installed.
    ///
    /// # Errors
    /// The record of the package can't be read.
    pub fn find(&self, package: &Package) -> io::Result<Option<Installed>> {
        let installed: Option<Installed> = read(&self.record(package))?;
        Ok(installed.filter(|installed| installed.folder.is_dir()))
    }

    /// Records an installed package.
    pub(crate) fn keep(&self, installed: &Installed) -> io::Result<()> {
        write(&self.record(&installed.package), installed)
    }

    /// Removes folders that no record names, which an interrupted installation has left.
    pub(crate) fn sweep(&self) -> io::Result<()> {
        let (mut used, mut folders) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|suffix| suffix == "json") {
                used.extend(read::<Installed>(&path)?.map(|installed| installed.folder));
            }
        }
        folders.retain(|folder| !used.contains(folder));
        folders.iter().try_for_each(fs::remove_dir_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_has_an_exact_version() {
        for text in
            ["npm:@scope/server-x@2026.8.31", "npm:server@1.0.0-rc.1", "pypi:mcp[cli]@2.3.0", "pypi:a@1!2"]
        {
            assert_eq!(text.parse::<Package>().unwrap().to_string(), text);
        }
        for text in [
            "npm:server",
            "npm:server@latest",
            "npm:server@^1.0.0",
            "npm:../up@1.0.0",
            "npm:@a/../b@1.0.0",
            "npm:https://a.example/x.tgz@1",
            "pypi:server @1.0",
            "pypi:-r@1",
            "git:x@1",
            "npm:-g@1 --foo",
        ] {
            assert!(text.parse::<Package>().is_err(), "{text}");
        }
    }
}
