//! What defines a program and is protected while it runs (`docs/reference/sandbox.md`).

use crate::{
    loading::Workers,
    package::{Package, Packages, protection as of_manifest},
    resolve::PackageId,
    source::Kind,
};
use llm_do_core::{
    authority::{Place, Protection},
    worker::CodeModule,
};

/// The protection of a loaded program: the files that its manifest names, its libraries, the folders in which a worker
/// looks for tools and templates, and the Python code that its workers import or could import. The caller adds the files
/// that loading has read.
pub(crate) fn protection(packages: &Packages, workers: &Workers, work: Option<&Place>) -> Protection {
    let program = packages.program();
    let root = program.tree.root();
    let mut defining: Vec<Place> = Vec::new();
    for (_, library) in packages.iter().filter(|(id, _)| *id != PackageId::PROGRAM) {
        defining.push(library.tree.root().clone());
    }
    let own = workers.values().filter(|worker| worker.located.package == PackageId::PROGRAM);
    for folder in own.filter_map(|worker| worker.located.path.rsplit_once('/').map(|(folder, _)| folder)) {
        let folder = root.join(folder);
        defining.extend(["tools", "tools.py", "templates"].map(|name| folder.join(name)));
    }
    let modules = modules(program, workers);
    defining.extend(modules.iter().filter_map(|module| match module {
        CodeModule::File(place) => Some(place.clone()),
        CodeModule::Installed { .. } => None,
    }));
    let importing = importing(program, &modules);
    for folder in &importing {
        defining.extend(packages_in(program, folder));
    }
    of_manifest(root, work, program.manifest.defining()).with_defining(defining).with_importing(importing)
}

/// The modules of the program's own code that its loaded workers have, as tools or as their entry.
fn modules(program: &Package, workers: &Workers) -> Vec<CodeModule> {
    let definitions = workers.values().map(|worker| &worker.definition);
    let of_worker = definitions.flat_map(|definition| {
        let levels = definition.tools.iter().filter(|level| level.package == program.code);
        let tools = levels.flat_map(|level| level.modules.iter().map(|it| it.module.clone()));
        let entry = definition.code.iter().filter(|code| code.package == program.code);
        tools.chain(entry.map(|code| code.module.clone())).collect::<Vec<_>>()
    });
    let mut modules: Vec<CodeModule> = Vec::new();
    for module in of_worker {
        if !modules.contains(&module) {
            modules.push(module);
        }
    }
    modules
}

/// The folders from which the modules import others: the root, the folder of each module and, where that is a package,
/// those around it.
fn importing(program: &Package, modules: &[CodeModule]) -> Vec<Place> {
    let tree = program.tree.as_ref();
    let mut folders = Vec::new();
    for module in modules {
        folders.push(tree.root().clone());
        let CodeModule::File(place) = module else { continue };
        let mut path = place.rest(tree.root()).unwrap_or("");
        while let Some((folder, _)) = path.rsplit_once('/') {
            folders.push(tree.root().join(folder));
            if !is_package(program, folder) {
                break;
            }
            path = folder;
        }
    }
    folders
}

fn is_package(program: &Package, folder: &str) -> bool {
    matches!(program.tree.kind(&format!("{folder}/__init__.py")), Ok(Some(Kind::File)))
}

/// The Python packages directly in a folder.
fn packages_in(program: &Package, folder: &Place) -> Vec<Place> {
    let tree = program.tree.as_ref();
    let Some(path) = folder.rest(tree.root()) else { return Vec::new() };
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    let entries = tree.list(path).unwrap_or_default().into_iter();
    let packages = entries.filter(|(name, kind)| *kind == Kind::Folder && is_package(program, &inside(name)));
    packages.map(|(name, _)| folder.join(&name)).collect()
}
