//! Findings of `check` in a program, with texts that are not saved yet.

use crate::{
    kinds,
    loaded::user_config,
    problem::Problem,
    python::{PythonFor, code_reader},
    settings::Settings,
};
use llm_do_models::Providers;
use llm_do_program::{
    Checker, Diagnostic, Extent,
    target::{self, Target},
};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// Factor between the time that it took to read a program and the time for which the result is used. An editor spends
/// at most one part in this many of the time on reading the program again.
const RELIED_ON: u32 = 20;

/// A program in an editor, with texts that are not saved yet.
pub struct Editing {
    /// Findings of `llm-do check` that precede the reading of the program.
    warnings: Vec<Diagnostic>,
    /// The checker, or `None` if the program does not exist.
    checker: Option<Checker>,
    current_until: Instant,
}

impl Editing {
    /// Opens the program that the settings name. Its code is read as it is on disk, by processes that may change
    /// nothing.
    ///
    /// # Errors
    /// The user's configuration is wrong.
    pub fn open(settings: &Settings) -> Result<Self, Problem> {
        let Settings { request, around, environment, home, toolsets, .. } = settings;
        let current_until = Instant::now();
        let Target { source, warnings, .. } = match target::find(request, around) {
            Ok(target) => target,
            Err(found) => return Ok(Self { warnings: found.0, checker: None, current_until }),
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
        let mut host = request.host(around, kinds::reading(toolsets.clone(), home), providers);
        host.code = Some(code_reader(python.python()));
        host.limits = user.limits;
        Ok(Self { warnings, checker: Some(Checker::new(source, host)), current_until })
    }

    /// Returns all findings of `llm-do check` in the program, with these texts in the place of its files. Paths are
    /// relative to the program's root.
    pub fn findings(&mut self, unsaved: BTreeMap<String, String>) -> Vec<Diagnostic> {
        let mut found = self.warnings.clone();
        if let Some(checker) = &mut self.checker {
            let begin = Instant::now();
            let (of_program, extent) = checker.check(unsaved);
            found.extend(of_program);
            if extent == Extent::Everything {
                self.current_until = Instant::now() + begin.elapsed() * RELIED_ON;
            }
        }
        found
    }

    /// Returns true if the rest of the program, such as files that another program changes, may still be taken as
    /// unchanged since it was read. If not, the caller opens it again.
    pub fn is_current(&self) -> bool {
        Instant::now() < self.current_until
    }
}
