//! Functions in Python and in TypeScript as tools (`docs/guides/python-tools.md`, `docs/guides/typescript-tools.md`).
//!
//! A user's functions run in a **host**: an interpreter in a process of its own, which the kernel confines to the view
//! of the calling worker. It runs one file, which `build.rs` joins from the sections in `host/src` (Python) or `node/src`
//! (Node), and exchanges frames of JSON with llm-do over a socket that nothing else in the process uses (`wire`). Such a host also discovers
//! the functions that a module exposes (`discovery`). The result is cached by the content of all files that the host
//! could read, so an unchanged program starts no interpreter before its first call of a tool.
//!
//! [`Python`] holds what the workers of a session share: the interpreters, the discovered modules, and the warm hosts.
//! [`Custom`] is the toolset kind that makes functions of the engine from them.

#![warn(missing_docs)]

mod approval;
mod call;
mod discovery;
mod explain;
mod host;
mod interpreter;
mod node;
mod pool;
mod prepared;
mod programs;
mod python;
mod scripts;
mod tool;
mod toolset;
mod turns;
mod untrusted;
mod view;
mod waits;
mod wire;

pub use discovery::{
    Declared, Described, DiscoveryError, ExposedTool, HiddenFunction, ModuleReport, OwnProcess, Parallel,
};
pub use interpreter::{Environment, Interpreter, InterpreterError, Origin};
pub use prepared::Wanted;
pub use programs::Programs;
pub use python::{Python, Settings};
pub use toolset::Custom;
pub use view::code_sha256;
