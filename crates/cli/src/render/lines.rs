//! `--output stream-json`: one event a line, as it happens.

use crate::{screen::Screen, visible};
use llm_do_core::event::Event;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// A writer of events to stdout.
pub(super) struct EventLines {
    screen: Arc<Screen>,
    /// True if stdout is a terminal.
    terminal: bool,
    gone: Box<dyn Fn() + Send + Sync>,
    told: AtomicBool,
}

impl EventLines {
    pub(super) fn new(screen: Arc<Screen>, terminal: bool, gone: impl Fn() + Send + Sync + 'static) -> Self {
        Self { screen, terminal, gone: Box::new(gone), told: AtomicBool::new(false) }
    }

    pub(super) fn event(&self, event: &Event) {
        // Events hold nothing that JSON can't.
        let Ok(line) = serde_json::to_string(event) else { return };
        let line = if self.terminal { visible::json(&line) } else { line.into() };
        if !self.screen.result(format!("{line}\n").as_bytes()) && !self.told.swap(true, Ordering::Relaxed) {
            (self.gone)();
        }
    }
}
