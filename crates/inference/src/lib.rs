//! Local models (`docs/guides/local-models.md`): a [catalogue](mod@catalogue), a [`Store`] of downloaded files, and
//! [`LocalModel`], which runs one in a confined process and keeps tool calls and typed answers to their schemas by
//! grammar. Programs that run models call [`install`] first.
//!
//! Without the feature `llama` the crate has only the catalogue, the store and the downloads.
//!
//! The inference library does not run in the process that uses this crate, and no certificate is read before a model is
//! pulled.

#[cfg(feature = "llama")]
mod answer;
pub mod catalogue;
#[cfg(feature = "llama")]
mod cells;
#[cfg(feature = "llama")]
mod chat;
#[cfg(feature = "llama")]
mod flow;
#[cfg(feature = "llama")]
mod gguf;
#[cfg(feature = "llama")]
mod grammar;
#[cfg(feature = "llama")]
mod host;
pub mod hub;
#[cfg(feature = "llama")]
mod llama;
pub mod memory;
#[cfg(feature = "llama")]
mod model;
mod network;
#[cfg(feature = "llama")]
mod pace;
#[cfg(feature = "llama")]
mod process;
mod pull;
#[cfg(feature = "llama")]
mod sampler;
#[cfg(feature = "llama")]
mod session;
mod store;
#[cfg(feature = "llama")]
mod template;
#[cfg(all(test, feature = "llama"))]
#[path = "../tests/tiny_model/mod.rs"]
mod tiny_model;
#[cfg(feature = "llama")]
mod wire;

pub use catalogue::{CATALOGUE, Entry, Source, Weights};
#[cfg(feature = "llama")]
pub use host::install;
pub use hub::{BadHubName, Hub, HubError, HubFile, HubName};
#[cfg(feature = "llama")]
pub use model::{LoadError, LocalModel};
pub use pull::{Download, Progress, PullError, SourceError};
pub use store::{Installed, NotInstalled, Store};
