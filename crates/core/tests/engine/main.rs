//! The guarantees of a run, tested on whole call trees with scripted models, local tools, and files and records in
//! memory.
//!
//! [`world::World::run`] checks after every run that each conversation can be rebuilt from the journal alone and that
//! each history sent to a model was valid, so that no test has to say so.

#![allow(clippy::unwrap_used, reason = "a test that cannot set up its world has failed")]

mod context;
mod conversations;
mod delegation;
mod ensures;
mod files;
mod gate;
mod generated;
mod journal;
mod launch;
mod limits;
mod origins;
mod parallel;
mod requests;
mod server_tools;
mod skills;
mod spending;
mod tools;
mod world;
