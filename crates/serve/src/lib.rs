//! Programs as a service over HTTP (`docs/reference/http.md`): clients start runs, follow their events, and answer their
//! questions.
//!
//! [`Http::listen`] listens on the loopback interface. [`Service::open`] takes the programs and continues the runs that an
//! earlier process left. [`Http::serve`] answers requests until it is told to stop.

mod api;
mod app;
mod browser_sessions;
mod cookie;
mod cors;
mod costs;
mod definitions;
mod disk;
mod error;
mod events;
mod faces;
mod http;
mod known;
mod listing;
mod live;
mod log;
mod mcp_server;
mod meter;
mod metrics;
mod notices;
mod notify_settings;
mod openapi;
mod outgoing;
mod owner;
mod page;
mod program;
mod quota_settings;
mod quotas;
mod runs;
mod service;
mod signing;
mod stdio;
mod token;
mod trigger_settings;
mod uploads;
mod views;

pub use app::export_template;
pub use cors::{BadOrigin, Origin};
pub use definitions::definition_files;
pub use http::Http;
pub use log::LogEntry;
pub use mcp_server::McpServer;
pub use openapi::document;
pub use outgoing::Outgoing;
pub use page::{Page, PageError, PageFile, PageProgram};
pub use program::{BadPrograms, Host, ProgramName, Served};
pub use quotas::Limits;
pub use service::Service;
pub use stdio::{PROTOCOL, Stdio, StdioLimits};
pub use token::{BadToken, BadTokens, NewToken, Scope, Token, Tokens, settings_schema};
pub use trigger_settings::BadTrigger;
