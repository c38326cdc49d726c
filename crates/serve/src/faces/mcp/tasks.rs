//! Runs that wait for the operator of the server, as tasks of the protocol (the extension `io.modelcontextprotocol/tasks`).
//!
//! A run becomes a task when it waits for the operator and its client understands tasks. The task's ID is that of the run, and its
//! state is that of the run: a later server finds it too.

use super::{
    caller::{Caller, shortened},
    outcome::Outcome,
};
use crate::{
    error::ApiError,
    live::now_ms,
    service::Continued,
    token::Scope,
    views::{RunView, State},
};
use llm_do::program::visible;
use rmcp::{
    ErrorData, RoleServer,
    model::{CreateTaskResult, DetailedTask, Task, TaskPayload, TaskStatus},
    service::RequestContext,
};
use serde_json::Value;

/// The interval at which a client should poll a task, in milliseconds. It is long because a person answers.
const POLL_MS: u64 = 5_000;

/// The answer to the call that started a run, which waits.
pub(super) fn created(view: &RunView, message: String) -> CreateTaskResult {
    CreateTaskResult::new(task(view).with_status_message(message))
}

/// A run as `tasks/get` shows it.
pub(super) fn detailed(view: &RunView, outcome: Outcome) -> DetailedTask {
    let (task, payload) = match (task(view), outcome) {
        (task, Outcome::Working(message)) => (task.with_status_message(message), TaskPayload::Working),
        (task, Outcome::Cancelled(message)) => (task.with_status_message(message), TaskPayload::Cancelled),
        (task, Outcome::Ended(result)) => {
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

fn task(view: &RunView) -> Task {
    let ended_ms = view.took_ms.map(|took_ms| view.started_ms.saturating_add(took_ms));
    let [created, updated] = [view.started_ms, ended_ms.unwrap_or_else(now_ms)].map(time);
    Task::new(view.run.to_string(), TaskStatus::Working, created, updated).with_poll_interval_ms(POLL_MS)
}

impl Caller {
    /// Looks at a run of this server's clients.
    ///
    /// # Errors
    /// The caller can see no run with that ID.
    pub(super) async fn look(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(RunView, Outcome), ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("there is no task `{}`", shortened(id)), None);
        if !self.token.has(Scope::Read) {
            let why = ApiError::without_scope(Scope::Read);
            return Err(ErrorData::invalid_params(why.detail().to_owned(), None));
        }
        let view = self.service.run(&self.token, id).await.map_err(|_| unknown())?;
        let session = self.sessions()?.into_iter().find(|session| session.entry().id == view.worker);
        let session = session.filter(|_| *view.program == *self.program).ok_or_else(unknown)?;
        let outcome = Outcome::of(&view, &session, &self.operator(context, &session));
        Ok((view, outcome))
    }

    /// Cancels a run of this server's clients, also one that waits for the operator.
    ///
    /// # Errors
    /// The caller can see no run with that ID.
    pub(super) async fn cancel(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (view, _) = self.look(id, context).await?;
        if let Err(error) = self.end(&view).await {
            // The request says what the client wants. It need not succeed.
            self.service.log(&format!(
                "run {id}: the client has cancelled the task, but the run can't be ended: {}",
                visible::line(error.detail())
            ));
        }
        Ok(())
    }

    /// Ends a run. A suspended run is continued and cancelled at once, so that its journal records the end.
    async fn end(&self, view: &RunView) -> Result<(), ApiError> {
        let Self { service, token, .. } = self;
        if !matches!(view.state, State::Queued | State::Running | State::Waiting | State::CutOff) {
            return Ok(());
        }
        if view.client != *token.name() {
            self.may_answer()?;
        }
        if service.live(token, &view.run).is_none() {
            let (Continued::Now(live) | Continued::Before(live)) =
                service.continue_with(token, &view.run, Vec::new()).await?;
            live.cancel();
            live.ended().await;
            return Ok(());
        }
        service.cancel(token, &view.run).map(drop)
    }
}

/// Formats a time in milliseconds since 1970 as ISO 8601.
fn time(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    time.unwrap_or_default().to_string()
}
