//! Signals that end a run. Ctrl-C: the first one ends the run in order with exit code 130, the second one ends the process
//! at once. The limit of processor time ends the run in order.
//!
//! One request to end can arrive as several signals: `timeout` sends SIGTERM to its child and then to the process group, and a
//! wrapper may pass on a Ctrl-C that the terminal has sent to the whole group. Signals that arrive together count as one.

use crate::{exit::Exit, terminal::Terminal};
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGTERM, SIGXCPU, SIGXFSZ},
    iterator::Signals,
};
use std::{
    io::{self, Write as _},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// Time after the first signal in which further signals belong to the same request. A person who presses Ctrl-C again
/// takes longer.
const TOGETHER: Duration = Duration::from_millis(200);

/// Makes a write beyond the file size limit (`ulimit -f`) an error, which is reported with the file. Without a handler
/// the signal ends the process without a message.
pub(crate) fn report_file_size_limit() {
    // Without a handler the process would end as before, which is no reason not to start.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

const OUT_OF_TIME: &str = "\nerror: the limit of processor time (`ulimit -t`) is reached; llm-do ends\n";

type Action = Box<dyn Fn() + Send>;
type EndAction = Box<dyn FnOnce() + Send>;

/// The longest time that the end of the process waits for [`Interrupts::on_end`], which may need a lock.
const CLEARING: Duration = Duration::from_millis(200);

/// A listener to signals, on a separate thread: a busy runtime must not keep the second Ctrl-C from working.
#[derive(Clone)]
pub(crate) struct Interrupts(Arc<Mutex<InterruptState>>);

#[derive(Default)]
struct InterruptState {
    /// The time at which the first signal was handled.
    came: Option<Instant>,
    on_first: Option<Action>,
    on_end: Option<EndAction>,
}

impl Interrupts {
    /// Takes over SIGINT, SIGTERM, SIGHUP and SIGXCPU. `terminal` is restored before the process ends immediately.
    pub(crate) fn listen(terminal: Option<Arc<Terminal>>) -> io::Result<Self> {
        let this = Self(Arc::default());
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGXCPU])?;
        let shared = this.clone();
        thread::Builder::new().name("signals".into()).spawn(move || {
            for signal in signals.forever() {
                if signal == SIGXCPU {
                    // The kernel repeats it each second until the run has ended or the hard limit is reached.
                    if shared.came() {
                        continue;
                    }
                    // There is nowhere to say that stderr is gone.
                    let _ = io::stderr().lock().write_all(OUT_OF_TIME.as_bytes());
                }
                if shared.is_first() {
                    continue;
                }
                shared.clear();
                if let Some(terminal) = &terminal {
                    terminal.restore();
                }
                std::process::exit(Exit::Interrupted.code().into());
            }
        })?;
        Ok(this)
    }

    /// Sets the action of the first signal. Without an action there is no work to end in order, so the signal ends the
    /// process.
    pub(crate) fn on_first(&self, action: impl Fn() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).on_first = Some(Box::new(action));
    }

    /// Sets the work that is done before the second signal ends the process, such as removing the rows that show work
    /// in progress.
    pub(crate) fn on_end(&self, action: impl FnOnce() + Send + 'static) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).on_end = Some(Box::new(action));
    }

    /// Does the work of [`Interrupts::on_end`], and waits for it at most [`CLEARING`].
    fn clear(&self) {
        let action = self.0.lock().unwrap_or_else(PoisonError::into_inner).on_end.take();
        let Some(action) = action else { return };
        let (done, wait) = mpsc::channel();
        let started = thread::Builder::new().spawn(move || {
            action();
            let _ = done.send(());
        });
        if started.is_ok() {
            let _ = wait.recv_timeout(CLEARING);
        }
    }

    /// Returns true if a signal was handled before.
    fn came(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).came.is_some()
    }

    /// Runs the action if the signal is the first. Returns true if it is, and there is an action, or if the signal
    /// belongs to the first.
    fn is_first(&self) -> bool {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(came) = state.came {
            return came.elapsed() < TOGETHER;
        }
        let Some(action) = &state.on_first else { return false };
        action();
        state.came = Some(Instant::now());
        true
    }
}
