//! The engine as a WebAssembly module for a web page (`docs/reference/page-engine.md`).
//!
//! [`Engine::step`] takes what has happened and returns the effects to perform, in order. The module has no imports: a
//! dedicated worker of the page performs the effects. Requests have the form of the HTTP interface of `llm-do serve`, so
//! the app is the same over both.

mod bridge;
mod definitions;
mod desk;
mod engine;
#[cfg(target_arch = "wasm32")]
mod entropy;
#[cfg(target_arch = "wasm32")]
mod exports;
mod feed;
mod files;
mod host;
mod journal;
mod kinds;
mod live;
mod log;
pub mod message;
mod problem;
mod program;
mod routes;
mod run_files;
mod runs;
mod service;
mod tasks;
mod transport;
mod tree;

pub use engine::Engine;
pub use program::load_options;
