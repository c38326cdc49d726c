//! The places that a process may access: a worker's view within its bounds, as real places
//! (`docs/reference/sandbox.md`).
//!
//! File tools check every path at each use. The kernel gets its rules once, before the process starts, and they name
//! places. The view is therefore treated as a function from a real place to the access allowed there. A change of its
//! value below a given place is a hole. Namespaces can cut holes; Landlock alone can't.
//!
//! The rules reflect the files at the start of the process. A `.env` that is created in a given folder later is an
//! ordinary file to the process, and the process can create a `.git` in a writable folder that has none. See
//! [`ProcessView::set_aside_planted`].

use super::{
    Confinement, Tier,
    aside::set_aside,
    plan::{Given, Hole, HoleKind, Link},
};
use crate::git;
use llm_do_core::{
    authority::{
        Access, Approvals, Authority, Class, Mount, Origin, Place, Protection, TEMPORARY_PREFIX, VirtualPath,
    },
    gate::Rule,
};
use rustix::io::Errno;
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// The places that a process may access. Equal views give equal access, so one process may serve all calls with equal
/// views.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProcessView {
    given: Vec<Given>,
    holes: Vec<Hole>,
    links: Vec<Link>,
    /// The special names in the given places: the holes, and given places that are special themselves.
    known: Vec<Hole>,
    shown: Vec<Shown>,
    left_out: Vec<LeftOut>,
}

/// A mount of the worker's view that its processes see, under its real path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shown {
    /// The virtual path of the mount.
    pub at: VirtualPath,
    /// The real place of the mount, which is the path that a process uses.
    pub place: PathBuf,
    /// The widest access of a process there.
    pub access: Access,
}

/// A mount of the worker's view that its processes do not get.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeftOut {
    /// The virtual path of the mount.
    pub at: VirtualPath,
    /// The reason why processes don't get it, as the end of a sentence: "the mount `/data` is not given to processes:
    /// …".
    pub reason: String,
}

/// A special name in a folder that a process could write, which was not there when the process started: `.git`, a
/// worker, a module that tools import, a task of an editor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Planted {
    /// The place of the name.
    pub place: PathBuf,
    /// True if the name existed when the process started, with another file or folder.
    pub replaced: bool,
    /// The new name, if it would define the program and was therefore renamed.
    pub set_aside: Option<PathBuf>,
}

impl ProcessView {
    /// Creates a view that contains only the system's programs and a private temporary folder.
    pub fn empty() -> Self {
        Self::default()
    }

    /// Computes the caller's view within its bounds, as places that a process may be given in `tier`.
    ///
    /// If neither worker nor project declares a mount, processes may only read (`docs/reference/sandbox.md`). A
    /// writable mount inside the program that doesn't exist yet is made. Scans every name below the given places for
    /// names that must not be seen. This takes tens of milliseconds per ten thousand files, so cache the result while
    /// the authority stays the same.
    ///
    /// # Errors
    /// Any system error during the scan.
    pub fn of(authority: &Authority, tier: Tier) -> io::Result<Self> {
        Self::within(authority, tier, Access::Write)
    }

    /// Computes the same view, but read-only. Creates nothing.
    ///
    /// # Errors
    /// The errors of [`ProcessView::of`].
    pub fn of_reader(authority: &Authority, tier: Tier) -> io::Result<Self> {
        Self::within(authority, tier, Access::Read)
    }

    fn within(authority: &Authority, tier: Tier, most: Access) -> io::Result<Self> {
        let rules = Rules::new(authority);
        let mut view = Self::default();
        for (mount, reason) in rules.unfit() {
            view.left_out.push(LeftOut { at: mount.at.clone(), reason });
        }
        let mut found: BTreeMap<PathBuf, (Access, Vec<Hole>)> = BTreeMap::new();
        for part in &rules.parts {
            let at = part.mount.at.join(part.place.rest(&part.mount.place).unwrap_or(""));
            let Some(access) = rules.allowed(&part.place) else { continue };
            let place = PathBuf::from(part.place.as_str());
            if super::system::is_never_given(&place) {
                let reason = "it is the whole machine, or belongs to the kernel".into();
                view.left_out.push(LeftOut { at, reason });
                continue;
            }
            if !exists(&place)? {
                let makes = part.access.min(most) == Access::Write
                    && part.place.is_within(authority.protection().root());
                if !makes {
                    continue;
                }
                make_folder(Path::new(authority.protection().root().as_str()), &place)?;
            }
            if !found.contains_key(&place) {
                let Special { mut holes, links } = rules.scan(&place, access)?;
                view.known.extend(holes.iter().cloned());
                // A mount lifts the protection of the place that it names.
                holes.retain(|hole| hole.place != place);
                let in_the_way = match links.first() {
                    Some(link) => Some(format!(
                        "`{}` in it is a symbolic link that must not be replaced, and a link can't be protected",
                        link.place.strip_prefix(&place).unwrap_or(&link.place).display()
                    )),
                    None if tier != Tier::Namespaces => {
                        holes.first().map(|hole| hole_in_the_way(hole, &place))
                    }
                    None => None,
                };
                if let Some(reason) = in_the_way {
                    view.left_out.push(LeftOut { at, reason });
                    continue;
                }
                found.insert(place.clone(), (access, holes));
            }
            view.shown.push(Shown { at, place, access: access.min(most) });
        }
        for (place, (access, holes)) in found {
            view.given.push(Given { place, write: access.min(most) == Access::Write });
            view.holes.extend(holes);
        }
        view.shown.sort_by(|a, b| a.at.cmp(&b.at));
        Ok(view.normal())
    }

    /// Adds readable places: an interpreter, its packages, the modules of tools. Skips missing places. Nothing in them
    /// is masked beyond the view's existing masks.
    #[must_use]
    pub fn with_readable(self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(places, false)
    }

    /// Adds writable places. Only for places that llm-do itself gives to a process, never for those that a program's
    /// files request.
    #[must_use]
    pub fn with_writable(self, places: impl IntoIterator<Item = PathBuf>) -> Self {
        self.with(places, true)
    }

    fn with(mut self, places: impl IntoIterator<Item = PathBuf>, write: bool) -> Self {
        // Links in the path are resolved here, once: what comes from the operator or the installation may have some.
        for place in places.into_iter().filter_map(|place| fs::canonicalize(place).ok()) {
            if write || !self.shows(&place) {
                self.given.push(Given { place, write });
            }
        }
        self.normal()
    }

    /// Adds the links on the way to a path, so that a process can follow them as other programs do. A link grants no
    /// access: its target must be in the view as well.
    #[must_use]
    pub fn with_links_to(mut self, path: &Path) -> Self {
        let mut left: Vec<OsString> = components(path).rev().collect();
        let mut at = PathBuf::from("/");
        let mut steps = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                at.pop();
                continue;
            }
            let next = at.join(&name);
            let Ok(leads_to) = fs::read_link(&next) else {
                at = next;
                continue;
            };
            steps += 1;
            if steps > MOST_LINKS {
                return self;
            }
            if leads_to.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(components(&leads_to).rev());
            self.links.push(Link { at: next, leads_to });
        }
        self.normal()
    }

    /// Returns true if the view already shows a place. Adding the place again would make it read-only where it may be
    /// writable.
    fn shows(&self, place: &Path) -> bool {
        let system = super::system::PROGRAMS.iter().any(|program| place.starts_with(program));
        let given = self.given.iter().any(|given| place.starts_with(&given.place));
        let hidden = |hole: &Hole| hole.kind == HoleKind::Hidden && place.starts_with(&hole.place);
        system || (given && !self.holes.iter().any(hidden))
    }

    /// Normalises the view, so that views with equal access are equal.
    fn normal(mut self) -> Self {
        // Of two entries for one place the one that allows more wins.
        self.given.sort_by(|a, b| a.place.cmp(&b.place).then(b.write.cmp(&a.write)));
        self.given.dedup_by(|a, b| a.place == b.place);
        self.holes.sort();
        self.holes.dedup_by(|a, b| a.place == b.place);
        self.links.sort();
        self.links.dedup();
        self
    }

    /// Returns a text that is equal for views with equal access. An opaque key.
    pub fn key(&self) -> String {
        serde_json::to_string(&(&self.given, &self.holes, &self.links))
            .unwrap_or_else(|_| format!("{self:?}"))
    }

    /// Returns the mounts that processes see, by virtual path, so that a tool can translate the names of its files in
    /// both directions.
    pub fn shown(&self) -> &[Shown] {
        &self.shown
    }

    /// Returns the real working directory of a process with this view, which was made for `authority`, if the view
    /// contains it.
    pub fn working_folder(&self, authority: &Authority, confinement: Confinement) -> Option<PathBuf> {
        let cwd = working_directory(authority);
        let located = authority.view().mounts().iter().find(|mount| mount.at == cwd)?;
        self.leading_to(located.place.as_str().into(), confinement)
    }

    /// Returns that folder as the real working directory of a process with this view, if the view contains the folder
    /// or a place below it.
    pub fn leading_to(&self, folder: PathBuf, confinement: Confinement) -> Option<PathBuf> {
        // Without a view of its own a process sees all folders, whether or not it may look into them.
        let own_root = confinement == Confinement::Tier(Tier::Namespaces);
        let leads_there = !own_root || self.shown.iter().any(|shown| shown.place.starts_with(&folder));
        (leads_there && folder.is_dir()).then_some(folder)
    }

    /// Returns the mounts that processes don't see, with the reasons.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.left_out
    }

    /// Returns true if a process can write anywhere beyond its temporary folder.
    pub fn can_write(&self) -> bool {
        self.given.iter().any(|given| given.write)
    }

    /// Finds the special names in the writable places that have changed since this view was made for `authority`,
    /// renames those that would define the program, and returns all of them, sorted. The kernel doesn't know names: a
    /// process can create a `.git` in a writable folder, or move a folder with one away and create another. Entries are
    /// compared by inode. Scans the writable places.
    ///
    /// # Errors
    /// Any system error during the scan.
    pub fn set_aside_planted(&self, authority: &Authority) -> io::Result<Vec<Planted>> {
        let rules = Rules::new(authority);
        let mut found = Vec::new();
        for given in self.given.iter().filter(|given| given.write) {
            let Special { holes, links } = rules.scan(&given.place, Access::Write)?;
            found.extend(holes.into_iter().chain(links));
        }
        // File tools of the same run write them for a moment.
        found.retain(|found| {
            let name = found.place.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            !name.starts_with(TEMPORARY_PREFIX)
        });
        found.sort();
        found.dedup_by(|a, b| a.place == b.place);
        let mut planted = Vec::new();
        for new in &found {
            let known = self.known.iter().find(|known| known.place == new.place);
            if known.is_some_and(|known| known.is_same(new)) {
                continue;
            }
            // An editor of the operator replaces a file too, but does not keep the old one.
            let moved = |known: &Hole| found.iter().any(|other| other.is_same(known));
            let by_process = known.is_none_or(moved);
            let set_aside = by_process.then(|| set_aside(&new.place, &self.given, authority.protection()));
            planted.push(Planted {
                place: new.place.clone(),
                replaced: known.is_some(),
                set_aside: set_aside.flatten(),
            });
        }
        Ok(planted)
    }

    /// Returns the real path of a virtual one, if processes see it.
    pub fn real(&self, path: &VirtualPath) -> Option<PathBuf> {
        let innermost = self.shown.iter().filter_map(|shown| Some((shown, path.rest(&shown.at)?)));
        let (shown, rest) = innermost.max_by_key(|(shown, _)| shown.at.as_str().len())?;
        Some(if rest.is_empty() { shown.place.clone() } else { shown.place.join(rest) })
    }

    #[cfg(any(target_os = "linux", target_os = "macos"))]
    pub(super) fn into_parts(self) -> (Vec<Given>, Vec<Hole>, Vec<Link>) {
        (self.given, self.holes, self.links)
    }
}

/// The largest number of links on the way to one path, as in the kernel.
const MOST_LINKS: usize = 40;

/// Returns the names of a path, without its root.
fn components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    })
}

/// Returns the system's error for a place that no longer exists.
pub(super) fn gone(error: Errno) -> String {
    match error {
        Errno::NOENT => "it is not there any more".into(),
        Errno::LOOP => {
            "there is a symbolic link in its path now that was not there when the view was made".into()
        }
        error => error.to_string(),
    }
}

fn exists(place: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(place) {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Makes a folder below `root` without following links.
fn make_folder(root: &Path, place: &Path) -> io::Result<()> {
    let below = place.strip_prefix(root).map_err(io::Error::other)?;
    let root = cap_std::fs::Dir::open_ambient_dir(root, cap_std::ambient_authority())?;
    root.create_dir_all(below)
}

fn hole_in_the_way(hole: &Hole, place: &Path) -> String {
    let name = hole.place.strip_prefix(place).unwrap_or(&hole.place).display().to_string();
    let what = match hole.kind {
        HoleKind::Hidden => "must not be seen",
        HoleKind::ReadOnly => "must not be written",
    };
    format!("`{name}` in it {what}, which this machine can't enforce inside a folder that is given")
}

/// A mount, or the part of it that lies in one extent of the bounds.
struct Part<'a> {
    mount: &'a Mount,
    place: Place,
    access: Access,
    /// Mounts that cover parts of this one.
    covered_by: Vec<&'a VirtualPath>,
}

/// The view as a function of real places.
struct Rules<'a> {
    authority: &'a Authority,
    parts: Vec<Part<'a>>,
}

impl<'a> Rules<'a> {
    fn new(authority: &'a Authority) -> Self {
        let mut parts = Vec::new();
        let fit = authority.view().mounts().iter().filter(|mount| unfit(mount).is_none());
        for mount in fit {
            let most = most(mount);
            let others = authority.view().mounts().iter().map(|other| &other.at);
            let covered_by: Vec<_> =
                others.filter(|at| **at != mount.at && at.rest(&mount.at).is_some()).collect();
            for extent in authority.bounds().extents() {
                let place = if mount.place.is_within(&extent.place) {
                    &mount.place
                } else if extent.place.is_within(&mount.place) {
                    &extent.place
                } else {
                    continue;
                };
                let access = most.min(extent.access);
                parts.push(Part { mount, place: place.clone(), access, covered_by: covered_by.clone() });
            }
        }
        Self { authority, parts }
    }

    /// Lists the mounts that no tier can give to a process, with the reason.
    fn unfit(&self) -> impl Iterator<Item = (&Mount, String)> {
        let mounts = self.authority.view().mounts().iter();
        mounts.filter_map(|mount| Some((mount, unfit(mount)?.to_owned())))
    }

    /// Returns the widest access that any mount allows at a place.
    fn allowed(&self, place: &Place) -> Option<Access> {
        let through = |part: &Part<'_>| {
            place.rest(&part.place)?;
            let rest = place.rest(&part.mount.place)?;
            // Another mount lies over it there: what it shows is something else.
            if !part.covered_by.is_empty() {
                let seen = part.mount.at.join(rest);
                if part.covered_by.iter().any(|other| seen.rest(other).is_some()) {
                    return None;
                }
            }
            match self.authority.protection().class(place, &part.mount.place) {
                Class::Invisible => None,
                Class::Protected => Some(Access::Read),
                // File tools ask before each change of what other programs execute. A process can't ask.
                Class::Open if self.authority.protection().is_executed(place) => Some(Access::Read),
                Class::Open => Some(part.access),
            }
        };
        self.parts.iter().filter_map(through).max()
    }

    /// Returns true if the access to a place in a folder may differ from the access to the folder for another reason
    /// than its name.
    fn turns_below(&self, folder: &Place) -> bool {
        let below = |place: &Place| place != folder && place.is_within(folder);
        self.authority.protection().tells_below(folder)
            || self.parts.iter().any(|part| below(&part.place) || below(&part.mount.place))
            || self.parts.iter().filter_map(|part| Some((part, folder.rest(&part.mount.place)?))).any(
                |(part, rest)| {
                    let seen = part.mount.at.join(rest);
                    let mounts = self.authority.view().mounts().iter();
                    mounts.filter_map(|other| other.at.rest(&seen)).any(|rest| !rest.is_empty())
                },
            )
    }

    /// Finds the names below a place that have other rights than the place itself, which is given with `access`.
    fn scan(&self, top: &Path, access: Access) -> io::Result<Special> {
        let Special { mut holes, mut links } = Special::default();
        let mut folders = vec![(top.to_owned(), Place::new(&top.to_string_lossy()), Some(access))];
        while let Some((folder, place, access)) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // A file, or gone.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) =>
                {
                    continue;
                }
                // A process of the same user could open it up, and its content is unknown.
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied && folder != top => {
                    holes.extend(Hole::at(folder, HoleKind::Hidden));
                    continue;
                }
                Err(error) => return Err(error),
            };
            let ordinary = access.is_some() && !self.turns_below(&place);
            let mut names = Vec::new();
            for entry in entries {
                let entry = entry?;
                let kind = entry.file_type()?;
                let name = entry.file_name();
                if let Some(part) = git::part(&name) {
                    names.push(part);
                }
                if ordinary && name.to_str().is_some_and(Protection::is_ordinary) {
                    if kind.is_dir() {
                        folders.push((entry.path(), place.join(&name.to_string_lossy()), access));
                    }
                    continue;
                }
                // No rule names a name that is not UTF-8, but its folder may have a rule.
                let place = place.join(&name.to_string_lossy());
                let here = self.allowed(&place);
                // More than around it is a place of its own, which is given as such.
                if here < access && kind.is_symlink() {
                    if access == Some(Access::Write) {
                        links.extend(Hole::at(entry.path(), HoleKind::ReadOnly));
                    }
                } else if here < access {
                    let hole = if here.is_none() { HoleKind::Hidden } else { HoleKind::ReadOnly };
                    holes.extend(Hole::at(entry.path(), hole));
                }
                if kind.is_dir() && here.is_some() {
                    folders.push((entry.path(), place, here));
                }
            }
            if access == Some(Access::Write) && git::is_repository(|part| names.contains(&part)) {
                holes.extend(Hole::at(folder, HoleKind::ReadOnly));
            }
        }
        Ok(Special { holes, links })
    }
}

/// The names below a place that have other rights than the place itself.
#[derive(Default)]
struct Special {
    holes: Vec<Hole>,
    /// Links that would have to be holes. Nothing can be mounted over a link. A link that must not be seen does no harm
    /// if it can't be replaced: its target is judged by its own name.
    links: Vec<Hole>,
}

impl Hole {
    /// Returns true if it is around the same file or folder, wherever that is now.
    fn is_same(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// Creates a hole around the entry that exists there now. Returns `None` if there is none any more.
    fn at(place: PathBuf, kind: HoleKind) -> Option<Self> {
        let found = fs::symlink_metadata(&place).ok()?;
        Some(Self { place, kind, device: found.dev(), inode: found.ino() })
    }
}

/// Returns the widest access of a process in a mount. A process may only read the default mount, which no file
/// declares. Paths that are passed or bound are mounted elsewhere.
fn most(mount: &Mount) -> Access {
    let default = mount.origin != Origin::Declared && mount.at == VirtualPath::root();
    if default { Access::Read } else { mount.access }
}

/// Returns the virtual working directory of a worker's processes: `/` if a mount there is given to processes, otherwise
/// the first mount.
pub(crate) fn working_directory(authority: &Authority) -> VirtualPath {
    let fit =
        || authority.view().mounts().iter().filter(|mount| unfit(mount).is_none()).map(|mount| &mount.at);
    let root = VirtualPath::root();
    if fit().any(|at| *at == root) { root } else { fit().min().cloned().unwrap_or(root) }
}

/// Returns the reason why processes do not get a mount, or `None` if they get it. File tools check each access there.
pub(crate) fn unfit(mount: &Mount) -> Option<&'static str> {
    let asks = |rule: Option<Rule>| rule.is_some_and(|rule| rule != Rule::PreApproved);
    let Approvals { read, write, delete } = mount.approvals;
    let changes = most(mount) == Access::Write && (asks(write) || asks(delete));
    if mount.place.server().is_some() {
        Some("a server has what it shows, and processes see files")
    } else if !mount.suffixes.is_empty() {
        Some("it allows only some suffixes, and a process would see all files")
    } else if mount.max_file_bytes.is_some() {
        Some("it limits the size of files, which holds for file tools alone")
    } else if asks(read) || changes {
        Some("its approval rules ask for each access or block it, and a process accesses files unasked")
    } else {
        None
    }
}
