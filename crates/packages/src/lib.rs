//! The package manager (docs/guides/libraries.md): installs libraries and skills from folders and repositories, pins
//! them in a project's lock file, lists and removes them.
//!
//! [`PackageManager`] has a method for each command. It prints nothing: each method returns data, which the command line
//! shows. [`Host`] is the only way back to the program around it. [`transaction`] changes a folder completely or not at
//! all; `init` and `migrate` use it too.

pub mod error;
mod export;
mod git;
mod installed;
mod package;
mod pins;
mod remove;
mod resolver;
mod root;
pub mod skill;
pub mod transaction;
mod users;

pub use error::{Error, Message};
pub use export::{Exported, export};
pub use git::short as short_commit;
pub use installed::{Info, Listed};
pub use pins::{Change, Pinning};
pub use remove::Removed;
pub use resolver::Outcome;
pub use root::{Placed, write_durably};
pub use users::User;

use llm_do_core::toolset::ToolsetRegistry;
use llm_do_program::{Diagnostic, dependency::DependencyKind, lock::Lock};
use pins::{Concern, concern, pin};
use resolver::{Keep, Resolver};
use root::Root;
use std::{
    io,
    path::{Path, PathBuf},
};

/// The program around the package manager.
pub trait Host {
    /// Returns the kinds of toolsets that the workers of a library may have.
    fn toolsets(&self) -> ToolsetRegistry;

    /// Makes a folder that the user named, with those on the way, and returns its real path.
    ///
    /// # Errors
    /// The folder can't be made.
    fn make_folder(&self, path: &Path) -> io::Result<PathBuf>;

    /// Shows the user a note while a command works.
    fn note(&self, text: &str);

    /// Shows the user problems of a file that the command is about to replace.
    fn warn(&self, found: &[Diagnostic]);

    /// Shows the user that a repository is being fetched.
    fn fetching(&self, url: &str);

    /// Removes the display of [`Host::fetching`].
    fn fetched(&self);
}

/// Installed libraries, and the project whose dependencies they are.
pub struct PackageManager<'a> {
    /// The folder that relative paths of the command line refer to.
    pub here: PathBuf,
    /// The folders of installed libraries: absolute, at least one. Libraries are installed into the first.
    pub roots: Vec<PathBuf>,
    /// The project around the current directory, or the named one.
    pub project: Option<PathBuf>,
    /// The list of projects that pin libraries.
    pub projects: PathBuf,
    /// The program around.
    pub host: &'a dyn Host,
}

/// The result of an installation.
#[derive(Debug)]
pub struct Installation {
    /// The libraries that were asked for, and their dependencies.
    pub outcomes: Vec<Outcome>,
    /// The new state of the project's lock file, if the command concerns it.
    pub pinning: Option<Pinning>,
    /// Sentences about the next steps.
    pub notes: Vec<String>,
}

impl PackageManager<'_> {
    /// Installs one library, or the skills in a folder, and updates its pin if the project depends on it.
    ///
    /// # Errors
    /// The library can't be read, is wrong, needs one that is not installed, or is installed with other files.
    pub fn install(&self, spec: &str, force: bool) -> Result<Installation, Error> {
        let kind = DependencyKind::parse(spec).map_err(|reason| {
            Message::wrong(format!("`{spec}` cannot be installed: {reason}"))
                .hint("name a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR])")
        })?;
        let root = Root::open(&self.roots[0], self.host)?;
        let mut resolver = Resolver::new(&root, &self.roots, Lock::default(), self.host);
        resolver.force = force;
        let packages = resolver.install(&kind, &self.here)?;
        let outcomes = resolver.finish()?;
        let mut notes = Vec::new();
        let mut concerned: Vec<&str> = Vec::new();
        for package in &packages {
            let concern = match &self.project {
                Some(project) => concern(project, &package.name)?,
                None => Concern::NoProject,
            };
            match concern {
                Concern::Not(ref manifest) => {
                    notes.push(format!(
                        "to use it here, add `{}` to `dependencies` in {manifest}",
                        package.label()
                    ));
                }
                _ if package.exports.is_empty() && !package.is_skill => {
                    notes.push("it exports nothing, so none of its workers can be called".to_owned());
                }
                _ => {}
            }
            if matches!(concern, Concern::Depends) {
                concerned.push(&package.name);
            }
        }
        let pinning = match &self.project {
            Some(project) if !concerned.is_empty() => {
                Some(pin(project, Keep::Installed, &concerned, force, &root, self)?.1)
            }
            _ => None,
        };
        Ok(Installation { outcomes, pinning, notes })
    }

    /// Installs the project's dependencies, and writes its lock file. `locked` accepts only pinned libraries, and writes
    /// nothing.
    ///
    /// # Errors
    /// There is no project, or a dependency can't be installed.
    pub fn install_dependencies(&self, force: bool, locked: bool) -> Result<Installation, Error> {
        let Some(project) = &self.project else {
            return Err(Message::wrong("there is no project here whose dependencies could be installed")
                .hint("name its folder with --project DIR, or a library: `llm-do lib install PATH`")
                .into());
        };
        let root = Root::open(&self.roots[0], self.host)?;
        let keep = if locked { Keep::Everything } else { Keep::Nothing };
        let (outcomes, pinning) = pin(project, keep, &[], force, &root, self)?;
        let none = (pinning.libraries == 0).then(|| "this project names no dependencies".to_owned());
        Ok(Installation { outcomes, pinning: Some(pinning), notes: none.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program without toolsets that shows nothing.
    pub(crate) struct Silent;

    impl Host for Silent {
        fn toolsets(&self) -> ToolsetRegistry {
            ToolsetRegistry::built_in()
        }

        fn make_folder(&self, path: &Path) -> io::Result<PathBuf> {
            std::fs::create_dir_all(path)?;
            std::fs::canonicalize(path)
        }

        fn note(&self, _: &str) {}

        fn warn(&self, _: &[Diagnostic]) {}

        fn fetching(&self, _: &str) {}

        fn fetched(&self) {}
    }
}
