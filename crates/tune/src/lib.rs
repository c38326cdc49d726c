//! Better instructions of a worker, from its cases (`docs/guides/tuning.md`).
//!
//! [`search`] is GEPA's algorithm without I/O: it asks [`Trials`] for scores and proposals, and keeps a [`front`] of
//! candidates. [`Tuning`] makes these trials with runs of the program. Its log holds each result under a key, so a command
//! that was killed repeats the search over the results that exist, and pays for the others.

pub mod front;
mod instructions;
mod log;
mod models;
mod options;
mod problem;
mod proposer;
mod refusal;
pub mod report;
pub mod search;
mod split;
mod trace;
mod tuning;

pub use models::{Difference, compare};
pub use options::{Options, Progress};
pub use problem::Problem;
pub use proposer::PROPOSER;
pub use report::{Outcome, Report};
pub use search::Trials;
pub use split::{LEAST_CASES, LEAST_TEST, Part, Parts};
pub use tuning::{Opened, Tuning};
