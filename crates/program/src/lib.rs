//! The front end of llm-do: worker files and manifests become the definitions that the engine runs.
//!
//! [`Program::load`] reads a program through a [`source::SourceTree`], collects what is wrong as
//! [`diagnostics::Diagnostic`]s, and gives what `llm-do-core` asks for through its `Definitions`. Nothing here runs
//! anything, talks to a network, or writes.

mod check;
pub mod code;
pub mod contents;
pub mod dependency;
pub mod diagnostics;
mod effective;
pub mod front_matter;
pub mod init;
pub mod json_schema;
pub mod keys;
pub mod library;
pub mod library_name;
mod listing;
mod loading;
pub mod lock;
pub mod manifest;
pub mod migrate;
pub mod mounts;
mod package;
mod parallel;
mod program;
pub mod resolve;
pub mod scan;
pub mod shape;
pub mod shorthand;
mod show;
pub mod signature;
pub mod source;
pub mod span;
#[cfg(not(target_arch = "wasm32"))]
pub mod target;
pub mod templates;
mod tool_levels;
mod tool_reference;
pub mod toolsets;
mod user_config;
pub mod yaml;

pub use check::check;
pub use diagnostics::{Diagnostic, Diagnostics};
pub use listing::{Listed, Listing, list_workers};
pub use program::{BindError, LoadOptions, Loaded, Program, Source, Start};
pub use show::{Setting, Shown, ShownTools};
pub use user_config::UserConfig;
