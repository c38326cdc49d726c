//! The confinement of the processes of a session.

use super::{Confinement, Tier, Watch, probe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Chooses the confinement of the processes of a session: the kernel's best tier or, if the kernel has none and the
/// operator has granted it, no confinement.
#[derive(Debug, Default)]
pub struct Confiner {
    unconfined: AtomicBool,
    always: Option<Confinement>,
    watch: Watch,
}

/// An error: this machine can't confine a process, and the operator has not granted unconfined processes.
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

    /// Applies the operator's `--grant unconfined`: processes run even if the kernel can't confine them. If it can,
    /// they are confined.
    pub fn allow_unconfined(&self) {
        self.unconfined.store(true, Ordering::Release);
    }

    /// Returns the confinement of processes. The first call in a process waits some milliseconds for the probe.
    ///
    /// # Errors
    /// The machine can't confine processes, and there is no grant for unconfined processes.
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

    /// Returns the watch over names that the processes of each run leave behind.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Returns the name of the confinement in the start record of a run, or `None` if no process can run.
    pub fn name(&self) -> Option<&'static str> {
        Some(match self.confinement().ok()? {
            Confinement::Tier(Tier::Namespaces) => "namespaces",
            Confinement::Tier(Tier::Landlock) => "landlock",
            Confinement::Tier(Tier::Seatbelt) => "seatbelt",
            Confinement::Unconfined => "unconfined",
        })
    }

    /// Returns true if processes run with all rights of the operator.
    pub fn is_unconfined(&self) -> bool {
        matches!(self.confinement(), Ok(Confinement::Unconfined))
    }
}
