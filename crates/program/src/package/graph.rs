//! The program and the libraries that it depends on, and the references between their workers.

use super::Package;
use crate::{
    contents::Contents,
    dependency::{Dependency, DependencyKind},
    diagnostics::{Diagnostic, Related, codes, nearest},
    front_matter,
    library::{Libraries, shown},
    library_name,
    load_options::LoadOptions,
    lock::{LOCK_FILE, Lock, Pinned},
    locked_tree::LockedTree,
    manifest::{LIBRARY, Manifest},
    resolve::{Layout, PackageId, WorkerFile},
    source::{SourceTree, plain},
    span::Span,
    tool_folders::ToolFolders,
};
use llm_do_core::authority::Protection;
use std::{collections::BTreeSet, sync::Arc};

/// The program and its libraries, each once.
pub(crate) struct Packages {
    all: Vec<Package>,
    /// The lock file of the program.
    lock: Lock,
    /// Names of dependencies that did not load. They were reported, so references to them are not reported again.
    broken: BTreeSet<String>,
}

impl Packages {
    /// Loads all dependencies of the program. Opens only the manifest of each library.
    pub(crate) fn load(program: Package, host: &LoadOptions, found: &mut Vec<Diagnostic>) -> Self {
        let lock = Lock::load(program.tree.as_ref(), found).unwrap_or_default();
        let mut packages = Self { all: vec![program], lock, broken: BTreeSet::new() };
        packages.depend(PackageId::PROGRAM, &mut Vec::new(), host, found);
        packages
    }

    pub(crate) fn get(&self, id: PackageId) -> &Package {
        &self.all[id.0]
    }

    pub(crate) fn program(&self) -> &Package {
        &self.all[0]
    }

    /// Returns all packages, the program first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (PackageId, &Package)> {
        self.all.iter().enumerate().map(|(id, package)| (PackageId(id), package))
    }

    /// Returns the library of that name, of any package's dependencies.
    pub(crate) fn library(&self, name: &str) -> Option<PackageId> {
        self.iter().find(|(_, package)| package.library.as_deref() == Some(name)).map(|(id, _)| id)
    }

    /// Returns a dependency of a package by the name that its workers use.
    pub(crate) fn dependency(&self, from: PackageId, name: &str) -> Option<PackageId> {
        let mut dependencies = self.get(from).dependencies.iter();
        dependencies.find(|id| self.get(**id).library.as_deref() == Some(name)).copied()
    }

    /// Returns the package to which a name before a colon refers: a dependency, or the library itself by its own name.
    pub(crate) fn named(&self, from: PackageId, name: &str) -> Option<PackageId> {
        let itself = || (self.get(from).own_name() == Some(name)).then_some(from);
        self.dependency(from, name).or_else(itself)
    }

    /// Loads the dependencies of a package. `chain` contains the libraries on the way to it.
    fn depend(
        &mut self,
        from: PackageId,
        chain: &mut Vec<Arc<str>>,
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) {
        for dependency in self.get(from).manifest.dependencies.clone() {
            if let Some(id) = self.add(from, &dependency, chain, host, found) {
                let dependencies = &mut self.all[from.0].dependencies;
                if !dependencies.contains(&id) {
                    dependencies.push(id);
                }
            }
        }
    }

    /// Makes a library that an import names a dependency of the program.
    pub(crate) fn import(
        &mut self,
        name: &str,
        span: &Span,
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) {
        if self.dependency(PackageId::PROGRAM, name).is_some() {
            return;
        }
        let kind = DependencyKind::Named { name: name.to_owned(), version: None };
        let dependency = Dependency { kind, text: name.to_owned(), span: span.clone() };
        if let Some(id) = self.add(PackageId::PROGRAM, &dependency, &mut Vec::new(), host, found) {
            self.all[0].dependencies.push(id);
            // Workers that are loaded from now on have its tools.
            self.all[0].tool_folders = ToolFolders::default();
        }
    }

    /// Returns true if a reference names a library that was declared and did not load, or that a manifest with a syntax error
    /// may declare.
    pub(crate) fn is_broken(&self, reference: &str) -> bool {
        let may_be_declared = |library| self.program().manifest.is_partial && self.library(library).is_none();
        reference
            .split_once(':')
            .is_some_and(|(library, _)| self.broken.contains(library) || may_be_declared(library))
    }

    fn add(
        &mut self,
        from: PackageId,
        dependency: &Dependency,
        chain: &mut Vec<Arc<str>>,
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) -> Option<PackageId> {
        let (name, wanted) = match &dependency.kind {
            DependencyKind::Named { name, version } => (name.clone(), version.clone()),
            DependencyKind::Path(_) | DependencyKind::Git { .. } => {
                let Some(pinned) = self.lock.by_source(&dependency.text) else {
                    found.push(
                        Diagnostic::error(
                            codes::LIBRARY_NOT_FOUND,
                            format!("the dependency `{}` is not installed", dependency.text),
                        )
                        .at(&dependency.span)
                        .help("run `llm-do lib install` in the project"),
                    );
                    return None;
                };
                let pinned = Arc::clone(pinned);
                self.compare_with_source(from, dependency, &pinned, found);
                (pinned.name.clone(), Some(pinned.version.clone()))
            }
        };
        if let Err(reason) = library_name::check(&name) {
            found.push(Diagnostic::error(codes::RESERVED_NAME, reason).at(&dependency.span));
            return None;
        }
        if let Some(at) = chain.iter().position(|above| **above == *name) {
            let mut names: Vec<&str> = chain[at..].iter().map(|name| &**name).collect();
            names.push(&name);
            found.push(
                Diagnostic::error(
                    codes::CIRCULAR_DEPENDENCY,
                    format!("circular dependency between libraries: {}", names.join(" → ")),
                )
                .at(&dependency.span)
                .help("merge the libraries, or move what both need to a third library"),
            );
            return None;
        }
        let known = self.iter().find(|(_, known)| known.library.as_deref() == Some(&name));
        if let Some((id, known)) = known {
            let version = known.manifest.version.as_deref();
            if wanted.as_deref().is_some_and(|wanted| Some(wanted) != version) {
                found.push(self.conflict(from, id, dependency));
                return None;
            }
            return Some(id);
        }
        let Some(package) = self.open(from, &name, wanted.as_deref(), dependency, host, found) else {
            self.broken.insert(name);
            return None;
        };
        let id = PackageId(self.all.len());
        self.all.push(package);
        chain.push(name.into());
        self.depend(id, chain, host, found);
        chain.pop();
        Some(id)
    }

    /// Compares an installed library with its source in the program's own folder. The installed copy is used, so a user
    /// who edits the source must be told.
    fn compare_with_source(
        &self,
        from: PackageId,
        dependency: &Dependency,
        pinned: &Pinned,
        found: &mut Vec<Diagnostic>,
    ) {
        let (DependencyKind::Path(path), PackageId::PROGRAM) = (&dependency.kind, from) else { return };
        let tree = self.program().tree.as_ref();
        // A folder that is gone or that no longer is a library can't be installed, which `lib install` reports.
        let Ok(now) = plain(path).map(|folder| Contents::below(tree, &folder)) else { return };
        let differences = now.map(|now| pinned.contents.compare(&now)).unwrap_or_default();
        let Some(first) = differences.first() else { return };
        let more = match differences.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        found.push(
            Diagnostic::warning(
                codes::SOURCE_CHANGED,
                format!("`{path}` has changed since it was installed as `{}`: {first}{more}", pinned.label()),
            )
            .at(&dependency.span)
            .note("the program uses the installed copy")
            .help("run `llm-do lib install` to use the current files"),
        );
    }

    fn conflict(&self, from: PackageId, id: PackageId, dependency: &Dependency) -> Diagnostic {
        let known = self.get(id);
        let (first, place) = &known.requirer;
        let conflict = Diagnostic::error(
            codes::VERSION_CONFLICT,
            format!(
                "{} requires `{}`, but {first} requires `{}`",
                self.get(from).shown(),
                dependency.text,
                known.shown()
            ),
        )
        .at(&dependency.span)
        .help("a program can use only one version of a library: require the same version in both places");
        match place {
            Some(place) => conflict.related("the other version is required here", place),
            None => conflict,
        }
    }

    fn open(
        &self,
        from: PackageId,
        name: &str,
        version: Option<&str>,
        dependency: &Dependency,
        host: &LoadOptions,
        found: &mut Vec<Diagnostic>,
    ) -> Option<Package> {
        let pinned = self.lock.get(name);
        if let (Some(pinned), Some(version)) = (pinned, version)
            && pinned.version != version
        {
            found.push(
                Diagnostic::error(
                    codes::LIBRARY_CHANGED,
                    format!(
                        "`{}` is required, but `llm-do.lock` pins `{}`",
                        shown(name, Some(version)),
                        pinned.label()
                    ),
                )
                .at(&dependency.span)
                .help("run `llm-do lib install` to pin the required version"),
            );
            return None;
        }
        let called = shown(name, version);
        let find = |version: Option<&str>| host.libraries.find(name, version);
        // The folder of a pinned library may have the version in its name or not.
        let tree = match pinned.map_or(Ok(None), |pinned| find(Some(&pinned.version))) {
            Ok(None) => find(version),
            pinned => pinned,
        };
        let tree = match tree {
            Ok(Some(tree)) => tree,
            Ok(None) => {
                found.push(not_found(&called, dependency, host.libraries.as_ref()));
                return None;
            }
            Err(error) => {
                found.push(
                    Diagnostic::error(codes::LIBRARY_NOT_FOUND, format!("the library `{called}`: {error}"))
                        .at(&dependency.span),
                );
                return None;
            }
        };
        let installed = Arc::clone(&tree);
        let tree: Arc<dyn SourceTree> = match pinned {
            Some(pinned) => Arc::new(LockedTree::new(tree, Arc::clone(pinned))),
            None => tree,
        };
        let before = found.len();
        let manifest = Manifest::load_library(tree.as_ref(), found);
        for problem in &mut found[before..] {
            if problem.span.is_none() {
                problem.span = Some(Span::whole(&front_matter::unread(tree.as_ref(), LIBRARY)));
            }
            problem
                .related
                .push(Related { message: "it is required here".into(), span: dependency.span.clone() });
        }
        let manifest = manifest?;
        let is = shown(manifest.name.as_deref().unwrap_or_default(), manifest.version.as_deref());
        let fits = manifest.name.as_deref() == Some(name)
            && version.is_none_or(|version| manifest.version.as_deref() == Some(version));
        if !fits {
            let place = manifest.file.as_ref().map(Span::whole);
            found.push(
                Diagnostic::error(
                    codes::BAD_LIBRARY,
                    format!("the folder of the library `{called}` contains `{is}`"),
                )
                .or_at(place.as_ref())
                .related("it is required here", &dependency.span)
                .help("install the library again: `llm-do lib install`"),
            );
            return None;
        }
        let protection = Protection::new(tree.root().clone(), manifest.defining());
        let requirer = (self.get(from).shown(), Some(dependency.span.clone()));
        let package = Package::new(Some(name.into()), tree, manifest, protection, requirer, host, found);
        Some(Package { installed, pinned: pinned.cloned(), ..package })
    }

    /// Compares every library as a whole with the lock file, while a run compares file by file. Reads all their files.
    pub(crate) fn compare_with_lock(&self, found: &mut Vec<Diagnostic>) {
        if self.lock.libraries().next().is_none() {
            // Reported only once if there is no lock file. A damaged lock file is not a missing one.
            let damaged = found.iter().any(|finding| finding.code == codes::BAD_LOCK);
            if let Some(first) = self.program().dependencies.first().filter(|_| !damaged) {
                found.push(
                    Diagnostic::warning(
                        codes::NOT_LOCKED,
                        format!("no library is pinned: there is no `{LOCK_FILE}`"),
                    )
                    .or_at(self.get(*first).requirer.1.as_ref())
                    .help("run `llm-do lib install` to pin the installed libraries"),
                );
            }
            return;
        }
        for (_, package) in self.iter() {
            let (Some(name), (_, place)) = (&package.library, &package.requirer) else { continue };
            if package.pinned.is_none() {
                found.push(
                    Diagnostic::warning(codes::NOT_LOCKED, format!("the library `{name}` is not pinned"))
                        .or_at(place.as_ref())
                        .help("run `llm-do lib install` to pin it in `llm-do.lock`"),
                );
                continue;
            }
            found.extend_from_slice(package.changes());
        }
    }

    /// Returns the worker that a reference resolves to in a package with these imports.
    ///
    /// # Errors
    /// The error has no span; the caller knows the place of the reference.
    pub(crate) fn resolve(&self, from: PackageId, reference: &str) -> Result<WorkerFile, Box<Diagnostic>> {
        let package = self.get(from);
        if let Some((library, id)) = reference.split_once(':') {
            return self.resolve_in_library(from, library, id, reference);
        }
        let located = package.layout.resolve(package.tree.as_ref(), reference);
        let missing = match located {
            Err(error) if error.code == codes::WORKER_NOT_FOUND => error,
            Err(error) => return Err(error),
            Ok(located) => return Ok(WorkerFile { package: from, ..located }),
        };
        if Layout::is_bare(reference) {
            for id in &package.dependencies {
                let library = self.get(*id);
                if let Some((_, export)) = library.exports().find(|(export, _)| export == reference) {
                    let located = library.layout.resolve(library.tree.as_ref(), export)?;
                    return Ok(WorkerFile { package: *id, ..located });
                }
            }
        }
        Err(missing)
    }

    fn resolve_in_library(
        &self,
        from: PackageId,
        name: &str,
        id: &str,
        reference: &str,
    ) -> Result<WorkerFile, Box<Diagnostic>> {
        let Some(package) = self.named(from, name) else {
            let package = self.get(from);
            let installed = self.iter().any(|(_, known)| known.library.as_deref() == Some(name));
            let names: Vec<&str> =
                package.dependencies.iter().filter_map(|id| self.get(*id).library.as_deref()).collect();
            let mut missing = Diagnostic::error(
                codes::UNDECLARED_LIBRARY,
                format!("`{reference}` names the library `{name}`, which is not a dependency"),
            )
            .did_you_mean(name, names);
            if installed {
                missing =
                    missing.note("another library depends on it, but only that library can use its workers");
            }
            if missing.nearest.is_empty() {
                missing = missing.help(format!("declare it in the manifest: `dependencies: [{name}]`"));
            }
            return Err(missing.into());
        };
        let library = self.get(package);
        if package == from {
            // All of its workers, not only its exports.
            let located = library.layout.resolve(library.tree.as_ref(), id)?;
            return Ok(WorkerFile { package, ..located });
        }
        let wanted = library.layout.id_of(id);
        let exported = wanted.as_deref().and_then(|wanted| library.exports().find(|(id, _)| id == wanted));
        if let Some((_, export)) = exported {
            let located = library.layout.resolve(library.tree.as_ref(), export)?;
            return Ok(WorkerFile { package, ..located });
        }
        let exports: Vec<String> = library.exports().map(|(id, _)| id).collect();
        let exists = library.layout.resolve(library.tree.as_ref(), id);
        let (code, message) = match exists {
            Ok(_) => (codes::NOT_EXPORTED, format!("the library `{name}` does not export `{id}`")),
            Err(error) if error.code == codes::WORKER_NOT_FOUND => {
                (codes::WORKER_NOT_FOUND, format!("the library `{name}` has no worker `{id}`"))
            }
            Err(error) => return Err(error),
        };
        let near = nearest(id, exports.iter().map(String::as_str));
        let missing = Diagnostic::error(code, message);
        Err(match (near.as_slice(), exports.as_slice()) {
            ([], []) => missing.help("the library exports nothing"),
            ([], exports) => missing.help(format!("it exports {}", exports.join(", "))),
            ([first, ..], _) => missing.help(format!("did you mean `{name}:{first}`?")),
        }
        .into())
    }

    /// Returns the names that a reference in a package could have, for "did you mean". Scans the package.
    pub(crate) fn names(&self, from: PackageId) -> Vec<String> {
        let package = self.get(from);
        let mut names: Vec<String> = package.scan().into_iter().map(|worker| worker.id).collect();
        for id in &package.dependencies {
            let library = self.get(*id);
            names.extend(library.exports().map(|(id, _)| library.global_id(&id).to_string()));
        }
        names
    }
}

fn not_found(called: &str, dependency: &Dependency, libraries: &dyn Libraries) -> Diagnostic {
    let DependencyKind::Named { name, version } = &dependency.kind else {
        return Diagnostic::error(codes::LIBRARY_NOT_FOUND, format!("the library `{called}` does not exist"));
    };
    let tried = libraries.tried(name, version.as_deref());
    let mut missing =
        Diagnostic::error(codes::LIBRARY_NOT_FOUND, format!("the library `{called}` is not installed"))
            .at(&dependency.span);
    if !tried.is_empty() {
        missing = missing.note(format!("tried {}", tried.join(", ")));
    }
    for root in libraries.roots_that_are_libraries() {
        missing = missing.help(format!("`{root}` is a library itself: name the folder that contains it"));
    }
    let installed = libraries.names();
    let versions: Vec<&str> =
        installed.iter().filter_map(|folder| folder.strip_prefix(name.as_str())?.strip_prefix('@')).collect();
    if version.is_some() && !versions.is_empty() {
        return missing.help(format!("installed versions are {}", versions.join(", ")));
    }
    let plain = installed.iter().map(|folder| folder.split('@').next().unwrap_or(folder));
    let missing = missing.did_you_mean(name, plain);
    missing.help("install it: `llm-do lib install PATH`, or `git+URL`")
}
