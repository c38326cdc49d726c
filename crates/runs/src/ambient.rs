//! Time and randomness of this machine.

use crate::journal::JournalWriter;
use llm_do_core::send::BoxFuture;
use llm_do_host::{Ambient, Recorder};
use std::{sync::Arc, time::Duration};

/// The driver of this machine: it records in a journal on the disk.
pub type LocalDriver = Recorder<JournalWriter>;

/// The clock of tokio and the randomness of the process.
#[derive(Clone, Copy, Debug)]
pub struct Machine;

impl Machine {
    /// Returns this machine as a port.
    pub fn ambient() -> Arc<dyn Ambient> {
        Arc::new(Self)
    }
}

impl Ambient for Machine {
    fn after(&self, time: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(time))
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
