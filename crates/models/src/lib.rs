//! Remote models, behind the port of [`llm_do_core::model`].
//!
//! [`Providers`] opens `provider:model`: every known provider, endpoints that a program declares
//! ([`CustomProvider`]), and `script:FILE`, a model that answers from a file. `docs/guides/models.md` describes them
//! all. Other providers are added by name ([`Providers::with`]), so this package depends neither on models that run
//! inside the process nor on a journal.
//!
//! `llm-do-wire` has the forms of requests and answers. This package sends and receives them through a [`Transport`]: an
//! HTTP client on this machine, or the port of another host ([`Providers::over`]).
//!
//! Invariants: no key gets into an error, a `Debug` text or a log line; only the environment that the caller passes
//! is read (except for proxies, which the HTTP client handles); no request is retried here; and no TLS stack is set
//! up before an `https://` endpoint is used.

mod batch;
#[cfg(not(target_arch = "wasm32"))]
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
mod transport;

pub use batch::{BatchModel, BatchOutcome, BatchState};
pub use custom::{Api, CustomProvider};
pub use default_model::DefaultModel;
pub use origins::{origin_of_address, origin_of_provider, origins_of_providers};
pub use prices::PriceList;
pub use providers::{KeySource, Providers};
#[cfg(not(target_arch = "wasm32"))]
pub use script::scripted;
pub use script::scripted_over;
pub use transport::{Body, HttpRequest, HttpResponse, SendError, SendErrorKind, Transport};
