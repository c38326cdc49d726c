//! Scenarios: a project of literal files, the real binary, and what it prints, writes and returns.

mod check;
mod init;
mod libraries;
#[cfg(feature = "local")]
mod local;
mod look;
mod migrate;
mod prompts;
mod python;
mod runs;
mod schema;
mod session;
mod shell;
mod story;
mod wires;
