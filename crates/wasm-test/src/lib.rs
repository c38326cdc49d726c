//! A program of workers run inside a WebAssembly module.
//!
//! Compiling for `wasm32-unknown-unknown` proves little: code that asks for a clock or a file compiles there and traps.
//! `run.mjs` hands this module requests in JSON: a project to run with scripted models, a recorded run to replay, a
//! recorded run to render. The module imports nothing. `run.mjs` gives the same requests to `examples/native.rs` and
//! compares the reports byte for byte.

#[cfg(target_arch = "wasm32")]
mod entropy;
#[cfg(target_arch = "wasm32")]
mod exports;
mod files;
mod page;
mod project;
mod replay;
mod run;
mod script;
mod ticks;

use serde::Deserialize;
use serde_json::{Value, json};

/// A request to the module.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
enum Request {
    /// Run a project.
    Run(run::RunRequest),
    /// Replay a recorded run.
    Replay(replay::ReplayRequest),
    /// Render a recorded run.
    Page(page::PageRequest),
}

/// Answers a request in JSON with a report in JSON, or with `{"error": …}` if there is nothing to report.
pub fn answer(request: &str) -> String {
    let report = serde_json::from_str(request).map_err(|error| error.to_string()).and_then(report);
    report.unwrap_or_else(|error| json!({ "error": error })).to_string()
}

fn report(request: Request) -> Result<Value, String> {
    let report = match request {
        Request::Run(request) => serde_json::to_value(request.report()?),
        Request::Replay(request) => serde_json::to_value(request.report()?),
        Request::Page(request) => serde_json::to_value(request.report()?),
    };
    report.map_err(|error| error.to_string())
}
