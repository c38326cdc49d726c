//! A loopback model server for tests and benchmarks.
//!
//! It listens on a real socket and speaks two providers' wire formats, OpenAI chat-completions
//! (`POST …/chat/completions`) and Anthropic messages (`POST …/messages`), streaming or not as each request asks. A
//! [`Script`] determines its answers, and it keeps each request as [`Seen`]. It refuses, as the real services do, any
//! request whose history is not valid for its wire.
//!
//! ```
//! use llm_do_testserver::{Reply, Script, TestServer};
//! use serde_json::json;
//!
//! let server = TestServer::start(
//!     Script::new()
//!         .turn(Reply::rate_limited(None))
//!         .turn(Reply::tool("read_file", json!({"path": "notes.txt"})).and_text("Let me look."))
//!         .turn(Reply::text("The notes say hello.")),
//! );
//! // … run the program under test with OPENAI_BASE_URL set to server.url() + "/v1" …
//! # assert!(server.url().starts_with("http://127.0.0.1:"));
//! server.assert_valid();
//! assert_eq!(server.requests().len(), 0);
//! ```

mod anthropic;
mod batches;
mod faults;
mod fixed;
mod fixed_server;
mod invariants;
pub mod net;
mod openai;
mod script;
mod seen;
mod server;

pub use batches::{BatchServer, Fate};
pub use faults::{Fault, Faults};
pub use fixed::Fixed;
pub use fixed_server::FixedServer;
pub use script::{Finish, Gate, Reply, Script};
pub use seen::{Message, Role, Seen, Tool, ToolCall, ToolResult, Wire};
pub use server::TestServer;
