//! Checks that end early, because their program has changed since they began.

use std::{fmt, sync::Arc};

/// A test that a check makes before each worker and each analysis. If it is true, the check ends without findings.
#[derive(Clone, Default)]
pub struct Cancel(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Cancel {
    /// Ends a check when `is_wanted` returns true. The default never ends it.
    pub fn when(is_wanted: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_wanted)))
    }

    /// Returns true if the check must end.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.as_ref().is_some_and(|is_wanted| is_wanted())
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").finish_non_exhaustive()
    }
}
