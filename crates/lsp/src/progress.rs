//! The progress of checks, for clients that show it.

use crate::analysis::Outbox;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

/// The progress of the check that runs. A check that inspects no code and opens no program has none.
pub(crate) struct Progress {
    out: Outbox,
    /// True if the client shows progress.
    is_shown: bool,
    state: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    /// The token of the progress that has begun.
    token: Option<String>,
    /// The number of tokens so far.
    tokens: u32,
}

impl Progress {
    pub(crate) fn new(out: Outbox, is_shown: bool) -> Self {
        Self { out, is_shown, state: Mutex::default() }
    }

    /// Begins the check of a program.
    pub(crate) fn checks(&self, key: &Path) {
        let name = key.file_name().unwrap_or_default().to_string_lossy();
        self.begin(&format!("Checking {name}"));
    }

    /// Reports an inspection of code.
    pub(crate) fn inspects(&self, what: &str) {
        if let Some(token) = self.begin("Checking") {
            self.tell(&token, json!({"kind": "report", "message": format!("inspecting {what}")}));
        }
    }

    /// Ends the progress, if it has begun.
    pub(crate) fn end(&self) {
        let token = self.state.lock().unwrap_or_else(PoisonError::into_inner).token.take();
        if let Some(token) = token {
            self.tell(&token, json!({"kind": "end"}));
        }
    }

    /// Returns the token, and begins if nothing has begun. `None`: the client shows no progress.
    fn begin(&self, title: &str) -> Option<String> {
        if !self.is_shown {
            return None;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(token) = &state.token {
            return Some(token.clone());
        }
        state.tokens += 1;
        let token = format!("llm-do-{}", state.tokens);
        state.token = Some(token.clone());
        self.out.request(&token, "window/workDoneProgress/create", json!({"token": token}));
        self.tell(&token, json!({"kind": "begin", "title": title, "cancellable": false}));
        Some(token)
    }

    fn tell(&self, token: &str, value: Value) {
        self.out.notify("$/progress", json!({"token": token, "value": value}));
    }
}
