//! Stand-ins that a test supplies for functions and servers (`docs/reference/cases.md`).

use super::{FunctionMeta, Leaf};
use crate::{
    call_path::CallPath,
    listing::Listing,
    send::{MaybeSend, MaybeSync},
};
use std::sync::Arc;

/// Replaces functions in a run. A call takes every other step as usual: its input is validated, the gate judges it, and
/// its result must fit the schema of the function that is replaced.
pub trait StandIns: MaybeSend + MaybeSync {
    /// The code that runs instead of that function, if there is any.
    fn stand_in(&self, function: &FunctionMeta) -> Option<Arc<dyn Leaf>>;

    /// The listing that replaces a question to the servers of a toolset, for the worker of that call.
    fn listing(&self, _call: &CallPath, _toolset: &str) -> Option<Arc<Listing>> {
        None
    }
}
