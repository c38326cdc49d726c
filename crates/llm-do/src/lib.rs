//! Programs of LLM workers, as a library.
//!
//! Opening a program goes through typed phases: it is [`Located`], [`Loaded`], [`Granted`], and then a [`Session`].
//! [`Session::open`] goes through all of them. Each [`Run`] of a session is one top-level call with a journal of its own.
//! [`Session::worker`] and [`Session::with_options`] give sessions of the same program with another entry, or with another
//! mode, rules, budget or grants.
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

mod attachments;
mod cases;
mod checked;
mod counting;
mod grant;
mod granted;
mod harden;
mod invocation;
mod kinds;
mod limited;
mod loaded;
mod located;
mod missing;
mod model_choice;
mod open_questions;
mod problem;
mod program_operator;
mod python;
mod reach;
mod recorded_model;
mod replay;
mod resume;
mod run;
mod servers;
mod session;
mod settings;
mod transcript;
mod typed_input;

pub use cases::{BadCases, Cases};
pub use checked::findings;
pub use grant::{
    BadGrant, BadGrantsFile, Grant, Grantor, MissingGrant, NeededBy, RememberedGrant, RememberedGrants,
    network as granted_network,
};
pub use granted::{Granted, ModelSource};
pub use harden::harden;
pub use invocation::{BadInvocation, Invocation, RuleGiven};
pub use kinds::toolset_kinds;
pub use llm_do_core as core;
pub use llm_do_core::launch::Counts;
pub use llm_do_mcp::{BadClientServer, ClientServer, ClientServers, Inspected, InspectedTool, ToolState};
pub use llm_do_models as models;
pub use llm_do_program as program;
pub use llm_do_program::signatures::{client_schema, not_for_clients};
pub use llm_do_python as python_tools;
pub use llm_do_records as records;
pub use llm_do_records::{Case, Compare, Hardened, ReplayReport, Section, Tried, Verdict, sections};
pub use llm_do_runs as runs;
pub use llm_do_sandbox::{confine, place_of};
pub use loaded::{Effects, Loaded, read_set, user_config};
pub use located::Located;
pub use model_choice::DetectedModel;
pub use open_questions::{Asked, NotTaken, OpenQuestions, Taken, digest};
pub use problem::Problem;
pub use program_operator::{PROTOCOL, ProgramOperator};
pub use python::{PythonFor, code_reader};
pub use reach::Reach;
pub use replay::{Recorded, replay};
pub use resume::{Decisions, PastRun, ResumeError};
pub use run::{Report, Run, output_text};
pub use servers::{Inspection, Server};
pub use session::Session;
pub use settings::{AddProviders, Client, Environment, IdempotencyKey, Input, RunOptions, Settings};
pub use transcript::{Called, Compacted, Held, Joined, Said, Transcript, attached_name};
pub use typed_input::typed_input;
