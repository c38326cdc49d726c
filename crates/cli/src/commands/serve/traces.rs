//! Traces of runs that are over, sent to a collector one after another. Each run is sent once, when it ends.

use crate::{commands::runs::collector, exit::Complaint, render::Output};
use llm_do_records::otlp;
use llm_do_runs::read_run;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

/// The most runs that wait to be sent. No trace is sent of further ones, and the log says so.
const MOST_WAITING: usize = 10_000;
/// The number of attempts to send a trace.
const TRIES: u32 = 3;
/// Time before the second attempt.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest time for waiting traces when the server ends.
const END_WITHIN: Duration = Duration::from_secs(5);

/// A sender of traces.
pub(super) struct Traces {
    waiting: Mutex<Option<SyncSender<PathBuf>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    output: Output,
}

impl Traces {
    /// Returns a sender to the collector at that address.
    ///
    /// # Errors
    /// The address is not valid.
    pub(super) fn to(address: &str, content: bool, output: &Output) -> Result<Arc<Self>, Complaint> {
        collector::endpoint(address)?;
        let (waiting, taken) = sync_channel::<PathBuf>(MOST_WAITING);
        let (address, log) = (address.to_owned(), output.clone());
        let thread = thread::spawn(move || {
            for dir in taken {
                if let Err(reason) = send(&address, &dir, content) {
                    let run = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    log.warn(&format!("run {run}: its trace was not sent: {reason}"));
                }
            }
        });
        Ok(Arc::new(Self {
            waiting: Mutex::new(Some(waiting)),
            thread: Mutex::new(Some(thread)),
            output: output.clone(),
        }))
    }

    /// Queues the run in that folder, which is over.
    pub(super) fn ended(&self, run_dir: &Path) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = waiting.as_ref().is_some_and(|waiting| waiting.try_send(run_dir.to_owned()).is_ok());
        if !sent {
            let run = run_dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            self.output.warn(&format!("run {run}: its trace was not sent: too many wait for the collector"));
        }
    }

    /// Sends the waiting traces, for a limited time.
    pub(super) fn finish(&self) {
        drop(self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let deadline = Instant::now() + END_WITHIN;
        while !thread.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        if !thread.is_finished() {
            self.output.warn("some traces were not sent: the collector is too slow");
        }
    }
}

fn send(address: &str, dir: &Path, content: bool) -> Result<(), String> {
    let run = read_run(dir).map_err(|error| error.to_string())?;
    let mut pause = PAUSE;
    for tried in 1.. {
        match collector::send(address, otlp(&run, content)) {
            Ok(_) => break,
            Err(complaint) if tried >= TRIES => return Err(complaint.message),
            Err(_) => {
                thread::sleep(pause);
                pause *= 2;
            }
        }
    }
    Ok(())
}
