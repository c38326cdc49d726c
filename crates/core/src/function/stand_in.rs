//! What a test gives in place of functions and servers (`docs/reference/cases.md`).

use super::{FunctionMeta, Leaf};
use crate::{
    call_path::CallPath,
    listing::Listing,
    send::{MaybeSend, MaybeSync},
};
use std::sync::Arc;

/// Takes the place of functions in a run. A call takes every other step as usual: its input is validated, the gate
/// judges it, and its result must fit the schema of the function that it stands in for.
pub trait StandIns: MaybeSend + MaybeSync {
    /// What runs in the place of that function, if anything does.
    fn stand_in(&self, function: &FunctionMeta) -> Option<Arc<dyn Leaf>>;

    /// What counts as the tools that a toolset lists for the worker of that call, in place of a question to its servers.
    fn listing(&self, _call: &CallPath, _toolset: &str) -> Option<Arc<Listing>> {
        None
    }
}
