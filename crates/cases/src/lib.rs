//! Tests of workers: runs the cases of a program and reports which pass, which pass less often than before, and for
//! which that can't be decided.
//!
//! [`Suite::open`] reads the files of cases (`docs/reference/cases.md`), [`Suite::run`] runs them, each on a copy of
//! the program's folder. [`statistics`] and [`baseline`] need neither disk nor clock.

mod attempt;
pub mod baseline;
mod copy;
mod evaluate;
mod judge;
pub mod junit;
pub mod kept;
mod operator;
mod options;
mod recording_files;
pub mod report;
mod runner;
mod stand_ins;
pub mod statistics;
mod stopped;
mod suite;
pub mod summary;

pub use copy::CopyError;
pub use options::{Answers, KeepRuns, KeptRun, Options, Pages};
pub use report::{CaseReport, Differs, Missed, RunReport, SuiteReport};
pub use runner::{Cut, Ended, Planned};
pub use stopped::Stopped;
pub use suite::{Suite, SuiteCase, SuiteError};
