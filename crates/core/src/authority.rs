//! Authority: what a call may touch. It only ever shrinks.
//!
//! Two things travel down the call tree separately (SPEC §6.3). [`Bounds`] are the real places that a chain of calls
//! may touch at all; each `restrict`, `readonly` and switched-off network narrows them for good. A [`View`] is the set
//! of mounts that one worker sees; what it can reach is its view within its bounds.
//!
//! There are two makers of an [`Authority`] (the program loader and the grant resolver of the host) and one
//! operation, `narrow`. Nothing here touches a disk: places are names, and [`crate::vfs::FileSystem`] opens them.

mod domain;
mod place;
mod protection;
mod view;

pub use domain::{BadDomain, Domain, Host};
pub use place::{Place, VirtualPath};
pub use protection::{Class, Protection, TEMPORARY_PREFIX};
pub use view::{Approvals, Located, Mount, View};

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Its content or existence is read.
    Read,
    /// It is made, changed or removed.
    Write,
}

/// A subtree of real places with what may be done there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Root of the subtree (or a single file).
    pub place: Place,
    /// The most that may be done there.
    pub access: Access,
}

/// Whether network is allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// None at all.
    Off,
    /// These domains.
    Domains(Vec<Domain>),
    /// Everything.
    On,
}

impl Network {
    /// These domains; none at all is no network.
    pub fn domains(domains: impl IntoIterator<Item = Domain>) -> Self {
        Self::Domains(domains.into_iter().collect()).normal()
    }

    /// The tighter of two: what both allow.
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

    /// One form for what means the same, so that equal authority compares equal.
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

/// The real places a chain of calls may touch, and whether it may use the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    extents: Vec<Extent>,
    network: Network,
}

impl Bounds {
    /// Bounds made of these subtrees. Only the program loader and the grant resolver call this.
    pub fn new(extents: Vec<Extent>, network: Network) -> Self {
        let mut bounds = Self { extents: Vec::new(), network: network.normal() };
        for extent in extents {
            bounds.add(extent);
        }
        bounds
    }

    /// Adds a subtree unless one that is there covers it; drops those that it covers. Sorted, so that equal
    /// authority compares equal.
    fn add(&mut self, new: Extent) {
        if self.extents.iter().any(|old| new.place.is_within(&old.place) && new.access <= old.access) {
            return;
        }
        self.extents.retain(|old| !(old.place.is_within(&new.place) && old.access <= new.access));
        let at = self.extents.partition_point(|old| (&old.place, old.access) < (&new.place, new.access));
        self.extents.insert(at, new);
    }

    /// The subtrees.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Whether network is allowed.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// What both allow. The one operation on authority.
    #[must_use]
    pub fn narrow(&self, other: &Self) -> Self {
        let mut both = Self { extents: Vec::new(), network: self.network.narrow(&other.network) };
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
    }

    /// The widest subtree that holds `place` and allows `access`.
    pub fn covering(&self, place: &Place, access: Access) -> Option<&Extent> {
        self.extents.iter().find(|e| e.access >= access && place.is_within(&e.place))
    }

    /// Whether any part of `place` can be touched.
    pub fn overlaps(&self, place: &Place) -> bool {
        self.extents.iter().any(|e| e.place.is_within(place) || place.is_within(&e.place))
    }

    /// Whether everything that `self` allows, `other` allows too.
    pub fn is_within(&self, other: &Self) -> bool {
        self.extents.iter().all(|e| other.covering(&e.place, e.access).is_some())
            && self.network.narrow(&other.network) == self.network
    }
}

/// Why authority was refused; said to a model as a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The path is none that the virtual file system could have.
    #[error("`{path}` is not a usable path: {reason}")]
    BadPath {
        /// As given.
        path: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No mount holds it, or it is invisible, or outside the bounds. One answer for all three, so that a model
    /// can't probe for what it may not see.
    #[error("`{path}` does not exist here. {visible}")]
    NotVisible {
        /// Normalised virtual path.
        path: String,
        /// What there is instead.
        visible: String,
    },
    /// It may be read but not written.
    #[error("`{path}` is read-only: {reason}")]
    ReadOnly {
        /// Normalised virtual path.
        path: String,
        /// Which rule makes it so.
        reason: String,
    },
    /// The mount allows only some suffixes.
    #[error("`{path}` is not allowed: the mount `{mount}` holds only files that end in {allowed}")]
    Suffix {
        /// Normalised virtual path.
        path: String,
        /// The mount.
        mount: String,
        /// Its suffixes.
        allowed: String,
    },
    /// A symlink leads to a place over which another mount lies.
    #[error("`{path}` is a symbolic link to `{leads_to}`, which is in another mount: use that path")]
    OtherMount {
        /// Normalised virtual path.
        path: String,
        /// Where it leads.
        leads_to: String,
    },
    /// A caller hands over a path that it does not hold itself (SPEC §6.4).
    #[error("caller does not hold {path} for {mode}")]
    NotHeld {
        /// As given.
        path: String,
        /// `reading` or `writing`.
        mode: &'static str,
    },
    /// A callee's mount lies outside what the chain of callers may touch.
    #[error("`{worker}` mounts `{mount}` outside what its callers may touch: {bound}")]
    OutsideBounds {
        /// The callee.
        worker: String,
        /// Its mount.
        mount: String,
        /// The bounds, as virtual or project-relative places.
        bound: String,
    },
}

/// What a worker's definition asks of the sandbox: an input of [`Authority::narrow`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Narrowing {
    /// Declared mounts; empty with `declared` false means the caller's view.
    pub mounts: Vec<Mount>,
    /// Whether the worker or its project declares mounts at all.
    pub declared: bool,
    /// `sandbox.restrict`: virtual paths; empty means all.
    pub restrict: Vec<VirtualPath>,
    /// `sandbox.readonly`.
    pub readonly: bool,
    /// `sandbox.network_enabled`; `None` leaves what the caller has.
    pub network: Option<Network>,
    /// A library's or a generated worker: its mounts count only within the caller's view.
    pub foreign: bool,
    /// `path` parameters and attachments: handed over by the caller, who was checked to hold them.
    pub handed: Vec<Mount>,
}

/// What one call may touch: its bounds and its view.
#[derive(Clone, Debug, PartialEq)]
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

    /// The real places.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The mounts.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// What defines the program and is therefore protected or invisible.
    pub fn protection(&self) -> &Arc<Protection> {
        &self.protection
    }

    /// The authority of a callee that asks for `by`, called by the holder of `self` (SPEC §6.3).
    ///
    /// Never wider than `self` in bounds; for foreign workers never wider in view either. A declared mount of which
    /// no part lies in the bounds is refused.
    pub fn narrow(&self, worker: &str, by: &Narrowing) -> Result<Self, Refusal> {
        let mut view =
            if by.declared { View::new(self.declared_mounts(worker, by)?) } else { self.view.clone() };
        for mount in &by.handed {
            view = view.with(mount.clone());
        }
        let mut bounds = self.bounds.clone();
        if by.foreign {
            bounds = bounds.narrow(&self.view.extents(Network::On));
        }
        if !by.restrict.is_empty() {
            // `restrict` speaks of the worker's own view; what was handed over is the caller's choice and stays.
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

    /// The mounts that a worker declares, checked against the bounds; for foreign workers cut to what `self` sees.
    fn declared_mounts(&self, worker: &str, by: &Narrowing) -> Result<Vec<Mount>, Refusal> {
        let mut mounts = Vec::with_capacity(by.mounts.len());
        // Outermost first: of two at one path the later stands, and a mount that was declared there is to stand before
        // one that another's view brought along.
        for mount in View::new(by.mounts.clone()).mounts().iter().rev() {
            let seen =
                if by.foreign { self.view.within(mount, &self.protection) } else { vec![mount.clone()] };
            if !seen.iter().any(|m| self.bounds.overlaps(&m.place)) {
                return Err(Refusal::OutsideBounds {
                    worker: worker.to_owned(),
                    mount: mount.at.to_string(),
                    bound: self.describe_bounds(),
                });
            }
            mounts.extend(seen);
        }
        Ok(mounts)
    }

    fn describe_bounds(&self) -> String {
        let places: Vec<String> =
            self.bounds.extents.iter().map(|e| self.protection.relative(&e.place)).collect();
        if places.is_empty() { "nothing".into() } else { places.join(", ") }
    }

    /// Finds the real place of a virtual path and checks that `access` to it is allowed: mount, mode, suffix,
    /// protected and invisible names, bounds. What symlinks do to the place is for the file system to check, with
    /// [`Located::admits`].
    pub fn locate(&self, path: &str, access: Access) -> Result<Located, Refusal> {
        let path = VirtualPath::parse(path)?;
        self.view.locate(&path, access, &self.bounds, &self.protection)
    }

    /// A virtual path under which `access` to that place is allowed: what a caller would write to hand it over.
    pub fn path_to(&self, place: &Place, access: Access) -> Option<VirtualPath> {
        let shown = self.view.mounts().iter().filter_map(|mount| {
            let path = mount.at.join(place.rest(&mount.place)?);
            let located = self.view.locate(&path, access, &self.bounds, &self.protection).ok()?;
            // Another mount may lie over it.
            (located.place() == *place).then_some(path)
        });
        shown.min_by(|a, b| a.as_str().len().cmp(&b.as_str().len()).then_with(|| a.cmp(b)))
    }

    /// As [`Authority::locate`] for directories to list: every reachable subtree at or below `path`. For a view that
    /// `restrict` narrowed to `/src`, listing `/` gives `/src`.
    pub fn locate_tree(&self, path: &str) -> Result<Vec<Located>, Refusal> {
        let path = VirtualPath::parse(path)?;
        self.view.locate_tree(&path, &self.bounds, &self.protection)
    }

    /// Whether anything at all can be written: if not, tools that write need not be offered.
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
