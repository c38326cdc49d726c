//! The files that define a program and are protected while it runs (`docs/reference/sandbox.md`).

use crate::{
    check,
    load_options::LoadOptions,
    loading::{Loading, Workers},
    package::{Package, Packages, protection as of_manifest},
    recording_tree::RecordingTree,
    resolve::{PackageId, WorkerFile, is_glob},
    scan,
    source::Kind,
    start::Source,
};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use llm_do_core::{
    authority::{FurtherProtection, Place, Protection},
    toolset::ToolsetRegistry,
    worker::{CodeModule, Language, is_imported_by_scripts, joined_import, relative_imports},
};
use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

/// The files of the workers that a run may call and that were not loaded at its start. They are read once, before the
/// run first touches a file.
pub(crate) struct Callable {
    source: Source,
    host: LoadOptions,
    read: OnceLock<Read>,
}

/// The result of reading these workers.
struct Read {
    protection: Protection,
    /// The files that existed.
    files: BTreeSet<Place>,
}

impl Callable {
    /// Creates the value for a program with these loaded workers. Returns `None` if all workers that it may call are
    /// loaded.
    pub(crate) fn of(source: Source, host: &LoadOptions, workers: &Workers) -> Option<Arc<Self>> {
        match Names::of(workers) {
            Names::Globs(globs) if globs.is_empty() => None,
            _ => {
                // Inspecting code runs it. The places of modules follow from their names.
                let host = LoadOptions { code: None, ..host.clone() };
                Some(Arc::new(Self { source, host, read: OnceLock::new() }))
            }
        }
    }

    /// Returns the first of these files that the program did not have when the run first touched a file.
    pub(crate) fn first_new<'a>(&self, files: &'a [Place]) -> Option<&'a Place> {
        let read = self.read.get()?;
        files.iter().find(|file| !read.files.contains(*file))
    }

    /// Reads all of these workers. Does not report problems: a call of a worker with an error reports it, and `check`
    /// reports all of them.
    fn read_all(&self) -> Read {
        let mut found = Vec::new();
        let files = Arc::new(RecordingTree::new(Arc::clone(&self.source.tree)));
        let source = Source { tree: Arc::clone(&files) as _, ..self.source.clone() };
        let mut loading = Loading::begin(&source, self.host.clone(), &mut found);
        if let Some(entry) = loading.entry(&source.start, &mut found) {
            loading.start(entry, &mut found);
        }
        let mut others = all(&source, loading.packages.program());
        loop {
            let names = Names::of(&loading.workers);
            let (named, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|file| names.contain(file));
            if named.is_empty() {
                break;
            }
            loading.closure(named.into_iter().map(|file| (file, None)).collect(), &mut found);
            others = rest;
        }
        check::read_templates(&loading);
        let work = source.work.as_ref();
        let protection = protection(&loading.packages, &loading.workers, &loading.host.toolsets, work);
        Read {
            protection: protection.with_defining(files.places()),
            files: files.found().into_iter().collect(),
        }
    }
}

impl FurtherProtection for Callable {
    fn read(&self) -> Protection {
        self.read.get_or_init(|| self.read_all()).protection.clone()
    }
}

/// Returns the worker files of a program: those that a scan lists, and all `.worker` files, which a path can name. For
/// a file without a project these are the files beside it, because its folder may be a user's home directory.
fn all(source: &Source, program: &Package) -> Vec<WorkerFile> {
    let mut files = program.scan();
    let deepest = if source.work.is_some() { 0 } else { scan::DEEPEST };
    files.extend(scan::everywhere(program.tree.as_ref(), &program.layout, deepest));
    files.sort();
    files.dedup();
    files
}

/// The names that loaded workers may call, beyond those that lists name exactly.
enum Names {
    /// Code calls workers by any name.
    All,
    /// Names that match a list's patterns.
    Globs(GlobSet),
}

impl Names {
    fn of(workers: &Workers) -> Self {
        let mut globs = GlobSetBuilder::new();
        for worker in workers.values() {
            if !worker.definition.tools.is_empty() || worker.definition.code.is_some() {
                return Self::All;
            }
            let patterns = worker.callees.iter().map(|(pattern, _)| pattern).filter(|it| is_glob(it));
            // As in a call: `*` matches across folders. A pattern that is none is an error of its worker.
            let read = |pattern: &String| GlobBuilder::new(pattern).literal_separator(false).build().ok();
            for glob in patterns.filter_map(read) {
                globs.add(glob);
            }
        }
        globs.build().map_or(Self::All, Self::Globs)
    }

    /// Returns true if a call may name the worker, by its ID or by a path.
    fn contain(&self, file: &WorkerFile) -> bool {
        let Self::Globs(globs) = self else { return true };
        let path = file.path.as_str();
        let stem = path.rsplit_once('.').map_or(path, |(stem, _)| stem);
        let folder = stem.strip_suffix("/worker").unwrap_or(stem);
        globs.is_match(&file.id)
            || [path, stem, folder]
                .iter()
                .any(|name| globs.is_match(name) || globs.is_match(format!("./{name}")))
    }
}

/// Returns the protection of a loaded program: the files that its manifest names, its libraries, the folders in which a
/// worker looks for tools and templates, the Python code that its workers import or could import, and the files that
/// processes of its toolsets execute; and the mounts that a worker declares untrusted. The caller adds the files that
/// loading has read.
pub(crate) fn protection(
    packages: &Packages,
    workers: &Workers,
    toolsets: &ToolsetRegistry,
    work: Option<&Place>,
) -> Protection {
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
        defining.extend(Language::SCRIPTS.map(|end| folder.join(&format!("tools{end}"))));
    }
    let modules = modules(program, workers);
    defining.extend(modules.iter().filter_map(|module| match module {
        CodeModule::File(place) => Some(place.clone()),
        CodeModule::Installed { .. } => None,
    }));
    defining.extend(imported_scripts(program, &modules));
    let mut importing = importing(program, &modules);
    for worker in workers.values() {
        let mounts = worker.definition.sandbox.narrowing.mounts.iter().map(|mount| mount.place.clone());
        let folders: Vec<Place> = mounts.chain(work.cloned()).chain([root.clone()]).collect();
        let executed = toolsets.executes(&worker.definition, &folders);
        defining.extend(executed.files);
        importing.extend(executed.importing);
    }
    for folder in &importing {
        defining.extend(packages_in(program, folder));
    }
    let mounts = workers.values().flat_map(|worker| &worker.definition.sandbox.narrowing.mounts);
    let untrusted = mounts.filter(|mount| mount.untrusted).map(|mount| mount.place.clone());
    of_manifest(root, work, program.manifest.defining())
        .with_defining(defining)
        .with_importing(importing)
        .with_untrusted(untrusted)
}

/// Returns the modules of the program's own code that its loaded workers have, as tools or as their entry.
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

/// The largest script whose imports are read, in bytes.
const LARGEST_SCRIPT: u64 = 4 << 20;

/// The largest number of scripts whose imports are followed.
const MOST_SCRIPTS: usize = 10_000;

/// Returns the files that the program's scripts import by relative paths, directly or not.
fn imported_scripts(program: &Package, modules: &[CodeModule]) -> Vec<Place> {
    let tree = program.tree.as_ref();
    let scripts = modules.iter().filter(|module| module.language() == Language::Script);
    let mut left: Vec<String> = scripts
        .filter_map(|module| match module {
            CodeModule::File(place) => place.rest(tree.root()).map(str::to_owned),
            CodeModule::Installed { .. } => None,
        })
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    while let Some(path) = left.pop() {
        if seen.len() == MOST_SCRIPTS || !seen.insert(path.clone()) {
            continue;
        }
        let Ok(text) = tree.read(&path, LARGEST_SCRIPT) else { continue };
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for import in relative_imports(&String::from_utf8_lossy(&text)) {
            let Some(file) = joined_import(folder, import).filter(|file| is_imported_by_scripts(file)) else {
                continue;
            };
            if matches!(tree.kind(&file), Ok(Some(Kind::File))) {
                found.push(tree.root().join(&file));
                left.push(file);
            }
        }
    }
    found
}

/// Returns the folders from which the modules import others: the root, the folder of each module and, if that is a
/// package, those around it.
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

/// Returns the Python packages directly in a folder.
fn packages_in(program: &Package, folder: &Place) -> Vec<Place> {
    let tree = program.tree.as_ref();
    let Some(path) = folder.rest(tree.root()) else { return Vec::new() };
    let inside = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
    let entries = tree.list(path).unwrap_or_default().into_iter();
    let packages = entries.filter(|(name, kind)| *kind == Kind::Folder && is_package(program, &inside(name)));
    packages.map(|(name, _)| folder.join(&name)).collect()
}
