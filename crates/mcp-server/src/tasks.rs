//! Runs that wait for the operator of the server, as tasks of the protocol (the extension `io.modelcontextprotocol/tasks`).
//!
//! A run becomes a task when it is suspended and its client understands tasks. The task's ID is that of the run, and its state
//! is what the run's journal says: the operator continues the run with `llm-do runs resume` in another process, and a later
//! server finds it too.

use crate::{
    outcome,
    server::{Inner, Server},
    tool::ServedTool,
};
use llm_do::{
    Client, Decisions, Invocation, PastRun, Problem, ResumeError, RunOptions, Session,
    core::{
        authority::Place,
        journal::{Record, RecordKind, RunStatus},
        outcome::Ending,
    },
    program::visible,
    records::History,
    runs::{SealKey, is_run_id, is_running, read_own_journal},
};
use rmcp::{
    ErrorData,
    model::{CallToolResult, CreateTaskResult, DetailedTask, Task, TaskPayload, TaskStatus},
};
use serde::Deserialize as _;
use serde_json::Value;
use std::{path::PathBuf, sync::Arc};
use tokio::task::spawn_blocking;

/// How often a client should look, in milliseconds: a person answers.
const POLL_MS: u64 = 5_000;
/// Most characters of an ID in messages.
const LONGEST_ID: usize = 60;

/// The clients of a server of the program with that root, as the journals of its runs record them.
pub(crate) fn client(root: &Place) -> Client {
    Client { name: "mcp".into(), program: format!("mcp:{}", root.as_str()).into(), key: None }
}

/// What a client is told of a run.
pub(crate) struct Seen {
    run: String,
    /// Of the first and of the last record, in milliseconds since 1970.
    at_ms: (u64, u64),
    state: State,
}

/// The state of a run by its journal.
enum State {
    /// It has no result yet. The text says what it waits for.
    Working(String),
    /// It has a result.
    Ended(Box<CallToolResult>),
    /// It was cancelled. The text says how it can be continued.
    Cancelled(String),
}

impl Seen {
    /// Its result, if it has one.
    pub(crate) fn result(self) -> Result<CallToolResult, Self> {
        match self.state {
            State::Ended(result) => Ok(*result),
            state => Err(Self { state, ..self }),
        }
    }

    /// The answer to the call that started it.
    pub(crate) fn created(self) -> CreateTaskResult {
        CreateTaskResult::new(self.task().task)
    }

    /// As `tasks/get` shows it.
    pub(crate) fn task(self) -> DetailedTask {
        let [created, updated] = [self.at_ms.0, self.at_ms.1].map(time);
        let task = Task::new(self.run, TaskStatus::Working, created, updated).with_poll_interval_ms(POLL_MS);
        let (task, payload) = match self.state {
            State::Working(message) => (task.with_status_message(message), TaskPayload::Working),
            State::Cancelled(message) => (task.with_status_message(message), TaskPayload::Cancelled),
            State::Ended(result) => {
                // Results are objects that serialise.
                let result = serde_json::to_value(result).ok().and_then(|result| match result {
                    Value::Object(result) => Some(result),
                    _ => None,
                });
                (task, TaskPayload::Completed { result: result.unwrap_or_default() })
            }
        };
        DetailedTask::new(task, payload)
    }
}

impl Server {
    /// Looks at a run of this server's clients.
    ///
    /// # Errors
    /// There is none with that ID.
    pub(crate) async fn look(&self, id: &str) -> Result<Seen, ErrorData> {
        let (inner, run) = (Arc::clone(&self.0), id.to_owned());
        let seen = spawn_blocking(move || look(&inner, run)).await;
        seen.map_err(|error| ErrorData::internal_error(error.to_string(), None))?.ok_or_else(|| {
            let id = visible::start(id, LONGEST_ID);
            ErrorData::invalid_params(format!("there is no task `{id}`"), None)
        })
    }

    /// Cancels a run of this server's clients, also one that waits for the operator.
    ///
    /// # Errors
    /// There is none with that ID.
    pub(crate) async fn cancel(&self, id: &str) -> Result<(), ErrorData> {
        let seen = self.look(id).await?;
        if let Some(live) = self.0.runs.get(id).filter(|run| !run.has_ended()) {
            live.cancel();
            return Ok(());
        }
        let State::Working(_) = seen.state else { return Ok(()) };
        match self.end_suspended(id).await {
            Ok(()) => self.log(&format!("run {id}: the client has cancelled the task")),
            // The request says what the client wants. It need not succeed.
            Err(problem) => self.log(&format!(
                "run {id}: the client has cancelled the task, but the run can't be ended: {}",
                visible::line(&problem.to_string())
            )),
        }
        Ok(())
    }

    /// Continues a suspended run and cancels it at once, so that its journal has the end.
    async fn end_suspended(&self, id: &str) -> Result<(), Problem> {
        let (inner, run) = (Arc::clone(&self.0), id.to_owned());
        let continued = spawn_blocking(move || {
            let (session, past) = inner.past(&run)?;
            session.resume(past, Decisions::default(), None, None)
        });
        if let Ok(continued) = continued.await {
            let run = continued?;
            run.canceller().cancel();
            run.finish().await;
        }
        Ok(())
    }
}

impl Inner {
    /// The folder of that run, and the user's folder of llm-do.
    fn place(&self, run: &str) -> (PathBuf, PathBuf) {
        (self.runs_dir.join(run), self.home.clone())
    }

    /// A run that a client of this server, or of an earlier one of the same program, has started, and the session that
    /// continues it.
    ///
    /// # Errors
    /// There is no such run, another process continues it, or the program has changed since.
    pub(crate) fn past(&self, run: &str) -> Result<(Session, PastRun), Problem> {
        let unknown =
            || Problem::from(ResumeError::Unknown("no client of this server started it".to_owned()));
        if !is_run_id(run) {
            return Err(unknown());
        }
        let (dir, home) = self.place(run);
        let past = PastRun::open(&dir, &home)?;
        let tool = entry(past.records()).and_then(|entry| self.tool_of(entry)).ok_or_else(unknown)?;
        if past.invocation().client != tool.session.options().client {
            return Err(unknown());
        }
        let options = past.options(tool.session.options().clone())?;
        Ok((tool.session.with_options(RunOptions { can_ask: true, ..options })?, past))
    }

    fn tool_of(&self, entry: &str) -> Option<&ServedTool> {
        self.tools.values().find(|tool| **tool.worker() == *entry)
    }
}

/// Reads the journal of a run, if this server or an earlier one of the same program has started it for a client. It must be
/// sealed by this user: a project from somewhere else may bring runs along.
fn look(inner: &Inner, run: String) -> Option<Seen> {
    if !is_run_id(&run) {
        return None;
    }
    let (dir, home) = inner.place(&run);
    let records = read_own_journal(&dir, &SealKey::read(&home).ok()?).ok()?.records;
    let tool = inner.tool_of(entry(&records)?)?;
    let (first, last) = (records.first()?, records.last()?);
    let RecordKind::RunStarted { invocation: Some(invocation), .. } = &first.body else { return None };
    let invocation = Invocation::deserialize(&**invocation).ok()?;
    if invocation.client != tool.session.options().client {
        return None;
    }
    let at_ms = (first.at_ms, last.at_ms);
    let project = inner.project.as_deref();
    let ended = |result| State::Ended(Box::new(outcome::of_run(result, &run)));
    let state = match &last.body {
        RecordKind::RunEnded { status: RunStatus::Interrupted, .. } => {
            State::Cancelled(outcome::interrupted(&run, project))
        }
        RecordKind::RunEnded { ending: Ending::Output(value), .. } => ended(outcome::done(value, tool)),
        RecordKind::RunEnded { ending: Ending::Failure(failure), .. } => ended(outcome::failed(failure)),
        RecordKind::RunEnded { ending: Ending::Suspended, .. } => {
            let waiting = History::of(records).waiting();
            State::Working(outcome::suspended(&run, &waiting, project))
        }
        _ if is_running(&dir) => State::Working(format!("The run {run} is at work.")),
        _ => State::Working(outcome::cut_off(&run, project)),
    };
    Some(Seen { run, at_ms, state })
}

/// The worker that a run began with.
fn entry(records: &[Record]) -> Option<&str> {
    match &records.first()?.body {
        RecordKind::RunStarted { entry, .. } => Some(entry),
        _ => None,
    }
}

/// In the form of ISO 8601.
fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default().to_string()
}
