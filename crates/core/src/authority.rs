//! Authority: the files and network that a call may touch. Authority only ever shrinks.
//!
//! Two things pass down the call tree separately (`docs/reference/sandbox.md`). [`Bounds`] are the real places that a
//! chain of calls may touch at all; each `restrict`, `readonly` and disabled network narrows them permanently. A
//! [`View`] is the set of mounts that one worker sees. The worker can reach its view intersected with its bounds.
//!
//! Only the program loader and the host's grant resolver construct an [`Authority`]. `narrow` is the only operation on
//! it. A driver that makes calls in several processes serialises authorities ([`call_spec`](crate::call_spec)). This
//! module never opens a file: places are names, and [`crate::vfs::FileSystem`] opens them.

mod domain;
mod place;
mod protection;
mod variable;
mod view;

pub use domain::{BadDomain, Domain, Host};
pub use place::{Place, Served, VirtualPath};
pub use protection::{Class, FurtherProtection, MANIFESTS, Protection, TEMPORARY_PREFIX};
pub use variable::{is_token, key_header_refused, variable_refused};
pub use view::{Approvals, Located, Mount, NotOwn, Origin, View};

use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// An operation on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reads the file's content or checks that it exists.
    Read,
    /// Creates, changes or removes the file.
    Write,
}

/// A subtree of real places, and the access that is allowed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Root of the subtree (or a single file).
    pub place: Place,
    /// The widest access allowed there.
    pub access: Access,
}

/// The network that a call may use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No network.
    #[default]
    Off,
    /// Only these domains.
    Domains(Vec<Domain>),
    /// All of the network.
    On,
}

impl Network {
    /// Allows these domains. An empty list means no network.
    pub fn domains(domains: impl IntoIterator<Item = Domain>) -> Self {
        Self::Domains(domains.into_iter().collect()).normal()
    }

    /// The intersection of two networks.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        match (self.clone().normal(), other.clone().normal()) {
            (Self::Off, _) | (_, Self::Off) => Self::Off,
            (Self::On, x) | (x, Self::On) => x,
            (Self::Domains(a), Self::Domains(b)) => {
                Self::domains(a.iter().flat_map(|a| b.iter().filter_map(|b| a.meet(b))))
            }
        }
    }

    /// Returns true if this network allows everything that `other` allows.
    pub fn covers(&self, other: &Self) -> bool {
        self.narrow(other) == other.clone().normal()
    }

    /// Returns true if no network is allowed.
    pub fn is_off(&self) -> bool {
        *self == Self::Off
    }

    /// The canonical form, so that equal authority compares equal.
    fn normal(self) -> Self {
        match self {
            Self::Domains(mut domains) => {
                domains.sort_unstable();
                domains.dedup();
                let covered = |one: &Domain| domains.iter().any(|other| other != one && one.is_within(other));
                let kept: Vec<Domain> = domains.iter().filter(|one| !covered(one)).cloned().collect();
                if kept.is_empty() { Self::Off } else { Self::Domains(kept) }
            }
            other => other,
        }
    }
}

/// The limits of a chain of calls: the real places that it may touch, the network that it may use, the environment
/// variables that its code may get, and the servers that it may start or talk to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    extents: Vec<Extent>,
    network: Network,
    /// The names of the environment variables that the operator grants.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    variables: BTreeSet<Arc<str>>,
    /// The command lines of the servers that the operator grants.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    processes: BTreeSet<Arc<str>>,
    /// The network that the operator grants, for servers that llm-do itself talks to.
    #[serde(default, skip_serializing_if = "Network::is_off")]
    servers: Network,
}

impl Bounds {
    /// Bounds made of these subtrees. Only the program loader and the grant resolver call this.
    pub fn new(extents: Vec<Extent>, network: Network) -> Self {
        let (variables, processes) = (BTreeSet::new(), BTreeSet::new());
        let servers = Network::Off;
        let mut bounds =
            Self { extents: Vec::new(), network: network.normal(), variables, processes, servers };
        for extent in extents {
            bounds.add(extent);
        }
        bounds
    }

    /// Adds a subtree unless an existing one covers it, and drops those that it covers. Keeps the list sorted, so
    /// that equal authority compares equal.
    fn add(&mut self, new: Extent) {
        if self.extents.iter().any(|old| new.place.is_within(&old.place) && new.access <= old.access) {
            return;
        }
        self.extents.retain(|old| !(old.place.is_within(&new.place) && old.access <= new.access));
        let at = self.extents.partition_point(|old| (&old.place, old.access) < (&new.place, new.access));
        self.extents.insert(at, new);
    }

    /// The subtrees of real places.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The network that is allowed.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Sets the environment variables that the operator grants.
    #[must_use]
    pub fn with_variables(self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { variables: names.into_iter().collect(), ..self }
    }

    /// Returns true if code that declares this environment variable may get it.
    pub fn allows_variable(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    /// Sets the command lines of servers that the operator grants.
    #[must_use]
    pub fn with_processes(self, commands: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { processes: commands.into_iter().collect(), ..self }
    }

    /// Returns true if a toolset may start a server with exactly this command line.
    pub fn allows_process(&self, command: &str) -> bool {
        self.processes.contains(command)
    }

    /// Sets the network that the operator grants for servers that llm-do itself talks to.
    #[must_use]
    pub fn with_servers(self, network: Network) -> Self {
        Self { servers: network.normal(), ..self }
    }

    /// Returns true if a toolset may talk to all servers of that network. The network of a worker's processes is a
    /// separate setting: [`Bounds::network`].
    pub fn allows_servers(&self, network: &Network) -> bool {
        self.servers.covers(network)
    }

    /// The intersection of places and network. This is the only operation on bounds. The variables and servers of
    /// `self` stay, because no worker names those of its callees: code gets only what its own package declares.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        let network = self.network.narrow(&other.network);
        let mut both = Self { extents: Vec::new(), network, ..self.clone() };
        for a in &self.extents {
            for b in &other.extents {
                let place = if a.place.is_within(&b.place) {
                    &a.place
                } else if b.place.is_within(&a.place) {
                    &b.place
                } else {
                    continue;
                };
                both.add(Extent { place: place.clone(), access: a.access.min(b.access) });
            }
        }
        both
    }

    /// The same places, for reading only.
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self::new(
            self.extents.iter().map(|e| Extent { place: e.place.clone(), access: Access::Read }).collect(),
            self.network.clone(),
        )
        .with_variables(self.variables.iter().cloned())
        .with_processes(self.processes.iter().cloned())
        .with_servers(self.servers.clone())
    }

    /// The widest subtree that holds `place` and allows `access`.
    pub fn covering(&self, place: &Place, access: Access) -> Option<&Extent> {
        self.extents.iter().find(|e| e.access >= access && place.is_within(&e.place))
    }

    /// Returns true if any part of `place` is within the bounds.
    pub fn overlaps(&self, place: &Place) -> bool {
        self.extents.iter().any(|e| e.place.is_within(place) || place.is_within(&e.place))
    }

    /// Returns true if `other` allows everything that `self` allows.
    pub fn is_within(&self, other: &Self) -> bool {
        self.extents.iter().all(|e| other.covering(&e.place, e.access).is_some())
            && other.network.covers(&self.network)
            && self.variables.is_subset(&other.variables)
            && self.processes.is_subset(&other.processes)
            && other.allows_servers(&self.servers)
    }
}

/// The reason why access was refused. The model receives it as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The path is not valid in the virtual file system.
    #[error("`{path}` is not a usable path: {reason}")]
    BadPath {
        /// The path as given.
        path: String,
        /// The error in the path.
        reason: &'static str,
    },
    /// No mount contains the path, the path is invisible, or it is outside the bounds. All three give the same answer,
    /// so that a model can't probe for files that it may not see.
    #[error("`{path}` does not exist here. {visible}")]
    NotVisible {
        /// Normalised virtual path.
        path: String,
        /// The places that are visible instead.
        visible: String,
    },
    /// The path may be read but not written.
    #[error("`{path}` is read-only: {reason}")]
    ReadOnly {
        /// Normalised virtual path.
        path: String,
        /// The rule that forbids writing.
        reason: String,
    },
    /// The mount allows only some suffixes.
    #[error("`{path}` is not allowed: the mount `{mount}` holds only files that end in {allowed}")]
    Suffix {
        /// Normalised virtual path.
        path: String,
        /// The mount.
        mount: String,
        /// The suffixes that the mount allows.
        allowed: String,
    },
    /// A symlink leads to a place that another mount covers.
    #[error("`{path}` is a symbolic link to `{leads_to}`, which is in another mount: use that path")]
    OtherMount {
        /// Normalised virtual path.
        path: String,
        /// The place that the link leads to.
        leads_to: String,
    },
    /// A symlink has been changed since rules and the operator decided about the place that it led to.
    #[error(
        "`{path}` leads to another place than when this call was checked: a symbolic link was changed. Make the call again"
    )]
    Redirected {
        /// Normalised virtual path.
        path: String,
    },
    /// A caller passes a path that it can't access itself (`docs/reference/sandbox.md`).
    #[error("caller does not hold {path} for {mode}: {why}. Pass a path that you can use yourself")]
    NotHeld {
        /// The path as given.
        path: String,
        /// `reading` or `writing`.
        mode: &'static str,
        /// The refusal that the caller itself gets, without a stop at the end.
        why: String,
    },
    /// A callee's mount lies outside the bounds of the chain of callers.
    #[error("`{worker}` mounts `{mount}` outside what its callers may touch: {bound}")]
    OutsideBounds {
        /// The callee.
        worker: String,
        /// The callee's mount.
        mount: String,
        /// The bounds, as virtual or project-relative places.
        bound: String,
    },
}

/// The sandbox settings of a worker's definition: the input of [`Authority::narrow`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrowing {
    /// Declared mounts. Empty while `declared` is false: the caller's view applies.
    pub mounts: Vec<Mount>,
    /// True if the worker or its project declares mounts.
    pub declared: bool,
    /// `sandbox.approval`. It tightens the rules of the caller's view and of `handed`. It is already merged into
    /// `mounts`, since a mount's own rules take precedence over it.
    pub approvals: Approvals,
    /// `sandbox.restrict`: virtual paths; empty means all.
    pub restrict: Vec<VirtualPath>,
    /// `sandbox.readonly`.
    pub readonly: bool,
    /// `sandbox.network_enabled`; `None` keeps the caller's network.
    pub network: Option<Network>,
    /// True for a worker of a library and for a generated one: its mounts are limited to the caller's view.
    pub foreign: bool,
    /// `path` parameters and attachments that the caller passes. The caller's access to them has been checked.
    pub handed: Vec<Mount>,
}

/// The authority of a call: its bounds and its view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Authority {
    bounds: Bounds,
    view: View,
    protection: Arc<Protection>,
}

impl Authority {
    /// The authority that a program starts with. Only the program loader and the grant resolver call this.
    pub fn new(bounds: Bounds, view: View, protection: Arc<Protection>) -> Self {
        Self { bounds, view, protection }
    }

    /// Sets the environment variables that the operator grants. Only the grant resolver calls this.
    #[must_use]
    pub fn with_variables(self, names: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { bounds: self.bounds.with_variables(names), ..self }
    }

    /// Sets the command lines of servers that the operator grants. Only the grant resolver calls this.
    #[must_use]
    pub fn with_processes(self, commands: impl IntoIterator<Item = Arc<str>>) -> Self {
        Self { bounds: self.bounds.with_processes(commands), ..self }
    }

    /// Sets the network that the operator grants for servers that llm-do itself talks to. Only the grant resolver calls
    /// this.
    #[must_use]
    pub fn with_servers(self, network: Network) -> Self {
        Self { bounds: self.bounds.with_servers(network), ..self }
    }

    /// Protects these files as well. Only the grant resolver calls this.
    #[must_use]
    pub fn protecting(self, files: impl IntoIterator<Item = Place>) -> Self {
        let protection = Protection::clone(&self.protection).with_defining(files);
        Self { protection: Arc::new(protection), ..self }
    }

    /// Replaces the protection by that of another authority of the same program. Only the grant resolver calls this.
    #[must_use]
    pub fn protected_by(self, protection: Arc<Protection>) -> Self {
        Self { protection, ..self }
    }

    /// Takes away the right to write in a folder: the program's own, where it is a copy that nothing else uses.
    #[must_use]
    pub fn reading_below(mut self, folder: &Place) -> Self {
        for extent in self.bounds.extents.iter_mut().filter(|extent| extent.place.is_within(folder)) {
            extent.access = Access::Read;
        }
        let mounts = self.view.mounts().iter().cloned().map(|mount| match mount.place.is_within(folder) {
            true => Mount { access: Access::Read, ..mount },
            false => mount,
        });
        self.view = View::new(mounts.collect());
        self
    }

    /// Adds the mounts that a worker's own toolsets show for reading: of [served](Place::served) places, and of folders
    /// that belong to the worker's definition. `approvals` come
    /// from the worker's sandbox. A `restrict` of the worker applies to files and does not remove these mounts.
    #[must_use]
    pub fn showing(mut self, mounts: Vec<Mount>, approvals: Approvals) -> Self {
        for mount in mounts {
            self.bounds.add(Extent { place: mount.place.clone(), access: Access::Read });
            let approvals = mount.approvals.tightened(approvals);
            self.view = self.view.with(Mount { access: Access::Read, approvals, ..mount });
        }
        self
    }

    /// The bounds: the real places.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The view: the mounts.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The files that define the program and are therefore protected or invisible.
    pub fn protection(&self) -> &Arc<Protection> {
        &self.protection
    }

    /// The authority of a callee that asks for `by` when the holder of `self` calls it (`docs/reference/sandbox.md`).
    ///
    /// The result never has wider bounds than `self`; for foreign workers it never has a wider view either. A
    /// declared mount that lies wholly outside the bounds is refused. The one exception is a library's own folder,
    /// which its workers may read for every caller.
    pub fn narrow(&self, worker: &str, by: &Narrowing) -> Result<Self, Refusal> {
        let mut view = match by.declared {
            true => View::new(self.declared_mounts(worker, by)?),
            false => self.view.tightened(by.approvals),
        };
        for mount in &by.handed {
            let approvals = mount.approvals.tightened(by.approvals);
            view = view.with(Mount { approvals, ..mount.clone() });
        }
        let mut bounds = self.bounds.clone();
        if by.foreign {
            bounds = bounds.narrow(&self.view.extents(Network::On));
        }
        if by.declared {
            for mount in by.mounts.iter().filter(|mount| mount.is_of_library()) {
                bounds.add(Extent { place: mount.place.clone(), access: Access::Read });
            }
        }
        if !by.restrict.is_empty() {
            // `restrict` applies to the worker's own view. The paths that the caller passed are the caller's choice
            // and stay.
            let kept = by
                .restrict
                .iter()
                .flat_map(|path| view.extents_below(path))
                .chain(by.handed.iter().map(|m| Extent { place: m.place.clone(), access: m.access }))
                .collect();
            bounds = bounds.narrow(&Bounds::new(kept, Network::On));
        }
        if by.readonly {
            bounds = bounds.read_only();
        }
        if let Some(network) = &by.network {
            bounds.network = bounds.network.narrow(network);
        }
        Ok(Self { bounds, view, protection: Arc::clone(&self.protection) })
    }

    /// The mounts that a worker declares, checked against the bounds. For foreign workers they are cut to the view of
    /// `self`.
    fn declared_mounts(&self, worker: &str, by: &Narrowing) -> Result<Vec<Mount>, Refusal> {
        let mut mounts = Vec::with_capacity(by.mounts.len());
        // Outermost first: of two mounts at one path the later one wins, and a declared mount must win over one that
        // another view brought along.
        for mount in View::new(by.mounts.clone()).mounts().iter().rev() {
            if mount.is_of_library() {
                mounts.push(mount.clone());
                continue;
            }
            let seen =
                if by.foreign { self.view.within(mount, &self.protection) } else { vec![mount.clone()] };
            if !seen.iter().any(|m| self.bounds.overlaps(&m.place)) {
                return Err(Refusal::OutsideBounds {
                    worker: worker.to_owned(),
                    mount: mount.at.to_string(),
                    bound: self.describe_bounds(),
                });
            }
            // A callee can't make trusted what others write in the caller's view.
            mounts.extend(seen.into_iter().map(|mount| {
                let untrusted = mount.untrusted || self.view.shows_untrusted(&mount.place);
                Mount { untrusted, ..mount }
            }));
        }
        Ok(mounts)
    }

    fn describe_bounds(&self) -> String {
        let places: Vec<String> =
            self.bounds.extents.iter().map(|e| self.protection.relative(&e.place)).collect();
        if places.is_empty() { "nothing".into() } else { places.join(", ") }
    }

    /// Finds the real place of a virtual path and checks that `access` to it is allowed: mount, mode, suffix,
    /// protected and invisible names, bounds. The file system checks the effect of symlinks, with
    /// [`Located::admits`].
    pub fn locate(&self, path: &str, access: Access) -> Result<Located, Refusal> {
        let path = VirtualPath::parse(path)?;
        self.view.locate(&path, access, &self.bounds, &self.protection)
    }

    /// A virtual path under which `access` to that place is allowed. A caller uses this path to pass the place on.
    pub fn path_to(&self, place: &Place, access: Access) -> Option<VirtualPath> {
        let shown = self.view.mounts().iter().filter_map(|mount| {
            let path = mount.at.join(place.rest(&mount.place)?);
            let located = self.view.locate(&path, access, &self.bounds, &self.protection).ok()?;
            // Another mount may cover it.
            (located.place() == *place).then_some(path)
        });
        shown.min_by(|a, b| a.as_str().len().cmp(&b.as_str().len()).then_with(|| a.cmp(b)))
    }

    /// Finds the directories to list, with the checks of [`Authority::locate`]: every reachable subtree at or below
    /// `path`. For a view that `restrict` narrowed to `/src`, listing `/` gives `/src`.
    pub fn locate_tree(&self, path: &str) -> Result<Vec<Located>, Refusal> {
        let path = VirtualPath::parse(path)?;
        self.view.locate_tree(&path, &self.bounds, &self.protection)
    }

    /// Returns true if a process with this authority can read untrusted content: from the network, or in files.
    pub fn reaches_untrusted(&self) -> bool {
        self.bounds.network != Network::Off || self.has_untrusted(|mount| mount.place.server().is_none())
    }

    /// Returns true if the view has files with untrusted content: in an untrusted mount, or at a place that any worker
    /// of the program declares untrusted.
    pub fn sees_untrusted(&self) -> bool {
        self.has_untrusted(|_| true)
    }

    fn has_untrusted(&self, of: impl Fn(&Mount) -> bool) -> bool {
        let mut mounts =
            self.view.mounts().iter().filter(|mount| of(mount) && self.bounds.overlaps(&mount.place));
        mounts.any(|mount| {
            let inside = |place: &Place| place.is_within(&mount.place) && self.bounds.overlaps(place);
            let shows = |place: &Place| mount.place.is_within(place) || inside(place);
            mount.untrusted || self.protection.untrusted().any(shows)
        })
    }

    /// Returns true if the content of a real place is untrusted according to mounts: those of this view that show it,
    /// or those of any worker of the program.
    pub fn is_untrusted(&self, place: &Place) -> bool {
        self.view.shows_untrusted(place) || self.protection.is_untrusted(place)
    }

    /// The places in a folder whose content is untrusted according to mounts.
    pub(crate) fn untrusted_within(&self, folder: &Place) -> Vec<Place> {
        let mounts = self.view.mounts().iter().filter(|mount| mount.untrusted).map(|mount| &mount.place);
        mounts.chain(self.protection.untrusted()).filter(|place| place.is_within(folder)).cloned().collect()
    }

    /// Returns true if any place can be written. If not, the tools that write need not be offered.
    pub fn can_write(&self) -> bool {
        self.view.mounts().iter().any(|m| {
            m.access == Access::Write
                && self.bounds.extents.iter().any(|e| {
                    e.access == Access::Write && (e.place.is_within(&m.place) || m.place.is_within(&e.place))
                })
        })
    }
}

#[cfg(test)]
mod tests;
