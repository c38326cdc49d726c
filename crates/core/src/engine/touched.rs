//! The places that a call touches, in the form that rules match (`docs/reference/approvals.md`).

use crate::{
    authority::{Access, Located, Mount, NotOwn, Place},
    function::{FunctionMeta, Touch},
    risk::Risk,
    rule::{DecidedBy, Rule},
};

/// A place that a call touches.
#[derive(Clone)]
pub(super) struct Touched<'a> {
    mount: &'a Mount,
    access: Access,
    /// The mount's rule for the access.
    rule: Option<Rule>,
    /// The reason why the program's files may not pre-approve the access, if they may not.
    not_own: Option<NotOwn>,
}

impl<'a> Touched<'a> {
    /// Creates a place of a call; `real` is the place after links are followed.
    pub(super) fn new(place: &'a Located, real: &Place, touch: &Touch) -> Self {
        // Reading what other programs execute is reading.
        let not_own = place.own_effect(real).err();
        let not_own = not_own.filter(|why| touch.access == Access::Write || *why == NotOwn::Outside);
        Self { not_own, ..Self::anywhere(&place.mount, touch) }
    }

    /// The place in a mount that needs the least approval.
    pub(super) fn anywhere(mount: &'a Mount, touch: &Touch) -> Self {
        let approvals = &mount.approvals;
        let rule = match (touch.access, touch.delete) {
            (Access::Read, _) => approvals.read,
            (Access::Write, false) => approvals.write,
            (Access::Write, true) => approvals.delete.or(approvals.write),
        };
        let not_own = (!mount.origin.is_own()).then_some(NotOwn::Outside);
        Self { mount, access: touch.access, rule, not_own }
    }

    /// Returns true if both places are equal for every rule that depends on no path.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (self.access, self.rule, self.not_own) == (other.access, other.rule, other.not_own)
    }
}

/// The rules of the mounts for a call that touches these places. They pre-approve it only if they do so for each place
/// that the call changes or, if it changes none, for each place that it reads.
pub(super) fn mount_rules(touched: &[Touched<'_>]) -> impl Iterator<Item = (Rule, DecidedBy)> {
    let changes = touched.iter().any(|place| place.access == Access::Write);
    let mut decisive = touched.iter().filter(|place| !changes || place.access == Access::Write);
    let pre_approved = decisive.all(|place| place.rule == Some(Rule::PreApproved) && place.not_own.is_none());
    touched.iter().filter_map(move |place| {
        let rule = place.rule.filter(|rule| *rule != Rule::PreApproved || pre_approved)?;
        Some((rule, DecidedBy::Mount { at: place.mount.at.to_string().into() }))
    })
}

/// The reason why the program's own files may not pre-approve a call of this risk that touches these places; `None` if
/// they may. Reading and allowlisted delegation need no approval anyway. Files may pre-approve writing inside the
/// program's own mounts, and code that is confined to mounts that the program declares. They may never pre-approve the
/// network and other processes.
pub(super) fn not_own(meta: &FunctionMeta, touched: &[Touched<'_>]) -> Option<NotOwn> {
    match meta.risk {
        Risk::Read | Risk::Delegate => None,
        Risk::Network => Some(NotOwn::Outside),
        _ if meta.contained => None,
        Risk::Write | Risk::Destructive if !touched.is_empty() => {
            touched.iter().find_map(|place| place.not_own)
        }
        Risk::Write | Risk::Destructive | Risk::Exec => Some(NotOwn::Outside),
    }
}
