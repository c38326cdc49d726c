//! The files that a host may touch.

use crate::{interpreter::Interpreter, wire::MountGiven};
use llm_do_core::{
    authority::{Access, Authority, Network, Origin},
    schema::sha256,
    worker::{CodeModule, CodePackage, ToolLevel},
};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// What the code of one package may touch when a worker calls it.
#[derive(Clone)]
pub(crate) struct Reach {
    pub(crate) package: Arc<CodePackage>,
    /// The run. `None` for discovery, which sees only code; the same holds for the authority.
    pub(crate) run: Option<Arc<str>>,
    pub(crate) authority: Option<Arc<Authority>>,
    /// The files and folders that hold its code.
    code: Vec<PathBuf>,
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
        Self { package: Arc::clone(package), run: run.cloned(), authority: authority.cloned(), code, key }
    }

    /// What it may read in addition to the worker's files.
    pub(crate) fn readable(&self, interpreter: &Interpreter) -> Vec<PathBuf> {
        let mut places = self.code.clone();
        places.extend(interpreter.places.iter().cloned());
        places.extend(interpreter.sites.iter().cloned());
        places.push(interpreter.host.clone());
        places
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

/// The code that modules may import: everything in their own folders, and the modules and packages at the root of their
/// package. The root also holds a worker's data, so other files there are left out.
fn code_places(package: &CodePackage, modules: &[&CodeModule]) -> Vec<PathBuf> {
    let root = Path::new(package.root.as_str());
    let mut places = BTreeSet::new();
    importable(root, &mut places);
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
    all.iter().filter(|path| !inside(path)).cloned().collect()
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

/// The mounts of a process, for its `ToolContext`.
pub(crate) fn given(view: &llm_do_sandbox::confine::ProcessView) -> Vec<MountGiven> {
    let mounts = view.shown().iter().map(|mount| MountGiven {
        at: mount.at.to_string(),
        path: mount.place.to_string_lossy().into_owned(),
        mode: if mount.access == Access::Write { "rw" } else { "ro" },
    });
    mounts.collect()
}
