//! Programs as a service over HTTP (`docs/reference/http.md`): clients start runs, follow their events, and answer their
//! questions.
//!
//! [`Service::open`] takes the programs and continues the runs that an earlier process left. [`Http::bind`] listens on the
//! loopback interface, [`Http::serve`] answers requests until it is told to stop.

mod api;
mod error;
mod events;
mod http;
mod live;
mod metrics;
mod openapi;
mod program;
mod runs;
mod service;
mod stdio;
mod token;
mod views;

pub use http::Http;
pub use openapi::document;
pub use program::{BadPrograms, Host, ProgramName, Served};
pub use service::{Limits, Service};
pub use stdio::{PROTOCOL, Stdio, StdioLimits};
pub use token::{BadTokens, NewToken, Scope, Token, Tokens};
