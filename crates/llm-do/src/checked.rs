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
    Diagnostic, check,
    source::OverlayTree,
    target::{self, Target},
};
use std::{collections::BTreeMap, sync::Arc};

/// Everything that `llm-do check` finds in the program that the settings name, with these texts in the place of its files.
/// Paths are relative to the program's root. Code is read as it is on disk, by processes that may change nothing.
///
/// # Errors
/// The user's configuration is wrong.
pub fn findings(settings: &Settings, unsaved: BTreeMap<String, String>) -> Result<Vec<Diagnostic>, Problem> {
    let Settings { request, around, environment, home, toolsets, .. } = settings;
    let Target { mut source, warnings, .. } = match target::find(request, around) {
        Ok(target) => target,
        Err(found) => return Ok(found.0),
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
    source.tree = Arc::new(OverlayTree::new(source.tree, unsaved));
    let mut found = warnings;
    found.extend(check(source, host));
    Ok(found)
}
