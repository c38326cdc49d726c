//! Events that the task of a session receives.

use crate::prompt::Prompt;
use agent_client_protocol::{
    Error,
    v1::{
        Responder,
        schema::{
            CreateElicitationResponse, PromptResponse, RequestPermissionResponse, SessionConfigOption,
            SetSessionConfigOptionRequest,
        },
    },
};
use llm_do::{FromRun, Report, core::question::QuestionId};
use tokio::sync::oneshot;

/// A signal to the session's task.
pub(crate) enum Signal {
    /// The user has sent a message.
    Prompt(Prompt, Responder<PromptResponse>),
    /// The user has stopped the answer.
    Cancel,
    /// The user has chosen an option.
    Option(SetSessionConfigOptionRequest, oneshot::Sender<Result<Vec<SessionConfigOption>, Error>>),
    /// A message of the run.
    Run(FromRun),
    /// The client's answer to a question that was put to it as a request for permission.
    Permitted(QuestionId, Result<RequestPermissionResponse, Error>),
    /// The client's answer to a question that was put to it as a form.
    Filled(QuestionId, Result<CreateElicitationResponse, Error>),
    /// The run has ended.
    Ended(Box<Report>),
    /// The session is over. Its run is cut off and can be resumed.
    Close,
}
