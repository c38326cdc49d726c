//! The sources of a worker's tools in code, nearest first: its imports and its folder, then its package, then each
//! library that its package depends on. See `docs/guides/python-tools.md`.
//!
//! Each folder is listed only once, and not at all if the host does not run Python.

use crate::{
    context::Context,
    diagnostics::{Diagnostic, codes},
    package::Package,
    resolve::WorkerFile,
    source::folder_of,
    span::Span,
    tool_folders::Looked,
    tool_reference::{self, Policy, in_folder},
    toolsets::Toolsets,
    yaml::{Data, Node},
};
use llm_do_core::worker::{CodeModule, ToolLevel, ToolModule};
use std::sync::{Arc, PoisonError};

/// The level of a worker's own imports and folder.
const OWN: &str = "the worker";

impl Context<'_> {
    /// Returns the levels of a worker's tools. `own` are the toolsets that the worker declares, `all` those merged with
    /// its package's.
    pub(crate) fn tool_levels(
        &self,
        located: &WorkerFile,
        keys: &Node,
        own: &Toolsets,
        all: &mut Toolsets,
        found: &mut Vec<Diagnostic>,
    ) -> Arc<[ToolLevel]> {
        let folder = folder_of(&located.path);
        let imports = keys.get("imports").and_then(|imports| imports.get("tools"));
        let imports: Vec<(&str, &Span)> = imports.into_iter().flat_map(Node::texts).collect();
        let policy = self.policy();
        let Some(code) = self.host.toolsets.code().map(|kind| kind.name()) else {
            for reference in imports {
                if !tool_reference::resolve(self.package, folder, reference, policy, found).is_empty() {
                    found.push(no_python().at(reference.1));
                }
            }
            return Arc::default();
        };
        if !policy.tools {
            for reference in imports {
                tool_reference::resolve(self.package, folder, reference, policy, found);
            }
            if let Some(custom) = own.get(code) {
                let (what, span) = match names_tools(custom) {
                    Some(named) => (format!("`toolsets.{code}` names Python tools"), named),
                    None => (format!("the toolset `{code}` is Python"), &custom.span),
                };
                found.push(tool_reference::not_imported(&what).at(span));
            }
            // The inherited configuration has no tools to apply to.
            all.remove(code);
            return Arc::default();
        }
        let custom = all.get(code);
        if let Some(module) = custom.and_then(|custom| custom.get("module")) {
            if let Some((_, span)) = imports.first() {
                found.push(
                    Diagnostic::error(
                        codes::CONFLICT,
                        format!("`imports.tools` and `toolsets.{code}.module` cannot be used together"),
                    )
                    .at(span)
                    .related("the only module that the worker has", &module.span)
                    .help("keep one of them"),
                );
            }
            let named = custom.and_then(|custom| custom.get("tools"));
            return self.only(folder, module, named, found);
        }
        if imports.is_empty() {
            let looked = self.of_folder(folder);
            found.extend_from_slice(&looked.problems);
            return Arc::clone(&looked.levels);
        }
        let mut modules = Vec::new();
        for reference in imports {
            modules.extend(tool_reference::resolve(self.package, folder, reference, policy, found));
        }
        let looked = self.with_own(folder, modules);
        found.extend(looked.problems);
        looked.levels
    }

    /// Returns the levels that all workers of the package have. Empty if the host does not run Python.
    pub(crate) fn common_tools(&self) -> Arc<[ToolLevel]> {
        let runs = self.host.toolsets.code().is_some() && self.policy().tools;
        if runs { self.far().levels } else { Arc::default() }
    }

    /// Returns the imports of Python that the operator and the program allow.
    pub(crate) fn policy(&self) -> Policy {
        let program = &self.packages.program().manifest.tools;
        Policy {
            tools: self.host.import_tools,
            modules: self.host.module_imports || program.allow_module_imports,
        }
    }

    /// Returns the levels for `toolsets.custom.module`: the worker has only this module, and only the tools that
    /// `tools` names.
    fn only(
        &self,
        folder: &str,
        module: &Node,
        named: Option<&Node>,
        found: &mut Vec<Diagnostic>,
    ) -> Arc<[ToolLevel]> {
        let Some(text) = module.as_text() else { return Arc::default() };
        let reference = (text, &module.span);
        let modules = tool_reference::resolve(self.package, folder, reference, self.policy(), found);
        let single = modules.len() == 1;
        // With several files, it is unknown which file defines which tool. The toolset itself offers only the named
        // tools.
        let names: Vec<Arc<str>> =
            named.filter(|_| single).into_iter().flat_map(Node::texts).map(|(name, _)| name.into()).collect();
        let modules = modules.into_iter().map(|module| ToolModule { module, names: names.clone() }).collect();
        level(self.package, OWN, modules, found).into_iter().collect()
    }

    /// Returns the levels of a worker in that folder that names no tools itself.
    fn of_folder(&self, folder: &str) -> Arc<Looked> {
        let folders = || self.package.tool_folders.by_folder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders().get(folder) {
            return Arc::clone(known);
        }
        // Not under the lock, because it reads the disk.
        let looked = Arc::new(self.with_own(folder, Vec::new()));
        Arc::clone(folders().entry(folder.to_owned()).or_insert(looked))
    }

    /// Returns the levels of a worker in that folder that imports these modules.
    fn with_own(&self, folder: &str, imported: Vec<CodeModule>) -> Looked {
        let far = self.package.tool_folders.far.get_or_init(|| self.far());
        let mut problems = Vec::new();
        let mut modules = imported;
        if !folder.is_empty() {
            modules.extend(conventional(self.package, &format!("{folder}/"), &mut problems));
        }
        if modules.is_empty() && problems.is_empty() {
            return far.clone();
        }
        let own = level(self.package, OWN, plain(modules), &mut problems);
        let mut levels: Vec<ToolLevel> = own.into_iter().chain(far.levels.iter().cloned()).collect();
        once(&mut levels);
        problems.extend_from_slice(&far.problems);
        Looked { levels: levels.into(), problems }
    }

    /// Returns the levels that all workers of the package have.
    fn far(&self) -> Looked {
        let mut problems = Vec::new();
        let name = if self.package.library.is_some() { "this library" } else { "the project" };
        let own = self.of_package(&mut problems);
        let mut levels: Vec<ToolLevel> =
            level(self.package, name, plain(own), &mut problems).into_iter().collect();
        for library in self.package.dependencies.iter().map(|id| self.packages.get(*id)) {
            let name = format!("the library `{}`", library.library.as_deref().unwrap_or_default());
            let modules = conventional(library, "", &mut problems);
            levels.extend(level(library, &name, plain(modules), &mut problems));
        }
        once(&mut levels);
        Looked { levels: levels.into(), problems }
    }

    /// Returns the modules that the package's manifest names, or the conventional ones.
    fn of_package(&self, problems: &mut Vec<Diagnostic>) -> Vec<CodeModule> {
        let tree = self.package.tree.as_ref();
        let places = &self.package.manifest.tools;
        let mut modules = Vec::new();
        if places.modules.iter().any(|(_, named)| named.is_none()) {
            modules.extend(kept(tool_reference::conventional(tree, ""), problems).unwrap_or_default());
        }
        for root in &places.roots {
            modules.extend(kept(in_folder(tree, root), problems).unwrap_or_default());
        }
        for (path, named) in &places.modules {
            if let Some(span) = named {
                let reference = (path.as_str(), span);
                modules.extend(tool_reference::resolve(self.package, "", reference, self.policy(), problems));
            }
        }
        modules
    }
}

/// Returns `tools.py`, `tools.ts` and `tools/` in a folder of a package; `prefix` is empty for its root, or ends with a
/// slash.
fn conventional(package: &Package, prefix: &str, problems: &mut Vec<Diagnostic>) -> Vec<CodeModule> {
    let tree = package.tree.as_ref();
    let mut modules: Vec<CodeModule> = Vec::new();
    modules.extend(kept(tool_reference::conventional(tree, prefix), problems).unwrap_or_default());
    modules.extend(kept(in_folder(tree, &format!("{prefix}tools")), problems).unwrap_or_default());
    modules
}

fn kept<T>(looked: Result<T, Box<Diagnostic>>, problems: &mut Vec<Diagnostic>) -> Option<T> {
    looked.map_err(|problem| problems.push(*problem)).ok()
}

fn plain(modules: Vec<CodeModule>) -> Vec<ToolModule> {
    modules.into_iter().map(|module| ToolModule { module, names: Vec::new() }).collect()
}

/// Creates a level, if it has modules. The code of a pinned library must match the lock file. The whole library is
/// compared, because Python reads the files itself.
fn level(
    package: &Package,
    name: &str,
    modules: Vec<ToolModule>,
    problems: &mut Vec<Diagnostic>,
) -> Option<ToolLevel> {
    if modules.is_empty() {
        return None;
    }
    problems.extend_from_slice(package.changes());
    Some(ToolLevel { name: name.into(), package: Arc::clone(&package.code), modules })
}

/// Keeps each module only in the nearest level, and removes empty levels.
fn once(levels: &mut Vec<ToolLevel>) {
    let mut seen: Vec<CodeModule> = Vec::new();
    for level in levels.iter_mut() {
        level.modules.retain(|module| {
            let new = !seen.contains(&module.module);
            if new {
                seen.push(module.module.clone());
            }
            new
        });
    }
    levels.retain(|level| !level.modules.is_empty());
}

/// Returns the place where a configuration of the toolset names tools, if it does.
fn names_tools(custom: &Node) -> Option<&Span> {
    let named =
        custom.entries().iter().find(|entry| entry.key != "approval" && entry.value.data != Data::Null)?;
    Some(&named.key_span)
}

/// Returns the finding for Python code in a host that does not run Python.
pub(crate) fn no_python() -> Diagnostic {
    Diagnostic::error(codes::NOT_SUPPORTED, "this names Python code, but Python is not available here")
}
