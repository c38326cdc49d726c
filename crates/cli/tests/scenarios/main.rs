//! Scenarios: a project of literal files, the real binary, and what it prints, writes and returns.

mod budget;
mod check;
mod gate;
mod grants;
mod init;
mod libraries;
#[cfg(feature = "local")]
mod local;
mod look;
mod migrate;
mod operator;
mod prompts;
mod python;
mod resume;
mod runs;
mod schema;
mod secrets;
mod session;
mod shell;
mod story;
mod wires;
