//! MCP servers as tools (`docs/guides/mcp.md`).
//!
//! A server is a foreign program, and everything that it says is written by others. llm-do starts it through the launcher
//! of [`llm_do_sandbox::confine`], confined to the view of the worker that uses it. The client library speaks the protocol
//! and nothing else: it neither starts the process nor ends it.
//!
//! | module | responsibility |
//! |---|---|
//! | `configuration` | the toolset's configuration: which servers, and how each is started |
//! | `process` | starts a server as a confined process |
//! | `transport` | messages over its standard input and output, one a line |
//! | `connection` | a server that runs: the negotiated protocol, its tools, its end |
//! | `pool` | the connections of each run: one for equal servers with equal views |
//! | `listing` | the tools of servers as data, as they are recorded |
//! | `known` | tools that servers have listed before, and the ones that the operator accepted |
//! | `result` | results of calls as outputs |
//! | `tool` | a tool of a server as a function |
//! | `toolset` | the toolset kind `mcp` |

mod configuration;
mod connection;
mod known;
mod listing;
mod pool;
mod process;
mod result;
mod tool;
mod toolset;
mod transport;

pub use known::Known;
pub use process::Environment;
pub use toolset::{Host, Mcp};
