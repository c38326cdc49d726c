//! The front end of llm-do. It turns worker files and manifests into the definitions that the engine runs.
//!
//! [`Program::load`] reads a program through a [`source::SourceTree`], collects all problems as
//! [`diagnostics::Diagnostic`]s, and implements the `Definitions` that `llm-do-core` uses. This crate does not run
//! anything, use a network, or write files.

mod authorities;
pub mod budgets;
mod cancel;
pub mod cases;
mod check;
mod checker;
pub mod code;
mod code_place;
pub mod contents;
mod context;
pub mod dependency;
pub mod diagnostics;
mod effective;
mod fence;
pub mod front_matter;
#[cfg(not(target_arch = "wasm32"))]
mod homes;
pub mod init;
pub mod json_schema;
pub mod keys;
pub mod language;
pub mod library;
pub mod library_name;
pub mod limits;
pub mod line_index;
mod listing;
mod load_options;
mod loading;
pub mod lock;
pub mod locked_tree;
pub mod manifest;
pub mod manifest_edit;
pub mod manifest_names;
pub mod mounts;
pub mod older_forms;
mod package;
mod parallel;
mod pre_approvals;
mod program;
mod protected;
mod purity;
mod recording_tree;
mod request;
pub mod resolve;
mod rules;
pub mod scan;
mod schema_keys;
pub mod shape;
pub mod shorthand;
mod show;
pub mod signature;
pub mod signatures;
pub mod skills;
pub mod source;
pub mod span;
mod start;
pub mod stubs;
#[cfg(not(target_arch = "wasm32"))]
pub mod target;
pub mod templates;
mod tool_folders;
mod tool_levels;
mod tool_reference;
pub mod toolsets;
mod user_config;
pub mod yaml;

pub use cancel::Cancel;
pub use check::{Report, check, check_exports, check_whole, flow};
pub use checker::{Checker, Extent};
pub use diagnostics::{Diagnostic, Diagnostics};
pub use listing::{Listed, Listing, exports, list_workers};
pub use llm_do_visible as visible;
pub use load_options::LoadOptions;
pub use program::{BindError, Loaded, Program};
pub use request::Request;
pub use show::{Setting, Shown, ShownTools};
pub use start::{Source, Start};
pub use user_config::UserConfig;
