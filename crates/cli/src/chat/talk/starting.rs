//! Runs of the chat: how they start, and the chat's handle to one.

use crate::{exit::Exit, opening::NotReady};
use llm_do::{Report, Run, program::Diagnostic};
use llm_do_core::{
    gate::{Gate, RuleLine},
    journal::{Record, RecordKind, RunStatus},
    launch::Counts,
    model::Usage,
    origin::Origins,
    outcome::{End, Failure, FailureKind},
    worker::WorkerDefinition,
};
use llm_do_runs::{Canceller, Interjector, Stopper};
use serde_json::Value;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

/// The beginning of a conversation.
pub(in crate::chat) enum Begins {
    /// The user does something first.
    WithUser,
    /// The user has said this on the command line.
    Said(Result<Started, NotReady>, String),
    /// A started run that needs no message of the user.
    Run(Started),
    /// A run that was begun before, with its records.
    Again(Started, Vec<Record>),
}

impl Begins {
    /// Interrupts the run that was started, which can be resumed.
    pub(in crate::chat) fn cancel(self) {
        if let Self::Said(Ok(started), _) | Self::Run(started) | Self::Again(started, _) = self {
            started.cancel();
        }
    }
}

/// The chat or run that the user left.
pub(in crate::chat) enum Left {
    /// A chat.
    Chat(Exit),
    /// A run, which has ended or waits.
    Run(Box<Report>),
}

/// The port through which a chat starts runs.
pub(in crate::chat) trait Starter {
    /// Starts a run with that first message and these files of the program.
    fn start(&mut self, message: String, files: &[String]) -> Result<Started, NotReady>;
    /// Starts a run with the input from the command line.
    fn begin(&mut self) -> Result<Started, NotReady>;
    /// Starts a run in which the user speaks first.
    fn listen(&mut self) -> Result<Started, NotReady>;
    /// Returns the record of the conversation's beginning in such a run. Nothing is started.
    fn preview(&self) -> Result<RecordKind, NotReady>;
    /// Continues the chat in that folder. Also returns its records.
    fn resume(&mut self, dir: &Path) -> Result<(Started, Vec<Record>), NotReady>;
    /// Returns the rules of the run, beside those of its workers.
    fn gate(&self) -> &Gate;
    /// Returns the problems of a new rule.
    fn check(&self, rule: &RuleLine) -> Vec<Diagnostic>;
    /// Checks that the paths exist that an input of a worker hands over.
    fn check_paths(&self, worker: &WorkerDefinition, input: &Value) -> Result<(), String>;
    /// Copies the chat in that folder, which waits. Returns the folder of the copy.
    fn fork(&mut self, dir: &Path) -> Result<PathBuf, NotReady>;
}

/// A started run, on a thread of its own.
pub(in crate::chat) struct Started {
    pub(super) id: Arc<str>,
    pub(super) stopper: Stopper,
    pub(super) canceller: Canceller,
    pub(super) interjector: Interjector,
    pub(super) thread: JoinHandle<()>,
}

impl Started {
    /// Runs the run on a thread. `ended` is called with its report.
    pub(in crate::chat) fn spawn(
        runtime: tokio::runtime::Runtime,
        run: Run,
        ended: impl FnOnce(Report) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (id, stopper, canceller) = (Arc::clone(run.id()), run.stopper(), run.canceller());
        let interjector = run.interjector();
        let finish = move || {
            let (id, dir) = (Arc::clone(run.id()), run.dir().to_owned());
            // A thread that ends without a report would leave the user with a chat that waits for good.
            let finished = catch_unwind(AssertUnwindSafe(|| runtime.block_on(run.finish())));
            let report = finished.unwrap_or_else(|_| broken(id, dir));
            // A model that is cut off in the middle of its work is not waited for.
            runtime.shutdown_background();
            ended(report);
        };
        let thread = std::thread::Builder::new().name("run".into()).spawn(finish)?;
        Ok(Self { id, stopper, canceller, interjector, thread })
    }

    /// Interrupts the run, and waits for its end.
    pub(super) fn cancel(self) {
        self.canceller.cancel();
        let _ = self.thread.join();
    }
}

/// Returns the report of a run that ended with an error of llm-do itself.
fn broken(run: Arc<str>, dir: PathBuf) -> Report {
    let message = format!(
        "an error of llm-do itself, which is shown above, has ended the chat; `llm-do chat --resume {run}` continues it"
    );
    Report {
        run,
        dir,
        status: RunStatus::Failed,
        end: End::Failed(Failure::new(FailureKind::Tool, message)),
        origins: Origins::TRUSTED,
        usage: Usage::default(),
        took: Duration::ZERO,
        counts: Counts::default(),
        left: None,
        halt: None,
        over_budget: None,
    }
}
