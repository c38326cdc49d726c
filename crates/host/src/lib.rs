//! The hosting of runs on any platform: terminal, service, page, node of a cluster.
//!
//! [`Recorder`] drives a run over the ports of its host: a log ([`RunLog`]), time and randomness ([`Ambient`]), an
//! operator and listeners ([`EventSink`]). [`Canceller`], [`Stopper`] and [`Interjector`] influence a run from outside.
//! [`dialogue`] is the state machine of a user who talks with a run.
//! The package knows no files, threads, processes, clocks or runtimes.

mod deltas;
pub mod dialogue;
mod event_sink;
mod interjector;
mod memory_log;
mod partials;
mod ports;
mod recorder;
mod switches;

pub use event_sink::EventSink;
pub use interjector::{Interjector, Said};
pub use memory_log::MemoryLog;
pub use ports::{Ambient, RunLog, Written};
pub use recorder::Recorder;
pub use switches::{Canceller, Stopper, Switch};
