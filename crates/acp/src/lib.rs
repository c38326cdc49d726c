//! llm-do as the agent of an editor: the Agent Client Protocol, version 1 (`docs/reference/acp.md`).
//!
//! A session of the protocol is a chat, and its ID is that of the chat's run. [`serve`] answers one client, over a pair
//! of streams, until the client disconnects. The host ([`Host`]) says which program a session opens, and with which
//! options.
//!
//! Each session is a task (`talk`) with one queue for messages of the client, events of the run and answers of the
//! client. Only the task holds the state of the session, so that updates, questions and the end of a turn reach the
//! client in the order in which they happened. The agent (`agent`) passes each message to its session.

mod agent;
mod backlog;
mod commands;
mod form;
mod host;
mod lines;
mod opening;
mod options;
mod prompt;
mod question;
mod servers;
mod signal;
mod talk;
mod tool_call;
mod updates;

pub use agent::{Disconnected, serve};
pub use host::Host;
