//! How the processes of one session are confined.

use super::{Confinement, Tier, Watch, probe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Decides how the processes of one session are confined: by the kernel's best tier or, if there is none and the
/// operator has granted it, not at all.
#[derive(Debug, Default)]
pub struct Confiner {
    unconfined: AtomicBool,
    always: Option<Confinement>,
    watch: Watch,
}

/// This machine can't confine a process, and the operator has not granted unconfined processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this system can't confine processes; the operator's grant `unconfined` runs them with all rights of the operator"
)]
pub struct Unconfinable;

impl Confiner {
    /// Uses this confinement rather than the best that this machine supports.
    pub fn always(confinement: Confinement) -> Self {
        Self { always: Some(confinement), ..Self::default() }
    }

    /// The operator's `--grant unconfined`: processes run even if the kernel can't confine them. If it can, they are
    /// confined.
    pub fn allow_unconfined(&self) {
        self.unconfined.store(true, Ordering::Release);
    }

    /// The confinement of processes. The first call in a process waits some milliseconds for the probe.
    ///
    /// # Errors
    /// They can't be confined, and there is no grant for unconfined processes.
    pub fn confinement(&self) -> Result<Confinement, Unconfinable> {
        if let Some(always) = self.always {
            return Ok(always);
        }
        match probe().tier {
            Some(tier) => Ok(Confinement::Tier(tier)),
            None if self.unconfined.load(Ordering::Acquire) => Ok(Confinement::Unconfined),
            None => Err(Unconfinable),
        }
    }

    /// What the processes of each run leave behind.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// How processes are confined, as the start record of a run names it. Nothing where none can run.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.confinement().ok()? {
            Confinement::Tier(Tier::Namespaces) => "namespaces",
            Confinement::Tier(Tier::Landlock) => "landlock",
            Confinement::Tier(Tier::Seatbelt) => "seatbelt",
            Confinement::Unconfined => "unconfined",
        })
    }

    /// Whether processes run with all rights of the operator.
    pub fn is_unconfined(&self) -> bool {
        matches!(self.confinement(), Ok(Confinement::Unconfined))
    }
}
