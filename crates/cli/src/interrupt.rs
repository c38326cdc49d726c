//! Ctrl-C: the first one ends the run in order with exit code 130, the second one ends the process at once.

use crate::{exit::Exit, terminal::Terminal};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ},
    iterator::Signals,
};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
    thread,
};

/// Makes a write beyond the file size limit (`ulimit -f`) an error, which is reported with the file. Without a handler the
/// signal ends the process without a message.
pub(crate) fn report_file_size_limit() {
    // Without a handler the process would end as before, which is no reason not to start.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

type Action = Box<dyn Fn() + Send>;

/// Listens to signals on a thread of its own: a runtime that is busy must not keep the second Ctrl-C from working.
#[derive(Clone)]
pub(crate) struct Interrupts(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    came: bool,
    on_first: Option<Action>,
}

impl Interrupts {
    /// Takes over SIGINT, SIGTERM and SIGHUP. `terminal` is put back in order before the process ends at once.
    pub(crate) fn listen(terminal: Option<Arc<Terminal>>) -> io::Result<Self> {
        let this = Self(Arc::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
        let shared = this.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for _signal in signals.forever() {
                if shared.first() {
                    continue;
                }
                if let Some(terminal) = &terminal {
                    terminal.restore();
                }
                std::process::exit(Exit::Interrupted.code().into());
            }
        })?;
        Ok(this)
    }

    /// What the first signal does from here on. Before, there is nothing to bring to an end: it ends the process.
    pub(crate) fn on_first(&self, action: impl Fn() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).on_first = Some(Box::new(action));
    }

    /// Whether the signal that has come was the first, and has been acted on.
    fn first(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(action) = state.on_first.as_ref().filter(|_| !state.came) else { return false };
        action();
        state.came = true;
        true
    }
}
