//! The library as an embedding program uses it: programs, workers, calls and tools. A thin layer over [`crate::host`].

mod call;
mod error;
mod events;
mod opened;
mod operators;
mod options;
mod program;
mod resumption;
mod running;
mod tool;
mod tools;
mod worker;

pub use call::Call;
pub use error::{Ended, Error, Suspended};
pub use events::Events;
pub use operators::{AnswerWith, answer_with};
pub use options::Options;
pub use program::{Program, ProgramBuilder};
pub use resumption::Resumption;
pub use running::{Completed, Running};
pub use tool::{NoArguments, Tool, ToolContext};
pub use worker::Worker;
