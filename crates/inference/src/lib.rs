//! Local models (`docs/guides/local-models.md`): a [catalogue](mod@catalogue), a [`Store`] of downloaded files, and
//! [`LocalModel`], which runs one in a confined process and keeps tool calls and typed answers to their schemas by
//! grammar. Programs that run models call [`install`] first.
//!
//! Nothing of the inference library runs in the process that uses this crate, and no certificate is read before a model
//! is pulled.

mod answer;
pub mod catalogue;
mod cells;
mod chat;
mod flow;
mod grammar;
mod host;
mod llama;
mod model;
mod pace;
mod process;
mod pull;
mod sampler;
mod session;
mod store;
mod template;
#[cfg(test)]
#[path = "../tests/tiny_model/mod.rs"]
mod tiny_model;
mod wire;

pub use catalogue::{CATALOGUE, Entry, Source};
pub use host::install;
pub use model::{LoadError, LocalModel};
pub use pull::{Progress, PullError, SourceError};
pub use store::{Installed, NotInstalled, Store};
