//! Mounts: the file system that one worker sees.

use super::{Access, Bounds, Class, Extent, Network, Place, Protection, Refusal, VirtualPath};
use crate::rule::Rule;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Approval rules that a mount carries (`docs/reference/sandbox.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Approvals {
    /// The rule for reading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Rule>,
    /// The rule for writing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Rule>,
    /// The rule for deleting; if absent, the rule for writing applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<Rule>,
}

/// The reason why a view has a mount. It determines to what extent files of the program may pre-approve effects in the
/// mount (`docs/reference/approvals.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A file of the program declares it.
    Declared,
    /// The mount is the project's own root, and no file declares a mount. File tools treat it like a declared mount,
    /// and processes may only read it.
    Project,
    /// The mount is a library's own folder, which the library declares. Its workers and its code may read it for every
    /// caller.
    Library,
    /// Any other mount: a lone file's current directory, a place that the operator binds, an attachment.
    #[default]
    Other,
}

impl Origin {
    /// Returns true if files of the program may pre-approve operations of file tools in such a mount.
    pub fn is_own(self) -> bool {
        self != Self::Other
    }
}

/// A mount: a real place shown at a virtual path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// The virtual path in the worker's view.
    pub at: VirtualPath,
    /// The real folder or single file that it shows.
    pub place: Place,
    /// The widest access allowed through it.
    pub access: Access,
    /// Suffixes of the files that are visible (`.txt`, `.md`); empty means all files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suffixes: Vec<String>,
    /// Largest file that may be read or written through it, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_file_bytes: Option<u64>,
    /// The mount's approval rules.
    #[serde(default)]
    pub approvals: Approvals,
    /// The reason why the view has the mount.
    #[serde(default)]
    pub origin: Origin,
    /// True if the mount shows untrusted content (`docs/reference/origins.md`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
}

impl Mount {
    /// Returns true if the mount shows a library's own folder for reading ([`Origin::Library`]).
    pub(super) fn is_of_library(&self) -> bool {
        self.origin == Origin::Library && self.access == Access::Read
    }

    /// Creates a plain mount without rules.
    pub fn new(at: VirtualPath, place: Place, access: Access) -> Self {
        Self {
            at,
            place,
            access,
            suffixes: Vec::new(),
            max_file_bytes: None,
            approvals: Approvals::default(),
            origin: Origin::Other,
            untrusted: false,
        }
    }

    /// The rules of both mounts over one place; the stricter of each pair applies.
    fn and(&self, other: &Self, at: VirtualPath, place: Place, most: Access) -> Self {
        let suffixes = match (self.suffixes.as_slice(), other.suffixes.as_slice()) {
            ([], these) | (these, []) => these.to_vec(),
            (ours, theirs) => {
                // A name passes both suffixes only if one suffix ends in the other; the longer one then applies.
                let longer = |a: &str, b: &str| match (a.ends_with(b), b.ends_with(a)) {
                    (true, _) => Some(a.to_owned()),
                    (_, true) => Some(b.to_owned()),
                    _ => None,
                };
                let theirs: Vec<String> = theirs.iter().map(|suffix| suffix.to_lowercase()).collect();
                let both: Vec<String> = ours
                    .iter()
                    .map(|suffix| suffix.to_lowercase())
                    .flat_map(|a| theirs.iter().filter_map(move |b| longer(&a, b)).collect::<Vec<_>>())
                    .collect();
                // No name has this suffix. An empty list would let every name pass.
                if both.is_empty() { vec!["/".into()] } else { both }
            }
        };
        Self {
            at,
            place,
            access: self.access.min(other.access).min(most),
            suffixes,
            max_file_bytes: self.max_file_bytes.into_iter().chain(other.max_file_bytes).min(),
            approvals: self.approvals.tightened(other.approvals),
            origin: self.origin,
            untrusted: self.untrusted || other.untrusted,
        }
    }
}

impl Approvals {
    /// Tightens these rules by the `ask` and `blocked` rules of `by`. A `preApproved` of `by` loosens nothing.
    pub(super) fn tightened(self, by: Self) -> Self {
        let tighter = |own: Option<Rule>, by: Option<Rule>| match by {
            None | Some(Rule::PreApproved) => own,
            Some(by) => Some(own.map_or(by, |own| own.max(by))),
        };
        let delete = self.delete.or(self.write);
        Self {
            read: tighter(self.read, by.read),
            write: tighter(self.write, by.write),
            delete: tighter(delete, by.delete.or(by.write)),
        }
    }
}

/// The mounts that one worker sees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct View {
    /// The mounts, longest virtual path first, so that the first match is the innermost.
    mounts: Arc<[Mount]>,
}

/// The reason why the program's files may not pre-approve a change at a place (`docs/reference/approvals.md`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOwn {
    /// The place is outside the mounts that the program declares.
    Outside,
    /// Other programs execute the content of the place.
    Executed,
}

/// A virtual path with its real place. The names are checked; symlinks are not.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// The path as the worker names it.
    pub path: VirtualPath,
    /// Root of the subtree that no operation on the path may leave: the mount within its bounds.
    pub base: Place,
    /// The path from `base`, normalised and relative; empty for `base` itself.
    pub rest: String,
    /// The mount that contains it.
    pub mount: Mount,
    /// The requested access.
    pub access: Access,
    view: View,
    protection: Arc<Protection>,
    decided: Option<Decided>,
}

/// The place that a path led to when rules and the operator decided about it.
#[derive(Clone, Debug, PartialEq)]
struct Decided {
    /// The path from the base, free of links.
    rest: String,
    /// True if a link at the end of the path was followed.
    followed: bool,
}

impl Located {
    /// Binds the path to `real`, the place that it led to when the call was decided about. `followed` is true if a link
    /// at the end of the path was followed. From then on, an operation that arrives at another place is refused.
    pub fn decided(&mut self, real: &Place, followed: bool) {
        let rest = real.rest(&self.base).map(str::to_owned);
        self.decided = rest.map(|rest| Decided { rest, followed });
    }

    /// Checks that the path still leads to the place that the decision was about. The file system checks this before it
    /// acts, with the rest of the path that remains when links are resolved. `follows` is true if the operation follows
    /// a link at the end, and `exists` if the path exists.
    pub fn leads_as_decided(&self, resolved_rest: &str, follows: bool, exists: bool) -> Result<(), Refusal> {
        let same = self.decided.as_ref().is_none_or(|decided| match (follows, decided.followed) {
            // It looks at the target of a link that is to be moved or removed.
            (true, false) => true,
            // It creates an entry, which fails where a link is in its place.
            (false, true) if exists => true,
            _ => decided.rest == resolved_rest,
        });
        if same { Ok(()) } else { Err(Refusal::Redirected { path: self.path.to_string() }) }
    }

    /// The folder that contains the path. `None` for the base, and for paths directly in it.
    pub(crate) fn folder(&self) -> Option<Self> {
        let (rest, _) = self.rest.rsplit_once('/')?;
        let (path, _) = self.path.as_str().rsplit_once('/')?;
        let path = VirtualPath::parse(path).ok()?;
        Some(Self { path, rest: rest.to_owned(), decided: None, ..self.clone() })
    }

    /// The real place, before symlinks.
    pub fn place(&self) -> Place {
        self.base.join(&self.rest)
    }

    /// Checks that the rest of the path that remains when symlinks are resolved (relative to `base`) may still be
    /// accessed. The file system checks this before it acts. A link then can't reach a protected or invisible place
    /// under another name, nor bypass the rules of another mount that covers the place.
    pub fn admits(&self, resolved_rest: &str) -> Result<(), Refusal> {
        let place = self.base.join(resolved_rest);
        judge(&self.path, &place, &self.mount, self.access, &self.protection).map_err(
            |refusal| match refusal {
                Refusal::NotVisible { .. } => self.view.hidden(&self.path),
                refusal => refusal,
            },
        )?;
        let seen = self.virtual_of(resolved_rest);
        if seen != self.path && self.view.covers(&seen, &self.mount) {
            return Err(Refusal::OtherMount { path: self.path.to_string(), leads_to: seen.to_string() });
        }
        Ok(())
    }

    /// Checks that the program's files may pre-approve a change here. `real` is the place after links are followed.
    pub fn own_effect(&self, real: &Place) -> Result<(), NotOwn> {
        if !self.mount.origin.is_own() {
            Err(NotOwn::Outside)
        } else if self.protection.is_executed(&self.place()) || self.protection.is_executed(real) {
            Err(NotOwn::Executed)
        } else {
            Ok(())
        }
    }

    /// Checks a regular file like [`Located::admits`]. Both its requested name and its real name must also pass the
    /// mount's suffix rule. For a mount of a single file only the real name counts, because the author chooses the
    /// mount path.
    pub fn admits_file(&self, resolved_rest: &str) -> Result<(), Refusal> {
        self.admits(resolved_rest)?;
        if self.path == VirtualPath::root() {
            return Err(Refusal::BadPath { path: self.path.to_string(), reason: "it is a folder" });
        }
        let asked_for = self.path == self.mount.at || self.suffix_allowed(self.path.name());
        if asked_for && self.suffix_allowed(self.base.join(resolved_rest).name()) {
            Ok(())
        } else {
            Err(wrong_suffix(&self.path, &self.mount))
        }
    }

    /// Returns true if a file may be accessed ([`Located::admits_file`]) when no link was followed. Locating has
    /// checked the same name already, so only the rules for files remain.
    pub fn admits_as_named(&self) -> bool {
        let real = self.rest.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(self.base.name());
        let asked_for = self.path == self.mount.at || self.suffix_allowed(self.path.name());
        self.path != VirtualPath::root()
            && asked_for
            && self.suffix_allowed(real)
            && self.leads_as_decided(&self.rest, true, true).is_ok()
    }

    /// Returns true if an entry found below (its path relative to `base`) may be listed.
    pub fn shows(&self, rest: &str) -> bool {
        let seen = self.virtual_of(rest);
        self.protection.class(&self.base.join(rest), &self.mount.place) != Class::Invisible
            && !self.view.covers(&seen, &self.mount)
            && VirtualPath::parse(seen.as_str()).is_ok()
    }

    /// Returns true if a regular file may be listed ([`Located::shows`]). It must also pass the mount's suffix rule.
    pub fn shows_file(&self, rest: &str) -> bool {
        self.shows(rest) && self.suffix_allowed(self.base.join(rest).name())
    }

    /// Returns true if the content of a real place is untrusted: because of a mount of the view that shows it,
    /// whichever mount the path names, or because of any worker of the program.
    pub fn is_untrusted(&self, real: &Place) -> bool {
        self.mount.untrusted || self.view.shows_untrusted(real) || self.protection.is_untrusted(real)
    }

    /// Returns true if the first write may create the base itself: only inside the program's own tree
    /// (`docs/reference/sandbox.md`).
    pub fn may_make_base(&self) -> bool {
        self.access == Access::Write && self.base.is_within(self.protection.root())
    }

    /// Returns true if a file of that name passes the mount's suffix rule.
    pub fn suffix_allowed(&self, name: &str) -> bool {
        suffix_allowed(&self.mount, name)
    }

    /// The virtual path of an entry found below, by its path relative to `base`.
    pub fn virtual_of(&self, rest: &str) -> VirtualPath {
        let place = self.base.join(rest);
        place.rest(&self.mount.place).map_or_else(|| self.path.clone(), |below| self.mount.at.join(below))
    }

    /// The form of a real place that rules match: relative to the project's root inside the project, absolute
    /// elsewhere. A place that a toolset serves has the path that workers see.
    pub fn rule_path(&self, real: &Place) -> String {
        match real.server() {
            Some(_) => self.path.to_string(),
            None => self.protection.relative(real),
        }
    }
}

fn suffix_allowed(mount: &Mount, name: &str) -> bool {
    if mount.suffixes.is_empty() {
        return true;
    }
    let name = name.to_lowercase();
    mount.suffixes.iter().any(|s| name.ends_with(&s.to_lowercase()))
}

fn wrong_suffix(path: &VirtualPath, mount: &Mount) -> Refusal {
    Refusal::Suffix {
        path: path.to_string(),
        mount: mount.at.to_string(),
        allowed: mount.suffixes.join(", "),
    }
}

fn judge(
    path: &VirtualPath,
    place: &Place,
    mount: &Mount,
    access: Access,
    protection: &Protection,
) -> Result<(), Refusal> {
    match (protection.class(place, &mount.place), access) {
        (Class::Invisible, _) => Err(Refusal::NotVisible { path: path.to_string(), visible: String::new() }),
        (Class::Protected, Access::Write) => Err(Refusal::ReadOnly {
            path: path.to_string(),
            reason: "it defines the program, and a run can't rewrite the program it runs".into(),
        }),
        _ => Ok(()),
    }
}

impl View {
    /// Creates a view of these mounts. Of two mounts at one virtual path the later wins.
    pub fn new(mounts: Vec<Mount>) -> Self {
        let mut kept: Vec<Mount> = Vec::with_capacity(mounts.len());
        for mount in mounts {
            kept.retain(|m| m.at != mount.at);
            kept.push(mount);
        }
        kept.sort_by(|a, b| b.at.as_str().len().cmp(&a.at.as_str().len()).then_with(|| a.at.cmp(&b.at)));
        Self { mounts: kept.into() }
    }

    /// Adds a mount to the view.
    #[must_use]
    pub fn with(&self, mount: Mount) -> Self {
        Self::new(self.mounts.iter().cloned().chain([mount]).collect())
    }

    /// Adds approval rules to all mounts of the view, which they can only tighten.
    #[must_use]
    pub(super) fn tightened(&self, by: Approvals) -> Self {
        if by == Approvals::default() {
            return self.clone();
        }
        let tightened = |mount: &Mount| Mount { approvals: mount.approvals.tightened(by), ..mount.clone() };
        Self { mounts: self.mounts.iter().map(tightened).collect() }
    }

    /// The mounts that show a path of this view at `at`, in the view of a callee that the path is passed to: the mount
    /// that contains the path, and the mounts over a part of it. Their rules apply there under the new name too.
    pub fn handing(&self, handed: &Located, at: &VirtualPath) -> Vec<Mount> {
        let over = self.mounts.iter().filter_map(|over| {
            let rest = over.at.rest(&handed.path).filter(|rest| !rest.is_empty())?;
            Some(Mount { at: at.join(rest), access: over.access.min(handed.access), ..over.clone() })
        });
        let itself =
            Mount { at: at.clone(), place: handed.place(), access: handed.access, ..handed.mount.clone() };
        over.chain([itself]).collect()
    }

    /// Returns true if an untrusted mount shows the place.
    pub(super) fn shows_untrusted(&self, place: &Place) -> bool {
        self.mounts.iter().any(|mount| mount.untrusted && place.is_within(&mount.place))
    }

    /// The mounts, innermost first.
    pub fn mounts(&self) -> &[Mount] {
        &self.mounts
    }

    /// The real places that this view shows, as bounds.
    pub(super) fn extents(&self, network: Network) -> Bounds {
        Bounds::new(
            self.mounts.iter().map(|m| Extent { place: m.place.clone(), access: m.access }).collect(),
            network,
        )
    }

    /// The extents that are reachable at or below a virtual path.
    pub(super) fn extents_below(&self, path: &VirtualPath) -> Vec<Extent> {
        let here = self
            .mount_of(path)
            .map(|(mount, rest)| Extent { place: mount.place.join(rest), access: mount.access });
        let below = self.mounts.iter().filter(|m| m.at.rest(path).is_some_and(|rest| !rest.is_empty()));
        here.into_iter().chain(below.map(|m| Extent { place: m.place.clone(), access: m.access })).collect()
    }

    /// The mount `wanted`, cut to this view: a foreign callee gets this part of a mount that it declares
    /// (`docs/reference/sandbox.md`). The callee sees what the caller sees there, under the rules of both. The result
    /// is empty if the caller sees nothing there.
    pub(super) fn within(&self, wanted: &Mount, protection: &Protection) -> Vec<Mount> {
        let mut found = Vec::new();
        for mount in self.mounts.iter() {
            // The caller's path, the callee's path, the place, and the widest access that remains.
            let (seen, at, place, most) = if let Some(rest) = wanted.place.rest(&mount.place) {
                let most = match protection.class(&wanted.place, &mount.place) {
                    Class::Invisible => continue,
                    Class::Protected => Access::Read,
                    Class::Open => Access::Write,
                };
                (mount.at.join(rest), wanted.at.clone(), &wanted.place, most)
            } else if let Some(rest) = mount.place.rest(&wanted.place) {
                (mount.at.clone(), wanted.at.join(rest), &mount.place, Access::Write)
            } else {
                continue;
            };
            if self.covers(&seen, mount) {
                continue;
            }
            // The caller's mounts over parts of it are included. Otherwise the callee would see the places that they
            // cover.
            for over in self.mounts.iter() {
                if let Some(rest) = over.at.rest(&seen).filter(|rest| !rest.is_empty()) {
                    found.push(over.and(wanted, at.join(rest), over.place.clone(), Access::Write));
                }
            }
            found.push(mount.and(wanted, at, place.clone(), most));
        }
        // If the caller reaches a place by several mounts, the one that allows most comes last and wins.
        found.sort_by_key(|m| m.access);
        found
    }

    fn mount_of<'a>(&'a self, path: &'a VirtualPath) -> Option<(&'a Mount, &'a str)> {
        self.mounts.iter().find_map(|m| path.rest(&m.at).map(|rest| (m, rest)))
    }

    /// Returns true if another mount covers a virtual path of `mount`.
    fn covers(&self, path: &VirtualPath, mount: &Mount) -> bool {
        self.mount_of(path).is_some_and(|(found, _)| found.at != mount.at)
    }

    fn hidden(&self, path: &VirtualPath) -> Refusal {
        Refusal::NotVisible { path: path.to_string(), visible: self.visible() }
    }

    fn visible(&self) -> String {
        match self.mounts.iter().map(|m| m.at.as_str()).collect::<Vec<_>>().as_slice() {
            [] => "No files are visible here.".into(),
            ["/"] => "Use list_files to see what there is.".into(),
            names => {
                let mut names = names.to_vec();
                names.sort_unstable();
                format!("Visible: {}", names.join(", "))
            }
        }
    }

    pub(super) fn locate(
        &self,
        path: &VirtualPath,
        access: Access,
        bounds: &Bounds,
        protection: &Arc<Protection>,
    ) -> Result<Located, Refusal> {
        let hidden = || self.hidden(path);
        let (mount, rest) = self.mount_of(path).ok_or_else(hidden)?;
        let place = mount.place.join(rest);
        judge(path, &place, mount, access, protection).map_err(|refusal| match refusal {
            Refusal::NotVisible { .. } => hidden(),
            refusal => refusal,
        })?;
        if !rest.is_empty() && access == Access::Write && !suffix_allowed(mount, path.name()) {
            return Err(wrong_suffix(path, mount));
        }
        if access > mount.access {
            let reason = format!("the mount `{}` is `ro`", mount.at);
            return Err(Refusal::ReadOnly { path: path.to_string(), reason });
        }
        let Some(extent) = bounds.covering(&place, access) else {
            return Err(match bounds.covering(&place, Access::Read) {
                Some(_) => Refusal::ReadOnly {
                    path: path.to_string(),
                    reason: "a `readonly` or `ro` of this worker or a caller holds here".into(),
                },
                None => hidden(),
            });
        };
        // The narrower of mount and extent. One contains the other, since both contain `place`.
        let base = if mount.place.is_within(&extent.place) { &mount.place } else { &extent.place };
        let rest = place.rest(base).unwrap_or("").to_owned();
        Ok(Located {
            path: path.clone(),
            base: base.clone(),
            rest,
            mount: mount.clone(),
            access,
            view: self.clone(),
            protection: Arc::clone(protection),
            decided: None,
        })
    }

    pub(super) fn locate_tree(
        &self,
        path: &VirtualPath,
        bounds: &Bounds,
        protection: &Arc<Protection>,
    ) -> Result<Vec<Located>, Refusal> {
        let mut found = Vec::new();
        match self.locate(path, Access::Read, bounds, protection) {
            Ok(located) => found.push(located),
            Err(refusal @ (Refusal::BadPath { .. } | Refusal::Suffix { .. })) => return Err(refusal),
            Err(_) => {
                // Not reachable itself, but an extent below may be (a restricted view).
                if let Some((mount, rest)) = self.mount_of(path) {
                    let place = mount.place.join(rest);
                    for extent in bounds.extents() {
                        if let (Some(_), Some(below)) =
                            (extent.place.rest(&place), extent.place.rest(&mount.place))
                        {
                            found.extend(self.locate(
                                &mount.at.join(below),
                                Access::Read,
                                bounds,
                                protection,
                            ));
                        }
                    }
                }
            }
        }
        for mount in self.mounts.iter().filter(|m| m.at.rest(path).is_some_and(|rest| !rest.is_empty())) {
            match self.locate(&mount.at, Access::Read, bounds, protection) {
                Ok(located) => found.push(located),
                Err(_) => {
                    for extent in bounds.extents() {
                        if let Some(below) = extent.place.rest(&mount.place) {
                            found.extend(self.locate(
                                &mount.at.join(below),
                                Access::Read,
                                bounds,
                                protection,
                            ));
                        }
                    }
                }
            }
        }
        if found.is_empty() {
            return Err(self.hidden(path));
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }
}
