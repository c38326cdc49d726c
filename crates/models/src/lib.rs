//! Remote models, behind the port of [`llm_do_core::model`].
//!
//! [`Providers`] opens `provider:model`: every provider that `genai` speaks to, endpoints that a program declares
//! ([`CustomProvider`]), and `script:FILE`, a model that answers from a file. `docs/guides/models.md` describes them
//! all. Other providers are added by name ([`Providers::with`]), so this package depends neither on models that run
//! inside the process nor on a journal.
//!
//! Invariants: no key gets into an error, a `Debug` text or a log line; only the environment that the caller passes
//! is read (except for proxies, which the HTTP client handles); no request is retried here; and no TLS stack is set
//! up before an `https://` endpoint is used.

mod batch;
mod client;
mod completions;
mod custom;
mod default_model;
mod failure;
mod history;
mod known;
mod output;
mod prices;
mod providers;
mod reader;
mod remote;
mod request;
mod response;
mod script;
mod server_tools;
mod valid;

pub use batch::{BatchModel, BatchOutcome, BatchState};
pub use custom::{Api, CustomProvider};
pub use default_model::DefaultModel;
pub use prices::PriceList;
pub use providers::{KeySource, Providers};
pub use script::scripted;
