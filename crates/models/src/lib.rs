//! Models that live elsewhere, behind the port of [`llm_do_core::model`].
//!
//! [`Providers`] opens `provider:model`: every provider that `genai` speaks to, endpoints that a program declares
//! ([`CustomProvider`]), and `script:FILE`, a model that answers from a file. `docs/models.md` describes them all.
//! What is not here is added by name ([`Providers::with`]), so that this package knows neither the models that run
//! inside the process nor any journal.
//!
//! Invariants: no key gets into an error, a `Debug` text or a log line; nothing is read from the process's
//! environment but what the caller hands in (proxies excepted, which are the HTTP client's business); no request is
//! repeated here; and no TLS stack is set up before an `https://` endpoint is used.

mod client;
mod custom;
mod default_model;
mod failure;
mod known;
mod output;
mod prices;
mod providers;
mod remote;
mod request;
mod response;
mod script;

pub use custom::{Api, CustomProvider};
pub use default_model::DefaultModel;
pub use providers::Providers;
