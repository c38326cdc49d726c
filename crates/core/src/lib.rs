//! The machine of llm-do.
//!
//! Workers are functions, and everything that happens in a run is one call: [`engine::Engine::call`]. This crate
//! knows no world: no file system, network, process, clock, randomness or runtime of its own. It asks a
//! [`driver::Driver`], which executes, records, or replays. `docs/architecture.md` draws the whole.

pub mod authority;
pub mod call_path;
pub mod conversation;
pub mod driver;
pub mod engine;
pub mod event;
pub mod function;
pub mod gate;
pub mod journal;
pub mod ledger;
pub mod model;
pub mod operator;
pub mod price;
pub mod redact;
pub mod results;
pub mod schema;
pub mod send;
pub mod template;
pub mod toolset;
pub mod toolsets;
pub mod vfs;
pub mod worker;
