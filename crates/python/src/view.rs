//! The files that a host may touch.

use crate::{interpreter::Interpreter, wire::MountGiven};
use llm_do_core::{
    authority::{Access, Authority, Network, Origin, Protection},
    schema::sha256,
    worker::{CodeModule, CodePackage, ToolLevel, WorkerDefinition},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Most bytes of code and data whose hash is worth a cached description.
const MOST_FINGERPRINTED: u64 = 64 * 1024 * 1024;

/// What the code of one package may touch when a worker calls it.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) package: Arc<CodePackage>,
    /// The run. `None` for discovery, which sees only code; the same holds for the authority.
    pub(crate) run: Option<Arc<str>>,
    pub(crate) authority: Option<Arc<Authority>>,
    /// The files and folders that hold its code.
    code: Vec<PathBuf>,
    /// The environment variables that its worker's file lists and the operator grants.
    pub(crate) env: Vec<Arc<str>>,
    /// Hash that identifies it.
    pub(crate) key: Arc<str>,
}

impl Reach {
    /// For those modules of the levels that belong to one package.
    pub(crate) fn new<'a>(
        package: &Arc<CodePackage>,
        levels: impl IntoIterator<Item = &'a ToolLevel>,
        work: Option<(&Arc<str>, &Arc<Authority>)>,
    ) -> Self {
        let (run, authority) = work.unzip();
        let of_package = levels.into_iter().filter(|level| level.package == *package);
        let modules: Vec<&CodeModule> =
            of_package.flat_map(|level| &level.modules).map(|module| &module.module).collect();
        let code = code_places(package, &modules);
        let key = sha256(format!("{code:?}\0{authority:?}").as_bytes()).into();
        let (package, run, authority) = (Arc::clone(package), run.cloned(), authority.cloned());
        Self { package, run, authority, code, env: Vec::new(), key }
    }

    /// The same with the environment variables that a worker declares for the code of its own package, as far as the
    /// operator grants them.
    #[must_use]
    pub(crate) fn for_worker(mut self, worker: &WorkerDefinition) -> Self {
        if worker.source == self.package.source
            && let Some(authority) = &self.authority
        {
            let granted = worker.sandbox.env.iter().filter(|name| authority.bounds().allows_variable(name));
            self.env = granted.cloned().collect();
            self.key = sha256(format!("{}\0{:?}", self.key, self.env).as_bytes()).into();
        }
        self
    }

    /// What it may read in addition to the worker's files.
    pub(crate) fn readable(&self, interpreter: &Interpreter) -> Vec<PathBuf> {
        let mut places = self.code.clone();
        places.extend(interpreter.places.iter().cloned());
        places.extend(interpreter.sites.iter().cloned());
        places.push(interpreter.host.clone());
        places
    }

    /// Hash of everything local that decides what its modules define: all files that discovery can read. A helper module
    /// that is changed or added changes it. `None` if there is too much to read.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        fingerprint(&self.code)
    }

    /// Whether a process may use the network.
    pub(crate) fn network(&self) -> Network {
        self.authority.as_ref().map_or(Network::Off, |authority| authority.bounds().network().clone())
    }
}

/// Whether a process with that authority can write anything. It can write only in mounts that the program declares
/// (`docs/reference/sandbox.md`).
pub(crate) fn can_write(authority: &Authority) -> bool {
    authority.can_write()
        && authority
            .view()
            .mounts()
            .iter()
            .any(|mount| mount.origin == Origin::Declared && mount.access == Access::Write)
}

/// The files that modules may import and read: everything in their own folders, the modules and packages at the root of
/// their package, and what the manifest names as data. The root also holds a worker's files, so other files there are left
/// out.
fn code_places(package: &CodePackage, modules: &[&CodeModule]) -> Vec<PathBuf> {
    let root = Path::new(package.root.as_str());
    let mut places = BTreeSet::new();
    importable(root, &mut places);
    places.extend(package.data.iter().map(|place| PathBuf::from(place.as_str())));
    for module in modules {
        let CodeModule::File(place) = module else { continue };
        let path = Path::new(place.as_str());
        places.insert(path.to_owned());
        match path.parent() {
            Some(folder) if folder != root => drop(places.insert(folder.to_owned())),
            _ => {}
        }
    }
    // A place inside another one is redundant.
    let all: Vec<PathBuf> = places.into_iter().collect();
    let inside = |path: &PathBuf| all.iter().any(|other| other != path && path.starts_with(other));
    let mut visible = Vec::new();
    for place in all.iter().filter(|path| !inside(path)) {
        add_visible(place, &mut visible);
    }
    visible
}

/// Adds a place, or where it contains names that are invisible to tools, everything else in it.
fn add_visible(place: &Path, visible: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(place) else {
        visible.push(place.to_owned());
        return;
    };
    let (mut parts, mut whole) = (Vec::new(), true);
    for entry in entries.flatten() {
        if Protection::is_invisible(&entry.file_name().to_string_lossy()) {
            whole = false;
            continue;
        }
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                add_visible(&path, &mut parts);
                whole &= parts.last() == Some(&path);
            }
            // A place that is given by itself is given with what a link leads to.
            Ok(kind) if kind.is_symlink() => {}
            _ => parts.push(path),
        }
    }
    if whole { visible.push(place.to_owned()) } else { visible.append(&mut parts) }
}

/// The modules and packages directly in a folder.
fn importable(folder: &Path, places: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        let hidden = name.as_encoded_bytes().starts_with(b".");
        let module = kind.is_file() && path.extension().is_some_and(|extension| extension == "py");
        let package = kind.is_dir() && path.join("__init__.py").is_file();
        if !hidden && (module || package) {
            places.insert(path);
        }
    }
}

/// Hash of the names and contents of all files in these places; `None` if there is too much to read.
fn fingerprint(places: &[PathBuf]) -> Option<String> {
    let mut left = MOST_FINGERPRINTED;
    let mut facts = String::new();
    let mut folders: Vec<PathBuf> = places.iter().rev().cloned().collect();
    while let Some(path) = folders.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => {
                let mut inner: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
                inner.sort_unstable_by(|a, b| b.cmp(a));
                // A link may lead back to a folder above it.
                inner.retain(|path| !(path.is_symlink() && path.is_dir()));
                folders.extend(inner);
            }
            Err(_) => {
                left = left.checked_sub(fs::metadata(&path).map_or(0, |file| file.len()))?;
                let content = fs::read(&path).ok().map(|content| sha256(&content));
                facts.push_str(&format!("{path:?} {content:?}\n"));
            }
        }
    }
    Some(sha256(facts.as_bytes()))
}

/// The mounts of a process, for its `ToolContext`.
pub(crate) fn given(view: &llm_do_sandbox::confine::ProcessView) -> Vec<MountGiven> {
    let mounts = view.shown().iter().map(|mount| MountGiven {
        at: mount.at.to_string(),
        path: mount.place.to_string_lossy().into_owned(),
        mode: if mount.access == Access::Write { "rw" } else { "ro" },
    });
    mounts.collect()
}
