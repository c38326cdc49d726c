//! The first phase of opening a program: finding its files, without reading them.

use crate::{problem::Problem, settings::Settings};
use llm_do_core::authority::Place;
use llm_do_program::{
    Source, Start,
    source::OverlayTree,
    target::{self, Target},
};
use llm_do_runs::CreateError;
use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// A program that has been found, and the folder of its runs. [`Located::load`] reads it.
pub struct Located {
    pub(crate) settings: Settings,
    pub(crate) target: Target,
    pub(crate) runs_dir: PathBuf,
}

impl Located {
    /// Finds the program that the settings name.
    ///
    /// # Errors
    /// There is no program, or its folder of runs is not its own.
    pub fn find(settings: Settings) -> Result<Self, Problem> {
        let target = target::find(&settings.request, &settings.around).map_err(Problem::Program)?;
        let runs_dir = match target.source.work {
            Some(_) => settings.home.join("runs"),
            None => own_runs(Path::new(target.source.tree.root().as_str()))?,
        };
        Ok(Self { settings, target, runs_dir })
    }

    /// Puts these texts in the place of the program's files, by path relative to its root. In a project, that worker becomes
    /// the entry.
    #[must_use]
    pub fn edited(mut self, texts: BTreeMap<String, String>, entry: &str) -> Self {
        let source = &mut self.target.source;
        source.tree = Arc::new(OverlayTree::new(Arc::clone(&source.tree), texts));
        if let Start::Entry(_) = source.start {
            source.start = Start::Entry(Some(entry.to_owned()));
            self.settings.request.entry = Some(entry.to_owned());
        }
        self
    }

    /// Keeps the journals of the program's runs in that folder, in place of its own.
    #[must_use]
    pub fn recorded_in(mut self, runs_dir: PathBuf) -> Self {
        self.runs_dir = runs_dir;
        self
    }

    /// Returns the folder that the workers see as their own: a project's root, or for a lone worker file the current
    /// directory.
    pub fn folder(&self) -> &Place {
        self.target.source.work.as_ref().unwrap_or_else(|| self.target.source.tree.root())
    }

    /// Returns the files of the program, and its entry.
    pub fn source(&self) -> &Source {
        &self.target.source
    }

    /// Returns the folder of the runs' journals.
    pub fn runs_dir(&self) -> &Path {
        &self.runs_dir
    }
}

/// Returns the folder of a project's runs. It must be the project's own: a symbolic link in its place, which a cloned
/// project may bring along, would send journals wherever it leads.
fn own_runs(root: &Path) -> Result<PathBuf, CreateError> {
    let (home, runs) = (root.join(".llm-do"), root.join(".llm-do").join("runs"));
    for folder in [home, runs.clone()] {
        if fs::symlink_metadata(&folder).is_ok_and(|found| found.is_symlink()) {
            let source =
                io::Error::other("it is a symbolic link, and a project keeps its runs in its own folder");
            return Err(CreateError { path: folder, source });
        }
    }
    Ok(runs)
}
