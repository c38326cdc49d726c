//! Launching a run: one top-level call, from the start record to the end record.
//!
//! Every host launches in the same way, whether it is a terminal, a server, a replay or a browser: see
//! `docs/architecture.md`. The host supplies the driver, the models, the files and the date; this module has none of
//! them.

mod counts;
mod preview;

pub use counts::{Counts, Tally, unknown_finish_note};

use crate::{
    attachment::Attachment,
    authority::Authority,
    budget::Budget,
    call_path::CallPath,
    definition::WorkerDefinition,
    engine::{Call, Engine, Explained, Frame, RunContext},
    function::Function,
    journal::{FORMAT, RecordKind, RunStatus, Runtime, UsedDefinition},
    ledger::{self, Account, Left},
    model::Usage,
    origin::{Origin, Origins},
    outcome::{End, Failure, FailureKind, Halt, Outcome, Stop},
    question::Requester,
    schema::sha256,
    send::BoxFuture,
    step_name::StepName,
    worker,
};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The parameters of a top-level call.
pub struct Launch {
    /// The dependencies that the host injects. The start record takes the run's ID, its date and its mode from here.
    pub context: RunContext,
    /// The worker that is called: any worker of the program.
    pub entry: Arc<WorkerDefinition>,
    /// The entry's input, complete and valid.
    pub input: Arc<Value>,
    /// The origins of the parts of the input: the operator, or another person or program.
    pub input_origins: Origins,
    /// The origin of the user's words during the run: messages and answers.
    pub user: Origin,
    /// Files that the operator attaches.
    pub attachments: Vec<Attachment>,
    /// The authority of the call.
    pub authority: Authority,
    /// The budget of the run.
    pub budget: Budget,
    /// The records that the launch writes itself.
    pub records: RunRecords,
    /// Counts the run's records. The host passes each record to it.
    pub tally: Arc<Tally>,
    /// A wait between the start record and the call, such as for a place among the runs of a service. The time is not
    /// working time.
    pub held: Option<BoxFuture<'static, ()>>,
}

/// The records that a launch writes around the call.
#[derive(Clone, Debug)]
pub enum RunRecords {
    /// A new run: the start record and the end record.
    New(RunStart),
    /// A run that was suspended or interrupted: only a further end record, since its journal has a start.
    Resumed,
    /// None: a replay compares with the records of another run, and a preview is discarded.
    None,
}

/// The data of the start record in addition to the [`RunContext`].
#[derive(Clone, Debug, Default)]
pub struct RunStart {
    /// Version of the program that runs it.
    pub version: Arc<str>,
    /// The target of the run, as the operator named it.
    pub target: Arc<str>,
    /// The definitions that are loaded.
    pub definitions: Vec<UsedDefinition>,
    /// The runtimes for the code of tools.
    pub runtimes: Vec<Runtime>,
    /// The data that the host needs to start the same run again.
    pub invocation: Option<Arc<Value>>,
    /// The person or program that starts the run, and the channel.
    pub requester: Option<Requester>,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct LaunchReport {
    /// The status.
    pub status: RunStatus,
    /// The output or the failure; for a suspended run its open questions.
    pub end: End,
    /// The origins of the output or the failure.
    pub origins: Origins,
    /// Tokens of the whole run.
    pub usage: Usage,
    /// The counts of the tally.
    pub counts: Counts,
    /// Time from the first record to the last.
    pub took: Duration,
    /// The rest of the run's budget, if it has one.
    pub left: Option<Left>,
    /// The reason why the run stopped early, if it did.
    pub halt: Option<Halt>,
}

impl Launch {
    /// Makes the call and writes the records around it. Every toolset is informed when the call has ended, whatever its
    /// end.
    pub fn run(self) -> impl Future<Output = LaunchReport> {
        self.run_within(|call| call)
    }

    /// Runs like [`Launch::run`], and polls the call inside `within`. A host whose driver can stop polling a run
    /// (because the journal can't be written) passes that driver's wrapper; the end of the run stays outside of it.
    pub fn run_within<F>(
        mut self,
        within: impl FnOnce(BoxFuture<'static, Result<Outcome, Halt>>) -> F,
    ) -> impl Future<Output = LaunchReport>
    where
        F: Future<Output = Result<Outcome, Halt>>,
    {
        let driver = Arc::clone(&self.context.driver);
        let toolsets = Arc::clone(&self.context.toolsets);
        let run = Arc::clone(&self.context.run);
        let tally = Arc::clone(&self.tally);
        let budget = self.budget;
        let has_end_record = !matches!(self.records, RunRecords::None);
        // A run spends nearly all of its time in the call, and thousands may wait at once. What the call needs is therefore
        // moved into one box before the future exists: a future keeps room for everything that was moved through it.
        let held = self.held.take();
        let entry = self.entry();
        async move {
            let started_ms = driver.now_ms();
            let account = Box::pin(ledger::open_run(budget, &*driver)).await;
            let result = within(Box::pin(entry.start_and_call(account.clone(), held))).await;
            let left = match &account {
                Some(account) => Some(driver.shared().left(account).await),
                None => None,
            };
            let notices = Box::pin(toolsets.ended(&run)).await;

            let (mut status, mut end, origins, usage, mut halt) = match result {
                Ok(Outcome { end, origins, usage, .. }) => (status_of(&end), end, origins, usage, None),
                Err(halt) => {
                    let status = match halt {
                        Halt::Cancelled => RunStatus::Interrupted,
                        _ => RunStatus::Failed,
                    };
                    let failure = Failure::new(FailureKind::Tool, halt.to_string());
                    (status, End::Failed(failure), Origins::TRUSTED, tally.counts().usage, Some(halt))
                }
            };
            if has_end_record {
                for text in notices {
                    // Named by its text: a resumed run does not repeat a notice.
                    let step = StepName::Other(format!("notice.{}", &sha256(text.as_bytes())[..16]).into());
                    let written =
                        driver.record(&CallPath::root(), step, RecordKind::Note { text: text.into() });
                    halt = halt.or(written.err());
                }
                // The operator can remove the cause of a halt (a full disk, a changed program). Then the run can be resumed.
                let recorded = match &halt {
                    Some(Halt::Journal(_) | Halt::Diverged { .. }) => RunStatus::Interrupted,
                    Some(Halt::Cancelled | Halt::Aborted { .. }) | None => status,
                };
                let ended = RecordKind::RunEnded { status: recorded, ending: end.to_ending(), usage };
                let written = driver.record(&CallPath::root(), StepName::Run, ended);
                halt = halt.or(written.err());
                halt = halt.or(driver.settled().await.err());
                // A result that is in no journal would be shown once and be lost with the process: it is no result yet. A
                // resumed run comes to it again.
                if let Some(unrecorded @ Halt::Journal(_)) = &halt
                    && !matches!(end, End::Failed(_))
                {
                    let failure = Failure::new(
                        FailureKind::Tool,
                        format!("the end of the run is not recorded: {unrecorded}"),
                    );
                    (status, end) = (RunStatus::Failed, End::Failed(failure));
                }
            }
            LaunchReport {
                status,
                end,
                origins,
                usage,
                counts: tally.counts(),
                took: Duration::from_millis(driver.now_ms().saturating_sub(started_ms)),
                left,
                halt,
            }
        }
    }

    /// Makes the call alone, for a host that makes several calls in one run. That host calls
    /// [`crate::toolset::ToolsetRegistry::ended`] after the last one.
    ///
    /// # Errors
    /// Only errors that stop the run.
    pub async fn call(self) -> Result<Outcome, Halt> {
        let account = ledger::open_run(self.budget, &*self.context.driver).await;
        self.entry().call(account).await
    }

    /// The parts of the call. `start` is the record before it, if this launch writes one.
    fn entry(self) -> Box<Entry> {
        let Self { context, entry, input, input_origins, user, attachments, authority, records, .. } = self;
        let start = match records {
            RunRecords::Resumed | RunRecords::None => None,
            RunRecords::New(RunStart { version, target, definitions, runtimes, invocation, requester }) => {
                Some(Box::new(RecordKind::RunStarted {
                    format: FORMAT,
                    run: Arc::clone(&context.run),
                    version,
                    target,
                    entry: Arc::clone(&entry.id),
                    chat: context.chat,
                    approval: context.gate.mode,
                    date: Arc::clone(&context.date),
                    definitions,
                    runtimes,
                    invocation,
                    requester,
                }))
            }
        };
        Box::new(Entry {
            function: worker::function(&entry, &entry.id, false, None),
            authority: Arc::new(authority),
            engine: Engine::new(context),
            input,
            input_origins,
            user,
            attachments,
            start,
        })
    }

    /// The record that would begin the entry's conversation, with the rendered instructions, the first message and the
    /// tools. Sends nothing and writes nothing: the driver, the budget and the records of this launch are not used.
    ///
    /// # Errors
    /// The run would fail before its first request.
    pub async fn preview(self) -> Result<RecordKind, Failure> {
        preview::first_request(self).await
    }

    /// The gate's decision about a call that the entry's model makes, and the rule that decides. Sends, asks and runs
    /// nothing, and writes nothing.
    ///
    /// # Errors
    /// The run would fail before its first request, or the entry has no such tool.
    pub async fn explain(self, tool: &str, arguments: &Value) -> Result<Explained, Failure> {
        let Self { context, entry, input, input_origins, user, authority, .. } = preview::discarding(self).0;
        let (toolsets, run) = (Arc::clone(&context.toolsets), Arc::clone(&context.run));
        let engine = Engine::new(context);
        let frame = Frame::operator(Arc::new(authority)).with_input(&input, input_origins, user);
        let explained = worker::explain(&engine, &entry, &frame, &input, tool, arguments).await;
        toolsets.ended(&run).await;
        explained.map_err(|stop| match stop {
            Stop::Failed(failure) => failure,
            Stop::Suspended(_) => {
                Failure::new(FailureKind::Denied, "the entry waits for the operator before its first request")
            }
            Stop::Halt(halt) => Failure::new(FailureKind::Tool, halt.to_string()),
        })
    }
}

/// The parts of the top-level call.
struct Entry {
    engine: Engine,
    function: Function,
    authority: Arc<Authority>,
    input: Arc<Value>,
    input_origins: Origins,
    user: Origin,
    attachments: Vec<Attachment>,
    /// The start record of the run, until it is written.
    start: Option<Box<RecordKind>>,
}

impl Entry {
    async fn start_and_call(
        mut self: Box<Self>,
        account: Option<Arc<Account>>,
        held: Option<BoxFuture<'static, ()>>,
    ) -> Result<Outcome, Halt> {
        if let Some(start) = self.start.take() {
            self.engine.host().driver.record(&CallPath::root(), StepName::Run, *start)?;
        }
        if let Some(held) = held {
            self.engine.host().driver.unrecorded(held).await?;
        }
        self.call(account).await
    }

    async fn call(&self, account: Option<Arc<Account>>) -> Result<Outcome, Halt> {
        let frame = Frame::operator(Arc::clone(&self.authority))
            .with_input(&self.input, self.input_origins.clone(), self.user)
            .within(account);
        let call = Call {
            path: CallPath::root(),
            function: &self.function,
            input: Arc::clone(&self.input),
            frame: &frame,
            attachments: &self.attachments,
            by_operator: true,
        };
        self.engine.call(call).await
    }
}

/// The status of the run that follows from the end of the top-level call.
fn status_of(end: &End) -> RunStatus {
    match end {
        End::Done(_) => RunStatus::Done,
        End::Suspended(_) => RunStatus::Suspended,
        End::Failed(failure) => match failure.kind {
            FailureKind::Limit | FailureKind::Timeout => RunStatus::Limit,
            FailureKind::Blocked | FailureKind::Denied => RunStatus::Refused,
            _ => RunStatus::Failed,
        },
    }
}
