//! The hosting of programs and their runs on any platform: terminal, service, page, node of a cluster.
//!
//! A platform implements [`Host`]: files, models, kinds of toolsets, environment, grants, time. [`Loaded`] is a program that
//! was read, [`Granted`] one that has what it asks for, [`Session`] starts its runs, and a [`Run`] is one of them.
//!
//! [`Recorder`] drives a run over its own ports: a log ([`RunLog`]), time and randomness ([`Ambient`]), an operator and
//! listeners ([`EventSink`]). [`Canceller`], [`Stopper`] and [`Interjector`] influence a run from outside. [`dialogue`] is the
//! state machine of a user who talks with a run. The package knows no files, threads, processes, clocks or runtimes.

mod client;
mod counting;
mod deltas;
pub mod dialogue;
mod effects;
mod event_sink;
mod grant;
mod host;
mod input;
mod interjector;
mod invocation;
mod limited;
mod loaded;
mod memory_log;
mod missing;
mod model_choice;
mod obstacle;
mod options;
mod partials;
mod past;
mod ports;
mod protected;
mod reach;
mod recorder;
mod recording;
mod replay;
mod run;
mod session;
mod start;
mod switches;

pub use client::NotReadable;
pub use effects::Effects;
pub use event_sink::EventSink;
pub use grant::{BadGrant, Grant, MissingGrant, NeededBy};
pub use host::{Budgets, DecidingFiles, Host};
pub use input::{Input, InputPart, ReadPart};
pub use interjector::{Interjector, Said};
pub use invocation::{BadInvocation, Invocation, RuleGiven};
pub use loaded::{Granted, Loaded, ModelSource, Opening};
pub use memory_log::MemoryLog;
pub use model_choice::DetectedModel;
pub use obstacle::Obstacle;
pub use options::{Client, IdempotencyKey, RunOptions};
pub use past::{Decisions, Past, ResumeError};
pub use ports::{Ambient, RunLog, Written};
pub use reach::Reach;
pub use recorder::Recorder;
pub use recording::Recording;
pub use run::{Inbox, Run, RunEnd, output_text};
pub use session::{RunPorts, Session, VERSION};
pub use start::Prepared;
pub use switches::{Canceller, Stopper, Switch};

/// Grants: what they allow, and which are missing.
pub mod grants {
    pub use crate::{
        grant::{network, places, processes, variables},
        missing::{declared_variables, obtain, toolset_variables, toolsets, variables as check_variables},
    };
}
