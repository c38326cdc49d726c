//! Functions that a test gives results in place of (`docs/reference/cases.md`).

use super::{FunctionMeta, Leaf};
use crate::send::{MaybeSend, MaybeSync};
use std::sync::Arc;

/// Takes the place of functions in a run. A call takes every other step as usual: its input is validated, the gate
/// judges it, and its result must fit the schema of the function that it stands in for.
pub trait StandIns: MaybeSend + MaybeSync {
    /// What runs in the place of that function, if anything does.
    fn stand_in(&self, function: &FunctionMeta) -> Option<Arc<dyn Leaf>>;
}
