//! Results that were too long to show to a model in full, kept so that it can read the rest
//! (`docs/reference/loop.md`).

use crate::outcome::Failure;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum characters of a tool's result that a model sees at once.
pub const SHOWN_CHARS: usize = 40_000;

/// The cut results of one conversation, by number. A view of recorded results: rebuilt when a run is resumed.
#[derive(Debug, Default)]
pub struct Results {
    kept: Mutex<Vec<Arc<str>>>,
}

impl Results {
    /// The whole text if it is short; otherwise its beginning and a notice where to read the rest. `can_read` says
    /// whether the worker has `read_file`.
    pub fn show(&self, text: &str, can_read: bool) -> String {
        let Some((cut, _)) = text.char_indices().nth(SHOWN_CHARS) else { return text.to_owned() };
        let left = text[cut..].chars().count();
        if !can_read {
            return format!(
                "{}\n[{left} more characters are not shown. Ask for less at once.]",
                &text[..cut]
            );
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Equal texts share a number, so that a repeated result is recognised.
        let at = kept.iter().position(|old| **old == *text).unwrap_or_else(|| {
            kept.push(text.into());
            kept.len() - 1
        });
        format!(
            "{}\n[{left} more characters. Read on with read_file(path=\"/results/{}\", offset={SHOWN_CHARS}).]",
            &text[..cut],
            at + 1
        )
    }

    /// The text kept under `/results/N`, if the path is one.
    pub fn get(&self, path: &str) -> Option<Arc<str>> {
        let number: usize = path.trim_start_matches('/').strip_prefix("results/")?.parse().ok()?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(number.checked_sub(1)?).cloned()
    }
}

/// A result as a model reads it: text as it is, anything else as JSON.
pub(crate) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A failure as a model reads it, with the partial answer.
pub(crate) fn show_failure(failure: &Failure) -> String {
    match &failure.partial {
        None => failure.message.clone(),
        Some(partial) => format!("{}\nWhat there was so far: {}", failure.message, show(partial)),
    }
}
