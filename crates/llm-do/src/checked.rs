//! Findings of `check` in a program, with texts that are not saved yet.

use crate::{
    kinds,
    loaded::user_config,
    problem::Problem,
    python::{PythonFor, code_reader},
    settings::Settings,
};
use llm_do_core::worker::{CodeEntry, CodeModule, CodePackage, ToolLevel};
use llm_do_migrate::Migration;
use llm_do_models::Providers;
use llm_do_program::{
    Cancel, Checker, Diagnostic,
    code::{CodeProblem, CodeReader, ModuleTools},
    language::Symbols,
    target::{self, Target},
};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// Hears what code is inspected next: `the tools of the project`. An inspection may start an interpreter and take seconds.
pub type Announce = Arc<dyn Fn(&str) + Send + Sync>;

/// A program in an editor, with texts that are not saved yet.
pub struct Editing {
    /// Findings of `llm-do check` that precede the reading of the program.
    warnings: Vec<Diagnostic>,
    /// The checker, or `None` if the program does not exist.
    checker: Option<Checker>,
    /// The user's configuration, and the time of its last change.
    config: (PathBuf, Option<SystemTime>),
}

impl Editing {
    /// Opens the program that the settings name. Its code is read as it is on disk, by processes that may change
    /// nothing.
    ///
    /// # Errors
    /// The user's configuration is wrong.
    pub fn open(settings: &Settings) -> Result<Self, Problem> {
        Self::with(settings, true, None)
    }

    /// Opens the program like [`Editing::open`], and announces each inspection of its code before it begins.
    ///
    /// # Errors
    /// The errors of [`Editing::open`].
    pub fn open_announcing(settings: &Settings, announce: Announce) -> Result<Self, Problem> {
        Self::with(settings, true, Some(announce))
    }

    /// Opens a program whose code is not read: no process is started.
    ///
    /// # Errors
    /// The errors of [`Editing::open`].
    pub fn without_code(settings: &Settings) -> Result<Self, Problem> {
        Self::with(settings, false, None)
    }

    fn with(settings: &Settings, reads_code: bool, announce: Option<Announce>) -> Result<Self, Problem> {
        let Settings { request, around, environment, home, toolsets, .. } = settings;
        let config = home.join("config.yaml");
        let config = (config.clone(), changed_at(&config));
        let Target { source, warnings, .. } = match target::find(request, around) {
            Ok(target) => target,
            Err(found) => return Ok(Self { warnings: found.0, checker: None, config }),
        };
        let user = user_config(home)?;
        let known = Providers::new(|_| None);
        let mut providers: Vec<String> = known.names().into_iter().map(str::to_owned).collect();
        providers.push("local".into());
        providers.extend(user.providers.into_keys());
        let python = PythonFor {
            project: source.tree.root(),
            home,
            environment,
            confiner: Arc::default(),
            only_looks: true,
        };
        let mut host =
            request.host(around, kinds::described(toolsets.clone(), home), providers, Arc::new(Migration));
        host.code = reads_code.then(|| {
            let reader = code_reader(python.python());
            match announce {
                Some(announce) => Arc::new(Announced { reader, announce }) as Arc<dyn CodeReader>,
                None => reader,
            }
        });
        host.limits = user.limits;
        Ok(Self { warnings, checker: Some(Checker::new(source, host)), config })
    }

    /// Returns all findings of `llm-do check` in the program, with these texts in the place of its files. Paths are
    /// relative to the program's root.
    pub fn findings(&mut self, unsaved: BTreeMap<String, String>) -> Vec<Diagnostic> {
        let mut found = self.warnings.clone();
        if let Some(checker) = &mut self.checker {
            found.extend(checker.check(unsaved).0);
        }
        found
    }

    /// [`Editing::findings`], which `cancel` can end early while it reads everything. Returns `None` then.
    pub fn findings_unless(
        &mut self,
        unsaved: BTreeMap<String, String>,
        cancel: &Cancel,
    ) -> Option<Vec<Diagnostic>> {
        let mut found = self.warnings.clone();
        if let Some(checker) = &mut self.checker {
            found.extend(checker.check_unless(unsaved, cancel)?.0);
        }
        Some(found)
    }

    /// Tells that a file or folder has changed on disk. The path is relative to the program's root.
    pub fn changed(&mut self, path: &str) {
        if let Some(checker) = &mut self.checker {
            checker.changed(path);
        }
    }

    /// Compares the files with those that were read, for callers without a watcher of files. The next findings are those of
    /// the files as they are now.
    pub fn look_again(&mut self) {
        if let Some(checker) = &mut self.checker {
            checker.look_again();
        }
    }

    /// Returns false if the user's configuration has changed since the program was opened. The caller then opens it again.
    pub fn is_current(&self) -> bool {
        changed_at(&self.config.0) == self.config.1
    }

    /// Makes the next findings read everything.
    pub fn forget(&mut self) {
        if let Some(checker) = &mut self.checker {
            checker.forget();
        }
    }

    /// Returns the symbols of the program as of the last findings, or `None` if there is no program.
    pub fn symbols(&self) -> Option<Symbols<'_>> {
        self.checker.as_ref()?.symbols()
    }
}

/// A reader of code that announces its inspections.
struct Announced {
    reader: Arc<dyn CodeReader>,
    announce: Announce,
}

impl CodeReader for Announced {
    fn tools(&self, level: &ToolLevel) -> Vec<ModuleTools> {
        (self.announce)(&format!("the tools of {}", level.name));
        self.reader.tools(level)
    }

    fn schema(&self, package: &CodePackage, module: &CodeModule, class: &str) -> Result<Value, CodeProblem> {
        (self.announce)(&format!("the schema `{class}`"));
        self.reader.schema(package, module, class)
    }

    fn sha256(&self, levels: &[ToolLevel], entry: Option<&CodeEntry>) -> Arc<str> {
        self.reader.sha256(levels, entry)
    }
}

fn changed_at(file: &Path) -> Option<SystemTime> {
    fs::metadata(file).ok()?.modified().ok()
}
