//! The resources of this process with which servers are started and reached.

use crate::{environment::Environment, known::ServerFiles};
use llm_do_sandbox::confine::Confiner;
use std::sync::Arc;

/// All that the start of a server needs beside its launch.
#[derive(Clone)]
pub(crate) struct Starter {
    pub(crate) confiner: Arc<Confiner>,
    pub(crate) environment: Environment,
    pub(crate) known: ServerFiles,
}
