//! Resolution of dependencies to installed libraries, with the dependencies of these. Libraries by path and repository
//! are installed; libraries by name must be installed already.

use crate::{Host, error::Message};
use crate::{
    error::Error,
    git::{self, Address},
    package::{self, File, Package},
    root::{Placed, Root},
};
use llm_do_program::{
    Diagnostic,
    dependency::{Dependency, DependencyKind},
    diagnostics::codes,
    library::{DiskLibraries, Libraries},
    lock::{Lock, Pinned},
    span::Span,
};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Path, PathBuf},
    rc::Rc,
};

/// The most libraries of one program.
const MOST: usize = 256;

/// The result for a library that a program needs.
#[derive(Debug)]
pub struct Outcome {
    /// `NAME@VERSION`.
    pub label: String,
    /// The change that the installation made.
    pub placed: Placed,
    /// The library's folder.
    pub folder: PathBuf,
    /// The number of its files.
    pub files: usize,
    /// The commit, if the library comes from a repository.
    pub commit: Option<String>,
}

/// The part of the lock file that stays valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Everything is looked up and fetched again.
    Nothing,
    /// Libraries that are pinned and installed stay as they are.
    Installed,
    /// Only pinned libraries are accepted.
    Everything,
}

/// A resolver that finds, installs and pins libraries.
pub(crate) struct Resolver<'a> {
    pub(crate) root: &'a Root,
    /// Folders that are searched for names; the first is `root`.
    pub(crate) roots: &'a [PathBuf],
    pub(crate) force: bool,
    pub(crate) keep: Keep,
    /// The lock file as it was.
    pub(crate) before: Lock,
    pub(crate) host: &'a dyn Host,
    known: BTreeMap<String, Needed>,
    /// Libraries to install, in the order in which they were found.
    fetched: Vec<Rc<Package>>,
    /// Names of the libraries in the project's own folder.
    own: BTreeSet<String>,
}

struct Needed {
    pinned: Pinned,
    /// The first requirer of the library.
    by: String,
    span: Option<Span>,
}

/// A project or library that names dependencies.
#[derive(Clone)]
pub(crate) struct Requirer {
    /// The name in messages.
    label: String,
    /// Names of the libraries from the program down to this one.
    chain: Vec<String>,
    base: Base,
    /// True if the requirer is on this machine, so that it may name repositories on this machine.
    local: bool,
}

/// The base of relative paths.
#[derive(Clone)]
enum Base {
    Folder(PathBuf),
    Package(Rc<Package>),
}

impl Requirer {
    /// Returns a project as the requirer.
    pub(crate) fn project(root: &Path) -> Self {
        let base = Base::Folder(root.to_owned());
        Self { label: "the project".into(), chain: Vec::new(), base, local: true }
    }

    /// Returns a library that the command line names.
    pub(crate) fn library(package: Rc<Package>, local: bool) -> Self {
        Self {
            label: package.label(),
            chain: vec![package.name.clone()],
            base: Base::Package(package),
            local,
        }
    }

    fn below(&self, package: &Rc<Package>, local: bool) -> Self {
        let mut chain = self.chain.clone();
        chain.push(package.name.clone());
        Self { chain, ..Self::library(Rc::clone(package), local) }
    }
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(root: &'a Root, roots: &'a [PathBuf], before: Lock, host: &'a dyn Host) -> Self {
        let (known, fetched, own) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { root, roots, force: false, keep: Keep::Nothing, before, host, known, fetched, own }
    }

    /// Installs a library that the command line names, or the skills in the folder or repository that it names.
    pub(crate) fn install(&mut self, kind: &DependencyKind, here: &Path) -> Result<Vec<Rc<Package>>, Error> {
        let (packages, local) = match kind {
            DependencyKind::Path(path) => {
                // Messages name the folder without the `.` of `./lib`.
                let folder: PathBuf = here.join(path).components().collect();
                (Package::read_all(&folder, self.host)?, true)
            }
            DependencyKind::Git { url, reference, subdir } => {
                let (url, local) = self.address(url, here, true)?;
                let (url, reference) = of_folder(url, reference.as_deref(), local);
                (
                    self.fetch(&url, reference, subdir.as_deref(), |files, commit, shown| {
                        Package::check_all(files, commit, shown, self.host)
                    })?,
                    local,
                )
            }
            DependencyKind::Named { name, .. } => return Err(named(name, here).into()),
        };
        let packages: Vec<Rc<Package>> = packages.into_iter().map(Rc::new).collect();
        for package in &packages {
            self.fetched.push(Rc::clone(package));
            let pinned = Pinned::new(&package.name, &package.version, package.contents.clone());
            let known = Needed { pinned, by: "the command".into(), span: None };
            if self.known.insert(package.name.clone(), known).is_some() {
                return Err(Message::wrong(format!("it has two skills named `{}`", package.name))
                    .hint("install one of them by its folder")
                    .into());
            }
        }
        for package in &packages {
            self.all(Requirer::library(Rc::clone(package), local), &package.dependencies)?;
        }
        Ok(packages)
    }

    /// Resolves all dependencies of a requirer.
    pub(crate) fn all(&mut self, requirer: Requirer, dependencies: &[Dependency]) -> Result<(), Error> {
        // Sources come first, since names may mean what they bring; who asks for no version comes last, and takes the
        // one that somebody else asks for.
        let mut waiting: [VecDeque<(Rc<Requirer>, Dependency)>; 3] = Default::default();
        let add = |requirer: Requirer, dependencies: &[Dependency], waiting: &mut [VecDeque<_>; 3]| {
            let requirer = Rc::new(requirer);
            for dependency in dependencies {
                let queue = match dependency.kind {
                    DependencyKind::Path(_) | DependencyKind::Git { .. } => 0,
                    DependencyKind::Named { version: Some(_), .. } => 1,
                    DependencyKind::Named { version: None, .. } => 2,
                };
                waiting[queue].push_back((Rc::clone(&requirer), dependency.clone()));
            }
        };
        add(requirer, dependencies, &mut waiting);
        while let Some((requirer, dependency)) = waiting.iter_mut().find_map(VecDeque::pop_front) {
            if let Some((package, local)) = self.one(&requirer, &dependency)? {
                add(requirer.below(&package, local), &package.dependencies, &mut waiting);
            }
        }
        Ok(())
    }

    /// Returns the pins of the needed libraries.
    pub(crate) fn pins(&self) -> Lock {
        let mut lock = Lock::default();
        for known in self.known.values() {
            lock.insert(known.pinned.clone());
        }
        lock
    }

    /// Installs the needed libraries, after all of them are known to be available.
    pub(crate) fn finish(self) -> Result<Vec<Outcome>, Error> {
        for package in &self.fetched {
            self.root.check(package, self.may_replace(package))?;
        }
        let installed = self.fetched.iter().map(|package| {
            Ok(Outcome {
                label: package.label(),
                placed: self.root.put(package, self.may_replace(package))?,
                folder: self.root.folder().join(package.label()),
                commit: package.commit.clone(),
                files: package.contents.len(),
            })
        });
        installed.collect()
    }

    /// Returns true if a library may replace an installed one of the same version with other files. A library in the
    /// project's own folder may, if the project has installed that one too: its author has edited it.
    fn may_replace(&self, package: &Package) -> bool {
        let by_project = || {
            let pinned = self.before.get(&package.name)?;
            let installed = Package::read(&self.root.folder().join(package.label()), self.host).ok()?;
            Some(pinned.label() == package.label() && pinned.contents == installed.contents)
        };
        self.force
            || package.is_unversioned()
            || (self.own.contains(&package.name) && by_project() == Some(true))
    }

    /// Resolves one dependency. Returns `None` if the library is known already.
    fn one(
        &mut self,
        requirer: &Requirer,
        dependency: &Dependency,
    ) -> Result<Option<(Rc<Package>, bool)>, Error> {
        if let DependencyKind::Named { name, version } = &dependency.kind {
            not_above(requirer, name, dependency)?;
            if let Some(known) = self.known.get(name) {
                return match version {
                    Some(version) if *version != known.pinned.version => {
                        Err(two_versions(known, name, version, requirer, dependency))
                    }
                    _ => Ok(None),
                };
            }
        }
        let (package, local) = self.find(requirer, dependency).map_err(|error| match error {
            Error::Message(_) => error.during(&format!(
                "{} needs `{}` ({})",
                requirer.label,
                dependency.text,
                dependency.span.origin()
            )),
            found => found,
        })?;
        not_above(requirer, &package.name, dependency)?;
        let text =
            Some(&dependency.text).filter(|_| !matches!(dependency.kind, DependencyKind::Named { .. }));
        if let Some(other) = self.before_it(&package.name, text) {
            let message = format!(
                "the dependency `{}` means `{}` for {} and `{}` for {}",
                dependency.text, other.pinned.name, other.by, package.name, requirer.label
            );
            return Err(Diagnostic::error(codes::VERSION_CONFLICT, message)
                .at(&dependency.span)
                .help("move one of the folders, so that one path means one library")
                .into());
        }
        if let Some(known) = self.known.get_mut(&package.name) {
            same(known, &package, requirer, dependency)?;
            if let Some(text) = text
                && !known.pinned.sources.contains(text)
            {
                known.pinned.sources.push(text.clone());
                known.pinned.commit = known.pinned.commit.take().or_else(|| package.commit.clone());
            }
            return Ok(None);
        }
        if self.known.len() >= MOST {
            return Err(Message::wrong(format!("more than {MOST} libraries are needed")).into());
        }
        let mut pinned = Pinned::new(&package.name, &package.version, package.contents.clone());
        pinned.sources.extend(text.cloned());
        pinned.commit.clone_from(&package.commit);
        let known = Needed { pinned, by: requirer.label.clone(), span: Some(dependency.span.clone()) };
        self.known.insert(package.name.clone(), known);
        Ok(Some((package, local)))
    }

    /// Returns another library that the same text already refers to.
    fn before_it(&self, name: &str, text: Option<&String>) -> Option<&Needed> {
        let text = text?;
        self.known.values().find(|known| known.pinned.name != name && known.pinned.sources.contains(text))
    }

    fn find(&mut self, requirer: &Requirer, dependency: &Dependency) -> Result<(Rc<Package>, bool), Error> {
        let before = self.before.by_source(&dependency.text).cloned();
        let kept =
            before.as_ref().filter(|_| self.keep != Keep::Nothing).and_then(|pinned| self.installed(pinned));
        let (package, local) = match &dependency.kind {
            DependencyKind::Named { name, version } => {
                let pinned = self.before.get(name).filter(|_| self.keep == Keep::Everything);
                let version = version.clone().or_else(|| pinned.map(|pinned| pinned.version.clone()));
                return Ok((Rc::new(self.named(name, version.as_deref(), requirer, dependency)?), true));
            }
            DependencyKind::Path(path) => {
                if let Some(package) = kept {
                    return Ok((Rc::new(package), requirer.local));
                }
                let package = match &requirer.base {
                    Base::Folder(folder) => {
                        let package = Package::read(&package::inside(folder, path)?, self.host)?;
                        self.own.insert(package.name.clone());
                        package
                    }
                    Base::Package(package) => {
                        let folder = llm_do_program::source::plain(path)
                            .map_err(|_| Message::wrong("it leads out of the library"))?;
                        package.inner(&folder, &format!("{}/{folder}", package.label()), self.host)?
                    }
                };
                (package, requirer.local)
            }
            DependencyKind::Git { url, reference, subdir } => {
                let here = match &requirer.base {
                    Base::Folder(folder) => folder.clone(),
                    Base::Package(_) => PathBuf::new(),
                };
                let (url, local) = self.address(url, &here, requirer.local)?;
                if let Some(package) = kept {
                    return Ok((Rc::new(package), local));
                }
                let pinned =
                    before.filter(|_| self.keep == Keep::Everything).and_then(|pinned| pinned.commit.clone());
                let (url, reference) = of_folder(url, reference.as_deref(), local);
                let reference = pinned.as_deref().or(reference);
                let one = |files, commit: &str, shown: &str| {
                    Package::check(files, Some(commit.to_owned()), shown, self.host)
                };
                (self.fetch(&url, reference, subdir.as_deref(), one)?, local)
            }
        };
        let package = Rc::new(package);
        if !self.known.contains_key(&package.name) {
            self.fetched.push(Rc::clone(&package));
        }
        Ok((package, local))
    }

    /// Finds a library by name, which must be installed.
    fn named(
        &self,
        name: &str,
        version: Option<&str>,
        requirer: &Requirer,
        dependency: &Dependency,
    ) -> Result<Package, Error> {
        let libraries = DiskLibraries { roots: self.roots.to_vec() };
        let tree = libraries
            .find(name, version)
            .map_err(|error| Message::failed(format!("the library `{name}` cannot be opened: {error}")))?;
        let Some(tree) = tree else {
            let missing = Diagnostic::error(
                codes::LIBRARY_NOT_FOUND,
                format!("{} needs `{}`, which is not installed", requirer.label, dependency.text),
            );
            let names = libraries.names();
            let missing = missing
                .at(&dependency.span)
                .note(format!("tried {}", libraries.tried(name, version).join(", ")));
            let of_name = |other: &&String| other.split('@').next() == Some(name);
            let others: Vec<&str> = names.iter().filter(of_name).map(String::as_str).collect();
            let missing = if others.is_empty() {
                missing.did_you_mean(name, names.iter().map(|other| other.split('@').next().unwrap_or(other)))
            } else {
                missing.note(format!("installed: {}", others.join(", ")))
            };
            return Err(missing
                .help("install it first: `llm-do lib install PATH` or `llm-do lib install git+URL`")
                .into());
        };
        let package = Package::read(Path::new(tree.root().as_str()), self.host)?;
        if package.name != name || version.is_some_and(|version| version != package.version) {
            return Err(Diagnostic::error(
                codes::BAD_LIBRARY,
                format!("the folder `{}` holds the library `{}`", tree.root(), package.label()),
            )
            .at(&dependency.span)
            .help("install it again, with `llm-do lib install`")
            .into());
        }
        Ok(package)
    }

    /// Returns the installed library of a pin, if its files are the pinned ones.
    fn installed(&self, pinned: &Pinned) -> Option<Package> {
        let folder =
            self.roots.iter().map(|root| root.join(pinned.label())).find(|folder| folder.is_dir())?;
        let mut package = Package::read(&folder, self.host).ok()?;
        package.commit.clone_from(&pinned.commit);
        (package.contents == pinned.contents).then_some(package)
    }

    /// Returns a repository's address in the form for git, and true if the repository is on this machine.
    fn address(&self, url: &str, here: &Path, may_be_local: bool) -> Result<(String, bool), Error> {
        let wrong = |reason: &str| Message::wrong(format!("`git+{url}` cannot be fetched: {reason}"));
        match git::address(url).map_err(|reason| wrong(&reason))? {
            Address::Remote => Ok((url.to_owned(), false)),
            Address::Local if !may_be_local => {
                Err(wrong("a library from elsewhere may not name a repository on this machine").into())
            }
            Address::Local if url.starts_with('.') => {
                if here.as_os_str().is_empty() {
                    return Err(wrong("a library has no folder that this could be relative to").into());
                }
                let whole = here.join(url);
                let whole = whole.to_str().ok_or_else(|| wrong("its path is not UTF-8"))?;
                Ok((whole.to_owned(), true))
            }
            Address::Local => Ok((url.to_owned(), true)),
        }
    }

    /// Fetches the files of a repository, and checks them with `check`, which also gets the commit and a name for
    /// messages.
    fn fetch<T>(
        &self,
        url: &str,
        reference: Option<&str>,
        subdir: Option<&str>,
        check: impl FnOnce(Vec<File>, &str, &str) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let scratch = self.root.scratch()?;
        self.host.fetching(url);
        let fetched = git::fetch(url, reference, subdir, scratch.path());
        self.host.fetched();
        let git::Fetched { files, commit } = fetched?;
        let subdir = subdir.map(|subdir| format!("#{subdir}")).unwrap_or_default();
        let shown = format!("git+{url}@{}{subdir}", git::short(&commit));
        check(files, &commit, &shown)
    }
}

/// Rejects a library that depends on itself.
fn not_above(requirer: &Requirer, name: &str, dependency: &Dependency) -> Result<(), Error> {
    let Some(at) = requirer.chain.iter().position(|above| above == name) else { return Ok(()) };
    let mut chain = requirer.chain[at..].to_vec();
    chain.push(name.to_owned());
    Err(Diagnostic::error(
        codes::CIRCULAR_DEPENDENCY,
        format!("libraries depend on each other: {}", chain.join(" → ")),
    )
    .at(&dependency.span)
    .help("put what both need into a library of its own")
    .into())
}

/// Checks that a library that is needed twice is the same one.
fn same(
    known: &Needed,
    package: &Package,
    requirer: &Requirer,
    dependency: &Dependency,
) -> Result<(), Error> {
    if known.pinned.version == package.version && known.pinned.contents == package.contents {
        return Ok(());
    }
    if known.pinned.version != package.version {
        return Err(two_versions(known, &package.name, &package.version, requirer, dependency));
    }
    let message = format!("two different libraries are called `{}`", package.label());
    Err(conflict(message, known, dependency).into())
}

fn two_versions(
    known: &Needed,
    name: &str,
    version: &str,
    requirer: &Requirer,
    dependency: &Dependency,
) -> Error {
    let (by, other) = (&known.by, &known.pinned.version);
    let message = format!(
        "two versions of `{name}` are needed: {by} needs {other}, {} needs {version}",
        requirer.label
    );
    conflict(message, known, dependency).into()
}

fn conflict(message: String, known: &Needed, dependency: &Dependency) -> Diagnostic {
    let conflict = Diagnostic::error(codes::VERSION_CONFLICT, message).at(&dependency.span);
    let conflict = match &known.span {
        Some(span) => conflict.related(format!("{} asks for the other here", known.by), span),
        None => conflict,
    };
    conflict.help("a program holds one version of a library: make both ask for the same")
}

fn named(name: &str, here: &Path) -> Message {
    let complaint =
        Message::wrong(format!("`{name}` is a name, and there is no registry of libraries to take it from"));
    if here.join(name).is_dir() {
        complaint.hint(format!("for the folder: llm-do lib install ./{name}"))
    } else {
        complaint.hint("name a folder (./PATH) or a repository (git+URL[@REF][#SUBDIR])")
    }
}

/// Returns the address and the reference of a repository on this machine whose folder has an `@` in its path.
fn of_folder(url: String, reference: Option<&str>, is_local: bool) -> (String, Option<&str>) {
    let folder = |url: &str| PathBuf::from(url.strip_prefix("file://").unwrap_or(url)).is_dir();
    match reference {
        Some(rest) if is_local && !folder(&url) && folder(&format!("{url}@{rest}")) => {
            (format!("{url}@{rest}"), None)
        }
        reference => (url, reference),
    }
}
