//! Tools that the provider of a worker's model does not have. See `docs/reference/server-side-tools.md`.
//!
//! A run finds the same when it opens its models. `--model` may name another model, so these findings do not keep a run
//! from starting.

use super::scope::Scope;
use crate::{
    diagnostics::{Diagnostic, codes},
    effective::{Effective, server_tools},
    manifest::Manifest,
    package::Package,
    yaml::Node,
};
use llm_do_core::{model::ModelName, server_tool::ToolHost};

pub(super) fn of_worker(scope: &Scope<'_>, effective: &Effective, found: &mut Vec<Diagnostic>) {
    if effective.definition.server_tools.is_empty() {
        return;
    }
    let program = scope.packages.program();
    let package = scope.packages.get(effective.located.package);
    // The load of the worker has found the errors of the list itself.
    let tools = server_tools::read(&effective.keys, &mut Vec::new());
    for model in models(effective, program) {
        let Some(host) = host(&model, &package.manifest, &program.manifest) else { continue };
        for (tool, item) in &tools {
            if let Some(refused) = tool.refused_by(host, model.provider()) {
                found.push(
                    Diagnostic::error(codes::SERVER_TOOL, refused)
                        .at(&item.span)
                        .note(format!("`{}` runs with `{model}`", effective.definition.id))
                        .help("remove it, or choose another model"),
                );
            }
        }
    }
}

/// Returns the models that the files name for a worker.
fn models(effective: &Effective, program: &Package) -> Vec<ModelName> {
    let own = &effective.definition.models;
    if !own.is_empty() {
        return own.clone();
    }
    let manifest = &program.manifest;
    let named = manifest.model.as_ref().map(Node::each).unwrap_or_default().iter().filter_map(Node::as_text);
    let named = named.filter_map(|name| {
        manifest.models.get(name).map_or(Some(name), |profile| profile.model.as_text())?.parse().ok()
    });
    named.collect()
}

/// Returns the interface behind a model, if the files declare it.
fn host(model: &ModelName, own: &Manifest, program: &Manifest) -> Option<ToolHost> {
    let declared = [own, program].into_iter().find_map(|manifest| manifest.providers.get(model.provider()));
    match declared {
        Some(declared) => Some(ToolHost::of_api(&declared.api)),
        None => ToolHost::of(model.provider(), model.model()),
    }
}
