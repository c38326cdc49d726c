//! The wire formats of model providers: OpenAI chat completions, OpenAI responses, Anthropic messages, Gemini
//! `generateContent`, Ollama chat and Bedrock Converse.
//!
//! A [`Form`] describes a model behind an endpoint. [`Form::request`] makes the bytes of a request from a
//! conversation, in one pass over its history. A [`Reader`] takes the bytes of the answer, cut anywhere, and makes
//! deltas and a response of them. [`Batches`] does the same for the batch interfaces of providers.
//!
//! ```
//! use llm_do_core::{call_path::CallPath, model::{Message, MessageId, ModelRequest, ModelSettings, Part, Role}};
//! use llm_do_wire::{Dialect, Form, Wire};
//! use std::sync::Arc;
//!
//! let form = Form::new(Wire::OpenAi, Dialect::Own, "openai", "gpt-4o");
//! let parts = vec![Part::text("Hello.")];
//! let request = ModelRequest {
//!     conversation: &CallPath::root(),
//!     run: "run",
//!     worker: "main",
//!     purpose: Default::default(),
//!     turn: 0,
//!     model: &"openai:gpt-4o".parse()?,
//!     system: &"Be brief.".into(),
//!     messages: &[Arc::new(Message { id: MessageId(0), parent: None, role: Role::User, parts })],
//!     tools: &Arc::from([]),
//!     server_tools: &Arc::from([]),
//!     settings: &ModelSettings::default(),
//!     output: None,
//! };
//! let sent = form.request(&request, true)?;
//! assert_eq!(sent.path, "chat/completions");
//!
//! let mut reader = form.reader(&request, true, "text/event-stream");
//! reader.push(b"data: {\"choices\":[{\"delta\":{\"content\":\"Hi.\"},\"finish_re");
//! reader.push(b"ason\":\"stop\"}]}\n\ndata: [DONE]\n\n");
//! assert!(reader.has_ended());
//! assert_eq!(reader.response()?.parts, [Part::text("Hi.")]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Invariants: nothing here reads a clock, a file or a socket, so the package also builds for WebAssembly. What a
//! server sends is limited here: [`MOST_BYTES`] in an answer, [`MOST_OF_EVENT`] in one of its events, 10,000 pieces,
//! and [`MOST_OF_ERROR`] in the body of an error. No key appears in an error or a `Debug` text.

mod batch;
mod body;
mod claude;
mod effort;
mod excerpt;
mod failure;
mod form;
mod history;
mod maker;
mod output;
mod reader;
mod response;
mod server_tools;
mod split;
mod valid;

pub use batch::{Batches, Outcome, Progress};
pub use body::{Method, Outgoing};
pub use excerpt::Excerpt;
pub use failure::Failure;
pub use form::{Dialect, Form, Unsendable, Wire};
pub use reader::Reader;

/// Most bytes of one answer. A server may send without end.
pub const MOST_BYTES: usize = 64 << 20;

/// Most bytes of one event of a streamed answer.
pub const MOST_OF_EVENT: usize = 16 << 20;

/// Most bytes that are read of the body of an error.
pub const MOST_OF_ERROR: usize = 64 << 10;
