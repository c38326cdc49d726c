//! The files that a host may touch.

use crate::{
    interpreter::{Interpreter, Packages},
    node::PACKAGES,
    scripts,
    wire::MountGiven,
};
use llm_do_core::{
    authority::{Access, Authority, Network, Origin, Place, Protection},
    function::FunctionSource,
    schema::sha256,
    worker::{CodeEntry, CodeModule, CodePackage, Language, RequestKey, ToolLevel, WorkerDefinition},
};
use llm_do_sandbox::{confine::ProcessView, read_regular};
use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The root of the code of a program that a model wrote. Nothing lies there: its text is sent to the process.
pub(crate) const PROGRAM_ROOT: &str = "/program";

/// The largest amount of code and data that is hashed for a cached description, in bytes.
const MOST_FINGERPRINTED: u64 = 64 * 1024 * 1024;

/// The largest number of files and folders that are read for a cached description.
const MOST_ENTRIES: usize = 200_000;

/// The files, variables and network that the code of a package may use when a worker calls it.
#[derive(Clone)]
pub(crate) struct Reach {
    /// The language of its modules.
    pub(crate) language: Language,
    pub(crate) package: Arc<CodePackage>,
    /// The run. Discovery has none: it sees only code, and has no authority either.
    pub(crate) run: Option<Arc<str>>,
    pub(crate) authority: Option<Arc<Authority>>,
    /// The modules of its tools.
    modules: Vec<CodeModule>,
    /// The environment variables that its worker's file lists and the operator grants.
    pub(crate) env: Vec<Arc<str>>,
    /// The keys for its requests whose variables the operator grants.
    pub(crate) keys: Vec<RequestKey>,
    /// A hash that identifies the reach.
    pub(crate) key: Arc<str>,
}

impl Reach {
    /// Creates the reach for those modules of the levels that belong to one package and are written in one language.
    pub(crate) fn new<'a>(
        language: Language,
        package: &Arc<CodePackage>,
        levels: impl IntoIterator<Item = &'a ToolLevel>,
        work: Option<(&Arc<str>, &Arc<Authority>)>,
    ) -> Self {
        let (run, authority) = work.unzip();
        let of_package = levels.into_iter().filter(|level| level.package == *package);
        let modules = of_package.flat_map(|level| &level.modules).map(|module| module.module.clone());
        let modules: Vec<CodeModule> = modules.filter(|module| module.language() == language).collect();
        let key = sha256(format!("{language:?}\0{modules:?}\0{authority:?}").as_bytes()).into();
        let (package, run, authority) = (Arc::clone(package), run.cloned(), authority.cloned());
        Self { language, package, run, authority, modules, env: Vec::new(), keys: Vec::new(), key }
    }

    /// Creates the reach of the programs that models write in a run: no files and no network.
    pub(crate) fn of_program(language: Language, run: &Arc<str>) -> Self {
        let package = CodePackage {
            source: FunctionSource::Toolset("programs".into()),
            root: Place::new(PROGRAM_ROOT),
            data: Vec::new(),
        };
        let none: [&ToolLevel; 0] = [];
        Self { run: Some(Arc::clone(run)), ..Self::new(language, &Arc::new(package), none, None) }
    }

    /// Returns true for the programs that models write.
    pub(crate) fn is_of_program(&self) -> bool {
        self.package.root.as_str() == PROGRAM_ROOT
    }

    /// Adds the environment variables that a worker declares for the code of its own package, as far as the operator
    /// grants them.
    #[must_use]
    pub(crate) fn for_worker(mut self, worker: &WorkerDefinition) -> Self {
        if worker.source == self.package.source
            && let Some(authority) = &self.authority
        {
            let granted = worker.sandbox.env.iter().filter(|name| authority.bounds().allows_variable(name));
            self.env = granted.cloned().collect();
            let keys = worker.sandbox.keys.iter();
            self.keys =
                keys.filter(|key| authority.bounds().allows_variable(&key.variable)).cloned().collect();
            self.key = sha256(format!("{}\0{:?}\0{:?}", self.key, self.env, self.keys).as_bytes()).into();
        }
        self
    }

    /// Lists the places that the process may read in addition to the worker's files, in their current state: a name
    /// that must not be seen may have appeared since the last process was started.
    pub(crate) fn readable(&self, interpreter: &Interpreter) -> Vec<PathBuf> {
        let mut places = self.code(interpreter);
        places.extend(interpreter.places.iter().cloned());
        places.push(interpreter.host.clone());
        // Of installed packages an environment decides, and not the names of their files.
        let installed = packages_of(&self.package);
        places.extend(installed.filter(|_| self.language == Language::Script && !self.modules.is_empty()));
        places
    }

    /// Computes a hash of all local files that determine the content of its modules: all files that discovery can read.
    /// It changes when a helper module is changed or added. Returns `None` if there is too much to read.
    pub(crate) fn fingerprint(&self, interpreter: &Interpreter) -> Option<String> {
        fingerprint(&self.code(interpreter))
    }

    /// Lists the files and folders that hold its code.
    fn code(&self, interpreter: &Interpreter) -> Vec<PathBuf> {
        // The text of a program is in no file.
        if self.modules.is_empty() {
            return Vec::new();
        }
        let mut places = code_places(self.language, &self.package, &self.modules);
        // Only the program's environment knows packages that are installed in place.
        if self.package.source == FunctionSource::Program {
            let mut added = BTreeSet::new();
            for folder in &interpreter.added {
                importable(folder, &mut added);
            }
            added.iter().for_each(|place| add_visible(place, &mut places));
        }
        places
    }

    /// Returns the network that a process may use.
    pub(crate) fn network(&self) -> Network {
        self.authority.as_ref().map_or(Network::Off, |authority| authority.bounds().network().clone())
    }
}

/// Returns true if a process with that authority can write anything. It can write only in mounts that the program
/// declares (`docs/reference/sandbox.md`).
pub(crate) fn can_write(authority: &Authority) -> bool {
    authority.can_write()
        && authority
            .view()
            .mounts()
            .iter()
            .any(|mount| mount.origin == Origin::Declared && mount.access == Access::Write)
}

/// Returns the folder of the packages that are installed for a package's scripts, if it lies in the package.
fn packages_of(package: &CodePackage) -> Option<PathBuf> {
    let root = Path::new(package.root.as_str());
    let folder = root.join(PACKAGES);
    fs::canonicalize(&folder).ok().filter(|real| real.is_dir() && real.starts_with(root)).map(|_| folder)
}

/// Lists the files that modules may import and read: everything in their own folders, the modules and packages at the
/// root of their package, and the data that the manifest names. The root also holds a worker's files, so other files
/// there are left out, except those that scripts import by relative paths.
fn code_places(language: Language, package: &CodePackage, modules: &[CodeModule]) -> Vec<PathBuf> {
    let root = Path::new(package.root.as_str());
    let mut places = BTreeSet::new();
    match language {
        Language::Python => importable(root, &mut places),
        Language::Script => {
            let files = modules.iter().filter_map(|module| match module {
                CodeModule::File(place) => Some(PathBuf::from(place.as_str())),
                CodeModule::Installed { .. } => None,
            });
            scripts::imported(root, files.collect(), &mut places);
        }
    }
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

/// Adds a place. If the place contains names that are invisible to tools or files that never end, adds everything else
/// in it.
fn add_visible(place: &Path, visible: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(place) else {
        if place.is_file() {
            visible.push(place.to_owned());
        }
        return;
    };
    let (mut parts, mut whole) = (Vec::new(), true);
    for entry in entries.flatten() {
        let path = entry.path();
        let invisible = Protection::is_invisible(&entry.file_name().to_string_lossy());
        match entry.file_type() {
            _ if invisible => whole = false,
            Ok(kind) if kind.is_dir() => {
                add_visible(&path, &mut parts);
                whole &= parts.last() == Some(&path);
            }
            // A place that is given by itself is given with what a link leads to.
            Ok(kind) if kind.is_symlink() => {}
            Ok(kind) if kind.is_file() => parts.push(path),
            // A FIFO, a device or a socket.
            _ => whole = false,
        }
    }
    if whole { visible.push(place.to_owned()) } else { visible.append(&mut parts) }
}

/// Adds the modules and packages directly in a folder.
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

/// Computes a hash of the names and contents of all files in these places. Returns `None` if there is too much to read.
fn fingerprint(places: &[PathBuf]) -> Option<String> {
    let (mut left, mut entries) = (MOST_FINGERPRINTED, MOST_ENTRIES);
    let mut facts = String::new();
    let mut folders: Vec<PathBuf> = places.iter().rev().cloned().collect();
    while let Some(path) = folders.pop() {
        entries = entries.checked_sub(1)?;
        // A link may lead back to a folder above it.
        if let Some(inner) = entries_of(&path) {
            folders.extend(inner.into_iter().filter(|path| !(path.is_symlink() && path.is_dir())));
            continue;
        }
        let content = match read_regular(&path, left) {
            Ok(content) => {
                left -= content.len() as u64;
                Some(sha256(&content))
            }
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => return None,
            // Discovery can't read it either.
            Err(_) => None,
        };
        facts.push_str(&format!("{path:?} {content:?}\n"));
    }
    Some(sha256(facts.as_bytes()))
}

/// Computes the SHA-256 of the source of these modules, with everything that they can import from their packages. Data
/// and bytecode don't count.
pub fn code_sha256(levels: &[ToolLevel], entry: Option<&CodeEntry>) -> Arc<str> {
    let tools =
        levels.iter().flat_map(|level| level.modules.iter().map(|tool| (&level.package, &tool.module)));
    let modules: Vec<_> = tools.chain(entry.map(|entry| (&entry.package, &entry.module))).collect();
    let mut facts = BTreeSet::new();
    for (package, module) in modules {
        let code = CodePackage { data: Vec::new(), ..CodePackage::clone(package) };
        let language = module.language();
        let mut left: Vec<PathBuf> = code_places(language, &code, std::slice::from_ref(module));
        while let Some(path) = left.pop() {
            let linked = || path.is_symlink() && path.is_dir();
            if let Some(inner) = entries_of(&path) {
                left.extend(inner.into_iter().filter(|_| !linked()));
            } else if is_source(language, &path) {
                let name = path.strip_prefix(package.root.as_str()).unwrap_or(&path);
                let content = read_regular(&path, MOST_FINGERPRINTED).ok().map(|content| sha256(&content));
                facts.insert(format!("{:?}\0{name:?}\0{content:?}", package.source));
            }
        }
        if let CodeModule::Installed { module, function } = module {
            facts.insert(format!("{module}:{function}"));
        }
    }
    sha256(facts.into_iter().collect::<Vec<_>>().join("\n").as_bytes()).into()
}

/// Returns true if a file is source that a language runs, or decides which packages it runs.
fn is_source(language: Language, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    match language {
        Language::Python => [".py", ".so"].iter().any(|end| name.ends_with(end)),
        Language::Script => scripts::is_source(&name),
    }
}

/// Lists the entries of a folder, the last name first. Returns `None` if the path is not a folder.
fn entries_of(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut inner: Vec<PathBuf> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    inner.sort_unstable_by(|a, b| b.cmp(a));
    Some(inner)
}

/// Computes a hash that changes with the installed packages. Returns `None` if there are too many files. For an
/// environment in the project each file counts, because a checkout may replace any of them; elsewhere only the entries
/// of the folders of packages count.
pub(crate) fn installed(packages: &Packages) -> Option<String> {
    let mut left = MOST_ENTRIES;
    let mut facts = String::new();
    let mut found: Vec<PathBuf> = Vec::new();
    let listed = packages.sites.iter().filter_map(|site| entries_of(site)).flatten();
    for path in listed.chain(packages.of_project.iter().cloned()) {
        found.push(path);
        while let Some(path) = found.pop() {
            left = left.checked_sub(1)?;
            let Ok(meta) = fs::symlink_metadata(&path) else { continue };
            // The time of the last change can't be set by a program.
            let changed = (meta.ctime(), meta.ctime_nsec());
            facts.push_str(&format!("{path:?} {} {changed:?}\n", meta.len()));
            if packages.of_project.as_ref().is_some_and(|own| path.starts_with(own)) && meta.is_dir() {
                found.extend(entries_of(&path).unwrap_or_default());
            }
        }
    }
    Some(sha256(facts.as_bytes()))
}

/// The view and the mounts of a process.
pub(crate) struct Given {
    pub(crate) view: ProcessView,
    pub(crate) mounts: Vec<MountGiven>,
}

/// Returns the mounts of a process, for its `ToolContext`.
pub(crate) fn given(view: &ProcessView) -> Vec<MountGiven> {
    let mounts = view.shown().iter().map(|mount| MountGiven {
        at: mount.at.to_string(),
        path: mount.place.to_string_lossy().into_owned(),
        mode: if mount.access == Access::Write { "rw" } else { "ro" },
    });
    mounts.collect()
}
