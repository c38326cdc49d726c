//! Local models (`docs/guides/local-models.md`): a [catalogue](mod@catalogue), a [`Store`] of downloaded files, and
//! [`LocalModel`], which runs one inside the process and keeps tool calls and typed answers to their schemas by
//! grammar.
//!
//! Nothing of the inference library is touched before a local model is asked or loaded, and no certificate is read
//! before one is pulled.

pub mod catalogue;
mod chat;
mod flow;
mod grammar;
pub mod hub;
mod llama;
pub mod memory;
mod model;
mod network;
mod pace;
mod pull;
mod sampler;
mod session;
mod store;
mod template;

pub use catalogue::{CATALOGUE, Entry, Source, Weights};
pub use hub::{BadHubName, Hub, HubError, HubFile, HubName};
pub use model::{LoadError, LocalModel};
pub use pull::{Download, Progress, PullError, SourceError};
pub use store::{Installed, NotInstalled, Store};
