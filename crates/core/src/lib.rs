//! The engine of llm-do.
//!
//! Workers are functions, and everything that happens in a run is one call: [`engine::Engine::call`]. This crate has
//! no file system, network, process, clock, randomness or runtime of its own. It asks a [`driver::Driver`], which
//! executes, records, or replays. `docs/architecture.md` gives an overview.

pub mod account;
pub mod attachment;
pub mod authority;
pub mod budget;
pub mod call_bounds;
pub mod call_path;
pub mod call_spec;
pub mod client_tool;
pub mod code;
pub mod code_calls;
pub mod content;
pub mod conversation;
pub mod definition;
pub mod driver;
pub mod engine;
mod estimate;
pub mod event;
pub mod foreseen;
pub mod function;
pub mod gate;
pub mod journal;
pub mod json;
pub mod launch;
pub mod ledger;
pub mod limits;
pub mod listing;
pub mod local_name;
pub mod model;
pub mod operator;
pub mod origin;
pub mod os_error;
pub mod outcome;
pub mod partial;
pub mod price;
pub mod question;
pub mod rebuild;
pub mod redact;
mod repetition;
pub mod results;
pub mod risk;
pub mod rule;
pub mod schema;
pub mod send;
pub mod server_tool;
pub mod shared;
pub mod source;
pub mod spending;
pub mod step_name;
pub mod template;
pub mod toolset;
pub mod toolsets;
pub mod undo;
pub mod vfs;
pub mod worker;
