//! How the processes of one session are confined.

use super::{Confinement, probe};
use std::sync::atomic::{AtomicBool, Ordering};

/// Says how the processes of one session are confined: by the best tier that the kernel has, or, where it has none and
/// the operator has granted that, not at all.
#[derive(Debug, Default)]
pub struct Confiner {
    unconfined: AtomicBool,
    always: Option<Confinement>,
}

/// Nothing can confine a process here, and the operator has not granted to run one without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "this system can't confine processes (`llm-do doctor` says why); `--grant unconfined` runs them with all of your own \
     rights"
)]
pub struct Unconfinable;

impl Confiner {
    /// Confines by this, and not by the most that this machine can.
    pub fn always(confinement: Confinement) -> Self {
        Self { always: Some(confinement), ..Self::default() }
    }

    /// The operator's `--grant unconfined`: processes run where the kernel can't confine them. Where it can, it does.
    pub fn allow_unconfined(&self) {
        self.unconfined.store(true, Ordering::Release);
    }

    /// How processes are confined. The first call in a process waits some milliseconds for the probe.
    ///
    /// # Errors
    /// They can't be, and nobody granted to do without.
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

    /// Whether processes run with all rights of the operator.
    pub fn is_unconfined(&self) -> bool {
        matches!(self.confinement(), Ok(Confinement::Unconfined))
    }
}
