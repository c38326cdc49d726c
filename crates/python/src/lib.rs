//! Python functions as tools (SPEC §8.5).
//!
//! A user's functions run in a **host**: an interpreter in a process of its own, confined by the kernel to what the
//! calling worker sees, that runs `host/host.py` and speaks frames of JSON over a socket that nothing else in the process
//! uses (`wire`). What a module exposes is found out by such a host too (`discovery`) and remembered by the hashes of
//! what it read, so that an unchanged program starts no Python before it calls a Python tool.
//!
//! [`Python`] holds what the workers of a session share: the interpreter, what was discovered, and the warm hosts.
//! [`Custom`] is the toolset kind that turns all this into functions of the engine.

#![warn(missing_docs)]

mod call;
mod discovery;
mod explain;
mod host;
mod interpreter;
mod pool;
mod prepared;
mod python;
mod tool;
mod toolset;
mod view;
mod wire;

pub use discovery::{Described, DiscoveryError, ExposedTool, ModuleReport};
pub use interpreter::{Interpreter, InterpreterError, Origin};
pub use prepared::Wanted;
pub use python::{Environment, Python, Settings};
pub use toolset::Custom;
