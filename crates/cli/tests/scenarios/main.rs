//! Scenarios: a project of literal files, the real binary, and what it prints, writes and returns.

mod budget;
mod check;
mod crash;
mod faults;
mod gate;
mod grants;
mod harden;
mod init;
#[cfg(target_os = "linux")]
mod killed;
mod libraries;
#[cfg(feature = "local")]
mod local;
mod look;
mod looking;
mod migrate;
mod operator;
mod prompts;
mod python;
mod recorded;
mod replay;
mod resume;
mod runs;
mod schema;
mod secrets;
mod session;
mod shell;
mod story;
mod tour;
mod wires;
