//! Attacks on confined processes from inside, in both tiers.
//!
//! Each attack is a small script. Where it can be done harmlessly it is first run unconfined, where it must succeed: an
//! attack that never works proves nothing.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may panic and say why it skips")]

mod bench;
mod devices;
mod files;
mod kernel;
mod lifetime;
mod limits;
mod metadata;
mod network;
mod ordinary_user;
mod processes;
mod sockets;
mod start;
mod views;
