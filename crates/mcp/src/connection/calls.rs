//! Calls of tools: requests to a server, its questions to the user during a call, and cancellation.

use super::{Asked, Connection, Heard};
use crate::{
    elicit::{self, MOST_ROUNDS},
    http::Fault,
    transport::UNREADABLE,
};
use llm_do_core::function::UserAnswer;
use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientRequest,
        ElicitRequestParams, ElicitResult, InputRequest, InputRequiredResult, ProgressToken, RequestId,
        ServerResult,
    },
    service::PeerRequestOptions,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::{
    any::Any,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    sync::{RwLock, oneshot},
    time::{Instant, sleep},
};

/// Time before a request is sent again that the server wants to have again without an answer of the user.
const AGAIN: Duration = Duration::from_millis(500);

/// A request that was sent and has no answer yet.
pub(super) struct Sent {
    answer: oneshot::Receiver<Result<ServerResult, ServiceError>>,
    progress: ProgressToken,
    pending: Pending,
}

/// A request that waits for the user's answer to a question.
pub(super) struct Parked {
    sent: Sent,
    reply: oneshot::Sender<ElicitResult>,
}

/// A call of a tool.
pub(crate) struct Call<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: Map<String, Value>,
    /// The time that the call may take without a sign of progress.
    pub(crate) patience: Duration,
    /// The time that the call may take in total, from one question to the user to the next.
    pub(crate) most: Duration,
    /// The idempotency key, which is the same for every round.
    pub(crate) key: &'a str,
    /// The server's last questions with the user's answers, and how the call continues.
    pub(crate) answered: Option<(Continuation, Vec<(ElicitRequestParams, UserAnswer)>)>,
    /// The owner of the connection: it is held until the server has been sent notice of a cancelled call.
    pub(crate) keep: Arc<dyn Any + Send + Sync>,
}

/// The result of a call so far.
pub(crate) enum Called {
    /// The server's result.
    Done(CallToolResult),
    /// The server asks the user something first.
    Asks(Vec<ElicitRequestParams>, Continuation),
}

/// The way in which a call continues after a question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Continuation {
    /// Revision 2026-07-28: the request is made again, with the answers under these keys.
    Again { keys: Vec<String>, state: Option<String> },
    /// Earlier revisions: the request waits for the answer, as long as this process runs.
    Waits,
}

/// The reason for which a call has no result.
pub(crate) enum CallError {
    /// The server's answer to the request is an error.
    Answered(String),
    /// The server has not taken the request.
    Refused(String),
    /// The answer has not arrived, and the server may have carried out the call.
    Lost(String),
}

impl From<Fault> for CallError {
    fn from(fault: Fault) -> Self {
        if fault.refused { Self::Refused(fault.reason) } else { Self::Lost(fault.reason) }
    }
}

impl Connection {
    /// Cancels a call that waits for the user.
    pub(crate) fn give_up(&self, key: &str) {
        drop(self.parked().remove(key));
    }

    /// Calls a tool, or continues a call after a question to the user. A dropped call is cancelled at the server.
    ///
    /// # Errors
    /// The call has no result.
    pub(crate) async fn call(&self, mut call: Call<'_>) -> Result<Called, CallError> {
        let _counted = Counted::new(&self.heard);
        let params = CallToolRequestParams::new(call.tool.to_owned()).with_arguments(call.arguments.clone());
        let mut params = match call.answered.take() {
            None => params,
            Some((Continuation::Again { keys, state }, answers)) => {
                let answers = answers.iter().map(|(asked, answer)| elicit::response(asked, answer));
                with_state(params.with_input_responses(keys.into_iter().zip(answers).collect()), state)
            }
            Some((Continuation::Waits, answers)) => {
                let Some(parked) = self.parked().remove(call.key) else {
                    let reason =
                        "it waited for an answer of yours when the run was interrupted, and no longer does";
                    return Err(CallError::Lost(reason.to_owned()));
                };
                let mut parked = parked;
                parked.sent.pending.keep = Some(Arc::clone(&call.keep));
                if let Some((asked, answer)) = answers.first() {
                    let _ = parked.reply.send(elicit::result(asked, answer));
                }
                return self.wait(parked.sent, &call).await;
            }
        };
        for _ in 0..MOST_ROUNDS {
            let sent = self.send(params.clone(), &call).await?;
            match self.wait(sent, &call).await? {
                // It wants the request once more, later.
                Called::Asks(questions, Continuation::Again { state, .. }) if questions.is_empty() => {
                    params = with_state(params, state);
                    params.input_responses = None;
                    sleep(AGAIN).await;
                }
                called => return Ok(called),
            }
        }
        Err(CallError::Answered(format!("it asked for the same request {MOST_ROUNDS} times")))
    }

    async fn send(&self, params: CallToolRequestParams, call: &Call<'_>) -> Result<Sent, CallError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        match self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => {
                let pending = Pending {
                    peer: self.peer.clone(),
                    request: Some(handle.id.clone()),
                    telling: Arc::clone(&self.telling),
                    keep: Some(Arc::clone(&call.keep)),
                };
                Ok(Sent { answer: handle.rx, progress: handle.progress_token, pending })
            }
            Err(error) => Err(self.explain(&error).await.into()),
        }
    }

    /// Waits for the answer to a request, or for a question that comes before it.
    async fn wait(&self, mut sent: Sent, call: &Call<'_>) -> Result<Called, CallError> {
        let mut progress = self.heard.progress.subscribe();
        let (mut quiet, mut total) = (pin!(sleep(call.patience)), pin!(sleep(call.most)));
        let late = |after: Duration| {
            let after = after.as_secs_f64();
            CallError::Lost(format!("it did not answer within {after} s, and was told to stop"))
        };
        let answer = loop {
            tokio::select! {
                biased;
                answer = &mut sent.answer => break answer,
                Asked { asked, reply } = self.question() => {
                    // It is kept by the connection, which must not keep itself.
                    sent.pending.keep = None;
                    self.parked().insert(call.key.to_owned(), Parked { sent, reply });
                    return Ok(Called::Asks(vec![asked], Continuation::Waits));
                }
                sign = progress.recv() => {
                    // One that came too fast to be looked at may have been for this call.
                    if sign.map_or(true, |sign| sign == sent.progress) {
                        quiet.as_mut().reset(Instant::now() + call.patience);
                    }
                }
                () = &mut quiet => return Err(late(call.patience)),
                () = &mut total => return Err(late(call.most)),
            }
        };
        sent.pending.request = None;
        match answer.unwrap_or(Err(ServiceError::TransportClosed)) {
            Ok(ServerResult::CallToolResult(result)) => Ok(Called::Done(self.clean(result).await)),
            Ok(ServerResult::EmptyResult(_)) => Ok(Called::Done(CallToolResult::default())),
            Ok(ServerResult::InputRequiredResult(wanted)) => asks(wanted),
            Ok(_) => Err(CallError::Lost("its answer can't be read: it is no result of a tool".to_owned())),
            Err(ServiceError::McpError(error)) if error.code == UNREADABLE => {
                Err(CallError::Lost(error.message.into_owned()))
            }
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Answered(self.clean(error.message.into_owned()).await))
            }
            Err(error) => Err(self.explain(&error).await.into()),
        }
    }

    /// Waits for the next question of the server.
    async fn question(&self) -> Asked {
        loop {
            match self.questions.lock().await.recv().await {
                // The server may have withdrawn it.
                Some(asked) if asked.reply.is_closed() => {}
                Some(asked) => return asked,
                None => std::future::pending().await,
            }
        }
    }
}

/// Counts a call that is under way.
struct Counted<'a>(&'a Heard);

impl<'a> Counted<'a> {
    fn new(heard: &'a Heard) -> Self {
        heard.calls.fetch_add(1, Ordering::AcqRel);
        Self(heard)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

fn with_state(params: CallToolRequestParams, state: Option<String>) -> CallToolRequestParams {
    match state {
        Some(state) => params.with_request_state(state),
        None => params,
    }
}

/// Returns the questions that a server of revision 2026-07-28 asks before it continues.
fn asks(wanted: InputRequiredResult) -> Result<Called, CallError> {
    let (mut keys, mut questions) = (Vec::new(), Vec::new());
    for (key, request) in wanted.input_requests.unwrap_or_default() {
        match request {
            InputRequest::Elicitation(request) => {
                keys.push(key);
                questions.push(request.params);
            }
            _ => {
                let reason =
                    "it wants a model's answer or a list of folders, which llm-do does not offer to servers";
                return Err(CallError::Answered(reason.to_owned()));
            }
        }
    }
    Ok(Called::Asks(questions, Continuation::Again { keys, state: wanted.request_state }))
}

/// Cancels a request whose caller is gone. The caller's run may end at the same time.
struct Pending {
    peer: Peer<RoleClient>,
    request: Option<RequestId>,
    telling: Arc<RwLock<()>>,
    keep: Option<Arc<dyn Any + Send + Sync>>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        let Some(request) = self.request.take() else { return };
        let (peer, keep) = (self.peer.clone(), self.keep.take());
        let telling = Arc::clone(&self.telling).try_read_owned();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let reason = Some("the call was cancelled".to_owned());
                let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(request), reason)).await;
                drop((telling, keep));
            });
        }
    }
}
