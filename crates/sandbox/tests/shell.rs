//! Commands on real files, confined in both tiers (`docs/guides/shell.md`): their start, their access, and their end.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why it skips")]

#[path = "confine/bench.rs"]
#[allow(dead_code, reason = "the attacks on confinement use the rest")]
mod bench;
#[path = "shell/commands.rs"]
mod commands;
#[path = "shell/confined.rs"]
mod confined;
#[path = "shell/ending.rs"]
mod ending;
#[path = "shell/worker.rs"]
mod worker;
