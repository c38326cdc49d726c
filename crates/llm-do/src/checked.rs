//! What `check` finds in a program, also over texts that are not saved yet.

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

/// For how many times as long as it took to read a program it may be relied on. Then at most one part in so many of the time
/// of somebody who types is spent on reading it again.
const RELIED_ON: u32 = 20;

/// A program that is edited, whose texts are not saved yet.
pub struct Editing {
    /// What `llm-do check` says before it reads the program.
    warnings: Vec<Diagnostic>,
    /// `None` if there is no such program.
    checker: Option<Checker>,
    current_until: Instant,
}

impl Editing {
    /// The program that the settings name. Its code is read as it is on disk, by processes that may change nothing.
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

    /// Everything that `llm-do check` finds in the program, with these texts in the place of its files. Paths are relative to
    /// the program's root.
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

    /// Whether the rest of the program, such as files that another program changes, may still be taken to be what it was when
    /// it was read. If not, it is opened again.
    pub fn is_current(&self) -> bool {
        Instant::now() < self.current_until
    }
}
