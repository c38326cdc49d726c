//! `--output stream-json`: one event a line, as it happens.

use crate::screen::Screen;
use llm_do_core::event::Event;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Writes events to stdout.
pub(super) struct Lines {
    screen: Arc<Screen>,
    gone: Box<dyn Fn() + Send + Sync>,
    told: AtomicBool,
}

impl Lines {
    pub(super) fn new(screen: Arc<Screen>, gone: impl Fn() + Send + Sync + 'static) -> Self {
        Self { screen, gone: Box::new(gone), told: AtomicBool::new(false) }
    }

    pub(super) fn event(&self, event: &Event) {
        // Events hold nothing that JSON can't.
        let Ok(mut line) = serde_json::to_vec(event) else { return };
        line.push(b'\n');
        if !self.screen.result(&line) && !self.told.swap(true, Ordering::Relaxed) {
            (self.gone)();
        }
    }
}
