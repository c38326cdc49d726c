//! Installing packages of npm and PyPI that hold servers.
//!
//! The registry's own tool installs: `npm`, or the `pip` of a new virtual environment. It runs confined: it reaches the
//! hosts that the operator has granted, writes to the folder of the package, and runs no code of a package, neither
//! npm's scripts nor a build of Python. The package is recorded only after all of it is there.

use crate::{
    environment::Environment,
    package::{BadPackage, Installed, Package, Packages, Registry},
    registry_tools::{Given, Source, Tools},
};
use llm_do_core::authority::Network;
use llm_do_sandbox::confine::{Confinement, Tier};
use serde_json::Value;
use std::{
    ffi::OsString,
    fmt,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The file in which `pip` reports what it has installed.
const REPORT: &str = "llm-do-report.json";

/// A package to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    registry: Registry,
    name: String,
    /// An exact version, or a tag or range of which the registry's tool takes the newest version. `None`: the newest
    /// one.
    version: Option<String>,
}

impl From<Package> for Wanted {
    fn from(package: Package) -> Self {
        Self { registry: package.registry, name: package.name, version: Some(package.version) }
    }
}

impl Wanted {
    /// Parses a package as `npx` and `uvx` do: `NAME`, `NAME@VERSION`, and of PyPI `NAME==VERSION` and other ranges.
    ///
    /// # Errors
    /// The text is something else: a folder, an archive, a repository, an address.
    pub fn parse(registry: Registry, text: &str) -> Result<Self, String> {
        let (name, version) = match (registry, text.char_indices().skip(1).find(|(_, c)| *c == '@')) {
            (_, Some((at, _))) => (&text[..at], &text[at + 1..]),
            (Registry::Pypi, None) => {
                text.split_at(text.find(['=', '<', '>', '~', '!']).unwrap_or(text.len()))
            }
            (Registry::Npm, None) => (text, ""),
        };
        let is_version = |c: char| c.is_ascii_alphanumeric() || ".,=<>~^*!+_-".contains(c);
        if !registry.has_name(name) || !version.chars().all(is_version) {
            return Err(format!("`{text}` is no name of a package, with or without a version"));
        }
        let version = Some(version).filter(|version| !["", "latest"].contains(version)).map(str::to_owned);
        Ok(Self { registry, name: name.to_owned(), version })
    }

    /// Returns the registry of the package.
    pub fn registry(&self) -> Registry {
        self.registry
    }

    /// Returns the program that is started if no program is named: the only one, or the one with the package's name.
    ///
    /// # Errors
    /// The package has several programs, and none with its name.
    pub fn main_program(&self, installed: &Installed) -> Result<String, String> {
        let name = self.name.rsplit('/').next().unwrap_or_default();
        match &*installed.programs {
            [only] => Ok(only.clone()),
            programs => {
                programs.iter().find(|program| normal(program) == normal(name)).cloned().ok_or_else(|| {
                    format!("{} has several programs: {}", installed.package, programs.join(", "))
                })
            }
        }
    }

    /// Returns the package at an exact version, if one is wanted.
    fn exact(&self) -> Option<Package> {
        let version = self.version.clone()?;
        let package = Package { registry: self.registry, name: self.name.clone(), version };
        package.to_string().parse().ok()
    }
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, " {version}"))
    }
}

/// Installs packages for the servers of this user.
pub struct Installer<'a> {
    /// The installed packages.
    pub packages: Packages,
    /// The operator's environment.
    pub environment: &'a Environment,
    /// The confinement of the registries' tools.
    pub confinement: Confinement,
}

impl Installer<'_> {
    /// Returns the source of a package, as the registry's tool reports it with the operator's configuration of that
    /// tool.
    ///
    /// # Errors
    /// The tool does not run, or its configuration names a registry that can't be used.
    pub async fn source(&self, wanted: &Wanted) -> Result<Source, String> {
        let (_lock, place) = self.place()?;
        let real = fs::canonicalize(place.path()).map_err(|error| self.failed(&error))?;
        self.tools(&real).source(wanted.registry, &wanted.name).await
    }

    /// Returns the network that an installation from there needs: the source's hosts, where the system can restrict
    /// processes to hosts.
    pub fn network(&self, source: &Source) -> Network {
        match self.confinement {
            Confinement::Tier(Tier::Namespaces) => source.network(),
            _ => Network::On,
        }
    }

    fn tools<'a>(&'a self, folder: &'a Path) -> Tools<'a> {
        Tools { environment: self.environment, confinement: self.confinement, folder }
    }

    /// Installs a package with that network, unless it is installed. `integrity` is the hash that its archive must
    /// have.
    ///
    /// # Errors
    /// The package is not installed. Nothing of it is left.
    pub async fn install(
        &self,
        wanted: &Wanted,
        integrity: Option<&str>,
        source: &Source,
        network: &Network,
    ) -> Result<Installed, String> {
        if self.confinement == Confinement::Tier(Tier::Landlock) {
            return Err("installing sets the modes of files, which a process may not do where there are no namespaces \
                        (`llm-do doctor` says what is missing)"
                .to_owned());
        }
        let failed = |error: io::Error| self.failed(&error);
        let (_lock, place) = self.place()?;
        let installed = match self.present(wanted, integrity)? {
            Some(installed) => installed,
            None => {
                let real = fs::canonicalize(place.path()).map_err(failed)?;
                let made = self.make(wanted, real, source, network).await?;
                check(&made, integrity)?;
                match self.packages.find(&made.package).map_err(failed)? {
                    // A tag or a range led to a version that is there.
                    Some(installed) => installed,
                    None => {
                        self.packages.keep(&made).map_err(failed)?;
                        let _ = place.keep();
                        made
                    }
                }
            }
        };
        Ok(installed)
    }

    /// Makes a new folder among those of the packages, and takes the lock that keeps other commands away from it.
    fn place(&self) -> Result<(File, TempDir), String> {
        let make = || {
            let folder = self.packages.folder();
            fs::create_dir_all(folder)?;
            let lock = File::create(folder.join("lock"))?;
            lock.lock()?;
            self.packages.sweep()?;
            Ok((lock, tempfile::Builder::new().prefix("package-").tempdir_in(folder)?))
        };
        make().map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.packages.folder().display())
    }

    /// Returns the package, if it is installed at the exact version that is wanted.
    ///
    /// # Errors
    /// The package is installed with another hash, or its record can't be read.
    pub fn present(&self, wanted: &Wanted, integrity: Option<&str>) -> Result<Option<Installed>, String> {
        let Some(package) = wanted.exact() else { return Ok(None) };
        let found = self.packages.find(&package);
        let found = found.map_err(|error| self.failed(&error))?;
        found.as_ref().map_or(Ok(()), |installed| check(installed, integrity))?;
        Ok(found)
    }

    async fn make(
        &self,
        wanted: &Wanted,
        folder: PathBuf,
        source: &Source,
        network: &Network,
    ) -> Result<Installed, String> {
        let installation = Installation { tools: self.tools(&folder), source, network };
        let (version, integrity, programs) = match wanted.registry {
            Registry::Npm => installation.npm(wanted).await?,
            Registry::Pypi => installation.pypi(wanted).await?,
        };
        let package = Package { registry: wanted.registry, name: wanted.name.clone(), version };
        let package: Package = package.to_string().parse().map_err(|error: BadPackage| error.to_string())?;
        if programs.is_empty() {
            return Err(format!("the package {package} has no program that could be started"));
        }
        Ok(Installed { package, integrity, programs, folder })
    }
}

fn check(installed: &Installed, integrity: Option<&str>) -> Result<(), String> {
    match integrity {
        Some(integrity) if integrity != installed.integrity => Err(format!(
            "the archive of {} has the hash {}, and the hash that it should have is {integrity}",
            installed.package, installed.integrity
        )),
        _ => Ok(()),
    }
}

/// The facts of an installed package: its version, the hash of its archive, its programs.
type Facts = (String, String, Vec<String>);

/// The installation of one package.
struct Installation<'a> {
    tools: Tools<'a>,
    source: &'a Source,
    network: &'a Network,
}

impl Installation<'_> {
    async fn npm(&self, wanted: &Wanted) -> Result<Facts, String> {
        let folder = self.tools.folder;
        let spec = format!("{}@{}", wanted.name, wanted.version.as_deref().unwrap_or("latest"));
        let flags =
            ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
        let mut args: Vec<OsString> = vec!["install".into()];
        args.extend(flags.map(OsString::from));
        args.extend(self.source.args.iter().cloned());
        args.extend(["--prefix".into(), folder.into(), "--".into(), spec.into()]);
        self.run(Path::new("npm"), args).await?;
        let wrong = |what: &str| format!("`npm` has not written {what}");
        let lock = json(&folder.join("package-lock.json")).ok_or_else(|| wrong("package-lock.json"))?;
        let entry = &lock["packages"][format!("node_modules/{}", wanted.name)];
        let text = |key: &str| entry[key].as_str().map(str::to_owned).ok_or_else(|| wrong(key));
        let programs = match &entry["bin"] {
            Value::Object(programs) => programs.keys().cloned().collect(),
            _ => Vec::new(),
        };
        Ok((text("version")?, text("integrity")?, programs))
    }

    async fn pypi(&self, wanted: &Wanted) -> Result<Facts, String> {
        let folder = self.tools.folder;
        self.tools.virtual_environment(folder).await?;
        let spec = match wanted.version.as_deref() {
            Some(version) if version.starts_with(|c: char| c.is_ascii_digit()) => {
                format!("{}=={version}", wanted.name)
            }
            Some(range) => format!("{}{range}", wanted.name),
            None => wanted.name.clone(),
        };
        let flags =
            ["--only-binary=:all:", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "--quiet"];
        let mut args: Vec<OsString> = ["-m", "pip", "install"].map(OsString::from).to_vec();
        args.extend(flags.map(OsString::from));
        let report = folder.join(REPORT);
        args.extend(["--report".into(), report.clone().into(), "--".into(), spec.into()]);
        self.run(&folder.join("bin/python3"), args).await?;
        let wrong = |what: &str| format!("`pip` has not written {what}");
        let report = json(&report).ok_or_else(|| wrong("its report"))?;
        let installed = report["install"].as_array().into_iter().flatten();
        let mut asked = installed.filter(|package| package["requested"] == true);
        let package = asked.next().ok_or_else(|| wrong("what it has installed"))?;
        let (name, version) = (package["metadata"]["name"].as_str(), package["metadata"]["version"].as_str());
        let hash = package["download_info"]["archive_info"]["hashes"]["sha256"].as_str();
        let (Some(name), Some(version)) = (name, version) else {
            return Err(wrong("name and version of the package"));
        };
        let hash =
            hash.ok_or("the index states no SHA-256 of the archive, so that it can't be recognised later")?;
        let programs = self.scripts(name).map_err(|error| format!("its programs can't be read: {error}"))?;
        Ok((version.to_owned(), format!("sha256:{hash}"), programs))
    }

    /// Returns the programs of a distribution in the virtual environment.
    fn scripts(&self, name: &str) -> io::Result<Vec<String>> {
        let mut scripts = Vec::new();
        for python in fs::read_dir(self.tools.folder.join("lib"))? {
            let packages = python?.path().join("site-packages");
            for entry in fs::read_dir(packages)? {
                let entry = entry?;
                let of = entry.file_name().to_string_lossy().into_owned();
                let of = of.strip_suffix(".dist-info").and_then(|of| of.rsplit_once('-'));
                if of.is_none_or(|(of, _)| normal(of) != normal(name)) {
                    continue;
                }
                let text = fs::read_to_string(entry.path().join("entry_points.txt")).unwrap_or_default();
                let lines =
                    text.lines().map(str::trim).skip_while(|line| *line != "[console_scripts]").skip(1);
                let lines = lines.take_while(|line| !line.starts_with('['));
                scripts.extend(lines.filter_map(|line| Some(line.split_once('=')?.0.trim().to_owned())));
            }
        }
        Ok(scripts)
    }

    /// Runs a tool with the network.
    async fn run(&self, program: &Path, args: Vec<OsString>) -> Result<(), String> {
        self.tools.run(program, args, Given::variables(&self.source.env), self.network).await.map(drop)
    }
}

fn json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Returns the name of a distribution in normalised spelling.
fn normal(name: &str) -> String {
    let name = name.split('[').next().unwrap_or_default().to_lowercase();
    name.split(['-', '_', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_wanted_by_name_and_version() {
        let of = |registry, text| {
            let wanted = Wanted::parse(registry, text)?;
            Ok::<_, String>((wanted.name, wanted.version.unwrap_or_default()))
        };
        let is = |name: &str, version: &str| Ok((name.to_owned(), version.to_owned()));
        assert_eq!(of(Registry::Npm, "@a/server@1.2.3"), is("@a/server", "1.2.3"));
        assert_eq!(of(Registry::Npm, "@a/server"), is("@a/server", ""));
        assert_eq!(of(Registry::Npm, "server@latest"), is("server", ""));
        assert_eq!(of(Registry::Npm, "server@^1"), is("server", "^1"));
        assert_eq!(of(Registry::Pypi, "mcp[cli]==2.3.0"), is("mcp[cli]", "==2.3.0"));
        assert_eq!(of(Registry::Pypi, "mcp@2.3.0"), is("mcp", "2.3.0"));
        for (registry, text) in [
            (Registry::Npm, "./server.tgz"),
            (Registry::Npm, "server@npm:other@1"),
            (Registry::Npm, "server@file:../x"),
            (Registry::Npm, "github:a/b"),
            (Registry::Npm, "-g"),
            (Registry::Pypi, "git+https://a.example/x"),
            (Registry::Pypi, "server @ https://a.example/x.whl"),
            (Registry::Pypi, "--index-url=https://a.example"),
        ] {
            assert!(of(registry, text).is_err(), "{text}");
        }
    }
}
