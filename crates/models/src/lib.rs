//! Remote models, behind the port of [`llm_do_core::model`].
//!
//! [`Providers`] opens `provider:model`: every known provider, endpoints that a program declares
//! ([`CustomProvider`]), and `script:FILE`, a model that answers from a file. `docs/guides/models.md` describes them
//! all. Other providers are added by name ([`Providers::with`]), so this package depends neither on models that run
//! inside the process nor on a journal.
//!
//! `llm-do-wire` has the forms of requests and answers. This package sends and receives them.
//!
//! Invariants: no key gets into an error, a `Debug` text or a log line; only the environment that the caller passes
//! is read (except for proxies, which the HTTP client handles); no request is retried here; and no TLS stack is set
//! up before an `https://` endpoint is used.

mod batch;
mod client;
mod custom;
mod default_model;
mod exchange;
mod failure;
mod known;
mod origins;
mod prices;
mod providers;
mod remote;
mod script;

pub use batch::{BatchModel, BatchOutcome, BatchState};
pub use custom::{Api, CustomProvider};
pub use default_model::DefaultModel;
pub use origins::{origin_of_address, origin_of_provider, origins_of_providers};
pub use prices::PriceList;
pub use providers::{KeySource, Providers};
pub use script::scripted;
