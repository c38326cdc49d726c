//! Texts that were too long to show a model whole, kept for it to read on (SPEC §8.1).

use std::sync::{Arc, Mutex, PoisonError};

/// Most characters of a tool's result that a model is shown at once.
pub const SHOWN_CHARS: usize = 40_000;

/// The cut results of one conversation, by number. A view of recorded results: rebuilt when a run is resumed.
#[derive(Debug, Default)]
pub struct Results {
    kept: Mutex<Vec<Arc<str>>>,
}

impl Results {
    /// The whole text if it is short; else its beginning and a notice of where to read on. `can_read` tells whether
    /// the worker has `read_file`.
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
        // The same text keeps its number, so that a call that gives the same again is seen to do so.
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
