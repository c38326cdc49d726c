//! Programs of LLM workers, as a library.
//!
//! A *worker* is a prompt with a signature, in a file. A *program* is a folder of workers, or one worker file. This crate opens
//! programs, calls their workers like functions, and gives workers functions of yours as tools. Everything that the command
//! line does with a program holds here too: one gate for all calls, one journal for each run, budgets, confinement, resume.
//!
//! # Calling a worker
//!
//! ```no_run
//! use llm_do::{Program, serde_json::json};
//!
//! # async fn example() -> Result<(), llm_do::Error> {
//! let program = Program::open("my-project")?;
//! let summary = program.worker("summarizer")?.call(json!({"text": "A long text."})).await?;
//! println!("{summary}");
//! # Ok(())
//! # }
//! ```
//!
//! [`Program`] and [`Worker`] are cheap to clone and can be shared by threads and tasks. The future of a call needs a runtime of
//! tokio with time (and io, if a model is remote); nothing runs outside of the future that you await.
//!
//! [`Worker::returns`] names a type for the outputs, and compares it with the worker's `returns` before anything is paid for:
//!
//! ```
//! use llm_do::{Program, schemars::JsonSchema};
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Invoice {
//!     number: String,
//!     total: f64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("main.worker"), "---\nreturns: {number: string, total: number}\n---\nExtract.\n")?;
//! # let open = || Program::builder(folder.path()).home(folder.path().join("home")).temporary_journals();
//! # let program = open().script("answers: [{json: {number: '17', total: 614.5}}]").open()?;
//! let extractor = program.entry()?.returns::<Invoice>()?;
//! let invoice = extractor.call("INVOICE 17 … total 614.50").await?;
//! assert_eq!((&*invoice.number, invoice.total), ("17", 614.5));
//! # Ok(())
//! # }
//! ```
//!
//! `llm-do stubs PROGRAM --rust` writes such types for all workers; [`ProgramBuilder::signatures`] refuses a program that has
//! changed since.
//!
//! A call is awaited for its output. [`Call::result`] adds the run's ID, usage and cost, [`Call::start`] gives a handle that
//! other tasks can cancel, [`Call::stream`] gives events, and [`Worker::call_all`] makes many calls at once.
//!
//! # Options
//!
//! [`Options`] set model, mode, rules, budget, grants, operator and events, of all runs of a program or of one call:
//!
//! ```no_run
//! use llm_do::{Options, Program};
//!
//! # async fn example() -> Result<(), llm_do::Error> {
//! let options = Options::new().model("anthropic:claude-haiku-4-5").budget("0.50usd").deny("shell");
//! let program = Program::builder("my-project").options(options).open()?;
//! let careful = Options::new().budget("3turns");
//! let answer = program.worker("reports/weekly")?.call(()).options(careful).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Tools
//!
//! [`#[llm_do::tool]`](macro@tool) makes an async function a tool, and [`Tool::new`] a closure. A worker gets the registered
//! tools with `toolsets: [rust]`, or some of them with `toolsets: {rust: {tools: [price]}}`.
//!
//! ```
//! use llm_do::Program;
//!
//! /// The price of a product, in cents.
//! #[llm_do::tool(reads)]
//! async fn price(
//!     /// The product's number.
//!     sku: String,
//! ) -> Result<u64, String> {
//!     if sku == "A-1" { Ok(1290) } else { Err(format!("there is no product `{sku}`")) }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # std::fs::write(folder.path().join("main.worker"), "---\ntoolsets: [rust]\n---\nAnswer.\n")?;
//! # let script = "answers: [{when: {turn: 0}, calls: [{tool: price, arguments: {sku: A-1}}]}, {text: '{{ last }}'}]";
//! # let open = || Program::builder(folder.path()).home(folder.path().join("home")).temporary_journals().script(script);
//! let program = open().tool(price::tool()).open()?;
//! assert_eq!(program.entry()?.call("What is A-1?").await?, "1290");
//! # Ok(())
//! # }
//! ```
//!
//! A tool declares its risk. One that declares nothing counts as running foreign code: each call asks. A tool that fails gives
//! its error to the model, which can try something else. [`ProgramBuilder::check`] is `llm-do check` with these tools; the
//! command itself does not know them.
//!
//! A [kind of toolset](toolset::ToolsetKind) is a family of tools with a configuration of its own in worker files.
//!
//! # Operators
//!
//! A call that needs an approval is a question to the [operator](operator::Operator). [`operator::answer_with`] makes one of a
//! function. Without an operator such calls are refused, and the worker hears so. With [`Mode::Defer`] the run is suspended
//! instead: the call gives [`Error::Suspended`] with what waits, and [`Worker::resume`] continues it, in another process or
//! years later.
//!
//! ```no_run
//! use llm_do::{Error, Mode, Options, Program};
//!
//! # async fn example() -> Result<(), llm_do::Error> {
//! let program = Program::builder("my-project").options(Options::new().mode(Mode::Defer)).open()?;
//! let writer = program.worker("writer")?;
//! match writer.call("Write the report.").await {
//!     Ok(output) => println!("{output}"),
//!     Err(Error::Suspended(suspended)) => {
//!         let mut resumption = writer.resume(&*suspended.run);
//!         for waiting in &suspended.waiting {
//!             resumption = resumption.approve(&waiting.id);
//!         }
//!         println!("{}", resumption.await?);
//!     }
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Events
//!
//! [`Call::stream`] gives the events of a run: pieces of answers while they are made, and each record of the journal.
//! [`Events::next_text`] gives only the text of the worker's own answer. An [`event::EventSink`] receives the same for all runs
//! of a program ([`Options::events`]).
//!
//! # Errors
//!
//! [`Error`] has one variant for each way in which a call can end without an output: not started, invalid input, refused, limit
//! reached, invalid output, suspended, cancelled, failed. What a model can act on is no error of the call: a tool that fails or
//! is refused goes back to the model. [`Problem`] says why a program can't be opened; [`Problem::explained`] has every finding
//! with its place in the file.
//!
//! # Tests
//!
//! [`ProgramBuilder::script`] lets a script answer in place of every model, without a file, a key or a network. The script also
//! tests what is sent: an entry answers only requests that its conditions fit. [`ProgramBuilder::temporary_journals`] and
//! [`ProgramBuilder::home`] keep a test away from the user's files.
//!
//! # Parts of your own
//!
//! | trait | registered with |
//! |---|---|
//! | [`toolset::ToolsetKind`] | [`ProgramBuilder::toolset_kind`] |
//! | [`operator::Operator`] | [`Options::operator`] |
//! | [`model::Model`], [`model::Models`] | [`ProgramBuilder::provider`], [`ProgramBuilder::models`] |
//! | [`event::EventSink`] | [`Options::events`] |
//! | [`driver::Driver`] | [`Options::driver`] |
//!
//! # What the library leaves to your program
//!
//! It has no state of its own outside of [`Program`], does not end the process, prints nothing and handles no signal. Two
//! programs in one process know nothing of each other. One thing belongs to the process: a program whose workers have Python
//! tools, shell commands or MCP servers starts confined processes, and for these the binary runs itself again. Such a binary
//! calls [`host::confine::install`] first in `main`.
//!
//! # Stability
//!
//! The items of this crate and of its modules [`operator`], [`model`], [`toolset`], [`event`] and [`driver`] are promised:
//! `docs/reference/rust.md` lists them. [`host`] is what the command line and the service are made of, and changes with them.

mod attachments;
mod cases;
mod checked;
mod embedding;
mod fit;
mod grant;
mod granted;
mod harden;
mod hosted;
mod invocation;
mod kinds;
mod loaded;
mod located;
mod machinery;
mod missing;
mod model_choice;
mod named_path;
mod node;
mod open_questions;
mod over_time;
mod problem;
mod program_operator;
mod python;
mod question_words;
mod recorded_model;
mod remembered_grants;
mod replaced_file;
mod replay;
mod resume;
mod run;
mod run_port;
mod servers;
mod session;
mod settings;
mod stored_keys;
mod transcript;
mod typed_input;

pub use embedding::{
    Call, Completed, Ended, Error, Events, NoArguments, Options, Program, ProgramBuilder, Resumption,
    Running, Suspended, Tool, ToolContext, Worker,
};
pub use fit::Misfit;
pub use grant::{Grant, MissingGrant};
pub use llm_do_core::{
    attachment::Attachment, gate::Mode, model::Usage, outcome::FailureKind, price::Usd, risk::Risk,
};
pub use llm_do_host::Canceller;
pub use llm_do_macros::tool;
pub use llm_do_program::{Diagnostic, Diagnostics, signature::InputError};
pub use problem::{NoKey, Problem};
pub use resume::ResumeError;
pub use schemars;
pub use serde;
pub use serde_json;

#[doc(hidden)]
pub use host::*;

/// Questions of a run, and their operators.
pub mod operator {
    pub use crate::embedding::{AnswerWith, answer_with};
    pub use llm_do_core::{
        call_path::CallPath,
        operator::{OneAtATime, Operator, Recall, Unattended},
        origin::Steering,
        question::{
            Answer, Approval, Fact, Given, Input, NotAccepted, Preview, Question, QuestionId, Reply,
            Settlement, Waiting,
        },
        rule::{DecidedBy, Rule},
        send::BoxFuture,
    };
}

/// Models, and the items that an implementation needs.
pub mod model {
    pub use llm_do_core::{
        call_path::CallPath,
        model::{
            Arguments, Blob, Capabilities, Delta, DeltaSink, FinishReason, Message, MessageId, Model,
            ModelError, ModelErrorKind, ModelName, ModelRequest, ModelResponse, ModelSettings, Models, Part,
            Purpose, Role, Sees, Terms, ToolCall, ToolResult, ToolSpec, Usage,
        },
        price::Price,
        send::BoxFuture,
        server_tool::ServerTool,
    };
    pub use llm_do_models::scripted;
}

/// Kinds of toolsets: families of tools with a configuration in worker files.
pub mod toolset {
    pub use llm_do_core::{
        authority::{Access, Authority, Extent, Located, Mount, Network, Place},
        code::CodeEntry,
        definition::{Definitions, WorkerDefinition},
        engine::{Engine, Frame},
        foreseen::Foreseen,
        function::{
            Composite, CompositeCall, Concurrency, Effects, Function, FunctionMeta, FunctionSource,
            Implementation, Leaf, LeafCall, MainArgument, OutputSchema, Round, RuleCall, RuleCode,
            ToolAnswers, ToolAsks, ToolError, ToolOutput, Touch, Turn, UserAnswer,
        },
        gate::Policy,
        journal::Runtime,
        listing::Listing,
        origin::{Origins, ResultOrigin},
        outcome::{End, Failure, Halt, Outcome},
        question::{Preview, ToolQuestion},
        risk::Risk,
        rule::Rule,
        schema::Schema,
        send::BoxFuture,
        template::Insert,
        toolset::{
            ConfigurationProblem, Declarations, Executed, ForeseenTool, ForeseenTools, OldApproval,
            Requirement, ToolsetContext, ToolsetKind, ToolsetRegistry, ToolsetRuntime,
        },
        vfs::FileSystem,
    };
}

/// Events of a run, for displays and other programs.
pub mod event {
    pub use llm_do_core::{
        call_path::CallPath,
        event::Event,
        journal::{Record, RecordKind, RunStatus},
        model::Delta,
        step_name::StepName,
    };
    pub use llm_do_host::EventSink;
    pub use llm_do_records::RecordRef;
}

/// Drivers, which execute the steps of a run and keep its journal.
pub mod driver {
    pub use llm_do_core::{
        budget::Reserved,
        call_path::CallPath,
        call_spec::CallSpec,
        driver::{Caller, Driver, Exchanged, MemoryDriver, Step, Stepped},
        event::Event,
        journal::{Record, RecordKind},
        origin::{Origins, UntrustedPlaces},
        outcome::{Halt, Outcome},
        question::{Given, Known, Question},
        send::BoxFuture,
        shared::Shared,
        step_name::StepName,
    };
    pub use llm_do_host::Recorder;
    pub use llm_do_runs::LocalDriver;
}

/// Building blocks of llm-do's hosts: the command line, the service, the editor's agent. This module changes with them.
pub mod host {
    pub use crate::attachments::file_places;
    pub use crate::cases::{BadCases, Cases};
    pub use crate::checked::{Announce, Editing};
    pub use crate::grant::{
        BadGrant, BadGrantsFile, Grant, Grantor, MissingGrant, NeededBy, RememberedGrant, RememberedGrants,
        network as granted_network, parse_grant,
    };
    pub use crate::granted::Granted;
    pub use crate::harden::{ask_function, harden};
    pub use crate::hosted::RunLog;
    pub use crate::kinds::toolset_kinds;
    pub use crate::loaded::{Loaded, read_set, user_config};
    pub use crate::located::Located;
    pub use crate::machinery::Machinery;
    pub use crate::named_path::{check_named, make_named_folder, write_named};
    pub use crate::node::{ClusterStart, NodeLog, first_expiry, recorded_mode};
    pub use crate::open_questions::{Asked, NotTaken, OpenQuestions, Taken, digest};
    pub use crate::over_time::{BudgetState, BudgetsOverTime, TokenAmounts, TokenBudgets};
    pub use crate::program_operator::{PROTOCOL, ProgramOperator};
    pub use crate::python::{PythonFor, code_reader};
    /// A question as plain text and as Markdown.
    pub mod question_text {
        pub use crate::question_words::{diff, expiry, fenced, form, markdown, plain};
    }
    pub use crate::replay::{Recorded, replay};
    pub use crate::resume::{Decisions, PastRun, ResumeError};
    pub use crate::run::{Report, Run};
    pub use crate::run_port::{FromRun, Replies, RunPort};
    pub use crate::servers::{Inspection, Server};
    pub use crate::session::{Others, Session, today};
    pub use crate::settings::{
        AddProviders, Client, Environment, IdempotencyKey, Input, InputPart, ReadPart, RunOptions, Settings,
    };
    pub use crate::stored_keys::{BadKeysFile, StoredKeys};
    pub use crate::transcript::{
        Called, Compacted, Held, Joined, Said, Transcript, attached_name, last_answer, last_message, last_run,
    };
    pub use crate::typed_input::typed_input;
    pub use llm_do_core as core;
    pub use llm_do_core::launch::Counts;
    pub use llm_do_host::{
        BadInvocation, DetectedModel, Effects, Inbox, Invocation, ModelSource, NotReadable, Reach, RuleGiven,
        dialogue, output_text,
    };
    pub use llm_do_mcp::{BadClientServer, ClientServer, ClientServers, Inspected, InspectedTool, ToolState};
    pub use llm_do_models as models;
    pub use llm_do_program as program;
    pub use llm_do_program::signatures::{client_schema, not_for_clients};
    pub use llm_do_python as python_tools;
    pub use llm_do_records as records;
    pub use llm_do_records::{Case, Compare, Hardened, ReplayReport, Section, Tried, Verdict, sections};
    pub use llm_do_runs as runs;
    pub use llm_do_sandbox::{
        NewFile, confine, place_of, private_dir, read_below, read_regular, write_below,
    };
}

/// Items that the code of [`macro@tool`] uses.
#[doc(hidden)]
pub mod __private {
    pub use schemars;
    pub use serde;
}

/// The code of the guide, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/rust.md")]
struct Guide;
