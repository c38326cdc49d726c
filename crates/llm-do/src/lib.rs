//! Programs of LLM workers, as a library.
//!
//! A [`Session`] is a loaded program; each [`Run`] of it is one top-level call with a journal of its own.
//!
//! ```no_run
//! use llm_do::{Input, Session, Settings};
//!
//! # async fn example() -> Result<(), llm_do::Problem> {
//! let session = Session::open(Settings::for_target("./my-project"))?;
//! let input = Input { message: Some("Summarise the notes".into()), ..Input::default() };
//! let report = session.start(&input, None, None)?.finish().await;
//! println!("{:?}", report.end);
//! # Ok(())
//! # }
//! ```

mod cases;
mod grant;
mod harden;
mod program_operator;
mod python;
mod recorded_model;
mod replay;
mod resume;
mod run;
mod session;
mod tally;

pub use cases::{BadCases, Case, Cases};
pub use grant::{BadGrant, BadGrantsFile, Grant, Granted, Grantor, MissingGrant, RememberedGrants};
pub use harden::{Compare, Hardened, Tried, Verdict, harden};
pub use llm_do_core as core;
pub use llm_do_models as models;
pub use llm_do_program as program;
pub use llm_do_python as python_tools;
pub use llm_do_runs as runs;
pub use llm_do_sandbox::{confine, place_of};
pub use program_operator::{PROTOCOL, ProgramOperator};
pub use python::{PythonFor, code_reader, toolset_kinds};
pub use replay::{Recorded, ReplayReport, Section, replay, sections};
pub use resume::{CutOffLeaf, Decisions, Invocation, PastRun, ResumeError};
pub use run::{Report, Run, output_text};
pub use session::{Environment, Input, Problem, Session, Settings};
pub use tally::Counts;
