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
mod gguf;
mod grammar;
mod host;
pub mod hub;
mod llama;
pub mod memory;
mod model;
mod network;
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

pub use catalogue::{CATALOGUE, Entry, Source, Weights};
pub use host::install;
pub use hub::{BadHubName, Hub, HubError, HubFile, HubName};
pub use model::{LoadError, LocalModel};
pub use pull::{Download, Progress, PullError, SourceError};
pub use store::{Installed, NotInstalled, Store};
