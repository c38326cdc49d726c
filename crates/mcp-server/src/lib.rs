//! A program as a server of the Model Context Protocol: each exported worker is a tool, and each call of a tool is a run with
//! a journal of its own. See `docs/reference/mcp-server.md`.
//!
//! [`Server`] answers requests. [`serve_stdio`] connects it with one client over a pair of streams, and [`Http`] with any
//! number of clients over streamable HTTP.

mod ask;
mod exact;
mod http;
mod live;
mod outcome;
mod progress;
mod runs;
mod server;
mod state;
mod stdio;
mod tasks;
mod tool;

pub use ask::{answer, form};
pub use exact::refusal;
pub use http::{BadToken, Http, NoToken, Token};
pub use server::{IDEMPOTENCY_META, Log, Server};
pub use stdio::serve_stdio;
pub use tool::tool;

use llm_do::Problem;
use std::sync::Arc;

/// Why a program can't be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A worker can't be opened.
    #[error(transparent)]
    Problem(Box<Problem>),
    /// Two workers have the same name as tools.
    #[error("`{}` and `{}` would both be the tool `{name}`: rename one of them, or export only one", workers[0], workers[1])]
    SameName {
        /// The name.
        name: String,
        /// The workers.
        workers: [Arc<str>; 2],
    },
}
