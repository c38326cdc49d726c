//! llm-do as the agent of an editor: the Agent Client Protocol, version 1 (`docs/reference/acp.md`).
//!
//! A session of the protocol is a chat, and its ID is that of the chat's run. [`serve`] answers one client, over a pair of
//! streams, until the client goes. The host ([`Host`]) says which program a session opens, and with which options.
//!
//! Each session is a task (`talk`) that hears the client, the run and the client's answers in one queue. It alone holds the
//! state of the session, so that updates, questions and the end of a turn reach the client in the order in which they
//! happened. The agent (`agent`) knows which session a message is for.

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
